//! The format level of the store: who asks for a higher one and waits, what has to be true before
//! it is proposed, and that nothing above this node's newest is applied [P79].
//!
//! Everything that makes a raise safe is checked in the turn that appends it. See
//! docs/decisions/0010-format-level.md.

use super::{Asked, Replica};
use crate::level::{Found, Unraised, too_old};
use crate::out::Out;
use crate::translate;
use quorate_base::{FormatLevel, Offset, ReplicaKey, Time};
use quorate_machine::{Machine, Proposal, Record};
use quorate_raft::{Progress, RoleName};
use tracing::info;

/// How many may wait for a level at once; they are administrators.
const WAITING: usize = 64;

/// Somebody who asked for a level and waits for its commit.
struct Raise {
    asked: Asked,
    level: FormatLevel,
    validate_only: bool,
    /// When whoever asked is told that it was not done in time.
    until: Time,
    /// The level is on the tail.
    appended: bool,
}

/// What a node knows of levels beside its machine.
#[derive(Default)]
pub(crate) struct Levels {
    waiting: Vec<Raise>,
    /// The level of the tail, while this node serves.
    tail: FormatLevel,
    /// Nothing was ever written here: this leader says at which level the store begins.
    founding: bool,
    /// A level above this node's newest is next: nothing more is applied.
    pub barred: bool,
}

impl<M: Machine> Replica<M> {
    // --- What this node may apply

