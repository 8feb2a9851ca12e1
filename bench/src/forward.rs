//! Quorate's private Forward API over Kafka's framing: one operation a request, pipelined.
//!
//! Spoken to the leader directly, as another node would, with the leader's epoch left open. Answers
//! come in the order of the requests.

use crate::driver::{Connection, Driver, Request, failed};
use bytes::BytesMut;
use quorate_machine::kv::{Condition, Write};
use quorate_wire::message::{ForwardRequest, ForwardResponse, Operation, OperationKind};
use quorate_wire::{
    ApiKey, ErrorCode, MAX_FRAME_BYTES, RequestHeader, ResponseFrame, encode_request, split,
};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE_MS: i32 = 10_000;
const READ_BYTES: usize = 64 << 10;

/// Connects to a leader's controller listener.
pub struct Forward {
    /// Where it is.
    pub leader: SocketAddr,
}

/// One connection to it.
pub struct ForwardConnection {
    stream: TcpStream,
    queued: Vec<u8>,
    received: BytesMut,
}

impl Driver for Forward {
    type Connection = ForwardConnection;

    async fn connect(&self) -> io::Result<ForwardConnection> {
        let stream = TcpStream::connect(self.leader).await?;
        stream.set_nodelay(true)?;
        Ok(ForwardConnection { stream, queued: Vec::new(), received: BytesMut::new() })
    }
}

impl Connection for ForwardConnection {
    fn send(&mut self, number: u32, request: Request<'_>) {
        let operation = match request {
            Request::Put { key, value } => {
                let put = Write::Put { key: key.as_bytes(), value, condition: Condition::Always };
                let body = put.encode().expect("key and value are within limits");
                Operation { body, ..Operation::default() }
            }
            // Proof of leadership and an offset: the part of a read that the leader does.
            Request::Get { .. } => {
                Operation { kind: OperationKind::ReadOffset, ..Operation::default() }
            }
        };
        let version = ApiKey::Forward.newest();
        let header = RequestHeader::new(ApiKey::Forward, version, number as i32, None);
        let request = ForwardRequest {
            deadline_ms: PATIENCE_MS,
            operations: vec![operation],
            ..ForwardRequest::default()
        };
        let frame = encode_request(header, request).expect("the message is well formed");
        frame.parts.iter().for_each(|part| self.queued.extend_from_slice(part));
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.queued).await?;
        self.queued.clear();
        Ok(())
    }

    async fn receive(&mut self, done: &mut Vec<u32>) -> io::Result<()> {
        self.received.reserve(READ_BYTES);
        if self.stream.read_buf(&mut self.received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some(frame) =
            split(&mut self.received, MAX_FRAME_BYTES).map_err(io::Error::other)?
        {
            let frame = ResponseFrame::parse(frame).map_err(io::Error::other)?;
            let number = frame.correlation_id as u32;
            let version = ApiKey::Forward.newest();
            let response: ForwardResponse = frame.decode(version).map_err(io::Error::other)?;
            let [result] = &response.results[..] else {
                return Err(failed(format!("the node refused: {}", response.error_code)));
            };
            if result.error_code != ErrorCode::None {
                return Err(failed(format!("an operation failed: {}", result.error_code)));
            }
            done.push(number);
        }
        Ok(())
    }
}
