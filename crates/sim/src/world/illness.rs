//! Faults that single nodes suffer: a full disk, a call that fails, a directory that is gone, a
//! clock that jumps, a stranger who asks too much. Says which of them the protocol
//! does not forgive, and keeps those from happening.

use super::{Event, World};
use crate::book::Lost;
use crate::checkers::Failure;
use crate::clients::Clients;
use crate::network::Process;
use crate::options::AMPLE_RESERVE;
use crate::plan::Broken;
use quorate_base::{Epoch, Offset, Span, Uuid};
use quorate_log::Operation;
use quorate_node::ConnId;
use quorate_raft::{RoleName, WriteId};
use quorate_wire::message::{ApiVersionsRequest, FetchRequest, FetchRequestPartition, FetchTopic};
use quorate_wire::{ApiKey, RequestHeader, encode_request};

/// More than a node takes from one connection without an answer.
const FLOOD: i32 = 1_100;
/// A start that the disk refused is tried again after so long.
pub(super) const START_AGAIN: Span = Span::ms(200);
/// For how long a node is down whose disk was full.
const FULL: Span = Span::ms(100);
/// A node whose disk is full looks for room so often.
const REFILL: Span = Span::ms(1_000);

impl<C: Clients> World<C> {
    pub(super) fn fill(&mut self, node: usize, step: usize, room: u64) {
        self.nodes[node].note_theft();
        self.nodes[node].full.push((step, room));
        self.nodes[node].limit_room();
    }

    pub(super) fn empty(&mut self, node: usize, step: usize) {
        let full = &mut self.nodes[node].full;
        if let Some(at) = full.iter().position(|(filled, _)| *filled == step) {
            full.swap_remove(at);
            self.nodes[node].note_theft();
            self.nodes[node].limit_room();
        }
    }

    /// A node may have found its disk full.
    pub(super) fn notice_full(&mut self, node: usize) {
        if self.nodes[node].fills()
            && let Some((running, local)) = self.running(node)
        {
            running.replica.on_room(local, true);
            self.marks.hit("a disk was full and its node went on");
            self.line(node, || "its disk is full".to_owned());
            self.queue.push(self.now + REFILL, Event::Refill(self.life(node)));
        }
    }

    /// A start may have found the disk full.
    pub(super) fn starts_full(&mut self, node: usize) {
        if self.nodes[node].running.as_ref().is_some_and(|running| running.full) {
            self.marks.hit("a node started on a full disk");
            self.queue.push(self.now + REFILL, Event::Refill(self.life(node)));
        }
    }

    pub(super) fn refill(&mut self, process: Process) -> Result<(), Failure> {
        let Some(node) = self.process(process, || Event::Refill(process)) else { return Ok(()) };
        match self.nodes[node].refill() {
            Err(why) => return self.disk_failed(node, &why),
            Ok(false) => {
                self.queue.push(self.now + REFILL, Event::Refill(process));
                return Ok(());
            }
            Ok(true) => self.nodes[node].robbed = false,
        }
        self.marks.hit("a disk had room again");
        self.line(node, || "its disk has room again".to_owned());
        if let Some((running, local)) = self.running(node) {
            running.replica.on_room(local, false);
        }
        self.reported(node)
    }

    pub(super) fn fail(&mut self, node: usize, what: Broken, lasts: Span) {
        let operation = match what {
            Broken::Write => Operation::Write,
            Broken::Sync => Operation::Sync,
            Broken::SyncDir => Operation::SyncDir,
            Broken::Rename => Operation::Rename,
        };
        self.nodes[node].disk.fail_next(operation);
        self.nodes[node].broken = Some(lasts);
    }

    /// A process ends because its disk failed it. That is right if the plan said so. What was
    /// written and not synced may be gone, as after a failed sync it is on Linux.
    pub(super) fn disk_failed(&mut self, node: usize, why: &str) -> Result<(), Failure> {
        let broken = self.nodes[node].broken.take();
        let full = !self.nodes[node].full.is_empty();
        let lasts = match (broken, full) {
            (Some(lasts), _) => {
                self.marks.hit("a disk failed and its node stopped");
                lasts
            }
            (None, true)
                if self.plan.options.reserve_bytes >= AMPLE_RESERVE && !self.nodes[node].robbed =>
            {
                let what = format!("node {} has a reserve and stops: {why}", node + 1);
                return Err(Failure::new("full_disks_are_lived_through", what));
            }
            (None, true) => {
                self.marks.hit("a disk was full and its node stopped");
                FULL
            }
            (None, false) => {
                return Err(Failure::new("no_node_gives_up", format!("node {}: {why}", node + 1)));
            }
        };
        self.line(node, || format!("stops: {why}"));
        let lost = self.nodes[node].rng.one_in(2);
        self.end_process(node, lost, false, lasts);
        Ok(())
    }

    /// Whether an error of this node's disk is the plan's doing. If it is, the start is tried
    /// again.
    pub(super) fn start_refused(&mut self, node: usize) -> bool {
        let expected =
            self.nodes[node].broken.take().is_some() || !self.nodes[node].full.is_empty();
        if expected {
            self.marks.hit("a start was refused by a disk that fails");
            self.nodes[node].disk.kill();
            self.nodes[node].limit_room();
            self.queue.push(self.now + START_AGAIN, Event::Up(node));
        }
        expected
    }

