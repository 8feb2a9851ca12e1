//! Every message at every time: a replica that hears nothing but nonsense keeps its invariants and
//! answers all.

use crate::*;
use quorate_base::{
    Cleaned, Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Rng, Span, Time, Uuid,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Draws small numbers mostly, so that they meet, and the largest ones at times.
struct Nonsense(Rng);

impl Nonsense {
    fn number(&mut self, around: u64, most: u64) -> u64 {
        match self.0.below(20) {
            0 => most,
            1 => most - 1,
            2 => i64::MAX as u64 & most,
            3 => 0,
            _ => around.saturating_sub(2) + self.0.below(5),
        }
    }
    fn epoch(&mut self, around: Epoch) -> Epoch {
        // Rarely the last epochs, else nothing else would ever be tried.
        let most = if self.0.one_in(20) { i32::MAX as u64 } else { u64::from(around.0) + 1 };
        Epoch(self.number(u64::from(around.0), most) as u32)
    }
    fn offset(&mut self, around: Offset) -> Offset {
        Offset(self.number(around.0, u64::MAX))
    }
    fn id(&mut self) -> ReplicaId {
        ReplicaId(self.0.below(5) as u32)
    }
    fn key(&mut self) -> ReplicaKey {
        let byte = self.0.below(3) as u8;
        let id = self.id();
        ReplicaKey::new(id, (byte > 0).then_some(Uuid([byte; 16])))
    }
    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (!self.0.one_in(3)).then_some(value)
    }
    fn endpoints(&mut self) -> Arc<[Endpoint]> {
        let one = Endpoint { listener: "L".into(), host: "h".into(), port: 1 };
        vec![one; self.0.below(3) as usize].into()
    }
    fn cleaned(&mut self, view: &View<'_>) -> Option<Cleaned> {
        let (dirty, clean, horizon) =
            (self.offset(view.end), self.offset(view.end), self.offset(view.end));
        self.maybe(Cleaned { dirty, clean, horizon })
    }

    fn last(&mut self, view: &View<'_>) -> OffsetEpoch {
        let near = self.0.below(2) == 0;
        let offset = if near { view.end } else { self.offset(view.end) };
        let epoch = if near { view.last_epoch } else { self.epoch(view.last_epoch) };
        OffsetEpoch::new(offset, epoch)
    }
    fn request(&mut self, view: &View<'_>) -> Request {
        let epoch = self.epoch(view.epoch);
        match self.0.below(9) {
            0 | 1 => Request::Vote(Vote {
                epoch,
                candidate: self.key(),
                voter: Some(self.key()).filter(|_| self.0.one_in(2)),
                last: self.last(view),
                pre_vote: self.0.one_in(2),
            }),
            2 => Request::BeginQuorumEpoch(BeginQuorumEpoch {
                epoch,
                leader: self.id(),
                voter: None,
                endpoints: self.endpoints(),
            }),
            3 => Request::AddVoter(AddVoter {
                key: self.key(),
                endpoints: self.endpoints(),
                when_committed: self.0.one_in(2),
                replaces: self.0.one_in(2).then(|| Uuid([self.0.below(4) as u8; 16])),
            }),
            4 if self.0.one_in(3) => Request::Upgrade(Upgrade {
                version: self.0.below(3) as u16,
                validate_only: self.0.one_in(4),
            }),
            4 => Request::RemoveVoter(RemoveVoter { key: self.key() }),
            5 => Request::EndQuorumEpoch(EndQuorumEpoch {
                epoch,
                leader: self.id(),
                successors: (0..self.0.below(80)).map(|_| self.key()).collect(),
                endpoints: self.endpoints(),
            }),
            _ => {
                let known = self.offset(view.end);
                let round = self.number(2, u64::MAX);
                Request::Fetch(Fetch {
                    epoch,
                    replica: Some(self.key()).filter(|_| !self.0.one_in(9)),
                    from: self.last(view),
                    high_watermark: match self.0.one_in(2) {
                        true => FetchHighWatermark::Unsaid,
                        false => FetchHighWatermark::Known(self.maybe(known)),
                    },
                    max_wait: Span(self.number(300_000, u64::MAX)),
                    max_bytes: 100,
                    round: self.maybe(round),
                    no_room: false,
                    format_level: FormatLevel::ZERO,
                    history: None,
                    never_leads: false,
                })
            }
        }
    }
    fn view(&mut self, view: &View<'_>) -> LeaderView {
        let errors = [
            ErrorKind::FencedLeaderEpoch,
            ErrorKind::UnknownLeaderEpoch,
            ErrorKind::NotLeaderOrFollower,
            ErrorKind::InvalidRequest,
            ErrorKind::InvalidVoterKey,
            ErrorKind::BrokerNotAvailable,
            ErrorKind::UnsupportedVersion,
            ErrorKind::InconsistentClusterId,
            ErrorKind::Other(99),
        ];
        let error = errors[self.0.below(9) as usize];
        let leader = self.id();
        LeaderView {
            error: if self.0.one_in(3) { error } else { ErrorKind::None },
            epoch: if self.0.one_in(4) { self.epoch(view.epoch) } else { view.epoch },
            leader: match self.0.below(3) {
                0 => None,
                1 => view.leader,
                _ => Some(leader),
            },
            endpoints: self.endpoints(),
        }
    }
    fn response(&mut self, asked: &Request, view: &View<'_>) -> Response {
        let told = self.view(view);
        if self.0.one_in(30) {
            return Response::EndQuorumEpoch(told);
        }
        match asked {
            Request::Vote(_) => {
                Response::Vote(VoteAnswer { view: told, granted: self.0.one_in(2) })
            }
            Request::BeginQuorumEpoch(_) => Response::BeginQuorumEpoch(told),
            Request::EndQuorumEpoch(_) => Response::EndQuorumEpoch(told),
            Request::UpdateVoter(_) => Response::UpdateVoter(told),
            Request::AddVoter(_) => {
                Response::AddVoter(ChangeAnswer { error: told.error, why: None })
            }
            Request::Upgrade(_) => Response::Upgrade(ChangeAnswer { error: told.error, why: None }),
            Request::RemoveVoter(_) => {
                Response::RemoveVoter(ChangeAnswer { error: told.error, why: None })
            }
            Request::Fetch(_) => {
                let known = self.offset(view.end);
                let round = self.number(2, u64::MAX);
                Response::Fetch(FetchAnswer {
                    view: told,
                    high_watermark: self.maybe(known),
                    start: Offset::ZERO,
                    fetched: match self.0.below(6) {
                        0 => Fetched::Nothing,
                        1 => Fetched::Diverging(self.last(view)),
                        2 => Fetched::Snapshot(self.last(view)),
                        3 => {
                            let (start, end) = (self.offset(view.end), self.offset(view.end));
                            Fetched::Range { start, end, max_bytes: 1 }
                        }
                        _ => Fetched::Batches(self.batches(view)),
                    },
                    round: self.maybe(round),
                    cleaned: self.cleaned(view),
                    bound: self.maybe(known),
                    history: None,
                })
            }
            Request::FetchSnapshot(ask) => {
                let size = 1 + self.0.below(9);
                Response::FetchSnapshot(SnapshotAnswer {
                    view: told,
                    snapshot: if self.0.one_in(5) { self.last(view) } else { ask.snapshot },
                    position: if self.0.one_in(5) { self.0.below(9) } else { ask.position },
                    piece: match self.0.below(6) {
                        0 => Piece::Nothing,
                        1 => Piece::Served { max_bytes: 1 },
                        _ => Piece::Received { size, bytes: self.0.below(5) as u32 },
                    },
                })
            }
        }
    }
    fn batches(&mut self, view: &View<'_>) -> Vec<BatchMark> {
        let mut base = view.end;
        let mut batches = Vec::new();
        for _ in 0..self.0.below(4) {
            let wild = self.0.one_in(8);
            let last = Offset(base.0 + self.0.below(3));
            let (base_wild, last_wild) = (self.offset(base), self.offset(base));
            let mark = BatchMark {
                base: if wild { base_wild } else { base },
                last: if wild { last_wild } else { last },
                epoch: if wild { self.epoch(view.epoch) } else { view.epoch },
                control: false,
                decree: None,
            };
            batches.push(mark);
            base = last + 1;
        }
        batches
    }
}

