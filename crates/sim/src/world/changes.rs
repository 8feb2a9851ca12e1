//! Changes of the voters: what the administrator asks and hears, disks that are replaced, and what
//! is to be seen of all that in the logs and roles of the nodes.

use super::{Event, Phase, World};
use crate::admin::{Heard, Told, Wanted};
use crate::checkers::{Failure, Logs, Making, change_is_committed, change_is_safe_when_made};
use crate::clients::Clients;
use crate::network::Process;
use crate::plan::Naming;
use crate::seats::{Change, difference};
use bytes::Bytes;
use quorate_base::{ReplicaKey, Span, Uuid};
use quorate_log::Job;
use quorate_node::ConnId;
use quorate_raft::RoleName;
use quorate_wire::{ErrorCode, Served};

/// An administrator who waits for something looks again after so long.
const AGAIN: Span = Span::ms(100);

/// A disk that is to be replaced: the old voter goes, then the new one comes.
#[derive(Clone, Copy)]
pub(crate) struct Errand {
    node: usize,
    old: ReplicaKey,
    /// Whether it is asked for by one request, which not every leader knows.
    whole: bool,
    /// Whether the old one is gone.
    gone: bool,
    done: bool,
}

impl<C: Clients> World<C> {
    /// Asks a node, or whoever leads, for one voter more or less. True if somebody was asked.
    pub(super) fn ask_for_change(
        &mut self,
        change: Change,
        node: usize,
        asks: Option<usize>,
        when_committed: bool,
        naming: Naming,
    ) -> bool {
        // Who is to go is named as the voters have it, like any administrator sees them.
        let voters = self.seats.behind(&self.committed.ledger.entries);
        let known = voters.iter().find(|voter| voter.id == self.keys[node].id).copied();
        let known = known.filter(|_| change == Change::Remove);
        let mut key = known.unwrap_or(self.keys[node]);
        // Static voters have none in the set.
        key.directory = key.directory.or(self.keys[node].directory);
        let number = self.admin.asked.len() as u32;
        let mut nobodys = [0xee; 16];
        nobodys[..4].copy_from_slice(&number.to_be_bytes());
        key.directory = match naming {
            Naming::Right | Naming::Nowhere => key.directory,
            Naming::Wrong => Some(Uuid(nobodys)),
            Naming::Nothing => None,
        };
        let listener = self.nodes[node].listener_of(node);
        let at = (change == Change::Add && naming != Naming::Nowhere).then_some(listener);
        let (replaces, errand) = (None, None);
        self.ask_admin(asks, Wanted { change, key, replaces, when_committed, at, errand })
    }

    fn ask_admin(&mut self, asks: Option<usize>, wanted: Wanted) -> bool {
        let leads = |node: &usize| self.last[*node].role == Some(RoleName::Leader);
        let up = |node: &usize| self.nodes[*node].running.is_some();
        let leader = (0..self.nodes.len()).filter(up).filter(leads);
        let leader = leader.max_by_key(|node| self.last[*node].epoch);
        let Some(node) = asks.or(leader) else { return false };
        let Some(running) = &self.nodes[node].running else { return false };
        let api = match wanted.change {
            Change::Add => Served::AddRaftVoter,
            Change::Remove => Served::RemoveRaftVoter,
        };
        let Some(version) = running.speaks.newest(api) else { return false };
        let when_committed = wanted.when_committed || version == 0;
        let wanted = Wanted { when_committed, ..wanted };
        let stranger = Process { node: self.nodes.len(), life: 0 };
        let conn = self.network.connect(stranger, self.life(node));
        let (since, change, key) = (self.committed.ledger.end(), wanted.change, wanted.key);
        let frame = self.admin.ask(wanted, since, conn, version);
        if self.trace.reads() {
            self.words.of(conn, &frame);
            self.trace.world(self.now, || format!("asks {}: {change:?} {key}", node + 1));
        }
        self.network.send(self.now, conn, frame, &mut self.queue);
        true
    }

    /// Something arrives where the administrator and all strangers are.
    pub(super) fn admin_hears(
        &mut self,
        conn: ConnId,
        frame: Option<Bytes>,
    ) -> Result<(), Failure> {
        if self.hears_of_level(conn, frame.as_ref())? || !self.admin.waits_on(conn) {
            return Ok(());
        }
        let Some(frame) = frame else {
            self.admin.closed(conn);
            return Ok(());
        };
        self.network.close(self.now, conn, &mut self.queue);
        let heard = self.admin.heard(conn, frame);
        let heard = heard.map_err(|what| Failure::new("answers_make_sense", what))?;
        let Heard { asked, told, mark, words } = heard;
        let asked = self.admin.asked[asked].clone();
        let Wanted { change, key, replaces, when_committed, errand, .. } = asked.wanted;
        self.trace.world(self.now, || format!("hears of {change:?} {key}: {words}"));
        self.trace.mix(&[self.now.0, 7]);
        if let Some(mark) = mark {
            self.marks.hit(mark);
        }
        if told == Told::Done {
            let logs = Logs {
                books: &self.books,
                durable: &self.durable,
                lost: &self.lost,
                keys: &self.keys,
                gone: &self.gone,
                seats: &self.seats,
            };
            change_is_committed(&asked, &self.committed.ledger, &logs)?;
            self.marks.hit(match (change, when_committed) {
                (Change::Add, true) => "a voter was added",
                (Change::Add, false) => "a change was answered early",
                (Change::Remove, _) => "a voter was removed",
            });
        }
        let counts = self.seats.behind(&self.committed.ledger.entries).contains(&key);
        let Some(errand) = errand.map(|number| &mut self.errands[number]) else { return Ok(()) };
        match (change, told) {
            (Change::Add, Told::Refused(ErrorCode::DuplicateVoter))
                if replaces.is_some() && !counts =>
            {
                errand.whole = false;
            }
            (Change::Remove, Told::Done | Told::Refused(ErrorCode::VoterNotFound)) => {
                errand.gone = true;
            }
            (Change::Add, Told::Done) => {
                errand.done = true;
                self.marks.hit(match replaces {
                    Some(_) => "a voter's disk was replaced by one request",
                    None => "a voter's disk was replaced",
                });
            }
            (Change::Add, Told::Refused(ErrorCode::DuplicateVoter)) => errand.done = true,
            (Change::Add | Change::Remove, Told::Refused(_) | Told::Perhaps) => {}
        }
        Ok(())
    }

