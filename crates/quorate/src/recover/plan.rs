//! Which copy counts, who votes from now on, and which offsets and epochs are passed over.
//!
//! Pure: facts in, a plan out. The best copy has the highest last epoch, then the longest log, as
//! in an election; one that is whole is taken rather than a damaged one, and where the damaged one
//! holds more a person decides. Nothing can be lost if the copies are those of a majority of the
//! voters, as the nodes left them: then each committed record is in one of them, and each epoch
//! that anybody led in is known to one.

use super::voters::new_voters;
use super::{Copied, Facts, LEAP, NewVoter, RecoverError};
use crate::InitialController;
use quorate_base::{Epoch, Offset, ReplicaId, Uuid};
use quorate_log::Salvage;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// The copy to use, if not the best.
    pub directory: Option<PathBuf>,
    /// The new voters; none: the chosen copy's node alone, where it was.
    pub voters: Vec<NewVoter>,
    /// The name of the listener where the log names none.
    pub listener: String,
    /// How many offsets to pass over, if not as many as it takes.
    pub skip: Option<u64>,
}

/// The copy that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Which of the copies.
    pub index: usize,
    /// Where it is.
    pub directory: PathBuf,
    /// What it holds.
    pub facts: Facts,
}

/// What is going to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The copy that counts, which is changed in place.
    pub chosen: Chosen,
    /// The new voters.
    pub voters: Vec<InitialController>,
    /// The name of their listener.
    pub listener: String,
    /// The new epoch.
    pub epoch: Epoch,
    /// From which offset on records may be lost; `None` if none can be.
    pub loss: Option<Offset>,
    /// How many offsets are passed over, so that none is given out a second time.
    pub skip: u64,
    /// The copies that hold records which the chosen one lacks.
    pub beyond: Vec<PathBuf>,
    /// The epoch behind the names of the copies that are kept: that of the run which began.
    pub kept: Epoch,
    /// The recovery that was cut short and is carried on with.
    pub continues: Option<Salvage>,
    /// What was done to this log before, the oldest first.
    pub before: Vec<Salvage>,
}

impl Plan {
    /// Where the log goes on: behind its end, what is passed over, and three records of its own.
    pub fn resumes(&self) -> Offset {
        self.chosen.facts.last.offset + OWN_RECORDS + self.skip
    }

    /// The new voters whose directories are none of the copies: known by the log alone, they may be
    /// as lost as what is recovered here.
    pub fn absent(&self, copies: &[Copied]) -> Vec<&InitialController> {
        let held = |voter: &InitialController| {
            let found = copies.iter().filter_map(|copy| copy.found.as_ref().ok());
            let mut metas = found.map(|facts| (facts.meta.node, facts.meta.directory));
            metas.any(|meta| meta == (voter.id, Some(voter.directory)))
        };
        self.voters.iter().filter(|voter| !held(voter)).collect()
    }

    /// How many offsets from this one on nobody gets, by this run and those that it goes on with.
    pub fn passed_from(&self, from: Offset) -> u64 {
        self.resumes().0.saturating_sub(from.0 + OWN_RECORDS)
    }
}

/// LeaderChange, KRaftVersion and KRaftVoters.
pub(super) const OWN_RECORDS: u64 = 3;

