//! A session of an embedder: writes that are applied once, however often they had to be sent.
//!
//! The machine must be wrapped in [`quorate_machine::Sessioned`]. One write at a time: who wants
//! several in flight stamps requests for slots of its own, see [`Request::stamped`].

use bytes::Bytes;
use quorate_base::Span;
use quorate_machine::{Answer, Machine, Request, SessionId, SessionRefusal, Stamp};
use quorate_node::handle::{Error, Handle};
use std::fmt;

/// How often a request whose fate is unknown is sent.
const ATTEMPTS: u32 = 3;

/// Why a write within a session has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionError {
    /// No node could answer, or none could tell what became of it.
    Unanswered(Error),
    /// The session does not allow it, or is over.
    Refused(SessionRefusal),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Unanswered(error) => error.fmt(f),
            SessionError::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {}

/// An open session. It ends when nothing is written for its time to live.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    sequence: u64,
}

impl Session {
    /// Opens a session through any node; `patience` bounds each attempt.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn open<M: Machine>(
        handle: &Handle<M>,
        ttl: Span,
        patience: Span,
    ) -> Result<Session, SessionError> {
        // Of two that were opened, the one that nobody knows expires.
        match ask(handle, Request::open_session(ttl), patience).await? {
            Answer::Opened(id) => Ok(Session { id, sequence: 0 }),
            Answer::Done(_) | Answer::Refused(_) | Answer::Session(_) => {
                Err(SessionError::Refused(SessionRefusal::Unsupported))
            }
        }
    }

    /// Writes through any node of the cluster, which may be another one each time, and sends it
    /// again while nobody can tell what became of it. The machine's answer comes back.
    ///
    /// # Errors
    /// See [`SessionError`]. A write that is given up may still be applied until the next one is.
    pub async fn write<M: Machine>(
        &mut self,
        handle: &Handle<M>,
        bytes: impl Into<Bytes>,
        patience: Span,
    ) -> Result<Answer, SessionError> {
        self.sequence += 1;
        let stamp = Stamp { session: self.id, slot: 0, sequence: self.sequence };
        ask(handle, Request::stamped(stamp, bytes), patience).await
    }
}

async fn ask<M: Machine>(
    handle: &Handle<M>,
    request: Request,
    patience: Span,
) -> Result<Answer, SessionError> {
    let mut last = Error::NoLeader;
    for _ in 0..ATTEMPTS {
        let unknown = last == Error::OutcomeUnknown;
        match handle.write(request.clone(), patience).await {
            // It may have been done before the session ended.
            Ok(Answer::Session(SessionRefusal::Unknown)) if unknown => break,
            Ok(Answer::Session(why)) => return Err(SessionError::Refused(why)),
            Ok(answer @ (Answer::Done(_) | Answer::Refused(_) | Answer::Opened(_))) => {
                return Ok(answer);
            }
            Err(Error::OutcomeUnknown) => last = Error::OutcomeUnknown,
            Err(Error::NoLeader) => {}
            // That nothing was done is true of this attempt alone.
            Err(
                Error::Overloaded
                | Error::TooLarge { .. }
                | Error::OutOfRoom
                | Error::LeftBehind
                | Error::NotYet { .. }
                | Error::Stopped,
            ) if unknown => break,
            Err(
                error @ (Error::Overloaded
                | Error::TooLarge { .. }
                | Error::OutOfRoom
                | Error::LeftBehind
                | Error::NotYet { .. }
                | Error::Stopped),
            ) => {
                return Err(SessionError::Unanswered(error));
            }
        }
    }
    Err(SessionError::Unanswered(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Offset;
    use quorate_machine::Kv;
    use quorate_node::handle::Ask;

    const PATIENCE: Span = Span::ms(1);

    /// What a session says of a write to which a node gives these answers, one after the other.
    fn write(answers: Vec<Result<Answer, Error>>) -> Result<Answer, SessionError> {
        let (handle, mut queue) = Handle::<Kv>::new();
        let node = async move {
            for told in answers {
                let Some(Ask::Write { request, answer, .. }) = queue.recv().await else {
                    panic!("another attempt was expected, to be answered {told:?}");
                };
                let stamp = request.stamp.expect("it is stamped");
                assert_eq!((stamp.session, stamp.sequence), (SessionId(Offset(7)), 5));
                answer.send(told).expect("someone waits");
            }
        };
        let client = async move {
            let mut session = Session { id: SessionId(Offset(7)), sequence: 4 };
            session.write(&handle, "+1", PATIENCE).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async { tokio::join!(client, node).0 })
    }

    #[test]
    fn a_write_is_sent_again_until_its_fate_is_known() {
        let done = || Answer::Done("1".into());
        let unanswered = |error| Err(SessionError::Unanswered(error));
        let unknown = || Err(Error::OutcomeUnknown);
        assert_eq!(write(vec![Ok(done())]), Ok(done()));
        assert_eq!(write(vec![unknown(), Err(Error::NoLeader), Ok(done())]), Ok(done()));
        assert_eq!(write(vec![Err(Error::Overloaded)]), unanswered(Error::Overloaded));
        let no_leader = || Err(Error::NoLeader);
        assert_eq!(write(vec![no_leader(), no_leader(), no_leader()]), unanswered(Error::NoLeader));
    }

    #[test]
    fn what_was_unknown_once_is_not_called_undone_later() {
        let unknown = || Err(Error::OutcomeUnknown);
        let expected = Err(SessionError::Unanswered(Error::OutcomeUnknown));
        let ended = || Answer::Session(SessionRefusal::Unknown);
        assert_eq!(write(vec![unknown(), Err(Error::Overloaded)]), expected);
        assert_eq!(write(vec![unknown(), Err(Error::NoLeader), Err(Error::NoLeader)]), expected);
        assert_eq!(write(vec![unknown(), Ok(ended())]), expected);
        let refused = Err(SessionError::Refused(SessionRefusal::Unknown));
        assert_eq!(write(vec![Ok(ended())]), refused);
    }
}
