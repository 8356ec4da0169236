//! Handler of confirmed transactions.

use crate::api::budget::cost;
use crate::api::error::ApiError;
use crate::api::request_context::RequestContext;
use crate::api::views::{TransactionMeta, TransactionPair};
use crate::model::{Hash256, Transaction};
use crate::state::TxLocation;
use crate::store::StoreError;

const DAMAGED: StoreError = StoreError::Damaged("the location of a transaction");

/// `GET /transaction/get`; with `nested=true` also returns the transaction that contains an inner one or cosignature.
pub fn by_hash(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    if !context.settings.features.transaction_hash_lookup {
        return Err(ApiError::internal("this node does not support transaction lookup using a hash"));
    }
    // A hash of another length is not an error; no transaction has it.
    let hash = Hash256::try_from(context.hex("hash")?.as_slice()).ok();
    let entry = hash.map(|hash| context.find_hash(&hash)).transpose()?.flatten();
    let Some((hash, entry)) = hash.zip(entry) else {
        return Err(ApiError::argument("Hash was not found in cache"));
    };
    let takes_nested = match context.parameter("nested")?.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::argument("nested must be true or false")),
    };
    if entry.is_nested && !takes_nested {
        return Err(ApiError::no_transaction(&hash));
    }
    let place = TxLocation { height: entry.height, index: entry.index };
    let (raw, id) = context.chain.transaction(place)?.zip(context.chain.transaction_id(place)?).ok_or(DAMAGED)?;
    let transaction = raw.read()?;
    let inner_hash = transaction.inner().map(Transaction::hash);
    context.budget.charge(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
    let hash = if entry.is_nested { raw.hash(&transaction) } else { hash };
    let meta = TransactionMeta { height: entry.height, id, hash, inner_hash };
    context.send(&TransactionPair { transaction: &transaction, meta })
}
