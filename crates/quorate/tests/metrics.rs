//! `/metrics` of a node, read by a parser that is not ours (prometheus-parse): the names are those
//! that docs/OPERATING.md explains, and what a lone node counts is what was done to it.
//!
//! What takes several nodes is in `tests/processes`.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use prometheus_parse::{Scrape, Value};
use std::collections::{BTreeMap, BTreeSet};
use support::{Lone, Scratch, http, wait_for};

/// Every sample by its name; a histogram's count by the name of the histogram.
fn samples(url: &str) -> BTreeMap<String, f64> {
    let (status, text) = http(url, "GET", "/metrics", "").unwrap();
    assert_eq!(status, 200, "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let mut samples = BTreeMap::new();
    for sample in scrape.samples {
        let value = match sample.value {
            Value::Histogram(buckets) => {
                let ends: Vec<f64> = buckets.iter().map(|bucket| bucket.less_than).collect();
                assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
                let counts: Vec<f64> = buckets.iter().map(|bucket| bucket.count).collect();
                assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "{counts:?}");
                assert_eq!(ends.last(), Some(&f64::INFINITY));
                *counts.last().unwrap()
            }
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
            Value::Summary(_) => panic!("a summary: {}", sample.metric),
        };
        samples.insert(sample.metric, value);
    }
    samples
}

#[test]
fn a_lone_node_counts_what_is_done_to_it() {
    let scratch = Scratch::new("metrics-lone");
    let node = Lone::start(&scratch);
    for number in 0..20 {
        node.put(&format!("key-{number}"), "value");
    }
    let seen = samples(&node.url);
    let of = |name: &str| *seen.get(name).unwrap_or_else(|| panic!("no {name} in {seen:#?}"));
    assert_eq!(of("quorate_write_seconds"), 20.0);
    assert_eq!(of("quorate_commit_seconds"), of("quorate_commit_seconds_count"));
    assert!((1.0..=20.0).contains(&of("quorate_commit_seconds")), "writes share batches");
    assert!(of("quorate_log_sync_seconds") >= 1.0 && of("quorate_log_sync_seconds_sum") > 0.0);
    assert!(of("quorate_apply_seconds") >= 1.0);
    assert_eq!(of("quorate_election_seconds"), 1.0);
    assert_eq!(of("quorate_election_first_commit_seconds"), 1.0);
    assert_eq!(of("quorate_voter_change_seconds"), 0.0);
    assert_eq!(of("quorate_high_watermark_propagation_seconds"), 0.0);
    assert_eq!(of("quorate_raft_current_state"), 1.0);
    assert_eq!(of("quorate_raft_current_leader"), 1.0);
    assert_eq!(of("quorate_raft_current_vote"), 1.0);
    assert_eq!(of("quorate_raft_number_of_voters"), 1.0);
    assert_eq!(of("quorate_raft_number_of_observers"), 0.0);
    assert_eq!(of("quorate_ready"), 1.0);
    // The first record of the epoch, and those of the writes.
    assert_eq!(of("quorate_raft_append_records_total"), of("quorate_raft_log_end_offset"));
    assert_eq!(of("quorate_raft_high_watermark"), of("quorate_raft_log_end_offset"));
    assert_eq!(of("quorate_applied_offset"), of("quorate_raft_log_end_offset"));
    assert_eq!(of("quorate_log_durable_offset"), of("quorate_raft_log_end_offset"));
    assert_eq!(of("quorate_raft_fetch_records_total"), 0.0);

    // The same in `/status`.
    let (_, status) = http(&node.url, "GET", "/status", "").unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let latencies = status["latencies"].as_array().unwrap();
    let writes = latencies.iter().find(|latency| latency["stage"] == "write").unwrap();
    assert_eq!(writes["count"], 20);
    let at = |name: &str| writes[name].as_u64().unwrap();
    assert!(at("p50_us") > 0 && at("p50_us") <= at("p99_us") && at("p99_us") <= at("max_us"));
    assert!(latencies.iter().all(|latency| latency["stage"] != "voter_change"), "{latencies:?}");

    // Time goes on.
    let (idle, uptime) = ("quorate_raft_poll_idle_seconds_total", "quorate_uptime_seconds_total");
    let (idle_before, uptime_before) = (of(idle), of(uptime));
    wait_for("time to pass", || {
        let later = samples(&node.url);
        assert!(later[idle] <= later[uptime], "{later:?}");
        (later[idle] > idle_before && later[uptime] > uptime_before).then_some(())
    });
}

#[test]
fn every_metric_is_explained_and_nothing_else() {
    let scratch = Scratch::new("metrics-names");
    let node = Lone::start(&scratch);
    node.put("key", "value");
    let seen: BTreeSet<String> = samples(&node.url)
        .into_keys()
        .filter(|name| !name.ends_with("_seconds_sum") && !name.ends_with("_seconds_count"))
        .collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATING.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let words = section.split('`').skip(1).step_by(2);
    let explained: BTreeSet<String> = words
        .filter(|word| word.starts_with("quorate_") && word.len() > 8)
        .map(str::to_owned)
        .collect();
    assert_eq!(explained, seen, "what the page explains, and what there is");
}
