//! What only the active controller of a Kafka cluster serves, as far as Kafka's nodes send it to
//! whoever leads: what it is called, and how another node refuses it.
//!
//! Nothing is read of such a request but its header. A node of Kafka's that took the wrong node for
//! the active controller looks for another one when it is refused with NOT_CONTROLLER, and keeps
//! asking the wrong one where the API is not even announced.

use crate::coder::{Coder, Tags};
use crate::encoder::{Encoder, Frame};
use crate::message::ApiVersion;
use crate::{Error, ErrorCode};

/// The longest of these requests that is taken.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

const ALTER_PARTITION: i16 = 56;
const ENVELOPE: i16 = 58;
const BROKER_REGISTRATION: i16 = 62;
const BROKER_HEARTBEAT: i16 = 63;
const ALLOCATE_PRODUCER_IDS: i16 = 67;
const CONTROLLER_REGISTRATION: i16 = 70;
const ASSIGN_REPLICAS_TO_DIRS: i16 = 73;

/// Key, oldest and newest version; all of them have tagged fields in all of these versions.
const ALL: [(i16, i16, i16); 7] = [
    (ALTER_PARTITION, 2, 3),
    (ENVELOPE, 0, 0),
    (BROKER_REGISTRATION, 0, 4),
    (BROKER_HEARTBEAT, 0, 2),
    (ALLOCATE_PRODUCER_IDS, 0, 0),
    (CONTROLLER_REGISTRATION, 0, 0),
    (ASSIGN_REPLICAS_TO_DIRS, 0, 0),
];

/// Whether the key is one of these.
pub(crate) fn is_one(key: i16) -> bool {
    ALL.iter().any(|(one, ..)| *one == key)
}

/// How a listener announces them.
pub fn only_active() -> impl Iterator<Item = ApiVersion> {
    ALL.iter().map(|(api_key, min_version, max_version)| ApiVersion {
        api_key: *api_key,
        min_version: *min_version,
        max_version: *max_version,
        ..ApiVersion::default()
    })
}

/// The answer of a node that is not the active controller; `None` if the frame is no request of
/// these, or of a version that is not announced.
pub fn not_controller(request: &[u8]) -> Option<Frame> {
    let (key, rest) = request.split_first_chunk::<2>()?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let correlation = rest.first_chunk::<4>()?;
    let (key, version) = (i16::from_be_bytes(*key), i16::from_be_bytes(*version));
    let spoken = |(one, oldest, newest): &(i16, i16, i16)| {
        *one == key && (*oldest..=*newest).contains(&version)
    };
    ALL.iter().find(|one| spoken(one))?;
    answer(key, i32::from_be_bytes(*correlation)).ok()
}

fn answer(key: i16, mut correlation: i32) -> Result<Frame, Error> {
    let mut c = Encoder::new(true);
    let mut error_code = ErrorCode::NotController;
    c.i32("CorrelationId", &mut correlation)?;
    c.unknown_tags(&mut Tags::new())?;
    match key {
        ENVELOPE => c.nullable_bytes("ResponseData", &mut None)?,
        _ => c.i32("ThrottleTimeMs", &mut 0)?,
    }
    c.error_code("ErrorCode", &mut error_code)?;
    match key {
        BROKER_REGISTRATION => c.i64("BrokerEpoch", &mut -1)?,
        BROKER_HEARTBEAT => {
            c.bool("IsCaughtUp", &mut false)?;
            c.bool("IsFenced", &mut true)?;
            c.bool("ShouldShutDown", &mut false)?;
        }
        ALLOCATE_PRODUCER_IDS => {
            c.i64("ProducerIdStart", &mut 0)?;
            c.i32("ProducerIdLen", &mut 0)?;
        }
        CONTROLLER_REGISTRATION => c.nullable_string("ErrorMessage", &mut None)?,
        ALTER_PARTITION => c.array::<ApiVersion>("Topics", &mut Vec::new(), 0)?,
        ASSIGN_REPLICAS_TO_DIRS => c.array::<ApiVersion>("Directories", &mut Vec::new(), 0)?,
        _ => {}
    }
    c.unknown_tags(&mut Tags::new())?;
    c.finish()
}
