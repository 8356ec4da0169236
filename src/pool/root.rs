//! A transaction in the pool.

use std::cmp::Reverse;
use std::rc::Rc;

use crate::codec::Form;
use crate::model::transaction::Hashes;
use crate::model::{Address, Amount, Body, NetworkByte, Timestamp, Transaction};
use crate::rules;

/// A transaction that stands in the pool itself, with what is asked of it often.
#[derive(Clone, Debug)]
pub struct Root {
    /// The transaction; a multisig transaction with the cosignatures that have come in.
    pub transaction: Rc<Transaction>,
    /// Its hash and those of its children.
    pub hashes: Hashes,
    /// The account that pays its fee.
    pub debtor: Address,
    /// All accounts that it concerns.
    pub accounts: Vec<Address>,
    /// Size in bytes.
    pub bytes: usize,
    pub(super) number: u64,
}

impl Root {
    /// A transaction and what follows from it.
    pub fn new(transaction: Transaction, network: NetworkByte) -> Root {
        let hashes = transaction.hashes();
        let debtor = match &transaction.body {
            Body::Multisig(body) => body.inner.signer_address(network),
            Body::Cosignature(body) => body.other_account,
            _ => transaction.signer_address(network),
        };
        let accounts = rules::accounts_of(&transaction, network);
        let bytes = transaction.to_bytes(Form::Verifiable).len();
        Root { transaction: Rc::new(transaction), hashes, debtor, accounts, bytes, number: 0 }
    }

    /// Its place among others in the order of blocks.
    pub(super) fn rank(&self) -> (Reverse<Amount>, Timestamp, u64) {
        (Reverse(self.transaction.fee), self.transaction.timestamp, self.number)
    }

    /// Whether it is a multisig transaction: these have a limit of their own.
    pub fn is_multisig(&self) -> bool {
        matches!(self.transaction.body, Body::Multisig(_))
    }

    /// Whether its deadline or that of a child has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.transaction.self_and_children().any(|one| one.deadline < now)
    }

    /// Whether a cosignature belongs to this multisig transaction; that its signer is a cosignatory is for the caller
    /// to find out.
    pub fn matches(&self, cosignature: &Transaction, network: NetworkByte) -> bool {
        let (Body::Multisig(multisig), Body::Cosignature(body)) = (&self.transaction.body, &cosignature.body) else {
            return false;
        };
        let inner_hash = self.hashes.children.last();
        cosignature.signer != self.transaction.signer
            && inner_hash.is_some_and(|hash| body.other_hash == *hash)
            && body.other_account == multisig.inner.signer_address(network)
    }

    /// Attaches a cosignature in its place, unless its signer has given one already.
    pub fn attach(&mut self, cosignature: &Root, network: NetworkByte) {
        let added = cosignature.transaction.signer_address(network);
        let transaction = Rc::make_mut(&mut self.transaction);
        let Body::Multisig(multisig) = &mut transaction.body else { return };
        // Their order is that of the addresses; one of each signer has a place.
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
