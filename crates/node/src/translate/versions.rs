//! ApiVersions: which requests this node serves, in which versions, and the features of its quorum
//! with the levels that it speaks and those that are in force.

use super::Names;
use super::inbound::{Refused, close};
use crate::level::FORMAT_FEATURE;
use quorate_base::{FormatLevel, Offset};
use quorate_raft as raft;
use quorate_wire::message as wire;
use quorate_wire::{ApiKey, Error, Frame, RequestFrame, Served, encode_response};

/// To an ApiVersions request of a version that we do not speak: our versions, in the form all read.
pub(crate) fn unsupported(error: &Error) -> Option<Frame> {
    let Error::UnsupportedVersion { api: ApiKey::ApiVersions, correlation_id, .. } = error else {
        return None;
    };
    encode_response(wire::ApiVersionsResponse::unsupported_version(), 0, *correlation_id).ok()
}

/// The answer to an ApiVersions request.
pub(crate) fn api_versions(
    request: RequestFrame,
    names: &Names,
    format: Option<Format>,
) -> Result<Frame, Refused> {
    let (version, correlation) = (request.header.version, request.header.correlation_id);
    request.decode::<wire::ApiVersionsRequest>().map_err(close)?;
    let announced = |served: &Served| {
        let max_version = names.speaks.newest(*served)?;
        Some(wire::ApiVersion { max_version, ..wire::ApiVersion::from(served.api()) })
    };
    // A node of Kafka's that takes this one for the active controller has to be told that it is not
    // [P69].
    let mut api_keys: Vec<_> =
        Served::ALL.iter().filter_map(announced).chain(quorate_wire::only_active()).collect();
    api_keys.sort_by_key(|api| api.api_key);
    // Readers of older versions know no range that begins at 0.
    let supported_features = match version {
        ..=3 => Vec::new(),
        _ => [kraft_feature()].into_iter().chain(format.map(format_feature)).collect(),
    };
    // A feature at level 0 has none in force.
    let kraft = format.map(|format| finalized(super::KRAFT_VERSION, format.kraft_version as i16));
    let own = format.map(|format| finalized(FORMAT_FEATURE, level_number(format.level)));
    let in_force = [kraft, own].into_iter().flatten();
    let finalized_features: Vec<_> = in_force.filter(|at| at.max_version_level > 0).collect();
    let as_of = format.filter(|_| !finalized_features.is_empty());
    let response = wire::ApiVersionsResponse {
        api_keys,
        supported_features,
        finalized_features_epoch: as_of.map_or(-1, |format| format.as_of.0 as i64),
        finalized_features,
        ..wire::ApiVersionsResponse::default()
    };
    encode_response(response, version, correlation).map_err(close)
}

/// What a leader that is to add this node as a voter has to know of it (KIP-853).
fn kraft_feature() -> wire::SupportedFeature {
    let (least, greatest) = raft::KRAFT_VERSIONS;
    wire::SupportedFeature {
        name: super::KRAFT_VERSION.to_owned(),
        min_version: least as i16,
        max_version: greatest as i16,
        ..wire::SupportedFeature::default()
    }
}

/// The format level of a store, for those who ask for versions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// The newest that this node speaks.
    pub newest: FormatLevel,
    /// That of the applied state.
    pub level: FormatLevel,
    /// The `kraft.version` in force.
    pub kraft_version: u16,
    /// The end of that state.
    pub as_of: Offset,
}

fn finalized(name: &str, level: i16) -> wire::FinalizedFeature {
    wire::FinalizedFeature {
        name: name.to_owned(),
        max_version_level: level,
        min_version_level: level,
        ..wire::FinalizedFeature::default()
    }
}

fn format_feature(format: Format) -> wire::SupportedFeature {
    wire::SupportedFeature {
        name: FORMAT_FEATURE.to_owned(),
        min_version: 0,
        max_version: level_number(format.newest),
        ..wire::SupportedFeature::default()
    }
}

fn level_number(level: FormatLevel) -> i16 {
    i16::try_from(level.0).unwrap_or(i16::MAX)
}
