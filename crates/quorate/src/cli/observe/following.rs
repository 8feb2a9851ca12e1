//! The observer as it runs: a node without an id that copies the log, and who reads along.
//!
//! The node finds leaders and goes on after losses by itself; what is asked here beside it, now and
//! then, is only shown.

use super::feed::{Look, Next, Observed, Reader, Seen};
use super::metrics::{self, Heard};
use super::show::Printer;
use crate::cli::controllers::{Quorum, Silence, describe};
use crate::cli::{Outcome, failed, out};
use indicatif::{ProgressBar, ProgressStyle};
use quorate::{Cleanup, Config, Consistency, Embedded, HostPort, Offset, ReplicaId, Span};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

/// How long nothing may come while there is more to come.
const STALL_TIME: Duration = Duration::from_secs(30);
/// After so long it is looked why nothing comes.
const STILL_TIME: Duration = Duration::from_secs(2);
/// How often it is looked whether everything has come.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Who waits for longer sees how far it is.
const BAR_TIME: Duration = Duration::from_secs(1);
/// How often the quorum is asked while its log is followed.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// The number in `meta.properties` of an observer's directory, which has to have one: no node of a
/// cluster is called so, and the observer itself does not use it.
const NOBODY: ReplicaId = ReplicaId(i32::MAX as u32);

/// A node and its reader.
pub(super) struct Following {
    /// `None` once it was stopped.
    node: Option<Embedded<Observed>>,
    reader: Reader,
}

impl Drop for Following {
    /// Before its directory is removed.
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            // Why it ended, if it did, is of no interest to who gives it up.
            let _ = node.stop();
        }
    }
}

impl Following {
    /// Starts it in this directory.
    pub(super) fn start(
        directory: &Path,
        quorum: &Quorum,
        servers: &[HostPort],
    ) -> Outcome<Following> {
        let any = HostPort { host: "127.0.0.1".into(), port: 0 };
        let config = Config {
            bootstrap: servers.to_vec(),
            cleanup: Cleanup::Delete,
            // A full disk ends this command, and nobody waits for it.
            reserve_bytes: 0,
            ..Config::new(Some(NOBODY), directory.to_owned(), Vec::new(), any)
        };
        if let Err(error) = quorate::format(&config, Some(&quorum.cluster)) {
            return failed(format!(
                "cannot keep a copy of the log: {error}; name another directory with --dir"
            ));
        }
        let (machine, reader) = Observed::new();
        match Embedded::start(Config { id: None, ..config }, machine) {
            Ok(node) => Ok(Following { node: Some(node), reader }),
            Err(error) => failed(format!("the observer does not start: {error}")),
        }
    }

    /// Waits until it holds all below this offset. The state, and where it ends.
    pub(super) async fn catch_up(&mut self, upto: u64) -> Outcome<(Seen, u64)> {
        let Some(handle) = self.node.as_ref().map(Embedded::handle) else {
            return failed("the observer stopped");
        };
        let bar = Bar::new(upto);
        let (mut before, mut downloaded, mut since) = (0, 0, Instant::now());
        loop {
            let look = |look| handle.read(look, Consistency::Local, Span::ms(5_000));
            let Ok((_, Offset(end))) = look(Look::State).await else { return self.ended() };
            if end >= upto {
                let Ok((seen, Offset(end))) = look(Look::Keys).await else { return self.ended() };
                return Ok((seen, end));
            }
            if end > before {
                (before, since) = (end, Instant::now());
            }
            // The status costs a walk over the state, so it is looked at only where nothing moves.
            if since.elapsed() > STILL_TIME {
                let status = handle.status().await.ok();
                let come = status.as_ref().and_then(|status| status.download);
                let come = come.map_or(0, |download| download.bytes);
                if come > downloaded {
                    (downloaded, since) = (come, Instant::now());
                } else if since.elapsed() > STALL_TIME {
                    return stalled(end, upto, status.and_then(|status| status.not_ready_because));
                }
            }
            bar.show(end, downloaded);
            sleep(LOOK_EVERY).await;
        }
    }

