//! What a frame promises is on its sender's disk when it leaves [P43] [P44] [P45]: the epoch it
//! shows, the vote it gives, the leadership it speaks of, the log that a fetch acknowledges and
//! that a candidate stands on. Read from the frame itself and from the work that the disk has done;
//! the replica's own idea of what is durable is never asked.

use super::{Failure, Remembered};
use bytes::Bytes;
use quorate_base::Offset;
use quorate_log::Job;
use quorate_node::ConnId;
use quorate_raft::WriteId;
use quorate_wire::message::{
    BeginQuorumEpochRequest, BeginQuorumEpochResponse, EndQuorumEpochRequest,
    EndQuorumEpochResponse, FetchRequest, FetchResponse, UpdateRaftVoterRequest,
    UpdateRaftVoterResponse, VoteRequest, VoteResponse,
};
use quorate_wire::{Error, RequestFrame, ResponseFrame, Served};
use std::collections::BTreeMap;

/// One thing that a frame promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    Epoch(i64),
    Vote {
        epoch: i64,
        candidate: i64,
    },
    Leads(i64),
    /// The log up to here, in this epoch.
    Stored {
        epoch: i64,
        end: i64,
    },
}

/// A question that waits for its answer.
struct Asked {
    api: Served,
    version: i16,
    /// Of a vote that is asked for in earnest: the epoch and the candidate.
    vote: Option<(i64, i64)>,
}

/// How much of each log is on its disk for certain, and what was asked on each connection.
pub(crate) struct NoMessageBeforeDurable {
    /// The end of the log after each job, the newest that is done first, by node.
    ends: Vec<Vec<(WriteId, Offset)>>,
    /// The furthest that each log was on its disk within each epoch of this life, by node. A fetch
    /// that waits for its connection may leave after a cut that another answer asked for; to a
    /// leader of its epoch it is no more than a fetch that was long under way.
    furthest: BTreeMap<(usize, i64), Offset>,
    asked: BTreeMap<(ConnId, i32), Asked>,
}

impl NoMessageBeforeDurable {
    pub fn new(nodes: usize) -> NoMessageBeforeDurable {
        let ends = vec![vec![(WriteId(0), Offset::ZERO)]; nodes];
        NoMessageBeforeDurable { ends, furthest: BTreeMap::new(), asked: BTreeMap::new() }
    }

    /// Up to where the log is on the disk and is going to stay.
    pub fn stored(&self, node: usize) -> Offset {
        self.ends[node].first().map_or(Offset::ZERO, |(_, end)| *end)
    }

    /// A job was given to the disk; with it done the log ends at `end`. What it takes away does not
    /// count from now on.
    pub fn given(&mut self, node: usize, id: WriteId, job: &Job, end: Offset) {
        let ends = &mut self.ends[node];
        let stays = match job {
            Job::Truncate(cut) => cut.end,
            Job::Adopt(_) => Offset::ZERO,
            Job::Append(_) => Offset(u64::MAX),
            Job::Trim(_)
            | Job::Roll(_)
            | Job::Swap(_)
            | Job::Carry(_)
            | Job::Remove { .. }
            | Job::Replace { .. } => return,
        };
        for (_, before) in ends.iter_mut() {
            *before = (*before).min(stays);
        }
        ends.push((id, end));
    }

    /// The disk is done with all jobs up to this one.
    pub fn done(&mut self, node: usize, upto: WriteId, remembered: &Remembered) {
        let ends = &mut self.ends[node];
        let done = ends.partition_point(|(id, _)| *id <= upto);
        ends.drain(..done.saturating_sub(1));
        let (epoch, stored) = (remembered.epoch(node), self.stored(node));
        let furthest = self.furthest.entry((node, epoch)).or_insert(stored);
        *furthest = stored.max(*furthest);
    }

