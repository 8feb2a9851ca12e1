//! The format level: nodes of older builds that stop themselves, older builds that come back, and
//! an administrator who asks for a level and believes the answer.

use super::{Phase, World};
use crate::checkers::{Failure, level_is_safe_when_raised};
use crate::clients::Clients;
use crate::network::Process;
use bytes::Bytes;
use quorate_base::{FormatLevel, Span};
use quorate_log::Job;
use quorate_machine::Machine;
use quorate_node::{ConnId, FORMAT_FEATURE};
use quorate_raft::RoleName;
use quorate_wire::message::{FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse};
use quorate_wire::{ApiKey, ErrorCode, RequestHeader, ResponseFrame, encode_request};

/// Whoever watches over a node that stopped itself starts it again after so long.
const STARTED_AGAIN: Span = Span::ms(400);
/// A version of the request that every node speaks.
const VERSION: i16 = 1;
/// Names of reasons, by words in the answers.
const REASONS: [(&str, &str); 4] = [
    ("every voter has to speak", "a raise was refused: a voter is older, or told nothing"),
    ("its newest is", "a raise was refused: the leader is older"),
    ("does not lead", "a raise was refused: not the leader"),
    ("never goes back", "a raise was refused: never back"),
];

/// What was asked for on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raise {
    level: FormatLevel,
    validate_only: bool,
}

impl<C: Clients> World<C> {
    /// Asks a node, or whoever leads, for a level.
    pub(super) fn ask_for_level(&mut self, asks: Option<usize>, level: u16, validate_only: bool) {
        let leads = |node: &usize| self.last[*node].role == Some(RoleName::Leader);
        let leader = (0..self.nodes.len()).filter(leads);
        let leader = leader.max_by_key(|node| self.last[*node].epoch);
        let Some(node) = asks.or(leader).filter(|node| self.nodes[*node].running.is_some()) else {
            return;
        };
        let feature_updates = vec![FeatureUpdate {
            feature: FORMAT_FEATURE.to_owned(),
            max_version_level: level as i16,
            ..FeatureUpdate::default()
        }];
        let request =
            UpdateFeaturesRequest { feature_updates, validate_only, ..Default::default() };
        let header = RequestHeader::new(ApiKey::UpdateFeatures, VERSION, 0, None);
        let frame = encode_request(header, request).expect("of a version that is spoken");
        let stranger = Process { node: self.nodes.len(), life: 0 };
        let conn = self.network.connect(stranger, self.life(node));
        self.raises.insert(conn, Raise { level: FormatLevel(level), validate_only });
        self.trace.world(self.now, || format!("asks {} for level {level}", node + 1));
        self.network.send(self.now, conn, frame.into_payload(), &mut self.queue);
    }

    /// Something arrives for who asked for a level. False if that is somebody else's.
    pub(super) fn hears_of_level(
        &mut self,
        conn: ConnId,
        frame: Option<&Bytes>,
    ) -> Result<bool, Failure> {
        let Some(Raise { level, validate_only }) = self.raises.remove(&conn) else {
            return Ok(false);
        };
        let Some(frame) = frame else { return Ok(true) };
        self.network.close(self.now, conn, &mut self.queue);
        let answer = ResponseFrame::parse(frame.clone());
        let answer = answer.and_then(|answer| answer.decode::<UpdateFeaturesResponse>(VERSION));
        let senseless = |what: String| Failure::new("answers_make_sense", what);
        let answer = answer.map_err(|error| senseless(error.to_string()))?;
        let (code, words) = (answer.error_code, answer.error_message.unwrap_or_default());
        self.trace.world(self.now, || format!("hears of level {level}: {code} {words}"));
        self.trace.mix(&[self.now.0, 8]);
        if code != ErrorCode::None && words.is_empty() {
            return Err(senseless(format!("{code} without words")));
        }
        let reason = REASONS.iter().find(|(phrase, _)| words.contains(phrase));
        if let Some((_, mark)) = reason.filter(|_| code != ErrorCode::None) {
            self.marks.hit(mark);
        }
        if code == ErrorCode::None && !validate_only {
            let committed = self.committed.ledger.level();
            if committed < level {
                let what = format!("level {level} is said to be done, committed is {committed}");
                return Err(Failure::new("levels_as_answered", what));
            }
            self.marks.hit("a level was raised, or was there");
        }
        Ok(true)
    }

    /// A node gives its disk something to do that may raise the level.
    pub(super) fn note_level(&mut self, node: usize, job: &Job) -> Result<(), Failure> {
        let (Job::Append(append), Some(running)) = (job, &self.nodes[node].running) else {
            return Ok(());
        };
        let book = &self.books[node];
        for entry in crate::book::entries(&append.bytes).filter(|entry| entry.level.is_some()) {
            let voters = self.seats.behind(&book.entries).iter();
            let seats = voters.filter_map(|voter| self.node_of(*voter));
            let spoke: Vec<_> = seats.map(|seat| (seat as u32 + 1, self.spoke[seat])).collect();
            let view = running.replica.view();
            level_is_safe_when_raised(node, &view, book, &entry, &spoke)?;
        }
        Ok(())
    }

    /// A node looked at after its turn.
    pub(super) fn look_at_level(&mut self, node: usize) -> Result<(), Failure> {
        let process = self.life(node);
        let Some(running) = &self.nodes[node].running else { return Ok(()) };
        let level = running.replica.machine().format_level().unwrap_or_default();
        self.levels.see(process, level, running.newest_level)
    }

    /// A node has come to a level that it does not speak. That is right if there is one.
    pub(super) fn stops_before_level(&mut self, node: usize, why: &str) -> Result<(), Failure> {
        let newest = self.nodes[node].running.as_ref().map(|running| running.newest_level);
        let committed = self.committed.ledger.level();
        if newest >= Some(committed) {
            let what = format!("node {} at level {committed}: {why}", node + 1);
            return Err(Failure::new("no_node_gives_up", what));
        }
        self.marks.hit("an older node stopped before a level");
        self.line(node, || format!("stops: {why}"));
        self.end_process(node, false, false, STARTED_AGAIN);
        Ok(())
    }

    /// Why not all nodes are at the newest level, once they all run the newest build; asks for it.
    pub(super) fn is_below(&mut self) -> Option<String> {
        let newest = quorate_machine::NEWEST_FORMAT_LEVEL;
        let below = |node: &usize| {
            let running = self.nodes[*node].running.as_ref();
            running.is_some_and(|r| r.replica.machine().format_level() < Some(newest))
        };
        let node = (0..self.nodes.len()).find(below)?;
        if self.committed.ledger.level() < newest && self.raises.is_empty() {
            self.ask_for_level(None, newest.0, false);
        }
        Some(format!("node {} is not at level {newest}", node + 1))
    }

    /// Whether a raise has to succeed now: every voter is there, and tells what it speaks.
    pub(super) fn can_be_raised(&self) -> bool {
        let voters = self.seats.behind(&self.committed.ledger.entries);
        let there = |node: Option<usize>| node.is_some_and(|node| !self.nodes[node].out);
        self.phase == Phase::Raise && voters.iter().all(|voter| there(self.node_of(*voter)))
    }
}
