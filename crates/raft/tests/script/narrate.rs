//! What a reader of a script sees: one line for each message that arrives and for each change of
//! state.
//!
//! A node's lines begin with its id. Nothing is told twice: writes and notices that only repeat
//! what a line says already are left out.

use crate::cluster::{Cluster, Disk, Event, Message, Picture};
use quorate_base::{Cleaned, FormatLevel, Offset, ReplicaId, ReplicaKey};
use quorate_raft::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Narrator {
    /// Inside `elect`: only what leads to the election.
    pub compact: bool,
    /// Inside `run`: what is said again and again is told once between two changes of state.
    pub folding: bool,
    said: BTreeSet<String>,
    /// Fetches with all their fields.
    pub details: bool,
    tokens: BTreeMap<Token, String>,
    named: BTreeMap<&'static str, usize>,
    /// From where who fetched last from whom: an empty answer does not say it.
    fetched_from: BTreeMap<(ReplicaId, ReplicaId), Offset>,
}

impl Narrator {
    /// A token, and how lines call it: `read a`, `append b`.
    pub fn name(&mut self, kind: &'static str, serial: u64) -> Token {
        let count = self.named.entry(kind).or_default();
        let letter = (b'a' + *count as u8) as char;
        *count += 1;
        self.tokens.insert(Token(serial), format!("{kind} {letter}"));
        Token(serial)
    }

    pub fn end_of_command(&mut self) {
        (self.compact, self.folding) = (false, false);
        self.said.clear();
    }

    pub fn asked(&mut self, to: ReplicaId, from: ReplicaId, body: &Request) {
        if let Request::Fetch(fetch) = body {
            self.fetched_from.insert((from, to), fetch.from.offset);
        }
    }

    pub fn tell(&mut self, event: &Event, lines: &mut Vec<String>) {
        match event {
            Event::Delivered { from, to, message: Message::Ask(body), .. } => {
                self.asked(*to, *from, body);
                let line = format!("{from} -> {to} {}", self.question(body));
                if !self.compact {
                    self.say(line, lines);
                }
            }
            Event::Delivered { from, to, message: Message::Answer(body), late } => {
                let late = if *late { " (late)" } else { "" };
                if let Some(line) = self.answer(*from, *to, body) {
                    self.say(line + late, lines);
                }
            }
            Event::Told { from, to, body } => match self.answer(*from, *to, body) {
                Some(line) => lines.push(line),
                None => lines.push(format!("{from} -> {to} done")),
            },
            Event::Lost { from, to, how } => lines.push(format!("{from} -> {to} lost: {how:?}")),
            Event::Synced { at, disk } => lines.push(match disk {
                Disk::Election(state) => format!("{at} synced election {}", election(state)),
                Disk::Append { base, records } => {
                    format!("{at} synced append [{base}..{})", *base + records.len() as u64)
                }
                Disk::Truncate(end) => format!("{at} synced truncate {end}"),
                Disk::Adopt(snapshot, _) => format!("{at} synced adopt {snapshot}"),
                Disk::Trim(kept) => format!("{at} synced trim {}", kept.start),
                Disk::Reached => format!("{at} synced reached"),
            }),
            Event::Step { at, before, after, effects } => {
                let told = lines.len();
                self.step(*at, before, after, effects, lines);
                if lines.len() > told {
                    self.said.clear();
                }
            }
        }
    }

    /// A node has started: what it is now, and what it told with its first step.
    pub fn start(&self, id: ReplicaId, cluster: &mut Cluster) -> Vec<String> {
        let mut lines = vec![status(id, &cluster.picture(id))];
        for event in std::mem::take(&mut cluster.events) {
            if let Event::Step { at, effects, .. } = event {
                lines.extend(effects.iter().filter_map(|effect| self.notice(at, effect)));
            }
        }
        lines
    }

    fn say(&mut self, line: String, lines: &mut Vec<String>) {
        if !self.folding || self.said.insert(line.clone()) {
            lines.push(line);
        }
    }

