//! Fuzz target: transactions in the binary format.

use nisd::model::Transaction;

use crate::entities::{Entity, check_entity, read_as};

/// Checks [`check_entity`] for a transaction read from bytes, in the form and on the network that the first byte
/// selects.
pub fn check(data: &[u8]) -> usize {
    let Some((form, context, bytes)) = read_as(data) else { return 0 };
    let Ok(transaction) = Transaction::from_binary(bytes, form, context) else { return 0 };
    check_entity(&transaction, form, context);
    1
}
