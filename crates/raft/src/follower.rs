//! The follower's side of replication: where to fetch from, and what to do with the answer.
//!
//! A fetch says "all below is durable here", so a replica that counts, or may come to count, sends
//! it only then. Nothing committed is ever truncated, whoever asks for it [P28].

use crate::cleaned::Use;
use crate::effect::{BatchMark, Call, Complaint, Effect, Source, Write, WriteId};
use crate::message::{Fetch, FetchAnswer, FetchHighWatermark, Fetched, Request};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::Quorum;
use crate::role::{Follower, Role, Standing};
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId};

impl Quorum {
    /// Follows `standing.leader`, which must be known and another.
    pub(crate) fn become_follower(&mut self, standing: Standing, out: &mut Vec<Effect>) {
        assert!(standing.leader.is_some(), "a follower knows its leader");
        assert!(standing.leader != self.id(), "nobody follows itself");
        let role = Follower::new(self.now + self.config.fetch_timeout);
        self.enter(standing, Role::Follower(role), out);
    }

    pub(crate) fn turn_follower(&mut self, out: &mut Vec<Effect>) -> bool {
        let (may_stand, lacking) = (self.may_stand(), self.lacks_pre_vote());
        let (Role::Follower(role), Some(leader)) = (&mut self.role, self.standing.leader) else {
            return false;
        };
        if lacking {
            role.stand_at = None; // Only the timers may start an election now [P52].
        }
        let gone = role.stand_at.is_some_and(|at| self.now >= at);
        if may_stand && (gone || self.now >= role.fetch_at) {
            self.become_prospective(gone, out);
            return true;
        }
        if !self.update_leader(leader, out) && !self.ask_to_join(leader, out) {
            self.fetch_from_leader(leader, out);
        }
        false
    }

    /// From the leader; after a failure there, once from someone who may know a newer one [P30].
    fn fetch_from_leader(&mut self, leader: ReplicaId, out: &mut Vec<Effect>) {
        let node = Node::Replica(leader);
        if self.peers.fetches() > 0 {
            return;
        }
        if self.peers.doubted(node) && self.fetch_from_anyone(Some(leader), out) {
            self.peers.trust(node);
        } else if self.ready(node) && !self.fetch_snapshot(node, out) {
            self.fetch(node, out);
        }
    }

    /// From the first ready one of the bootstrap servers and the voters, from a random one on: the
    /// list may name nobody any more who is there, and so may an old log. True if someone was
    /// asked.
    pub(crate) fn fetch_from_anyone(
        &mut self,
        except: Option<ReplicaId>,
        out: &mut Vec<Effect>,
    ) -> bool {
        let listed = self.config.bootstrap;
        let count = listed + self.decrees.voters().len();
        if self.peers.fetches() > 0 || count == 0 {
            return false;
        }
        let first = self.rng.below(count as u64) as usize;
        for at in (first..count).chain(0..first) {
            let node = match at.checked_sub(listed) {
                None => Node::Bootstrap(at),
                Some(at) => Node::Replica(self.decrees.voters().entries()[at].key.id),
            };
            let skip = |id: Option<ReplicaId>| id.is_some_and(|id| node == Node::Replica(id));
            if !skip(self.id()) && !skip(except) && self.ready(node) {
                self.fetch(node, out);
                return true;
            }
        }
        false
    }

    fn fetch(&mut self, node: Node, out: &mut Vec<Effect>) {
        let round = match &self.role {
            Role::Follower(role) => role.round,
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Leader(_)
            | Role::Resigned(_) => 0,
        };
        let body = Request::Fetch(Fetch {
            epoch: self.standing.epoch,
            replica: self.key,
            from: self.last(),
            high_watermark: FetchHighWatermark::Known(self.high_watermark),
            max_wait: self.config.fetch_max_wait,
            max_bytes: self.config.fetch_max_bytes,
            round: Some(round),
            no_room: false,
            format_level: FormatLevel::ZERO,
            history: None,
            never_leads: self.config.never_lead,
        });
        // Without an id it can never count, so its fetch acknowledges nothing.
        let acknowledged = match self.key {
            Some(_) => self.writes.last_append(),
            None => WriteId(0),
        };
        self.ask(node, Question::Fetch, self.shown().max(acknowledged), body, out);
    }

    /// The leader's process is gone: a voter need not wait for its timer [P50].
    pub(crate) fn on_process_gone(&mut self, node: Node) {
        let allowed = self.is_electable() && !self.lacks_pre_vote();
        let first = self.now + self.config.death_stagger + self.stagger();
        if let Role::Follower(role) = &mut self.role
            && allowed
            && self.standing.leader.is_some_and(|leader| node == Node::Replica(leader))
        {
            role.stand_at = role.stand_at.or(Some(first));
        }
    }

    pub(crate) fn on_fetch_answer(
        &mut self,
        call: Call,
        node: Node,
        answer: FetchAnswer,
        out: &mut Vec<Effect>,
    ) {
        if !self.learn(node, &answer.view, out) {
            return;
        }
        // Whoever serves a fetch leads and says so; anything else is no answer.
        let leads = answer.view.leader.is_some() && answer.view.leader == self.standing.leader;
        if !matches!(self.role, Role::Follower(_)) || !leads {
            self.back_off(node);
            return;
        }
        if let Err(what) = self.take(call, node, &answer, out) {
            self.refuse(node, what, out);
            return;
        }
        self.heard();
        let level = answer.high_watermark.is_some_and(|told| told <= self.end);
        if let Role::Follower(role) = &mut self.role {
            role.round = answer.round.unwrap_or(0);
            role.bound = answer.bound;
            role.level = level;
        }
    }

