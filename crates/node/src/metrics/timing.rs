//! How long one stage took, each time: counts by duration, within one in a hundred.
//!
//! An HDR histogram whose room is taken when it is made: microseconds up to an hour, longer ones
//! count as an hour.

use super::Stage;
use super::picture::{Bucket, Latency, StagePicture};
use hdrhistogram::Histogram;
use quorate_base::Span;

/// An hour, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;

/// Where the buckets of `/metrics` end, in microseconds.
const BUCKETS_US: [u64; 20] = [
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    60_000_000,
    u64::MAX,
];

pub(crate) struct Timing {
    histogram: Histogram<u64>,
    /// Of all, in microseconds: the histogram knows it only roughly.
    sum_us: u64,
}

impl Timing {
    pub fn new() -> Timing {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 2);
        Timing { histogram: histogram.expect("the bounds make sense"), sum_us: 0 }
    }

    pub fn record(&mut self, span: Span) {
        self.histogram.saturating_record(span.0);
        self.sum_us = self.sum_us.saturating_add(span.0);
    }

    /// `None` if it never happened.
    pub fn latency(&self, stage: Stage) -> Option<Latency> {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        (!self.histogram.is_empty()).then(|| Latency {
            stage: stage.name().to_owned(),
            count: self.histogram.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.histogram.max(),
        })
    }

    pub fn picture(&self, stage: Stage) -> StagePicture {
        let bucket = |end_us: u64| Bucket { end_us, count: 0 };
        let mut buckets: Vec<Bucket> = BUCKETS_US.into_iter().map(bucket).collect();
        for step in self.histogram.iter_recorded() {
            let at = buckets.partition_point(|bucket| bucket.end_us < step.value_iterated_to());
            buckets[at].count += step.count_since_last_iteration();
        }
        let (count, sum_us) = (self.histogram.len(), self.sum_us);
        StagePicture { stage, count, sum_us, buckets, latency: self.latency(stage) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_duration_and_none_is_lost() {
        let mut timing = Timing::new();
        assert_eq!(timing.latency(Stage::Sync), None);
        for us in 1..=1_000 {
            timing.record(Span(us));
        }
        timing.record(Span(u64::MAX));
        timing.record(Span::ZERO);
        let picture = timing.picture(Stage::Sync);
        let counted: u64 = picture.buckets.iter().map(|bucket| bucket.count).sum();
        assert_eq!((picture.count, counted), (1_002, 1_002));
        // Of 0 to 50: the steps of the histogram are that fine.
        assert_eq!(picture.buckets[0], Bucket { end_us: 50, count: 51 });
        assert_eq!(picture.buckets.last().map(|last| last.count), Some(1));
        let latency = picture.latency.expect("it happened");
        assert!((495..=505).contains(&latency.p50_us), "{latency:?}");
        assert!((985..=995).contains(&latency.p99_us), "{latency:?}");
        assert!(latency.max_us >= LONGEST_US, "{latency:?}");
    }
}