    /// Whatever the disk was at, this is what it holds.
    pub fn found(&mut self, node: usize, end: Offset, remembered: &Remembered) {
        self.ends[node] = vec![(WriteId(0), end)];
        self.furthest.retain(|(of, _), _| *of != node);
        self.furthest.insert((node, remembered.epoch(node)), end);
    }

    /// A frame leaves a node. Even connection ends are those that ask.
    pub fn leaves(
        &mut self,
        node: usize,
        from: ConnId,
        frame: &Bytes,
        remembered: &Remembered,
    ) -> Result<(), Failure> {
        let own = node as i64 + 1;
        let promises = match from.0 % 2 {
            0 => self.question(own, from, frame),
            _ => self.answer(own, from, frame),
        };
        let promises = promises.map_err(|error| {
            let what =
                format!("node {own} sends {} bytes that do not decode: {error}", frame.len());
            Failure::new("no_message_before_durable", what)
        })?;
        for promise in promises {
            let kept = match promise {
                Promise::Epoch(epoch) => epoch <= remembered.epoch(node),
                Promise::Vote { epoch, candidate } => {
                    remembered.vote(node, epoch) == Some(candidate)
                }
                Promise::Leads(epoch) => remembered.led(node, epoch),
                Promise::Stored { epoch, end } => {
                    let furthest = self.furthest.get(&(node, epoch)).copied();
                    end <= self.stored(node).max(furthest.unwrap_or_default()).0 as i64
                }
            };
            if !kept {
                let (epoch, end) = (remembered.epoch(node), self.stored(node));
                let what = format!(
                    "node {own} sends {promise:?}; on its disk: epoch {epoch}, log up to {end}"
                );
                return Err(Failure::new("no_message_before_durable", what));
            }
        }
        Ok(())
    }

    fn question(&mut self, own: i64, from: ConnId, frame: &Bytes) -> Result<Vec<Promise>, Error> {
        let request = RequestFrame::parse(frame.clone())?;
        let version = request.header.version;
        let key = (from, request.header.correlation_id);
        let (mut promises, mut vote) = (Vec::new(), None);
        let Some(api) = Served::of(request.header.api) else { return Ok(promises) };
        match api {
            Served::Vote => {
                let asks: VoteRequest = request.decode()?;
                for p in asks.topics.iter().flat_map(|t| &t.partitions) {
                    let (epoch, candidate) = (i64::from(p.replica_epoch), i64::from(p.replica_id));
                    promises.push(Promise::Epoch(epoch));
                    if !p.pre_vote {
                        vote = Some((epoch, candidate));
                        promises.push(Promise::Vote { epoch, candidate: own });
                        promises.push(Promise::Stored { epoch, end: p.last_offset });
                    }
                }
            }
            Served::BeginQuorumEpoch => {
                let begin: BeginQuorumEpochRequest = request.decode()?;
                let partitions = begin.topics.iter().flat_map(|t| &t.partitions);
                promises.extend(partitions.map(|p| Promise::Leads(i64::from(p.leader_epoch))));
            }
            Served::EndQuorumEpoch => {
                let end: EndQuorumEpochRequest = request.decode()?;
                let partitions = end.topics.iter().flat_map(|t| &t.partitions);
                promises.extend(partitions.map(|p| Promise::Leads(i64::from(p.leader_epoch))));
            }
            Served::Fetch => {
                let fetch: FetchRequest = request.decode()?;
                let counts = fetch.replica_state.as_ref().is_some_and(|who| who.replica_id >= 0);
                for p in fetch.topics.iter().flat_map(|t| &t.partitions) {
                    let epoch = i64::from(p.current_leader_epoch);
                    promises.push(Promise::Epoch(epoch));
                    if counts {
                        promises.push(Promise::Stored { epoch, end: p.fetch_offset });
                    }
                }
            }
            Served::ApiVersions
            | Served::DescribeQuorum
            | Served::FetchSnapshot
            | Served::DescribeCluster
            | Served::AddRaftVoter
            | Served::RemoveRaftVoter
            | Served::UpdateFeatures
            | Served::Forward => return Ok(promises),
            Served::UpdateRaftVoter => {
                let update: UpdateRaftVoterRequest = request.decode()?;
                promises.push(Promise::Epoch(i64::from(update.current_leader_epoch)));
            }
        }
        self.asked.insert(key, Asked { api, version, vote });
        Ok(promises)
    }

