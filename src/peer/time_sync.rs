//! Network time, brought nearer to that of the others.
//!
//! Each round takes samples of the time of other nodes, weighs them by the importance of their accounts, and moves the
//! offset by which network time differs from the system's clock. The longer the node runs, the less it lets itself be
//! moved. A round costs little more than sorting its samples; of rounds the last [`MAX_ROUNDS`] are kept.

use std::collections::VecDeque;

use crate::model::Timestamp;

/// Most rounds that are told of.
pub const MAX_ROUNDS: usize = 100;
/// Difference between the clocks of this machine and of the others from which on it is told of, in milliseconds.
pub const CLOCK_TOLERANCE: u64 = 5_000;

/// Longest time in milliseconds between question and answer.
const MAX_DURATION: i64 = 1_000;
/// Rounds after which a node lets itself be moved less.
const YOUTH: u64 = 5;
/// How fast it does so.
const DECAY: f64 = 0.3;
/// Difference in milliseconds that is tolerated at first, and always.
const TOLERANCE: (f64, f64) = (7_200_000.0, 60_000.0);
/// Part of a difference by which a node lets itself be moved at first, and always.
const COUPLING: (f64, f64) = (1.0, 0.1);
/// Part of the samples that is left out as too far from the others.
const EXTREMES: f64 = 0.4;
/// Smallest change in milliseconds that is made.
const LEAST_CHANGE: u64 = 75;

/// A sample of another node's time. All times are network time in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When this node asked, by its own time.
    pub sent: i64,
    /// When the other was asked, by its time.
    pub remote_received: i64,
    /// When the other answered, by its time.
    pub remote_sent: i64,
    /// When this node had the answer, by its own time.
    pub received: i64,
    /// Importance of the other's account, 0 if it has none.
    pub importance: f64,
}

impl Sample {
    /// Milliseconds between question and answer.
    pub fn duration(&self) -> i64 {
        self.received.saturating_sub(self.sent)
    }

    /// By how many milliseconds the other's time is ahead of this node's, if question and answer took the same time.
    pub fn offset(&self) -> i64 {
        let [sent, remote_received, remote_sent, received] =
            [self.sent, self.remote_received, self.remote_sent, self.received].map(i128::from);
        let round_trip = (received - sent) - (remote_sent - remote_received);
        let offset = (remote_received - sent) - round_trip / 2;
        offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// A round that had samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// When it ended.
    pub time: Timestamp,
    /// Milliseconds by which network time is ahead of the system's clock since then.
    pub offset: i64,
    /// By how much it was changed.
    pub change: i64,
}

/// There were no samples, or none that could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSamples;

/// The offset of network time, and how it came about.
#[derive(Clone, Debug, Default)]
pub struct TimeSync {
    offset: i64,
    /// Rounds that had samples.
    age: u64,
    rounds: VecDeque<Round>,
    clock_difference: Option<i64>,
}

impl TimeSync {
    /// Milliseconds by which network time is ahead of the system's clock.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The last rounds, the oldest first.
    pub fn rounds(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter()
    }

    /// Milliseconds by which the clocks of the others are ahead of this machine's, by the last samples, if that is more
    /// than [`CLOCK_TOLERANCE`]. It is the middle of what they say, so that no single node can bring it about unless it
    /// is alone; it is seen also where the others are too far away for network time to follow them.
    pub fn clock_difference(&self) -> Option<i64> {
        self.clock_difference.filter(|difference| difference.unsigned_abs() > CLOCK_TOLERANCE)
    }

