//! Two curves of the fee formulas as integer tables.
//!
//! NIS1 computes them with an arc tangent and a logarithm in floating point. Each is a step function, so a table of its
//! steps gives the same values without depending on a mathematical library.

/// Returns trunc(99 · atan(units / 150000)), at least 2: the fee of the first fee schedule for a value in whole units.
pub fn value_fee(units: i64) -> i64 {
    2 + VALUE_STEPS.partition_point(|step| *step <= units) as i64
}

/// Returns trunc(0.8 · ln(quotient)): the fee reduction for a mosaic. `quotient` is the maximum quantity divided by the
/// mosaic's total quantity in smallest units.
pub fn supply_adjustment(quotient: u64) -> i64 {
    ADJUSTMENT_STEPS.partition_point(|step| *step <= quotient).saturating_sub(1) as i64
}

/// Values at which the fee rises by one.
#[rustfmt::skip]
const VALUE_STEPS: [i64; 153] = [
    4_547, 6_064, 7_583, 9_103, 10_624, 12_148, 13_675, 15_204, 16_736, 18_272, 19_811, 21_355, 22_903, 24_456,
    26_014, 27_578, 29_147, 30_723, 32_305, 33_894, 35_490, 37_094, 38_706, 40_326, 41_955, 43_593, 45_241, 46_899,
    48_568, 50_248, 51_939, 53_641, 55_357, 57_085, 58_826, 60_581, 62_351, 64_135, 65_935, 67_751, 69_584, 71_434,
    73_302, 75_188, 77_093, 79_019, 80_965, 82_932, 84_922, 86_934, 88_970, 91_031, 93_117, 95_229, 97_369, 99_537,
    101_734, 103_961, 106_220, 108_511, 110_837, 113_197, 115_593, 118_027, 120_500, 123_013, 125_569, 128_168,
    130_812, 133_503, 136_243, 139_034, 141_878, 144_776, 147_732, 150_747, 153_823, 156_964, 160_173, 163_451,
    166_802, 170_230, 173_736, 177_326, 181_003, 184_770, 188_633, 192_594, 196_660, 200_835, 205_125, 209_534,
    214_070, 218_738, 223_547, 228_502, 233_612, 238_885, 244_331, 249_959, 255_779, 261_804, 268_045, 274_515,
    281_230, 288_203, 295_452, 302_996, 310_854, 319_048, 327_602, 336_542, 345_896, 355_697, 365_978, 376_780,
    388_143, 400_117, 412_754, 426_113, 440_262, 455_275, 471_238, 488_247, 506_413, 525_862, 546_738, 569_211,
    593_475, 619_760, 648_334, 679_517, 713_691, 751_315, 792_950, 839_282, 891_165, 949_674, 1_016_176, 1_092_450,
    1_180_837, 1_284_496, 1_407_786, 1_556_900, 1_740_946, 1_973_877, 2_278_226, 2_692_887, 3_291_256, 4_230_401,
    5_917_812, 9_841_260, 29_183_979,
];

/// Quotients at which the adjustment rises by one, the step to 0 included.
#[rustfmt::skip]
const ADJUSTMENT_STEPS: [u64; 30] = [
    1, 4, 13, 43, 149, 519, 1_809, 6_311, 22_027, 76_880, 268_338, 936_590, 3_269_018, 11_409_992, 39_824_785,
    139_002_156, 485_165_196, 1_693_392_924, 5_910_522_064, 20_629_749_058, 72_004_899_338, 251_321_793_305,
    877_199_251_319, 3_061_726_229_132, 10_686_474_581_525, 37_299_461_295_719, 130_187_912_050_633,
    454_400_461_972_587, 1_586_013_452_313_426, 5_535_730_883_721_906,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Away from the steps, every mathematical library gives the same result.
    #[test]
    fn the_tables_follow_the_formulas_in_the_middle_of_each_step() {
        for pair in VALUE_STEPS.windows(2) {
            let middle = (pair[0] + pair[1]) / 2;
            assert_eq!(value_fee(middle), ((middle as f64 / 150_000.0).atan() * 99.0) as i64);
        }
        for pair in ADJUSTMENT_STEPS.windows(2) {
            let middle = (pair[0] + pair[1]) / 2;
            assert_eq!(supply_adjustment(middle), (0.8 * (middle as f64).ln()) as i64);
        }
    }

    #[test]
    fn the_fee_tables_are_flat_at_both_ends() {
        assert_eq!((value_fee(i64::MIN), value_fee(0), value_fee(i64::MAX)), (2, 2, 155));
        assert_eq!((supply_adjustment(0), supply_adjustment(1), supply_adjustment(u64::MAX)), (0, 0, 29));
    }
}
