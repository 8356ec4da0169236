//! The exponential function, correctly rounded.

use super::fixed::{FRACTION, Fixed, LN_2, ONE, nearest_double, parts};

/// Returns e^`x` for −8 ≤ `x` ≤ 8, rounded to the nearest double.
///
/// With x = k · ln 2 + r and 0 ≤ r < ln 2 this is 2^k · (1 + r + r²/2! + …).
pub(super) fn exp(x: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_values() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(1.0), std::f64::consts::E);
    }

    /// Found by search with 300 bits of precision: results that lie almost half-way between two doubles.
    #[test]
    fn hard_cases_are_correctly_rounded() {
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
    fn exp_differs_from_the_platform_by_at_most_the_last_bit() {
        for step in -80_000..=80_000 {
            let x = f64::from(step) / 10_001.0;
            let (found, platform) = (exp(x), x.exp());
            assert!(found.to_bits().abs_diff(platform.to_bits()) <= 1, "{x:e}: {found:e}, {platform:e}");
        }
    }
}
