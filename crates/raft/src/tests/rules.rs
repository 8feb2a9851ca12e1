//! Single replicas, step by step, for rules whose breach a random run would seldom show.

use crate::*;
use quorate_base::{
    Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span, Time, Uuid,
};
use std::sync::Arc;

const EPOCH: Epoch = Epoch(5);

fn key(id: u32) -> ReplicaKey {
    ReplicaKey::new(ReplicaId(id), Some(Uuid([id as u8; 16])))
}

/// One replica and what it has said since last asked.
struct One {
    quorum: Quorum,
    now: Time,
    said: Vec<Effect>,
}

impl One {
    /// Replica `id` of three voters, in epoch 5, with four records of epoch 1 and two of epoch 3.
    fn open(id: u32, leader: Option<u32>, voted: Option<u32>) -> One {
        let endpoints = Arc::<[Endpoint]>::from([]);
        let set = (1..=3).map(|id| (ReplicaKey::new(ReplicaId(id), None), endpoints.clone()));
        let config = Config::new(Some(ReplicaId(id)), Uuid([id as u8; 16]), set.collect());
        let election =
            ElectionState { epoch: EPOCH, leader: leader.map(ReplicaId), voted: voted.map(key) };
        let epochs = vec![(Epoch(1), Offset(0)), (Epoch(3), Offset(4))];
        let recovered = Recovered { election, end: Offset(6), epochs, ..Recovered::default() };
        let now = Time(1_000_000);
        let quorum = Quorum::open(config, recovered, 9, now).unwrap();
        let mut one = One { quorum, now, said: Vec::new() };
        one.step(Input::Wake);
        one
    }

    fn step(&mut self, input: Input) {
        self.quorum.step(self.now, input, &mut self.said);
        self.quorum.check();
    }

    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        while self.quorum.deadline() <= until {
            self.now = self.quorum.deadline();
            self.step(Input::Wake);
        }
        self.now = until;
    }

    fn sync(&mut self) {
        while let Some(upto) = self.writes().last().map(|(id, _)| *id)
            && !self.quorum.writes.covers(upto)
        {
            self.step(Input::Durable { upto });
        }
    }

    fn writes(&self) -> Vec<(WriteId, Write)> {
        let writes = self.said.iter().filter_map(|effect| {
            if let Effect::Write { id, write } = effect { Some((*id, write.clone())) } else { None }
        });
        writes.collect()
    }

    /// Takes the questions that left, as (call, to, question).
    fn asked(&mut self) -> Vec<(Call, u32, Request)> {
        let (sent, rest) = std::mem::take(&mut self.said)
            .into_iter()
            .partition::<Vec<_>, _>(|effect| matches!(effect, Effect::Send { .. }));
        self.said = rest;
        let mut asked = Vec::new();
        for effect in sent {
            if let Effect::Send { call, to: Destination::Replica { id, .. }, body } = effect {
                asked.push((call, id.0, body));
            }
        }
        asked
    }

    /// Takes the answers that left.
    fn replies(&mut self) -> Vec<Response> {
        let mut replies = Vec::new();
        self.said.retain(|effect| {
            if let Effect::Reply { body, .. } = effect {
                replies.push(body.clone());
            }
            !matches!(effect, Effect::Reply { .. })
        });
        replies
    }

    fn complaints(&self) -> Vec<Complaint> {
        let what = |e: &Effect| if let Effect::Complain { what } = e { Some(*what) } else { None };
        self.said.iter().filter_map(what).collect()
    }

    fn request(&mut self, body: Request) {
        self.step(Input::Request { ticket: Ticket(0), body });
    }

    fn answer(&mut self, call: Call, body: Response) {
        self.step(Input::Response { call, body });
    }

    fn role(&self) -> RoleName {
        self.quorum.view().role
    }

    /// Answers all votes asked so far.
    fn vote(&mut self, granted: bool) {
        for (call, _, body) in self.asked() {
            if let Request::Vote(vote) = body {
                let view = view(ErrorKind::None, vote.epoch, None);
                self.answer(call, Response::Vote(VoteAnswer { view, granted }));
            }
        }
    }

    /// A leader of epoch 5 whose first record lies at 6.
    fn leader() -> One {
        let mut one = One::open(1, None, Some(1));
        one.vote(true);
        assert_eq!(one.role(), RoleName::Leader);
        one
    }

    /// Answers the fetch that is in flight, as leader 2.
    fn serve(&mut self, high_watermark: Option<u64>, fetched: Fetched) {
        let asked = self.asked();
        let (call, ..) = asked.iter().find(|(.., b)| matches!(b, Request::Fetch(_))).unwrap();
        let view = view(ErrorKind::None, EPOCH, Some(2));
        let high_watermark = high_watermark.map(Offset);
        let refusal = FetchAnswer::refusal(view, Offset(0));
        let answer = FetchAnswer { high_watermark, fetched, ..refusal };
        self.answer(*call, Response::Fetch(answer));
    }
}

