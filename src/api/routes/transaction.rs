//! Transactions (specification 06 §7.10).

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::ledger::{FoundTransaction, TransactionLookup};
use crate::api::views::{TransactionMeta, TransactionPair};
use crate::model::{Hash256, Transaction};

/// `GET /transaction/get`
pub fn by_hash(call: &mut Call<'_>) -> Result<(), Failure> {
    if !call.settings.features.transaction_hash_lookup {
        return Err(Failure::internal("this node does not support transaction lookup using a hash"));
    }
    // A hash of another length is no error; no transaction has it.
    let found = match Hash256::try_from(call.hex("hash")?.as_slice()) {
        Ok(hash) => Some((hash, call.ledger.transaction(&hash)?)),
        Err(_) => None,
    };
    match found {
        Some((hash, TransactionLookup::Found(found))) => send_pair(call, hash, &found),
        Some((hash, TransactionLookup::Nested)) => {
            let kind = "class org.nem.core.crypto.Hash";
            Err(Failure::NotFound(format!("transaction not found in the db '{hash}' ({kind})")))
        }
        Some((_, TransactionLookup::Unknown)) | None => Err(Failure::argument("Hash was not found in cache")),
    }
}

fn send_pair(call: &mut Call<'_>, hash: Hash256, found: &FoundTransaction) -> Result<(), Failure> {
    let FoundTransaction { transaction, height, id } = found;
    let inner_hash = transaction.inner().map(Transaction::hash);
    let meta = TransactionMeta { height: *height, id: *id, hash, inner_hash };
    call.send(&TransactionPair { transaction, meta })
}
