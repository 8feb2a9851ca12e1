//! One question to a node of Kafka's protocol and its answer, over a connection that does nothing
//! else.
//!
//! For the few places that ask by themselves; what replicas say to each other goes another way.
//! Knows frames and nothing of what is in them.

use bytes::Bytes;
use std::io::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a frame, which comes without its length, and waits for one. `None` where what comes is no
/// frame, or one longer than `most` bytes.
///
/// # Errors
/// The connection's.
pub async fn round_trip(
    stream: &mut TcpStream,
    frame: &[u8],
    most: usize,
) -> Result<Option<Bytes>, Error> {
    let mut sent = Vec::with_capacity(frame.len() + 4);
    sent.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    sent.extend_from_slice(frame);
    stream.write_all(&sent).await?;
    let announced = usize::try_from(stream.read_i32().await?).unwrap_or(usize::MAX);
    if announced > most {
        return Ok(None);
    }
    // Memory follows the bytes that came.
    let (mut answer, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while answer.len() < announced {
        let most = piece.len().min(announced - answer.len());
        match stream.read(&mut piece[..most]).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => answer.extend_from_slice(&piece[..read]),
        }
    }
    Ok(Some(answer.into()))
}