    fn step(
        &self,
        at: ReplicaId,
        before: &Picture,
        after: &Picture,
        effects: &[Effect],
        lines: &mut Vec<String>,
    ) {
        let standing = |p: &Picture| (p.role, p.epoch, p.leader, p.voted);
        let moved = standing(before) != standing(after);
        let voted = matches!(after.role, RoleName::Unattached | RoleName::UnattachedVoted);
        if moved && !(self.compact && voted) {
            lines.push(format!("{at} {}", role(after)));
        }
        let elected = moved && after.role == RoleName::Leader;
        let mut end = before.end;
        for effect in effects {
            if let Effect::Write { write, .. } = effect {
                match write {
                    Write::Election(_) => {}
                    Write::Append { base, end: upto, epoch, source } => {
                        let control = matches!(source, Source::Control(_));
                        let what = format!("append [{base}..{upto})");
                        match lines.last_mut() {
                            Some(line) if elected && control => {
                                *line += &format!(" {what} control")
                            }
                            Some(_) | None => lines.push(format!("{at} {what} epoch={epoch}")),
                        }
                        end = *upto;
                    }
                    Write::Truncate { end: cut } => {
                        lines.push(format!("{at} truncate {end} -> {cut}"));
                        end = *cut;
                    }
                    Write::Adopt { snapshot } => {
                        lines.push(format!("{at} adopt {snapshot}"));
                        end = snapshot.offset;
                    }
                    Write::Reached => lines.push(format!("{at} reached")),
                    Write::Trim { start, snapshots } => {
                        let stay = *start == before.start;
                        let gone: Vec<_> = snapshots.iter().map(|gone| gone.to_string()).collect();
                        lines.push(match stay {
                            true => format!("{at} removes {}", gone.join(",")),
                            false => format!("{at} trim {start}"),
                        });
                    }
                }
            }
        }
        self.marks(at, before, after, lines);
        for effect in effects {
            lines.extend(self.notice(at, effect));
        }
    }

    fn marks(&self, at: ReplicaId, before: &Picture, after: &Picture, lines: &mut Vec<String>) {
        let committed = (after.told > before.told).then_some(after.told);
        let forgotten = after.high_watermark.is_none();
        if before.high_watermark != after.high_watermark && !forgotten {
            let (was, is) = (mark(before.high_watermark), mark(after.high_watermark));
            let clamp = match after.high_watermark > Some(after.told) {
                true => format!(" commit={}", after.told),
                false => String::new(),
            };
            lines.push(format!("{at} hw {was} -> {is}{clamp}"));
        } else if let Some(upto) = committed {
            lines.push(format!("{at} commit {upto}"));
        }
    }

    fn notice(&self, at: ReplicaId, effect: &Effect) -> Option<String> {
        match effect {
            Effect::Lead { leader, epoch } if *leader == Some(at) => {
                Some(format!("{at} serves epoch={epoch}"))
            }
            Effect::Refuse { token, why } => {
                let Refusal::NotLeader { leader, epoch } = why;
                let name = &self.tokens[token];
                Some(format!("{at} refuses {name} epoch={epoch} leader={}", id(*leader)))
            }
            Effect::ReadAt { token, offset } => {
                Some(format!("{at} answers {} at {offset}", self.tokens[token]))
            }
            Effect::StartOver => Some(format!("{at} starts over")),
            Effect::Stopped => Some(format!("{at} stopped")),
            Effect::Abandon { snapshot, gone: false } => Some(format!("{at} abandons {snapshot}")),
            Effect::Abandon { snapshot, gone: true } => {
                Some(format!("{at} abandons {snapshot}, which is gone"))
            }
            Effect::Complain { what } => Some(format!("{at} complains: {what:?}")),
            Effect::Write { .. }
            | Effect::Send { .. }
            | Effect::Reply { .. }
            | Effect::Store { .. }
            | Effect::Commit { .. }
            | Effect::Lead { .. } => None,
        }
    }

