//! UpdateFeatures (KIP-584) of the one feature that a quorum itself has, `kraft.version`: to the
//! core's words, and its answer back. The features of a Kafka cluster are its controllers' to set.

use super::KRAFT_VERSION;
use super::inbound::{self, Refusal, Refused};
use crate::replica::Asked;
use quorate_raft::{ChangeAnswer, ErrorKind, Upgrade};
use quorate_wire::message::{FeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse};
use quorate_wire::{Error, ErrorCode, Frame, encode_response};

/// A request for another level of it.
pub(super) fn upgrade(request: &UpdateFeaturesRequest) -> Result<Upgrade, Refused> {
    let [update] = &request.feature_updates[..] else {
        return Err(inbound::partition_error(ErrorCode::InvalidRequest));
    };
    match u16::try_from(update.max_version_level) {
        Ok(version) if update.feature == KRAFT_VERSION => {
            Ok(Upgrade { version, validate_only: request.validate_only })
        }
        Ok(_) | Err(_) => Err(inbound::partition_error(ErrorCode::InvalidRequest)),
    }
}

/// The core's answer.
pub(super) fn answer(asked: Asked, answer: &ChangeAnswer) -> Result<Frame, Error> {
    let code = match answer.error == ErrorKind::NotLeaderOrFollower {
        // So Kafka's tools look for the leader anew.
        true => ErrorCode::NotController,
        false => super::error_code(answer.error),
    };
    told(asked, code, answer.why.as_ref().map(ToString::to_string))
}

/// The answer to a request that did not reach the core.
pub(super) fn refusal(asked: Asked, refusal: &Refusal) -> Result<Frame, Error> {
    let code = match refusal {
        Refusal::Cluster(_) => ErrorCode::InconsistentClusterId,
        Refusal::TopLevel(code) | Refusal::Partition(code) => *code,
        Refusal::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
    };
    let words =
        "this quorum has one feature, kraft.version; ask for a level of that alone, 0 or more";
    told(asked, code, Some(words.to_owned()))
}

fn told(asked: Asked, code: ErrorCode, words: Option<String>) -> Result<Frame, Error> {
    let mut response = UpdateFeaturesResponse::default();
    (response.error_code, response.error_message) = (code, words);
    if asked.version <= 1 && code == ErrorCode::None {
        let feature = KRAFT_VERSION.to_owned();
        response.results = vec![FeatureResult { feature, ..FeatureResult::default() }];
    }
    encode_response(response, asked.version, asked.correlation)
}