/// Decides, or says what is missing.
///
/// # Errors
/// See [`RecoverError`].
pub fn plan(copies: &[Copied], wish: &Wish) -> Result<Plan, RecoverError> {
    let usable: Vec<(usize, &Path, &Facts)> = copies
        .iter()
        .enumerate()
        .filter_map(|(index, copy)| {
            Some((index, copy.directory.as_path(), copy.found.as_ref().ok()?))
        })
        .collect();
    let Some((_, first, facts)) = usable.first() else {
        let reason = |copy: &Copied| {
            (copy.directory.clone(), copy.found.as_ref().err().cloned().unwrap_or_default())
        };
        return Err(RecoverError::NoCopy(copies.iter().map(reason).collect()));
    };
    let cluster = |at: &Path, facts: &Facts| (at.to_owned(), facts.meta.cluster.clone());
    if let Some((_, at, other)) =
        usable.iter().find(|(_, _, other)| other.meta.cluster != facts.meta.cluster)
    {
        let (one, other) = (cluster(first, facts), cluster(at, other));
        return Err(RecoverError::Clusters { one, other });
    }
    let (index, directory, facts) = match &wish.directory {
        Some(wanted) => named(copies, &usable, wanted)?,
        None => best(&usable)?,
    };
    let (directory, facts) = (directory.to_owned(), facts.clone());
    let chosen = Chosen { index, directory, facts };
    let voters = new_voters(&usable, &chosen, wish)?;
    let all = |value: fn(&Facts) -> u64| {
        usable.iter().map(|(_, _, facts)| value(facts)).max().unwrap_or_default()
    };
    let end = chosen.facts.last.offset;
    let order = chosen.facts.last.log_order();
    let beyond = usable.iter().filter(|(_, _, facts)| facts.last.log_order() > order);
    let beyond: Vec<PathBuf> = beyond.map(|(_, at, _)| at.to_path_buf()).collect();
    let loss = lost_from(&usable, &chosen, !beyond.is_empty());
    let continues = chosen.facts.unfinished.clone();
    // A run that found the loss has passed over epochs for it already.
    let found = continues.as_ref().is_some_and(|begun| begun.lost_from.is_some());
    let leap = if loss.is_some() && !found { LEAP } else { 0 };
    let known = all(|facts| facts.epoch.0.into());
    let epoch = u32::try_from(known + 1 + leap).ok().filter(|epoch| *epoch < i32::MAX as u32);
    let epoch = Epoch(epoch.ok_or(RecoverError::NoEpoch)?);
    let own = &chosen.facts.voters;
    let listener = own.iter().find(|voter| voter.voter_id == chosen.facts.meta.node.0 as i32);
    let listener = listener.or(own.first()).and_then(|voter| voter.endpoints.first());
    let listener = listener.map_or(wish.listener.clone(), |listener| listener.name.clone());
    let reached = usable.iter().filter(|(of, ..)| !found || *of != chosen.index);
    let reached = reached.map(|(_, _, facts)| facts.reached.0).max().unwrap_or_default();
    let passed = match (loss, wish.skip) {
        (Some(from), Some(skip)) => from.0 + skip,
        (Some(from), None) => from.0.max(reached) + LEAP,
        (None, Some(skip)) if continues.is_none() => end.0 + skip,
        (None, Some(_) | None) => end.0,
    };
    let begun = continues.as_ref().map(|begun| begun.resumes_at.0.saturating_sub(OWN_RECORDS));
    let skip = passed.max(begun.unwrap_or_default()).saturating_sub(end.0);
    let kept = continues.as_ref().map_or(epoch, |begun| begun.kept);
    let before = before(&usable, &chosen);
    Ok(Plan { chosen, voters, listener, epoch, loss, skip, beyond, kept, continues, before })
}

/// From which offset on records may be lost. Of a recovery that was begun the log shows no more
/// what was lost by it: its own word counts, and what has come to light since.
fn lost_from(
    usable: &[(usize, &Path, &Facts)],
    chosen: &Chosen,
    is_behind: bool,
) -> Option<Offset> {
    let end = chosen.facts.last.offset;
    match &chosen.facts.unfinished {
        None => (!is_majority(usable, chosen)).then_some(end),
        Some(begun) => {
            let anew = is_behind || !chosen.facts.damage.is_empty();
            [begun.lost_from, anew.then_some(end)].into_iter().flatten().min()
        }
    }
}

/// The recoveries that the chosen log has behind it, whichever copy tells of them.
fn before(usable: &[(usize, &Path, &Facts)], chosen: &Chosen) -> Vec<Salvage> {
    let begun = chosen.facts.unfinished.as_ref().map(|begun| begun.epoch);
    let mut all: Vec<Salvage> =
        usable.iter().flat_map(|(_, _, facts)| facts.recovered.iter().cloned()).collect();
    // One that was just finished, and did not come to say so.
    all.retain(|by| by.epoch <= chosen.facts.last.epoch && Some(by.epoch) != begun);
    all.sort_by_key(|by| by.epoch);
    all.dedup_by_key(|by| by.epoch);
    all
}

