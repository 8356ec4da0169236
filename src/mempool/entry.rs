//! An entry of the mempool.

use std::cmp::Reverse;
use std::rc::Rc;

use crate::codec::SigningForm;
use crate::model::transaction::Hashes;
use crate::model::{Address, Amount, Body, NetworkByte, Timestamp, Transaction};
use crate::rules;

/// A top-level transaction of the mempool, with derived values that are needed often.
#[derive(Clone, Debug)]
pub struct MempoolEntry {
    /// The transaction; a multisig transaction with the cosignatures received so far.
    pub transaction: Rc<Transaction>,
    /// Its hash and the hashes of its children.
    pub hashes: Hashes,
    /// Account that pays its fee.
    pub fee_payer: Address,
    /// All affected accounts.
    pub accounts: Vec<Address>,
    /// Size in bytes.
    pub bytes: usize,
    pub(super) number: u64,
}

impl MempoolEntry {
    /// Creates an entry.
    pub fn new(transaction: Transaction, network: NetworkByte) -> MempoolEntry {
        let hashes = transaction.hashes();
        let debtor = match &transaction.body {
            Body::Multisig(body) => body.inner.signer_address(network),
            Body::Cosignature(body) => body.other_account,
            _ => transaction.signer_address(network),
        };
        let accounts = rules::participants(&transaction, network);
        let bytes = transaction.to_bytes(SigningForm::Verifiable).len();
        MempoolEntry { transaction: Rc::new(transaction), hashes, fee_payer: debtor, accounts, bytes, number: 0 }
    }

    /// Returns its sort key in the order of selection for a block.
    pub(super) fn rank(&self) -> (Reverse<Amount>, Timestamp, u64) {
        (Reverse(self.transaction.fee), self.transaction.timestamp, self.number)
    }

    /// Returns whether it is a multisig transaction; these have a separate limit.
    pub fn is_multisig(&self) -> bool {
        matches!(self.transaction.body, Body::Multisig(_))
    }

    /// Returns whether its deadline or that of a child has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.transaction.self_and_children().any(|one| one.deadline < now)
    }

    /// Returns whether a cosignature belongs to this multisig transaction; whether its signer may cosign is not
    /// checked.
    pub fn matches(&self, cosignature: &Transaction, network: NetworkByte) -> bool {
        let (Body::Multisig(multisig), Body::Cosignature(body)) = (&self.transaction.body, &cosignature.body) else {
            return false;
        };
        let inner_hash = self.hashes.children.last();
        cosignature.signer != self.transaction.signer
            && inner_hash.is_some_and(|hash| body.other_hash == *hash)
            && body.other_account == multisig.inner.signer_address(network)
    }

    /// Inserts a cosignature, unless its signer has given one already.
    pub fn attach(&mut self, cosignature: &MempoolEntry, network: NetworkByte) {
        let added = cosignature.transaction.signer_address(network);
        let transaction = Rc::make_mut(&mut self.transaction);
        let Body::Multisig(multisig) = &mut transaction.body else { return };
        // Cosignatures are ordered by address, with one per signer.
        let place = multisig.cosignatures.binary_search_by_key(&added, |one| one.signer_address(network));
        let Err(place) = place else { return };
        multisig.cosignatures.insert(place, (*cosignature.transaction).clone());
        self.hashes.children.insert(place, cosignature.hashes.own);
        self.bytes += cosignature.bytes;
        if !self.accounts.contains(&added) {
            self.accounts.push(added);
        }
    }
}
