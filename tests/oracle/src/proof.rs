//! Who may make a block when: difficulties, hits and targets according to the text of the protocol, in floating point
//! where the program uses integers.

use std::collections::VecDeque;

use nisd::crypto::PublicKey;
use nisd::crypto::hash::keccak256_parts;
use nisd::model::Hash256;
use ruint::aliases::U256;

use super::terms::NetworkTerms;

/// Total supply in whole units.
const TOTAL_SUPPLY: f64 = 9_000_000_000.0;
const INITIAL: i64 = 100_000_000_000_000;
const MIN_DIFFICULTY: i64 = INITIAL / 10;
const MAX_DIFFICULTY: i64 = INITIAL * 10;
/// 2 to the power of 54.
const SCALE: f64 = 18_014_398_509_481_984.0;
/// Number of blocks that determine the next difficulty.
const WINDOW: usize = 60;
/// Maximum wait for a block in seconds.
pub const MAX_WAIT_SECONDS: i32 = 60_000;

/// What the end of a chain determines about the next block.
#[derive(Clone, Debug)]
pub struct ProofState {
    /// Difficulties and times of the last blocks.
    window: VecDeque<(i64, i32)>,
    generation: Hash256,
    pub score: i128,
}

/// The bound that limits a difficulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    None,
    /// It changes by at most a twentieth.
    Step,
    /// It has a minimum and a maximum.
    Range,
}

impl ProofState {
    /// Returns the state after the nemesis block.
    pub fn new(generation: Hash256) -> ProofState {
        ProofState { window: VecDeque::from([(INITIAL, 0)]), generation, score: 0 }
    }

    /// Returns the time of the last block.
    pub fn time(&self) -> i32 {
        self.window.back().expect("a block").1
    }

    /// Returns the difficulty of the last block.
    pub fn last_difficulty(&self) -> i64 {
        self.window.back().expect("a block").0
    }

    /// Returns the difficulty of the next block, and what limits it.
    pub fn difficulty(&self, terms: &NetworkTerms) -> (i64, Bound) {
        let count = self.window.len();
        if count < 2 {
            return (INITIAL, Bound::None);
        }
        let elapsed = i128::from(self.time()) - i128::from(self.window[0].1);
        let average = self.window.iter().map(|(difficulty, _)| difficulty).sum::<i64>() / count as i64;
        let product = i128::from(average) * i128::from(terms.target_time) * (count as i128 - 1);
        let (next, old) = ((product / elapsed) as i64, self.last_difficulty());
        let (changed, bound) = match next.wrapping_mul(20) {
            twenty if 19 * old > twenty => (19 * old / 20, Bound::Step),
            twenty if 21 * old < twenty => (21 * old / 20, Bound::Step),
            _ => (next, Bound::None),
        };
        let kept = changed.clamp(MIN_DIFFICULTY, MAX_DIFFICULTY);
        (kept, if kept == changed { bound } else { Bound::Range })
    }

    /// Advances by a block.
    pub fn advance(&mut self, signer: &PublicKey, time: i32, terms: &NetworkTerms) {
        let difficulty = self.difficulty(terms).0;
        self.score += i128::from(difficulty) - i128::from(time - self.time());
        self.window.push_back((difficulty, time));
        if self.window.len() > WINDOW {
            self.window.pop_front();
        }
        self.generation = self.next_generation(signer);
    }

    fn next_generation(&self, signer: &PublicKey) -> Hash256 {
        Hash256(keccak256_parts(&[&self.generation.0, &signer.0]))
    }

    fn hit(&self, signer: &PublicKey) -> u64 {
        let value = U256::from_be_bytes(self.next_generation(signer).0);
        let spare = value.leading_zeros();
        let shifted = value << spare;
        // The leading 64 bits; the last one tells whether any lower bit is set, so that the rounding is that of the
        // whole number.
        let [low @ .., high] = *shifted.as_limbs();
        let leading = high | u64::from(low != [0; 3]);
        let fraction = leading as f64 / 2f64.powi(64 + spare as i32);
        (SCALE * fraction.ln().abs()) as u64
    }

    fn target(&self, elapsed: i32, importance: f64, terms: &NetworkTerms) -> U256 {
        if elapsed < 0 {
            return U256::ZERO;
        }
        let pace = terms.target_time as f64;
        let factor = if terms.stabilize { (6.0 * (f64::from(elapsed) - pace) / pace).exp().min(100.0) } else { 1.0 };
        let multiplier = U256::from((SCALE * factor) as u64) << 10;
        let product = U256::from(elapsed as u64) * U256::from((importance * TOTAL_SUPPLY) as u64) * multiplier;
        product / U256::from(self.difficulty(terms).0 as u64)
    }

    /// Returns the minimum seconds after the last block at which a key may make the next one with this importance, or
    /// an earlier time at which a hit is practically certain. `None` if that takes too long.
    pub fn first_hit(&self, signer: &PublicKey, importance: f64, terms: &NetworkTerms) -> Option<i32> {
        let hit = U256::from(self.hit(signer));
        let is_hit = |elapsed: i32| hit < self.target(elapsed, importance, terms);
        let (mut without, mut with) = (0, MAX_WAIT_SECONDS);
        if !is_hit(with) {
            return None;
        }
        while with - without > 1 {
            let middle = (with + without) / 2;
            if is_hit(middle) { with = middle } else { without = middle }
        }
        Some(with)
    }

    /// Returns whether a hit and a target are so close that the last bit of a logarithm could decide.
    pub fn is_close(&self, signer: &PublicKey, importance: f64, elapsed: i32, terms: &NetworkTerms) -> bool {
        let hit = U256::from(self.hit(signer));
        hit.abs_diff(self.target(elapsed, importance, terms)) <= (hit >> 44) + U256::from(64)
    }
}
