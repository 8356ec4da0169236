//! Proof of importance: whether the signer of a block was allowed to create it at its time. Also the score of a block.
//!
//! Logarithms of two platforms may differ in their last bit, so that two nodes would disagree about a block. Here
//! everything is integer arithmetic with errors below 2⁻¹⁸⁴, rounded once at the end. No result that is needed is
//! smaller than 2⁻⁵³, so that at least 130 leading bits are right. 119 bits are known to be enough to round the
//! logarithm of any double, and fewer for powers of e whose exponents are not tiny (Lefèvre and Muller, "Worst cases
//! for correct rounding of the elementary functions in double precision", 2001).

use ruint::Uint;
use ruint::aliases::U256;

use crate::crypto::PublicKey;
use crate::crypto::hash::keccak256_parts;
use crate::model::network::ChainParameters;
use crate::model::units::MICRO;
use crate::model::{Amount, Hash256};

/// Bits of a generation hash.
const HASH_BITS: usize = 256;

/// 2⁵⁴.
const SCALE: f64 = 18_014_398_509_481_984.0;

/// Returns the generation hash of a block of `signer` on top of a block with the generation hash `parent`.
pub fn generation_hash(parent: &Hash256, signer: &PublicKey) -> Hash256 {
    Hash256(keccak256_parts(&[&parent.0, &signer.0]))
}

/// Returns the hit of a block: 2⁵⁴ · |ln(generation hash / 2²⁵⁶)|, at most 2⁶³ − 1.
pub fn hit(generation_hash: &Hash256) -> u64 {
    let value = Fixed::from_be_slice(&generation_hash.0);
    if value.is_zero() { i64::MAX as u64 } else { (SCALE * minus_ln(nearest_double(value, HASH_BITS))) as u64 }
}

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

/// Returns a block's contribution to the score of its chain: its difficulty minus the seconds since its parent.
pub fn block_score(difficulty: u64, elapsed: i32) -> i64 {
    (difficulty as i64).wrapping_sub(i64::from(elapsed))
}

/// Returns e^`x` for −8 ≤ `x` ≤ 8, rounded to the nearest double.
///
/// With x = k · ln 2 + r and 0 ≤ r < ln 2 this is 2^k · (1 + r + r²/2! + …).
fn exp(x: f64) -> f64 {
    /// Added to k, so that nothing is negative.
    const LIFT: usize = 16;
    let (mantissa, exponent) = parts(x.abs());
    let magnitude = (Fixed::from(mantissa) << FRACTION) >> (52 - exponent) as usize;
    let origin = LN_2 * Fixed::from(LIFT);
    let lifted = if x < 0.0 { origin - magnitude } else { origin + magnitude };
    let (power_of_two, rest) = lifted.div_rem(LN_2);
    nearest_double(series(rest), FRACTION + LIFT - power_of_two.wrapping_to::<usize>())
}

/// Returns 1 + r + r²/2! + … for `r` < ln 2, with an error of at most 1 unit for each of the 40 terms.
fn series(r: Fixed) -> Fixed {
    let (mut term, mut index, mut sum) = (ONE, 1_u64, ONE);
    while !term.is_zero() {
        term = ((term * r) >> FRACTION) / Fixed::from(index);
        index += 1;
        sum += term;
    }
    sum
}

/// Returns −ln(`x`) for 2⁻²⁵⁶ ≤ `x` ≤ 1, rounded to the nearest double.
///
/// With x = m · 2^−k and 1 ≤ m < 2 this is k · ln 2 − 2 · artanh((m − 1) / (m + 1)).
fn minus_ln(x: f64) -> f64 {
    const LEADING: u64 = 1 << 52;
    let (mantissa, exponent) = parts(x);
    let fraction = (Fixed::from(mantissa - LEADING) << FRACTION) / Fixed::from(mantissa + LEADING);
    let halvings = Fixed::from(exponent.unsigned_abs());
    nearest_double(halvings * LN_2 - (artanh(fraction) << 1), FRACTION)
}

