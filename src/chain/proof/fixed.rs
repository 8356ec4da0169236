//! Fixed-point numbers, from which the doubles of a logarithm and of a power of e are computed.
//!
//! Logarithms of two platforms may differ in their last bit, so that two nodes would disagree about a block. Here
//! everything is integer arithmetic with errors below 2⁻¹⁸⁴, rounded once at the end. No result that is needed is
//! smaller than 2⁻⁵³, so that at least 130 leading bits are right. 119 bits are known to be enough to round the
//! logarithm of any double, and fewer for powers of e whose exponents are not tiny (Lefèvre and Muller, "Worst cases
//! for correct rounding of the elementary functions in double precision", 2001).

use ruint::Uint;

/// A non-negative number below 2¹⁹², in units of 2⁻¹⁹². A product of two does not overflow if it is below 1.
pub(super) type Fixed = Uint<384, 6>;

/// Bits after the point.
pub(super) const FRACTION: usize = 192;

pub(super) const ONE: Fixed = Fixed::from_limbs([0, 0, 0, 1, 0, 0]);

/// The natural logarithm of 2, rounded to the nearest.
pub(super) const LN_2: Fixed =
    Fixed::from_limbs([0x40f3_4326_7298_b62e, 0xc9e3_b398_03f2_f6af, 0xb172_17f7_d1cf_79ab, 0, 0, 0]);

/// Bits of the mantissa of a double, including the leading one.
const MANTISSA: usize = f64::MANTISSA_DIGITS as usize;

/// Returns mantissa (2⁵² ‥ 2⁵³ − 1) and exponent of a positive normal double: it is mantissa · 2^(exponent − 52).
pub(super) fn parts(double: f64) -> (u64, i32) {
    let bits = double.to_bits();
    let (leading, mask) = (1 << (MANTISSA - 1), (1 << (MANTISSA - 1)) - 1);
    ((bits & mask) + leading, (bits >> (MANTISSA - 1)) as i32 - f64::MAX_EXP + 1)
}

/// Returns the double nearest to `value` · 2^−`fraction`; ties go to the even one. `fraction` is at most 1022.
pub(super) fn nearest_double(value: Fixed, fraction: usize) -> f64 {
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
