//! What a system under load must be able to do: take a request, later give its answer.
//!
//! The one seam of the load driver. A connection may have many requests under way and answer them
//! in any order; it says which of them are done by their numbers.

use std::future::Future;
use std::io;

/// One request.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Sets a key.
    Put {
        /// Which.
        key: &'a str,
        /// What to.
        value: &'a [u8],
    },
    /// Reads a key, linearizable.
    Get {
        /// Which.
        key: &'a str,
    },
}

/// Makes connections to one system.
pub trait Driver {
    /// What it makes.
    type Connection: Connection;

    /// Connects.
    fn connect(&self) -> impl Future<Output = io::Result<Self::Connection>>;
}

/// One connection.
pub trait Connection {
    /// Queues a request under a number of the caller's choice.
    fn send(&mut self, number: u32, request: Request<'_>);

    /// Sends what is queued.
    fn flush(&mut self) -> impl Future<Output = io::Result<()>>;

    /// Waits for answers and adds the numbers of the requests they are for. An answer other than
    /// success is an error: what is measured is work done.
    fn receive(&mut self, done: &mut Vec<u32>) -> impl Future<Output = io::Result<()>>;
}

/// An error in words.
pub fn failed(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}
