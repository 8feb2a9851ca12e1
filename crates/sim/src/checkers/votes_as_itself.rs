//! A vote is given by the replica that it was asked of, as the request names it by id and
//! directory: one that came back with an empty disk never votes as the one that it was [T33].
//! Requests that name no directory are those of static voters, which know each other by id alone.

use super::Failure;
use bytes::Bytes;
use quorate_base::{ReplicaKey, Uuid};
use quorate_node::ConnId;
use quorate_wire::message::{VoteRequest, VoteResponse};
use quorate_wire::{Error, RequestFrame, ResponseFrame, Served};
use std::collections::BTreeMap;

/// The votes that are asked for, by the end that asked and the number it gave.
#[derive(Default)]
pub(crate) struct VotesAsItself {
    asked: BTreeMap<(ConnId, i32), (i16, Uuid)>,
}

impl VotesAsItself {
    /// A frame leaves a node. Even connection ends are those that ask.
    pub fn leaves(&mut self, own: ReplicaKey, from: ConnId, frame: &Bytes) -> Result<(), Failure> {
        let given = match from.0 % 2 {
            0 => self.question(from, frame).map(|()| None),
            _ => self.answer(from, frame),
        };
        // What does not decode, another checker objects to.
        match given.ok().flatten() {
            Some(asked) if Some(asked) != own.directory => {
                let what = format!("{own} gives the vote of the directory {asked}");
                Err(Failure::new("votes_as_itself", what))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn question(&mut self, from: ConnId, frame: &Bytes) -> Result<(), Error> {
        let request = RequestFrame::parse(frame.clone())?;
        let (header, key) = (&request.header, (from, request.header.correlation_id));
        if Served::of(header.api) != Some(Served::Vote) {
            return Ok(());
        }
        let version = header.version;
        let vote: VoteRequest = request.decode()?;
        let asked = vote.topics.iter().flat_map(|topic| &topic.partitions).next();
        let asked = asked.map(|asked| asked.voter_directory_id);
        if let Some(asked) = asked.filter(|asked| *asked != Uuid::ZERO) {
            self.asked.insert(key, (version, asked));
        }
        Ok(())
    }

    fn answer(&mut self, from: ConnId, frame: &Bytes) -> Result<Option<Uuid>, Error> {
        let response = ResponseFrame::parse(frame.clone())?;
        let key = (ConnId(from.0 ^ 1), response.correlation_id);
        let Some((version, asked)) = self.asked.remove(&key) else { return Ok(None) };
        let vote: VoteResponse = response.decode(version)?;
        let mut answers = vote.topics.iter().flat_map(|topic| &topic.partitions);
        Ok(answers.any(|answer| answer.vote_granted).then_some(asked))
    }
}
