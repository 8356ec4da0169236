//! Effects of a transaction on the state, in the order in which they are applied.

use std::borrow::Cow;

use super::{Exception, StateError, StateResult, mosaics};
use crate::model::mosaic::LevyKind;
use crate::model::transaction::{LinkMode, Modification, SupplyChangeKind, Transfer};
use crate::model::units::MICRO;
use crate::model::{Address, Body, MosaicDefinition, MosaicId, NamespaceId, NetworkByte, Transaction};
use crate::store::Read;

/// One change of the state. Amounts are micro-units, quantities smallest units.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<'t> {
    /// Increments the reference count of an account.
    Reference(Address),
    /// Transfers currency.
    Transfer { from: Address, to: Address, amount: u64 },
    /// Deducts currency, as a fee.
    Debit { from: Address, amount: u64 },
    /// Activates or deactivates an importance link.
    Link { owner: Address, remote: Address, mode: LinkMode },
    /// Adds or deletes a cosignatory.
    Cosignatory { account: Address, modification: &'t Modification },
    /// Changes the number of required signatures.
    MinCosignatories { account: Address, change: i32 },
    /// Rents a namespace.
    Namespace { owner: Address, name: NamespaceId },
    /// Defines a mosaic.
    Definition(&'t MosaicDefinition),
    /// Changes a supply by whole units.
    Supply { supplier: Address, mosaic: &'t MosaicId, delta: u64, kind: SupplyChangeKind },
    /// Transfers a mosaic.
    MosaicTransfer { from: Address, to: Address, mosaic: Cow<'t, MosaicId>, quantity: u64 },
}

/// Appends the effects of a transaction. Levies are read from `state`, which must be the state before the transaction.
pub fn effects<'t>(
    transaction: &'t Transaction,
    state: &impl Read,
    network: NetworkByte,
    out: &mut Vec<Effect<'t>>,
) -> StateResult {
    let signer = transaction.signer_address(network);
    let address = |key| Address::from_public_key(key, network);
    match &transaction.body {
        Body::Transfer(body) => transfer_effects(signer, body, state, out)?,
        Body::ImportanceTransfer(body) => {
            let remote = address(&body.remote);
            out.push(Effect::Reference(remote));
            out.push(Effect::Link { owner: signer, remote, mode: body.mode });
        }
        Body::AggregateModification(body) => {
            for modification in &body.modifications {
                out.push(Effect::Reference(address(&modification.cosignatory)));
                out.push(Effect::Cosignatory { account: signer, modification });
            }
            let change = body.min_cosignatories_change;
            out.extend(change.map(|change| Effect::MinCosignatories { account: signer, change }));
        }
        Body::ProvisionNamespace(body) => {
            let name = body.name().map_err(Exception::argument)?;
            out.push(Effect::Reference(body.rental_fee_sink));
            out.push(Effect::Transfer { from: signer, to: body.rental_fee_sink, amount: body.rental_fee.0 });
            out.push(Effect::Namespace { owner: signer, name });
        }
        Body::MosaicDefinitionCreation(body) => {
            out.push(Effect::Definition(&body.definition));
            out.push(Effect::Transfer { from: signer, to: body.creation_fee_sink, amount: body.creation_fee.0 });
        }
        Body::MosaicSupplyChange(body) => {
            out.push(Effect::Supply { supplier: signer, mosaic: &body.mosaic, delta: body.delta, kind: body.kind });
        }
        Body::Multisig(body) => {
            let account = body.inner.signer_address(network);
            let fees = body.cosignatures.iter().map(|cosignature| cosignature.fee.0);
            out.extend(fees.map(|amount| Effect::Debit { from: account, amount }));
            effects(&body.inner, state, network, out)?;
            out.push(Effect::Debit { from: account, amount: transaction.fee.0 });
            return Ok(());
        }
        Body::Cosignature(body) => {
            out.push(Effect::Debit { from: body.other_account, amount: transaction.fee.0 });
            return Ok(());
        }
    }
    out.push(Effect::Debit { from: signer, amount: transaction.fee.0 });
    Ok(())
}

fn transfer_effects<'t>(
    signer: Address,
    body: &'t Transfer,
    state: &impl Read,
    out: &mut Vec<Effect<'t>>,
) -> StateResult {
    out.push(Effect::Reference(body.recipient));
    let attached = body.mosaics.iter().find(|mosaic| mosaic.id.is_xem());
    let amount = match body.mosaics.is_empty() {
        true => Some(body.amount.0),
        false => attached.map(|mosaic| scale(body.amount.0, mosaic.quantity)).transpose()?,
    };
    out.extend(amount.map(|amount| Effect::Transfer { from: signer, to: body.recipient, amount }));
    for mosaic in body.other_mosaics() {
        let quantity = scale(body.amount.0, mosaic.quantity)?;
        let id = Cow::Borrowed(&mosaic.id);
        out.push(Effect::MosaicTransfer { from: signer, to: body.recipient, mosaic: id, quantity });
        out.extend(levy_effect(signer, &mosaic.id, quantity, state)?);
    }
    Ok(())
}

/// Multiplies a quantity by the amount. If a transfer has mosaics, its amount is a multiplier of their quantities.
fn scale(amount: u64, quantity: u64) -> StateResult<u64> {
    let product = u128::from(amount) * u128::from(quantity) / u128::from(MICRO);
    i64::try_from(product).map(|value| value as u64).map_err(|_| StateError::impossible("BigInteger out of long range"))
}

fn levy_effect(
    signer: Address,
    mosaic: &MosaicId,
    quantity: u64,
    state: &impl Read,
) -> Result<Option<Effect<'static>>, StateError> {
    let Some(levy) = mosaics::mosaic(state, mosaic)?.and_then(|entry| entry.definition.levy) else {
        return Ok(None);
    };
    let amount = match levy.kind {
        LevyKind::Absolute => levy.fee as i64,
        // The product wraps at 64 bits.
        LevyKind::Percentile => (quantity as i64).wrapping_mul(levy.fee as i64) / 10_000,
    };
    let negative = || Exception::argument(format!("quantity ({amount}) must be non-negative"));
    let amount = u64::try_from(amount).map_err(|_| negative())?;
    if amount == 0 {
        return Ok(None);
    }
    Ok(Some(match levy.mosaic.is_xem() {
        true => Effect::Transfer { from: signer, to: levy.recipient, amount },
        false => Effect::MosaicTransfer {
            from: signer,
            to: levy.recipient,
            mosaic: Cow::Owned(levy.mosaic),
            quantity: amount,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Context, SigningForm};
    use crate::crypto::PublicKey;
    use crate::model::transaction::wire_version;
    use crate::model::{Amount, Mosaic, Timestamp};
    use crate::store::test_store;

    /// A space sorts before the colon that follows the name, so a longer name can sort before its own prefix.
    #[test]
    fn attached_mosaics_are_transferred_in_their_order() {
        let recipient = Address::from_public_key(&PublicKey([1; 32]), NetworkByte::TESTNET);
        let names = ["foo:b", "nem:xem", "foo:b a", "foo.a:c", "foo:b 1"];
        let attached = names.map(|name| Mosaic { id: MosaicId::parse(name).unwrap(), quantity: 1 });
        let body = Transfer { recipient, amount: Amount::whole(1), message: None, mosaics: attached.to_vec() };
        let transaction = Transaction {
            version: wire_version(NetworkByte::TESTNET, 2),
            timestamp: Timestamp(1),
            signer: PublicKey([2; 32]),
            signature: None,
            fee: Amount::ZERO,
            deadline: Timestamp(2),
            body: Body::Transfer(body),
        };
        let context = Context { network: NetworkByte::TESTNET, nemesis_signer: recipient, trusted: false };
        let read = Transaction::from_bytes(&transaction.signed_bytes(), SigningForm::NonVerifiable, context).unwrap();
        let (store, _folder) = test_store();
        let mut list = Vec::new();
        effects(&read, &store.snapshot().unwrap(), NetworkByte::TESTNET, &mut list).unwrap();
        let moved: Vec<String> = list.iter().filter_map(moved_mosaic).collect();
        assert_eq!(moved, ["foo.a:c", "foo:b 1", "foo:b", "foo:b a"]);
        let Body::Transfer(Transfer { mosaics, .. }) = &read.body else { panic!("another kind") };
        let written: Vec<String> = mosaics.iter().map(|mosaic| mosaic.id.to_string()).collect();
        assert_eq!(written, ["foo.a:c", "foo:b 1", "foo:b", "foo:b a", "nem:xem"]);
    }

    fn moved_mosaic(effect: &Effect<'_>) -> Option<String> {
        match effect {
            Effect::MosaicTransfer { mosaic, .. } => Some(mosaic.to_string()),
            _ => None,
        }
    }
}
