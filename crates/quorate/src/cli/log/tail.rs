//! `quorate log tail`: prints records as they come onto the disk of a node, Quorate's or Kafka's.
//!
//! Reads the files alone, so it needs no listener and works where a node does not answer. What is
//! on one disk is not committed for that: a cut takes it back, and is told.

use super::unread;
use crate::cli::metadata::Shape;
use crate::cli::{Failure, Outcome, directory, failed, out};
use clap::Parser;
use quorate_base::Offset;
use quorate_log::{Fact, Fault, Follow, Followed, OsDisk};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it is looked for more.
const PAUSE: Duration = Duration::from_millis(200);
/// The folder that counts where a directory holds several logs, as that of a broker does.
const METADATA: &str = "__cluster_metadata-0";

/// Print the newest records of a log, and each new one as it is written
///
/// Reads the files alone and takes no lock: the directory may be one of a running node, Quorate's
/// or Kafka's. A record is printed once it is on that disk, committed or not.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate log tail data
  quorate log tail data --from 0 --once --json | jq 'select(.key == \"greeting\")'
  quorate log tail kafka-data --json | jq '.metadata'

Records look as `quorate log dump` shows them. Ctrl-c ends it. Where records were cut off again, or
were removed before they could be read, a line says so.")]
pub(super) struct Args {
    /// A data directory or one of its partitions
    dir: PathBuf,
    /// Begin so many records before the end
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10)]
    records: u64,
    /// Begin at this offset instead
    #[arg(long, value_name = "OFFSET", conflicts_with = "records")]
    from: Option<u64>,
    /// End where the log ends, instead of waiting for more
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    shape: Shape,
}

/// Runs `quorate log tail`.
pub(super) fn tail(args: &Args) -> Outcome {
    let (dir, shape) = (&args.dir, args.shape);
    let (disk, folder) = log_in(dir)?;
    let follow = match args.from {
        Some(from) => Follow::from(&disk, &folder, Offset(from)),
        None => Follow::newest(&disk, &folder, args.records),
    };
    let Some(mut follow) = follow.or_else(|bad| unread(dir, &bad))? else { return none(dir) };
    let (first, mut quiet, mut told_torn) = (follow.first(), false, None);
    loop {
        let told = follow.next().or_else(|bad| unread(dir, &bad))?;
        // Who read this has seen enough.
        if out::closed() {
            return Ok(());
        }
        match told {
            Some(Followed::Batch(batch)) => {
                let mut damage = None;
                quorate_log::show_records(&batch, &mut |fact| {
                    if let Fact::BadRecord(bad) = &fact {
                        damage = Some(bad.to_string());
                    }
                    // The batch may have begun before what was asked for.
                    if !matches!(&fact, Fact::Record { record, .. } if record.offset < first) {
                        out::line(&shape.of(&fact));
                    }
                });
                if let Some(bad) = damage {
                    return failed(format!(
                        "a batch at offset {} makes no sense: {bad}",
                        batch.base()
                    ));
                }
            }
            Some(Followed::Cut(end)) => say(
                shape,
                &json!({ "type": "cut", "endOffset": end.0 }),
                &format!("-- the log was cut: what was printed from offset {end} on is gone"),
            ),
            Some(Followed::Gap(first, end)) => say(
                shape,
                &json!({ "type": "gap", "from": first.0, "endOffset": end.0 }),
                &format!(
                    "-- the records from offset {first} to below {end} are gone from the log: a snapshot stands for them"
                ),
            ),
            Some(Followed::Damaged { path, position, fault }) => {
                return senseless(dir, &path, position, &fault);
            }
            // What looks wrong is looked at twice: it may be a write on its way.
            None if args.once && quiet => {
                return match follow.torn() {
                    Some((path, position, fault)) => senseless(dir, &path, position, &fault),
                    None => Ok(()),
                };
            }
            None => {
                let torn = follow.torn().map(|(path, position, fault)| {
                    format!("{path} ends within a batch at byte {position} ({fault})")
                });
                if quiet && torn != told_torn {
                    if let Some(torn) = &torn {
                        out::note(&format!(
                            "-- {torn}; waiting for the rest. Without a node that writes it this is a torn end or damage: quorate log verify says what to do"
                        ));
                    }
                    told_torn = torn;
                }
                quiet = true;
                std::thread::sleep(PAUSE);
                continue;
            }
        }
        quiet = false;
    }
}

fn senseless(dir: &Path, path: &str, position: u64, fault: &Fault) -> Outcome {
    failed(format!(
        "{}: {path} makes no sense from byte {position} on: {fault}. Nothing was changed; quorate log verify says what to do",
        dir.display()
    ))
}

fn say(shape: Shape, object: &Value, text: &str) {
    match shape.json {
        true => out::json(object),
        false => out::line(text),
    }
}

/// The folder of the log that is meant.
fn log_in(dir: &Path) -> Outcome<(OsDisk, String)> {
    directory(dir)?;
    let disk = OsDisk::new(dir);
    let names = quorate_log::files(&disk, "").or_else(|bad| unread(dir, &bad))?;
    let logs = names.iter().filter(|name| super::is_log(name));
    let folders: BTreeSet<&str> =
        logs.map(|name| name.rsplit_once('/').map_or("", |(folder, _)| folder)).collect();
    let is_metadata = |folder: &&&str| folder.rsplit('/').next() == Some(METADATA);
    let metadata: Vec<&&str> = folders.iter().filter(is_metadata).collect();
    let all: Vec<&&str> = folders.iter().collect();
    match if metadata.is_empty() { &all[..] } else { &metadata[..] } {
        [only] => Ok((disk, (***only).to_owned())),
        [] => none(dir),
        several => Err(Failure::Usage(format!(
            "{} holds several logs; name one of them:\n  {}",
            dir.display(),
            several
                .iter()
                .map(|folder| dir.join(folder).display().to_string())
                .collect::<Vec<_>>()
                .join("\n  ")
        ))),
    }
}

fn none<T>(dir: &Path) -> Outcome<T> {
    failed(format!(
        "{} holds no log: name a data directory, or one of its partitions",
        dir.display()
    ))
}