fn view(error: ErrorKind, epoch: Epoch, leader: Option<u32>) -> LeaderView {
    LeaderView { error, epoch, leader: leader.map(ReplicaId), endpoints: Arc::from([]) }
}

fn fetch(id: u32, at: u64, epoch: u32, round: Option<u64>) -> Request {
    Request::Fetch(Fetch {
        epoch: EPOCH,
        replica: Some(key(id)),
        from: OffsetEpoch::new(Offset(at), Epoch(epoch)),
        high_watermark: FetchHighWatermark::Unsaid,
        max_wait: Span::ms(500),
        max_bytes: 1_000,
        round,
        no_room: false,
        format_level: FormatLevel::ZERO,
        history: None,
        never_leads: false,
    })
}

fn batch(base: u64, last: u64, epoch: u32) -> BatchMark {
    BatchMark {
        base: Offset(base),
        last: Offset(last),
        epoch: Epoch(epoch),
        control: false,
        decree: None,
    }
}

#[test]
fn p44_nothing_of_an_epoch_leaves_before_its_leadership_is_durable() {
    let mut one = One::leader();
    one.request(fetch(2, 6, 3, Some(0)));
    assert_eq!((one.replies(), one.asked()), (vec![], vec![]));
    let writes = one.writes();
    assert!(matches!(&writes[0].1, Write::Election(state) if state.leader == Some(ReplicaId(1))));
    assert!(matches!(&writes[1].1, Write::Append { .. }));
    // The records themselves need not be durable.
    one.step(Input::Durable { upto: writes[0].0 });
    let replies = one.replies();
    assert!(
        matches!(&replies[..], [Response::Fetch(answer)] if matches!(answer.fetched, Fetched::Range { .. })),
        "{replies:?}"
    );
    assert!(one.asked().iter().all(|(.., body)| matches!(body, Request::BeginQuorumEpoch(_))));
}

#[test]
fn p45_votes_are_asked_for_a_log_that_is_durable() {
    let mut one = One::open(1, Some(2), None);
    one.serve(None, Fetched::Batches(vec![batch(6, 7, 5)]));
    one.wait(Span::ms(2_000));
    one.vote(true);
    assert_eq!(one.role(), RoleName::Candidate);
    assert_eq!(one.asked(), vec![]);
    let first = one.writes()[0].clone();
    assert!(matches!(first.1, Write::Append { .. }));
    one.step(Input::Durable { upto: first.0 });
    assert_eq!(one.asked(), vec![], "the vote itself is not durable yet");
    one.sync();
    assert_eq!(one.asked().len(), 2);
}

#[test]
fn p43_a_voters_fetch_waits_for_what_it_acknowledges() {
    let mut one = One::open(1, Some(2), None);
    one.serve(Some(6), Fetched::Batches(vec![batch(6, 7, 5)]));
    assert_eq!(one.asked(), vec![]);
    one.sync();
    let asked = one.asked();
    assert!(
        matches!(&asked[..], [(_, 2, Request::Fetch(fetch))] if fetch.from.offset == Offset(8))
    );
}

