//! What became of our own questions: each ends as an answer or as a loss, and goes to whoever
//! asked.

use super::Replica;
use crate::links::{Class, News, Peer, Question};
use crate::out::LinkId;
use crate::translate::{self, Payload};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset, ReplicaId};
use quorate_machine::Machine;
use quorate_raft::{Call, ErrorKind, FetchAnswer, Fetched, Input, Loss, Response};
use quorate_wire::ResponseFrame;
use tracing::{error, warn};

impl<M: Machine> Replica<M> {
    pub(super) fn digest_news(&mut self) {
        while !self.news.is_empty() {
            for news in std::mem::take(&mut self.news) {
                match news {
                    News::Lost { question, how } => self.lost(question, how),
                    News::Unspoken { question } => self.unspoken(question),
                    News::Answered { peer, link, question, version, frame } => {
                        self.answered(peer, link, question, version, frame);
                    }
                }
            }
        }
    }

    pub(super) fn lost(&mut self, question: Question, how: Loss) {
        match question {
            Question::Hello => {}
            Question::Raft(call, _) => self.inputs.push_back(Input::Lost { call, how }),
            Question::Forward(id, _) => self.flight_lost(id, how),
        }
    }

    /// The peer cannot be asked this at all.
    fn unspoken(&mut self, question: Question) {
        let Question::Forward(id, _) = question else { return self.lost(question, Loss::Dropped) };
        if self.once.say(self.now, "no forwarding") {
            let leader = self.leader.map(|leader| leader.to_string());
            warn!(
                leader,
                "the leader and this node have no version of forwarding in common, as while nodes are \
                 upgraded one by one: clients of this node are refused until a node of its own version \
                 leads; upgrade the nodes that are older, or let clients ask the leader"
            );
        }
        // It was not sent, as if the connection had been refused.
        self.flight_lost(id, Loss::Refused);
    }

    pub(super) fn answered(
        &mut self,
        peer: Peer,
        link: LinkId,
        question: Question,
        version: i16,
        frame: Bytes,
    ) {
        let response = match ResponseFrame::parse(frame) {
            Ok(response) => response,
            Err(_) => unreachable!("the link read the correlation id from the same bytes"),
        };
        match question {
            Question::Hello => match translate::hello(response, version) {
                Ok(speaks) => {
                    if let Peer::Replica(id) = peer {
                        let speaks = self.settings.names.features(&speaks);
                        self.inputs.push_back(Input::Peer { id, speaks });
                    }
                    let names = &self.settings.names;
                    self.links.greeted(
                        self.now,
                        link,
                        speaks,
                        names,
                        &mut self.news,
                        &mut self.out,
                    );
                }
                Err(why) => self.links.reject(link, &why, &mut self.news, &mut self.out),
            },
            Question::Raft(call, asked) => {
                match translate::answer(response, version, &asked, &self.settings.names) {
                    Ok((body, payload)) => {
                        match payload {
                            Payload::Nothing => {}
                            Payload::Records(records) => {
                                self.fetched.insert(call, records);
                            }
                            Payload::Piece(bytes) => self.piece = Some((call, bytes)),
                        }
                        if self.is_from_another_history(&body) || self.ends_inside_a_batch(&body) {
                            self.lost(Question::Raft(call, asked), Loss::Dropped);
                            return;
                        }
                        self.take_answer(call, body);
                    }
                    Err(why) => {
                        if self.once.say(self.now, &format!("{peer:?} {why}")) {
                            warn!(?peer, why, "an answer was of no use and is dropped");
                        }
                        self.links.reject(link, &why, &mut self.news, &mut self.out);
                        self.inputs.push_back(Input::Lost { call, how: Loss::Dropped });
                    }
                }
            }
            Question::Forward(id, asked) => {
                match translate::forward_response(response, version, &asked) {
                    Ok(answer) => self.flight_answered(id, answer),
                    Err(why) => {
                        self.links.reject(link, &why, &mut self.news, &mut self.out);
                        self.flight_lost(id, Loss::Dropped);
                    }
                }
            }
        }
    }

    /// Gives the core what a peer answered.
    fn take_answer(&mut self, call: Call, body: Response) {
        let (told, served, decrees) = (committed(&body), is_piece(&body), decrees(&body));
        self.told = cleaned(&body);
        if let Some(body) = self.as_there_is_room(call, body) {
            self.step(Input::Response { call, body });
        }
        if decrees {
            self.note_own_seat();
        }
        self.fetched.remove(&call);
        self.piece = None;
        if self.leader.is_some() {
            let heard = told.is_some() || served;
            self.heard_at = if heard { self.now } else { self.heard_at };
            told.into_iter().for_each(|told| self.applied.heard(told));
        }
    }

    /// Batches are copied whole, so no leader can rightly say that an epoch ends inside one of
    /// ours.
    fn ends_inside_a_batch(&mut self, body: &Response) -> bool {
        let Response::Fetch(FetchAnswer { fetched: Fetched::Diverging(told), .. }) = body else {
            return false;
        };
        let view = self.quorum.view();
        // Only an end of an epoch that we have too is where our log would be cut (rule P28).
        let ours = view.epochs.iter().position(|(epoch, _)| *epoch == told.epoch);
        let end_of = |at: usize| view.epochs.get(at + 1).map_or(view.end, |(_, start)| *start);
        let cut_there = match ours {
            Some(at) => told.offset < end_of(at),
            None => told.epoch == Epoch::ZERO,
        };
        let inside = cut_there && self.log.cuts_a_batch(told.offset);
        if inside && self.once.say(self.now, "an epoch ends inside a batch") {
            error!(
                %told,
                "the leader says that our logs part inside a batch of ours, which cannot be: its log or \
                 this one is damaged; the answer is dropped and the log is left as it is"
            );
        }
        inside
    }

    /// Sends a forwarded request to the leader.
    pub(crate) fn ask_leader(
        &mut self,
        leader: ReplicaId,
        id: u64,
        request: quorate_wire::message::ForwardRequest,
    ) {
        let view = self.quorum.view();
        let at = self.choose(view.leader_endpoints);
        let question = Question::Forward(id, request);
        match at {
            Some(at) => {
                let names = &self.settings.names;
                let peer = Peer::Replica(leader);
                self.links.ask(
                    self.now,
                    peer,
                    Class::Forward,
                    &at,
                    question,
                    names,
                    &mut self.news,
                    &mut self.out,
                );
            }
            None => self.news.push(News::Lost { question, how: Loss::Refused }),
        }
    }
}

/// Whether a leader sent a piece of a snapshot.
fn is_piece(body: &Response) -> bool {
    matches!(body, Response::FetchSnapshot(answer) if answer.view.error == ErrorKind::None)
}

/// What the leader's log lacks that sent records.
fn cleaned(body: &Response) -> Cleaned {
    let Response::Fetch(answer) = body else { return Cleaned::NEVER };
    answer.cleaned.unwrap_or(Cleaned::NEVER)
}

/// Whether records say who counts.
fn decrees(body: &Response) -> bool {
    let Response::Fetch(FetchAnswer { fetched: Fetched::Batches(batches), .. }) = body else {
        return false;
    };
    batches.iter().any(|batch| batch.decree.is_some())
}

/// The high watermark that a leader told in a fetch answer.
fn committed(body: &Response) -> Option<Offset> {
    let Response::Fetch(answer) = body else { return None };
    answer.high_watermark.filter(|_| answer.view.error == ErrorKind::None)
}
