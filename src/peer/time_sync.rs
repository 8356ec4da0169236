//! Adjustment of network time to the peers' clocks.
//!
//! Each round takes samples of other nodes' clocks, weighs them by the importance of their accounts, and changes the
//! offset of network time from the system clock. The longer the node runs, the smaller the changes. A round costs
//! little more than sorting its samples; the last [`MAX_ROUNDS`] rounds are kept.
//!
//! **Clock answers are not signed**, so whoever controls an endpoint can report any time in a node's name. So each
//! location counts once, however many nodes are there: a /24 of IPv4 or a /64 of IPv6. On a private network each
//! address counts, as one person runs all of it; all loopback addresses are this machine with its one clock, and count
//! once. And network time deviates from the system clock by more than [`MAX_FREE_OFFSET`] only towards a time that more
//! than half of the listed peers agree on, whatever all others report ([`TimeSync::round`]).

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use super::peer_table;
use crate::ip::network;
use crate::model::{Address, Timestamp};

/// Maximum number of rounds in the history.
pub const MAX_ROUNDS: usize = 100;
/// Difference in milliseconds between this machine's clock and the peers' from which on it is reported.
pub const CLOCK_TOLERANCE: u64 = 5_000;

/// Maximum offset in milliseconds of network time from the system clock without agreement of listed peers.
pub const MAX_FREE_OFFSET: i64 = 10_000;
/// Maximum difference in milliseconds between the clocks of listed peers that agree.
pub const AGREEMENT_TOLERANCE: i64 = 10_000;
/// Minimum number of listed peers that must agree, if there are as many.
pub const MIN_AGREEING: usize = 3;

/// Maximum milliseconds between request and answer.
const MAX_ROUND_TRIP: i64 = 1_000;
/// Rounds after which the changes begin to shrink.
const DECAY_START: u64 = 5;
/// Exponent of the decay per round.
const DECAY: f64 = 0.3;
/// Tolerated difference in milliseconds: initially, and at least.
const TOLERANCE: (f64, f64) = (7_200_000.0, 60_000.0);
/// Applied fraction of a difference: initially, and at least.
const COUPLING: (f64, f64) = (1.0, 0.1);
/// Fraction of the samples that is discarded as outliers, half at each end.
const OUTLIER_FRACTION: f64 = 0.4;
/// Changes up to this many milliseconds are not made.
const MAX_IGNORED_CHANGE: u64 = 75;

/// Sample of another node's clock. All times are network time in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the request, on this node's clock.
    pub sent: i64,
    /// Arrival of the request, on the other clock.
    pub remote_received: i64,
    /// Time of the answer, on the other clock.
    pub remote_sent: i64,
    /// Arrival of the answer, on this node's clock.
    pub received: i64,
    /// Importance of the other node's account, 0 if it has none.
    pub importance: f64,
}

impl Sample {
    /// Returns the milliseconds between request and answer.
    pub fn duration(&self) -> i64 {
        self.received.saturating_sub(self.sent)
    }

    /// Returns the milliseconds by which the other clock is ahead, if request and answer took the same time.
    pub fn offset(&self) -> i64 {
        let [sent, remote_received, remote_sent, received] =
            [self.sent, self.remote_received, self.remote_sent, self.received].map(i128::from);
        let round_trip = (received - sent) - (remote_sent - remote_received);
        let offset = (remote_received - sent) - round_trip / 2;
        offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Answer of a node to a clock query.
#[derive(Clone, Copy, Debug)]
pub struct ClockAnswer {
    /// The node.
    pub node: Address,
    /// Address that answered.
    pub ip: IpAddr,
    /// Whether the node is listed.
    pub is_listed: bool,
    /// Whether the node was selected for the calculation. Others only confirm or contest the result.
    pub is_selected: bool,
    /// Its clock.
    pub sample: Sample,
}

/// Successful round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSyncRound {
    /// End of the round.
    pub time: Timestamp,
    /// New offset of network time from the system clock in milliseconds.
    pub offset: i64,
    /// Change of the offset.
    pub change: i64,
}

/// Offset of network time and its history.
#[derive(Clone, Debug, Default)]
pub struct TimeSync {
    /// Milliseconds by which network time is ahead of the system clock.
    pub offset: i64,
    /// Number of successful rounds since the start, or since the offset was found to be wrong.
    age: u64,
    /// The last rounds, oldest first.
    pub rounds: VecDeque<TimeSyncRound>,
    clock_difference: Option<i64>,
    /// The offset that was rejected for lack of agreement, if the last round with usable samples rejected one.
    pub rejected_offset: Option<i64>,
}

impl TimeSync {
    /// Returns the milliseconds by which the peers' clocks are ahead of this machine's, by the last samples, if that
    /// exceeds [`CLOCK_TOLERANCE`]. It is the median, so no single peer can cause it unless it is alone; it also exists
    /// where the peers are too far away for network time to follow.
    pub fn clock_difference(&self) -> Option<i64> {
        self.clock_difference.filter(|difference| difference.unsigned_abs() > CLOCK_TOLERANCE)
    }

