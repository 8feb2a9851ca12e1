//! `quorate quorum resign`: the leader hands over, and the command tells who leads then.
//!
//! Over HTTP, so of nodes of ours alone: Kafka's protocol has no such request.

use super::patience::Patience;
use super::report::why;
use super::{Asked, Nodes, ask_all_within, ask_one, best, failed, leads, out};
use crate::cli::Outcome;
use crate::cli::client::{Answer, Ask, Silence, Url};
use bytes::Bytes;
use clap::Parser;
use quorate_node::status::Status;
use serde_json::json;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How often it is looked who leads: nobody tells a command.
const PAUSE: Duration = Duration::from_millis(100);

/// Let another voter lead.
#[derive(Parser)]
pub(super) struct Resign {
    #[command(flatten)]
    nodes: Nodes,
    /// How long all of it may take, until another node leads
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = super::voters::seconds)]
    timeout: Duration,
    /// Print facts as JSON
    #[arg(long)]
    json: bool,
}

/// Who leads in the highest epoch that anybody of those asked knows, and answers itself.
fn leader(asked: &[Asked]) -> Option<(&Url, &Status)> {
    let best = best(asked).filter(|best| leads(best))?;
    let found = asked.iter().find(|asked| asked.said.as_ref().is_ok_and(|said| said == best));
    found.map(|asked| (&asked.url, best))
}

/// What is known of the leadership.
#[derive(Default)]
struct Known {
    before: Option<u32>,
    leader: Option<u32>,
    epoch: Option<u32>,
}

pub(super) async fn resign(args: Resign) -> Outcome {
    let mut known = Known::default();
    let outcome = hand_over(&args, &mut known).await;
    if args.json {
        let Known { before, leader, epoch } = known;
        let error = why(&outcome);
        out::json(&json!({ "leader": leader, "epoch": epoch, "before": before, "error": error }));
    }
    outcome
}

async fn hand_over(args: &Resign, known: &mut Known) -> Outcome {
    let patience = Patience::new(args.timeout);
    let asked = ask_all_within(&args.nodes, Some(patience.round())).await?;
    let Some((url, before)) = leader(&asked) else {
        let named = best(&asked).and_then(|status| status.leader);
        return failed(match named {
            Some(id) => format!(
                "node {id} leads, by what the others say, and none of the nodes that were asked is it: name its HTTP \
                 address with --http"
            ),
            None => "nobody leads, so there is nothing to hand over; `quorate quorum status` shows what each node knows"
                .to_owned(),
        });
    };
    let (old, since) = (before.node, before.epoch);
    known.before = old;
    let name = |node: Option<u32>| node.map_or("?".to_owned(), |node| node.to_string());
    let path = "/v1/quorum/resign";
    let ask = Ask { method: "POST", path, headers: &[], body: Bytes::new() };
    let answered = timeout(patience.left(), ask_one(url, &ask)).await;
    let late = |_| Err(Silence::Broken(format!("within {} s", patience.secs())));
    let answer: Answer = match answered.unwrap_or_else(late) {
        Ok(answer) => answer,
        Err(silence) => {
            return failed(format!(
                "{url} gave no answer ({silence}): it may or may not hand over; `quorate quorum status` shows who leads"
            ));
        }
    };
    if !answer.status.is_success() {
        return failed(format!(
            "node {} goes on as it is: {}",
            name(old),
            match answer.json()["error"].as_str() {
                Some("no_such_path") =>
                    "it runs an older version, which does not know this".to_owned(),
                Some(_) | None => answer.message(),
            }
        ));
    }
    let late = || {
        failed(format!(
            "node {} makes way, and nobody leads after {} s; `quorate quorum status` shows what each node knows",
            name(old),
            patience.secs()
        ))
    };
    loop {
        let asked = ask_all_within(&args.nodes, Some(patience.round())).await?;
        // Those that were not asked are known by what the others say of them.
        let heard = asked.iter().filter_map(|asked| asked.said.as_ref().ok());
        let newest = heard.filter(|said| said.epoch > since && said.leader.is_some());
        if let Some(now) = newest.max_by_key(|said| said.epoch) {
            let (leader, epoch) = (name(now.leader), now.epoch);
            (known.leader, known.epoch) = (now.leader, Some(epoch));
            if now.leader == old {
                return failed(format!(
                    "node {leader} handed over and was elected again, in epoch {epoch}: no other voter could win. \
                     `quorate quorum replication` shows who lags"
                ));
            }
            if !args.json {
                out::line(&format!(
                    "node {} has handed over: node {leader} leads epoch {epoch}",
                    name(old)
                ));
            }
            return Ok(());
        }
        if patience.is_over() {
            return late();
        }
        sleep(PAUSE).await;
    }
}
