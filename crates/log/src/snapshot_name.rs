//! Names of snapshot files, as in Kafka (KIP-630): end offset, 20 digits, and epoch, 10 digits.
//!
//! The offset is exclusive: a snapshot of the records below it. `.part` is one that is being
//! written or downloaded, `.deleted` one that goes away soon, `.damaged` one that was set aside
//! for a human (ours). A name of any other form is no snapshot and is never touched.

use quorate_base::{Epoch, Offset, OffsetEpoch};

const ENDING: &str = ".checkpoint";
/// Follows a name whose file is not whole yet.
pub(crate) const PART: &str = ".part";
/// Follows a name whose file nobody needs any more.
pub(crate) const DELETED: &str = ".deleted";
/// Follows the name of a file that was set aside.
pub(crate) const DAMAGED: &str = ".damaged";

/// What a file name says of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotName {
    /// A whole snapshot: its end and the epoch of the record before.
    Whole(OffsetEpoch),
    /// One that is not whole.
    Part(OffsetEpoch),
    /// One that is to be removed.
    Deleted(OffsetEpoch),
}

impl SnapshotName {
    /// Reads a file name; `None` if it is no snapshot's.
    pub fn parse(name: &str) -> Option<SnapshotName> {
        if let Some(name) = name.strip_suffix(DELETED) {
            return id_of(name.strip_suffix(ENDING)?).map(SnapshotName::Deleted);
        }
        if let Some(name) = name.strip_suffix(PART) {
            let name = name.strip_suffix(ENDING)?;
            // Kafka puts a random number, which may be negative, between epoch and ending.
            let (id, random) = name.split_at_checked(31)?;
            let random = random.strip_prefix('-').unwrap_or(random);
            let plain = random.bytes().all(|byte| byte.is_ascii_digit());
            return plain.then(|| id_of(id)).flatten().map(SnapshotName::Part);
        }
        id_of(name.strip_suffix(ENDING)?).map(SnapshotName::Whole)
    }
}

/// The name of the whole file of a snapshot.
pub fn snapshot_name(id: OffsetEpoch) -> String {
    format!("{:020}-{:010}{ENDING}", id.offset.0, id.epoch.0)
}

pub(crate) fn part_name(id: OffsetEpoch) -> String {
    snapshot_name(id) + PART
}

fn id_of(text: &str) -> Option<OffsetEpoch> {
    let (offset, epoch) = text.split_once('-')?;
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(offset, 20) || !digits(epoch, 10) {
        return None;
    }
    let offset: i64 = offset.parse().ok()?;
    let epoch: i32 = epoch.parse().ok()?;
    Some(OffsetEpoch::new(Offset(offset.try_into().ok()?), Epoch(epoch.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas_and_anything_else_is_no_snapshot() {
        let id = OffsetEpoch::new(Offset(154), Epoch(7));
        assert_eq!(snapshot_name(id), "00000000000000000154-0000000007.checkpoint");
        let whole = "00000000000000000154-0000000007.checkpoint";
        let check = |name: &str, found| assert_eq!(SnapshotName::parse(name), found, "{name}");
        check(whole, Some(SnapshotName::Whole(id)));
        check(&part_name(id), Some(SnapshotName::Part(id)));
        let kafkas = "00000000000000000154-00000000071234567.checkpoint.part";
        check(kafkas, Some(SnapshotName::Part(id)));
        let kafkas = "00000000000000000154-0000000007-1234567.checkpoint.part";
        check(kafkas, Some(SnapshotName::Part(id)));
        check(&format!("{whole}.deleted"), Some(SnapshotName::Deleted(id)));
        for other in [
            "",
            ".checkpoint",
            "bootstrap.checkpoint",
            "154-7.checkpoint",
            "00000000000000000154.checkpoint",
            "00000000000000000154-000000007.checkpoint",
            "00000000000000000154-0000000007",
            "00000000000000000154-0000000007.checkpoints",
            "00000000000000000154-0000000007.checkpoint.tmp",
            "00000000000000000154-0000000007.checkpoint.damaged",
            "00000000000000000154-0000000007x.checkpoint.part",
            "0000000000000000015x-0000000007.checkpoint",
            "+0000000000000000154-0000000007.checkpoint",
            "99999999999999999999-0000000007.checkpoint",
            "00000000000000000154-9999999999.checkpoint",
            "00000000000000000154.log",
        ] {
            check(other, None);
        }
    }
}
