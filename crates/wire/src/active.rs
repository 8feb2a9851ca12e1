//! What only the active controller of a Kafka cluster serves, as far as Kafka's nodes send it to
//! whoever leads: how it is announced, and how another node refuses it.
//!
//! Nothing is read of such a request but its header. A node of Kafka's that took the wrong node for
//! the active controller looks for another one when it is refused with NOT_CONTROLLER, and keeps
//! asking the wrong one where the API is not even announced.

use crate::message::{
    AllocateProducerIdsResponse, AlterPartitionResponse, ApiVersion, AssignReplicasToDirsResponse,
    BrokerHeartbeatResponse, BrokerRegistrationResponse, ControllerRegistrationResponse,
    EnvelopeResponse,
};
use crate::{ApiKey, ErrorCode, Frame, OnlyActive, encode_response};

/// How a listener announces them.
pub fn only_active() -> impl Iterator<Item = ApiVersion> {
    OnlyActive::ALL.iter().map(|one| one.api().into())
}

/// The answer of a node that is not the active controller; `None` if the frame is no request of
/// these, or of a version that is not announced.
pub fn not_controller(request: &[u8]) -> Option<Frame> {
    let (key, rest) = request.split_first_chunk::<2>()?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let correlation = i32::from_be_bytes(*rest.first_chunk::<4>()?);
    let (key, version) = (i16::from_be_bytes(*key), i16::from_be_bytes(*version));
    let api = ApiKey::from_key(key).filter(|api| api.speaks(version))?;
    macro_rules! refused {
        ($response:ident) => {{
            let error_code = ErrorCode::NotController;
            encode_response($response { error_code, ..$response::default() }, version, correlation)
        }};
    }
    let answer = match OnlyActive::of(api)? {
        OnlyActive::AlterPartition => refused!(AlterPartitionResponse),
        OnlyActive::Envelope => refused!(EnvelopeResponse),
        OnlyActive::BrokerRegistration => refused!(BrokerRegistrationResponse),
        OnlyActive::BrokerHeartbeat => refused!(BrokerHeartbeatResponse),
        OnlyActive::AllocateProducerIds => refused!(AllocateProducerIdsResponse),
        OnlyActive::ControllerRegistration => refused!(ControllerRegistrationResponse),
        OnlyActive::AssignReplicasToDirs => refused!(AssignReplicasToDirsResponse),
    };
    answer.ok()
}