#[test]
fn p23_p24_a_leader_that_nobody_fetches_from_resigns_and_leaves_its_epoch() {
    let mut one = One::leader();
    one.sync();
    one.wait(Span::ms(2_999));
    assert_eq!(one.role(), RoleName::Leader);
    one.asked();
    one.wait(Span::ms(1));
    assert_eq!(one.role(), RoleName::Resigned);
    // The Begin questions were given up; both voters are told the end at once.
    let ends = one.asked();
    assert_eq!(ends.len(), 2);
    let (call, to, _) = ends[0].clone();
    one.answer(call, Response::EndQuorumEpoch(view(ErrorKind::None, EPOCH, Some(1))));
    one.step(Input::Lost { call: ends[1].0, how: Loss::Closed });
    one.wait(Span::ms(25));
    let again = one.asked();
    assert!(again.len() == 1 && again[0].1 != to, "only who has not acknowledged is asked again");
    one.wait(Span::ms(2_000));
    assert_eq!(one.quorum.view().epoch, EPOCH.next());
    assert_eq!(one.role(), RoleName::Prospective);
}

#[test]
fn p23_one_of_two_followers_keeps_the_leader() {
    let mut one = One::leader();
    one.sync();
    for _ in 0..10 {
        one.wait(Span::ms(1_000));
        one.request(fetch(2, 7, 5, None));
    }
    assert_eq!(one.role(), RoleName::Leader);
}

#[test]
fn p24_successors_come_most_caught_up_first_b092() {
    let mut one = One::leader();
    one.sync();
    one.request(fetch(2, 6, 3, None));
    one.request(fetch(3, 7, 5, None));
    one.step(Input::Resign { epoch: EPOCH });
    let asked = one.asked();
    let successors = asked.iter().find_map(|(.., body)| match body {
        Request::EndQuorumEpoch(end) => Some(end.successors.clone()),
        Request::Vote(_)
        | Request::BeginQuorumEpoch(_)
        | Request::Fetch(_)
        | Request::FetchSnapshot(_)
        | Request::UpdateVoter(_)
        | Request::AddVoter(_)
        | Request::RemoveVoter(_)
        | Request::Upgrade(_) => None,
    });
    let ids: Vec<u32> = successors.unwrap().iter().map(|key| key.id.0).collect();
    assert_eq!(ids, [3, 2]);
}

#[test]
fn p25_the_first_successor_stands_at_once_and_the_second_a_little_later_b089() {
    let end = |successors: [u32; 2]| {
        Request::EndQuorumEpoch(EndQuorumEpoch {
            epoch: EPOCH,
            leader: ReplicaId(2),
            successors: successors.map(key).to_vec(),
            endpoints: Arc::from([]),
        })
    };
    let mut first = One::open(1, Some(2), None);
    first.request(end([1, 3]));
    assert_eq!(first.role(), RoleName::Prospective);
    let mut second = One::open(1, Some(2), None);
    second.request(end([3, 1]));
    second.wait(Span::ms(499));
    assert_eq!(second.role(), RoleName::Follower);
    second.wait(Span::ms(1));
    assert_eq!(second.role(), RoleName::Prospective);
    let mut unlisted = One::open(1, Some(2), None);
    unlisted.request(end([3, 3]));
    unlisted.wait(Span::ms(999));
    assert_eq!(unlisted.role(), RoleName::Follower);
}

/// A follower that has fetched and then sees its leader's process gone.
fn bereaved(id: u32) -> One {
    let mut one = One::open(id, Some(2), None);
    one.serve(None, Fetched::Nothing);
    let (call, ..) = one.asked()[0];
    one.step(Input::Lost { call, how: Loss::Refused });
    one
}

#[test]
fn p50_the_wait_after_a_process_death_grows_with_the_rank() {
    for (id, wait) in [(1, Span::ms(20)), (3, Span::ms(40))] {
        let mut one = bereaved(id);
        one.wait(wait - Span::us(1));
        assert_eq!(one.role(), RoleName::Follower, "replica {id}");
        one.wait(Span::us(1));
        assert_eq!(one.role(), RoleName::Prospective, "replica {id}");
        assert_eq!(one.quorum.view().epoch, EPOCH);
    }
}

#[test]
fn p50_a_leader_that_answers_calls_it_off_and_a_closed_connection_alone_is_no_death() {
    let mut one = bereaved(3);
    one.wait(Span::ms(25));
    // The other voter is asked meanwhile, and knows nothing newer; then the leader answers again.
    for (call, to, _) in one.asked() {
        assert_eq!(to, 1);
        let view = view(ErrorKind::NotLeaderOrFollower, EPOCH, Some(2));
        let answer = FetchAnswer::refusal(view, Offset(0));
        one.answer(call, Response::Fetch(answer));
    }
    one.serve(None, Fetched::Nothing);
    one.wait(Span::ms(1_000));
    assert_eq!(one.role(), RoleName::Follower);

    let mut one = One::open(1, Some(2), None);
    let (call, ..) = one.asked()[0];
    one.step(Input::Lost { call, how: Loss::Closed });
    one.wait(Span::ms(1_000));
    assert_eq!(one.role(), RoleName::Follower);
}

