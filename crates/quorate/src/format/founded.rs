//! Whether a directory that is formatted already is the one that is asked for now.
//!
//! Only looks. One that a node has used has a history, in which voters and directories may have
//! changed since; of such a one it is only said where it differs.

use super::Founders;
use quorate_base::{Offset, ReplicaId, Uuid};
use quorate_log::{Disk, Error, Meta, Mode, Options, Overlay, repair};
use quorate_wire::record::control::ControlRecord;

/// How a directory differs from what is asked for.
pub(super) struct Differs {
    /// What it is, and what is asked for.
    pub how: String,
    /// Whether a node has used it.
    pub used: bool,
}

/// `None` if it is as asked for, or nothing is asked.
pub(super) fn differs<D: Disk>(
    disk: &D,
    partition: &str,
    meta: &Meta,
    founders: &Founders,
) -> Result<Option<Differs>, Error> {
    let asked: Vec<(ReplicaId, Option<Uuid>)> = match founders {
        Founders::Configured => return Ok(None),
        Founders::Alone => vec![(meta.node, meta.directory)],
        Founders::These(voters) => {
            voters.iter().map(|voter| (voter.id, Some(voter.directory))).collect()
        }
        Founders::Asked => Vec::new(),
    };
    let used = disk.clone().open(&format!("{partition}/quorum-state"), Mode::Read).is_ok();
    let own = asked.iter().find(|(id, _)| *id == meta.node).and_then(|(_, directory)| *directory);
    if let Some(own) = own.filter(|own| Some(*own) != meta.directory) {
        let is = meta.directory.map_or("no directory.id".to_owned(), |id| format!("the id {id}"));
        let how = format!("it has {is}, and the list names node {} with {own}", meta.node);
        return Ok(Some(Differs { how, used }));
    }
    if used {
        return Ok(None);
    }
    let options = Options { partition: partition.to_owned(), ..Options::default() };
    let found = match repair(&mut Overlay::new(disk.clone()), &options, |_| false) {
        Ok(found) if found.end == Offset::ZERO => found,
        Err(error @ Error::Io { .. }) => return Err(error),
        // What is wrong with it the start says.
        Ok(_) | Err(_) => return Ok(None),
    };
    let mut first: Vec<(ReplicaId, Option<Uuid>)> = Vec::new();
    for (kind, value) in found.head {
        if let Ok(ControlRecord::KRaftVoters(record)) = ControlRecord::decode(kind, value) {
            let entries = record.voters.iter();
            let entry = entries
                .map(|voter| (ReplicaId(voter.voter_id as u32), voter.voter_directory_id.known()));
            first = entry.collect();
        }
    }
    let sorted = |mut of: Vec<(ReplicaId, Option<Uuid>)>| {
        of.sort();
        of
    };
    let (first, asked) = (sorted(first), sorted(asked));
    if first == asked {
        return Ok(None);
    }
    let how = format!("it begins with {}, and is to begin with {}", words(&first), words(&asked));
    Ok(Some(Differs { how, used }))
}

fn words(voters: &[(ReplicaId, Option<Uuid>)]) -> String {
    if voters.is_empty() {
        return "no voters of its own".to_owned();
    }
    let one = |(id, directory): &(ReplicaId, Option<Uuid>)| {
        format!("{id}:{}", directory.unwrap_or_default())
    };
    format!("the voters {}", voters.iter().map(one).collect::<Vec<_>>().join(", "))
}
