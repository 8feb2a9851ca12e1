//! `/metrics`: all that a node counts, as Prometheus reads it (OpenMetrics).
//!
//! Made from one picture of the node when it is asked for, so nothing is kept here.
//! docs/OPERATING.md lists the names, and says which of Kafka's each is.

use super::reply::{Refusal, Reply, with_type};
use hyper::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text::encode as as_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use quorate_machine::Machine;
use quorate_node::handle::Handle;
use quorate_node::metrics::{Picture, RoleName, StagePicture};
use std::fmt;

/// What Prometheus asks for, and curl shows.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the node.
pub(super) async fn metrics<M: Machine>(handle: &Handle<M>) -> Result<Reply, Refusal> {
    let picture = handle.metrics().await?;
    match told(picture) {
        Ok(text) => Ok(with_type(StatusCode::OK, TEXT, text)),
        Err(fmt::Error) => Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "no_metrics",
            "the metrics of this node could not be put into words",
        )),
    }
}

fn told(picture: Picture) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("quorate");
    registry.register_collector(Box::new(Exposed(picture)));
    let mut text = String::new();
    as_text(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Exposed(Picture);

impl Collector for Exposed {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let raft = &self.0.raft;
        for stage in &self.0.stages {
            histogram(&mut encoder, stage)?;
        }
        let (name, help) = ("raft_current_state", "What this node is in the quorum");
        encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?
            .encode_family(&[("state", raft.state.to_string())])?
            .encode_gauge(&1i64)?;
        for (name, help, value) in gauges(&self.0) {
            let Some(value) = value else { continue };
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let time = Some(Unit::Seconds);
        for (name, help, unit, value) in [
            (
                "raft_append_records",
                "Records appended as leader",
                None,
                raft.appended_records as f64,
            ),
            (
                "raft_fetch_records",
                "Records copied from a leader",
                None,
                raft.fetched_records as f64,
            ),
            (
                "raft_poll_idle",
                "While the node had nothing to do",
                time.clone(),
                seconds(raft.idle_us),
            ),
            ("uptime", "While the node has run", time, seconds(raft.uptime_us)),
        ] {
            encoder
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?
                .encode_counter::<NoLabelSet, f64, f64>(&value, None)?;
        }
        Ok(())
    }
}

/// Name, help and value; without one where only a leader would know it.
fn gauges(picture: &Picture) -> [(&'static str, &'static str, Option<i64>); 16] {
    let raft = &picture.raft;
    let observes = raft.state == RoleName::Observer;
    [
        ("raft_current_leader", "Who leads, -1 if that is not known", Some(raft.leader)),
        ("raft_current_vote", "Whom this node voted for in the epoch, -1 nobody", Some(raft.vote)),
        ("raft_current_epoch", "The newest epoch", Some(i64::from(raft.epoch))),
        (
            "raft_high_watermark",
            "One past the last committed offset, -1 if that is not known",
            Some(raft.high_watermark),
        ),
        ("raft_log_end_offset", "End of the log", Some(raft.log_end as i64)),
        ("raft_log_end_epoch", "The epoch of the last record", Some(i64::from(raft.log_end_epoch))),
        ("raft_number_of_voters", "How many count", Some(raft.voters as i64)),
        (
            "raft_number_unknown_voter_connections",
            "Voters of which it is not known where they listen: none",
            Some(0),
        ),
        ("raft_is_observer", "1 while this node follows and does not count", flag(Some(observes))),
        (
            "raft_number_of_observers",
            "How many fetch from this leader and do not count",
            raft.observers.map(|observers| observers as i64),
        ),
        (
            "raft_uncommitted_voter_change",
            "1 while the latest voters are not committed",
            flag(raft.uncommitted_change),
        ),
        (
            "raft_pending_add_voter",
            "1 while somebody waits for a voter to be added",
            flag(raft.pending_add),
        ),
        (
            "raft_pending_remove_voter",
            "1 while somebody waits for a voter to be removed",
            flag(raft.pending_remove),
        ),
        (
            "log_durable_offset",
            "End of what survives a crash of this node",
            Some(picture.durable as i64),
        ),
        ("applied_offset", "End of what reads see", Some(picture.applied as i64)),
        ("ready", "1 if the node serves", flag(Some(picture.ready))),
    ]
}

fn flag(is: Option<bool>) -> Option<i64> {
    is.map(i64::from)
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn histogram(encoder: &mut DescriptorEncoder<'_>, stage: &StagePicture) -> Result<(), fmt::Error> {
    let (name, help) = (stage.stage.name(), stage.stage.help());
    let kind = MetricType::Histogram;
    let end = |us: u64| if us == u64::MAX { f64::INFINITY } else { seconds(us) };
    let buckets: Vec<(f64, u64)> =
        stage.buckets.iter().map(|bucket| (end(bucket.end_us), bucket.count)).collect();
    encoder
        .encode_descriptor(name, help, Some(&Unit::Seconds), kind)?
        .encode_histogram::<NoLabelSet>(seconds(stage.sum_us), stage.count, &buckets, None)
}
