//! A node of Kafka 4.0 in a quorum of ours, following and leading, with a recorder between all of
//! them: every frame that either side sent is read to its last byte and written again as it was.

use crate::recorder::Recorder;
use crate::scenario::{Failure, Stage, ensure};
use crate::scenarios::nodes::Quorum;
use quorate_wire::{ApiKey, Kind, read_whole};
use std::collections::BTreeMap;
use std::path::Path;

pub fn follows_and_leads(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Quorum::format(stage, directory, &[])?;
    let recorder = Recorder::create(&directory.join("frames.jsonl"), "4.0.2 static")?;
    quorum.stand_between(&recorder)?;
    quorum.let_lead(&stage.elder)?;
    quorum.kafka_said_no_error()?;
    every_frame_is_known(&recorder)
}

fn every_frame_is_known(recorder: &Recorder) -> Result<(), Failure> {
    let mut counts: BTreeMap<(i16, bool), usize> = BTreeMap::new();
    for recorded in recorder.kept() {
        let (key, version, kind) = (recorded.key, recorded.version, recorded.kind);
        let api = ApiKey::from_key(key);
        let api = api.ok_or_else(|| Failure(format!("nobody here asks for API {key}")))?;
        let whole = read_whole(api, kind, version, recorded.frame.clone())
            .map_err(|error| Failure(format!("{api} {version} {kind:?}: {error}: {recorded:?}")))?;
        ensure(whole.written == recorded.frame, || {
            format!("{api} {version} {kind:?} is written differently: {recorded:?} is {whole:?}")
        })?;
        *counts.entry((key, kind == Kind::Request)).or_default() += 1;
    }
    for api in [
        ApiKey::ApiVersions,
        ApiKey::Fetch,
        ApiKey::Vote,
        ApiKey::BeginQuorumEpoch,
        ApiKey::EndQuorumEpoch,
    ] {
        for request in [true, false] {
            ensure(counts.contains_key(&(api.key(), request)), || {
                format!("no {api} was recorded, request {request}: {counts:?}")
            })?;
        }
    }
    Ok(())
}
