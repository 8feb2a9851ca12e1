//! Headers, and whole frames: what stands in front of a message and how the two are read and
//! written.
//!
//! The header's form follows from API and version: request header 1 or, with a flexible body, 2;
//! response header 0 or 1. Two exceptions, both because a peer must understand them before it knows
//! any version: the client id always has the old form, and an ApiVersions response always has
//! header 0 (KIP-511).

use crate::coder::{Coder, Tags};
use crate::message::{ApiVersionsResponse, Kind, Message};
use crate::{ApiKey, Decoder, Encoder, Error, ErrorCode, Frame};
use bytes::Bytes;

/// What stands in front of every request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// What is asked.
    pub api: ApiKey,
    /// The version of the body.
    pub version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
    /// Who asks, in its own words.
    pub client_id: Option<String>,
    /// Tagged fields; Kafka defines none.
    pub tags: Tags,
}

/// What stands in front of every response.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResponseHeader {
    /// The request's.
    pub correlation_id: i32,
    /// Tagged fields; Kafka defines none.
    pub tags: Tags,
}

impl RequestHeader {
    /// A header without tagged fields.
    pub fn new(
        api: ApiKey,
        version: i16,
        correlation_id: i32,
        client_id: Option<String>,
    ) -> RequestHeader {
        RequestHeader { api, version, correlation_id, client_id, tags: Tags::new() }
    }

    /// Leaves the coder in the form of the body.
    fn walk<C: Coder>(&mut self, c: &mut C) -> Result<(), Error> {
        let mut key = self.api.key();
        c.i16("RequestApiKey", &mut key)?;
        self.api = ApiKey::from_key(key).ok_or(Error::UnknownApi { key })?;
        c.i16("RequestApiVersion", &mut self.version)?;
        c.i32("CorrelationId", &mut self.correlation_id)?;
        c.set_flexible(false);
        c.nullable_string("ClientId", &mut self.client_id)?;
        c.set_flexible(self.api.is_flexible(self.version));
        c.unknown_tags(&mut self.tags)
    }
}

impl ResponseHeader {
    /// Leaves the coder in the form of the body.
    fn walk<C: Coder>(&mut self, c: &mut C, api: ApiKey, version: i16) -> Result<(), Error> {
        c.i32("CorrelationId", &mut self.correlation_id)?;
        let flexible = api.is_flexible(version);
        c.set_flexible(flexible && api != ApiKey::ApiVersions);
        c.unknown_tags(&mut self.tags)?;
        c.set_flexible(flexible);
        Ok(())
    }
}

/// A received request: its header is read, its body not yet.
#[derive(Clone, Debug)]
pub struct RequestFrame {
    /// Of an API and version that we speak.
    pub header: RequestHeader,
    body: Decoder,
}

impl RequestFrame {
    /// Reads the header of a frame that [`crate::split`] gave.
    ///
    /// Kafka's answer to an error is to close the connection, with one exception: to
    /// [`Error::UnsupportedVersion`] of [`ApiKey::ApiVersions`] it answers with
    /// [`ApiVersionsResponse::unsupported_version`] in version 0, so that the peer can ask again.
    pub fn parse(frame: Bytes) -> Result<RequestFrame, Error> {
        let mut body = Decoder::new(frame, false);
        let mut header = RequestHeader::new(ApiKey::ApiVersions, 0, 0, None);
        header.walk(&mut body)?;
        let RequestHeader { api, version, correlation_id, .. } = header;
        match api.speaks(version) {
            true => Ok(RequestFrame { header, body }),
            false => Err(Error::UnsupportedVersion { api, version, correlation_id }),
        }
    }

    /// Reads the body, all of it.
    pub fn decode<M: Message>(self) -> Result<M, Error> {
        debug_assert_eq!(M::KIND, Kind::Request, "a response has no API in its frame");
        match self.header.api == M::API {
            true => decode_body(self.body, self.header.version),
            false => Err(Error::WrongApi { expected: M::API, found: self.header.api }),
        }
    }
}

/// A received response: who asked what, and in which version, only the asker knows.
#[derive(Clone, Debug)]
pub struct ResponseFrame {
    /// Tells which request it answers.
    pub correlation_id: i32,
    frame: Bytes,
}

impl ResponseFrame {
    /// Reads as far as the correlation id.
    pub fn parse(frame: Bytes) -> Result<ResponseFrame, Error> {
        let mut correlation_id = 0;
        Decoder::new(frame.clone(), false).i32("CorrelationId", &mut correlation_id)?;
        Ok(ResponseFrame { correlation_id, frame })
    }

    /// Reads the response to a request of this version, all of it.
    ///
    /// An ApiVersions request of a version that the other side does not speak is answered in
    /// version 0: the code UNSUPPORTED_VERSION says so (KIP-511), and it is read accordingly.
    pub fn decode<M: Message>(self, version: i16) -> Result<M, Error> {
        debug_assert_eq!(M::KIND, Kind::Response, "a request has another header");
        speaks::<M>(version, self.correlation_id)?;
        let mut body = Decoder::new(self.frame.clone(), false);
        ResponseHeader::default().walk(&mut body, M::API, version)?;
        let asked = decode_body(body.clone(), version);
        if M::API == ApiKey::ApiVersions && version != 0 && asked.is_err() {
            let mut code = ErrorCode::None;
            body.error_code("ErrorCode", &mut code)?;
            if code == ErrorCode::UnsupportedVersion {
                return self.decode(0);
            }
        }
        asked
    }
}

