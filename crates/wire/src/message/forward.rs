//! Forward, ours, between Quorate nodes only: operations of clients that reached a node which does
//! not lead go to the leader, once, in the order in which they came.
//!
//! The numbers of an operation's session are the state machine's; here they are carried. A receiver
//! that does not lead in the epoch the sender names refuses the request as a whole.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use bytes::Bytes;

/// Operations for the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardRequest {
    /// How much of the clients' time is left, in milliseconds: clocks are not compared.
    pub deadline_ms: i32,
    /// The epoch in which the sender believes the receiver to lead.
    pub leader_epoch: i32,
    /// What to do, in this order.
    pub operations: Vec<Operation>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for ForwardRequest {
    fn default() -> ForwardRequest {
        let (operations, tags) = (Vec::new(), Tags::new());
        ForwardRequest { deadline_ms: 0, leader_epoch: -1, operations, tags }
    }
}

impl Walk for ForwardRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("DeadlineMs", &mut self.deadline_ms)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.array("Operations", &mut self.operations, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OperationKind {
    /// Appends `body` and answers with what the state machine made of it.
    #[default]
    Write,
    /// Answers with an offset: state applied up to there is fresh enough to answer the reader from.
    ReadOffset,
    /// Begins a session, which lasts `ttl_ms` from its last renewal.
    OpenSession,
    /// Keeps a session alive.
    RenewSession,
    /// Ends a session.
    CloseSession,
}

impl OperationKind {
    const ALL: [OperationKind; 5] = [
        OperationKind::Write,
        OperationKind::ReadOffset,
        OperationKind::OpenSession,
        OperationKind::RenewSession,
        OperationKind::CloseSession,
    ];

    /// On the wire: the position in `ALL`.
    fn walk<C: Coder>(&mut self, c: &mut C) -> Result<(), Error> {
        let mut number = *self as i8;
        c.i8("Kind", &mut number)?;
        let kind = usize::try_from(number).ok().and_then(|at| OperationKind::ALL.get(at));
        *self = *kind.ok_or_else(|| c.bad_value("Kind", number))?;
        Ok(())
    }
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// In which session; -1 none.
    pub session: i64,
    /// Which of the session's slots: at most one operation of a slot is under way.
    pub slot: i16,
    /// Counts the operations of the slot: a repeated number is a repeated operation.
    pub sequence: i64,
    /// How long a session to be opened lasts, in milliseconds.
    pub ttl_ms: i32,
    /// What the state machine is told.
    pub body: Bytes,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for Operation {
    fn default() -> Operation {
        Operation {
            kind: OperationKind::Write,
            session: -1,
            slot: 0,
            sequence: 0,
            ttl_ms: 0,
            body: Bytes::new(),
            tags: Tags::new(),
        }
    }
}

impl Walk for Operation {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        self.kind.walk(c)?;
        c.i64("Session", &mut self.session)?;
        c.i16("Slot", &mut self.slot)?;
        c.i64("Sequence", &mut self.sequence)?;
        c.i32("TtlMs", &mut self.ttl_ms)?;
        c.bytes("Body", &mut self.body)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of the operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardResponse {
    /// Why none was considered; the leader fields then say where to ask.
    pub error_code: ErrorCode,
    /// The leader that the receiver knows; -1 none.
    pub leader_id: i32,
    /// Its epoch.
    pub leader_epoch: i32,
    /// One for each operation, in their order; none after an error.
    pub results: Vec<ForwardResult>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for ForwardResponse {
    fn default() -> ForwardResponse {
        ForwardResponse {
            error_code: ErrorCode::None,
            leader_id: -1,
            leader_epoch: -1,
            results: Vec::new(),
            tags: Tags::new(),
        }
    }
}

impl Walk for ForwardResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.array("Results", &mut self.results, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardResult {
    /// Whether it failed.
    pub error_code: ErrorCode,
    /// Where it stands in the log, or the offset a reader must have applied; -1 none.
    pub offset: i64,
    /// What is wrong, for people.
    pub message: Option<String>,
    /// What the state machine answered.
    pub body: Bytes,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for ForwardResult {
    fn default() -> ForwardResult {
        ForwardResult {
            error_code: ErrorCode::None,
            offset: -1,
            message: None,
            body: Bytes::new(),
            tags: Tags::new(),
        }
    }
}

impl Walk for ForwardResult {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i64("Offset", &mut self.offset)?;
        c.nullable_string("Message", &mut self.message)?;
        c.bytes("Body", &mut self.body)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(Forward: ForwardRequest, ForwardResponse);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;

    #[test]
    fn kinds_are_numbered_in_order_and_others_refused() {
        for (number, kind) in OperationKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        let found = OperationKind::Write
            .walk(&mut Decoder::new(Bytes::from_static(&[5]), true))
            .unwrap_err();
        assert_eq!(found, Error::BadValue { field: "Kind", at: 1, found: 5 });
    }
}