#[test]
fn p51_who_refused_is_asked_again_until_it_sees_the_death_too() {
    let mut one = bereaved(1);
    one.wait(Span::ms(20));
    for _ in 0..5 {
        one.vote(false);
        assert_eq!((one.role(), one.asked()), (RoleName::Prospective, vec![]));
        one.wait(Span::ms(50));
    }
    one.vote(true);
    assert_eq!((one.role(), one.quorum.view().epoch), (RoleName::Candidate, EPOCH.next()));
}

#[test]
fn p51_who_grants_holds_back() {
    let pre_vote = || {
        Request::Vote(Vote {
            epoch: EPOCH,
            candidate: key(1),
            voter: None,
            last: OffsetEpoch::new(Offset(6), Epoch(3)),
            pre_vote: true,
        })
    };
    let granted = |one: &mut One| {
        let replies = one.replies();
        matches!(&replies[..], [Response::Vote(VoteAnswer { granted: true, .. })])
    };
    // As follower that knows of the death, and as one that asks for votes itself already.
    for lead in [Span::ms(5), Span::ms(40)] {
        let mut one = bereaved(3);
        one.wait(lead);
        one.request(pre_vote());
        assert!(granted(&mut one));
        assert_eq!(one.role(), RoleName::Follower);
        one.wait(Span::ms(119));
        assert_eq!(one.role(), RoleName::Follower, "asked after {lead:?}");
        one.wait(Span::ms(1));
        assert_eq!(one.role(), RoleName::Prospective, "asked after {lead:?}");
    }
    // One that has not seen it refuses: it is in contact with its leader.
    let mut one = One::open(3, Some(2), None);
    one.serve(None, Fetched::Nothing);
    one.request(pre_vote());
    assert!(!granted(&mut one));
}

#[test]
fn p52_a_voter_without_pre_votes_leaves_it_to_the_timers() {
    let old = Input::Peer { id: ReplicaId(3), speaks: Features::default() };
    let mut one = One::open(1, Some(2), None);
    one.step(old.clone());
    let (call, ..) = one.asked()[0];
    one.step(Input::Lost { call, how: Loss::Refused });
    one.wait(Span::ms(1_999));
    assert_eq!(one.role(), RoleName::Follower);
    // The fetch timeout then leads past the pre-vote that could not be asked [P19].
    one.wait(Span::ms(1));
    assert_eq!((one.role(), one.quorum.view().epoch), (RoleName::Candidate, EPOCH.next()));
    // Told only later, it ends the attempt.
    let mut one = bereaved(1);
    one.step(old);
    one.wait(Span::ms(100));
    assert_eq!(one.role(), RoleName::Follower);
}

#[test]
fn p19_unsupported_version_to_a_pre_vote_leads_to_candidate_at_once_b075() {
    let mut one = One::open(1, Some(2), None);
    one.wait(Span::ms(2_000));
    assert_eq!(one.role(), RoleName::Prospective);
    let (call, ..) =
        *one.asked().iter().rev().find(|(.., b)| matches!(b, Request::Vote(_))).unwrap();
    let view = view(ErrorKind::UnsupportedVersion, Epoch(0), None);
    one.answer(call, Response::Vote(VoteAnswer { view, granted: false }));
    assert_eq!((one.role(), one.quorum.view().epoch), (RoleName::Candidate, EPOCH.next()));
}

fn read_at(one: &One) -> Vec<(Token, Offset)> {
    let reads = one.said.iter().filter_map(|effect| {
        if let Effect::ReadAt { token, offset } = effect { Some((*token, *offset)) } else { None }
    });
    reads.collect()
}

