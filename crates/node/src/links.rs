//! Connections that we make to peers: one for fetches, one for votes and announcements, one for
//! forwarded requests, so that a parked fetch never stands in the way of a vote.
//!
//! A link connects when something is to be sent, asks the peer once what it speaks, then sends in
//! order and matches answers by correlation id. It never retries: every question ends as an answer
//! or as a [`Loss`], and whoever asked decides.

use crate::config::{Generation, HostPort};
use crate::out::{ConnId, ConnectError, LinkId, Out};
use bytes::Bytes;
use quorate_base::{ReplicaId, Span, Time};
use quorate_machine::Machine;
use quorate_raft::{Call, Loss};
use quorate_wire::Served;
use quorate_wire::message::ForwardRequest;
use std::collections::{BTreeMap, VecDeque};

/// Which peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Peer {
    Replica(ReplicaId),
    Bootstrap(usize),
}

/// Which of the connections to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    Fetch,
    Control,
    Forward,
}

/// Something to ask a peer; encoded only once it is known which versions it speaks.
#[derive(Debug)]
pub(crate) enum Question {
    Hello,
    Raft(Call, quorate_raft::Request),
    Forward(u64, ForwardRequest),
}

/// A question that has been put into bytes.
pub(crate) struct Encoded {
    pub frame: quorate_wire::Frame,
    /// The version it was put in.
    pub version: i16,
}

/// Puts questions into bytes, for a peer that speaks this.
pub(crate) trait Encode {
    /// `speaks` is `None` only for [`Question::Hello`]. An error: the peer does not speak of such
    /// things.
    fn encode(
        &self,
        question: &Question,
        speaks: Option<&Speaks>,
        correlation: i32,
    ) -> Result<Encoded, ()>;
}

/// What a peer announced.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Speaks {
    /// Key, oldest and newest version of each API.
    pub apis: Vec<(i16, i16, i16)>,
    /// The versions of `kraft.version`, least and greatest, if it tells them.
    pub kraft_versions: Option<(u16, u16)>,
}

impl Speaks {
    /// The newest version in which the peer and we, of this generation, both speak of this API.
    pub fn common(&self, served: Served, ours: Generation) -> Option<i16> {
        let api = served.api();
        let (_, least, most) = self.apis.iter().find(|(key, ..)| *key == api.key())?;
        let newest = ours.newest(served)?.min(*most);
        (newest >= api.oldest().max(*least)).then_some(newest)
    }
}

/// A question without an answer so far.
struct Asked {
    question: Question,
    correlation: i32,
    version: i16,
    due: Time,
}

enum State {
    Idle,
    /// To this place.
    Connecting(HostPort),
    /// Connected, but what the peer speaks is not known yet.
    Greeting(ConnId),
    /// Since when.
    Ready(ConnId, Speaks, Time),
}

struct Link {
    peer: Peer,
    class: Class,
    at: HostPort,
    state: State,
    /// Sent, oldest first.
    asked: VecDeque<Asked>,
    /// To be sent once ready.
    waiting: VecDeque<(Question, Time)>,
    /// Lost with the connection; how is known when connecting again succeeds or is refused.
    orphans: Vec<Question>,
    correlation: i32,
}

impl Link {
    fn dial<M: Machine>(&mut self, id: LinkId, out: &mut Vec<Out<M>>) {
        self.state = State::Connecting(self.at.clone());
        out.push(Out::Connect { link: id, to: self.at.clone() });
    }
}

/// Something became of a question or of a peer.
#[derive(Debug)]
pub(crate) enum News {
    Answered {
        peer: Peer,
        link: LinkId,
        question: Question,
        version: i16,
        frame: Bytes,
    },
    Lost {
        question: Question,
        how: Loss,
    },
    /// Not sent: the two sides have no version in common to ask this in.
    Unspoken {
        question: Question,
    },
}

pub(crate) struct Links {
    links: Vec<Link>,
    index: BTreeMap<(Peer, Class), LinkId>,
    by_conn: BTreeMap<ConnId, LinkId>,
    request_timeout: Span,
    #[cfg(mutants)]
    mutant: Option<crate::Mutant>,
}

impl Links {
    pub fn new(request_timeout: Span, #[cfg(mutants)] mutant: Option<crate::Mutant>) -> Links {
        Links {
            links: Vec::new(),
            index: BTreeMap::new(),
            by_conn: BTreeMap::new(),
            request_timeout,
            #[cfg(mutants)]
            mutant,
        }
    }