    /// Follows a jump of the system's clock by `millis`, as if the peers' clocks had not made it, until they are asked. A
    /// jump towards network time leaves it as it is: returns the change of the offset. The rounds that follow are those of a
    /// young node.
    #[must_use]
    pub fn clock_jumped(&mut self, millis: i64) -> i64 {
        self.clock_difference = self.clock_difference.map(|difference| difference.saturating_sub(millis));
        self.age = 0;
        let rest = self.offset.saturating_sub(millis);
        if rest.unsigned_abs() >= self.offset.unsigned_abs() {
            return 0;
        }
        self.offset = rest;
        millis.saturating_neg()
    }

    /// Ends a round with its answers. `listed` is the number of listed peers without this node, `accounts` the
    /// number of accounts in the last importance calculation.
    ///
    /// If the offset from the system clock exceeds [`MAX_FREE_OFFSET`] before or after the change, the change must bring
    /// network time nearer to a time on which enough listed peers ([`MIN_AGREEING`], and more than half) agree
    /// within [`AGREEMENT_TOLERANCE`]. Otherwise the round fails and does not count towards the node's age. If these agree
    /// on a time that is too far away for the node's age, it is young again.
    pub fn round(
        &mut self,
        answers: &[ClockAnswer],
        listed: usize,
        accounts: u64,
        time: Timestamp,
    ) -> Option<TimeSyncRound> {
        let answers = deduplicate(answers);
        let is_fast = |answer: &&ClockAnswer| answer.sample.duration() <= MAX_ROUND_TRIP;
        let fast: Vec<_> = answers.iter().filter(is_fast).copied().collect();
        let drawn: Vec<_> = fast.iter().filter(|answer| answer.is_selected).map(|answer| answer.sample).collect();
        if let Some(difference) = clock_difference(&drawn, self.offset) {
            self.clock_difference = Some(difference);
        }
        let agreed = self.agreed(&fast, listed);
        let tolerance = tolerance(self.age);
        let is_far = |(least, most): &(i64, i64)| {
            least.saturating_sub(self.offset) > tolerance || self.offset.saturating_sub(*most) > tolerance
        };
        if self.offset.unsigned_abs() > MAX_FREE_OFFSET as u64 && agreed.iter().any(is_far) {
            self.age = 0;
        }
        let used = usable(&drawn, self.age);
        if used.is_empty() {
            return None;
        }
        let change = change(&used, accounts, self.age);
        let change = if change.unsigned_abs() <= MAX_IGNORED_CHANGE { 0 } else { change };
        let offset = self.offset.saturating_add(change);
        let differs = [self.offset, offset].into_iter().any(|offset| offset.unsigned_abs() > MAX_FREE_OFFSET as u64);
        let is_towards =
            |(least, most): &(i64, i64)| ((*least).min(self.offset)..=(*most).max(self.offset)).contains(&offset);
        if change != 0 && differs && !agreed.iter().any(is_towards) {
            self.rejected_offset = Some(offset);
            log::debug!("network time is not adjusted: the listed peers do not agree");
            return None;
        }
        self.rejected_offset = None;
        self.offset = offset;
        self.age += 1;
        let round = TimeSyncRound { time, offset: self.offset, change };
        if self.rounds.len() == MAX_ROUNDS {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
        Some(round)
    }

    /// Returns the least and most offset from the system clock of each group of enough listed peers that agree.
    fn agreed(&self, answers: &[ClockAnswer], listed: usize) -> Vec<(i64, i64)> {
        let needed = (listed / 2 + 1).max(MIN_AGREEING.min(listed));
        let listed = answers.iter().filter(|answer| answer.is_listed);
        let mut reported: Vec<_> = listed.map(|answer| answer.sample.offset().saturating_add(self.offset)).collect();
        reported.sort_unstable();
        let groups = reported.windows(needed).filter_map(|group| Some((*group.first()?, *group.last()?)));
        groups.filter(|(least, most)| most.saturating_sub(*least) <= AGREEMENT_TOLERANCE).collect()
    }
}

/// Returns the location of an address, which counts once.
fn location(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        ip if ip.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip if peer_table::is_private(ip) => ip,
        ip => network(ip, 24, 64),
    }
}

/// Returns one answer per node and location, in order of arrival: preferably of a listed peer, then of a selected
/// one, then of the more important account, then the first.
fn deduplicate(answers: &[ClockAnswer]) -> Vec<ClockAnswer> {
    let mut best: Vec<_> = answers.iter().enumerate().collect();
    best.sort_by(|(_, one), (_, other)| {
        let rank = |answer: &ClockAnswer| (answer.is_listed, answer.is_selected);
        rank(other).cmp(&rank(one)).then(other.sample.importance.total_cmp(&one.sample.importance))
    });
    let (mut nodes, mut places) = (BTreeSet::new(), BTreeSet::new());
    best.retain(|(_, answer)| nodes.insert(answer.node) && places.insert(location(answer.ip)));
    best.sort_by_key(|(number, _)| *number);
    best.into_iter().map(|(_, answer)| *answer).collect()
}

/// Returns the median of the clock differences from the system clock, which network time leads by `offset`; of the two
/// middle ones of an even number, the smaller in amount.
fn clock_difference(samples: &[Sample], offset: i64) -> Option<i64> {
    let mut differences: Vec<_> = samples.iter().map(|sample| sample.offset().saturating_add(offset)).collect();
    differences.sort_unstable();
    let upper = *differences.get(differences.len() / 2)?;
    let lower = *differences.get(differences.len().saturating_sub(1) / 2)?;
    Some(if upper.unsigned_abs() < lower.unsigned_abs() { upper } else { lower })
}

/// Returns a value that decays from its initial value to its minimum, for a node of `age` rounds.
fn decayed((first, always): (f64, f64), age: u64) -> f64 {
    ((-DECAY * age.saturating_sub(DECAY_START) as f64).exp() * first).max(always)
}

/// Returns the applied fraction of a difference, for a node of `age` rounds.
pub fn coupling(age: u64) -> f64 {
    decayed(COUPLING, age)
}

/// Returns the tolerated difference in milliseconds, for a node of `age` rounds.
pub fn tolerance(age: u64) -> i64 {
    decayed(TOLERANCE, age) as i64
}

/// Returns the samples within the tolerance, in order of offset, without outliers.
fn usable(samples: &[Sample], age: u64) -> Vec<Sample> {
    let tolerance = tolerance(age).unsigned_abs();
    let mut used: Vec<_> =
        samples.iter().filter(|sample| sample.offset().unsigned_abs() <= tolerance).copied().collect();
    used.sort_by_key(Sample::offset);
    let extremes = (used.len() as f64 * OUTLIER_FRACTION / 2.0) as usize;
    used.truncate(used.len() - extremes);
    used.drain(..extremes);
    used
}

/// Returns the change of network time in milliseconds.
fn change(samples: &[Sample], accounts: u64, age: u64) -> i64 {
    // Without any stake, importances are not finite.
    let importance = |sample: &Sample| if sample.importance.is_finite() { sample.importance } else { 0.0 };
    let importances = sum(samples.iter().map(importance));
    let view = samples.len() as f64 / accounts as f64;
    let scaling = if importances > view { 1.0 / importances } else { 1.0 / view };
    let offset = sum(samples.iter().map(|sample| sample.offset() as f64 * importance(sample) * scaling));
    // The cast turns a non-number into 0.
    (offset * coupling(age)) as i64
}

/// Returns a sum with compensation of rounding errors (Kahan).
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