#[test]
fn p47_a_round_proves_reads_that_came_before_it_and_no_others() {
    let mut one = One::leader();
    one.sync();
    one.asked();
    one.request(fetch(2, 7, 5, Some(0)));
    assert_eq!(one.quorum.view().high_watermark, Some(Offset(7)));
    one.step(Input::Read { token: Token(1) });
    // The waiting fetch carries the round to the follower at once.
    let replies = one.replies();
    assert!(
        matches!(&replies[..], [Response::Fetch(FetchAnswer { round: Some(1), .. })]),
        "{replies:?}"
    );
    one.step(Input::Read { token: Token(2) });
    assert_eq!(read_at(&one), []);
    one.request(fetch(2, 7, 5, Some(1)));
    assert_eq!(read_at(&one), [(Token(1), Offset(7))]);
    // It was answered at once with the next round, since a read waits for it.
    let replies = one.replies();
    assert!(matches!(&replies[..], [Response::Fetch(FetchAnswer { round: Some(2), .. })]));
    // Echoes without a round, of an old one, or of one that never was, prove nothing.
    for echo in [None, Some(1), Some(9)] {
        one.request(fetch(2, 7, 5, echo));
        assert_eq!(read_at(&one).len(), 1, "{echo:?}");
    }
    one.request(fetch(2, 7, 5, Some(2)));
    assert_eq!(read_at(&one), [(Token(1), Offset(7)), (Token(2), Offset(7))]);
}

#[test]
fn p48_a_peer_without_rounds_proves_by_answering_begin() {
    let mut one = One::leader();
    one.sync();
    one.request(fetch(2, 7, 5, None));
    let before = one.asked();
    one.step(Input::Read { token: Token(1) });
    // These were sent before the read came: their answers prove nothing.
    for (call, ..) in before {
        one.answer(call, Response::BeginQuorumEpoch(view(ErrorKind::None, EPOCH, Some(1))));
    }
    assert_eq!(read_at(&one), []);
    let after = one.asked();
    assert_eq!(after.len(), 2);
    one.answer(
        after[0].0,
        Response::BeginQuorumEpoch(view(ErrorKind::InvalidVoterKey, EPOCH, Some(1))),
    );
    assert_eq!(read_at(&one), []);
    one.answer(after[1].0, Response::BeginQuorumEpoch(view(ErrorKind::None, EPOCH, Some(1))));
    assert_eq!(read_at(&one), [(Token(1), Offset(7))]);
}

#[test]
fn p49_p32_the_loss_of_leadership_refuses_reads_and_waiting_fetches() {
    let mut one = One::leader();
    one.sync();
    one.request(fetch(2, 7, 5, Some(0)));
    one.step(Input::Read { token: Token(1) });
    one.request(fetch(3, 7, 5, None));
    one.replies();
    assert_eq!((one.quorum.view().parked, one.quorum.view().reads), (1, 1));
    let mut vote = Vote {
        epoch: Epoch(6),
        candidate: key(3),
        voter: None,
        last: OffsetEpoch::default(),
        pre_vote: false,
    };
    vote.last.epoch = Epoch(1);
    one.request(Request::Vote(vote));
    assert_eq!(one.role(), RoleName::Unattached);
    let why = Refusal::NotLeader { leader: None, epoch: Epoch(6) };
    assert!(one.said.contains(&Effect::Refuse { token: Token(1), why }));
    assert_eq!(one.replies(), vec![], "the new epoch is not durable yet");
    one.sync();
    let replies = one.replies();
    assert!(replies.iter().any(|reply| matches!(
        reply,
        Response::Fetch(answer) if answer.view.error == ErrorKind::NotLeaderOrFollower
    )));
}

#[test]
fn p28_what_is_committed_is_never_truncated_b109() {
    let mut one = One::open(1, Some(2), None);
    one.serve(Some(5), Fetched::Nothing);
    one.serve(Some(5), Fetched::Diverging(OffsetEpoch::new(Offset(4), Epoch(1))));
    let what = Complaint::DivergedBelowCommitted { cut: Offset(4), committed: Offset(5) };
    assert_eq!(one.complaints(), [what]);
    assert_eq!(one.quorum.view().end, Offset(6));
    assert!(one.asked().iter().all(|(_, to, _)| *to == 3), "the leader is left alone for a while");
}