/// Returns z + z³/3 + z⁵/5 + … for `z` ≤ 1/3, with an error of at most 2 units for each of the 60 terms.
fn artanh(z: Fixed) -> Fixed {
    let square = (z * z) >> FRACTION;
    let (mut power, mut odd, mut sum) = (z, 1_u64, Fixed::ZERO);
    while !power.is_zero() {
        sum += power / Fixed::from(odd);
        power = (power * square) >> FRACTION;
        odd += 2;
    }
    sum
}

/// A non-negative number below 2¹⁹², in units of 2⁻¹⁹². A product of two does not overflow if it is below 1.
type Fixed = Uint<384, 6>;

/// Bits after the point.
const FRACTION: usize = 192;

const ONE: Fixed = Fixed::from_limbs([0, 0, 0, 1, 0, 0]);

/// The natural logarithm of 2, rounded to the nearest.
const LN_2: Fixed = Fixed::from_limbs([0x40f3_4326_7298_b62e, 0xc9e3_b398_03f2_f6af, 0xb172_17f7_d1cf_79ab, 0, 0, 0]);

/// Bits of the mantissa of a double, including the leading one.
const MANTISSA: usize = f64::MANTISSA_DIGITS as usize;

/// Returns mantissa (2⁵² ‥ 2⁵³ − 1) and exponent of a positive normal double: it is mantissa · 2^(exponent − 52).
fn parts(double: f64) -> (u64, i32) {
    let bits = double.to_bits();
    let (leading, mask) = (1 << (MANTISSA - 1), (1 << (MANTISSA - 1)) - 1);
    ((bits & mask) + leading, (bits >> (MANTISSA - 1)) as i32 - f64::MAX_EXP + 1)
}

/// Returns the double nearest to `value` · 2^−`fraction`; ties go to the even one. `fraction` is at most 1022.
fn nearest_double(value: Fixed, fraction: usize) -> f64 {
    let excess = value.bit_len().saturating_sub(MANTISSA);
    let kept = (value >> excess).wrapping_to::<u64>();
    let round_up = excess.checked_sub(1).is_some_and(|half| {
        let is_tie = value.trailing_zeros() == half;
        value.bit(half) && (!is_tie || kept % 2 == 1)
    });
    (kept + u64::from(round_up)) as f64 * power_of_two(excess as i32 - fraction as i32)
}

