//! The calculation of trust, row by row.
//!
//! Sums run over nodes in ascending order, so that the result is the same to the last bit however it is sliced.

use super::members::{MAX_MEMBERS, Members};
use super::values::{TrustValues, normalise};
use crate::model::Address;
use crate::peer::experiences::{Experience, Experiences};

/// Most rounds until trust settles.
const MAX_ROUNDS: usize = 20;
/// How much of the trust stays with the nodes that are trusted from the start.
const ALPHA: f64 = 0.1;
/// Change from round to round at which trust has settled.
const SETTLED: f64 = 0.01;
/// Calls from which on a node is known well.
const MANY_CALLS: u64 = 10;
/// Hundredths of the trust of all others that nodes which are not known well share besides.
const BOOST: f64 = 30.0;

// A set of members is a number of so many bits.
const _: () = assert!(MAX_MEMBERS <= u128::BITS as usize);

/// A calculation that is going on.
#[derive(Debug)]
pub struct Calculation {
    members: Members,
    /// Numbers of the members in the order of their addresses.
    by_address: Vec<usize>,
    stage: Stage,
    /// Local trust, one row for each node that trusts: parts of 1.
    shares: Vec<f64>,
    /// Local trust as it was before it was made a part of 1, one row for each node that is trusted.
    trust_in: Vec<f64>,
    /// 1 where a node knows another from calls, otherwise 0; one row for each node that is known.
    known_by: Vec<f64>,
    /// The nodes that each knows from calls, as bits.
    knows: Vec<u128>,
    /// The nodes that this one does not know well.
    is_stranger: Vec<bool>,
    /// How trust passes from each node to all, one row for each node that trusts.
    passes: Vec<f64>,
    /// Trust in each node.
    trust: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Gathers the experiences of a node.
    Gathering(usize),
    /// Weighs what it says of the others.
    Weighing(usize),
    /// Passes the trust of all on; it was done so many times before.
    Passing(usize),
}

impl Calculation {
    /// A calculation for some nodes.
    pub fn new(members: Members) -> Calculation {
        let count = members.addresses.len();
        let mut by_address: Vec<_> = (0..count).collect();
        by_address.sort_unstable_by_key(|number| members.addresses[*number]);
        Calculation {
            by_address,
            stage: Stage::Gathering(0),
            shares: vec![0.0; count * count],
            trust_in: vec![0.0; count * count],
            known_by: vec![0.0; count * count],
            knows: vec![0; count],
            is_stranger: vec![true; count],
            passes: vec![0.0; count * count],
            trust: members.source.clone(),
            members,
        }
    }

    /// Whether a node takes part.
    pub(super) fn is_of(&self, node: &Address) -> bool {
        self.members.addresses.contains(node)
    }

    /// Goes on by at most `rows` rows, at least one; there are values when it is done, and then it is of no further
    /// use. There are two rows for each node, and one for each time that trust is passed on: at most 222. A row costs
    /// at most 5 µs on a machine on which all of them cost 0.7 ms.
    pub fn advance(&mut self, experiences: &Experiences, rows: usize) -> Option<TrustValues> {
        for _ in 0..rows.max(1) {
            let count = self.members.addresses.len();
            match self.stage {
                Stage::Gathering(row) => {
                    self.gather(row, experiences);
                    self.stage = if row + 1 < count { Stage::Gathering(row + 1) } else { Stage::Weighing(0) };
                }
                Stage::Weighing(row) => {
                    self.weigh(row);
                    self.stage = if row + 1 < count { Stage::Weighing(row + 1) } else { Stage::Passing(0) };
                }
                Stage::Passing(round) => {
                    let has_settled = self.pass();
                    if has_settled || round + 1 == MAX_ROUNDS {
                        return Some(self.result());
                    }
                    self.stage = Stage::Passing(round + 1);
                }
            }
        }
        None
    }

