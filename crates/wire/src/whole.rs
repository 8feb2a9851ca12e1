//! A frame read to its last byte, whatever its API: shown, and written again. For tests and
//! recorders, to which one message is as good as another; a server decodes the type that it
//! expects.

use crate::message::{Visit, visit};
use crate::{
    ApiKey, Error, Kind, Message, RequestFrame, ResponseFrame, encode_request, encode_response,
    print,
};
use bytes::Bytes;

/// What a frame is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Whole {
    /// The message in one line.
    pub shown: String,
    /// The frame as this crate writes it, without the length in front. Kafka's are written alike.
    pub written: Bytes,
}

/// Reads a frame, without the length in front, of this API and kind; a response must be of this
/// version, a request says its own. Fails if it is not one, or if bytes are left over.
pub fn read_whole(api: ApiKey, kind: Kind, version: i16, frame: Bytes) -> Result<Whole, Error> {
    visit(api, kind, ReadWhole { frame, version })
}

struct ReadWhole {
    frame: Bytes,
    version: i16,
}

impl Visit for ReadWhole {
    type Output = Result<Whole, Error>;

    fn message<M: Message>(self) -> Self::Output {
        let ReadWhole { frame, version } = self;
        let (shown, written) = match M::KIND {
            Kind::Request => {
                let frame = RequestFrame::parse(frame)?;
                let header = frame.header.clone();
                let message: M = frame.decode()?;
                (print(&message, header.version), encode_request(header, message)?)
            }
            Kind::Response => {
                let frame = ResponseFrame::parse(frame)?;
                let correlation_id = frame.correlation_id;
                let message: M = frame.decode(version)?;
                (print(&message, version), encode_response(message, version, correlation_id)?)
            }
        };
        Ok(Whole { shown, written: written.into_payload() })
    }
}
