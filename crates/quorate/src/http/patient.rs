//! A connection that does not wait for ever for a client to take its answers.
//!
//! Time runs from the moment when the client's side takes no more until it has taken all that was
//! written; a client that takes a byte now and then is as bad as one that takes none.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The connection, and when its client must have taken what waits.
pub(super) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// Set while something waits.
    ends: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Patient<S> {
        Patient { stream, limit, ends: None }
    }

    /// What a write said, or that it has waited too long.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_pending() || self.ends.is_some() {
            let ends = Instant::now() + self.limit;
            let ends = self.ends.get_or_insert_with(|| Box::pin(sleep_until(ends)));
            if ends.as_mut().poll(cx).is_ready() {
                let why = "the client took too long to read an answer";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
        }
        wrote
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.judge(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when nothing is left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ends = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const LIMIT: Duration = Duration::from_secs(60);

    /// Runs with a clock that jumps to the next timer whenever nothing else can happen.
    fn in_no_time(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn a_client_that_takes_nothing_is_given_up() {
        in_no_time(async {
            let (ours, _theirs) = duplex(16);
            let mut ours = Patient::new(ours, LIMIT);
            let started = Instant::now();
            let error = ours.write_all(&[0; 17]).await.expect_err("nobody reads");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(started.elapsed(), LIMIT);
        });
    }

    #[test]
    fn a_byte_now_and_then_does_not_help() {
        in_no_time(async {
            let (ours, mut theirs) = duplex(16);
            let mut ours = Patient::new(ours, LIMIT);
            let started = Instant::now();
            let reads = async {
                loop {
                    tokio::time::sleep(LIMIT / 4).await;
                    theirs.read_u8().await.expect("it is there");
                }
            };
            tokio::select! {
                () = reads => unreachable!("it reads for ever"),
                wrote = ours.write_all(&[0; 100]) => assert!(wrote.is_err()),
            }
            assert_eq!(started.elapsed(), LIMIT);
        });
    }

    #[test]
    fn each_answer_has_its_own_time() {
        in_no_time(async {
            let (ours, mut theirs) = duplex(16);
            let mut ours = Patient::new(ours, LIMIT);
            for _ in 0..10 {
                let late = async {
                    tokio::time::sleep(LIMIT * 3 / 4).await;
                    theirs.read_exact(&mut [0; 32]).await.expect("it comes");
                };
                let answer = async {
                    ours.write_all(&[0; 32]).await.expect("it is in time");
                    ours.flush().await.expect("it is in time");
                };
                tokio::join!(answer, late);
            }
        });
    }
}