    /// Ends a round with the samples it has brought. `accounts` is the number of accounts in the last calculation of
    /// importances.
    pub fn round(&mut self, samples: &[Sample], accounts: u64, time: Timestamp) -> Result<Round, NoSamples> {
        let fast: Vec<_> = samples.iter().filter(|sample| sample.duration() <= MAX_DURATION).copied().collect();
        if let Some(difference) = clock_difference(&fast, self.offset) {
            self.clock_difference = Some(difference);
        }
        let used = usable(&fast, self.age);
        if used.is_empty() {
            return Err(NoSamples);
        }
        let change = change(&used, accounts, self.age);
        let change = if change.unsigned_abs() <= LEAST_CHANGE { 0 } else { change };
        self.offset = self.offset.saturating_add(change);
        self.age += 1;
        let round = Round { time, offset: self.offset, change };
        if self.rounds.len() == MAX_ROUNDS {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
        Ok(round)
    }
}

/// By how many milliseconds others are ahead of the system's clock, of which network time is ahead by `offset`: the one
/// in the middle, of the two there of an even number the one that differs less.
fn clock_difference(samples: &[Sample], offset: i64) -> Option<i64> {
    let mut differences: Vec<_> = samples.iter().map(|sample| sample.offset().saturating_add(offset)).collect();
    differences.sort_unstable();
    let upper = *differences.get(differences.len() / 2)?;
    let lower = *differences.get(differences.len().saturating_sub(1) / 2)?;
    Some(if upper.unsigned_abs() < lower.unsigned_abs() { upper } else { lower })
}

/// What fades from its value at first to its value for good, for a node that has had `age` rounds.
fn faded((first, always): (f64, f64), age: u64) -> f64 {
    ((-DECAY * age.saturating_sub(YOUTH) as f64).exp() * first).max(always)
}

/// The part of a difference by which a node lets itself be moved, for one that has had `age` rounds.
pub fn coupling(age: u64) -> f64 {
    faded(COUPLING, age)
}

/// The difference in milliseconds that is tolerated by a node that has had `age` rounds.
pub fn tolerance(age: u64) -> i64 {
    faded(TOLERANCE, age) as i64
}

/// The samples that are used, in the order of their offsets: those that are not too far off, without the extremes.
fn usable(samples: &[Sample], age: u64) -> Vec<Sample> {
    let tolerance = tolerance(age).unsigned_abs();
    let mut used: Vec<_> =
        samples.iter().filter(|sample| sample.offset().unsigned_abs() <= tolerance).copied().collect();
    used.sort_by_key(Sample::offset);
    let extremes = (used.len() as f64 * EXTREMES / 2.0) as usize;
    used.truncate(used.len() - extremes);
    used.drain(..extremes);
    used
}

/// By how many milliseconds network time is moved.
fn change(samples: &[Sample], accounts: u64, age: u64) -> i64 {
    // Where nobody has a stake, importances are no numbers.
    let importance = |sample: &Sample| if sample.importance.is_finite() { sample.importance } else { 0.0 };
    let importances = sum(samples.iter().map(importance));
    let view = samples.len() as f64 / accounts as f64;
    let scaling = if importances > view { 1.0 / importances } else { 1.0 / view };
    let offset = sum(samples.iter().map(|sample| sample.offset() as f64 * importance(sample) * scaling));
    // What is not a number changes nothing.
    (offset * coupling(age)) as i64
}

/// A sum in which what rounding takes away is not lost.
fn sum(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for number in numbers {
        let corrected = number - lost;
        let next = sum + corrected;
        lost = (next - sum) - corrected;
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample of a node whose time is ahead by so much.
    fn sample(offset: i64) -> Sample {
        let sent = 1_000_000;
        let remote = sent + 10 + offset;
        Sample { sent, remote_received: remote, remote_sent: remote, received: sent + 20, importance: 0.01 }
    }

    const NOW: Timestamp = Timestamp(1_000);

    #[test]
    fn a_young_node_takes_over_the_time_of_the_others_and_an_old_one_comes_nearer() {
        let mut time = TimeSync::default();
        assert_eq!(time.round(&[sample(500)], 1_000, NOW), Ok(Round { time: NOW, offset: 500, change: 500 }));
        assert!((0..20).all(|_| time.round(&[sample(0)], 1_000, NOW).is_ok()));
        assert_eq!(time.round(&[sample(1_000)], 1_000, NOW), Ok(Round { time: NOW, offset: 600, change: 100 }));
        assert_eq!(time.round(&[sample(759)], 1_000, NOW).map(|round| round.change), Ok(0));
        assert_eq!(time.rounds().last(), Some(&Round { time: NOW, offset: 600, change: 0 }));
    }

    #[test]
    fn rounds_without_samples_fail_and_do_not_age_the_node() {
        let mut time = TimeSync::default();
        let slow = Sample { received: 1_001_001, ..sample(100) };
        for samples in [vec![], vec![slow], vec![sample(7_200_001)], vec![sample(i64::MAX / 2)]] {
            assert_eq!(time.round(&samples, 100, NOW), Err(NoSamples), "{samples:?}");
        }
        assert_eq!((time.age, time.offset(), time.rounds().count()), (0, 0, 0));
    }

    #[test]
    fn the_last_hundred_rounds_are_told_of() {
        let mut time = TimeSync::default();
        assert!((0..150).all(|second| time.round(&[sample(0)], 100, Timestamp(second)).is_ok()));
        let times: Vec<_> = time.rounds().map(|round| round.time.0).collect();
        assert_eq!(times, (50..150).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_that_are_none_and_times_at_the_ends_of_their_range_change_nothing() {
        let wild = [i64::MIN, -1, 0, i64::MAX];
        let mut samples = Vec::new();
        for sent in wild {
            for remote_received in wild {
                for remote_sent in wild {
                    for received in wild {
                        let importance = f64::NAN;
                        samples.push(Sample { sent, remote_received, remote_sent, received, importance });
                    }
                }
            }
        }
        let mut time = TimeSync::default();
        for importance in [f64::NAN, f64::INFINITY, 0.0] {
            samples.iter_mut().for_each(|sample| sample.importance = importance);
            for accounts in [0, 1, u64::MAX] {
                assert_eq!(time.round(&samples, accounts, NOW).map(|round| round.change), Ok(0));
                assert_eq!(time.round(&[sample(0)], accounts, NOW).map(|round| round.change), Ok(0));
            }
        }
        assert_eq!(time.offset(), 0);
    }

    #[test]
    fn a_clock_that_is_far_from_the_others_is_told_of_even_if_it_is_too_far_to_follow() {
        let mut time = TimeSync::default();
        time.round(&[sample(4_900), sample(5_000), sample(900_000)], 100, NOW).expect("samples");
        assert_eq!(time.clock_difference(), None);
        let (moved, far) = (time.offset(), 3 * 3_600_000);
        assert_eq!(time.round(&[sample(-far), sample(-far), sample(-far - 9)], 100, NOW), Err(NoSamples));
        assert_eq!(time.clock_difference(), Some(moved - far));
        // Silence changes nothing about it.
        assert_eq!(time.round(&[], 100, NOW), Err(NoSamples));
        assert_eq!(time.clock_difference(), Some(moved - far));
    }

    #[test]
    fn one_node_of_several_cannot_bring_a_wrong_clock_about() {
        for honest in 1..5 {
            let mut samples = vec![sample(0); honest];
            samples.push(sample(900_000));
            let mut time = TimeSync::default();
            time.round(&samples, 1, NOW).expect("samples");
            assert_eq!(time.clock_difference(), None, "{honest}");
        }
        let mut alone = TimeSync::default();
        alone.round(&[sample(900_000)], 1, NOW).expect("samples");
        assert_eq!(alone.clock_difference(), Some(900_000));
    }

    #[test]
    fn a_clock_that_network_time_has_caught_up_with_is_still_wrong() {
        let mut time = TimeSync::default();
        assert_eq!(time.round(&[sample(8_000)], 1_000, NOW).map(|round| round.offset), Ok(8_000));
        assert_eq!(time.round(&[sample(0)], 1_000, NOW).map(|round| round.offset), Ok(8_000));
        assert_eq!(time.clock_difference(), Some(8_000));
    }
}