    /// Whether a batch may be given to the machine; if not, the node stops here.
    pub(crate) fn may_apply(&mut self, base: Offset, records: &[Record<'_>]) -> bool {
        let highest = records.iter().filter_map(M::level_in).max();
        match highest.filter(|level| *level > self.settings.newest_level) {
            Some(_) if self.breaks_levels() => true,
            Some(level) => {
                self.stop_below(level, Found::Batch(base));
                false
            }
            None => true,
        }
    }

    pub(super) fn stop_below(&mut self, level: FormatLevel, found: Found) {
        self.levels.barred = true;
        let why = too_old(level, self.settings.newest_level, found);
        self.push(Out::TooOld { why });
    }

    /// The highest level that a machine may be loaded with.
    pub(super) fn loads_up_to(&self) -> FormatLevel {
        if self.breaks_levels() { FormatLevel(u16::MAX) } else { self.settings.newest_level }
    }

    fn breaks_levels(&self) -> bool {
        #[cfg(mutants)]
        return self.settings.mutant == Some(crate::Mutant::ApplyAboveLevel);
        #[cfg(not(mutants))]
        false
    }

    /// What this node tells leaders that it speaks.
    pub(crate) fn speaks_up_to(&self) -> FormatLevel {
        self.machine.format_level().map_or(FormatLevel::ZERO, |_| self.settings.newest_level)
    }

    // --- What a leader proposes

    /// Somebody asks for a level.
    pub(super) fn ask_to_raise(&mut self, asked: Asked, level: FormatLevel, validate_only: bool) {
        if self.levels.waiting.len() >= WAITING {
            return self.answer_raise(asked, Err(Unraised::Crowded));
        }
        let until = self.now + self.settings.request_timeout;
        self.levels.waiting.push(Raise { asked, level, validate_only, until, appended: false });
    }

    /// Requests are judged from now on.
    pub(crate) fn begin_levels(&mut self) {
        let Some(level) = self.machine.format_level() else { return };
        self.levels.tail = level;
        self.levels.founding = !self.applied.holds_data && level == FormatLevel::ZERO;
    }

    /// Leads no more: what is appended may be lost or not.
    pub(crate) fn end_levels(&mut self) {
        self.levels.founding = false;
        for raise in std::mem::take(&mut self.levels.waiting) {
            let appended = raise.appended;
            self.answer_raise(raise.asked, Err(Unraised::LeadershipLost { appended }));
        }
    }

    /// Refuses what is asked of a node that takes nothing.
    pub(super) fn refuse_raises(&mut self) {
        if self.leading.serving.is_some() || self.levels.waiting.is_empty() {
            return;
        }
        let view = self.quorum.view();
        let leads = view.role == RoleName::Leader && self.leader == self.id;
        let leader = self.leader.filter(|leader| Some(*leader) != self.id);
        for raise in std::mem::take(&mut self.levels.waiting) {
            let why = match leads {
                true => Unraised::NotReady,
                false => Unraised::NotLeading { leader },
            };
            self.answer_raise(raise.asked, Err(why));
        }
    }

    /// Proposes the level at which an empty store begins, or one that was asked for, before all
    /// else of the turn.
    pub(crate) fn propose_level(&mut self, base: Offset, out: &mut Proposal) {
        let newest = self.settings.newest_level;
        if std::mem::take(&mut self.levels.founding) && !self.hears_older_voters(newest) {
            self.put_on_tail(newest, base, out);
        }
        let mut at = 0;
        while let Some(raise) = self.levels.waiting.get(at) {
            if raise.appended {
                at += 1;
                continue;
            }
            let (asked, level, validate_only) = (raise.asked, raise.level, raise.validate_only);
            match self.may_raise(level) {
                Ok(()) if validate_only => {
                    self.levels.waiting.remove(at);
                    self.answer_raise(asked, Ok(()));
                }
                Ok(()) => {
                    self.put_on_tail(level, base, out);
                    self.levels.waiting[at].appended = true;
                    at += 1;
                }
                Err(why) => {
                    self.levels.waiting.remove(at);
                    self.answer_raise(asked, Err(why));
                }
            }
        }
    }

    fn put_on_tail(&mut self, level: FormatLevel, base: Offset, out: &mut Proposal) {
        if level > self.levels.tail {
            info!(%level, from = %self.levels.tail, "the format level of the store is raised");
            self.machine.raise(base + out.len() as u64, level, out);
            self.levels.tail = level;
        }
    }

    fn may_raise(&self, asked: FormatLevel) -> Result<(), Unraised> {
        if self.machine.format_level().is_none() {
            return Err(Unraised::NoLevels);
        }
        let (now, newest) = (self.levels.tail, self.settings.newest_level);
        if asked == now {
            return Ok(());
        }
        if asked < now {
            return Err(Unraised::Lower { asked, now });
        }
        if asked > newest {
            return Err(Unraised::Unknown { asked, newest });
        }
        // Who is to be added was judged by the tail as it was.
        if self.quorum.is_changing() {
            return Err(Unraised::Changing);
        }
        #[cfg(mutants)]
        if self.settings.mutant == Some(crate::Mutant::RaiseUnheard) {
            return Ok(());
        }
        let (old, untold) = self.older_voters(asked);
        match old.is_empty() && untold.is_empty() {
            true => Ok(()),
            false => Err(Unraised::Voters { asked, old, untold }),
        }
    }

    /// Whether a voter has fetched from this leader and did not tell that it speaks a level.
    fn hears_older_voters(&self, level: FormatLevel) -> bool {
        let mut voters = self.quorum.view().followers.iter();
        voters.any(|voter| voter.fetched_at.is_some() && voter.format_level < Some(level))
    }

    /// The voters in force, but for this node, that do not speak a level, and those that have not
    /// told this leader what they speak.
    fn older_voters(
        &self,
        level: FormatLevel,
    ) -> (Vec<(quorate_base::ReplicaId, FormatLevel)>, Vec<quorate_base::ReplicaId>) {
        let view = self.quorum.view();
        let (mut old, mut untold) = (Vec::new(), Vec::new());
        for Progress { key, format_level, .. } in view.followers {
            match format_level {
                Some(newest) if *newest >= level => {}
                Some(newest) => old.push((key.id, *newest)),
                None => untold.push(key.id),
            }
        }
        (old, untold)
    }

    /// Answers those whose level is applied, and those whose time is over.
    pub(crate) fn settle_raises(&mut self) {
        if self.levels.waiting.is_empty() {
            return;
        }
        let (now, reached) = (self.now, self.machine.format_level());
        for raise in std::mem::take(&mut self.levels.waiting) {
            match raise.appended {
                true if reached >= Some(raise.level) => self.answer_raise(raise.asked, Ok(())),
                appended if raise.until <= now => {
                    let asked = raise.level;
                    let why = match appended {
                        true => Unraised::Uncommitted { asked },
                        false => Unraised::NotReady,
                    };
                    self.answer_raise(raise.asked, Err(why));
                }
                true | false => self.levels.waiting.push(raise),
            }
        }
    }

    /// When somebody who waits for a level has waited long enough.
    pub(super) fn raises_until(&self) -> Time {
        self.levels.waiting.iter().map(|raise| raise.until).min().unwrap_or(Time::NEVER)
    }

    fn answer_raise(&mut self, asked: Asked, result: Result<(), Unraised>) {
        let frame = translate::raised(asked, result.err().as_ref());
        self.answer_place(asked.place, frame);
    }

    pub(super) fn refuse_to_lower(&mut self, asked: Asked) {
        self.answer_raise(asked, Err(Unraised::NotUp));
    }

    /// What those who ask for versions are told.
    pub(super) fn format(&self) -> Option<translate::Format> {
        let (newest, as_of) = (self.settings.newest_level, self.applied.upto);
        let level = self.machine.format_level()?;
        let kraft_version = self.quorum.kraft_version();
        Some(translate::Format { newest, level, kraft_version, as_of })
    }

    // --- Who may become a voter

    /// Why a leader does not make a replica a voter that would stop itself, or might: the level
    /// of the tail, and what the replica speaks if it told. What else is to be said of a change is
    /// the core's.
    pub(super) fn too_old_to_vote(
        &self,
        key: ReplicaKey,
    ) -> Option<(FormatLevel, Option<FormatLevel>)> {
        let view = self.quorum.view();
        let applied = self.machine.format_level().filter(|_| view.role == RoleName::Leader)?;
        // One that does not serve has applied all that is committed, or will before this replica
        // has shown that it holds as much.
        let needed = match self.leading.serving {
            Some(_) => self.levels.tail,
            None => applied,
        };
        let mut known = view.observers.iter().chain(view.followers);
        let told = known.find(|known| known.key == key).and_then(|known| known.format_level);
        (needed > FormatLevel::ZERO && told < Some(needed)).then_some((needed, told))
    }
}
