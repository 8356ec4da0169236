//! Fuzz target: the files that an operator carries from one machine to another: lists of peers, unsigned and signed
//! transactions.

use nisd::codec::{Context, SigningForm};
use nisd::config::KnownPeers;
use nisd::model::transaction::wire_network;
use nisd::wallet::{SignedTransaction, read_transaction};

use crate::entities::{check_entity, read_as};

/// Maximum number of entries in a list.
const MAX_PEERS: usize = 1000;

/// Checks that any text is read as each of them or rejected: peers without duplicates that can be reached, and
/// transactions that are read as the same after writing them again. Returns how many it is.
///
/// The first byte selects the network; see [`read_as`].
pub fn check(data: &[u8]) -> usize {
    let Some((_, context, text)) = read_as(data) else { return 0 };
    check_peers(text, context) + check_unsigned(text) + check_signed(text)
}

fn check_peers(text: &[u8], context: Context) -> usize {
    let Ok(peers) = KnownPeers::parse(text, context) else { return 0 };
    let mut keys: Vec<_> = peers.nodes.iter().map(|node| node.identity.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert!(keys.len() == peers.nodes.len() && keys.len() == peers.numbers.len());
    assert!(keys.len() <= MAX_PEERS && peers.numbers.is_sorted());
    keys.len()
}

fn check_unsigned(text: &[u8]) -> usize {
    let Ok(transaction) = read_transaction(text) else { return 0 };
    let context = nisd::wallet::context(wire_network(transaction.version));
    check_entity(&transaction, SigningForm::NonVerifiable, context);
    1
}

fn check_signed(text: &[u8]) -> usize {
    let Ok(signed) = SignedTransaction::parse(text) else { return 0 };
    assert_eq!(SignedTransaction::parse(signed.to_json().as_bytes()).expect("it was valid"), signed);
    1
}