    /// A node whose directory is formatted anew under its old id has forgotten its votes and its
    /// acknowledgements. Nobody misses them if all other voters are in one epoch with its leader,
    /// as their disks know, and hold durably all that it holds. Else its vote might elect an old
    /// log (T33), which static voters cannot prevent.
    ///
    /// Where the log names the voters its directory makes another replica of it, which does not
    /// count. Then a voter is lost, and that is forgiven as long as a majority is left.
    fn forgives(&self, node: usize) -> bool {
        if !self.is_seated(node) {
            return true;
        }
        if self.seats.dynamic {
            return self.weak(node) || self.spare() > 0;
        }
        let voters = self.plan.options.voters as usize;
        let others = || (0..voters).filter(|other| *other != node);
        let newest = self.last[..voters].iter().map(|last| last.epoch).max().unwrap_or_default();
        let led = others().any(|other| {
            self.last[other].epoch == newest && self.last[other].role == Some(RoleName::Leader)
        });
        let level = others().all(|other| {
            let end = self.books[node].end();
            let kept = self.books[node].entries.len();
            let holds = self.durable[other] >= end
                && self.books[other].entries.get(..kept) == Some(&self.books[node].entries[..]);
            self.nodes[other].running.is_some() && holds && self.remembers(other, newest)
        });
        voters > 2 && led && level && !self.any_weak_voter()
    }

    /// Whether a node's disk knows this epoch and its leader.
    fn remembers(&self, node: usize, epoch: Epoch) -> bool {
        let words = format!("\"leaderEpoch\":{epoch},");
        self.elections[node].first().and_then(|(_, state)| state.as_ref()).is_some_and(|state| {
            let text = String::from_utf8_lossy(state);
            text.contains(&words) && !text.contains("\"leaderId\":-1")
        })
    }

    pub(super) fn wipe(&mut self, node: usize, lasts: Span) {
        self.loses_its_disk(node, lasts);
    }

    /// True if it happened.
    pub(super) fn loses_its_disk(&mut self, node: usize, lasts: Span) -> bool {
        if self.nodes[node].out || !self.forgives(node) {
            return false;
        }
        self.marks.hit("a node came back with an empty disk");
        self.down(node, true, lasts);
        let had = Lost { book: self.books[node].clone(), durable: self.durable[node] };
        let gone = had.or_before(self.lost[node].take());
        self.gone.insert(self.keys[node], gone);
        let mut directory = [100; 16];
        directory[..4].copy_from_slice(&self.nodes[node].life.to_be_bytes());
        directory[4] = node as u8;
        self.nodes[node].format(Uuid(directory), Vec::new());
        self.keys[node] = self.nodes[node].key();
        self.nodes[node].wiped = true;
        (self.nodes[node].rotten, self.nodes[node].mending) = (false, false);
        self.lost[node] = None;
        self.nodes[node].limit_room();
        self.books[node] = Default::default();
        self.matched[node] = 0;
        self.durable[node] = Offset::ZERO;
        self.elections[node] = vec![(WriteId(0), None)];
        self.remembered.wiped(node);
        self.promises.found(node, Offset::ZERO, &self.remembered);
        true
    }

    pub(super) fn jump(&mut self, node: usize, by: Span, back: bool) {
        self.marks.hit("a clock jumped");
        let ms = by.as_ms() as i64;
        self.nodes[node].wall_ahead_ms += if back { -ms } else { ms };
        if let Some((running, _)) = self.running(node)
            && !back
        {
            running.clock.jump(by);
            self.plan_turn(node, self.now);
        }
    }

    /// A stranger asks a leader for news, and behind that for more than it may have to answer.
    pub(super) fn flood(&mut self, node: usize) -> Option<ConnId> {
        let (running, _) = self.running(node)?;
        let view = running.replica.view();
        let partition = FetchRequestPartition {
            current_leader_epoch: view.epoch.0 as i32,
            fetch_offset: view.end.0 as i64,
            last_fetched_epoch: view.last_epoch.0 as i32,
            partition_max_bytes: 1 << 20,
            ..FetchRequestPartition::default()
        };
        let fetch = FetchRequest {
            max_wait_ms: 500,
            topics: vec![FetchTopic {
                topic_id: Uuid::METADATA_TOPIC,
                partitions: vec![partition],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        let header = RequestHeader::new(ApiKey::Fetch, 17, 0, None);
        let frame = encode_request(header, fetch).expect("of a version that is spoken");
        let stranger = Process { node: self.nodes.len(), life: 0 };
        let conn = self.network.connect(stranger, self.life(node));
        self.network.send(self.now, conn, frame.into_payload(), &mut self.queue);
        for number in 1..FLOOD {
            let header = RequestHeader::new(ApiKey::ApiVersions, 0, number, None);
            let frame = encode_request(header, ApiVersionsRequest::default());
            let frame = frame.expect("of a version that is spoken").into_payload();
            self.network.send(self.now, conn, frame, &mut self.queue);
        }
        Some(conn)
    }
}