    use crate::peer::tests::{address, seeded};

    /// Returns the sample of a clock that is ahead by `offset`.
    fn sample(offset: i64) -> Sample {
        let sent = 1_000_000;
        let remote = sent + 10 + offset;
        Sample { sent, remote_received: remote, remote_sent: remote, received: sent + 20, importance: 0.01 }
    }

    fn witness(number: usize, sample: Sample) -> ClockAnswer {
        let ip = IpAddr::V4(Ipv4Addr::new(45, (number / 200) as u8, (number % 200) as u8, 1));
        ClockAnswer { node: address(number), ip, is_listed: true, is_selected: true, sample }
    }

    /// Returns answers of different listed peers.
    fn witnesses(samples: &[Sample]) -> Vec<ClockAnswer> {
        samples.iter().enumerate().map(|(number, sample)| witness(number, *sample)).collect()
    }

    const NOW: Timestamp = Timestamp(1_000);

    impl TimeSync {
        /// Runs a round with answers of all listed peers.
        fn of(&mut self, samples: &[Sample], accounts: u64) -> Option<TimeSyncRound> {
            self.round(&witnesses(samples), samples.len(), accounts, NOW)
        }
    }

    #[test]
    fn a_young_node_adopts_the_time_of_peers_and_an_old_one_approaches_it() {
        let mut time = TimeSync::default();
        assert_eq!(time.of(&[sample(500)], 1_000), Some(TimeSyncRound { time: NOW, offset: 500, change: 500 }));
        assert!((0..20).all(|_| time.of(&[sample(0)], 1_000).is_some()));
        assert_eq!(time.of(&[sample(1_000)], 1_000), Some(TimeSyncRound { time: NOW, offset: 600, change: 100 }));
        assert_eq!(time.of(&[sample(759)], 1_000).map(|round| round.change), Some(0));
        assert_eq!(time.rounds.iter().last(), Some(&TimeSyncRound { time: NOW, offset: 600, change: 0 }));
    }

