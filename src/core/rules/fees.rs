//! Minimum fees of transactions, namespace rents and mosaic creation, under the three fee schedules.

use ruint::aliases::U256;

use super::TransactionContext;
use super::result::ValidationResult::FailureInsufficientFee;
use super::result::{RuleResult, require};
use crate::model::mosaic::MAX_QUANTITY;
use crate::model::network::Forks;
use crate::model::transaction::Transfer;
use crate::model::units::MICRO;
use crate::model::{Amount, Body, Height, Mosaic, MosaicId, NamespaceId};
use crate::state::{self, Exception, MosaicEntry};
use crate::store::Result;

/// Maximum fee of a cosignature.
const MAX_COSIGNATURE_FEE: Amount = Amount::whole(1000);
/// Supply of the currency in whole units, against which mosaic values are measured.
const CURRENCY_SUPPLY: u64 = 8_999_999_999;
/// Maximum supply in indivisible units of a "small business" mosaic, which is cheap to send.
const SMALL_BUSINESS_SUPPLY: u64 = 10_000;
/// Micro-units per fee unit under the third schedule.
const FEE_UNIT: u64 = 50_000;

/// A fee schedule; a fork starts the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeeSchedule {
    First,
    Second,
    Third,
}

impl FeeSchedule {
    /// Returns the schedule in force at a height.
    pub fn at(forks: &Forks, height: Height) -> FeeSchedule {
        match height.0 {
            height if height >= forks.second_fee => FeeSchedule::Third,
            height if height >= forks.first_fee => FeeSchedule::Second,
            _ => FeeSchedule::First,
        }
    }

    /// Returns the minimum rent of a namespace.
    pub fn rental_fee(self, name: &NamespaceId) -> Amount {
        self.pick(if name.is_root() { [50_000, 1_500, 100] } else { [5_000, 200, 10] })
    }

    /// Returns the minimum fee for defining or redefining a mosaic.
    pub fn creation_fee(self) -> Amount {
        self.pick([50_000, 500, 10])
    }

    /// Picks one of three amounts in whole units.
    fn pick(self, amounts: [u64; 3]) -> Amount {
        Amount::whole(amounts[self as usize])
    }

    /// Returns the minimum fee of a transaction with this body. `mosaic` returns definition and supply of an attached
    /// mosaic; an unknown one is an exception.
    pub fn minimum_fee(
        self,
        body: &Body,
        mosaic: impl Fn(&MosaicId) -> Result<Option<MosaicEntry>>,
    ) -> RuleResult<Amount> {
        let attached = |id: &MosaicId| {
            let unknown = || Exception::argument(format!("unable to find fee information for '{id}'"));
            Ok(mosaic(id)?.ok_or_else(unknown)?)
        };
        let units = match (body, self) {
            (Body::Transfer(body), _) => transfer_fee(self, body, attached)?,
            (Body::AggregateModification(_), FeeSchedule::Third) => 10,
            (Body::AggregateModification(body), _) => {
                let change = if body.min_cosignatories_change.is_some() { 3 } else { 0 };
                2 * (5 + 3 * body.modifications.len() as i64 + change)
            }
            (_, FeeSchedule::Third) => 3,
            (Body::ImportanceTransfer(_) | Body::Multisig(_) | Body::Cosignature(_), _) => 6,
            (_, FeeSchedule::First) => 108,
            (_, FeeSchedule::Second) => 20,
        };
        let unit = if self == FeeSchedule::Third { FEE_UNIT } else { MICRO };
        let amount = units.wrapping_mul(unit as i64);
        let negative = || Exception::argument(format!("amount ({amount}) must be non-negative"));
        Ok(Amount(u64::try_from(amount).map_err(|_| negative())?))
    }
}

/// T2: the fee is high enough. The fee of a cosignature is also not too high, because the multisig account pays it.
pub fn fee_suffices(subject: &TransactionContext<'_>) -> RuleResult {
    let TransactionContext { transaction, context, .. } = subject;
    if context.chain().ignore_fees || subject.is_by_nemesis() {
        return Ok(());
    }
    let schedule = FeeSchedule::at(context.forks(), context.height);
    let minimum = schedule.minimum_fee(&transaction.body, |id| state::mosaic(&context.state, id))?;
    require(transaction.fee >= minimum, FailureInsufficientFee)?;
    let is_cosignature = matches!(transaction.body, Body::Cosignature(_));
    require(!is_cosignature || transaction.fee <= MAX_COSIGNATURE_FEE, FailureInsufficientFee)
}