    fn question(&self, body: &Request) -> String {
        match body {
            Request::Vote(vote) => {
                let kind = if vote.pre_vote { "PreVote" } else { "Vote" };
                format!("{kind} epoch={} last={}", vote.epoch, vote.last)
            }
            Request::BeginQuorumEpoch(begin) => format!("BeginQuorumEpoch epoch={}", begin.epoch),
            Request::EndQuorumEpoch(end) => {
                let list: Vec<_> = end.successors.iter().map(|key| key.id.to_string()).collect();
                format!("EndQuorumEpoch epoch={} successors={}", end.epoch, list.join(","))
            }
            Request::Fetch(fetch) => {
                let mut line =
                    format!("Fetch offset={} epoch={}", fetch.from.offset, fetch.from.epoch);
                if self.details {
                    line += &match fetch.high_watermark {
                        FetchHighWatermark::Unsaid => String::new(),
                        FetchHighWatermark::Known(known) => format!(" hw={}", mark(known)),
                    };
                    line += &fetch.round.map_or(String::new(), |round| format!(" round={round}"));
                }
                line
            }
            Request::FetchSnapshot(ask) => {
                let FetchSnapshot { snapshot, position, max_bytes, epoch, .. } = ask;
                format!("FetchSnapshot {snapshot} at={position} max={max_bytes} epoch={epoch}")
            }
            Request::UpdateVoter(update) => {
                let at: Vec<_> = update.voter.endpoints.iter().map(|at| at.host.as_str()).collect();
                format!("UpdateVoter epoch={} at={}", update.epoch, at.join(","))
            }
            Request::AddVoter(add) => {
                let at: Vec<_> = add.endpoints.iter().map(|at| at.host.as_str()).collect();
                let early = if add.when_committed { "" } else { " early" };
                let takes = if add.replaces.is_some() { " replaces" } else { "" };
                format!("AddVoter {} at={}{early}{takes}", seat(&add.key), at.join(","))
            }
            Request::RemoveVoter(remove) => format!("RemoveVoter {}", seat(&remove.key)),
            Request::Upgrade(asked) => format!("Upgrade {}", asked.version),
        }
    }

    /// `None` for an answer that says no more than "heard".
    fn answer(&self, from: ReplicaId, to: ReplicaId, body: &Response) -> Option<String> {
        match body {
            Response::Vote(answer) => {
                let verb = if answer.granted { "grants" } else { "denies" };
                let view = &answer.view;
                let leader =
                    view.leader.map_or(String::new(), |leader| format!(" leader={leader}"));
                let error = error(view.error);
                Some(format!("{from} {verb} {to} epoch={}{leader}{error}", view.epoch))
            }
            Response::BeginQuorumEpoch(view) | Response::EndQuorumEpoch(view) => {
                let heard = view.error == ErrorKind::None;
                (!heard).then(|| format!("{from} -> {to} {}", refusal(view)))
            }
            Response::Fetch(answer) => {
                let view = &answer.view;
                let what = match &answer.fetched {
                    _ if view.error != ErrorKind::None => refusal(view),
                    Fetched::Diverging(at) => {
                        format!("diverging epoch={} end={}", at.epoch, at.offset)
                    }
                    Fetched::Snapshot(id) => format!("snapshot {id}"),
                    Fetched::Nothing => {
                        let at = self.fetched_from.get(&(to, from)).copied().unwrap_or_default();
                        format!("records [{at}..{at}) hw={}", mark(answer.high_watermark))
                    }
                    Fetched::Range { start, end, .. } => {
                        format!("records [{start}..{end}) hw={}", mark(answer.high_watermark))
                    }
                    Fetched::Batches(batches) => {
                        let from = self.fetched_from.get(&(to, from)).copied().unwrap_or_default();
                        let base = batches.first().map_or(from, |batch| batch.base);
                        let end = batches.last().map_or(base, |batch| batch.last + 1);
                        format!("records [{base}..{end}) hw={}", mark(answer.high_watermark))
                    }
                };
                let round = answer.round.filter(|_| self.details);
                let round = round.map_or(String::new(), |round| format!(" round={round}"));
                let lacks = answer.cleaned.filter(|cleaned| *cleaned != Cleaned::NEVER);
                let lacks = lacks.map_or(String::new(), |cleaned| {
                    let Cleaned { dirty, clean, horizon } = cleaned;
                    format!(" cleaned={dirty}/{clean}/{horizon}")
                });
                let bound = answer.bound.filter(|_| self.details);
                let bound = bound.map_or(String::new(), |bound| format!(" bound={bound}"));
                Some(format!("{from} -> {to} {what}{round}{lacks}{bound}"))
            }
            // Told in any case: it is the only answer to a rare question.
            Response::UpdateVoter(view) => Some(match view.error == ErrorKind::None {
                true => format!("{from} -> {to} updated"),
                false => format!("{from} -> {to} {}", refusal(view)),
            }),
            Response::AddVoter(answer)
            | Response::RemoveVoter(answer)
            | Response::Upgrade(answer) => {
                let is_add = matches!(body, Response::AddVoter(_));
                let other =
                    if matches!(body, Response::Upgrade(_)) { "upgraded" } else { "removed" };
                let verb = if is_add { "added" } else { other };
                let why = answer.why.as_ref().map_or(String::new(), |why| format!(" {why:?}"));
                Some(match answer.error == ErrorKind::None {
                    true => format!("{from} -> {to} {verb}"),
                    false => format!("{from} -> {to} {}{why}", name_of(answer.error)),
                })
            }
            Response::FetchSnapshot(answer) => {
                let what = match answer.piece {
                    _ if answer.view.error != ErrorKind::None => refusal(&answer.view),
                    Piece::Nothing | Piece::Served { .. } => "nothing".to_owned(),
                    Piece::Received { size, bytes } => {
                        let (snapshot, at) = (answer.snapshot, answer.position);
                        format!("snapshot {snapshot} [{at}..{}) of {size}", at + u64::from(bytes))
                    }
                };
                Some(format!("{from} -> {to} {what}"))
            }
        }
    }
}

