//! Bits that flip on a disk: in the log and in snapshots, under a running node and under one that
//! is down. Such a node has to find out, set aside what is damaged and copy it again, with the
//! power cut anywhere in between, and must not have a say before it holds what it had confirmed.

use super::{Event, Phase, World};
use crate::book::Lost;
use crate::checkers::{Failure, Written, files_reopen};
use crate::clients::Clients;
use crate::node::Node;
use quorate_base::Span;

/// A repair that was cut short is begun again after so long.
const REPAIR_AGAIN: Span = Span::ms(20);

impl<C: Clients> World<C> {
    pub(super) fn rot(&mut self, node: usize, at: u64) -> Result<(), Failure> {
        let spare = !self.is_seated(node) || self.weak(node) || self.spare() > 0;
        let running = self.nodes[node].running.as_ref();
        let Some(start) = running.map(|running| running.replica.view().start) else {
            return Ok(());
        };
        if !spare || self.nodes[node].out {
            return Ok(());
        }
        let (lives, snapshot, at) = (at & 1 == 0, at & 6 == 0, at >> 3);
        let stored = self.books[node].below(self.durable[node]);
        // What was trimmed counts for nothing any more.
        let gone = self.books[node].entries.partition_point(|entry| entry.base < start);
        if !snapshot && gone >= stored {
            return Ok(());
        }
        // What the system writes by itself within half a minute is on the disk by then.
        if self.nodes[node].broken.is_some() || !self.nodes[node].sync_mark() {
            return Ok(());
        }
        if !lives {
            self.end_process(node, false, false, Span::ZERO);
        }
        if snapshot {
            let Some(name) = self.nodes[node].rot_snapshot(at) else { return Ok(()) };
            self.line(node, || format!("a bit of {name} flips"));
            self.marks.hit("a bit of a snapshot flipped");
        } else {
            let kept = (stored - gone) as u64;
            let entry = gone + (at % kept) as usize;
            if self.would_seem_alone(node, entry) {
                return Ok(());
            }
            self.nodes[node].rot(&self.books[node], entry, at / kept);
            let base = self.books[node].entries[entry].base;
            self.line(node, || format!("a bit of the batch at {base} flips"));
            self.marks.hit("a bit of a log flipped");
        }
        self.nodes[node].rotten = true;
        Ok(())
    }

    /// Whether without this batch a log names nobody but its own node: where that is the only
    /// voter, it does not start on damage, and whether it is, is what the batch says.
    fn would_seem_alone(&self, node: usize, without: usize) -> bool {
        let mut left = self.books[node].entries.clone();
        left.remove(without);
        let again = self.nodes[node].rotten;
        let key = self.keys[node];
        let alone = |upto: usize| self.seats.behind(&left[..upto])[..] == [key];
        let seems = alone(left.len()) || alone(without);
        self.seats.dynamic && (seems || again && (0..left.len()).any(alone))
    }

    /// Whether a start of this node finds damage.
    pub(super) fn finds_damage(&mut self, node: usize) -> bool {
        let Node { rotten, mending, .. } = self.nodes[node];
        // With a claim noted, damage may end with the log emptied behind a snapshot, not an error.
        let found = rotten
            && (mending || self.nodes[node].must_reach() || self.nodes[node].read_files().is_err());
        (self.nodes[node].rotten, self.nodes[node].mending) = (found, found);
        if found {
            let lost = Lost { book: self.books[node].clone(), durable: self.durable[node] };
            self.lost[node] = Some(lost.or_before(self.lost[node].take()));
            // The power may go in the middle of the repair.
            let rng = &mut self.nodes[node].rng;
            if self.phase == Phase::Faults && !rng.one_in(3) {
                let steps = [60, 400, 3_000, 20_000][rng.below(4) as usize];
                let power = rng.below(steps);
                self.nodes[node].disk.limit_power(Some(power));
            }
        }
        found
    }

    /// Whether a start failed because the power went; it is tried again.
    pub(super) fn repair_cut_short(&mut self, node: usize) -> bool {
        let short = self.nodes[node].disk.power() == Some(0);
        if short {
            self.marks.hit("a repair was cut short");
            self.line(node, || "loses power within the repair".to_owned());
            let node = &mut self.nodes[node];
            match node.rng.one_in(3) {
                true => node.disk.kill(),
                false => node.disk.crash(&mut node.rng),
            }
            node.limit_room();
        }
        if short {
            self.queue.push(self.now + REPAIR_AGAIN, Event::Up(node));
        }
        short
    }

    /// Whether a node rightly does not start on damage: it has become the only voter since a bit
    /// flipped, and nobody else counts who could make up for it. It stays away.
    pub(super) fn stays_down_alone(&mut self, node: usize) -> bool {
        let voters = self.seats.behind(&self.books[node].entries);
        let alone = self.seats.dynamic && voters[..] == [self.keys[node]];
        if alone {
            self.line(node, || "is the only voter, and damaged".to_owned());
            self.nodes[node].out = true;
        }
        alone
    }

    /// A node has started on damaged files: what it holds now was written, and what it does not
    /// hold any more it has not forgotten.
    pub(super) fn repaired(&mut self, node: usize) -> Result<(), Failure> {
        self.nodes[node].disk.limit_power(None);
        (self.nodes[node].rotten, self.nodes[node].mending) = (false, false);
        self.marks.hit("a damaged node repaired itself");
        let failure =
            |what| Failure::new("damage_is_repaired", format!("node {}: {what}", node + 1));
        let (recovery, found) = self.files(node)?;
        let had = self.lost[node].as_ref().map(Lost::last).unwrap_or_default();
        let holds = recovery.last().log_order() >= had.log_order();
        let knows = recovery.must_reach.is_some_and(|reach| reach.log_order() >= had.log_order());
        if !holds && !knows {
            let (last, reach) = (recovery.last(), recovery.must_reach);
            return Err(failure(format!("it had {had}, holds {last} and must reach {reach:?}")));
        }
        self.line(node, || format!("had {had}, must reach {:?}", recovery.must_reach));
        let states: Vec<_> = self.elections[node].iter().map(|(_, state)| state.clone()).collect();
        let written = Written { book: &found, durable: recovery.end, elections: &states };
        files_reopen(node, &recovery, &found, &written)?;
        self.counts(node, recovery, found)
    }
}
