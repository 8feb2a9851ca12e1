//! UpdateFeatures (KIP-584) of the features that a quorum itself has: `kraft.version`, to the
//! core's words and its answer back, and `quorate.format`, the level of the store that we define.
//! The features of a Kafka cluster are its controllers' to set.

use super::KRAFT_VERSION;
use super::inbound::{self, Refusal, Refused};
use crate::level::{FORMAT_FEATURE, Unraised};
use crate::replica::Asked;
use quorate_base::FormatLevel;
use quorate_raft::{ChangeAnswer, ErrorKind, Upgrade};
use quorate_wire::message::{FeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse};
use quorate_wire::{Error, ErrorCode, Frame, RequestFrame, encode_response};

/// `UpgradeType` 1: only up.
const UPGRADE: i8 = 1;

/// What somebody asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// Voters in the log.
    Voters(Upgrade),
    /// Another format level.
    Format { level: FormatLevel, validate_only: bool },
    /// Another format level, and it may be a lower one.
    NotUp,
}

/// A request for another level of one of them.
pub(crate) fn wanted(request: RequestFrame) -> Result<Wanted, Refused> {
    let UpdateFeaturesRequest { feature_updates, validate_only, .. } =
        request.decode().map_err(inbound::close)?;
    let [update] = &feature_updates[..] else {
        return Err(inbound::partition_error(ErrorCode::InvalidRequest));
    };
    let Ok(level) = u16::try_from(update.max_version_level) else {
        return Err(inbound::partition_error(ErrorCode::InvalidRequest));
    };
    match update.feature.as_str() {
        KRAFT_VERSION => Ok(Wanted::Voters(Upgrade { version: level, validate_only })),
        FORMAT_FEATURE if update.upgrade_type == UPGRADE && !update.allow_downgrade => {
            Ok(Wanted::Format { level: FormatLevel(level), validate_only })
        }
        FORMAT_FEATURE => Ok(Wanted::NotUp),
        _ => Err(inbound::partition_error(ErrorCode::InvalidRequest)),
    }
}

/// The core's answer.
pub(super) fn answer(asked: Asked, answer: &ChangeAnswer) -> Result<Frame, Error> {
    let code = match answer.error == ErrorKind::NotLeaderOrFollower {
        // So Kafka's tools look for the leader anew.
        true => ErrorCode::NotController,
        false => super::error_code(answer.error),
    };
    told(asked, KRAFT_VERSION, code, answer.why.as_ref().map(ToString::to_string))
}

/// The answer to a request for a format level.
pub(crate) fn raised(asked: Asked, refused: Option<&Unraised>) -> Result<Frame, Error> {
    let code = refused.map_or(ErrorCode::None, Unraised::code);
    told(asked, FORMAT_FEATURE, code, refused.map(ToString::to_string))
}

/// The answer to a request that did not reach the core.
pub(super) fn refusal(asked: Asked, refusal: &Refusal) -> Result<Frame, Error> {
    let code = match refusal {
        Refusal::Cluster(_) => ErrorCode::InconsistentClusterId,
        Refusal::TopLevel(code) | Refusal::Partition(code) => *code,
        Refusal::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
    };
    let words = format!(
        "this quorum has the features {KRAFT_VERSION} and {FORMAT_FEATURE}; ask for a level of one of them at a time, 0 or more"
    );
    told(asked, KRAFT_VERSION, code, Some(words))
}

fn told(
    asked: Asked,
    feature: &str,
    code: ErrorCode,
    words: Option<String>,
) -> Result<Frame, Error> {
    let mut response = UpdateFeaturesResponse::default();
    (response.error_code, response.error_message) = (code, words);
    if asked.version <= 1 && code == ErrorCode::None {
        let feature = feature.to_owned();
        response.results = vec![FeatureResult { feature, ..FeatureResult::default() }];
    }
    encode_response(response, asked.version, asked.correlation)
}
