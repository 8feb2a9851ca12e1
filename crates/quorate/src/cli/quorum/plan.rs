//! From the voters that there are to those that are wanted: which are added and removed, one after
//! the other, so that as many failures as possible are borne at each step.
//!
//! Decides, and asks nobody. It is made anew from what is there each time, so a plan that was cut
//! short goes on where it ended.

use crate::cli::controllers::{Quorum, replicas, shown};
use quorate::{HostPort, Uuid};
use quorate_wire::message::QuorumReplica;
use std::collections::BTreeMap;
use std::fmt;

/// Kafka's and ours hear a live voter at least every half second.
const SILENT_MS: i64 = 5_000;

/// A voter that is wanted: `ID`, `ID@HOST:PORT` or `ID@HOST:PORT:DIRECTORY`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub(super) id: i32,
    pub(super) at: Option<HostPort>,
    pub(super) directory: Option<Uuid>,
}

impl Wanted {
    /// One by its id alone.
    pub(super) fn id(id: i32) -> Wanted {
        Wanted { id, at: None, directory: None }
    }
}

/// Of the command line.
pub(super) fn wanted(text: &str) -> Result<Wanted, String> {
    let (id, rest) = match text.trim().split_once('@') {
        Some((id, rest)) => (id, Some(rest)),
        None => (text.trim(), None),
    };
    let id = id.parse::<i32>().ok().filter(|id| *id >= 0);
    let id =
        id.ok_or_else(|| format!("'{text}': write ID, ID@HOST:PORT or ID@HOST:PORT:DIRECTORY"))?;
    let Some(rest) = rest else { return Ok(Wanted::id(id)) };
    if let Ok(at) = crate::cli::controllers::server(rest) {
        return Ok(Wanted { id, at: Some(at), directory: None });
    }
    let parts = rest.rsplit_once(':');
    let found = parts.and_then(|(at, directory)| {
        let directory = directory.parse::<Uuid>().ok()?.known()?;
        Some((crate::cli::controllers::server(at).ok()?, directory))
    });
    let (at, directory) = found.ok_or_else(|| {
        format!("'{text}': behind the '@' belongs HOST:PORT or HOST:PORT:DIRECTORY, the directory.id of its meta.properties")
    })?;
    Ok(Wanted { id, at: Some(at), directory: Some(directory) })
}

/// One voter more or one less, or one with another directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Add { id: i32, directory: Uuid, at: HostPort },
    Remove { id: i32, directory: Uuid },
    Replace { id: i32, old: Uuid, directory: Uuid, at: HostPort },
}

impl Step {
    pub(super) fn id(&self) -> i32 {
        match self {
            Step::Add { id, .. } | Step::Remove { id, .. } | Step::Replace { id, .. } => *id,
        }
    }

    /// Whether the quorum is as this step would have it.
    pub(super) fn is_done(&self, quorum: &Quorum) -> bool {
        let is = |of: i32, directory: Uuid| {
            let mut voters = quorum.voters.iter();
            voters.any(|v| v.replica_id == of && v.replica_directory_id == directory)
        };
        match self {
            Step::Add { id, directory, .. } | Step::Replace { id, directory, .. } => {
                is(*id, *directory)
            }
            Step::Remove { id, directory } => !is(*id, *directory),
        }
    }

    /// Whether it can be asked for where these vote.
    pub(super) fn fits(&self, voters: &BTreeMap<i32, Uuid>) -> bool {
        let seat = voters.get(&self.id());
        match self {
            Step::Add { .. } => seat.is_none(),
            Step::Remove { directory, .. } => seat == Some(directory),
            // Between its halves there is none.
            Step::Replace { old, .. } => seat.is_none_or(|seat| seat == old),
        }
    }

    pub(super) fn apply(&self, voters: &mut BTreeMap<i32, Uuid>) {
        match self {
            Step::Add { id, directory, .. } | Step::Replace { id, directory, .. } => {
                voters.insert(*id, *directory);
            }
            Step::Remove { id, .. } => drop(voters.remove(id)),
        }
    }

