//! Kafka's messages, byte for byte: a pure codec.
//!
//! Each message is a plain struct and *one* walk over its fields ([`Walk`]); the same walk encodes,
//! decodes and prints ([`Coder`]). Versions live here and in the node's translation, nowhere else.
//!
//! What comes from the network is judged, never trusted: decoding does not panic, does not allocate
//! more than a small multiple of the frame, keeps tagged fields it does not know, and refuses bytes
//! that are left over. Nothing here reads a socket; [`split`] cuts frames out of what a reader has
//! received.
//!
//! Server side: [`split_request`] → [`RequestFrame::parse`] → [`RequestFrame::decode`] →
//! [`encode_response`].
//! Client side: [`encode_request`] → [`split`] → [`ResponseFrame::parse`] →
//! [`ResponseFrame::decode`].
//!
//! ```
//! use quorate_wire::message::{VoteRequest, VoteResponse};
//! use quorate_wire::{ApiKey, RequestFrame, RequestHeader, ResponseFrame};
//! use quorate_wire::{encode_request, encode_response, print};
//!
//! let version = ApiKey::Vote.newest();
//! let header = RequestHeader::new(ApiKey::Vote, version, 7, Some("node-1".to_owned()));
//! let sent = encode_request(header, VoteRequest::default())?;
//!
//! let received = RequestFrame::parse(sent.into_payload())?;
//! let (version, id) = (received.header.version, received.header.correlation_id);
//! let vote: VoteRequest = received.decode()?;
//! assert_eq!(print(&vote, version), "VoteRequest v2 ClusterId=null VoterId=-1 Topics=[]");
//!
//! let answer = encode_response(VoteResponse::default(), version, id)?;
//! let answer = ResponseFrame::parse(answer.into_payload())?;
//! assert_eq!(answer.correlation_id, 7);
//! assert_eq!(answer.decode::<VoteResponse>(version)?, VoteResponse::default());
//! # Ok::<(), quorate_wire::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test ends where a fact is missing"))]

mod active;
mod api;
pub mod arbitrary;
mod coder;
mod decoder;
mod encoder;
mod error;
mod error_code;
mod frame;
mod header;
mod json;
pub mod message;
mod primitive;
mod printer;
pub mod record;
mod whole;

pub use active::{not_controller, only_active};
pub use api::{ApiKey, OnlyActive, Served};
pub use coder::{Coder, Float64, Int, Tags, Walk};
pub use decoder::Decoder;
pub use encoder::{Encoder, Frame};
pub use error::Error;
pub use error_code::ErrorCode;
pub use frame::{MAX_FRAME_BYTES, split, split_request};
pub use header::{
    RequestFrame, RequestHeader, ResponseFrame, ResponseHeader, encode_request, encode_response,
};
pub use json::{fields_json, quoted};
pub use message::{Kind, Message, Request};
pub use printer::print;
use printer::print_fields;
pub use whole::{Whole, read_whole};
