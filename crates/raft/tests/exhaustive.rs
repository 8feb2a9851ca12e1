//! Small worlds looked at whole: every vote request to every role, every set of fetch offsets of up
//! to five voters. What is expected is written down here from docs/PROTOCOL.md, not taken from the
//! crate.
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_base::{
    Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span, Time, Uuid,
};
use quorate_raft::*;
use std::sync::Arc;

const EPOCH: Epoch = Epoch(5);

fn directory(byte: u8) -> Option<Uuid> {
    Some(Uuid([byte; 16]))
}

fn key(id: u32) -> ReplicaKey {
    ReplicaKey::new(ReplicaId(id), directory(id as u8))
}

fn open(id: u32, voters: u32, election: ElectionState) -> Quorum {
    let set = (1..=voters)
        .map(|id| (ReplicaKey::new(ReplicaId(id), None), Arc::<[Endpoint]>::from([])))
        .collect();
    let config = Config::new(Some(ReplicaId(id)), key(id).directory.unwrap(), set);
    // Four records of epoch 1, two of epoch 3.
    let epochs = vec![(Epoch(1), Offset(0)), (Epoch(3), Offset(4))];
    let recovered = Recovered { election, end: Offset(6), epochs, ..Recovered::default() };
    Quorum::open(config, recovered, 1, Time(1_000_000)).unwrap()
}

fn election(leader: Option<u32>, voted: Option<ReplicaKey>) -> ElectionState {
    ElectionState { epoch: EPOCH, leader: leader.map(ReplicaId), voted }
}

/// A step after which everything that was written is durable; all effects of both.
fn step(quorum: &mut Quorum, now: Time, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    quorum.step(now, input, &mut effects);
    quorum.check();
    settle(quorum, now, &mut effects);
    effects
}

fn settle(quorum: &mut Quorum, now: Time, effects: &mut Vec<Effect>) {
    let mut seen = 0;
    while let Some(upto) = effects[seen..].iter().rev().find_map(written) {
        seen = effects.len();
        quorum.step(now, Input::Durable { upto }, effects);
        quorum.check();
    }
}

fn written(effect: &Effect) -> Option<WriteId> {
    if let Effect::Write { id, .. } = effect { Some(*id) } else { None }
}

/// The questions among the effects.
fn sent(effects: &[Effect]) -> Vec<(Call, ReplicaId, Request)> {
    let mut questions = Vec::new();
    for effect in effects {
        if let Effect::Send { call, to: Destination::Replica { id, .. }, body } = effect {
            questions.push((*call, *id, body.clone()));
        }
    }
    questions
}

fn view(error: ErrorKind, epoch: Epoch, leader: Option<u32>) -> LeaderView {
    LeaderView { error, epoch, leader: leader.map(ReplicaId), endpoints: Arc::from([]) }
}

/// Lets `voters` grant what `effects` ask them.
fn grant(quorum: &mut Quorum, now: Time, effects: &[Effect], voters: &[u32]) -> Vec<Effect> {
    let mut out = Vec::new();
    for (call, id, body) in sent(effects) {
        if let Request::Vote(vote) = body
            && voters.contains(&id.0)
        {
            let view = view(ErrorKind::None, vote.epoch, None);
            let body = Response::Vote(VoteAnswer { view, granted: true });
            out.extend(step(quorum, now, Input::Response { call, body }));
        }
    }
    out
}

// --- Votes

#[derive(Clone, Copy, PartialEq, Debug)]
enum Start {
    Unattached,
    UnattachedKnowingALeader,
    Prospective,
    ProspectiveKnowingALeader,
    Candidate,
    Follower,
    FollowerThatFetched,
    FollowerOfTheDead,
    Leader,
    Resigned,
    ObserverUnattached,
    ObserverFollower,
}

use Start::*;

impl Start {
    const ALL: [Start; 12] = [
        Unattached,
        UnattachedKnowingALeader,
        Prospective,
        ProspectiveKnowingALeader,
        Candidate,
        Follower,
        FollowerThatFetched,
        FollowerOfTheDead,
        Leader,
        Resigned,
        ObserverUnattached,
        ObserverFollower,
    ];

