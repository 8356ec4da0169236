//! Minimum fees of transactions, namespace rents and mosaic creation, under the three fee schedules.

use super::context::{TransactionContext, ValidationContext};
use super::fee_tables::{supply_adjustment, value_fee};
use super::result::ValidationResult::FailureInsufficientFee;
use super::result::{Exception, Rejection, RuleResult, require};
use crate::model::mosaic::MAX_QUANTITY;
use crate::model::transaction::{AggregateModification, Transfer};
use crate::model::units::MICRO;
use crate::model::{Amount, Body, Mosaic, NamespaceId, Transaction};
use crate::state::{MosaicEntry, StateView};

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
enum FeeSchedule {
    First,
    Second,
    Third,
}

impl FeeSchedule {
    fn of<V: StateView>(context: &ValidationContext<'_, V>) -> FeeSchedule {
        let forks = context.forks();
        match () {
            _ if context.is_since(forks.second_fee) => FeeSchedule::Third,
            _ if context.is_since(forks.first_fee) => FeeSchedule::Second,
            _ => FeeSchedule::First,
        }
    }

    /// Picks one of three amounts in whole units.
    fn pick(self, [first, second, third]: [u64; 3]) -> Amount {
        Amount::whole(match self {
            FeeSchedule::First => first,
            FeeSchedule::Second => second,
            FeeSchedule::Third => third,
        })
    }
}

/// Returns the minimum rent of a namespace.
pub fn rental_fee<V: StateView>(name: &NamespaceId, context: &ValidationContext<'_, V>) -> Amount {
    FeeSchedule::of(context).pick(if name.is_root() { [50_000, 1_500, 100] } else { [5_000, 200, 10] })
}

/// Returns the minimum fee for defining or redefining a mosaic.
pub fn creation_fee<V: StateView>(context: &ValidationContext<'_, V>) -> Amount {
    FeeSchedule::of(context).pick([50_000, 500, 10])
}

/// T2: the fee is high enough. The fee of a cosignature is also not too high, because the multisig account pays it.
pub fn fee_suffices<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let TransactionContext { transaction, context: case, .. } = subject;
    if case.chain().ignore_fees || subject.is_by_nemesis() {
        return Ok(());
    }
    require(transaction.fee >= minimum_fee(transaction, case)?, FailureInsufficientFee)?;
    let is_cosignature = matches!(transaction.body, Body::Cosignature(_));
    require(!is_cosignature || transaction.fee <= MAX_COSIGNATURE_FEE, FailureInsufficientFee)
}

/// Returns the minimum fee of a transaction. Rejects a transaction with a mosaic that the state does not know.
pub fn minimum_fee<V: StateView>(
    transaction: &Transaction,
    context: &ValidationContext<'_, V>,
) -> Result<Amount, Rejection> {
    let schedule = FeeSchedule::of(context);
    let units = match (&transaction.body, schedule) {
        (Body::Transfer(body), FeeSchedule::First) => first_transfer_fee(body, context)?,
        (Body::Transfer(body), _) => later_transfer_fee(body, context)?,
        (Body::AggregateModification(body), FeeSchedule::First | FeeSchedule::Second) => modification_fee(body),
        (Body::AggregateModification(_), FeeSchedule::Third) => 10,
        (_, FeeSchedule::Third) => 3,
        (Body::ImportanceTransfer(_) | Body::Multisig(_) | Body::Cosignature(_), _) => 6,
        (_, FeeSchedule::First) => 108,
        (_, FeeSchedule::Second) => 20,
    };
    let unit = if schedule == FeeSchedule::Third { FEE_UNIT } else { MICRO };
    let amount = units.wrapping_mul(unit as i64);
    let negative = || Exception::argument(format!("amount ({amount}) must be non-negative"));
    Ok(Amount(u64::try_from(amount).map_err(|_| negative())?))
}

fn modification_fee(body: &AggregateModification) -> i64 {
    let change = if body.min_cosignatories_change.is_some() { 3 } else { 0 };
    2 * (5 + 3 * body.modifications.len() as i64 + change)
}

/// Returns the length of the message in bytes.
fn message_length(body: &Transfer) -> i64 {
    body.message.as_ref().map_or(0, |message| message.payload.len() as i64)
}

/// Returns the fee of a transfer under the first schedule, in whole units.
fn first_transfer_fee<V: StateView>(body: &Transfer, context: &ValidationContext<'_, V>) -> Result<i64, Rejection> {
    let message = match message_length(body) {
        0 => 0,
        length => 2 * (length / 16).max(1),
    };
    let value = |units: i64| value_fee(units).max(10i64.wrapping_sub(units));
    if body.mosaics.is_empty() {
        return Ok(message + value(whole_units(body)));
    }
    let mut sum = 0i64;
    for mosaic in &body.mosaics {
        sum = sum.wrapping_add(value(currency_value(body, mosaic, &attached_mosaic(mosaic, context)?)));
    }
    Ok((sum.wrapping_mul(5) / 4).wrapping_add(message))
}

/// Returns the fee of a transfer under the later schedules, in fee units of the schedule.
fn later_transfer_fee<V: StateView>(body: &Transfer, context: &ValidationContext<'_, V>) -> Result<i64, Rejection> {
    let message = match message_length(body) {
        0 => 0,
        length => length / 32 + 1,
    };
    if body.mosaics.is_empty() {
        return Ok(message + stepped_fee(whole_units(body)));
    }
    body.mosaics
        .iter()
        .try_fold(message, |sum, mosaic| Ok(sum + mosaic_fee(body, mosaic, &attached_mosaic(mosaic, context)?)))
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

fn whole_units(body: &Transfer) -> i64 {
    (body.amount.0 / MICRO) as i64
}

/// Returns definition and supply of an attached mosaic.
fn attached_mosaic<V: StateView>(
    mosaic: &Mosaic,
    context: &ValidationContext<'_, V>,
) -> Result<MosaicEntry, Rejection> {
    let unknown = || Exception::argument(format!("unable to find fee information for '{}'", mosaic.id));
    Ok(context.state.mosaic(&mosaic.id)?.ok_or_else(unknown)?)
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

/// Returns the low 64 bits of `a · b / divisor`, rounded down. The product may exceed 128 bits, so `b` is split in two
/// halves of 32 bits. `divisor` is not 0 and below 2⁹⁵: at most 9·10¹⁵ smallest units times 10⁶ is below 2⁷⁴.
fn multiply_and_divide(a: u128, b: u64, divisor: u128) -> u64 {
    let (high, low) = (u128::from(b >> 32), u128::from(b & 0xffff_ffff));
    let (whole, part) = (a / divisor, a % divisor);
    let above = part * high;
    let below = ((above % divisor) << 32) + part * low;
    let quotient = ((above / divisor) << 32) + below / divisor;
    (whole as u64).wrapping_mul(b).wrapping_add(quotient as u64)
}

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
}
