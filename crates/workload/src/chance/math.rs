//! `ln` and `exp` from `+ - * /` alone.
//!
//! The C library's versions differ in their last bit between systems, and a last bit decides which page is touched. These
//! give equal bits wherever `f64` is IEEE 754. Accuracy: a few units in the last place (tested against the library).

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

const MANTISSA: u64 = (1 << 52) - 1;
const EXPONENT_BIAS: i32 = 1023;

/// Natural logarithm of a normal, positive `x`.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0, "ln of {x}");
    let bits = x.to_bits();
    let biased = i32::try_from(bits >> 52 & 0x7ff).expect("eleven bits");
    let mut exponent = biased - EXPONENT_BIAS;
    let mut mantissa = f64::from_bits(bits & MANTISSA | 1f64.to_bits());
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh z with z = (m - 1) / (m + 1); |z| <= 0.172, so z^24 is below 2^-60.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut series = 0.0;
    for k in (0..12u8).rev() {
        series = series * square + 1.0 / f64::from(2 * k + 1);
    }
    f64::from(exponent) * LN_2 + 2.0 * z * series
}

/// e to the power of `x`; 0 below -700, capped at e^700 above 700.
pub(crate) fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    /// ln 2 in two parts: the first has so few bits that its product with any exponent is exact.
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let power = (x * LOG2_E + 0.5).floor();
    let rest = (x - power * LN_2_HIGH) - power * LN_2_LOW;
    // Taylor series; |rest| <= 0.35, so the term of degree 14 is below 2^-57.
    let mut series = 1.0;
    for k in (1..14u8).rev() {
        series = 1.0 + series * rest / f64::from(k);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number between -1011 and 1011")]
    let biased = power as i64 + i64::from(EXPONENT_BIAS);
    series * f64::from_bits(biased.cast_unsigned() << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_and_exp_agree_with_the_library() {
        let mut x = 1e-300f64;
        while x < 1e300 {
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0), "ln {x}");
            x *= 1.37;
        }
        let mut x = -690.0f64;
        while x < 690.0 {
            assert!((exp(x) / x.exp() - 1.0).abs() <= 2e-15, "exp {x}: {} {}", exp(x), x.exp());
            x += 0.173;
        }
        assert_eq!((ln(1.0), exp(0.0), exp(-1e9)), (0.0, 1.0, 0.0));
    }

    #[test]
    fn the_bits_are_fixed() {
        // Blessed on 2026-11-21: any machine must give these.
        let bits: Vec<u64> = [ln(3.0), ln(1e-5), exp(1.0), exp(-33.3)].iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, [0x3ff1_93ea_7aad_030a, 0xc027_069e_2aa2_aa5b, 0x4005_bf0a_8b14_576a, 0x3cef_165b_b9b5_9d94]);
    }
}