    /// A replica in this state, in epoch 5; `voted` where the state leaves a choice.
    fn make(self, voted: Option<ReplicaKey>) -> (Quorum, Time) {
        let mut now = Time(1_000_000);
        let own = Some(key(1));
        let (id, state) = match self {
            Unattached | Prospective => (1, election(None, voted)),
            UnattachedKnowingALeader => (1, election(Some(9), voted)),
            ProspectiveKnowingALeader | Follower | FollowerThatFetched | FollowerOfTheDead => {
                (1, election(Some(2), voted))
            }
            Candidate | Leader => (1, election(None, own)),
            Resigned => (1, election(Some(1), own)),
            ObserverUnattached => (4, election(None, voted)),
            ObserverFollower => (4, election(Some(2), voted)),
        };
        let mut quorum = open(id, 3, state);
        let effects = step(&mut quorum, now, Input::Wake);
        match self {
            Prospective | ProspectiveKnowingALeader => {
                while !matches!(
                    quorum.view().role,
                    RoleName::Prospective | RoleName::ProspectiveVoted
                ) {
                    now = quorum.deadline();
                    step(&mut quorum, now, Input::Wake);
                }
            }
            Leader => {
                grant(&mut quorum, now, &effects, &[2]);
            }
            FollowerThatFetched | FollowerOfTheDead => {
                let (call, _, _) = sent(&effects)[0].clone();
                let answer = FetchAnswer {
                    view: view(ErrorKind::None, EPOCH, Some(2)),
                    high_watermark: None,
                    start: Offset(0),
                    fetched: Fetched::Nothing,
                    round: None,
                    cleaned: None,
                    bound: None,
                    history: None,
                };
                let input = Input::Response { call, body: Response::Fetch(answer) };
                let effects = step(&mut quorum, now, input);
                if self == FollowerOfTheDead {
                    let (call, _, _) = sent(&effects)[0].clone();
                    step(&mut quorum, now, Input::Lost { call, how: Loss::Refused });
                }
            }
            Unattached
            | UnattachedKnowingALeader
            | Candidate
            | Follower
            | Resigned
            | ObserverUnattached
            | ObserverFollower => {}
        }
        (quorum, now)
    }

    /// Whether the vote in the file may be anything.
    fn free_vote(self) -> bool {
        !matches!(self, Candidate | Leader | Resigned)
    }

    fn knows_leader(self) -> bool {
        !matches!(self, Unattached | Prospective | Candidate | ObserverUnattached)
    }
}

/// [P14] to [P17]: the error and, without one, whether the vote is given.
fn judge(start: Start, quorum: &Quorum, vote: &Vote) -> (ErrorKind, bool) {
    let own = if matches!(start, ObserverUnattached | ObserverFollower) { key(4) } else { key(1) };
    let at = quorum.view();
    let malformed = match vote.pre_vote {
        true => vote.last.epoch > vote.epoch,
        false => vote.last.epoch >= vote.epoch,
    };
    if malformed {
        return (ErrorKind::InvalidRequest, false);
    }
    if vote.epoch < EPOCH {
        return (ErrorKind::FencedLeaderEpoch, false);
    }
    if vote.voter.is_some_and(|v| v.id != own.id || v.directory.is_some_and(|_| v != own)) {
        return (ErrorKind::InvalidVoterKey, false);
    }
    let up_to_date = vote.last.epoch > at.last_epoch
        || (vote.last.epoch == at.last_epoch && vote.last.offset >= at.end);
    let moved = vote.epoch > EPOCH;
    let granted = match (start, vote.pre_vote) {
        _ if moved => up_to_date,
        (Leader, _) => false,
        (Candidate | Resigned, pre_vote) => pre_vote && up_to_date,
        (Follower | FollowerOfTheDead | ObserverFollower, pre_vote) => pre_vote && up_to_date,
        (FollowerThatFetched, _) => false,
        (_, true) => up_to_date,
        (_, false) => match at.voted {
            Some(voted) if voted.directory.is_some() => voted == vote.candidate,
            Some(voted) => voted.id == vote.candidate.id,
            None => !start.knows_leader() && up_to_date,
        },
    };
    (ErrorKind::None, granted)
}

#[test]
fn every_vote_request_to_every_role_b056_to_b074() {
    let other_directory = ReplicaKey::new(ReplicaId(3), directory(77));
    let votes = [None, Some(key(3)), Some(ReplicaKey::new(ReplicaId(3), None)), Some(key(2))];
    let lasts = [(6, 2), (5, 3), (6, 3), (7, 3), (1, 4), (0, 0), (7, 5), (8, 5), (3, 6)];
    let asked = [None, Some(key(1)), Some(ReplicaKey::new(ReplicaId(1), None)), Some(key(2))];
    let mut cases = 0;
    for start in Start::ALL {
        for voted in votes.into_iter().filter(|v| v.is_none() || start.free_vote()) {
            let (fresh, now) = start.make(voted);
            for (epoch, pre_vote) in
                [4, 5, 6].into_iter().flat_map(|e| [(Epoch(e), false), (Epoch(e), true)])
            {
                for candidate in [key(3), other_directory, key(2)] {
                    for (last, voter) in lasts.iter().flat_map(|l| asked.map(|voter| (*l, voter))) {
                        let last = OffsetEpoch::new(Offset(last.0), Epoch(last.1));
                        let vote = Vote { epoch, candidate, voter, last, pre_vote };
                        check_vote(start, fresh.clone(), now, vote);
                        cases += 1;
                    }
                }
            }
        }
    }
    assert!(cases > 20_000, "{cases} cases");
}