fn refusal(view: &LeaderView) -> String {
    format!("{} epoch={} leader={}", name_of(view.error), view.epoch, id(view.leader))
}

fn error(kind: ErrorKind) -> String {
    if kind == ErrorKind::None { String::new() } else { format!(" {}", name_of(kind)) }
}

pub const ERRORS: [ErrorKind; 16] = [
    ErrorKind::None,
    ErrorKind::FencedLeaderEpoch,
    ErrorKind::UnknownLeaderEpoch,
    ErrorKind::NotLeaderOrFollower,
    ErrorKind::InvalidRequest,
    ErrorKind::InvalidVoterKey,
    ErrorKind::BrokerNotAvailable,
    ErrorKind::UnsupportedVersion,
    ErrorKind::InconsistentClusterId,
    ErrorKind::SnapshotNotFound,
    ErrorKind::PositionOutOfRange,
    ErrorKind::RequestTimedOut,
    ErrorKind::VoterNotFound,
    ErrorKind::DuplicateVoter,
    ErrorKind::InvalidUpdateVersion,
    ErrorKind::Other(-1),
];

/// As Kafka calls it.
pub fn name_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::None => "NONE",
        ErrorKind::FencedLeaderEpoch => "FENCED_LEADER_EPOCH",
        ErrorKind::UnknownLeaderEpoch => "UNKNOWN_LEADER_EPOCH",
        ErrorKind::NotLeaderOrFollower => "NOT_LEADER_OR_FOLLOWER",
        ErrorKind::InvalidRequest => "INVALID_REQUEST",
        ErrorKind::InvalidVoterKey => "INVALID_VOTER_KEY",
        ErrorKind::BrokerNotAvailable => "BROKER_NOT_AVAILABLE",
        ErrorKind::UnsupportedVersion => "UNSUPPORTED_VERSION",
        ErrorKind::InconsistentClusterId => "INCONSISTENT_CLUSTER_ID",
        ErrorKind::SnapshotNotFound => "SNAPSHOT_NOT_FOUND",
        ErrorKind::PositionOutOfRange => "POSITION_OUT_OF_RANGE",
        ErrorKind::RequestTimedOut => "REQUEST_TIMED_OUT",
        ErrorKind::VoterNotFound => "VOTER_NOT_FOUND",
        ErrorKind::DuplicateVoter => "DUPLICATE_VOTER",
        ErrorKind::InvalidUpdateVersion => "INVALID_UPDATE_VERSION",
        ErrorKind::Other(_) => "UNKNOWN_SERVER_ERROR",
    }
}

fn role(picture: &Picture) -> String {
    let Picture { epoch, leader, voted, .. } = picture;
    let leader = leader.map_or(String::new(), |leader| format!("({leader})"));
    let vote = voted.map_or(String::new(), |voted| format!(" voted={}", voted.id));
    match picture.role {
        RoleName::Unattached | RoleName::UnattachedVoted => {
            format!("unattached{leader} epoch={epoch}{vote}")
        }
        RoleName::Prospective | RoleName::ProspectiveVoted => {
            format!("prospective{leader} epoch={epoch}{vote}")
        }
        RoleName::Candidate => format!("candidate epoch={epoch}"),
        RoleName::Leader => format!("leader epoch={epoch}"),
        RoleName::Follower => format!("follower{leader} epoch={epoch}"),
        RoleName::Observer => format!("observer{leader} epoch={epoch}"),
        RoleName::Resigned => format!("resigned epoch={epoch}"),
    }
}

fn election(state: &ElectionState) -> String {
    let voted = state.voted.map(|voted| voted.id);
    format!("epoch={} leader={} voted={}", state.epoch, id(state.leader), id(voted))
}