fn decode_body<M: Message>(mut body: Decoder, version: i16) -> Result<M, Error> {
    let mut message = M::default();
    message.walk(&mut body, version)?;
    body.finish()?;
    Ok(message)
}

/// Whether we have the message in this version, which the caller was to look up in the peer's
/// ApiVersions and in ours.
fn speaks<M: Message>(version: i16, correlation_id: i32) -> Result<(), Error> {
    match M::API.speaks(version) {
        true => Ok(()),
        false => Err(Error::UnsupportedVersion { api: M::API, version, correlation_id }),
    }
}

/// A request behind its header; the header names API and version.
pub fn encode_request<M: Message>(
    mut header: RequestHeader,
    mut message: M,
) -> Result<Frame, Error> {
    if header.api != M::API {
        return Err(Error::WrongApi { expected: M::API, found: header.api });
    }
    speaks::<M>(header.version, header.correlation_id)?;
    let mut encoder = Encoder::new(false);
    header.walk(&mut encoder)?;
    message.walk(&mut encoder, header.version)?;
    encoder.finish()
}

/// A response behind its header, in the version of the request that it answers.
pub fn encode_response<M: Message>(
    mut message: M,
    version: i16,
    correlation_id: i32,
) -> Result<Frame, Error> {
    speaks::<M>(version, correlation_id)?;
    let mut encoder = Encoder::new(false);
    let mut header = ResponseHeader { correlation_id, tags: Tags::new() };
    header.walk(&mut encoder, M::API, version)?;
    message.walk(&mut encoder, version)?;
    encoder.finish()
}

impl ApiVersionsResponse {
    /// The answer, in version 0, to an ApiVersions request of a version that we do not speak.
    pub fn unsupported_version() -> ApiVersionsResponse {
        let error_code = ErrorCode::UnsupportedVersion;
        let api_keys = vec![ApiKey::ApiVersions.into()];
        ApiVersionsResponse { error_code, api_keys, ..ApiVersionsResponse::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ApiVersionsRequest, VoteRequest, VoteResponse};

    #[test]
    fn a_version_from_the_future_is_named_and_can_be_answered() {
        let frame = Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 2, 3]);
        let found = RequestFrame::parse(frame).unwrap_err();
        let api = ApiKey::ApiVersions;
        assert_eq!(found, Error::UnsupportedVersion { api, version: 99, correlation_id: 7 });

        let answer = encode_response(ApiVersionsResponse::unsupported_version(), 0, 7).unwrap();
        let answer = ResponseFrame::parse(answer.into_payload()).unwrap();
        assert_eq!(answer.correlation_id, 7);
        let body: ApiVersionsResponse = answer.decode(4).unwrap();
        assert_eq!(body, ApiVersionsResponse::unsupported_version());
    }

    /// Found by random messages: the code alone does not say that the answer is of version 0.
    #[test]
    fn the_code_unsupported_version_in_a_newer_answer_is_read_as_that_version() {
        for version in 0..=4 {
            let mut sent = ApiVersionsResponse::unsupported_version();
            if version >= 3 {
                sent.finalized_features_epoch = 5;
            }
            let frame = encode_response(sent.clone(), version, 7).unwrap().into_payload();
            assert_eq!(ResponseFrame::parse(frame).unwrap().decode(version), Ok(sent));
        }
    }

    #[test]
    fn unknown_keys_and_versions_are_refused() {
        let check = |bytes: &'static [u8], expect| {
            assert_eq!(RequestFrame::parse(Bytes::from_static(bytes)).unwrap_err(), expect);
        };
        check(&[0x7f, 0xff, 0, 0], Error::UnknownApi { key: i16::MAX });
        let (api, version) = (ApiKey::Vote, 3);
        let expect = Error::UnsupportedVersion { api, version, correlation_id: 1 };
        check(&[0, 52, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0], expect);
        check(&[], Error::Truncated { field: "RequestApiKey", at: 0, needed: 2, left: 0 });
    }

    #[test]
    fn a_frame_of_one_api_is_not_read_as_another() {
        let header = RequestHeader::new(ApiKey::Vote, 2, 1, Some("one".to_owned()));
        let expected = ApiKey::ApiVersions;
        let wrong = Error::WrongApi { expected, found: ApiKey::Vote };
        assert_eq!(encode_request(header.clone(), ApiVersionsRequest::default()), Err(wrong));

        let frame = encode_request(header, VoteRequest::default()).unwrap().into_payload();
        let frame = RequestFrame::parse(frame).unwrap();
        assert_eq!(frame.decode::<ApiVersionsRequest>(), Err(wrong));
    }

    #[test]
    fn a_version_that_we_lack_is_not_made_up() {
        let unsupported =
            Error::UnsupportedVersion { api: ApiKey::Vote, version: 3, correlation_id: 1 };
        let header = RequestHeader::new(ApiKey::Vote, 3, 1, None);
        assert_eq!(encode_request(header, VoteRequest::default()), Err(unsupported));
        assert_eq!(encode_response(VoteResponse::default(), 3, 1), Err(unsupported));
    }

    #[test]
    fn only_the_api_versions_response_has_the_old_header_in_every_version() {
        let frame = encode_response(ApiVersionsResponse::default(), 4, 5).unwrap();
        assert_eq!(frame.into_payload()[..6], [0, 0, 0, 5, 0, 0], "the error code comes next");
        let frame = encode_response(VoteResponse::default(), 2, 5).unwrap();
        assert_eq!(
            frame.into_payload()[..],
            [0, 0, 0, 5, 0, 0, 0, 1, 0],
            "no tagged fields come next"
        );
    }
}