    /// The leader answered as one: no election now.
    pub(crate) fn heard(&mut self) {
        self.content();
        if let Role::Follower(role) = &mut self.role {
            role.fetch_at = self.now + self.config.fetch_timeout;
            role.fetched = true;
            role.stand_at = None;
        }
    }

    fn take(
        &mut self,
        call: Call,
        node: Node,
        answer: &FetchAnswer,
        out: &mut Vec<Effect>,
    ) -> Result<(), Complaint> {
        if matches!(answer.fetched, Fetched::Diverging(_) | Fetched::Batches(_)) {
            self.abandon(out); // The leader goes on from our log after all.
        }
        match &answer.fetched {
            Fetched::Diverging(at) => self.cut_back(*at, out),
            Fetched::Snapshot(id) => self.begin_download(*id, out),
            Fetched::Range { .. } => Err(Complaint::Malformed),
            Fetched::Nothing => self.raise_high_watermark(answer.high_watermark),
            Fetched::Batches(batches) => {
                self.check_high_watermark(answer.high_watermark)?;
                if batches.is_empty() {
                    return self.raise_high_watermark(answer.high_watermark);
                }
                match self.judge_cleaned(answer)? {
                    Use::Take => {}
                    Use::StartOver => {
                        self.back_off(node);
                        out.push(Effect::StartOver);
                        return Ok(());
                    }
                }
                let before = self.end;
                let appended = self.append_fetched(call, batches, out);
                if self.end > before {
                    self.note_cleaned(answer);
                }
                self.raise_high_watermark(answer.high_watermark)?;
                appended?;
                if self.end == before {
                    // All of a later epoch: asking again at once brings the same.
                    self.back_off(node);
                }
                Ok(())
            }
        }
    }

    /// The logs part: back to where they last agree, for all that the leader's answer says [P28].
    fn cut_back(&mut self, told: OffsetEpoch, out: &mut Vec<Effect>) -> Result<(), Complaint> {
        let mine = self.epochs.end_of(told.epoch, self.end);
        let cut = match mine {
            _ if told.epoch == Epoch::ZERO => told.offset.min(self.end),
            Some(mine) if mine.epoch == told.epoch => mine.offset.min(told.offset),
            Some(mine) => mine.offset,
            None => self.start,
        };
        let committed = self.settled();
        if cut < committed {
            return Err(Complaint::DivergedBelowCommitted { cut, committed });
        }
        if cut >= self.end {
            return Err(Complaint::DivergedNowhere { told, ours: self.last() });
        }
        self.end = cut;
        self.epochs.truncate(cut);
        self.decrees.truncate(cut);
        let id = self.writes.truncate(cut);
        if !mutant!(self, SkipTruncate) {
            out.push(Effect::Write { id, write: Write::Truncate { end: cut } });
        }
        Ok(())
    }

    /// Appends what continues the log, up to the first batch of a later epoch: that one was written
    /// after the answer's leader was deposed [P29]. An error says what is wrong with the batch
    /// behind the appended ones.
    fn append_fetched(
        &mut self,
        call: Call,
        batches: &[BatchMark],
        out: &mut Vec<Effect>,
    ) -> Result<(), Complaint> {
        let base = self.end;
        let mut wrong = Ok(());
        for batch in batches {
            let last = self.epochs.last();
            if batch.epoch > self.standing.epoch {
                break;
            }
            // Empty batches stand for what is cleaned away: no log has a gap [P81].
            if batch.base != self.end {
                wrong = Err(Complaint::RecordGap { end: self.end, base: batch.base });
                break;
            }
            if batch.last < batch.base || batch.last.0 >= i64::MAX as u64 {
                wrong = Err(Complaint::Malformed);
                break;
            }
            if batch.epoch < last {
                wrong = Err(Complaint::EpochFell { last, next: batch.epoch });
                break;
            }
            if let Some(decree) = &batch.decree
                && let Err(bad) = self.decrees.append(batch.base, decree)
            {
                wrong = Err(Complaint::Decree { bad });
                break;
            }
            self.epochs.append(batch.epoch, batch.base);
            self.end = batch.last + 1;
        }
        if self.end > base {
            let (end, epoch) = (self.end, self.epochs.last());
            let id = self.writes.append(end);
            let write = Write::Append { base, end, epoch, source: Source::Fetched(call) };
            out.push(Effect::Write { id, write });
        }
        wrong
    }

    /// A leader that has not yet one tells none; apart from that it never falls [P38].
    fn check_high_watermark(&self, told: Option<Offset>) -> Result<(), Complaint> {
        // What a snapshot holds is committed, whether or not this replica has heard of more since.
        let known = self.high_watermark.or((self.start > Offset::ZERO).then_some(self.start));
        match (known, told) {
            (Some(known), Some(told)) if told < known => {
                Err(Complaint::HighWatermarkFell { known, told })
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn raise_high_watermark(&mut self, told: Option<Offset>) -> Result<(), Complaint> {
        self.check_high_watermark(told)?;
        if let Some(told) = told {
            self.high_watermark = Some(told.min(self.end)).max(self.high_watermark);
        }
        Ok(())
    }
}
