//! Transactions in the chain.

use crate::api::budget::cost;
use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::views::{TransactionMeta, TransactionPair};
use crate::model::{Hash256, Transaction};
use crate::state::Place;
use crate::store::StoreError;

const DAMAGED: StoreError = StoreError::Damaged("the place of a transaction");

/// `GET /transaction/get`
pub fn by_hash(call: &mut Call<'_>) -> Result<(), Failure> {
    if !call.settings.features.transaction_hash_lookup {
        return Err(Failure::internal("this node does not support transaction lookup using a hash"));
    }
    // A hash of another length is no error; no transaction has it.
    let hash = Hash256::try_from(call.hex("hash")?.as_slice()).ok();
    let entry = hash.map(|hash| call.find_hash(&hash)).transpose()?.flatten();
    let Some((hash, entry)) = hash.zip(entry) else {
        return Err(Failure::argument("Hash was not found in cache"));
    };
    let Some(index) = entry.index else {
        return Err(Failure::no_transaction(&hash));
    };
    let place = Place { height: entry.height, index };
    let (raw, id) = call.view.transaction(place)?.zip(call.view.transaction_id(place)?).ok_or(DAMAGED)?;
    let transaction = raw.read()?;
    let inner_hash = transaction.inner().map(Transaction::hash);
    call.budget.spend(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
    let meta = TransactionMeta { height: entry.height, id, hash, inner_hash };
    call.send(&TransactionPair { transaction: &transaction, meta })
}
