//! Sockets: a task per connection that reads and cuts frames, and a writer that never waits.
//!
//! A connection's memory is bounded: one read at a time, a frame's bytes as they arrive and never
//! as announced, and on the way out a limit after which a reader that is too slow is cut off.
//! Before that, whoever does not take its answers is not read from: it cannot make us hold more.

use super::inbox::{Event, Inbox};
use crate::config::HostPort;
use crate::out::{ConnId, ConnectError, LinkId};
use bytes::{Buf, Bytes, BytesMut};
use quorate_wire::Frame;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A read asks for so much.
const READ_BYTES: usize = 64 << 10;
/// A frame buffer that grew beyond this is given back once it is empty.
const KEEP_BYTES: usize = 256 << 10;
/// A connection that has so much unsent is cut off.
const UNSENT_BYTES_MAX: usize = 64 << 20;
/// A connection that others made is not read from while it has so much unsent.
const UNSENT_BYTES_PAUSE: usize = 1 << 20;
/// With so much unsent over all connections, those with most of it are cut off.
pub(crate) const ALL_UNSENT_BYTES_MAX: usize = 256 << 20;
/// Parts in one vectored write.
const PARTS_AT_ONCE: usize = 64;

/// Cuts the next frame off what was received.
pub(crate) type Cut = fn(&mut BytesMut, usize) -> Result<Option<Bytes>, quorate_wire::Error>;

/// One connection, seen from the loop.
pub(crate) struct Connection {
    write: Arc<OwnedWriteHalf>,
    unsent: VecDeque<Bytes>,
    unsent_bytes: usize,
    /// A task waits until the socket takes bytes again.
    blocked: bool,
    /// The replica wants no more requests for now.
    full: bool,
    /// Not read from while much is unsent. Our own links are: if both ends stopped reading to get
    /// rid of what they have to send, neither ever would.
    answers: bool,
    paused: watch::Sender<bool>,
    reader: JoinHandle<()>,
    /// In the loop's list of connections to flush.
    pub dirty: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Connection {
    /// Takes over a socket that another made, whose requests we answer.
    pub fn accepted(id: ConnId, stream: TcpStream, limit: usize, inbox: &Inbox) -> Connection {
        let mut connection =
            Connection::open(id, stream, quorate_wire::split_request, limit, inbox);
        connection.answers = true;
        connection
    }

    /// Takes over a socket that we made, to send requests of ours.
    pub fn made(id: ConnId, stream: TcpStream, limit: usize, inbox: &Inbox) -> Connection {
        Connection::open(id, stream, quorate_wire::split, limit, inbox)
    }

    fn open(id: ConnId, stream: TcpStream, cut: Cut, limit: usize, inbox: &Inbox) -> Connection {
        // Without it the kernel holds small answers back. A socket that refuses is as good as
        // closed.
        let _ = stream.set_nodelay(true);
        let (read, write) = stream.into_split();
        let (paused, pause) = watch::channel(false);
        let inbox = inbox.clone();
        let reader = tokio::spawn(async move {
            let why = read_frames(id, read, cut, limit, pause, &inbox).await;
            inbox.put(Event::Closed(id, why));
        });
        let write = Arc::new(write);
        Connection {
            write,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            blocked: false,
            full: false,
            answers: false,
            paused,
            reader,
            dirty: false,
        }
    }

    /// Whether the replica takes no more requests for now.
    pub fn pause(&mut self, full: bool) {
        self.full = full;
        self.pause_or_read();
    }

    fn pause_or_read(&mut self) {
        let paused = self.full || self.answers && self.unsent_bytes >= UNSENT_BYTES_PAUSE;
        // Wakes the reader only if something changes.
        self.paused.send_if_modified(|was| std::mem::replace(was, paused) != paused);
    }

    /// Bytes that the socket has not taken yet.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// Puts a frame behind those before it. False: the reader is too slow and has to go.
    pub fn push(&mut self, frame: Frame) -> bool {
        for part in frame.parts {
            self.unsent_bytes += part.len();
            self.unsent.push_back(part);
        }
        self.unsent_bytes <= UNSENT_BYTES_MAX
    }

    /// Writes as much as the socket takes now; the rest follows when it takes more.
    pub fn flush(&mut self, id: ConnId, inbox: &Inbox) {
        while !self.unsent.is_empty() && !self.blocked {
            let slices: Vec<IoSlice<'_>> =
                self.unsent.iter().take(PARTS_AT_ONCE).map(|part| IoSlice::new(part)).collect();
            match self.write.try_write_vectored(&slices) {
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    let (write, inbox) = (Arc::clone(&self.write), inbox.clone());
                    tokio::spawn(async move {
                        // An error shows at the reader, too.
                        let _ = write.writable().await;
                        inbox.put(Event::Writable(id));
                    });
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The reader reports the end of the connection; what is unsent has no receiver.
                Err(_) => {
                    self.unsent.clear();
                    self.unsent_bytes = 0;
                }
            }
        }
        self.pause_or_read();
    }

    pub fn writable(&mut self) {
        self.blocked = false;
    }

    fn advance(&mut self, mut written: usize) {
        self.unsent_bytes -= written;
        while written > 0 {
            let Some(first) = self.unsent.front_mut() else { return };
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.unsent.pop_front();
        }
    }
}

/// Reads until the connection ends; returns why it did.
async fn read_frames(
    id: ConnId,
    mut read: OwnedReadHalf,
    cut: Cut,
    limit: usize,
    mut pause: watch::Receiver<bool>,
    inbox: &Inbox,
) -> String {
    let mut received = BytesMut::new();
    loop {
        if pause.wait_for(|paused| !paused).await.is_err() {
            return "closed by us".into();
        }
        if received.is_empty() && received.capacity() > KEEP_BYTES {
            received = BytesMut::new();
        }
        received.reserve(READ_BYTES.min(4 << 10));
        match read.read_buf(&mut received).await {
            Ok(0) => return "closed by the peer".into(),
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
        let mut frames = Vec::new();
        loop {
            match cut(&mut received, limit) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    if !frames.is_empty() {
                        inbox.put(Event::Frames(id, frames));
                    }
                    return error.to_string();
                }
            }
        }
        if !frames.is_empty() {
            inbox.put(Event::Frames(id, frames));
            // Let the loop have a turn before more is read: that bounds what waits for it.
            tokio::task::yield_now().await;
        }
    }
}

/// Connects to a peer; its name is resolved anew each time.
pub(crate) async fn connect(link: LinkId, to: HostPort, timeout: Duration, inbox: Inbox) {
    let attempt = async {
        let addresses = lookup_host((to.host.as_str(), to.port))
            .await
            .map_err(|_| ConnectError::Unreachable)?;
        let mut last = ConnectError::Unreachable;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    last = ConnectError::Refused
                }
                Err(_) => last = ConnectError::Unreachable,
            }
        }
        Err(last)
    };
    let result =
        tokio::time::timeout(timeout, attempt).await.unwrap_or(Err(ConnectError::Unreachable));
    inbox.put(Event::Connected(link, result));
}
