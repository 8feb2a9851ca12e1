//! HTTP/1.1 with connections kept alive, one request under way on each.
//!
//! The codec is that of `quorate-processes`: a client must not be what is measured.

use crate::driver::{Connection, Driver, Request, failed};
use bytes::BytesMut;
use quorate_processes::http::{Response, encode};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const READ_BYTES: usize = 4 << 10;

/// Connects to a node's HTTP listener.
pub struct Http {
    /// Where it is.
    pub node: SocketAddr,
}

/// One connection to it.
pub struct HttpConnection {
    stream: TcpStream,
    queued: Vec<u8>,
    received: BytesMut,
    under_way: Option<u32>,
}

impl Driver for Http {
    type Connection = HttpConnection;

    async fn connect(&self) -> io::Result<HttpConnection> {
        let stream = TcpStream::connect(self.node).await?;
        stream.set_nodelay(true)?;
        let (queued, received) = (Vec::new(), BytesMut::new());
        Ok(HttpConnection { stream, queued, received, under_way: None })
    }
}

impl Connection for HttpConnection {
    fn send(&mut self, number: u32, request: Request<'_>) {
        assert!(self.under_way.is_none(), "one request at a time");
        self.under_way = Some(number);
        let (method, key, body) = match request {
            Request::Put { key, value } => ("PUT", key, value),
            Request::Get { key } => ("GET", key, &b""[..]),
        };
        encode(&mut self.queued, method, &format!("/v1/kv/{key}"), &[], body);
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.queued).await?;
        self.queued.clear();
        Ok(())
    }

    async fn receive(&mut self, done: &mut Vec<u32>) -> io::Result<()> {
        loop {
            if let Some(response) = Response::split(&mut self.received).map_err(io::Error::other)? {
                if !matches!(response.status, 200 | 201) {
                    let body = String::from_utf8_lossy(&response.body);
                    return Err(failed(format!("answer {}: {}", response.status, body.trim())));
                }
                done.extend(self.under_way.take());
                return Ok(());
            }
            self.received.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
