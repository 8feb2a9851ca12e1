//! The tables, with the facts of the machine beside them; as text and as JSON.

use crate::Failure;
use crate::catchup::CatchUp;
use crate::failover::Failover;
use crate::footprint::Footprint;
use crate::load::{KEYS, VALUE_BYTES};
use crate::machine::Machine;
use crate::paced::{Latency, RATE};
use crate::retention::Retention;
use crate::throughput::Throughput;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// Several measurements of one thing.
#[derive(Clone, Copy, Serialize)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// All but one in a hundred are at most this; the largest if there are fewer.
    pub p99: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// Of some rounds.
pub fn summary(values: Vec<f64>) -> Summary {
    distribution(values)
}

/// Of many single measurements.
pub fn distribution(mut values: Vec<f64>) -> Summary {
    values.sort_by(f64::total_cmp);
    let at = |quantile: f64| {
        let rank = (quantile * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    };
    Summary { median: at(0.5), p99: at(0.99), least: at(0.0), most: at(1.0) }
}

/// All that was measured in one go.
#[derive(Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Whether it was only a look.
    pub quick: bool,
    /// Loads.
    pub throughput: Option<Throughput>,
    /// Kills.
    pub failover: Option<Failover>,
    /// Idle nodes and starts.
    pub footprint: Option<Footprint>,
    /// A follower that copies a snapshot.
    pub catch_up: Option<CatchUp>,
    /// Many records within a limit.
    pub retention: Option<Retention>,
}

impl Report {
    /// Nothing measured so far.
    pub fn new(machine: Machine, quick: bool) -> Report {
        Report {
            machine,
            quick,
            throughput: None,
            failover: None,
            footprint: None,
            catch_up: None,
            retention: None,
        }
    }

    /// Writes `NAME.md` and `NAME.json`.
    pub fn write(&self, place: &Path, name: &str) -> Result<(), Failure> {
        std::fs::create_dir_all(place)?;
        std::fs::write(place.join(format!("{name}.md")), self.to_string())?;
        let json = serde_json::to_string_pretty(self)?;
        std::fs::write(place.join(format!("{name}.json")), json + "\n")?;
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshots = self.catch_up.is_some() || self.retention.is_some();
        let title = if snapshots { "Figures of snapshots" } else { "First figures" };
        writeln!(f, "# {title}\n")?;
        writeln!(
            f,
            "Three nodes (release build, default settings, every sync on) and the client share one \
             machine over loopback. Absolute figures of such a machine wander; compare only what was \
             measured in one run."
        )?;
        if self.quick {
            writeln!(f, "\nA quick look: too short to be quoted.")?;
        }
        self.machine(f)?;
        if let Some(footprint) = &self.footprint {
            self.footprint(f, footprint)?;
        }
        if let Some(throughput) = &self.throughput {
            self.throughput(f, throughput)?;
        }
        if let Some(failover) = &self.failover {
            self.failover(f, failover)?;
        }
        if let Some(catch_up) = &self.catch_up {
            self.catch_up(f, catch_up)?;
        }
        if let Some(retention) = &self.retention {
            self.retention(f, retention)?;
        }
        Ok(())
    }
}

impl Report {
    fn machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, memory_gb, kernel, commit, .. } = &self.machine;
        let Machine { sync_p50_ms, sync_p99_ms, load_average, .. } = &self.machine;
        let loads: Vec<String> = load_average.iter().map(|load| format!("{load:.2}")).collect();
        writeln!(f, "\n| machine | |\n|---|---|")?;
        writeln!(
            f,
            "| processor | {processor}, {cores} cores, {memory_gb:.0} GB, Linux {kernel} |"
        )?;
        writeln!(
            f,
            "| disk | append of 256 B with fdatasync: p50 {sync_p50_ms:.3} ms, p99 {sync_p99_ms:.3} ms |"
        )?;
        writeln!(f, "| load average before and after | {} |", loads.join(", "))?;
        writeln!(f, "| commit | {commit} |")
    }

    fn footprint(&self, f: &mut fmt::Formatter<'_>, footprint: &Footprint) -> fmt::Result {
        let Footprint { idle_mb, join_ms, cold_ms, repeats } = footprint;
        let idle: Vec<String> = idle_mb.iter().map(|mb| format!("{mb:.1}")).collect();
        writeln!(f, "\n## Footprint\n\n| what | median | least - most |\n|---|---|---|")?;
        writeln!(f, "| resident memory of an idle, empty node, MB | {} | |", idle.join(", "))?;
        let mut line = |what: &str, Summary { median, least, most, .. }: &Summary| {
            writeln!(f, "| {what}, ms | {median:.0} | {least:.0} - {most:.0} |")
        };
        line("a follower of a live quorum, killed before: process start to ready", join_ms)?;
        line("all three, killed before: process start to the first acknowledged write", cold_ms)?;
        writeln!(f, "\n{repeats} starts of each kind, next to nothing in the log.")
    }

    fn throughput(&self, f: &mut fmt::Formatter<'_>, throughput: &Throughput) -> fmt::Result {
        writeln!(f, "\n## Throughput and latency\n")?;
        writeln!(
            f,
            "| what | connections | in flight | per second | p50 ms | p99 ms | p99.9 ms |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|")?;
        for row in &throughput.rows {
            let rate = |Summary { median, least, most, .. }: &Summary| {
                format!("{median:.0} ({least:.0} - {most:.0})")
            };
            let ms = |Summary { median, least, most, .. }: &Summary| {
                format!("{median:.2} ({least:.2} - {most:.2})")
            };
            writeln!(
                f,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.what,
                row.connections,
                row.in_flight,
                rate(&row.per_second),
                ms(&row.p50_ms),
                ms(&row.p99_ms),
                ms(&row.p999_ms)
            )?;
        }
        let Throughput { seconds, warm_up_seconds, rounds, .. } = throughput;
        writeln!(
            f,
            "\nClosed loop against the leader: each answer makes room for the next request. Values of \
             {VALUE_BYTES} B, {KEYS} keys. Medians of {rounds} interleaved rounds of {seconds:.0} s after \
             {warm_up_seconds} s of warm-up, each round on new nodes; least and most in brackets. Forward is \
             the private API between nodes, one write a request, pipelined."
        )
    }

    fn failover(&self, f: &mut fmt::Formatter<'_>, failover: &Failover) -> fmt::Result {
        writeln!(f, "\n## kill -9 of the leader\n")?;
        writeln!(
            f,
            "| clients | p50 ms | p99 ms | least - most ms | acknowledged writes | failed writes |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|")?;
        for seen in &failover.seen {
            let Summary { median, p99, least, most } = &seen.gap_ms;
            writeln!(
                f,
                "| {} | {median:.0} | {p99:.0} | {least:.0} - {most:.0} | {} | {} |",
                seen.what, seen.acknowledged, seen.failed
            )?;
        }
        writeln!(
            f,
            "\nThe longest time between two acknowledged writes around each of {} kills, at default \
             timeouts. Both kinds of clients at once, over HTTP through all nodes; the killed node is back \
             and level before the next kill. With so few kills p99 is the largest but {}.",
            failover.kills,
            failover.kills / 100
        )
    }
}

