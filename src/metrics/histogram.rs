//! Counts of durations by bucket.

use std::time::Duration;

/// Counts of durations, each in the first bucket whose bound it does not exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [Duration],
    /// One more than the bounds, for durations above all bounds.
    counts: Box<[u64]>,
    sum: Duration,
}

impl Histogram {
    /// Creates an empty histogram. The bounds must ascend.
    pub fn new(bounds: &'static [Duration]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1].into(), sum: Duration::ZERO }
    }

    /// Counts a duration.
    pub fn observe(&mut self, time: Duration) {
        let step = self.bounds.iter().position(|bound| time <= *bound).unwrap_or(self.bounds.len());
        self.counts[step] += 1;
        self.sum = self.sum.saturating_add(time);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns each bound with the number of durations that do not exceed it.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let up_to = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        self.bounds.iter().copied().zip(up_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: &[Duration] = &[Duration::from_millis(1), Duration::from_millis(10)];

    #[test]
    fn a_time_counts_in_every_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::new(BOUNDS);
        [0, 1, 2, 10, 11].iter().for_each(|millis| histogram.observe(Duration::from_millis(*millis)));
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!((counts, histogram.count(), histogram.sum()), (vec![2, 4], 5, Duration::from_millis(24)));
    }
}