/// Returns the fee of a transfer, in fee units of the schedule.
fn transfer_fee(
    schedule: FeeSchedule,
    body: &Transfer,
    attached: impl Fn(&MosaicId) -> RuleResult<MosaicEntry>,
) -> RuleResult<i64> {
    let is_first = schedule == FeeSchedule::First;
    let message = match body.message_length() as i64 {
        0 => 0,
        length if is_first => 2 * (length / 16).max(1),
        length => length / 32 + 1,
    };
    let first_fee = |units: i64| value_fee(units).max(10i64.wrapping_sub(units));
    if body.mosaics.is_empty() {
        let units = (body.amount.0 / MICRO) as i64;
        return Ok(message + if is_first { first_fee(units) } else { stepped_fee(units) });
    }
    let mut sum = 0i64;
    for mosaic in &body.mosaics {
        let entry = attached(&mosaic.id)?;
        sum = sum.wrapping_add(if is_first {
            first_fee(currency_value(body, mosaic, &entry))
        } else {
            mosaic_fee(body, mosaic, &entry)
        });
    }
    let sum = if is_first { sum.wrapping_mul(5) / 4 } else { sum };
    Ok(sum.wrapping_add(message))
}

/// Returns one per 10,000 units, at least 1 and at most 25.
fn stepped_fee(units: i64) -> i64 {
    (units / 10_000).clamp(1, 25)
}

/// Returns the fee of an attached mosaic under the later schedules. A scarcer mosaic is cheaper to send.
fn mosaic_fee(body: &Transfer, mosaic: &Mosaic, entry: &MosaicEntry) -> i64 {
    let properties = &entry.definition.properties;
    if properties.divisibility == 0 && entry.supply <= SMALL_BUSINESS_SUPPLY {
        return 1;
    }
    let total = entry.supply.wrapping_mul(properties.multiplier());
    let adjustment = MAX_QUANTITY.checked_div(total).map_or(0, supply_adjustment);
    (stepped_fee(currency_value(body, mosaic, entry)) - adjustment).max(1)
}

/// Returns the value of an attached mosaic in whole units of the currency, as if the whole mosaic were worth the whole
/// currency. The quantity is not multiplied by the amount first.
fn currency_value(body: &Transfer, mosaic: &Mosaic, entry: &MosaicEntry) -> i64 {
    if entry.supply == 0 {
        return 0;
    }
    let share = u128::from(CURRENCY_SUPPLY) * u128::from(mosaic.quantity);
    let divisor = u128::from(entry.supply) * u128::from(entry.definition.properties.multiplier()) * u128::from(MICRO);
    multiply_and_divide(share, body.amount.0, divisor) as i64
}

/// Returns the low 64 bits of `a · b / divisor`, rounded down. The product may exceed 128 bits. `divisor` is not 0.
fn multiply_and_divide(a: u128, b: u64, divisor: u128) -> u64 {
    (U256::from(a) * U256::from(b) / U256::from(divisor)).wrapping_to()
}

// NIS1 computes two curves of the formulas with an arc tangent and a logarithm in floating point. Each is a step function,
// so a table of its steps gives the same values without depending on a mathematical library.

/// Returns trunc(99 · atan(units / 150000)), at least 2: the fee of the first fee schedule for a value in whole units.
fn value_fee(units: i64) -> i64 {
    2 + VALUE_STEPS.partition_point(|step| *step <= units) as i64
}

/// Returns trunc(0.8 · ln(quotient)): the fee reduction for a mosaic. `quotient` is the maximum quantity divided by the
/// mosaic's total quantity in smallest units.
fn supply_adjustment(quotient: u64) -> i64 {
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

    #[test]
    fn products_beyond_128_bits_are_divided_exactly() {
        assert_eq!(multiply_and_divide(7, 3, 2), 10);
        assert_eq!(multiply_and_divide(10u128.pow(28), 10u64.pow(18), 10u128.pow(28)), 10u64.pow(18));
        // 8999999999 · (2⁶³ − 1)² / (9·10¹⁵ · 10⁶), with 87 bits.
        let share = u128::from(CURRENCY_SUPPLY) * u128::from(i64::MAX as u64);
        let divisor = 9 * 10u128.pow(21);
        assert_eq!(multiply_and_divide(share, i64::MAX as u64, divisor), 330_473_020_623_586_263);
    }

    #[test]
    fn stepped_fees_are_clamped_at_both_ends() {
        assert_eq!(
            [i64::MIN, 0, 19_999, 20_000, 249_999, 250_000, i64::MAX].map(stepped_fee),
            [1, 1, 1, 2, 24, 25, 25]
        );
    }

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
