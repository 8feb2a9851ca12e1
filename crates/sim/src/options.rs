//! The numbers of one world: how many nodes, how slow everything is, which limits are set.
//!
//! Every number has a name in the plan's text, so that a plan says all there is to a run, and a
//! range within which a world without faults is well if it has the time. Drawn from a seed they
//! differ wildly, because a fault shows where two unusual numbers meet.

use quorate_base::Rng;
use std::ops::RangeInclusive;

/// A reserve that no run uses up: a node with so much lives through every full disk.
pub(crate) const AMPLE_RESERVE: u64 = 8 << 20;

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $range:expr),+ $(,)?) => {
        /// The numbers of one world.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Options { $($(#[$doc])* pub $name: u64,)+ }

        impl Options {
            /// Every name and its number.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }

            /// The place of the number with this name, and what it may be.
            pub(crate) fn entry(&mut self, name: &str) -> Option<(&mut u64, RangeInclusive<u64>)> {
                match name {
                    $(stringify!($name) => Some((&mut self.$name, $range)),)+
                    _ => None,
                }
            }
        }
    };
}

options! {
    /// Nodes 1 to so many vote; where `dynamic` is 1, at first.
    voters: 1..=15,
    /// So many more only copy.
    observers: 0..=15,
    /// So many of those who only copy have no `node.id`.
    anonymous: 0..=15,
    /// 1: every node has bootstrap servers as well. 2: those who only copy know nothing else.
    bootstrap: 0..=2,
    /// Clients, each with one request at a time.
    clients: 0..=100,
    /// Least time of a frame on its way, in microseconds.
    latency_us: 0..=50_000,
    /// Random time on top.
    jitter_us: 0..=50_000,
    /// One frame in so many takes `spike_ms` longer; 0 for none.
    spike_one_in: 0..=1_000_000_000,
    /// See `spike_one_in`.
    spike_ms: 0..=10_000,
    /// Least time of a run of the disk.
    disk_us: 0..=50_000,
    /// Random time on top.
    disk_jitter_us: 0..=50_000,
    /// Longest time between something happening to a node and its turn.
    turn_us: 0..=10_000,
    /// `controller.quorum.election.timeout.ms`
    election_ms: 20..=10_000,
    /// `controller.quorum.fetch.timeout.ms`
    fetch_ms: 20..=10_000,
    /// `controller.quorum.request.timeout.ms`
    request_ms: 20..=10_000,
    /// `controller.quorum.fetch.max.bytes`
    fetch_bytes: 1..=1 << 30,
    /// `metadata.log.segment.bytes`
    segment_bytes: 1..=1 << 30,
    /// `metadata.log.segment.ms`
    segment_ms: 1..=10_000_000_000,
    /// `quorate.tail.max.bytes`
    tail_bytes: 0..=1 << 30,
    /// `quorate.uncommitted.max.bytes`
    uncommitted_bytes: 300..=1 << 30,
    /// What a leader commits at most before its own disk has it.
    unstored_bytes: 1..=1 << 30,
    /// `quorate.reserve.bytes`
    reserve_bytes: 0..=AMPLE_RESERVE,
    /// `metadata.log.max.record.bytes.between.snapshots`
    snapshot_bytes: 1..=1 << 30,
    /// `metadata.log.max.snapshot.interval.ms`
    snapshot_ms: 0..=10_000_000_000,
    /// `controller.quorum.fetch.snapshot.max.bytes`
    piece_bytes: 1..=1 << 30,
    /// `quorate.cleanup.policy`: 0 for `delete`, 1 for `compact`.
    compact: 0..=1,
    /// `metadata.max.retention.bytes`
    retention_bytes: 0..=1 << 40,
    /// Time to live of the clients' sessions.
    session_ms: 1_000..=86_400_000,
    /// Length of a written value.
    value_bytes: 4..=65_536,
    /// Node clocks run by up to so many thousandths faster or slower.
    drift: 0..=500,
    /// The nodes that speak like an older version until they are upgraded, as bits: the lowest is
    /// node 1.
    older: 0..=(1 << 30) - 1,
    /// The nodes of a build that speaks no format level until they are upgraded, as bits: the
    /// lowest is node 1. Those of `older` do not either.
    level_zero: 0..=(1 << 30) - 1,
    /// The voters that are not to lead, as bits: the lowest is node 1. If no other is left when the
    /// faults end, they may after all.
    never_lead: 0..=(1 << 15) - 1,
    /// 1: the voters are in the log (`kraft.version` 1), founded by a bootstrap snapshot, and may
    /// change. All nodes are bootstrap servers then, and `bootstrap` means nothing.
    dynamic: 0..=1,
    /// 1: observers with a `node.id` become voters by themselves, where `dynamic` is 1
    /// (`controller.quorum.auto.join.enable`).
    auto_join: 0..=1,
    /// So many voters stay away when the faults end; never a majority.
    away: 0..=15,
    /// When faults end.
    heal_ms: 1..=3_600_000,
    /// How long after that all must be well.
    recover_ms: 5_000..=3_600_000,
}