fn named<'a>(
    copies: &'a [Copied],
    usable: &[(usize, &'a Path, &'a Facts)],
    wanted: &Path,
) -> Result<(usize, &'a Path, &'a Facts), RecoverError> {
    if let Some(found) = usable.iter().find(|(_, at, _)| *at == wanted) {
        return Ok(*found);
    }
    let copy = copies.iter().find(|copy| copy.directory == wanted);
    let why = match copy.map(|copy| &copy.found) {
        Some(Err(why)) => why.clone(),
        Some(Ok(_)) | None => "it is none of the directories that are given; give it too".into(),
    };
    Err(RecoverError::NotUsable { directory: wanted.to_owned(), why })
}

/// The best whole copy; a damaged one only if there is no other.
fn best<'a>(
    usable: &[(usize, &'a Path, &'a Facts)],
) -> Result<(usize, &'a Path, &'a Facts), RecoverError> {
    let order = |(index, _, facts): &&(usize, &Path, &Facts)| {
        // Of equals the first one that is given.
        (facts.last.log_order(), std::cmp::Reverse(*index))
    };
    let whole = usable.iter().filter(|(_, _, facts)| facts.damage.is_empty()).max_by_key(order);
    let any = usable.iter().max_by_key(order).expect("there is a copy that can be used");
    match whole {
        None => Ok(*any),
        Some(whole) if whole.2.last.log_order() >= any.2.last.log_order() => Ok(*whole),
        Some(whole) => Err(RecoverError::Undecided {
            whole: (whole.1.to_owned(), whole.2.last.offset.0),
            damaged: (any.1.to_owned(), any.2.last.offset.0),
        }),
    }
}

/// Whether all that was ever committed is in the chosen copy: no other holds more, and the copies
/// that are whole are those of a majority.
fn is_majority(usable: &[(usize, &Path, &Facts)], chosen: &Chosen) -> bool {
    let whole = usable.iter().filter(|(_, _, facts)| facts.damage.is_empty());
    let own = &chosen.facts;
    if usable.iter().any(|(_, _, facts)| facts.last.log_order() > own.last.log_order()) {
        return false;
    }
    // A set of voters may have been replaced; who counted before and after must both be there.
    let sets = usable.iter().map(|(_, _, facts)| facts);
    // One that has lost its vote, or records that it confirmed, does not count.
    let held: BTreeSet<(ReplicaId, Option<Uuid>)> = whole
        .filter(|(_, _, facts)| facts.election.is_some() && facts.reached == facts.last.offset)
        .map(|(_, _, facts)| (facts.meta.node, facts.meta.directory))
        .collect();
    sets.map(|facts| count(facts, &held)).all(|(there, all)| all > 0 && 2 * there > all)
}

