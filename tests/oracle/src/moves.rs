//! Effects of a transaction, in order.

use std::cmp::Ordering;

use nisd::model::mosaic::LevyKind;
use nisd::model::transaction::Transfer;
use nisd::model::units::MICRO;
use nisd::model::{Body, Mosaic, Transaction};
use ruint::aliases::U256;

use super::court::Oracle;
use super::model::StateChange;
use super::people::AccountIndex;
use super::rule::{Rule, RuleViolation};

impl Oracle<'_> {
    /// Returns the effects of a transaction on the present state.
    pub fn moves(&self, transaction: &Transaction) -> Result<Vec<StateChange>, RuleViolation> {
        let signer = self.key_ring.of_key(&transaction.signer);
        let fee = StateChange::Fee { from: signer, amount: transaction.fee.0 };
        Ok(match &transaction.body {
            Body::Transfer(body) => {
                let mut moves = self.transfer(signer, body)?;
                moves.push(fee);
                moves
            }
            Body::ImportanceTransfer(body) => {
                let remote = self.key_ring.of_key(&body.remote);
                vec![StateChange::Reference(remote), StateChange::Link { owner: signer, remote, mode: body.mode }, fee]
            }
            Body::AggregateModification(body) => {
                let mut moves = Vec::new();
                for one in &body.modifications {
                    let other = self.key_ring.of_key(&one.cosignatory);
                    moves.extend([
                        StateChange::Reference(other),
                        StateChange::Cosign { account: signer, kind: one.kind, other },
                    ]);
                }
                let change = body.min_cosignatories_change;
                moves.extend(change.map(|change| StateChange::MinCosignatories { account: signer, change }));
                moves.push(fee);
                moves
            }
            Body::Cosignature(body) => {
                let account = self.key_ring.of_address(&body.other_account);
                vec![StateChange::Fee { from: account, amount: transaction.fee.0 }]
            }
            Body::Multisig(body) => {
                let account = self.key_ring.of_key(&body.inner.signer);
                let mut moves = Vec::new();
                moves.extend(body.cosignatures.iter().map(|one| StateChange::Fee { from: account, amount: one.fee.0 }));
                moves.extend(self.moves(&body.inner)?);
                moves.push(StateChange::Fee { from: account, amount: transaction.fee.0 });
                moves
            }
            Body::ProvisionNamespace(body) => {
                let name = body.name().map_err(|error| RuleViolation::exception(Rule::T6Name, error.to_string()))?;
                let sink = self.key_ring.of_address(&body.rental_fee_sink);
                let pay = StateChange::Pay { from: signer, to: sink, amount: body.rental_fee.0 };
                vec![StateChange::Reference(sink), pay, StateChange::Rent { owner: signer, name }, fee]
            }
            Body::MosaicDefinitionCreation(body) => {
                let define = StateChange::Define { creator: signer, definition: body.definition.clone() };
                let sink = self.key_ring.of_address(&body.creation_fee_sink);
                vec![define, StateChange::Pay { from: signer, to: sink, amount: body.creation_fee.0 }, fee]
            }
            Body::MosaicSupplyChange(body) => {
                let (id, kind, delta) = (body.mosaic.clone(), body.kind, body.delta);
                vec![StateChange::Supply { signer, id, kind, delta }, fee]
            }
        })
    }

    fn transfer(&self, signer: AccountIndex, body: &Transfer) -> Result<Vec<StateChange>, RuleViolation> {
        let to = self.key_ring.of_address(&body.recipient);
        let mut moves = vec![StateChange::Reference(to)];
        if body.mosaics.is_empty() {
            moves.push(StateChange::Pay { from: signer, to, amount: body.amount.0 });
        }
        if let Some(currency) = body.mosaics.iter().find(|mosaic| mosaic.id.is_xem()) {
            moves.push(StateChange::Pay { from: signer, to, amount: moved_units(body, currency)? });
        }
        for mosaic in body.mosaics.iter().filter(|mosaic| !mosaic.id.is_xem()) {
            let quantity = moved_units(body, mosaic)?;
            moves.push(StateChange::Mosaic { from: signer, to, id: mosaic.id.clone(), quantity });
            moves.extend(self.levy(signer, mosaic, quantity)?);
        }
        Ok(moves)
    }

    fn levy(&self, signer: AccountIndex, mosaic: &Mosaic, quantity: u64) -> Result<Option<StateChange>, RuleViolation> {
        let token = self.model.token(&mosaic.id);
        let Some(levy) = token.and_then(|token| token.definition.levy.as_ref()) else { return Ok(None) };
        let amount = match levy.kind {
            LevyKind::Absolute => levy.fee as i64,
            LevyKind::Percentile => (quantity as i64).wrapping_mul(levy.fee as i64) / 10_000,
        };
        let to = self.key_ring.of_address(&levy.recipient);
        match amount.cmp(&0) {
            Ordering::Less => {
                let text = format!("quantity ({amount}) must be non-negative");
                Err(RuleViolation::exception(Rule::T6Levy, text))
            }
            Ordering::Equal => Ok(None),
            Ordering::Greater if levy.mosaic.is_xem() => {
                Ok(Some(StateChange::Pay { from: signer, to, amount: amount as u64 }))
            }
            Ordering::Greater => {
                Ok(Some(StateChange::Mosaic { from: signer, to, id: levy.mosaic.clone(), quantity: amount as u64 }))
            }
        }
    }
}

/// Returns the smallest units of an attached mosaic that move.
fn moved_units(body: &Transfer, mosaic: &Mosaic) -> Result<u64, RuleViolation> {
    let product = U256::from(body.amount.0) * U256::from(mosaic.quantity) / U256::from(MICRO);
    let fits = product <= U256::from(i64::MAX as u64);
    let beyond = || RuleViolation::exception(Rule::T6Quantity, "BigInteger out of long range");
    if fits { Ok(product.to::<u64>()) } else { Err(beyond()) }
}
