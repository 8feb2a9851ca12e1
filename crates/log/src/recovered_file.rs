//! `quorate-recovering` and `quorate-recovered`: what `quorate recover` is doing to a log, and what
//! it has done. Ours.
//!
//! The first is durable before anything of the log changes, and goes when all of it is done: while
//! it is there the log may hold a part only of what was to be written, so a node must not start on
//! it, and whoever goes on must take from it what was lost and how far versions were passed over;
//! the log itself no longer shows that. It has a checksum, since more than words rests on it. The
//! second lists every recovery that was finished, the oldest first, so that none hides what another
//! one lost.

use crate::Error;
use crate::disk::{Disk, Operation};
use crate::error::BadText;
use crate::file::{join, read_file, replace_file};
use quorate_base::{Epoch, Offset};
use std::fmt::Write;
use std::io;

/// Of one that is not finished.
pub(crate) const BEGUN: &str = "quorate-recovering";
/// Of those that are.
pub(crate) const DONE: &str = "quorate-recovered";
/// The names of both.
pub const RECOVERY_FILES: [&str; 2] = [BEGUN, DONE];
const CHECKSUM: &str = "crc32c=";

/// One recovery of a log whose voters were lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvage {
    /// Files that changed are kept with `.before-epoch-` and this behind their names: the epoch of
    /// the first run, if it took several.
    pub kept: Epoch,
    /// The epoch of the new voters.
    pub epoch: Epoch,
    /// From which offset on records may be lost; `None` if none can be.
    pub lost_from: Option<Offset>,
    /// Where the log goes on.
    pub resumes_at: Offset,
    /// When it was begun, in milliseconds since 1970.
    pub time_ms: i64,
    /// The new voters, each `ID@HOST:PORT:DIRECTORY`, with commas between.
    pub voters: String,
}

impl Salvage {
    fn write(&self, text: &mut String) {
        let Salvage { kept, epoch, lost_from, resumes_at, time_ms, voters } = self;
        let lost = lost_from.map_or("none".to_owned(), |from| from.to_string());
        let kept = match kept == epoch {
            true => String::new(),
            false => format!("kept.epoch={kept}\n"),
        };
        let lines = format!(
            "epoch={epoch}\n{kept}lost.from={lost}\nresumes.at={resumes_at}\ntime.ms={time_ms}\nvoters={voters}\n"
        );
        text.push_str(&lines);
    }

    /// From the lines of one; `None` if a line is missing or makes no sense.
    fn read(lines: &[&str]) -> Option<Salvage> {
        let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
        let epoch = |text: &str| text.parse::<i32>().ok()?.try_into().ok().map(Epoch);
        let offset = |text: &str| text.parse::<i64>().ok()?.try_into().ok().map(Offset);
        let own = epoch(value("epoch=")?)?;
        Some(Salvage {
            kept: value("kept.epoch=").map_or(Some(own), epoch)?,
            epoch: own,
            lost_from: match value("lost.from=")? {
                "none" => None,
                from => Some(offset(from)?),
            },
            resumes_at: offset(value("resumes.at=")?)?,
            time_ms: value("time.ms=")?.parse().ok()?,
            voters: value("voters=")?.to_owned(),
        })
    }
}

/// The file of those that are finished.
pub fn show_recovered(salvages: &[Salvage]) -> String {
    let mut text = "version=1\n".to_owned();
    salvages.iter().for_each(|salvage| salvage.write(&mut text));
    text
}

/// Those of it that can be understood: nothing but words rests on them.
fn parse(text: &str) -> Vec<Salvage> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |index: &usize| lines[*index].starts_with("epoch=");
    let mut starts: Vec<usize> = (0..lines.len()).filter(begins).collect();
    starts.push(lines.len());
    starts.windows(2).filter_map(|pair| Salvage::read(&lines[pair[0]..pair[1]])).collect()
}