    fn keeps_dead(&self) -> bool {
        #[cfg(mutants)]
        return self.mutant == Some(crate::Mutant::KeepDeadConnections);
        #[cfg(not(mutants))]
        false
    }

    /// Asks a peer; connects first where that is needed.
    #[expect(clippy::too_many_arguments, reason = "each is one fact about one question")]
    pub fn ask<M: Machine>(
        &mut self,
        now: Time,
        peer: Peer,
        class: Class,
        at: &HostPort,
        question: Question,
        encode: &impl Encode,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        let id = self.link(peer, class, at);
        if self.links[id.0 as usize].at != *at {
            self.disconnect(id, Loss::Closed, "the peer listens elsewhere now", news, out);
            self.links[id.0 as usize].at = at.clone();
        }
        let due = now + self.request_timeout;
        let keeps_dead = self.keeps_dead();
        let link = &mut self.links[id.0 as usize];
        match &link.state {
            State::Ready(conn, speaks, since) => {
                let (conn, since, correlation) = (*conn, *since, link.correlation);
                match encode.encode(&question, Some(speaks), correlation) {
                    Ok(Encoded { frame, version }) => {
                        link.correlation += 1;
                        link.asked.push_back(Asked { question, correlation, version, due });
                        out.push(Out::Frame { conn, frame });
                    }
                    // What is never sent shows no connection to be dead, and the peer may have been
                    // upgraded behind one [P63].
                    Err(())
                        if link.asked.is_empty()
                            && since + self.request_timeout <= now
                            && !keeps_dead =>
                    {
                        let why = "asking anew what the peer speaks";
                        self.disconnect(id, Loss::Closed, why, news, out);
                        let link = &mut self.links[id.0 as usize];
                        link.waiting.push_back((question, due));
                        link.dial(id, out);
                    }
                    Err(()) => news.push(News::Unspoken { question }),
                }
            }
            State::Connecting(_) | State::Greeting(_) => link.waiting.push_back((question, due)),
            State::Idle => {
                link.waiting.push_back((question, due));
                link.dial(id, out);
            }
        }
    }

    fn link(&mut self, peer: Peer, class: Class, at: &HostPort) -> LinkId {
        *self.index.entry((peer, class)).or_insert_with(|| {
            self.links.push(Link {
                peer,
                class,
                at: at.clone(),
                state: State::Idle,
                asked: VecDeque::new(),
                waiting: VecDeque::new(),
                orphans: Vec::new(),
                correlation: 0,
            });
            LinkId(self.links.len() as u32 - 1)
        })
    }

    /// A connection that was asked for was made, or not.
    pub fn connected<M: Machine>(
        &mut self,
        now: Time,
        id: LinkId,
        result: Result<ConnId, ConnectError>,
        encode: &impl Encode,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        let due = now + self.request_timeout;
        let link = &mut self.links[id.0 as usize];
        let orphans = std::mem::take(&mut link.orphans);
        match result {
            Ok(conn) => {
                news.extend(
                    orphans.into_iter().map(|question| News::Lost { question, how: Loss::Closed }),
                );
                if !matches!(&link.state, State::Connecting(to) if *to == link.at) {
                    out.push(Out::Close { conn, why: "the peer listens elsewhere now".into() });
                    link.dial(id, out);
                    return;
                }
                let correlation = link.correlation;
                link.correlation += 1;
                if let Ok(Encoded { frame, version }) =
                    encode.encode(&Question::Hello, None, correlation)
                {
                    link.asked.push_back(Asked {
                        question: Question::Hello,
                        correlation,
                        version,
                        due,
                    });
                    out.push(Out::Frame { conn, frame });
                }
                link.state = State::Greeting(conn);
                self.by_conn.insert(conn, id);
            }
            Err(error) => {
                let how = match error {
                    ConnectError::Refused => Loss::Refused,
                    ConnectError::Unreachable => Loss::Closed,
                };
                link.state = State::Idle;
                let waiting =
                    std::mem::take(&mut link.waiting).into_iter().map(|(question, _)| question);
                news.extend(
                    orphans.into_iter().chain(waiting).map(|question| News::Lost { question, how }),
                );
            }
        }
    }