impl Default for Options {
    /// Three voters on a good network with good disks, and timeouts a fifth of Kafka's, so that a
    /// short run sees several elections.
    fn default() -> Options {
        Options {
            voters: 3,
            observers: 0,
            anonymous: 0,
            bootstrap: 0,
            clients: 4,
            latency_us: 200,
            jitter_us: 300,
            spike_one_in: 0,
            spike_ms: 50,
            disk_us: 300,
            disk_jitter_us: 700,
            turn_us: 20,
            election_ms: 200,
            fetch_ms: 400,
            request_ms: 400,
            fetch_bytes: 1 << 20,
            segment_bytes: 1 << 20,
            segment_ms: 7 * 24 * 3_600 * 1_000,
            tail_bytes: 1 << 20,
            uncommitted_bytes: 1 << 20,
            unstored_bytes: 1 << 20,
            reserve_bytes: AMPLE_RESERVE,
            snapshot_bytes: 20 << 20,
            snapshot_ms: 0,
            piece_bytes: 1 << 20,
            compact: 0,
            retention_bytes: 100 << 20,
            session_ms: 60_000,
            value_bytes: 16,
            drift: 0,
            older: 0,
            level_zero: 0,
            never_lead: 0,
            dynamic: 0,
            auto_join: 0,
            away: 0,
            heal_ms: 8_000,
            recover_ms: 12_000,
        }
    }
}