/// How many of the voters that a copy knows are among those held, and how many there are.
fn count(facts: &Facts, held: &BTreeSet<(ReplicaId, Option<Uuid>)>) -> (usize, usize) {
    let is_held = |id: ReplicaId, directory: Option<Uuid>| {
        held.iter().any(|(node, own)| *node == id && (directory.is_none() || directory == *own))
    };
    if facts.voters.is_empty() {
        let ids = facts.voter_ids();
        let there = ids.iter().filter(|id| is_held(**id, None)).count();
        return (there, ids.len());
    }
    let there = facts.voters.iter().filter(|voter| {
        is_held(ReplicaId(voter.voter_id as u32), voter.voter_directory_id.known())
    });
    (there.count(), facts.voters.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::OffsetEpoch;
    use quorate_log::{Election, Meta};
    use quorate_wire::message::Listener;
    use quorate_wire::record::control::KRaftVoter;

    fn uuid(byte: u32) -> Uuid {
        Uuid([byte as u8; 16])
    }

    /// Node `node`'s copy of a static quorum of three, whose log ends like this.
    fn copy(node: u32, epoch: u32, end: u64) -> Copied {
        let voters: Vec<ReplicaId> = (1..=3).map(ReplicaId).collect();
        let election = Election { epoch: Epoch(epoch + 1), leader: None, voted: None, voters };
        let meta = Meta { cluster: "c".into(), node: ReplicaId(node), directory: Some(uuid(node)) };
        let facts = Facts {
            meta,
            last: OffsetEpoch::new(Offset(end), Epoch(epoch)),
            committed: Offset::ZERO,
            election: Some(election),
            epoch: Epoch(epoch + 1),
            reached: Offset(end),
            version: 0,
            voters: Vec::new(),
            damage: Vec::new(),
            replaced: Vec::new(),
            recovered: Vec::new(),
            unfinished: None,
        };
        Copied { directory: format!("d{node}").into(), found: Ok(facts) }
    }

    fn change(mut copy: Copied, change: impl FnOnce(&mut Facts)) -> Copied {
        change(copy.found.as_mut().unwrap());
        copy
    }

    fn damaged(of: Copied) -> Copied {
        change(of, |facts| facts.damage.push("it is".into()))
    }

    /// The log names the three, each with its directory.
    fn dynamic(of: Copied) -> Copied {
        change(of, |facts| {
            facts.version = 1;
            let at = |id: i32| Listener {
                name: "C".into(),
                host: "h".into(),
                port: id as u16,
                ..Listener::default()
            };
            facts.voters = (1..=3)
                .map(|id| KRaftVoter {
                    voter_id: id,
                    voter_directory_id: uuid(id as u32),
                    endpoints: vec![at(id)],
                    ..KRaftVoter::default()
                })
                .collect();
        })
    }

    fn all() -> Wish {
        let voter = |id: u32| format!("{id}@new:{id}:{}", uuid(id)).parse().unwrap();
        let listener = "CONTROLLER".into();
        Wish { voters: (1..=3).map(voter).collect(), listener, ..Wish::default() }
    }

    fn made(copies: &[Copied]) -> (u32, u32, Option<u64>, u64) {
        let plan = plan(copies, &all()).unwrap();
        let chosen = plan.chosen.facts.meta.node.0;
        (chosen, plan.epoch.0, plan.loss.map(|from| from.0), plan.skip)
    }

    #[test]
    fn the_last_epoch_counts_before_the_length_and_a_majority_loses_nothing() {
        assert_eq!(made(&[copy(1, 4, 90), copy(2, 5, 50)]), (2, 7, None, 0));
        assert_eq!(made(&[copy(1, 4, 90), copy(2, 4, 91), copy(3, 4, 80)]), (2, 6, None, 0));
        assert_eq!(made(&[copy(1, 4, 90), copy(2, 4, 90)]).0, 1, "the first of equals");
        // An epoch that somebody voted in counts also where it left no record.
        let voted = change(copy(2, 4, 80), |facts| facts.epoch = Epoch(9));
        assert_eq!(made(&[copy(1, 4, 90), voted]).1, 10);
    }

    #[test]
    fn what_a_lost_majority_may_have_given_out_is_passed_over() {
        let leap = LEAP as u32;
        assert_eq!(made(&[copy(1, 4, 90)]), (1, 6 + leap, Some(90), LEAP));
        // Two copies of one node are one voter.
        assert_eq!(made(&[copy(1, 4, 80), copy(1, 4, 90)]).2, Some(90));
        // Who observes, is damaged, has lost its vote or owes records proves nothing.
        let observer = copy(9, 4, 70);
        let lost = change(copy(2, 4, 80), |facts| facts.election = None);
        let owes = change(copy(2, 4, 80), |facts| facts.reached = Offset(95));
        for other in [observer, damaged(copy(2, 4, 80)), lost] {
            assert_eq!(made(&[copy(1, 4, 90), other]), (1, 6 + leap, Some(90), LEAP));
        }
        assert_eq!(made(&[copy(1, 4, 90), owes]).3, LEAP + 5, "behind all that is known");
        // In the log's set of voters directories count.
        assert_eq!(made(&[dynamic(copy(1, 4, 90)), dynamic(copy(2, 4, 90))]).2, None);
        let other = change(dynamic(copy(2, 4, 90)), |facts| facts.meta.directory = Some(uuid(7)));
        assert_eq!(made(&[dynamic(copy(1, 4, 90)), other]).2, Some(90));
        // A copy that knows of other voters: theirs must be there too.
        let grown = change(copy(2, 4, 90), |facts| {
            let voters = &mut facts.election.as_mut().unwrap().voters;
            voters.extend([ReplicaId(4), ReplicaId(5)]);
        });
        assert_eq!(made(&[copy(1, 4, 90), grown]).2, Some(90));
    }

    #[test]
    fn a_damaged_copy_is_used_only_where_there_is_nothing_better() {
        assert_eq!(made(&[damaged(copy(1, 4, 90)), copy(2, 4, 90)]).0, 2);
        assert_eq!(made(&[damaged(copy(1, 4, 90)), copy(2, 5, 10)]).0, 2);
        assert_eq!(made(&[damaged(copy(1, 4, 90))]).0, 1);
        let copies = [damaged(copy(1, 4, 90)), copy(2, 4, 80)];
        let undecided = plan(&copies, &all()).unwrap_err();
        assert!(matches!(undecided, RecoverError::Undecided { .. }), "{undecided}");
        for (directory, loss) in [("d1", 90), ("d2", 80)] {
            let wish = Wish { directory: Some(directory.into()), ..all() };
            let plan = plan(&copies, &wish).unwrap();
            assert_eq!(plan.loss, Some(Offset(loss)));
            let beyond: &[PathBuf] = if loss == 90 { &[] } else { &["d1".into()] };
            assert_eq!(plan.beyond, beyond);
        }
        let less = Wish { directory: Some("d2".into()), ..all() };
        assert_eq!(plan(&copies, &less).unwrap().skip, LEAP + 10, "none of what the other has");
    }

    /// The log of a recovery that was cut short says nothing any more of what it lost.
    #[test]
    fn what_was_begun_is_carried_on_with_the_loss_that_it_found() {
        let begun = |lost_from: Option<u64>| Salvage {
            kept: Epoch(9),
            epoch: Epoch(9),
            lost_from: lost_from.map(Offset),
            resumes_at: Offset(2_000_000),
            time_ms: 1,
            voters: "1".into(),
        };
        // Alone in a log that names it alone: nothing would be lost.
        let alone = |lost_from, end| {
            change(copy(1, 9, end), |facts| {
                facts.election.as_mut().unwrap().voters = vec![ReplicaId(1)];
                facts.unfinished = Some(begun(lost_from));
            })
        };
        for end in [90, 93, 1_000_000, 2_000_000] {
            let skip = 1_999_997_u64.saturating_sub(end);
            let made = made(&[alone(Some(90), end)]);
            assert_eq!(made, (1, 11, Some(90), skip), "{end}");
        }
        let plan = |copies: &[Copied], wish: &Wish| plan(copies, wish).unwrap();
        let more = Wish { skip: Some(3_000_000), ..all() };
        assert_eq!(plan(&[alone(Some(90), 93)], &more).resumes(), Offset(3_000_093));
        let less = Wish { skip: Some(5), ..all() };
        assert_eq!(plan(&[alone(Some(90), 93)], &less).resumes(), Offset(2_000_000));
        assert_eq!(plan(&[alone(Some(90), 93)], &less).kept, Epoch(9));
        // Nothing was lost at first, and is not now; but for what has come to light since.
        assert_eq!(made(&[alone(None, 93)]).2, None);
        assert_eq!(made(&[damaged(alone(None, 93))]).2, Some(93));
        assert_eq!(made(&[damaged(alone(Some(90), 93))]).2, Some(90));
        let newer = change(copy(2, 10, 95), |facts| facts.unfinished = None);
        let wish = Wish { directory: Some("d1".into()), ..all() };
        let behind = plan(&[alone(None, 93), newer], &wish);
        assert_eq!((behind.loss, behind.skip), (Some(Offset(93)), 1_999_904));
        // An earlier one is kept beside the new one, and that which only missed its end is not.
        let before = Salvage { epoch: Epoch(4), ..begun(Some(7)) };
        let both = change(alone(Some(90), 93), |facts| {
            facts.recovered = vec![before.clone(), begun(Some(90))];
        });
        assert_eq!(plan(&[both], &all()).before, [before]);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |copies: &[Copied], wish: &Wish, says: &str| {
            let why = plan(copies, wish).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        };
        let bad = || Copied { directory: "d9".into(), found: Err("no file".into()) };
        refused(&[bad()], &all(), "d9: no file");
        let wish = |directory: &str| Wish { directory: Some(directory.into()), ..all() };
        refused(&[copy(1, 1, 1), bad()], &wish("d9"), "no file");
        refused(&[copy(1, 1, 1)], &wish("d2"), "none of the directories");
        let other = change(copy(2, 1, 1), |facts| facts.meta.cluster = "x".into());
        refused(&[copy(1, 1, 1), other], &all(), "the cluster x");
        let nameless = change(copy(1, 1, 1), |facts| facts.meta.directory = None);
        refused(&[nameless], &all(), "no directory.id");
        let end = change(copy(1, 1, 1), |facts| facts.epoch = Epoch(i32::MAX as u32 - 1));
        refused(&[end], &all(), "no epoch behind");
        refused(&[copy(1, 1, 1)], &Wish::default(), "--voters 1@HOST:PORT");
        let voters = |list: &str| {
            let voters = list.split(',').map(|voter| voter.parse().unwrap()).collect();
            Wish { voters, ..all() }
        };
        refused(&[copy(1, 1, 1)], &voters("1@a:1,2@b:1"), "which directory voter 2 has");
        refused(&[copy(1, 1, 1)], &voters("1@a:1,1@b:1"), "new voters");
        refused(&[copy(1, 1, 1)], &voters("1@a:1,1@b:1"), "share the node id");
        let moved = change(copy(2, 1, 0), |facts| facts.meta.directory = Some(uuid(9)));
        let several = [copy(1, 1, 1), copy(2, 1, 0), moved];
        refused(&several, &voters("1@a:1,2@b:1"), "of several directories");
        let elsewhere = format!("1@a:1:{}", uuid(7));
        refused(&[copy(1, 1, 1)], &voters(&elsewhere), "must name node 1");
        refused(&[copy(1, 1, 1), copy(2, 1, 0)], &voters("2@b:1"), "must name node 1");
    }

    #[test]
    fn directories_and_addresses_come_from_where_they_are_known() {
        let plan = |copies: &[Copied], voters: &[&str]| {
            let voters = voters.iter().map(|voter| voter.parse().unwrap()).collect();
            let wish = Wish { voters, listener: "L".into(), ..Wish::default() };
            let plan = super::plan(copies, &wish).unwrap();
            let voters: Vec<String> = plan.voters.iter().map(ToString::to_string).collect();
            (voters.join(","), plan.listener)
        };
        // Of itself, where the log says that it is.
        let own = (format!("1@h:1:{}", uuid(1)), "C".to_owned());
        assert_eq!(plan(&[dynamic(copy(1, 4, 9))], &[]), own);
        // Of several copies the one that the log names, in whatever order they come.
        let old = change(dynamic(copy(2, 4, 8)), |facts| facts.meta.directory = Some(uuid(9)));
        let own = dynamic(copy(1, 4, 9));
        for copies in [[own.clone(), old.clone(), copy(2, 4, 1)], [own, copy(2, 4, 1), old]] {
            let both = format!("1@a:1:{},2@b:1:{}", uuid(1), uuid(2));
            assert_eq!(plan(&copies, &["1@a:1", "2@b:1"]).0, both);
        }
        // The other's directory from its copy, else from the log.
        let both = format!("1@a:1:{},2@b:1:{}", uuid(1), uuid(2));
        let found = plan(&[copy(1, 4, 9), copy(2, 4, 8)], &["1@a:1", "2@b:1"]);
        assert_eq!(found, (both.clone(), "L".to_owned()));
        assert_eq!(plan(&[dynamic(copy(1, 4, 9))], &["1@a:1", "2@b:1"]), (both, "C".to_owned()));

        // Whoever is known by the log alone is told apart.
        let voters = ["1@a:1", "2@b:1"].map(|voter| voter.parse().unwrap()).to_vec();
        let wish = Wish { voters, listener: "L".into(), ..Wish::default() };
        let absent = |copies: &[Copied]| {
            let plan = super::plan(copies, &wish).unwrap();
            plan.absent(copies).iter().map(|voter| voter.id.0).collect::<Vec<u32>>()
        };
        assert_eq!(absent(&[dynamic(copy(1, 4, 9))]), [2]);
        assert_eq!(absent(&[dynamic(copy(1, 4, 9)), copy(2, 4, 8)]), Vec::<u32>::new());
    }
}