    /// Whether this connection is one of ours, made to a peer.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.by_conn.contains_key(&conn)
    }

    /// An answer arrived. `Err` says why the connection had to be closed instead.
    pub fn answered<M: Machine>(
        &mut self,
        conn: ConnId,
        correlation: i32,
        frame: Bytes,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        let Some(&id) = self.by_conn.get(&conn) else { return };
        let link = &mut self.links[id.0 as usize];
        match link.asked.pop_front_if(|asked| asked.correlation == correlation) {
            Some(Asked { question, version, .. }) => {
                news.push(News::Answered { peer: link.peer, link: id, question, version, frame });
            }
            None => {
                let why = format!("answer to correlation id {correlation}, which was not asked");
                self.disconnect(id, Loss::Closed, &why, news, out);
            }
        }
    }

    /// The peer told what it speaks: send what waited.
    pub fn greeted<M: Machine>(
        &mut self,
        now: Time,
        id: LinkId,
        speaks: Speaks,
        encode: &impl Encode,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        let link = &mut self.links[id.0 as usize];
        let State::Greeting(conn) = link.state else { return };
        link.state = State::Ready(conn, speaks, now);
        let (peer, class, at) = (link.peer, link.class, link.at.clone());
        for (question, _) in std::mem::take(&mut link.waiting) {
            self.ask(now, peer, class, &at, question, encode, news, out);
        }
    }

    /// The connection was closed or reset by the other side.
    pub fn closed<M: Machine>(
        &mut self,
        conn: ConnId,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        let Some(id) = self.by_conn.remove(&conn) else { return };
        let link = &mut self.links[id.0 as usize];
        link.state = State::Idle;
        let asked = std::mem::take(&mut link.asked).into_iter().map(|asked| asked.question);
        let (probe, rest): (Vec<Question>, Vec<Question>) = asked.partition(|question| {
            link.class == Class::Fetch && matches!(question, Question::Raft(..))
        });
        news.extend(rest.into_iter().map(|question| News::Lost { question, how: Loss::Closed }));
        link.orphans.extend(probe);
        // Connecting again tells a dead process (refused) from a broken connection [P50].
        if !link.orphans.is_empty() || !link.waiting.is_empty() {
            link.dial(id, out);
        }
    }

    /// Closes a connection whose bytes made no sense.
    pub fn broken<M: Machine>(
        &mut self,
        conn: ConnId,
        why: &str,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        if let Some(&id) = self.by_conn.get(&conn) {
            self.disconnect(id, Loss::Closed, why, news, out);
        }
    }

    /// Closes the connection of an answer that made no sense.
    pub fn reject<M: Machine>(
        &mut self,
        id: LinkId,
        why: &str,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        self.disconnect(id, Loss::Closed, why, news, out);
    }

    fn disconnect<M: Machine>(
        &mut self,
        id: LinkId,
        how: Loss,
        why: &str,
        news: &mut Vec<News>,
        out: &mut Vec<Out<M>>,
    ) {
        let link = &mut self.links[id.0 as usize];
        let conn = match &link.state {
            State::Greeting(conn) | State::Ready(conn, ..) => *conn,
            State::Idle | State::Connecting(_) => return,
        };
        self.by_conn.remove(&conn);
        link.state = State::Idle;
        out.push(Out::Close { conn, why: why.into() });
        let asked = std::mem::take(&mut link.asked).into_iter().map(|asked| asked.question);
        let waiting = std::mem::take(&mut link.waiting).into_iter().map(|(question, _)| question);
        news.extend(asked.chain(waiting).map(|question| News::Lost { question, how }));
    }

    /// When the oldest question runs out of time.
    pub fn deadline(&self) -> Time {
        let dues = self.links.iter().flat_map(|link| {
            link.asked
                .front()
                .map(|asked| asked.due)
                .into_iter()
                .chain(link.waiting.front().map(|w| w.1))
        });
        dues.min().unwrap_or(Time::NEVER)
    }

    /// Gives up on questions that ran out of time, and on the connections they were sent on.
    pub fn expire<M: Machine>(&mut self, now: Time, news: &mut Vec<News>, out: &mut Vec<Out<M>>) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.asked.front().is_some_and(|asked| asked.due <= now) {
                // Answers come in order: behind one that does not come there are none to wait for.
                self.disconnect(
                    LinkId(index as u32),
                    Loss::TimedOut,
                    "no answer in time",
                    news,
                    out,
                );
                continue;
            }
            while let Some((question, _)) = link.waiting.pop_front_if(|(_, due)| *due <= now) {
                news.push(News::Lost { question, how: Loss::TimedOut });
            }
        }
    }
}