fn encode_begun(salvage: &Salvage) -> String {
    let mut text = show_recovered(std::slice::from_ref(salvage));
    let checksum = crc32c::crc32c(text.as_bytes());
    writeln!(text, "{CHECKSUM}{checksum:08x}").expect("a String takes all");
    text
}

fn decode_begun(bytes: &[u8]) -> Result<Salvage, BadText> {
    let bad = |found: &str| BadText::new(0, "a recovery that was begun, and its checksum", found);
    let text = std::str::from_utf8(bytes).map_err(|_| bad("other bytes"))?;
    let (body, checksum) = text.split_once(CHECKSUM).ok_or_else(|| bad("no checksum"))?;
    if checksum != format!("{:08x}\n", crc32c::crc32c(body.as_bytes())) {
        return Err(bad("another checksum"));
    }
    parse(body).pop().ok_or_else(|| bad("none"))
}

/// The recovery of this log that was begun and is not finished.
///
/// # Errors
/// [`Error::Malformed`] if there is one and nothing can be told of it.
pub fn unfinished_recovery<D: Disk>(
    disk: &mut D,
    partition: &str,
) -> Result<Option<Salvage>, Error> {
    let path = join(partition, BEGUN);
    let bytes = read_file(disk, &path)?;
    bytes.map(|bytes| decode_begun(&bytes).map_err(|bad| bad.at(&path))).transpose()
}

/// The recoveries of this log that were finished, the oldest first.
///
/// # Errors
/// As the disk's.
pub fn recoveries<D: Disk>(disk: &mut D, partition: &str) -> Result<Vec<Salvage>, Error> {
    let bytes = read_file(disk, &join(partition, DONE))?.unwrap_or_default();
    Ok(parse(&String::from_utf8_lossy(&bytes)))
}

/// Says durably that a recovery begins, in the place of one that was not finished. Until
/// [`finish_recovery`] no node starts on this log.
///
/// # Errors
/// As the disk's.
pub fn begin_recovery<D: Disk>(
    disk: &mut D,
    partition: &str,
    salvage: &Salvage,
) -> Result<(), Error> {
    replace_file(disk, partition, BEGUN, &encode_begun(salvage).into())
}

/// Says durably that these, all there have been, are finished.
///
/// # Errors
/// As the disk's.
pub fn finish_recovery<D: Disk>(
    disk: &mut D,
    partition: &str,
    all: &[Salvage],
) -> Result<(), Error> {
    replace_file(disk, partition, DONE, &show_recovered(all).into())?;
    let path = join(partition, BEGUN);
    match disk.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io(Operation::Remove, &path)(error));
        }
        Ok(()) | Err(_) => {}
    }
    disk.sync_dir(partition).map_err(Error::io(Operation::SyncDir, partition))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salvage(epoch: u32, lost_from: Option<u64>) -> Salvage {
        Salvage {
            kept: Epoch(7),
            epoch: Epoch(epoch),
            lost_from: lost_from.map(Offset),
            resumes_at: Offset(1_000_043),
            time_ms: 17,
            voters: "1@a:1:dP9DCmJHzi2tQ-b3VuMiuw".into(),
        }
    }

    #[test]
    fn each_of_several_is_read_as_it_was_written() {
        let all = [salvage(7, Some(40)), salvage(8, None), salvage(9, Some(0))];
        let text = show_recovered(&all);
        assert_eq!(parse(&text), all);
        assert_eq!(text.matches("kept.epoch=7").count(), 2, "{text}");
        // One that makes no sense hides no other.
        assert_eq!(parse(&text.replace("lost.from=40", "lost.from=x")), all[1..]);
    }

    #[test]
    fn one_that_was_begun_is_read_whole_or_not_at_all() {
        let text = encode_begun(&salvage(9, Some(40)));
        assert_eq!(decode_begun(text.as_bytes()), Ok(salvage(9, Some(40))));
        for cut in 0..text.len() {
            assert!(decode_begun(&text.as_bytes()[..cut]).is_err(), "{cut}");
        }
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_begun(&bytes).is_err(), "bit {bit}");
        }
    }
}