fn check_vote(start: Start, mut quorum: Quorum, now: Time, vote: Vote) {
    let (error, granted) = judge(start, &quorum, &vote);
    let before = (quorum.view().epoch, quorum.view().voted);
    let case = format!("{start:?} voted {:?}, asked {vote:?}", before.1);
    let mut effects = Vec::new();
    let input = Input::Request { ticket: Ticket(1), body: Request::Vote(vote.clone()) };
    quorum.step(now, input, &mut effects);
    quorum.check();
    // What changed on disk is durable before the answer leaves.
    let wrote = effects.iter().any(|e| written(e).is_some());
    let replied = effects.iter().any(|e| matches!(e, Effect::Reply { .. }));
    assert!(!(wrote && replied), "{case}: answered before it was durable: {effects:?}");
    settle(&mut quorum, now, &mut effects);
    let answer = effects.iter().find_map(|effect| {
        if let Effect::Reply { body: Response::Vote(answer), .. } = effect {
            Some(answer.clone())
        } else {
            None
        }
    });
    let answer = answer.unwrap_or_else(|| panic!("{case}: no answer"));
    assert_eq!((answer.view.error, answer.granted), (error, granted), "{case}");
    let after = quorum.view();
    assert_eq!(answer.view.epoch, after.epoch, "{case}");
    let moves = vote.epoch > EPOCH && error != ErrorKind::InvalidRequest;
    assert_eq!(after.epoch, if moves { vote.epoch } else { EPOCH }, "{case}");
    let gives = granted && !vote.pre_vote;
    match (gives, moves) {
        (true, true) => assert_eq!(after.voted, Some(vote.candidate), "{case}"),
        (true, false) => assert!(
            after.voted.is_some_and(|v| v.names(vote.candidate))
                && before.1.is_none_or(|b| after.voted == Some(b)),
            "{case}: {:?}",
            after.voted
        ),
        (false, true) => assert_eq!(after.voted, None, "{case}"),
        (false, false) => assert_eq!(after.voted, before.1, "{case}"),
    }
    let file = effects.iter().rev().find_map(|effect| {
        if let Effect::Write { write: Write::Election(state), .. } = effect {
            Some(state.clone())
        } else {
            None
        }
    });
    if gives && before.1.is_none() || moves {
        let file = file.unwrap_or_else(|| panic!("{case}: nothing written"));
        assert_eq!((file.epoch, file.voted), (after.epoch, after.voted), "{case}");
    }
}

// --- The high watermark

#[test]
fn the_high_watermark_of_all_fetch_offsets_of_up_to_five_voters_b123_b124() {
    // The leader's epoch starts at 6; it ends at 9.
    let offsets = [0, 4, 6, 7, 8, 9];
    for voters in 1..=5u32 {
        let others = voters - 1;
        for code in 0..6usize.pow(others) {
            let ends: Vec<u64> = (0..others).map(|at| offsets[code / 6usize.pow(at) % 6]).collect();
            for durable in [true, false] {
                check_high_watermark(voters, &ends, durable);
            }
        }
    }
}

fn check_high_watermark(voters: u32, ends: &[u64], durable: bool) {
    let now = Time(1_000_000);
    let mut quorum = open(1, voters, election(None, Some(key(1))));
    let mut effects = step(&mut quorum, now, Input::Wake);
    let asked = effects.clone();
    let others: Vec<u32> = (2..=voters).collect();
    effects.extend(grant(&mut quorum, now, &asked, &others));
    assert_eq!(quorum.view().role, RoleName::Leader);
    let epoch = EPOCH;
    let mut effects = Vec::new();
    quorum.step(now, Input::Propose { token: Token(1), epoch, records: 2 }, &mut effects);
    if durable {
        settle(&mut quorum, now, &mut effects);
    }
    for (at, end) in ends.iter().enumerate() {
        let epoch = match end {
            0 => Epoch(0),
            1..=4 => Epoch(1),
            5..=6 => Epoch(3),
            _ => EPOCH,
        };
        let fetch = Fetch {
            epoch: EPOCH,
            replica: Some(key(at as u32 + 2)),
            from: OffsetEpoch::new(Offset(*end), epoch),
            high_watermark: FetchHighWatermark::Unsaid,
            max_wait: Span::ZERO,
            max_bytes: 1,
            round: None,
            no_room: false,
            format_level: FormatLevel::ZERO,
            history: None,
            never_leads: false,
        };
        let input = Input::Request { ticket: Ticket(at as u64), body: Request::Fetch(fetch) };
        quorum.step(now, input, &mut effects);
        quorum.check();
    }
    // By definition: the largest offset above the epoch's start that a majority holds. The first
    // record was durable here before the two that were proposed.
    let own = if durable { 9 } else { 7 };
    let held = |offset: &u64| {
        ends.iter().chain([&own]).filter(|end| *end >= offset).count() * 2 > voters as usize
    };
    let expect = (7..=9).rev().find(held).map(Offset);
    assert_eq!(quorum.view().high_watermark, expect, "{ends:?}, durable {durable}");
    let commit = |e: &Effect| if let Effect::Commit { upto } = e { Some(*upto) } else { None };
    let told = effects.iter().filter_map(commit);
    if let (Some(told), Some(expect)) = (told.max(), expect) {
        // The leader commits what others hold before its own disk has it [P39].
        assert_eq!(told, expect, "{ends:?}, durable {durable}");
    }
}