    /// Prints what happens from this offset on, until the node ends.
    pub(super) async fn follow(
        &mut self,
        from: u64,
        printer: Printer,
        quorum: Quorum,
        servers: &[HostPort],
        metrics: Option<TcpListener>,
    ) -> Outcome {
        self.reader.seek(from);
        let has_metrics = metrics.is_some();
        let (heard, _) = watch::channel(Heard { quorum: quorum.clone(), answers: true });
        if let (Some(listener), Some(node)) = (metrics, &self.node) {
            tokio::spawn(metrics::serve(listener, node.handle(), heard.subscribe()));
        }
        let mut asked = ask_now_and_then(servers.to_vec());
        let (mut answers, mut led) = (true, (quorum.leader, quorum.epoch));
        loop {
            while let Some(next) = self.reader.next() {
                match next {
                    Next::Change(change) => printer.change(&change),
                    Next::Gap { from, end } => printer.gap(from, end),
                }
            }
            if out::closed() && !has_metrics {
                return Ok(());
            }
            tokio::select! {
                more = self.reader.more() => {
                    if !more {
                        return Ok(());
                    }
                }
                Some(said) = asked.recv() => {
                    let answered = said.is_ok();
                    heard.send_modify(|heard| {
                        heard.answers = answered;
                        if let Ok(quorum) = &said {
                            heard.quorum = quorum.clone();
                        }
                    });
                    if answered && !answers {
                        printer.reachable();
                    }
                    match said {
                        Ok(quorum) if led != (quorum.leader, quorum.epoch) => {
                            printer.leader(&quorum);
                            led = (quorum.leader, quorum.epoch);
                        }
                        Ok(_) => {}
                        Err(silence) if answers => printer.unreachable(silence.text()),
                        Err(_) => {}
                    }
                    answers = answered;
                }
            }
        }
    }

    /// The node ended by itself, before it was asked to.
    fn ended<T>(&mut self) -> Outcome<T> {
        match self.node.take().map(Embedded::stop) {
            Some(Err(fatal)) => failed(format!("the observer had to stop: {fatal}")),
            Some(Ok(())) | None => failed("the observer stopped before it had copied the log"),
        }
    }

    /// Ends the node; why it ended, if it did so by itself.
    pub(super) fn stop(mut self) -> Outcome {
        match self.node.take().map(Embedded::stop) {
            Some(Err(fatal)) => failed(format!("the observer had to stop: {fatal}")),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

/// How far the copy is, for a person at a terminal who has waited for a while.
struct Bar {
    bar: ProgressBar,
    since: Instant,
    upto: u64,
}

impl Bar {
    fn new(upto: u64) -> Bar {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        Bar { bar, since: Instant::now(), upto }
    }

    fn show(&self, end: u64, downloaded: u64) {
        if self.since.elapsed() < BAR_TIME {
            return;
        }
        let snapshot = match downloaded {
            0 => String::new(),
            bytes => format!(", {bytes} bytes of a snapshot"),
        };
        self.bar.set_message(format!("copying the log: offset {end} of {}{snapshot}", self.upto));
        self.bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn stalled<T>(end: u64, upto: u64, why: Option<String>) -> Outcome<T> {
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    failed(format!(
        "copied the log up to offset {end} of {upto}, and nothing has come for {} s{why}",
        STALL_TIME.as_secs()
    ))
}

/// What the quorum says of itself, now and then; beside the log, so that neither waits for the
/// other.
fn ask_now_and_then(servers: Vec<HostPort>) -> mpsc::Receiver<Result<Quorum, Silence>> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        // Ends with whoever listened.
        while tell.send(describe(&servers).await).await.is_ok() {
            sleep(ASK_EVERY).await;
        }
    });
    told
}