fn run(seed: u64) -> BTreeSet<RoleName> {
    let mut draw = Nonsense(Rng::new(seed));
    let voters = 1 + draw.0.below(4) as u32;
    let own = draw.0.below(5) as u32;
    let set = (0..voters)
        .map(|id| (ReplicaKey::new(ReplicaId(id), None), Arc::<[Endpoint]>::from([])))
        .collect();
    let mut config = Config::new(Some(ReplicaId(own)), Uuid([1; 16]), set);
    config.bootstrap = draw.0.below(2) as usize;
    config.auto_join = draw.0.one_in(2);
    if draw.0.one_in(2) {
        config.endpoints = draw.endpoints();
    }
    let mut now = Time(5);
    let mut recovered = Recovered::default();
    if draw.0.one_in(2) {
        let byte = |id| 1 + (id % 2) as u8;
        let voter = |id| Voter {
            key: ReplicaKey::new(ReplicaId(id), Some(Uuid([byte(id); 16]))),
            endpoints: [].into(),
            versions: KRAFT_VERSIONS,
        };
        config.directory = Uuid([byte(own); 16]);
        let voters = Some((0..voters).map(voter).collect());
        recovered.founded = Decree { version: Some(1), voters };
    }
    let mut quorum = Quorum::open(config, recovered, seed, now).unwrap();
    let mut seen = BTreeSet::new();
    let mut asked: Vec<(Call, Request)> = Vec::new();
    let mut stored: Vec<Call> = Vec::new();
    let mut unanswered = BTreeSet::new();
    let (mut written, mut durable, mut serial) = (0, 0, 0);
    for _ in 0..400 {
        serial += 1;
        let view = quorum.view();
        let input = match draw.0.below(12) {
            0..=3 => {
                unanswered.insert(serial);
                Input::Request { ticket: Ticket(serial), body: draw.request(&view) }
            }
            4..=7 if !asked.is_empty() => {
                let at = draw.0.below(asked.len() as u64) as usize;
                let (call, request) = asked[at].clone();
                let how = [Loss::TimedOut, Loss::Closed, Loss::Refused, Loss::Dropped]
                    [draw.0.below(4) as usize];
                match draw.0.one_in(6) {
                    true => Input::Lost { call, how },
                    false => Input::Response { call, body: draw.response(&request, &view) },
                }
            }
            8 => Input::Read { token: Token(serial) },
            9 => Input::Propose { token: Token(serial), epoch: view.epoch, records: 2 },
            10 if draw.0.one_in(10) => Input::Resign { epoch: view.epoch },
            10 if draw.0.one_in(10) => Input::HandOver { epoch: view.epoch },
            10 => Input::Peer {
                id: draw.id(),
                speaks: Features {
                    pre_vote: !draw.0.one_in(5),
                    rounds: draw.0.one_in(2),
                    updates: draw.0.one_in(2),
                    joins: draw.0.one_in(2),
                    kraft_versions: (!draw.0.one_in(3)).then_some(KRAFT_VERSIONS),
                },
            },
            _ => {
                now = quorum.deadline().min(now + Span::ms(700));
                Input::Wake
            }
        };
        let mut effects = Vec::new();
        quorum.step(now, input, &mut effects);
        quorum.check();
        if draw.0.one_in(2) && written > durable {
            durable += 1 + draw.0.below(written - durable);
            quorum.step(now, Input::Durable { upto: WriteId(durable) }, &mut effects);
            quorum.check();
        }
        if draw.0.one_in(2)
            && let Some(source) = stored.pop()
        {
            let spoiled = draw.0.one_in(4);
            let input = if spoiled {
                Input::Spoiled { source }
            } else {
                Input::Stored { source, founded: Decree::default() }
            };
            quorum.step(now, input, &mut effects);
            quorum.check();
        }
        for effect in effects {
            match effect {
                Effect::Write { id, .. } => {
                    assert_eq!(id, WriteId(written + 1), "writes are numbered one by one");
                    written = id.0;
                }
                Effect::Send { call, body, .. } => asked.push((call, body)),
                Effect::Store { source, .. } => stored.push(source),
                Effect::Reply { ticket, .. } => {
                    assert!(unanswered.remove(&ticket.0), "{ticket:?} is answered twice");
                }
                Effect::Abandon { .. }
                | Effect::Refuse { .. }
                | Effect::ReadAt { .. }
                | Effect::Commit { .. }
                | Effect::Lead { .. }
                | Effect::StartOver
                | Effect::Stopped
                | Effect::Complain { .. } => {}
            }
        }
        seen.insert(quorum.view().role);
    }
    let changes = usize::from(quorum.has_change());
    let held = quorum.view().parked + quorum.outbox.held().count() + changes;
    assert!(unanswered.len() <= held, "{} requests were forgotten, {held} wait", unanswered.len());
    seen
}

#[test]
fn any_message_at_any_time_breaks_nothing_and_is_answered() {
    let mut seen = BTreeSet::new();
    for seed in 0..3_000 {
        seen.extend(run(seed));
    }
    assert_eq!(seen.len(), 9, "all roles were tried: {seen:?}");
}
