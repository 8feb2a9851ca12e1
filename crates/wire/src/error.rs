//! What can be wrong with bytes from outside, or with a message we were asked to encode.
//!
//! Positions count bytes from the start of the frame, behind its length prefix.

use crate::ApiKey;
use crate::record::metadata::MetadataRecord;
use std::fmt;

/// Why bytes are not a message, or a message cannot become bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The frame ends inside a field.
    Truncated {
        /// The field that was being read.
        field: &'static str,
        /// Where it starts.
        at: usize,
        /// Bytes it needs.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// An announced length is negative, or more than the rest of the frame can hold.
    BadLength {
        /// The field whose length it is.
        field: &'static str,
        /// Where the length starts.
        at: usize,
        /// What it says.
        announced: i64,
        /// Bytes that follow it.
        left: usize,
    },
    /// A field that is never null is null.
    Null {
        /// The field.
        field: &'static str,
        /// Where it starts.
        at: usize,
    },
    /// A string is not UTF-8.
    NotUtf8 {
        /// The field.
        field: &'static str,
        /// Where its first byte lies.
        at: usize,
    },
    /// A variable-length number has more than 32 bits.
    BadVarint {
        /// The field.
        field: &'static str,
        /// Where it starts.
        at: usize,
    },
    /// A value outside of the field's closed list.
    BadValue {
        /// The field.
        field: &'static str,
        /// Where the value ends; 0 when encoding.
        at: usize,
        /// What was found.
        found: i64,
    },
    /// Tags do not ascend (KIP-482: ascending, each at most once).
    TagOrder {
        /// Where the tag starts.
        at: usize,
        /// The tag before it.
        previous: u32,
        /// The tag.
        found: u32,
    },
    /// A tagged field we know is longer than its content.
    TagNotUsedUp {
        /// Its number.
        tag: u32,
        /// Where the content ends.
        at: usize,
        /// Announced bytes beyond it.
        left: usize,
    },
    /// More unknown tagged fields in one struct than are kept.
    TooManyTags {
        /// Where the first that is too many has its content.
        at: usize,
        /// How many are kept.
        limit: usize,
    },
    /// Bytes follow the message.
    Trailing {
        /// Where the message ends.
        at: usize,
        /// How many follow.
        left: usize,
    },
    /// A frame's length prefix is negative or above the limit.
    BadFrameLength {
        /// What it says.
        announced: i32,
        /// The largest length we take.
        limit: usize,
    },
    /// A metadata record of a type or version that is not known here.
    UnknownRecord {
        /// Its type.
        api_key: u32,
        /// Its version.
        version: u32,
    },
    /// An API that we do not speak.
    UnknownApi {
        /// Its key.
        key: i16,
    },
    /// A version that we do not speak. An ApiVersions request is then still owed an answer.
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
        /// Of the request, so that it can be answered.
        correlation_id: i32,
    },
    /// A frame of one API was to be decoded as another's.
    WrongApi {
        /// The API of the struct.
        expected: ApiKey,
        /// The API of the frame.
        found: ApiKey,
    },
    /// To be encoded: longer than its length prefix can say.
    TooLong {
        /// The field, or "frame".
        field: &'static str,
        /// Its length.
        len: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// To be encoded: a field is set that this version cannot carry and the receiver must not miss.
    NotInVersion {
        /// The field.
        field: &'static str,
        /// The version.
        version: i16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Truncated { field, at, needed, left } => {
                write!(f, "{field} at byte {at} needs {needed} bytes, the frame has {left} left")
            }
            Error::BadLength { field, at, announced, left } => {
                write!(f, "{field} at byte {at} announces length {announced}, {left} bytes follow")
            }
            Error::Null { field, at } => {
                write!(f, "{field} at byte {at} is null, which it never may be")
            }
            Error::NotUtf8 { field, at } => write!(f, "{field} at byte {at} is not UTF-8"),
            Error::BadVarint { field, at } => {
                write!(f, "{field} at byte {at} has a variable-length number of more than 32 bits")
            }
            Error::BadValue { field, at, found } => {
                write!(f, "{field} before byte {at} has the unknown value {found}")
            }
            Error::TagOrder { at, previous, found } => {
                write!(f, "tag {found} at byte {at} follows tag {previous}; tags must ascend")
            }
            Error::TagNotUsedUp { tag, at, left } => {
                write!(f, "tagged field {tag} ends at byte {at}, {left} bytes before its size says")
            }
            Error::TooManyTags { at, limit } => {
                write!(f, "more than {limit} unknown tagged fields at byte {at}")
            }
            Error::Trailing { at, left } => {
                write!(f, "the message ends at byte {at}, {left} bytes follow it")
            }
            Error::BadFrameLength { announced, limit } => {
                write!(f, "a frame announces {announced} bytes; 0 to {limit} are allowed")
            }
            Error::UnknownRecord { api_key, version } => {
                match MetadataRecord::name_of(api_key).zip(MetadataRecord::newest(api_key)) {
                    Some((name, newest)) => {
                        write!(f, "{name} version {version} is not known here; 0 to {newest} are")
                    }
                    None => write!(
                        f,
                        "no metadata record of type {api_key}, here version {version}, is known"
                    ),
                }
            }
            Error::UnknownApi { key } => write!(f, "no API has the key {key} here"),
            Error::UnsupportedVersion { api, version, .. } => write!(
                f,
                "{api} version {version} is not spoken here; {} to {} are",
                api.oldest(),
                api.newest()
            ),
            Error::WrongApi { expected, found } => {
                write!(f, "the frame is of {found}, not of {expected}")
            }
            Error::TooLong { field, len, limit } => {
                write!(f, "{field} has length {len}; at most {limit} can be sent")
            }
            Error::NotInVersion { field, version } => {
                write!(f, "{field} is set, and version {version} cannot carry it")
            }
        }
    }
}

impl std::error::Error for Error {}
