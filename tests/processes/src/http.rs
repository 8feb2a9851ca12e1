//! A small HTTP/1.1 client: one connection, one request at a time, and the truth about failures.
//!
//! Its point is [`Silence`]: whether a request that was not answered can have had an effect. It
//! never sends anything twice. The codec is apart from the socket, so that asynchronous callers
//! share it; it reads what nodes of Quorate answer and nothing more (no chunks, no continuation
//! lines).

use bytes::{Buf, Bytes, BytesMut};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const READ_BYTES: usize = 16 << 10;
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What a node answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the headers, as they came.
    head: Bytes,
    /// The body.
    pub body: Bytes,
}

/// Bytes that are no answer of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadResponse;

impl fmt::Display for BadResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are no HTTP answer with a content-length")
    }
}

impl std::error::Error for BadResponse {}

impl Response {
    /// Cuts the next answer off the front of what was received; `None` while it is incomplete.
    pub fn split(received: &mut BytesMut) -> Result<Option<Response>, BadResponse> {
        let Some(head_bytes) = received.windows(4).position(|end| end == b"\r\n\r\n") else {
            return if received.len() > HEAD_BYTES_MAX { Err(BadResponse) } else { Ok(None) };
        };
        let head_bytes = head_bytes + 4;
        let head = &received[..head_bytes];
        let status = std::str::from_utf8(head).ok().and_then(|head| head.get(9..12)?.parse().ok());
        let status = status.ok_or(BadResponse)?;
        let body_bytes = match (find(head, "content-length"), status) {
            (Some(length), _) => length.parse().map_err(|_| BadResponse)?,
            (None, 304) => 0,
            (None, _) => return Err(BadResponse),
        };
        let body_bytes = if status == 304 { 0 } else { body_bytes };
        if received.len() - head_bytes < body_bytes {
            return Ok(None);
        }
        let head = received.split_to(head_bytes).freeze();
        let body = received.split_to(body_bytes).freeze();
        Ok(Some(Response { status, head, body }))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.head, name)
    }

    /// The version that the `ETag` holds.
    pub fn version(&self) -> Option<u64> {
        self.header("etag")?.trim_matches('"').parse().ok()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

fn find<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = std::str::from_utf8(head).ok()?.split("\r\n").skip(1);
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Appends a request to `out`.
pub fn encode(
    out: &mut Vec<u8>,
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: &[u8],
) {
    let mut put = |text: &str| out.extend_from_slice(text.as_bytes());
    [method, " ", path, " HTTP/1.1\r\nhost: node\r\n"].into_iter().for_each(&mut put);
    for (name, value) in headers {
        [name, ": ", value, "\r\n"].into_iter().for_each(&mut put);
    }
    put(&format!("content-length: {}\r\n\r\n", body.len()));
    out.extend_from_slice(body);
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Silence {
    /// There was no connection: nothing was sent, so nothing was done.
    NotSent(io::Error),
    /// The connection broke or stayed silent: the request may have been carried out.
    Unknown(io::Error),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::NotSent(error) => write!(f, "not sent: {error}"),
            Silence::Unknown(error) => write!(f, "no answer: {error}"),
        }
    }
}

/// A blocking client of one node that keeps its connection while it works.
#[derive(Debug)]
pub struct Client {
    at: SocketAddr,
    patience: Duration,
    stream: Option<TcpStream>,
    received: BytesMut,
}

impl Client {
    /// A client of the node at this address; connects when it is first used.
    pub fn new(at: SocketAddr, patience: Duration) -> Client {
        Client { at, patience, stream: None, received: BytesMut::new() }
    }

    /// Sends a request, once, and waits for its answer.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Result<Response, Silence> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().map_err(Silence::NotSent)?,
        };
        let mut request = Vec::with_capacity(256 + body.len());
        encode(&mut request, method, path, headers, body);
        let answer = stream.write_all(&request).and_then(|()| self.receive(&mut stream));
        let response = answer.map_err(Silence::Unknown)?;
        if response.header("connection").is_none_or(|value| value != "close") {
            self.stream = Some(stream);
        }
        Ok(response)
    }

    fn connect(&mut self) -> io::Result<TcpStream> {
        self.received.clear();
        let stream = TcpStream::connect_timeout(&self.at, self.patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        Ok(stream)
    }

    fn receive(&mut self, stream: &mut TcpStream) -> io::Result<Response> {
        let mut piece = [0; READ_BYTES];
        loop {
            match Response::split(&mut self.received) {
                Ok(Some(response)) if self.received.has_remaining() => {
                    let status = response.status;
                    return Err(io::Error::other(format!("more than one answer after {status}")));
                }
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(bad) => return Err(io::Error::other(bad)),
            }
            match stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.received.extend_from_slice(&piece[..read]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_out_whole_however_the_bytes_arrive() {
        let bytes = b"HTTP/1.1 200 OK\r\nETag: \"17\"\r\nContent-Length: 5\r\n\r\nhello\
                      HTTP/1.1 304 Not Modified\r\netag: \"17\"\r\n\r\n";
        for step in 1..=bytes.len() {
            let (mut received, mut found) = (BytesMut::new(), Vec::new());
            for piece in bytes.chunks(step) {
                received.extend_from_slice(piece);
                while let Some(response) = Response::split(&mut received).unwrap() {
                    found.push((response.status, response.version(), response.body));
                }
            }
            let expect = [(200, Some(17), Bytes::from("hello")), (304, Some(17), Bytes::new())];
            assert_eq!(found, expect, "in steps of {step}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_not_a_wait() {
        for bytes in ["220 mail.example ESMTP\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            assert_eq!(Response::split(&mut BytesMut::from(bytes)), Err(BadResponse), "{bytes}");
        }
    }

    #[test]
    fn a_refused_connection_is_known_to_have_done_nothing() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut client = Client::new(free, Duration::from_secs(5));
        assert!(matches!(client.ask("GET", "/", &[], b""), Err(Silence::NotSent(_))));
    }
}