    /// What comes to the same, of a leader that knows no replacement.
    pub(super) fn halves(&self) -> Vec<Step> {
        match self {
            Step::Replace { id, old, directory, at } => {
                let (id, directory, at) = (*id, *directory, at.clone());
                vec![Step::Remove { id, directory: *old }, Step::Add { id, directory, at }]
            }
            Step::Add { .. } | Step::Remove { .. } => vec![self.clone()],
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Add { id, directory, at } => {
                write!(f, "add node {id} at {}, directory {directory}", shown(at))
            }
            Step::Remove { id, directory } => write!(f, "remove node {id}, directory {directory}"),
            Step::Replace { id, old, directory, at } => write!(
                f,
                "replace the disk of node {id} at {}: directory {directory} takes the place of {old}",
                shown(at)
            ),
        }
    }
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NoPlan {
    /// The leader has not heard of a node that may be about to start.
    Yet(String),
    /// It will not be otherwise by itself.
    Never(String),
}

impl From<String> for NoPlan {
    fn from(why: String) -> NoPlan {
        NoPlan::Never(why)
    }
}

/// How many of so many voters may fail.
pub(super) fn tolerates(voters: usize) -> String {
    match voters.saturating_sub(1) / 2 {
        0 => "no voter may fail".to_owned(),
        1 => "1 may fail".to_owned(),
        several => format!("{several} may fail"),
    }
}

/// Refuses where the log does not name the voters: nothing waits for that to change.
pub(super) fn can_change(quorum: &Quorum) -> Result<(), NoPlan> {
    match quorum.voters.iter().any(|voter| voter.replica_directory_id == Uuid::ZERO) {
        false => Ok(()),
        true => Err(NoPlan::Never(
            "the voters of this quorum are static (kraft.version 0): controller.quorum.voters names them, \
             and none can be added, removed or replaced while it runs. `quorate quorum upgrade` moves them into the \
             log, where they can be changed"
                .to_owned(),
        )),
    }
}

/// What has to be done so that exactly these vote; nothing if they do.
///
/// Those that come come first; who leads goes last. A directory takes the place of another of the
/// same node in one step.
pub(super) fn plan(quorum: &Quorum, wanted: &[Wanted]) -> Result<Vec<Step>, NoPlan> {
    let never = |why: &str| Err(NoPlan::Never(why.to_owned()));
    if wanted.is_empty() {
        return never("without a voter there is no quorum: name at least one");
    }
    let mut named = BTreeMap::new();
    for one in wanted {
        if named.insert(one.id, one).is_some() {
            return never(&format!("node {} is named twice", one.id));
        }
    }
    let now = voting(quorum);
    can_change(quorum)?;
    let (mut adds, mut swaps, mut removes) = (Vec::new(), Vec::new(), Vec::new());
    for one in named.values() {
        match now.get(&one.id) {
            Some(known) if one.directory.is_none_or(|wanted| wanted == *known) => {}
            Some(old) => {
                let (directory, at) = newcomer(quorum, one)?;
                swaps.push(Step::Replace { id: one.id, old: *old, directory, at });
            }
            None => {
                let (directory, at) = newcomer(quorum, one)?;
                adds.push(Step::Add { id: one.id, directory, at });
            }
        }
    }
    for (id, directory) in now.iter().filter(|(id, _)| !named.contains_key(id)) {
        removes.push(Step::Remove { id: *id, directory: *directory });
    }
    removes.sort_by_key(|step| step.id() == quorum.leader);
    let steps: Vec<Step> = adds.into_iter().chain(swaps).chain(removes).collect();
    stays_alive(quorum, &steps)?;
    Ok(steps)
}

/// Who votes, with which directory.
pub(super) fn voting(quorum: &Quorum) -> BTreeMap<i32, Uuid> {
    quorum.voters.iter().map(|v| (v.replica_id, v.replica_directory_id)).collect()
}

/// The directory of one that comes, and where it listens, with what the quorum knows of it.
fn newcomer(quorum: &Quorum, wanted: &Wanted) -> Result<(Uuid, HostPort), NoPlan> {
    let id = wanted.id;
    let known = || quorum.controllers.iter().find(|(known, _)| *known == id);
    let Some(at) = wanted.at.clone().or_else(|| known().map(|(_, at)| at.clone())) else {
        return Err(NoPlan::Never(format!(
            "nobody here knows where node {id} listens; say it: {id}@HOST:PORT of its controller listener"
        )));
    };
    Ok((directory(quorum, wanted)?, at))
}

/// The directory with which a node that does not vote copies the log.
pub(super) fn directory(quorum: &Quorum, wanted: &Wanted) -> Result<Uuid, NoPlan> {
    let id = wanted.id;
    if let Some(directory) = wanted.directory {
        return Ok(directory);
    }
    // One that is silent may be what the node was before its disk was replaced.
    let observed = quorum.observers.iter().filter(|observer| observer.replica_id == id);
    let observed: Vec<_> = observed.filter(|observer| is_heard(quorum, observer)).collect();
    let directories = observed.iter().filter_map(|o| o.replica_directory_id.known());
    let directories: Vec<Uuid> = directories.collect();
    match directories[..] {
        [] if observed.is_empty() => Err(NoPlan::Yet(format!(
            "node {id} does not copy the leader's log. Start it first, formatted with \
             --no-initial-controllers and with controller.quorum.bootstrap.servers in its file; or name \
             its directory: {id}@HOST:PORT:DIRECTORY"
        ))),
        [] => Err(NoPlan::Never(format!(
            "node {id} copies the log and does not tell its directory; name it: {id}@HOST:PORT:DIRECTORY"
        ))),
        [one] => Ok(one),
        [..] => {
            let all: Vec<String> = directories.iter().map(ToString::to_string).collect();
            Err(NoPlan::Never(format!(
                "node {id} has copied the log from {} directories, {}: name the one that is meant, \
                 {id}@HOST:PORT:DIRECTORY",
                all.len(),
                all.join(" and ")
            )))
        }
    }
}

/// Whether a replica has fetched lately, by the leader's clock.
fn is_heard(quorum: &Quorum, replica: &QuorumReplica) -> bool {
    let leader = quorum.voters.iter().find(|voter| voter.replica_id == quorum.leader);
    let fetched = replica.last_fetch_timestamp;
    // A leader's own time is now. One that the voters do not include any more tells none.
    let heard = |leader: &QuorumReplica| leader.last_fetch_timestamp - fetched < SILENT_MS;
    replica.replica_id == quorum.leader || fetched >= 0 && leader.is_none_or(heard)
}

/// Refuses a plan with a step, or half of one, after which the voters that answer are no majority.
fn stays_alive(quorum: &Quorum, steps: &[Step]) -> Result<(), String> {
    let answers = |id: i32, directory: Uuid| {
        let mut all = quorum.voters.iter().chain(&quorum.observers);
        let its = all.find(|r| r.replica_id == id && r.replica_directory_id == directory);
        its.is_some_and(|its| is_heard(quorum, its))
    };
    let mut voters = voting(quorum);
    // A replacement may take two, and then the old directory goes first.
    for step in steps.iter().flat_map(Step::halves) {
        step.apply(&mut voters);
        let silent: Vec<String> = voters
            .iter()
            .filter(|(id, directory)| !answers(**id, **directory))
            .map(|(id, _)| id.to_string())
            .collect();
        if (voters.len() - silent.len()) * 2 <= voters.len() {
            return Err(format!(
                "to {step} would leave {} voters, of which {} (node {}) have not been heard for {} s: \
                 nothing could be committed any more. Bring them back first, or remove them before others",
                voters.len(),
                silent.len(),
                silent.join(", "),
                SILENT_MS / 1_000
            ));
        }
    }
    Ok(())
}

/// The plan in words: each step, who votes behind it, and what it rests on.
pub(super) fn told(quorum: &Quorum, steps: &[Step]) -> Vec<String> {
    let mut voters: Vec<i32> = quorum.voters.iter().map(|voter| voter.replica_id).collect();
    let list = |voters: &[i32]| {
        let ids: Vec<String> = voters.iter().map(ToString::to_string).collect();
        format!("{} ({})", ids.join(", "), tolerates(ids.len()))
    };
    let mut lines = vec![format!("voters now: {}", list(&voters))];
    for (at, step) in (1..).zip(steps) {
        match step {
            Step::Add { id, .. } => voters.push(*id),
            Step::Remove { id, .. } => voters.retain(|voter| voter != id),
            Step::Replace { .. } => {}
        }
        voters.sort_unstable();
        let beside = match step {
            Step::Add { id, .. } => {
                let lag = replicas(quorum).filter(|r| r.node == *id).filter_map(|r| r.lag).min();
                lag.map_or("; it is not seen yet".into(), |lag| match lag {
                    0 => "; it has all records".into(),
                    lag => format!("; it lacks {lag} records"),
                })
            }
            Step::Remove { id, .. } if *id == quorum.leader => {
                "; it leads, so another one is elected".into()
            }
            Step::Remove { .. } | Step::Replace { .. } => String::new(),
        };
        lines.push(format!("step {at}: {step}{beside}\n        then: {}", list(&voters)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 100_000;

    fn directory_of(id: i32) -> Uuid {
        Uuid([id as u8; 16])
    }

    fn replica(id: i32, ago: i64) -> QuorumReplica {
        QuorumReplica {
            replica_id: id,
            replica_directory_id: directory_of(id),
            log_end_offset: 50,
            last_fetch_timestamp: NOW - ago,
            last_caught_up_timestamp: NOW - ago,
            ..QuorumReplica::default()
        }
    }

    /// Node 1 leads.
    fn quorum(voters: &[(i32, i64)], observers: &[(i32, i64)]) -> Quorum {
        let rows = |list: &[(i32, i64)]| list.iter().map(|(id, ago)| replica(*id, *ago)).collect();
        Quorum {
            cluster: "c".into(),
            leader: 1,
            epoch: 1,
            high_watermark: 50,
            voters: rows(voters),
            observers: rows(observers),
            controllers: Vec::new(),
            listener: None,
        }
    }

    fn at(id: i32) -> Wanted {
        wanted(&format!("{id}@n{id}:9093")).expect("an address")
    }

    fn short(steps: &[Step]) -> Vec<String> {
        let word = |step: &Step| match step {
            Step::Add { id, .. } => format!("+{id}"),
            Step::Remove { id, .. } => format!("-{id}"),
            Step::Replace { id, .. } => format!("={id}"),
        };
        steps.iter().map(word).collect()
    }

    #[test]
    fn who_comes_comes_first_and_who_leads_goes_last() {
        let quorum = quorum(&[(1, 0), (2, 10), (3, 10)], &[(4, 10), (5, 10)]);
        let steps = plan(&quorum, &[at(4), Wanted::id(2), at(5)]).expect("a plan");
        assert_eq!(short(&steps), ["+4", "+5", "-3", "-1"]);
        assert_eq!(plan(&quorum, &[1, 2, 3].map(Wanted::id)), Ok(Vec::new()));
        let lines = told(&quorum, &steps);
        assert!(lines[0].ends_with("1, 2, 3 (1 may fail)"), "{lines:?}");
        assert!(lines[4].contains("it leads") && lines[4].ends_with("2, 4, 5 (1 may fail)"));
    }

    #[test]
    fn a_directory_takes_anothers_place_in_one_step() {
        let mut quorum = quorum(&[(1, 0), (2, 10), (3, 10)], &[(3, 10)]);
        quorum.observers[0].replica_directory_id = Uuid([0xee; 16]);
        let new = Wanted { directory: Some(Uuid([0xee; 16])), ..at(3) };
        let steps = plan(&quorum, &[Wanted::id(1), Wanted::id(2), new]).expect("a plan");
        assert_eq!(short(&steps), ["=3"]);
        assert_eq!(short(&steps[0].halves()), ["-3", "+3"]);
        assert!(told(&quorum, &steps)[1].ends_with("1, 2, 3 (1 may fail)"));
        assert!(!steps[0].is_done(&quorum) && !steps[0].halves()[0].is_done(&quorum));
        quorum.voters[2].replica_directory_id = Uuid([0xee; 16]);
        assert!(steps[0].is_done(&quorum));
        quorum.voters[2].replica_directory_id = directory_of(3);
        assert_eq!(directory(&quorum, &Wanted::id(3)), Ok(Uuid([0xee; 16])));
        // What it was before is silent, and never taken for what it is.
        quorum.observers.push(replica(3, 60_000));
        assert_eq!(directory(&quorum, &Wanted::id(3)), Ok(Uuid([0xee; 16])));
        quorum.observers.remove(0);
        assert!(directory(&quorum, &Wanted::id(3)).is_err());
    }

    #[test]
    fn what_would_stop_the_quorum_or_is_not_known_is_refused() {
        let one_away = quorum(&[(1, 0), (2, 10), (3, 60_000)], &[(4, 10)]);
        let never = |planned: Result<Vec<Step>, NoPlan>| match planned {
            Err(NoPlan::Never(why)) => why,
            other => panic!("{other:?}"),
        };
        let why = never(plan(&one_away, &[1, 3].map(Wanted::id)));
        assert!(why.contains("node 3") && why.contains("nothing could be committed"), "{why}");
        assert_eq!(
            plan(&one_away, &[1, 2].map(Wanted::id)).map(|s| short(&s)),
            Ok(vec!["-3".into()])
        );
        let why = never(plan(&one_away, &[1, 2, 4].map(Wanted::id)));
        assert!(why.contains("4@HOST:PORT"), "{why}");
        // It may be about to start.
        let Err(NoPlan::Yet(why)) = plan(&one_away, &[at(1), at(2), at(9)]) else { panic!("who?") };
        assert!(why.contains("--no-initial-controllers"), "{why}");
        assert!(never(plan(&one_away, &[])).contains("at least one"));
        assert!(never(plan(&one_away, &[at(1), at(1)])).contains("twice"));
        let mut fixed = quorum(&[(1, 0), (2, 10)], &[]);
        fixed.voters[0].replica_directory_id = Uuid::ZERO;
        assert!(never(plan(&fixed, &[Wanted::id(1)])).contains("static"));
    }

    #[test]
    fn voters_are_named_with_as_much_as_is_needed() {
        assert_eq!(wanted("3"), Ok(Wanted::id(3)));
        assert_eq!(wanted("3@[::1]:9093").map(|w| w.at.map(|at| at.port)), Ok(Some(9093)));
        let text = format!("3@h:9093:{}", directory_of(7));
        assert_eq!(wanted(&text).map(|w| w.directory), Ok(Some(directory_of(7))));
        for bad in ["", "x", "-1", "3@", "3@h", "3@h:9093:zz", "3@h:0"] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }
}