    /// Reads the experiences of a node and turns them into its trust in the others.
    fn gather(&mut self, row: usize, experiences: &Experiences) {
        let count = self.members.addresses.len();
        let known = self.experiences_of(row, experiences);
        let shares = &mut self.shares[row * count..][..count];
        for (other, share) in shares.iter_mut().enumerate() {
            let unknown = if self.members.is_pre_trusted[other] || other == row { 1.0 } else { 0.0 };
            *share = known[other].share().unwrap_or(unknown);
        }
        let sum: f64 = shares.iter().sum();
        for (other, share) in shares.iter_mut().enumerate() {
            *share = finite(*share / sum);
            self.trust_in[other * count + row] = *share * sum;
            let calls = known[other].calls();
            self.knows[row] |= u128::from(calls > 0) << other;
            // What a node says of itself does not count where it is weighed.
            self.known_by[other * count + row] = if calls > 0 && other != row { 1.0 } else { 0.0 };
            if row + 1 == count {
                self.is_stranger[other] = calls < MANY_CALLS;
            }
        }
    }

    /// The experiences of a node with all members, by their numbers. Both lists are in the order of addresses.
    fn experiences_of(&self, row: usize, experiences: &Experiences) -> Vec<Experience> {
        let mut known = vec![Experience::default(); self.members.addresses.len()];
        let mut pairs = experiences.of(&self.members.addresses[row]).peekable();
        for number in &self.by_address {
            let member = &self.members.addresses[*number];
            while pairs.next_if(|(node, _)| *node < member).is_some() {}
            if let Some((_, experience)) = pairs.next_if(|(node, _)| *node == member) {
                known[*number] = experience;
            }
        }
        known
    }

    /// Weighs the trust of a node in the others by how well their experiences match its own.
    fn weigh(&mut self, row: usize) {
        let count = self.members.addresses.len();
        // Sums of squared differences for all others at once: where there is nothing to compare, 0 is added to what
        // is not negative, which changes nothing.
        let mut squares = vec![0.0; count];
        for common in (0..count).filter(|common| self.knows[row] >> common & 1 == 1) {
            let trust_in = &self.trust_in[common * count..][..count];
            let known_by = &self.known_by[common * count..][..count];
            let own = trust_in[row];
            for ((square, trust), is_known) in squares.iter_mut().zip(trust_in).zip(known_by) {
                let difference = own - trust;
                *square += difference * difference * is_known;
            }
        }
        let passes = &mut self.passes[row * count..][..count];
        for (other, pass) in passes.iter_mut().enumerate() {
            let common = (self.knows[row] & self.knows[other] & !(1 << other)).count_ones();
            let credibility = match (other == row, common) {
                (true, _) => 1.0,
                (false, 0) => 0.0,
                (false, common) => fourth_power(1.0 - (squares[other] / f64::from(common)).sqrt()),
            };
            *pass = finite(self.shares[row * count + other] * credibility);
        }
        normalise(passes);
    }

    /// Passes the trust of all on once, and says whether it has settled.
    fn pass(&mut self) -> bool {
        let count = self.members.addresses.len();
        let mut passed = vec![0.0; count];
        for (row, trust) in self.trust.iter().enumerate() {
            for (sum, pass) in passed.iter_mut().zip(&self.passes[row * count..][..count]) {
                *sum += pass * trust;
            }
        }
        for (trust, source) in passed.iter_mut().zip(&self.members.source) {
            *trust = *trust * (1.0 - ALPHA) + source * ALPHA;
        }
        let change: f64 = self.trust.iter().zip(&passed).map(|(old, new)| (old - new).abs()).sum();
        self.trust = passed;
        change <= SETTLED
    }

    /// Trust as it is used: strangers share a part of it.
    fn result(&mut self) -> TrustValues {
        let trust = &mut self.trust;
        normalise(trust);
        trust.iter_mut().for_each(|trust| *trust = finite(*trust));
        let strangers = self.is_stranger.iter().filter(|is_stranger| **is_stranger).count();
        if strangers > 0 {
            normalise(trust);
            let boost = 1.0 / ((strangers as f64 / BOOST) * 100.0);
            let boosted = trust.iter_mut().zip(&self.is_stranger).filter(|(_, is_stranger)| **is_stranger);
            boosted.for_each(|(trust, _)| *trust += boost);
        }
        normalise(trust);
        TrustValues::new(&self.members.addresses, trust)
    }
}

/// In this order, so that it is rounded the same everywhere.
fn fourth_power(number: f64) -> f64 {
    let square = number * number;
    square * square
}

/// A number, or 0 in place of what is none.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}