fn id(id: Option<ReplicaId>) -> String {
    id.map_or("-".to_owned(), |id| id.to_string())
}

fn mark(offset: Option<Offset>) -> String {
    offset.map_or("-1".to_owned(), |offset| offset.to_string())
}

/// All there is to see of a node.
pub fn status(id: ReplicaId, picture: &Picture) -> String {
    let Picture { end, durable, last_epoch, high_watermark, parked, reads, voted, .. } = picture;
    let mut line = format!("{id} {}", role(picture));
    if picture.start > Offset::ZERO {
        line += &format!(" start={}", picture.start);
    }
    if let (RoleName::Follower | RoleName::Observer, Some(voted)) = (picture.role, voted) {
        line += &format!(" voted={}", voted.id);
    }
    line += &format!(" end={end}@{last_epoch} hw={}", mark(*high_watermark));
    for (name, value, told) in [
        ("durable", durable.0, durable != end),
        ("parked", *parked as u64, *parked > 0),
        ("reads", *reads as u64, *reads > 0),
    ] {
        if told {
            line += &format!(" {name}={value}");
        }
    }
    line
}

/// A key as scripts write it.
fn seat(key: &ReplicaKey) -> String {
    match key.directory {
        None => key.id.to_string(),
        Some(_) if *key == crate::cluster::key(key.id) => format!("{}:own", key.id),
        Some(_) => format!("{}:other", key.id),
    }
}

/// Who counts, as this node has it.
pub fn seats(cluster: &Cluster, at: ReplicaId) -> String {
    let view = cluster.nodes[&at].quorum.as_ref().expect("it runs").view();
    let seat_at = |voter: &Voter| {
        let at = voter.endpoints.first().map_or(String::new(), |at| format!("@{}", at.host));
        seat(&voter.key) + &at
    };
    let voters: Vec<String> = view.voters.iter().map(seat_at).collect();
    format!("{at} kraft.version={} voters={}", view.kraft_version, voters.join(","))
}

/// What a leader knows of the others.
pub fn progress(cluster: &Cluster, at: ReplicaId) -> Vec<String> {
    let quorum = cluster.nodes[&at].quorum.as_ref().expect("it runs");
    let (view, now) = (quorum.view(), cluster.time(at));
    let ago = |time: Option<quorate_base::Time>| {
        time.map_or("never".to_owned(), |time| format!("{}ms ago", now.since(time).as_ms()))
    };
    let line = |progress: &Progress, kind: &str| {
        let (end, fetched) = (mark(progress.end), ago(progress.fetched_at));
        let caught_up = ago(progress.caught_up_at);
        let said = progress.said.as_ref().and_then(|said| said.endpoints.first());
        let said = said.map_or(String::new(), |at| format!(", listens at {}", at.host));
        let id = progress.key.id;
        let level = progress.format_level.filter(|level| *level > FormatLevel::ZERO);
        let level = level.map_or(String::new(), |level| format!(", level {level}"));
        format!("{kind} {id} end={end} fetched {fetched}, caught up {caught_up}{said}{level}")
    };
    let voters = view.followers.iter().map(|progress| line(progress, "voter"));
    voters.chain(view.observers.iter().map(|progress| line(progress, "observer"))).collect()
}

/// What a leader keeps for those who copy a snapshot.
pub fn holds(cluster: &Cluster, at: ReplicaId) -> Vec<String> {
    let quorum = cluster.nodes[&at].quorum.as_ref().expect("it runs");
    let line = |hold: &Hold| {
        let who = hold.replica.map_or("-".to_owned(), |key| key.id.to_string());
        let kind = if hold.voter { "voter" } else { "observer" };
        let copies = hold.snapshot.map_or(String::new(), |id| format!("{id} and "));
        format!("{at} keeps {copies}the log from {} for {kind} {who}", hold.from)
    };
    quorum.view().holds.iter().map(line).collect()
}

/// What is on its way, not delivered.
pub fn flying(cluster: &Cluster, narrator: &Narrator) -> Vec<String> {
    let flights = cluster.network.iter().map(|flight| {
        let (from, to) = (flight.from, flight.to);
        match &flight.message {
            Message::Ask(body) => format!("flying {from} -> {to} {}", narrator.question(body)),
            Message::Answer(body) => match narrator.answer(from, to, body) {
                Some(line) => format!("flying {line}"),
                None => format!("flying {from} -> {to} done"),
            },
        }
    });
    flights.collect()
}