    fn answer(&mut self, own: i64, from: ConnId, frame: &Bytes) -> Result<Vec<Promise>, Error> {
        let response = ResponseFrame::parse(frame.clone())?;
        let key = (ConnId(from.0 ^ 1), response.correlation_id);
        let Some(Asked { api, version, vote }) = self.asked.remove(&key) else {
            return Ok(Vec::new());
        };
        let mut promises = Vec::new();
        let mut shows = |epoch: i32, leader: i32| {
            promises.push(Promise::Epoch(i64::from(epoch)));
            if i64::from(leader) == own {
                promises.push(Promise::Leads(i64::from(epoch)));
            }
        };
        let mut given = false;
        match api {
            Served::Vote => {
                let vote: VoteResponse = response.decode(version)?;
                for p in vote.topics.iter().flat_map(|t| &t.partitions) {
                    shows(p.leader_epoch, p.leader_id);
                    given |= p.vote_granted;
                }
            }
            Served::BeginQuorumEpoch => {
                let begin: BeginQuorumEpochResponse = response.decode(version)?;
                let partitions = begin.topics.iter().flat_map(|t| &t.partitions);
                partitions.for_each(|p| shows(p.leader_epoch, p.leader_id));
            }
            Served::EndQuorumEpoch => {
                let end: EndQuorumEpochResponse = response.decode(version)?;
                let partitions = end.topics.iter().flat_map(|t| &t.partitions);
                partitions.for_each(|p| shows(p.leader_epoch, p.leader_id));
            }
            Served::Fetch => {
                let fetch: FetchResponse = response.decode(version)?;
                let partitions = fetch.responses.iter().flat_map(|t| &t.partitions);
                let leaders = partitions.filter_map(|p| p.current_leader.as_ref());
                leaders.for_each(|leader| shows(leader.leader_epoch, leader.leader_id));
            }
            Served::ApiVersions
            | Served::DescribeQuorum
            | Served::FetchSnapshot
            | Served::DescribeCluster
            | Served::AddRaftVoter
            | Served::RemoveRaftVoter
            | Served::UpdateFeatures
            | Served::Forward => {}
            Served::UpdateRaftVoter => {
                let update: UpdateRaftVoterResponse = response.decode(version)?;
                let leader = update.current_leader.iter();
                leader.for_each(|leader| shows(leader.leader_epoch, leader.leader_id));
            }
        }
        if let (true, Some((epoch, candidate))) = (given, vote) {
            promises.push(Promise::Vote { epoch, candidate });
        }
        Ok(promises)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
mod tests {
    use super::*;
    use quorate_base::{Epoch, ReplicaId, ReplicaKey};
    use quorate_log::{Append, Election, IndexBytes};
    use quorate_wire::message::{
        FetchRequestPartition, FetchTopic, ReplicaState, Topic, VoteRequestPartition,
        VoteResponsePartition,
    };
    use quorate_wire::{ApiKey, RequestHeader, encode_request, encode_response};

    const ASKS: ConnId = ConnId(4);
    const ANSWERS: ConnId = ConnId(5);

    fn fetch(epoch: i32, offset: i64) -> Bytes {
        let partition = FetchRequestPartition {
            current_leader_epoch: epoch,
            fetch_offset: offset,
            ..FetchRequestPartition::default()
        };
        let topic = FetchTopic { partitions: vec![partition], ..FetchTopic::default() };
        let body = FetchRequest {
            replica_state: Some(ReplicaState { replica_id: 1, ..ReplicaState::default() }),
            topics: vec![topic],
            ..FetchRequest::default()
        };
        let header = RequestHeader::new(ApiKey::Fetch, 17, 1, None);
        encode_request(header, body).unwrap().into_payload()
    }

    fn vote(replica_epoch: i32, replica_id: i32, last_offset: i64) -> Bytes {
        let partition = VoteRequestPartition {
            replica_epoch,
            replica_id,
            last_offset,
            ..VoteRequestPartition::default()
        };
        let topic = Topic { partitions: vec![partition], ..Topic::default() };
        let body = VoteRequest { topics: vec![topic], ..VoteRequest::default() };
        let header = RequestHeader::new(ApiKey::Vote, 2, 1, None);
        encode_request(header, body).unwrap().into_payload()
    }

    fn granted(leader_epoch: i32) -> Bytes {
        let partition = VoteResponsePartition {
            leader_epoch,
            vote_granted: true,
            ..VoteResponsePartition::default()
        };
        let topic = Topic { partitions: vec![partition], ..Topic::default() };
        let body = VoteResponse { topics: vec![topic], ..VoteResponse::default() };
        encode_response(body, 2, 1).unwrap().into_payload()
    }

    /// "epoch 3, voted for this one" on the disk of a node.
    fn voted(remembered: &mut Remembered, node: usize, candidate: u32) {
        let voted = Some(ReplicaKey::new(ReplicaId(candidate), None));
        let state = Election { epoch: Epoch(3), leader: None, voted, voters: Vec::new() };
        remembered.see(node, &state.encode()).unwrap();
    }

    fn append(end: u64) -> Job {
        let (index, closing) = (IndexBytes::default(), IndexBytes::default());
        let (segment, rolls, bytes, epochs) = (Offset::ZERO, false, Bytes::new(), None);
        Job::Append(Append { segment, rolls, bytes, end: Offset(end), epochs, index, closing })
    }

    #[test]
    fn a_fetch_must_be_of_an_epoch_and_a_log_on_the_disk() {
        let (mut promises, mut remembered) =
            (NoMessageBeforeDurable::new(1), Remembered::default());
        let tells = |promises: &mut NoMessageBeforeDurable, remembered: &Remembered| {
            promises.leaves(0, ASKS, &fetch(3, 5), remembered).map_err(|failure| failure.what)
        };
        assert!(tells(&mut promises, &remembered).unwrap_err().contains("Epoch(3)"));
        voted(&mut remembered, 0, 2);
        promises.given(0, WriteId(1), &append(5), Offset(5));
        assert!(tells(&mut promises, &remembered).unwrap_err().contains("end: 5"));
        promises.done(0, WriteId(1), &remembered);
        assert_eq!(tells(&mut promises, &remembered), Ok(()));
        assert_eq!(promises.stored(0), Offset(5));
    }

    #[test]
    fn a_candidate_has_its_vote_and_its_log_on_the_disk_and_so_has_who_votes() {
        let (mut promises, mut remembered) =
            (NoMessageBeforeDurable::new(2), Remembered::default());
        voted(&mut remembered, 0, 2);
        let asks = promises.leaves(0, ASKS, &vote(3, 1, 0), &remembered);
        assert!(asks.unwrap_err().what.contains("candidate: 1"), "it voted for another");
        let mut remembered = Remembered::default();
        voted(&mut remembered, 0, 1);
        let asks = promises.leaves(0, ASKS, &vote(3, 1, 7), &remembered);
        assert!(asks.unwrap_err().what.contains("end: 7"), "its log is not there");
        promises.leaves(0, ASKS, &vote(3, 1, 0), &remembered).unwrap();

        voted(&mut remembered, 1, 2);
        let gives = promises.leaves(1, ANSWERS, &granted(3), &remembered);
        assert!(gives.unwrap_err().what.contains("candidate: 1"), "it named itself");
        promises.leaves(0, ASKS, &vote(3, 1, 0), &remembered).unwrap();
        let mut remembered = Remembered::default();
        voted(&mut remembered, 1, 1);
        promises.leaves(1, ANSWERS, &granted(3), &remembered).unwrap();
    }
}
