//! A ledger on an empty store, and transactions and effects on it.

use nisd::crypto::{PublicKey, Signature};
use nisd::model::transaction::{Transfer, wire_version};
use nisd::model::{
    Address, Amount, Body, Height, Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, Network, NetworkByte,
    Timestamp, Transaction,
};
use nisd::rules::{Purpose, Rejection, RuleResult, ValidationContext, ValidationResult, check_transaction};
use nisd::state::{self, BlockContext, Effect, Ledger, StateError};
use nisd::store::{ChainIdentity, Options, Read, Store, WriteTxn};

/// Accounts of the tests.
pub const ALICE: PublicKey = PublicKey([1; 32]);
pub const BOB: PublicKey = PublicKey([2; 32]);

/// Runs a test in a write transaction on an empty store.
pub fn on_empty(network: &Network, test: impl FnOnce(&mut WriteTxn<'_>)) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &ChainIdentity::of(network), Options::default()).unwrap();
    test(&mut store.begin_write().unwrap());
}

/// Performs something within a block at a height.
pub fn within<T>(
    txn: &mut WriteTxn<'_>,
    network: &Network,
    height: Height,
    act: impl FnOnce(&mut Ledger<'_, WriteTxn<'_>>) -> T,
) -> T {
    let mut block = BlockContext::new(height);
    let mut ledger = Ledger { txn, block: &mut block, network };
    let result = act(&mut ledger);
    ledger.flush().unwrap();
    result
}

/// Builds a transaction with a fee that is always high enough.
pub fn transaction(network: NetworkByte, signer: PublicKey, body: Body) -> Transaction {
    let version = if matches!(body, Body::Transfer(_) | Body::AggregateModification(_)) { 2 } else { 1 };
    Transaction {
        version: wire_version(network, version),
        timestamp: Timestamp(1000),
        signer,
        signature: Some(Signature([0; 64])),
        fee: Amount::whole(1000),
        deadline: Timestamp(2000),
        body,
    }
}

/// Defines a mosaic of Alice, who rents its namespace first if necessary.
pub fn define(
    ledger: &mut Ledger<'_, WriteTxn<'_>>,
    id: &str,
    initial_supply: u64,
    divisibility: u8,
    levy: Option<Levy>,
) -> MosaicId {
    let id = MosaicId::parse(id).unwrap();
    if state::leases(ledger.txn, id.namespace.as_str()).unwrap().is_empty() {
        let owner = Address::from_public_key(&ALICE, ledger.network.byte);
        ledger.apply(&Effect::Namespace { owner, name: id.namespace.clone() }).unwrap();
    }
    let properties = MosaicProperties { divisibility, initial_supply, supply_mutable: true, transferable: true };
    let description = "a coin".to_owned();
    let definition = MosaicDefinition { creator: ALICE, id: id.clone(), description, properties, levy };
    ledger.apply(&Effect::Definition(&definition)).unwrap();
    id
}

/// Returns the recipients and quantities of mosaics when Alice sends Bob a transfer with one mosaic.
pub fn mosaics_moved(
    state: &impl Read,
    network: NetworkByte,
    amount: u64,
    id: &MosaicId,
    quantity: u64,
) -> Result<Vec<(Address, u64)>, StateError> {
    let [alice, bob] = [ALICE, BOB].map(|key| Address::from_public_key(&key, network));
    let mosaics = vec![Mosaic { id: id.clone(), quantity }];
    let body = Body::Transfer(Transfer { recipient: bob, amount: Amount(amount), message: None, mosaics });
    let (transfer, mut effects) = (transaction(network, ALICE, body), Vec::new());
    state::effects(&transfer, state, network, &mut effects)?;
    let moved = effects.iter().filter_map(|effect| match effect {
        Effect::MosaicTransfer { from, to, quantity, .. } => {
            assert_eq!(*from, alice);
            Some((*to, *quantity))
        }
        _ => None,
    });
    Ok(moved.collect())
}

pub fn context<'a>(ledger: &'a Ledger<'_, WriteTxn<'_>>, height: u64, purpose: Purpose) -> ValidationContext<'a> {
    let (state, block, network) = (&*ledger.txn, Some(&*ledger.block), ledger.network);
    ValidationContext { state, block, network, height: Height(height), now: Timestamp(1000), purpose }
}

/// Returns the result of the rules for a transaction at a height, which must not be an exception.
pub fn validation_result(
    ledger: &Ledger<'_, WriteTxn<'_>>,
    transaction: &Transaction,
    height: u64,
    purpose: Purpose,
) -> ValidationResult {
    let outcome: RuleResult = check_transaction(transaction, &context(ledger, height, purpose)).map(drop);
    match outcome {
        Ok(()) => ValidationResult::Success,
        Err(Rejection::Result(result)) => result,
        Err(other) => panic!("{other}"),
    }
}