impl Options {
    /// The numbers of a seed.
    pub(crate) fn draw(rng: &mut Rng) -> Options {
        let mut pick = |from: &[u64]| from[rng.below(from.len() as u64) as usize];
        let election_ms = pick(&[100, 200, 200, 400]);
        let mut options = Options {
            voters: pick(&[1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7]),
            observers: pick(&[0, 0, 0, 0, 1, 2, 3, 5]),
            anonymous: pick(&[0, 0, 1, 5]),
            bootstrap: pick(&[0, 0, 1, 2]),
            clients: pick(&[1, 3, 4, 6]),
            latency_us: pick(&[20, 200, 200, 1_000, 5_000]),
            jitter_us: pick(&[10, 300, 300, 2_000, 10_000]),
            spike_one_in: pick(&[0, 0, 1_000, 200, 50]),
            spike_ms: pick(&[10, 50, 300]),
            disk_us: pick(&[10, 300, 300, 2_000, 10_000]),
            disk_jitter_us: pick(&[10, 700, 5_000, 20_000]),
            turn_us: pick(&[1, 20, 500]),
            election_ms,
            fetch_ms: pick(&[300, 400, 800]),
            request_ms: pick(&[200, 400, 1_000]),
            fetch_bytes: pick(&[1, 300, 4_096, 1 << 20]),
            segment_bytes: pick(&[400, 4_096, 1 << 20]),
            segment_ms: pick(&[300, 2_000, 604_800_000]),
            tail_bytes: pick(&[0, 500, 8_192, 1 << 20]),
            uncommitted_bytes: pick(&[300, 1 << 20, 1 << 20]),
            unstored_bytes: pick(&[100, 400, 20_000, 1 << 20]),
            snapshot_bytes: pick(&[200, 2_000, 10_000, 20 << 20]),
            snapshot_ms: pick(&[0, 100, 2_000]),
            piece_bytes: pick(&[100, 1_000, 1 << 20]),
            compact: pick(&[0, 0, 1]),
            retention_bytes: pick(&[0, 1_000, 20_000, 100 << 20]),
            session_ms: pick(&[1_500, 60_000, 60_000]),
            value_bytes: pick(&[4, 16, 200]),
            reserve_bytes: pick(&[0, 20_000, AMPLE_RESERVE, AMPLE_RESERVE]),
            older: 0,
            level_zero: 0,
            never_lead: 0,
            dynamic: 0,
            auto_join: 0,
            drift: pick(&[0, 20, 200, 400]),
            away: pick(&[0, 0, 1, 3]),
            heal_ms: pick(&[4_000, 6_000, 8_000]),
            // An observer takes a random bootstrap server a second, and half of them may be away.
            recover_ms: 30_000,
        };
        // One batch a fetch over a slow network commits some twenty a second; with more than that
        // to do no request is answered in its time, and each is asked again.
        if options.latency_us + options.jitter_us > 2_000 {
            options.fetch_bytes = options.fetch_bytes.max(300);
        }
        let everyone = (1 << (options.voters + options.observers)) - 1;
        options.older = match rng.below(8) {
            0..5 => 0,
            5 => everyone,
            _ => rng.below(everyone + 1),
        };
        if rng.one_in(5) {
            options.never_lead = rng.below((1 << options.voters) - 1); // Never all of them.
        }
        // Last, so that the other seeds give what they gave before.
        if rng.one_in(3) {
            options.dynamic = 1;
            options.voters = [1, 2, 3, 3, 4, 5][rng.below(6) as usize];
            options.observers = options.observers.max(1 + rng.below(3));
            options.anonymous = options.anonymous.min(rng.below(options.observers.min(2)));
            options.auto_join = u64::from(rng.one_in(5));
            let founders = (1 << options.voters) - 1;
            options.older &= (1 << (options.voters + options.observers)) - 1;
            options.never_lead &=
                if options.never_lead & founders == founders { 0 } else { founders };
        }
        if rng.one_in(3) {
            let everyone = (1 << (options.voters + options.observers)) - 1;
            options.level_zero = if rng.one_in(2) { everyone } else { rng.below(everyone + 1) };
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::run::{How, run};

    /// Whoever edits a plan may set each number to the ends of its range.
    #[test]
    fn each_number_works_at_both_ends_of_its_range() {
        for (name, _) in Options::default().entries() {
            let (_, range) = Options::default().entry(name).map(|(_, r)| ((), r)).unwrap();
            for number in [*range.start(), *range.end()] {
                let mut options =
                    Options { heal_ms: 1_000, recover_ms: 100_000, ..Options::default() };
                if ["older", "level_zero"].contains(&name) {
                    (options.voters, options.observers) = (15, 15);
                }
                *options.entry(name).unwrap().0 = number;
                let last = options.heal_ms.min(1_000);
                let asks = (0..last).step_by(20).map(|ms| {
                    let client = 1 + ms / 20 % 4;
                    format!("{ms}ms client {client} put k0 always stamped at 1 within 4s\n")
                });
                let asks: String = if name == "clients" { String::new() } else { asks.collect() };
                let plan = Plan { seed: 1, options, steps: Vec::new() };
                let plan = Plan::parse(&format!("{plan}{asks}")).unwrap();
                assert_eq!(run(&plan, &How::default()).failure, None, "{name} {number}");
            }
        }
    }
}
