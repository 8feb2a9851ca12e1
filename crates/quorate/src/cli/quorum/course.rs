//! What a command is asked for, and whether what happens meanwhile leads there: others may change
//! the voters at the same time.
//!
//! Decides, and asks nobody. The steps themselves are made in `plan.rs`.

use super::plan::{NoPlan, Step, Wanted, plan, voting};
use crate::cli::controllers::{Quorum, shown};
use quorate::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// Who is to vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// These and nobody else.
    Exactly(Vec<Wanted>),
    /// This one beside whoever votes.
    With(Wanted),
    /// Whoever votes but this one.
    Without(i32),
}

impl Wish {
    /// Who that is, by who votes now: that may change while a node is waited for.
    pub(super) fn voters(&self, quorum: &Quorum) -> Vec<Wanted> {
        let now = quorum.voters.iter().map(|voter| Wanted::id(voter.replica_id));
        match self {
            Wish::Exactly(voters) => voters.clone(),
            Wish::With(one) => {
                now.filter(|voter| voter.id != one.id).chain([one.clone()]).collect()
            }
            Wish::Without(id) => now.filter(|voter| voter.id != *id).collect(),
        }
    }

    /// An id that is named twice.
    pub(super) fn twice(&self) -> Option<i32> {
        let Wish::Exactly(voters) = self else { return None };
        let mut ids = BTreeSet::new();
        voters.iter().map(|voter| voter.id).find(|id| !ids.insert(*id))
    }
}

/// Steps, and who votes behind the last of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Course {
    pub(super) steps: Vec<Step>,
    /// `None` where others may come and go beside what is asked for.
    goal: Option<BTreeMap<i32, Uuid>>,
}

impl Course {
    pub(super) fn of(wish: &Wish, quorum: &Quorum) -> Result<Course, NoPlan> {
        let steps = plan(quorum, &wish.voters(quorum))?;
        let mut goal = voting(quorum);
        steps.iter().for_each(|step| step.apply(&mut goal));
        let is_whole = matches!(wish, Wish::Exactly(_));
        Ok(Course { steps, goal: Some(goal).filter(|_| is_whole) })
    }

    /// That somebody else changes the voters too, where after so many steps others vote than lead
    /// where the plan is to end; what to do about it.
    pub(super) fn somebody_else(&self, done: usize, quorum: &Quorum) -> Option<String> {
        let stray = self.strays(done, quorum)?;
        let all = self.steps.len();
        let stopped = match done {
            0 => "nothing was done: ".to_owned(),
            _ if done == all => String::new(),
            _ => format!("stopped behind step {done} of {all}: "),
        };
        Some(format!(
            "{stopped}somebody else changes the voters as well, or a node that joins by itself \
             (controller.quorum.auto.join.enable): {stray}. Nothing of that was undone. See with `quorate quorum \
             status` who votes, and run the command again once nobody else changes them"
        ))
    }

    /// Who else has changed the voters, by who votes after so many steps of it; in words.
    ///
    /// A step that somebody else has done as it is planned here, such as a node that joins by
    /// itself, is no such thing.
    fn strays(&self, done: usize, quorum: &Quorum) -> Option<String> {
        let (done, ahead) = self.steps.split_at(done);
        let mut voters = voting(quorum);
        let ids = |voters: &BTreeMap<i32, Uuid>| {
            let ids: Vec<String> = voters.keys().map(ToString::to_string).collect();
            ids.join(", ")
        };
        let now = ids(&voters);
        if let Some(step) = done.iter().find(|step| !step.is_done(quorum)) {
            return Some(format!("that is not so any more: {step}; now vote {now}"));
        }
        let mut ahead = ahead.iter().filter(|step| !step.is_done(quorum));
        if let Some(step) = ahead.clone().find(|step| !step.fits(&voters)) {
            return Some(format!("what is still planned does not fit: {step}; now vote {now}"));
        }
        ahead.by_ref().for_each(|step| step.apply(&mut voters));
        let goal = self.goal.as_ref().filter(|goal| **goal != voters)?;
        let wanted = ids(goal);
        Some(match ids(&voters) == wanted {
            true => format!("now vote {now}, and not all of them with the directories planned"),
            false => format!("now vote {now}, and what is planned would not end at {wanted}"),
        })
    }
}

