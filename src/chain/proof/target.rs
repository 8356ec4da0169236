//! The target that the hit of a block must stay below.

use ruint::aliases::U256;

use super::exponential::exp;
use super::hit::SCALE;
use crate::model::Amount;
use crate::model::network::ChainParameters;
use crate::model::units::MICRO;

/// A target; below 2¹⁶⁵.
pub type Target = U256;

/// Largest factor by which a late block becomes easier where block times are stabilised.
const MAX_FACTOR: f64 = 100.0;

/// Returns the importance that counts for a block: `importance` times the whole units of the network's total amount.
pub fn effective_importance(importance: f64, total: Amount) -> u64 {
    (importance * (total.0 / MICRO) as f64) as u64
}

/// Returns the target of a block `elapsed` seconds after its parent; 0 if no time has passed.
///
/// A difficulty is never 0; for 0 the target is 0.
pub fn target(elapsed: i32, effective_importance: u64, difficulty: u64, chain: &ChainParameters) -> Target {
    let Ok(seconds) = u32::try_from(elapsed) else { return Target::ZERO };
    let multiplier = if chain.stabilize_block_times { multiplier(seconds, chain.target_time) } else { 1 << 64 };
    let product = U256::from(seconds) * U256::from(effective_importance) * U256::from(multiplier);
    product.checked_div(U256::from(difficulty)).unwrap_or(Target::ZERO)
}

/// Returns 2⁶⁴ · e^(6 · (elapsed − target time) / target time), at most 100 · 2⁶⁴, cut to a multiple of 2¹⁰.
fn multiplier(elapsed: u32, target_time: u32) -> u128 {
    /// e to this power exceeds [`MAX_FACTOR`].
    const ENOUGH: f64 = 5.0;
    let target_time = f64::from(target_time);
    let exponent = 6.0 * (f64::from(elapsed) - target_time) / target_time;
    let factor = if exponent < ENOUGH { exp(exponent).min(MAX_FACTOR) } else { MAX_FACTOR };
    ((SCALE * factor) as u128) << 10
}

/// Returns whether a block with this hit may be created.
pub fn is_hit(hit: u64, target: &Target) -> bool {
    Target::from(hit) < *target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_zero_without_positive_elapsed_time() {
        for stabilize_block_times in [false, true] {
            let chain = ChainParameters { stabilize_block_times, ..ChainParameters::after_all_forks() };
            for elapsed in [0, -1, i32::MIN] {
                assert_eq!(target(elapsed, u64::MAX, 1, &chain), Target::ZERO);
            }
        }
    }

    #[test]
    fn the_greatest_arguments_do_not_overflow() {
        let chain = ChainParameters { stabilize_block_times: true, ..ChainParameters::after_all_forks() };
        let greatest = target(i32::MAX, i64::MAX as u64, 1, &chain);
        let product = U256::from(i32::MAX) * U256::from(i64::MAX) * (U256::from(100) << 64);
        assert_eq!(greatest, product);
        assert!(is_hit(i64::MAX as u64, &greatest));
        assert!(!is_hit(0, &target(1, 1, 0, &chain)));
    }

    #[test]
    fn a_hit_must_be_below_the_target() {
        let target = target(60, 9_000_000, 100_000_000_000_000, &ChainParameters::after_all_forks());
        assert!(is_hit(99_612_417_998_030, &target));
        assert!(!is_hit(99_612_417_998_031, &target));
    }

    #[test]
    fn the_whole_importance_counts_as_the_total_amount() {
        let total = Amount::whole(9_000_000_240);
        assert_eq!(effective_importance(1.0, total), 9_000_000_240);
        assert_eq!(effective_importance(0.75, total), 6_750_000_180);
        assert_eq!(effective_importance(0.0, total), 0);
    }

    #[test]
    fn an_importance_that_is_nan_or_negative_is_zero() {
        let total = Amount::whole(9);
        assert_eq!(effective_importance(f64::NAN, total), 0);
        assert_eq!(effective_importance(-1.0, total), 0);
        assert_eq!(effective_importance(0.5, total), 4);
    }
}