    #[test]
    fn rounds_without_samples_fail_and_do_not_increase_the_age() {
        let mut time = TimeSync::default();
        let slow = Sample { received: 1_001_001, ..sample(100) };
        for samples in [vec![], vec![slow], vec![sample(7_200_001)], vec![sample(i64::MAX / 2)]] {
            assert_eq!(time.of(&samples, 100), None, "{samples:?}");
        }
        let undrawn = [ClockAnswer { is_selected: false, ..witness(0, sample(100)) }];
        assert_eq!(time.round(&undrawn, 1, 100, NOW), None);
        assert_eq!((time.age, time.offset, time.rounds.len()), (0, 0, 0));
    }

    #[test]
    fn the_last_hundred_rounds_are_kept() {
        let mut time = TimeSync::default();
        let still = witnesses(&[sample(0)]);
        assert!((0..150).all(|second| time.round(&still, 1, 100, Timestamp(second)).is_some()));
        let times: Vec<_> = time.rounds.iter().map(|round| round.time.0).collect();
        assert_eq!(times, (50..150).collect::<Vec<_>>());
    }

    #[test]
    fn non_finite_importances_and_extreme_times_change_nothing() {
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
                assert_eq!(time.of(&samples, accounts).map(|round| round.change), Some(0));
                assert_eq!(time.of(&[sample(0)], accounts).map(|round| round.change), Some(0));
            }
        }
        assert_eq!(time.offset, 0);
    }

    #[test]
    fn a_clock_far_from_the_peers_is_reported_even_beyond_the_adjustable_range() {
        let mut time = TimeSync::default();
        let _ = time.of(&[sample(4_900), sample(5_000), sample(900_000)], 100);
        assert_eq!(time.clock_difference(), None);
        let (moved, far) = (time.offset, 3 * 3_600_000);
        assert_eq!(time.of(&[sample(-far), sample(-far), sample(-far - 9)], 100), None);
        assert_eq!(time.clock_difference(), Some(moved - far));
        // Without answers it stays.
        assert_eq!(time.of(&[], 100), None);
        assert_eq!(time.clock_difference(), Some(moved - far));
        // A clock that is set right no longer differs.
        let _ = time.clock_jumped(-far);
        assert_eq!(time.clock_difference(), None);
    }

    #[test]
    fn a_clock_that_jumps_away_from_the_peers_differs_at_once() {
        let mut time = TimeSync::default();
        assert_eq!(time.clock_jumped(60_000), 0);
        assert_eq!(time.clock_difference(), None, "without peers nothing is known");
        let _ = time.of(&[sample(0), sample(0)], 100);
        assert_eq!(time.clock_jumped(60_000), 0);
        assert_eq!(time.clock_difference(), Some(-60_000));
    }

    #[test]
    fn network_time_is_right_again_after_a_wrong_clock_is_set_right() {
        for far in [1_800_000, -1_800_000] {
            let mut time = TimeSync::default();
            assert!((0..30).all(|_| time.of(&[sample(far - time.offset); 3], 1_000).is_some()));
            assert!(time.offset.abs_diff(far) <= 75);
            // In two steps.
            assert_eq!((time.clock_jumped(far / 2), time.clock_jumped(far / 2)), (-far / 2, -far / 2));
            assert!(time.offset.abs() <= 75, "{}", time.offset);
            assert!(time.of(&[sample(500 - time.offset); 3], 1_000).is_some());
            assert!(time.offset.abs_diff(500) <= 1, "a young node adopts the time of the peers: {}", time.offset);
            // A jump away from network time is none of the peers'.
            assert_eq!(time.clock_jumped(far), 0);
            assert!(time.offset.abs_diff(500) <= 1);
        }
    }

    #[test]
    fn an_old_node_follows_listed_peers_that_agree_on_a_time_near_its_clock_from_which_they_led_it_away() {
        let far = 1_800_000;
        let mut time = TimeSync::default();
        assert!((0..30).all(|_| time.of(&[sample(far - time.offset); 3], 1_000).is_some()));
        // Others that keep the wrong time do not prevent it, unless their accounts are as important.
        let wrong = |offset: i64| Sample { importance: 0.000_001, ..sample(offset) };
        let mut answers = witnesses(&[sample(-far); 3]);
        answers.extend((100..103).map(|number| ClockAnswer { is_listed: false, ..witness(number, wrong(0)) }));
        for _ in 0..30 {
            let _ = time.round(&answers, 3, 1_000, NOW);
            answers.iter_mut().take(3).for_each(|answer| answer.sample = sample(-time.offset));
            answers.iter_mut().skip(3).for_each(|answer| answer.sample = wrong(far - time.offset));
        }
        assert!(time.offset.abs() < MAX_FREE_OFFSET, "{}", time.offset);
        // Fewer of them do not make it young.
        let mut time = TimeSync::default();
        assert!((0..30).all(|_| time.of(&[sample(far - time.offset); 3], 1_000).is_some()));
        assert!(time.round(&witnesses(&[sample(-far); 2]), 3, 1_000, NOW).is_none());
        assert_eq!((time.age, time.offset.abs_diff(far) <= 75), (30, true));
    }

    #[test]
    fn an_old_node_is_young_again_if_listed_peers_agree_beyond_its_tolerance() {
        for sign in [1, -1] {
            for (beyond, age) in [(0, 31), (1, 1)] {
                let mut time = TimeSync::default();
                let far = sign * 1_800_000;
                assert!((0..30).all(|_| time.of(&[sample(far - time.offset); 3], 1_000).is_some()));
                for direction in [1, -1] {
                    let mut time = TimeSync { rounds: VecDeque::new(), ..time };
                    let _ = time.of(&[sample(direction * (tolerance(30) + beyond)); 3], 1_000);
                    assert_eq!(time.age, age, "{sign} {direction} {beyond}");
                }
            }
        }
    }

    #[test]
    fn strangers_adjust_network_time_near_the_clock_and_keep_it_elsewhere() {
        let stranger = |offset| [ClockAnswer { is_listed: false, ..witness(0, sample(offset)) }];
        let mut time = TimeSync::default();
        for (ahead, offset) in [(MAX_FREE_OFFSET, Some(MAX_FREE_OFFSET)), (1_000, None), (0, Some(MAX_FREE_OFFSET))] {
            assert_eq!(time.round(&stranger(ahead), 3, 1_000, NOW).map(|round| round.offset), offset, "{ahead}");
        }
        assert!(time.of(&[sample(3_600_000); 3], 1_000).is_some());
        assert_eq!(time.round(&stranger(0), 3, 1_000, NOW).map(|round| round.change), Some(0));
    }

    #[test]
    fn many_samples_are_added_without_rounding_errors() {
        assert_eq!(sum([0.1; 10].into_iter()), 1.0);
    }

    #[test]
    fn one_peer_of_several_cannot_cause_a_clock_warning() {
        for honest in 1..5 {
            let mut samples = vec![sample(0); honest];
            samples.push(sample(900_000));
            let mut time = TimeSync::default();
            let _ = time.of(&samples, 1);
            assert_eq!(time.clock_difference(), None, "{honest}");
        }
        for (two, nearer) in [([-900_000, 7_000], 7_000), ([-7_000, 900_000], -7_000), ([-9_000, 9_000], -9_000)] {
            let mut time = TimeSync::default();
            let _ = time.of(&two.map(sample), 1);
            assert_eq!(time.clock_difference(), Some(nearer), "{two:?}");
        }
        let mut alone = TimeSync::default();
        alone.of(&[sample(900_000)], 1).expect("samples");
        assert_eq!(alone.clock_difference(), Some(900_000));
    }

    #[test]
    fn a_wrong_clock_is_reported_even_after_network_time_has_adjusted() {
        let mut time = TimeSync::default();
        assert_eq!(time.of(&[sample(8_000)], 1_000).map(|round| round.offset), Some(8_000));
        assert_eq!(time.of(&[sample(0)], 1_000).map(|round| round.offset), Some(8_000));
        assert_eq!(time.clock_difference(), Some(8_000));
    }

    #[test]
    fn one_network_counts_once_and_listed_peers_take_precedence() {
        let at = |ip: &str| ClockAnswer { ip: ip.parse().unwrap(), ..witness(1, sample(0)) };
        let places =
            |one: &str, other: &str| deduplicate(&[at(one), ClockAnswer { node: address(2), ..at(other) }]).len();
        for (one, other) in [
            ("45.1.2.3", "45.1.2.3"),
            ("45.1.2.3", "45.1.2.200"),
            ("2a01::1:2:3:4", "2a01::5:6:7:8"),
            ("127.0.0.1", "127.0.0.2"),
            ("127.0.0.1", "::1"),
            ("192.168.1.7", "192.168.1.7"),
            ("::ffff:45.1.2.9", "45.1.2.3"),
        ] {
            assert_eq!(places(one, other), 1, "{one} {other}");
        }
        for (one, other) in [("45.1.2.3", "45.1.3.3"), ("192.168.1.7", "192.168.1.8"), ("127.0.0.1", "10.0.0.1")] {
            assert_eq!(places(one, other), 2, "{one} {other}");
        }
        assert_eq!(deduplicate(&[at("45.1.2.3"), at("46.1.2.3")]).len(), 1, "one node counts once");
        let other = |number, importance, is_listed| {
            let sample = Sample { importance, ..sample(number as i64) };
            ClockAnswer { node: address(number), is_listed, sample, ..at("45.1.2.3") }
        };
        let kept = deduplicate(&[other(3, 0.9, false), other(4, 0.1, true), other(5, 0.2, true)]);
        assert_eq!(kept.iter().map(|kept| kept.node).collect::<Vec<_>>(), [address(5)]);
    }

    #[test]
    fn network_time_leaves_the_clock_only_with_a_majority_of_listed_peers() {
        let far = 3_600_000;
        // Listed peers, those that report `far`, and whether that is enough.
        for (listed, agree, is_enough) in [
            (0, 0, false),
            (1, 0, false),
            (1, 1, true),
            (2, 1, false),
            (2, 2, true),
            (3, 2, false),
            (3, 3, true),
            (4, 3, true),
            (5, 2, false),
            (5, 3, true),
            (7, 3, false),
            (7, 4, true),
        ] {
            let mut answers = witnesses(&vec![sample(far); agree]);
            // Other peers report anything.
            answers.extend((100..105).map(|number| ClockAnswer { is_listed: false, ..witness(number, sample(far)) }));
            let mut time = TimeSync::default();
            let round = time.round(&answers, listed, 1_000, NOW);
            assert_eq!(round.is_some(), is_enough, "{agree} of {listed}");
            // Rounding may lose a millisecond.
            let is_far = |offset: i64| (far - 1..=far).contains(&offset);
            assert!(if is_enough { is_far(time.offset) } else { time.offset == 0 }, "{agree} of {listed}");
            assert_eq!(time.rejected_offset.map(is_far), (!is_enough).then_some(true));
        }
        // They have to agree on the time.
        let mut time = TimeSync::default();
        let spread = [far, far + 5_000, far + 10_001].map(sample);
        assert_eq!(time.of(&spread, 1_000), None);
        let spread = [far, far + 5_000, far + 10_000].map(sample);
        assert!(time.of(&spread, 1_000).is_some());
        // The way back needs agreement too.
        let mut answers = witnesses(&[sample(0)]);
        answers.extend((100..150).map(|number| ClockAnswer { is_listed: false, ..witness(number, sample(-far)) }));
        let before = time.offset;
        assert_eq!(time.round(&answers, 3, 1_000, NOW), None);
        assert_eq!(time.offset, before);
    }

    #[test]
    fn unselected_listed_peers_confirm_a_time_but_do_not_set_it() {
        let mut answers = witnesses(&[sample(60_000), sample(60_000), sample(60_000)]);
        answers.iter_mut().take(2).for_each(|answer| {
            answer.is_selected = false;
            answer.sample.importance = 0.0;
        });
        let mut time = TimeSync::default();
        let offset = time.round(&answers, 3, 1_000, NOW).expect("listed nodes that agree").offset;
        assert!((59_999..=60_000).contains(&offset), "{offset}");
        let mut time = TimeSync::default();
        assert_eq!(time.round(&answers[2..], 3, 1_000, NOW), None);
    }

    #[test]
    #[ignore = "slow: computes for long"]
    fn a_minority_of_listed_peers_moves_the_time_by_at_most_ten_seconds() {
        for seed in 0..5_000 {
            let mut random = seeded(seed);
            let mut below = |bound: u64| random() % bound;
            let listed = 1 + below(9) as usize;
            let liars = below(listed.div_ceil(2) as u64) as usize;
            assert!(2 * liars < listed || liars == 0);
            let strangers = below(30) as usize;
            // Honest clocks: mostly that of this machine.
            let right = if below(3) == 0 { below(7_000_000) as i64 - 3_500_000 } else { 0 };
            let mut time = TimeSync::default();
            for _ in 0..1 + below(40) {
                let ahead = time.offset;
                let mut answers: Vec<_> = (0..listed)
                    .map(|number| witness(number, sample(right - ahead + below(200) as i64 - 100)))
                    .collect();
                let aim = [3_600_000, 60_000, 15_000, -20_000, -7_000_000][below(5) as usize] + below(9_000) as i64;
                let lie = Sample { importance: below(1_000) as f64 / 1e3, ..sample(aim - below(2) as i64 * ahead) };
                answers.iter_mut().take(liars).for_each(|answer| answer.sample = lie);
                // Not every honest peer answers each time or is selected.
                answers.retain(|answer| answer.node != address(listed - 1) || below(2) == 0);
                answers.iter_mut().for_each(|answer| answer.is_selected = below(3) > 0);
                answers.extend((0..strangers).map(|number| ClockAnswer {
                    is_listed: false,
                    ..witness(500 + number, Sample { importance: below(1_000) as f64 / 1e2, ..lie })
                }));
                let _ = time.round(&answers, listed, 1 + below(1_000), NOW);
                let range = right.min(0) - AGREEMENT_TOLERANCE - 200..=right.max(0) + AGREEMENT_TOLERANCE + 200;
                assert!(range.contains(&time.offset), "seed {seed}: {} instead of {right}", time.offset);
            }
        }
    }
}