/// Returns 2^`exponent`, which must be the exponent of a normal double.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + f64::MAX_EXP - 1) as u64) << (MANTISSA - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hash::keccak256;

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

    #[test]
    fn powers_of_e_with_known_values_are_exact() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(1.0), std::f64::consts::E);
    }

    /// Found by search with 300 bits of precision: results that lie almost half-way between two doubles.
    #[test]
    fn hard_powers_of_e_are_correctly_rounded() {
        for (x, expected) in [
            (0x400a_fd3e_dd8b_b608, 0x403d_2f5c_82fb_98e5),
            (0x400f_b792_9208_1a78, 0x404a_59bb_6701_9b15),
            (0xc011_8301_6c12_11bd, 0x3f89_b478_18e0_0f26),
            (0x400f_e26a_9479_a788, 0x404a_e856_854b_601f),
            (0xbff8_f1ab_5712_a304, 0x3fca_ec9e_7a09_9608),
            (0x3ff9_b7d8_4461_abec, 0x4013_f57e_a2d9_d131),
        ] {
            assert_eq!(exp(f64::from_bits(x)).to_bits(), expected, "{x:x}");
        }
    }

    #[test]
    #[ignore = "slow: computes for long"]
    fn exp_differs_from_the_platform_by_at_most_the_last_bit() {
        for step in -80_000..=80_000 {
            let x = f64::from(step) / 10_001.0;
            let (found, platform) = (exp(x), x.exp());
            assert!(found.to_bits().abs_diff(platform.to_bits()) <= 1, "{x:e}: {found:e}, {platform:e}");
        }
    }

    #[test]
    fn the_constant_is_the_logarithm_of_two() {
        let two = artanh(ONE / Fixed::from(3)) << 1;
        assert!(LN_2.abs_diff(two) < Fixed::from(256), "{two:x}");
    }

    #[test]
    fn exact_and_outermost_logarithms() {
        assert_eq!(minus_ln(1.0), 0.0);
        assert_eq!(minus_ln(0.5), std::f64::consts::LN_2);
        assert_eq!(minus_ln(1.0 - 2_f64.powi(-53)), 2_f64.powi(-53));
        assert_eq!(minus_ln(2_f64.powi(-256)), 177.445678223346);
    }

    /// Found by search with 300 bits of precision: results that lie almost half-way between two doubles.
    #[test]
    fn hard_logarithms_are_correctly_rounded() {
        for (x, expected) in [
            (0x3fe9_a8a4_2d41_e6ab, 0x3fcc_44d8_f4b4_f23f),
            (0x3fd1_cce5_0069_2b4e, 0x3ff4_7980_d51a_3959),
            (0x3fde_0b51_43d6_3330, 0x3fe8_32e5_f18a_b711),
            (0x336f_e270_fef1_1214, 0x4061_5441_f3e3_d2ab),
            (0x3fef_ffff_ffff_fffe, 0x3cb0_0000_0000_0001),
        ] {
            assert_eq!(minus_ln(f64::from_bits(x)).to_bits(), expected, "{x:x}");
        }
    }

    #[test]
    fn the_logarithm_differs_from_the_platform_by_at_most_the_last_bit() {
        for seed in 0_u32..20_000 {
            let bytes = keccak256(&seed.to_be_bytes());
            let mantissa = u64::from_be_bytes(bytes[..8].try_into().unwrap()) >> 12;
            // Half of the inputs lie close below 1.
            let (exponent, mantissa) = match seed % 2 {
                0 => (1022 - u64::from(bytes[8]), mantissa),
                _ => (1022, (1 << 52) - 1 - (mantissa >> (bytes[8] % 52))),
            };
            let x = f64::from_bits(exponent << 52 | mantissa);
            let (found, platform) = (minus_ln(x), -x.ln());
            assert!(found.to_bits().abs_diff(platform.to_bits()) <= 1, "{x:e}: {found:e}, {platform:e}");
        }
    }

    #[test]
    fn fixed_numbers_round_to_the_nearest_double_and_ties_to_even() {
        let ulps = |above: u64| (Fixed::from(1_u64 << 52) << 8) + Fixed::from(above);
        let rounded = |above| nearest_double(ulps(above), 60);
        let double = |steps: u64| f64::from_bits(1_f64.to_bits() + steps);
        assert_eq!(rounded(0), double(0));
        assert_eq!(rounded(0x07f), double(0));
        assert_eq!(rounded(0x080), double(0));
        assert_eq!(rounded(0x081), double(1));
        assert_eq!(rounded(0x17f), double(1));
        assert_eq!(rounded(0x180), double(2));
    }

    #[test]
    fn small_and_great_numbers_become_doubles() {
        assert_eq!(nearest_double(Fixed::ZERO, 256), 0.0);
        assert_eq!(nearest_double(Fixed::from(1), 256), 2_f64.powi(-256));
        assert_eq!(nearest_double(Fixed::from(3), 1), 1.5);
        assert_eq!(nearest_double((ONE << 64) - Fixed::from(1), 256), 1.0);
    }

    #[test]
    fn a_double_falls_into_mantissa_and_exponent() {
        assert_eq!(parts(1.0), (1 << 52, 0));
        assert_eq!(parts(0.375), (3 << 51, -2));
        assert_eq!(parts(1.0 - 2_f64.powi(-53)), ((1 << 53) - 1, -1));
    }
}