    // --- Disks that are replaced

    pub(super) fn replace(&mut self, node: usize, lasts: Span) {
        let old = self.keys[node];
        let sits = self.seats.dynamic && self.is_seated(node);
        if sits && self.loses_its_disk(node, lasts) {
            let number = self.errands.len();
            let whole = (number + node).is_multiple_of(2);
            self.errands.push(Errand { node, old, whole, gone: false, done: false });
            self.queue.push(self.now + lasts, Event::Errand(number));
        }
    }

    pub(super) fn errand_goes_on(&mut self, number: usize) -> Result<(), Failure> {
        let Errand { node, old, whole, gone, done } = self.errands[number];
        // The disk may have been lost once more, and that is another one's errand.
        if done || self.phase != Phase::Faults {
            return Ok(());
        }
        let (change, key) = match gone || whole {
            true => (Change::Add, self.keys[node]),
            false => (Change::Remove, old),
        };
        let at = (gone || whole).then(|| self.nodes[node].listener_of(node));
        let (replaces, errand) = (whole.then_some(old), Some(number));
        self.ask_admin(None, Wanted { change, key, replaces, when_committed: true, at, errand });
        self.queue.push(self.now + AGAIN, Event::Errand(number));
        Ok(())
    }

    pub(super) fn move_away(&mut self, node: usize, lasts: Span) {
        self.marks.hit("a node moved");
        self.nodes[node].moves();
        self.down(node, false, lasts);
    }

    // --- What is to be seen

    /// Counts the voters that nobody asked for.
    pub(super) fn note_joined(&mut self) {
        let adds = |change: &Change| *change == Change::Add;
        let asked = self.admin.asked.iter().filter(|asked| adds(&asked.wanted.change));
        let asked = asked.filter(|asked| !matches!(asked.told, Told::Refused(_))).count();
        let held = self.changes.changes.values().flatten();
        let held = held.filter(|(change, _)| adds(change)).count();
        let joined = held.saturating_sub(asked) as u64;
        self.marks.add("a node became a voter by itself", joined);
    }

    /// A node gives its disk something to do that may concern the voters.
    pub(super) fn note_change(&mut self, node: usize, job: &Job) -> Result<(), Failure> {
        if !self.seats.dynamic {
            return Ok(());
        }
        let entries = &self.books[node].entries;
        if let Job::Truncate(cut) = job {
            let left = entries.partition_point(|entry| entry.base < cut.end);
            let (before, after) = (self.seats.behind(entries), self.seats.behind(&entries[..left]));
            if before != after {
                self.marks.hit("voters were cut off a log");
            }
        }
        let Job::Append(append) = job else { return Ok(()) };
        let named = crate::book::entries(&append.bytes).filter(|entry| entry.voters.is_some());
        for entry in named.collect::<Vec<_>>() {
            let Some(running) = &self.nodes[node].running else { return Ok(()) };
            let making = Making {
                node,
                view: running.replica.view(),
                local: running.clock.local(self.now),
                fetch_timeout: self.nodes[node].fetch_timeout(),
                book: &self.books[node],
                seats: &self.seats,
                committed: self.committed.ledger.end(),
            };
            change_is_safe_when_made(&making, &entry)?;
            if making.view.epoch_start.is_none_or(|start| start >= entry.base) {
                continue;
            }
            let before = self.seats.behind(&self.books[node].entries);
            let after: Vec<ReplicaKey> = entry.voters.iter().flat_map(|v| v.to_vec()).collect();
            match difference(before, &after)[..] {
                [] => self.marks.hit("a voter said where it is now"),
                [(Change::Remove, key)] if key == self.keys[node] => {
                    self.marks.hit("a leader removed itself");
                }
                [(Change::Add, _), (Change::Remove, _)] => {
                    self.marks.hit("a voter's disk was replaced by one record");
                }
                [(Change::Add | Change::Remove, _), ..] => {}
            }
        }
        Ok(())
    }

    /// A node is something else than before.
    pub(super) fn note_role(&mut self, node: usize, before: Option<RoleName>) {
        let observes = self.observes(node);
        let stands = [RoleName::Prospective, RoleName::ProspectiveVoted, RoleName::Candidate];
        let role = self.last[node].role;
        let stands = role.is_some_and(|role| stands.contains(&role));
        let named = self.seats.behind(&self.books[node].entries);
        let old = named.iter().any(|voter| voter.id == self.keys[node].id);
        match role {
            Some(RoleName::Resigned) if observes && before == Some(RoleName::Leader) => {
                self.marks.hit("a removed leader resigned");
            }
            Some(RoleName::Observer) if old && observes => {
                self.marks.hit("a voter came back as another, and observed");
            }
            _ if stands && observes => self.marks.hit("a removed leader stood again"),
            _ if stands && !self.is_counted(node) => {
                self.marks.hit("one stood that had not heard of its removal")
            }
            Some(_) | None => {}
        }
    }
}