/// Addresses that are asked for and will not be those of voters, in words: a voter tells the leader
/// by itself where it listens.
pub(super) fn contradictions(quorum: &Quorum, wish: &Wish) -> Vec<String> {
    let named: &[Wanted] = match wish {
        Wish::Exactly(voters) => voters,
        Wish::With(one) => std::slice::from_ref(one),
        Wish::Without(_) => &[],
    };
    let seats = voting(quorum);
    let votes = |one: &&Wanted| {
        let seat = seats.get(&one.id);
        seat.is_some_and(|seat| one.directory.is_none_or(|directory| directory == *seat))
    };
    let contradiction = |one: &Wanted| {
        let (_, known) = quorum.controllers.iter().find(|(id, _)| *id == one.id)?;
        let at = one.at.as_ref().filter(|at| *at != known)?;
        Some(format!(
            "node {} votes already and listens at {}, by what it says itself; {} is ignored. If it shall listen there, \
             change the listeners (or advertised.listeners) in its file and start it again",
            one.id,
            shown(known),
            shown(at)
        ))
    };
    named.iter().filter(votes).filter_map(contradiction).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate::HostPort;
    use quorate_wire::message::QuorumReplica;

    const NOW: i64 = 100_000;

    fn disk(id: i32) -> Uuid {
        Uuid([id as u8; 16])
    }

    /// Node 1 leads; all live.
    fn quorum(voters: &[(i32, Uuid)], observers: &[i32]) -> Quorum {
        let replica = |id: i32, directory: Uuid| QuorumReplica {
            replica_id: id,
            replica_directory_id: directory,
            last_fetch_timestamp: NOW,
            ..QuorumReplica::default()
        };
        Quorum {
            cluster: "c".into(),
            leader: 1,
            epoch: 1,
            high_watermark: 50,
            voters: voters.iter().map(|(id, disk)| replica(*id, *disk)).collect(),
            observers: observers.iter().map(|id| replica(*id, disk(*id))).collect(),
            controllers: (1..10)
                .map(|id| (id, HostPort { host: "n".into(), port: 9_000 + id as u16 }))
                .collect(),
            listener: None,
        }
    }

    fn voting(ids: &[i32]) -> Quorum {
        let voters: Vec<_> = ids.iter().map(|id| (*id, disk(*id))).collect();
        let outside: Vec<i32> = (1..8).filter(|id| !ids.contains(id)).collect();
        quorum(&voters, &outside)
    }

    fn exactly(ids: &[i32]) -> Wish {
        Wish::Exactly(ids.iter().copied().map(Wanted::id).collect())
    }

    #[test]
    fn one_more_or_less_leaves_alone_whom_others_add_meanwhile() {
        let (more, less) = (Wish::With(Wanted::id(4)), Wish::Without(3));
        for (wish, voters) in [(&more, &[1, 2, 3][..]), (&more, &[1, 2, 3, 5]), (&less, &[1, 3, 5])]
        {
            let course = Course::of(wish, &voting(voters)).expect("a plan");
            assert_eq!(course.steps.len(), 1, "{wish:?} of {voters:?}: {:?}", course.steps);
        }
        let course = Course::of(&more, &voting(&[1, 2, 3])).expect("a plan");
        assert_eq!(course.strays(1, &voting(&[1, 2, 3, 4, 5])), None);
        assert_eq!(course.strays(1, &voting(&[1, 4])), None);
        let gone = course.strays(1, &voting(&[1, 2, 3])).expect("it was removed again");
        assert!(gone.contains("not so any more: add node 4"), "{gone}");
    }

    #[test]
    fn whoever_else_changes_the_voters_is_noticed_behind_each_step() {
        // +4, +5, -1
        let course = Course::of(&exactly(&[2, 3, 4, 5]), &voting(&[1, 2, 3])).expect("a plan");
        assert_eq!(course.steps.len(), 3);
        for (done, voters) in [
            (0, &[1, 2, 3][..]),
            (1, &[1, 2, 3, 4]),
            (1, &[1, 2, 3, 4, 5]), // 5 joined by itself
            (2, &[1, 2, 3, 4, 5]),
            (3, &[2, 3, 4, 5]),
        ] {
            assert_eq!(course.strays(done, &voting(voters)), None, "{done}: {voters:?}");
        }
        for (done, voters, says) in [
            (1, &[1, 2, 3, 4, 6][..], "would not end at 2, 3, 4, 5"),
            (1, &[1, 3, 4], "would not end at"),
            (2, &[1, 2, 3, 4], "not so any more: add node 5"),
            (3, &[1, 2, 3, 4, 5], "not so any more: remove node 1"),
            (3, &[2, 3, 4, 5, 6], "now vote 2, 3, 4, 5, 6"),
        ] {
            let stray = course.strays(done, &voting(voters)).expect("somebody else");
            assert!(stray.contains(says), "{done}, {voters:?}: {stray}");
        }
        // Another disk in the place of one that was to stay, or to go.
        let mut other = voting(&[2, 3, 4, 5]);
        other.voters[0].replica_directory_id = Uuid([0xee; 16]);
        let stray = course.strays(3, &other).expect("another disk");
        assert!(stray.contains("not all of them with the directories"), "{stray}");
        let mut other = voting(&[1, 2, 3, 4, 5]);
        other.voters[0].replica_directory_id = Uuid([0xee; 16]);
        let stray = course.strays(2, &other).expect("another disk");
        assert!(stray.contains("would not end at 2, 3, 4, 5"), "{stray}");
    }

    #[test]
    fn an_address_that_a_voter_does_not_have_is_named() {
        let at = |id: i32, port: u16| Wanted {
            at: Some(HostPort { host: "n".into(), port }),
            ..Wanted::id(id)
        };
        let now = voting(&[1, 2, 3]);
        let ignored = |wish: &Wish| contradictions(&now, wish);
        // Its own, and that of one that comes, or comes with another disk.
        let new = Wanted { directory: Some(Uuid([0xee; 16])), ..at(3, 77) };
        assert!(
            ignored(&Wish::Exactly(vec![at(1, 9_001), Wanted::id(2), new, at(4, 77)])).is_empty()
        );
        let found = ignored(&Wish::Exactly(vec![at(1, 77), Wanted::id(2)]));
        assert!(found.len() == 1 && found[0].contains("node 1"), "{found:?}");
        assert!(found[0].contains("listens at n:9001") && found[0].contains("n:77 is ignored"));
    }

    #[test]
    fn a_name_that_stands_twice_is_found() {
        assert_eq!(exactly(&[1, 2, 1]).twice(), Some(1));
        assert_eq!(exactly(&[1, 2, 3]).twice(), None);
    }
}
