//! The natural logarithm, correctly rounded.

use super::fixed::{FRACTION, Fixed, LN_2, nearest_double, parts};

/// Returns −ln(`x`) for 2⁻²⁵⁶ ≤ `x` ≤ 1, rounded to the nearest double.
///
/// With x = m · 2^−k and 1 ≤ m < 2 this is k · ln 2 − 2 · artanh((m − 1) / (m + 1)).
pub(super) fn minus_ln(x: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::super::fixed::ONE;
    use super::*;
    use crate::crypto::hash::keccak256;

    #[test]
    fn the_constant_is_the_logarithm_of_two() {
        let two = artanh(ONE / Fixed::from(3)) << 1;
        assert!(LN_2.abs_diff(two) < Fixed::from(256), "{two:x}");
    }

    #[test]
    fn exact_and_outermost_values() {
        assert_eq!(minus_ln(1.0), 0.0);
        assert_eq!(minus_ln(0.5), std::f64::consts::LN_2);
        assert_eq!(minus_ln(1.0 - 2_f64.powi(-53)), 2_f64.powi(-53));
        assert_eq!(minus_ln(2_f64.powi(-256)), 177.445678223346);
    }

    /// Found by search with 300 bits of precision: results that lie almost half-way between two doubles.
    #[test]
    fn hard_cases_are_correctly_rounded() {
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
}