#[test]
fn p28_a_diverging_log_is_cut_where_both_agree_b108() {
    let check = |told: (u64, u32), expect: u64| {
        let mut one = One::open(1, Some(2), None);
        one.serve(None, Fetched::Diverging(OffsetEpoch::new(Offset(told.0), Epoch(told.1))));
        assert_eq!(one.quorum.view().end, Offset(expect), "told {told:?}");
        one.sync();
        let asked = one.asked();
        let Some((_, _, Request::Fetch(fetch))) = asked.first() else { panic!("{asked:?}") };
        assert_eq!(fetch.from.offset, Offset(expect));
    };
    check((5, 3), 5);
    check((9, 1), 4);
    check((2, 1), 2);
    check((9, 2), 4);
    check((3, 0), 3);
}

#[test]
fn p29_a_gap_or_a_later_epoch_ends_what_is_appended_b110() {
    let check = |batches: Vec<BatchMark>, end: u64, complains: bool| {
        let mut one = One::open(1, Some(2), None);
        one.serve(None, Fetched::Batches(batches.clone()));
        assert_eq!(one.quorum.view().end, Offset(end), "{batches:?}");
        assert_eq!(one.complaints().len(), usize::from(complains), "{batches:?}");
    };
    check(vec![batch(6, 6, 4), batch(7, 8, 5)], 9, false);
    check(vec![batch(6, 6, 5), batch(7, 7, 6)], 7, false);
    check(vec![batch(6, 6, 6)], 6, false);
    check(vec![batch(6, 6, 5), batch(8, 8, 5)], 7, true);
    check(vec![batch(5, 6, 5)], 6, true);
    check(vec![batch(6, 6, 5), batch(7, 7, 4)], 7, true);
}

#[test]
fn p35_two_leaders_of_one_epoch_and_a_leader_that_is_us_are_refused() {
    let begin = |leader| {
        let endpoints = Arc::from([]);
        let leader = ReplicaId(leader);
        Request::BeginQuorumEpoch(BeginQuorumEpoch { epoch: EPOCH, leader, voter: None, endpoints })
    };
    let mut one = One::open(1, Some(2), None);
    one.request(begin(3));
    let what = Complaint::TwoLeaders { epoch: EPOCH, known: ReplicaId(2), told: ReplicaId(3) };
    assert_eq!(one.complaints(), [what]);
    assert_eq!(one.quorum.view().leader, Some(ReplicaId(2)));
    // A resigned replica follows nobody in the epoch that it led (KAFKA-18379).
    let mut one = One::open(1, Some(1), Some(1));
    one.request(begin(3));
    assert_eq!((one.role(), one.complaints().len()), (RoleName::Resigned, 1));
    one.request(begin(1));
    assert_eq!(one.complaints()[1], Complaint::SharesOurId { id: ReplicaId(1) });
}

#[test]
fn p7_an_observer_that_nobody_answers_does_not_spin_and_never_stands_b080() {
    for leader in [None, Some(2)] {
        let mut one = One::open(7, leader, None);
        let mut steps = 0;
        let until = one.now + Span::ms(10_000);
        while one.now < until {
            for (call, ..) in one.asked() {
                one.step(Input::Lost { call, how: Loss::Refused });
            }
            one.now = one.quorum.deadline();
            one.step(Input::Wake);
            steps += 1;
        }
        // Three voters, each asked at most once in 20 ms.
        assert!(steps <= 3 * 10_000 / 20, "{steps} steps");
        assert_eq!(one.quorum.view().epoch, EPOCH);
    }
}

#[test]
fn p53_p54_shutdown_ends_with_a_successor_or_with_its_time_b183_b184() {
    let stopped = |one: &One| one.said.contains(&Effect::Stopped);
    let mut one = One::open(1, Some(2), None);
    one.step(Input::Shutdown { until: Time::NEVER });
    assert!(stopped(&one), "a follower knows its leader");

    let mut one = One::leader();
    one.sync();
    let until = one.now + Span::ms(5_000);
    one.step(Input::Shutdown { until });
    assert_eq!((one.role(), stopped(&one)), (RoleName::Resigned, false));
    one.request(fetch(2, 7, 5, None));
    let replies = one.replies();
    assert!(matches!(
        &replies[..],
        [Response::Fetch(answer)] if answer.view.error == ErrorKind::NotLeaderOrFollower
    ));
    let mut waits = One { quorum: one.quorum.clone(), now: one.now, said: Vec::new() };
    let (epoch, leader) = (Epoch(6), ReplicaId(3));
    let endpoints = Arc::from([]);
    one.request(Request::BeginQuorumEpoch(BeginQuorumEpoch {
        epoch,
        leader,
        voter: None,
        endpoints,
    }));
    assert!(stopped(&one));
    waits.wait(Span::ms(4_999));
    assert!(!stopped(&waits));
    assert_eq!(waits.role(), RoleName::Resigned, "it stays until its time is over");
    waits.wait(Span::ms(1));
    assert!(stopped(&waits));
}