impl Report {
    fn catch_up(&self, f: &mut fmt::Formatter<'_>, catch_up: &CatchUp) -> fmt::Result {
        let CatchUp {
            snapshot_bytes,
            behind,
            copied_s,
            mb_per_s,
            level_s,
            rounds,
            commits,
            most_mb,
        } = catch_up;
        writeln!(f, "\n## A follower behind a trimmed log\n")?;
        writeln!(f, "| what | median | least - most |\n|---|---:|---:|")?;
        writeln!(f, "| snapshot, MB | {:.0} | |", *snapshot_bytes as f64 / 1e6)?;
        writeln!(f, "| records that the follower lacked | {behind} | |")?;
        let mut line =
            |what: &str, Summary { median, least, most, .. }: &Summary, digits: usize| {
                writeln!(f, "| {what} | {median:.digits$} | {least:.digits$} - {most:.digits$} |")
            };
        line("process start until it is copied, checked and in place, s", copied_s, 2)?;
        line("the snapshot's bytes in that time, MB/s", mb_per_s, 0)?;
        line("process start until the follower serves again, s", level_s, 2)?;
        let [leader, follower] = most_mb;
        writeln!(
            f,
            "| most memory of the leader, of the follower, MB | {leader:.0}, {follower:.0} | |"
        )?;
        writeln!(f, "\n| commits | writes | p50 ms | p99 ms | p99.9 ms | longest ms |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|")?;
        for Latency { when, writes, p50_ms, p99_ms, p999_ms, most_ms } in commits {
            writeln!(
                f,
                "| {when} | {writes} | {p50_ms:.2} | {p99_ms:.2} | {p999_ms:.2} | {most_ms:.1} |"
            )?;
        }
        writeln!(
            f,
            "\nValues of 1 KiB, each key once, `metadata.max.retention.bytes=0`; one of three nodes was away \
             since the beginning; {rounds} rounds, from the second on with its directory emptied. Commits are of {RATE} writes/s of {VALUE_BYTES} B at a fixed rate, each counted \
             from when it was due."
        )
    }

    fn retention(&self, f: &mut fmt::Formatter<'_>, retention: &Retention) -> fmt::Result {
        let Retention { records, limit_bytes, most_bytes, looks, per_second } = retention;
        let mb = |bytes: &u64| *bytes as f64 / 1e6;
        writeln!(f, "\n## Many records through a small retention\n\n| what | |\n|---|---:|")?;
        writeln!(f, "| records of {VALUE_BYTES} B | {records} |")?;
        writeln!(f, "| `metadata.max.retention.bytes`, MB | {:.1} |", mb(limit_bytes))?;
        writeln!(f, "| most that any node's files took, MB | {:.1} |", mb(most_bytes))?;
        writeln!(f, "| records a second | {per_second:.0} |")?;
        writeln!(
            f,
            "\nFiles as the file system counts them, half-written and removed ones included, looked at {looks} \
             times while the records were written. More than the limit fails the run."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measurements_that_were_made() {
        let check = |values: Vec<f64>, expect: [f64; 4]| {
            let Summary { median, p99, least, most } = distribution(values);
            assert_eq!([median, p99, least, most], expect);
        };
        check(vec![3.0], [3.0; 4]);
        check(vec![3.0, 1.0, 2.0], [2.0, 3.0, 1.0, 3.0]);
        check((1..=200).map(f64::from).collect(), [100.0, 198.0, 1.0, 200.0]);
    }
}
