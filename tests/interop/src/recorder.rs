//! `cargo xtask record FILE LISTEN=TARGET…`: stands between programs that speak Kafka's protocol,
//! passes on every byte as it came, and writes the frames that it saw into a file, one JSON object
//! a line. New versions of Kafka are met this way: what was recorded becomes vectors of the codec.
//!
//! A frame is kept once, and so many of each API, version and kind. What cannot be cut into frames
//! is passed on all the same.

use crate::scenario::Failure;
use bytes::{Bytes, BytesMut};
use quorate_wire::{ApiKey, Kind, MAX_FRAME_BYTES, split};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Frames kept of each API, version and kind.
const EACH: usize = 50;

/// A frame as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub key: i16,
    pub version: i16,
    pub kind: Kind,
    /// Requests from the header on, responses from the correlation id on.
    pub frame: Bytes,
}

/// What was seen so far, and where it is written.
pub struct Records {
    label: String,
    file: File,
    seen: BTreeSet<(i16, i16, bool, Bytes)>,
    counts: BTreeMap<(i16, i16, bool), usize>,
    kept: Vec<Recorded>,
}

/// Shared by all connections.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Records>>);

impl Recorder {
    /// `label` says of each line which Kafka it is of.
    pub fn create(file: &Path, label: &str) -> Result<Recorder, Failure> {
        let (label, file) = (label.to_owned(), File::create_new(file)?);
        let (seen, counts, kept) = Default::default();
        Ok(Recorder(Arc::new(Mutex::new(Records { label, file, seen, counts, kept }))))
    }

    /// Listens, for as long as the process lives, and passes every connection on to `target`.
    pub fn stand_between(&self, listen: SocketAddr, target: SocketAddr) -> Result<(), Failure> {
        let listener = TcpListener::bind(listen)
            .map_err(|error| Failure(format!("cannot listen at {listen}: {error}")))?;
        let recorder = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Who finds nobody there finds nobody here.
                let Ok(server) = TcpStream::connect(target) else { continue };
                // A connection that breaks at once is the programs' own business.
                let _ = recorder.pass_on(client, server);
            }
        });
        Ok(())
    }

    /// What was kept, in the order of its arrival.
    pub fn kept(&self) -> Vec<Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).kept.clone()
    }

    fn pass_on(&self, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let asked = Arc::new(Mutex::new(VecDeque::new()));
        let (from, to) = (client.try_clone()?, server.try_clone()?);
        let (recorder, questions) = (self.clone(), Arc::clone(&asked));
        thread::spawn(move || copy(from, to, |frame| recorder.request(&frame, &questions)));
        let recorder = self.clone();
        thread::spawn(move || copy(server, client, |frame| recorder.response(&frame, &asked)));
        Ok(())
    }

    fn request(&self, frame: &Bytes, asked: &Mutex<VecDeque<Asked>>) {
        let Some([k0, k1, v0, v1, id @ ..]) = frame.first_chunk::<8>() else { return };
        let (key, version) = (i16::from_be_bytes([*k0, *k1]), i16::from_be_bytes([*v0, *v1]));
        let question = Asked { id: *id, key, version };
        asked.lock().unwrap_or_else(PoisonError::into_inner).push_back(question);
        self.keep(Recorded { key, version, kind: Kind::Request, frame: frame.clone() });
    }

    /// Answers come in the order of the questions; one that does not say whose it is is not kept.
    fn response(&self, frame: &Bytes, asked: &Mutex<VecDeque<Asked>>) {
        let Some(id) = frame.first_chunk::<4>() else { return };
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = asked.iter().position(|question| question.id == *id) else { return };
        // A question without an answer is one that wants none.
        let Some(Asked { key, version, .. }) = asked.drain(..=at).next_back() else { return };
        self.keep(Recorded { key, version, kind: Kind::Response, frame: frame.clone() });
    }

    fn keep(&self, recorded: Recorded) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.keep(recorded);
    }
}

/// A request that has passed.
struct Asked {
    id: [u8; 4],
    key: i16,
    version: i16,
}

impl Records {
    fn keep(&mut self, recorded: Recorded) {
        let Recorded { key, version, kind, ref frame } = recorded;
        let request = kind == Kind::Request;
        let count = self.counts.entry((key, version, request)).or_default();
        if *count == EACH || !self.seen.insert((key, version, request, frame.clone())) {
            return;
        }
        *count += 1;
        let api = ApiKey::from_key(key).map_or_else(|| format!("{key}"), |api| api.to_string());
        let line = serde_json::json!({
            "kafka": self.label,
            "api": api,
            "key": key,
            "version": version,
            "kind": if request { "request" } else { "response" },
            "hex": frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        });
        if let Err(error) = writeln!(self.file, "{line}") {
            println!("a frame cannot be written down: {error}");
        }
        self.kept.push(recorded);
    }
}

/// Copies until one side ends, and shows each whole frame; bytes that are none are copied as well.
fn copy(mut from: TcpStream, mut to: TcpStream, mut frame: impl FnMut(Bytes)) {
    let (mut received, mut known) = (BytesMut::new(), true);
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        received.extend_from_slice(&bytes[..read]);
        // Before they are passed on: an answer must find its question.
        while known {
            match split(&mut received, MAX_FRAME_BYTES) {
                Ok(Some(whole)) => frame(whole),
                Ok(None) => break,
                Err(_) => known = false,
            }
        }
        if !known {
            received.clear();
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // The other direction ends too: half a connection is of no use to either side.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

const USAGE: &str = "\
usage: cargo xtask record FILE LISTEN=TARGET… [--kafka NAME]

  FILE             where the frames go, one JSON object a line; must not exist yet
  LISTEN=TARGET    listens at the first address, HOST:PORT, and passes on to the second
  --kafka NAME     said in each line (\"4.0.2 static\")

Let the programs find each other by the first addresses: name these in controller.quorum.voters or
controller.quorum.bootstrap.servers, and in advertised.listeners. Ends with its standard input (^D).
";

/// The command line.
pub fn main(arguments: &[String]) -> Result<(), Failure> {
    let usage = || Failure(USAGE.to_owned());
    let (mut label, mut words) = ("?".to_owned(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--kafka" => label = rest.next().ok_or_else(usage)?.clone(),
            other => words.push(other),
        }
    }
    let [file, routes @ ..] = &words[..] else { return Err(usage()) };
    let parse = |route: &&str| {
        let (listen, target) = route.split_once('=')?;
        Some((listen.parse().ok()?, target.parse().ok()?))
    };
    let routes: Option<Vec<(SocketAddr, SocketAddr)>> = routes.iter().map(parse).collect();
    let routes = routes.filter(|routes| !routes.is_empty()).ok_or_else(usage)?;
    let recorder = Recorder::create(Path::new(file), &label)?;
    for (listen, target) in routes {
        recorder.stand_between(listen, target)?;
        println!("listening at {listen}, passing on to {target}");
    }
    println!("recording into {file}; ends with ^D");
    let mut ignored = Vec::new();
    std::io::stdin().read_to_end(&mut ignored)?;
    println!("{} frames", recorder.kept().len());
    Ok(())
}