/// A resigned leader that was asked to stop, and the two EndQuorumEpoch that it sent.
fn stopping_leader() -> (One, [(Call, u32); 2]) {
    let mut one = One::leader();
    one.sync();
    one.asked();
    one.step(Input::Shutdown { until: one.now + Span::ms(5_000) });
    let ends = one.asked();
    let [(to_2, 2, Request::EndQuorumEpoch(_)), (to_3, 3, Request::EndQuorumEpoch(_))] = ends[..]
    else {
        panic!("{ends:?}");
    };
    (one, [(to_2, 2), (to_3, 3)])
}

fn stopped(one: &One) -> bool {
    one.said.contains(&Effect::Stopped)
}

#[test]
fn p54_a_leader_does_not_wait_for_successors_that_are_gone() {
    let (mut one, [(to_2, _), (to_3, _)]) = stopping_leader();
    one.step(Input::Lost { call: to_2, how: Loss::Refused });
    assert!(!stopped(&one), "the other one may still take over");
    one.step(Input::Lost { call: to_3, how: Loss::Refused });
    assert!(stopped(&one));
}

#[test]
fn p54_one_voter_that_heard_and_one_that_is_gone_elect_nobody() {
    let (mut one, [(to_2, _), (to_3, _)]) = stopping_leader();
    one.answer(to_2, Response::EndQuorumEpoch(view(ErrorKind::None, EPOCH, Some(1))));
    assert!(!stopped(&one), "the other one may have its vote");
    one.step(Input::Lost { call: to_3, how: Loss::Refused });
    assert!(stopped(&one));
}

#[test]
fn p54_a_closed_connection_alone_is_no_death_and_a_process_may_come_back() {
    let (mut one, [(to_2, _), (to_3, _)]) = stopping_leader();
    one.step(Input::Lost { call: to_2, how: Loss::Refused });
    one.wait(Span::ms(25));
    let again = one.asked();
    let [(to_2, 2, Request::EndQuorumEpoch(_))] = again[..] else { panic!("{again:?}") };
    // It listens again.
    one.step(Input::Lost { call: to_2, how: Loss::Closed });
    one.step(Input::Lost { call: to_3, how: Loss::Refused });
    assert!(!stopped(&one));
    one.wait(Span::ms(4_000));
    assert!(!stopped(&one));
    one.wait(Span::ms(1_000));
    assert!(stopped(&one), "its time is over");
}

#[test]
fn p54_two_that_both_heard_elect_one_of_them() {
    let (mut one, ends) = stopping_leader();
    for (call, _) in ends {
        one.answer(call, Response::EndQuorumEpoch(view(ErrorKind::None, EPOCH, Some(1))));
    }
    assert!(!stopped(&one));
}

#[test]
fn p2_a_static_voter_is_known_by_id_alone_and_shows_the_directory_that_it_told() {
    let mut one = One::leader();
    one.sync();
    assert_eq!(one.quorum.view().followers[0].directory, None);
    one.request(fetch(2, 7, 5, None));
    let told = |one: &One| {
        let progress = &one.quorum.view().followers[0];
        (progress.key.directory, progress.directory)
    };
    assert_eq!(told(&one), (None, key(2).directory));
    // The disk was replaced: the same voter in another directory.
    let Request::Fetch(mut again) = fetch(2, 7, 5, None) else { unreachable!("it is a fetch") };
    again.replica = Some(ReplicaKey::new(ReplicaId(2), Some(Uuid([9; 16]))));
    one.request(Request::Fetch(again));
    assert_eq!(told(&one), (None, Some(Uuid([9; 16]))));
    assert_eq!(one.quorum.view().observers, []);
}
