//! Transactions in the chain.

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::long::FoundTransaction;
use crate::model::Hash256;

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
    call.send_long(FoundTransaction::new(hash, entry.height, index))
}
