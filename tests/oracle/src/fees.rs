//! Minimum fees, rents and creation fees.

use nisd::model::transaction::Transfer;
use nisd::model::units::MICRO;
use nisd::model::{Body, Mosaic, NamespaceId, Transaction};
use ruint::aliases::U256;

use super::court::Oracle;
use super::rule::{Rule, RuleViolation};

const CURRENCY: u64 = 8_999_999_999;

impl Oracle<'_> {
    /// Returns the minimum fee of a transaction in micro-units.
    pub fn min_fee(&self, transaction: &Transaction) -> Result<u64, RuleViolation> {
        let era = self.terms.era(self.height);
        let units = match &transaction.body {
            Body::Transfer(body) if era == 0 => self.first_transfer_fee(body)?,
            Body::Transfer(body) => self.later_transfer_fee(body)?,
            Body::AggregateModification(_) if era == 2 => 10,
            Body::AggregateModification(body) => {
                let change = if body.min_cosignatories_change.is_some() { 3 } else { 0 };
                2 * (5 + 3 * body.modifications.len() as i64 + change)
            }
            _ if era == 2 => 3,
            Body::ImportanceTransfer(_) | Body::Multisig(_) | Body::Cosignature(_) => 6,
            _ => [108, 20][era],
        };
        let fee = units.wrapping_mul(if era == 2 { 50_000 } else { MICRO as i64 });
        let negative = || RuleViolation::exception(Rule::T2First, format!("amount ({fee}) must be non-negative"));
        u64::try_from(fee).map_err(|_| negative())
    }

    /// Returns the minimum rent in micro-units.
    pub fn rent(&self, name: &NamespaceId) -> u64 {
        let all = if name.is_root() { [50_000, 1_500, 100] } else { [5_000, 200, 10] };
        all[self.terms.era(self.height)] * MICRO
    }

    /// Returns the minimum creation fee in micro-units.
    pub fn creation_fee(&self) -> u64 {
        [50_000, 500, 10][self.terms.era(self.height)] * MICRO
    }

    fn first_transfer_fee(&self, body: &Transfer) -> Result<i64, RuleViolation> {
        let message = match length(body) {
            0 => 0,
            bytes => (bytes / 16).max(1) * 2,
        };
        let value = |units: i64| {
            10i64.wrapping_sub(units).max(2.max((((units as f64 / 150_000.0).atan() * 3.0) * 33.0) as i64))
        };
        if body.mosaics.is_empty() {
            return Ok(message + value((body.amount.0 / MICRO) as i64));
        }
        let mut sum = 0i64;
        for mosaic in &body.mosaics {
            let (supply, divisibility) = self.supply_and_divisibility(mosaic)?;
            sum = value(currency_equivalent(body, mosaic, supply, divisibility)).wrapping_add(sum);
        }
        Ok(message.wrapping_add(5i64.wrapping_mul(sum) / 4))
    }

    fn later_transfer_fee(&self, body: &Transfer) -> Result<i64, RuleViolation> {
        let message = match length(body) {
            0 => 0,
            bytes => bytes / 32 + 1,
        };
        let value = |units: i64| (units / 10_000).clamp(1, 25);
        if body.mosaics.is_empty() {
            return Ok(message + value((body.amount.0 / MICRO) as i64));
        }
        let mut sum = message;
        for mosaic in &body.mosaics {
            let (supply, divisibility) = self.supply_and_divisibility(mosaic)?;
            let total = supply * 10u64.pow(divisibility);
            sum += match total {
                _ if divisibility == 0 && supply <= 10_000 => 1,
                0 => value(currency_equivalent(body, mosaic, supply, divisibility)),
                _ => {
                    let scarcity = (0.8 * ((9_000_000_000_000_000 / total) as f64).ln()) as i64;
                    (value(currency_equivalent(body, mosaic, supply, divisibility)) - scarcity).max(1)
                }
            };
        }
        Ok(sum)
    }

    /// Returns the supply and the divisibility of an attached mosaic.
    fn supply_and_divisibility(&self, mosaic: &Mosaic) -> Result<(u64, u32), RuleViolation> {
        if mosaic.id.is_xem() {
            return Ok((CURRENCY, 6));
        }
        let text = || format!("unable to find fee information for '{}'", mosaic.id);
        let token = self.model.token(&mosaic.id).ok_or_else(|| RuleViolation::exception(Rule::T2Unknown, text()))?;
        Ok((token.supply, u32::from(token.definition.properties.divisibility)))
    }
}

fn length(body: &Transfer) -> i64 {
    body.message.as_ref().map_or(0, |message| message.payload.len() as i64)
}

/// Returns the value of an attached mosaic in whole units of the currency.
fn currency_equivalent(body: &Transfer, mosaic: &Mosaic, supply: u64, divisibility: u32) -> i64 {
    if supply == 0 {
        return 0;
    }
    let product = U256::from(CURRENCY) * U256::from(mosaic.quantity) * U256::from(body.amount.0);
    let quotient = product / U256::from(supply) / U256::from(10u64.pow(divisibility + 6));
    quotient.as_limbs()[0] as i64
}
