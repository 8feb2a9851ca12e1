//! Envelope (KIP-590): a broker passes on what a client asked of it, and who the client is, to the
//! active controller. What is inside is a frame of its own and is not looked into here.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use bytes::Bytes;

/// What a client asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnvelopeRequest {
    /// Its request, from the header on.
    pub request_data: Bytes,
    /// Who it is, as the broker's principal builder writes it.
    pub request_principal: Option<Bytes>,
    /// Its address: 4 or 16 bytes.
    pub client_host_address: Bytes,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for EnvelopeRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.bytes("RequestData", &mut self.request_data)?;
        c.nullable_bytes("RequestPrincipal", &mut self.request_principal)?;
        c.bytes("ClientHostAddress", &mut self.client_host_address)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What the client is to be answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnvelopeResponse {
    /// The response, from the header on; null after an error.
    pub response_data: Option<Bytes>,
    /// Why the envelope was not opened.
    pub error_code: ErrorCode,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for EnvelopeResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.nullable_bytes("ResponseData", &mut self.response_data)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(Envelope: EnvelopeRequest, EnvelopeResponse);
