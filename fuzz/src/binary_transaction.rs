//! Fuzz target: transactions in the binary format.

use nisd::codec::SigningForm;
use nisd::codec::transaction::{NullModification, latest_timestamp, stored_transaction_hash};
use nisd::model::Transaction;

use crate::entities::{Entity, check_entity, read_as};

/// Checks [`check_entity`] for a transaction read from bytes, in the form and on the network that the first byte
/// selects. What is found in the bytes that this program writes is what the transaction says. A transaction with a null
/// modification is nothing else, and is read from what its signature covers as the same again.
pub fn check(data: &[u8]) -> usize {
    let Some((form, context, bytes)) = read_as(data) else { return 0 };
    let read = Transaction::from_binary(bytes, form, context);
    if let Some(null) = NullModification::from_bytes(bytes, context) {
        assert!(form == SigningForm::Verifiable || read.is_err());
        let again = NullModification::from_bytes(&null.signed_bytes, context).expect("what is signed is read");
        assert_eq!((again.hash(), &again), (null.hash(), &null));
        return 1;
    }
    let Ok(transaction) = read else { return 0 };
    check_entity(&transaction, form, context);
    let stored = transaction.to_binary(SigningForm::Verifiable);
    let latest = transaction.self_and_children().map(|each| each.timestamp).max();
    assert!(transaction.signature.is_none() || latest_timestamp(&stored) == latest);
    assert!(stored_transaction_hash(&stored).is_none_or(|hash| hash == transaction.hash()));
    1
}
