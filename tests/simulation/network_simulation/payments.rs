//! What many accounts announce: transfers, also of everything that a poor account has, rents, and transactions of a
//! multisig account that need two signatures. Also what each transaction moves.

use std::sync::LazyLock;

use nisd::crypto::KeyPair;
use nisd::model::mosaic::Mosaic;
use nisd::model::network::NAMESPACE_SINK;
use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Modification, ModificationKind, Multisig,
    ProvisionNamespace, Transfer, wire_version,
};
use nisd::model::units::MICRO;
use nisd::model::{Address, Amount, Body, Hash256, MosaicId, Timestamp, Transaction};
use nisd::state;
use nisd::store::{Snapshot, Store};

use super::environment::{USERS, user_keys};
use crate::common::Random;
use crate::common::private_network::{NETWORK, address, key_pair};

/// Number of accounts whose books are kept.
pub const ACCOUNTS: usize = 200;
/// Key number of the first of them, and of the first remote account.
const FIRST_KEY: u64 = 2_000;
const FIRST_REMOTE: u64 = 4_000;
/// Accounts that are tried before a user pays instead.
const TRIES: usize = 8;
/// Seconds that a transaction lives, and that a hasty one does.
const LIFE: i32 = 3_600;
const SHORT_LIFE: i32 = 20;
const FEE: Amount = Amount(MICRO);

/// Keys of the accounts; the first one becomes a multisig account.
static KEYS: LazyLock<Vec<KeyPair>> =
    LazyLock::new(|| (0..ACCOUNTS as u64 - USERS).map(|number| key_pair(FIRST_KEY + number)).collect());
/// The users' keys.
static USER_KEYS: LazyLock<Vec<KeyPair>> = LazyLock::new(|| (0..USERS).map(user_keys).collect());

/// Returns the accounts: users, and those that they pay.
pub fn accounts() -> Vec<Address> {
    USER_KEYS.iter().chain(KEYS.iter()).map(address).collect()
}

/// Makes transactions.
pub struct Payments {
    random: Random,
    /// Inner hashes of the latest multisig transactions.
    pending: Vec<Hash256>,
    count: u64,
}

impl Payments {
    pub fn new(seed: u64) -> Payments {
        Payments { random: Random(seed ^ 0x0070_6179_6d65_6e74), pending: Vec::new(), count: 0 }
    }

    /// Makes the next transaction, valid in the state of a store unless the mempool holds a conflicting one. Returns
    /// whether it is valid on every chain.
    pub fn make(&mut self, store: &Store, time: Timestamp) -> (Transaction, bool) {
        self.count += 1;
        let snapshot = store.snapshot().expect("a snapshot");
        let time = Timestamp(time.0 - 5);
        match self.random.below(12) {
            0..=3 => (self.transfer(false, time), true),
            4 => (self.transfer(true, time), true),
            5..=7 => match self.poor_transfer(&snapshot, time) {
                Some(transfer) => (transfer, false),
                None => (self.transfer(false, time), true),
            },
            8 => (self.rent(time), false),
            9 | 10 => (self.multisig(&snapshot, time), false),
            _ if self.random.below(4) == 0 => (self.importance_transfer(time), false),
            _ => (self.cosignature(time), false),
        }
    }

    fn user(&mut self) -> &'static KeyPair {
        &USER_KEYS[self.random.below(USER_KEYS.len())]
    }

    fn account(&mut self) -> &'static KeyPair {
        &KEYS[self.random.below(KEYS.len())]
    }

    /// A user pays an account, with the currency as an attached mosaic if wanted.
    fn transfer(&mut self, as_mosaic: bool, time: Timestamp) -> Transaction {
        let (from, recipient) = (self.user(), address(self.account()));
        let amount = Amount::whole(2 + self.random.below(50) as u64);
        let mosaic = Mosaic { id: MosaicId::xem(), quantity: MICRO / 2 + self.random.below(1_000_000) as u64 };
        let mosaics = if as_mosaic { vec![mosaic] } else { Vec::new() };
        let version = 1 + i32::from(as_mosaic);
        let body = Body::Transfer(Transfer { recipient, amount, message: None, mosaics });
        signed(from, version, body, time, LIFE)
    }

    /// An account sends half or all of what it has, so that two such transfers exclude each other.
    fn poor_transfer(&mut self, snapshot: &Snapshot<'_>, time: Timestamp) -> Option<Transaction> {
        for _ in 0..TRIES {
            let from = &KEYS[1 + self.random.below(KEYS.len() - 1)];
            let owned = state::account(snapshot, &address(from)).expect("a store").balance.total();
            let Some(free) = owned.checked_sub(2 * FEE.0) else { continue };
            let amount = Amount(if self.random.coin() { free } else { free / 2 });
            let recipient = address(if self.random.below(3) == 0 { self.user() } else { self.account() });
            let body = Body::Transfer(Transfer { recipient, amount, message: None, mosaics: Vec::new() });
            let life = if self.random.below(4) == 0 { SHORT_LIFE } else { LIFE };
            return Some(signed(from, 1, body, time, life));
        }
        None
    }

    fn rent(&mut self, time: Timestamp) -> Transaction {
        let body = ProvisionNamespace {
            rental_fee_sink: Address::from_public_key(&NAMESPACE_SINK, NETWORK),
            rental_fee: Amount::whole(100),
            new_part: format!("name{}", self.count),
            parent: None,
        };
        signed(self.user(), 1, Body::ProvisionNamespace(body), time, LIFE)
    }

    fn importance_transfer(&mut self, time: Timestamp) -> Transaction {
        let remote = key_pair(FIRST_REMOTE + self.count).public();
        let body = Body::ImportanceTransfer(ImportanceTransfer { mode: LinkMode::Activate, remote });
        signed(self.account(), 1, body, time, LIFE)
    }

    /// Funds the first account, gives it two cosignatories, and then lets it pay.
    fn multisig(&mut self, snapshot: &Snapshot<'_>, time: Timestamp) -> Transaction {
        let (keys, users) = (&KEYS[0], &USER_KEYS);
        let account = address(keys);
        let owned = state::account(snapshot, &account).expect("a store").balance.total();
        if owned < Amount::whole(1_000).0 {
            let amount = Amount::whole(5_000);
            let body = Transfer { recipient: account, amount, message: None, mosaics: Vec::new() };
            return signed(self.user(), 1, Body::Transfer(body), time, LIFE);
        }
        if state::cosignatories(snapshot, &account).expect("a store").is_empty() {
            let add = |user: &KeyPair| Modification { kind: ModificationKind::Add, cosignatory: user.public() };
            let mut modifications = vec![add(&users[0]), add(&users[1])];
            modifications.sort_by_key(|one| Address::from_public_key(&one.cosignatory, NETWORK));
            let body = AggregateModification { modifications, min_cosignatories_change: Some(2) };
            return signed(keys, 2, Body::AggregateModification(body), time, LIFE);
        }
        let recipient = address(self.account());
        let amount = Amount::whole(1 + self.random.below(20) as u64);
        let body = Transfer { recipient, amount, message: None, mosaics: Vec::new() };
        let inner = Transaction { signature: None, ..signed(keys, 1, Body::Transfer(body), time, LIFE) };
        self.pending.push(inner.hash());
        let body = Multisig { inner, cosignatures: Vec::new() };
        signed(&users[0], 1, Body::Multisig(Box::new(body)), time, LIFE)
    }

    /// Cosigns one of the latest multisig transactions.
    fn cosignature(&mut self, time: Timestamp) -> Transaction {
        let latest = &self.pending[self.pending.len().saturating_sub(3)..];
        let hash = latest.get(self.random.below(latest.len().max(1))).copied().unwrap_or_default();
        let body = Cosignature { other_hash: hash.into(), other_account: address(&KEYS[0]) };
        signed(&USER_KEYS[1], 1, Body::Cosignature(body), time, LIFE)
    }
}

fn signed(from: &KeyPair, entity_version: i32, body: Body, time: Timestamp, life: i32) -> Transaction {
    let (version, deadline) = (wire_version(NETWORK, entity_version), Timestamp(time.0 + life));
    let signer = from.public();
    let mut transaction = Transaction { version, timestamp: time, signer, signature: None, fee: FEE, deadline, body };
    transaction.signature = Some(from.sign(&transaction.signed_bytes()));
    transaction
}

/// Returns how the balances of accounts change by a transaction of a kind that the simulation makes. Fees go to the
/// harvester besides.
pub fn movements(transaction: &Transaction) -> Vec<(Address, i128)> {
    let signer = transaction.signer_address(NETWORK);
    let fee = (signer, -i128::from(transaction.fee.0));
    let pay = |to: Address, amount: u64| vec![fee, (signer, -i128::from(amount)), (to, i128::from(amount))];
    match &transaction.body {
        Body::Transfer(body) if body.mosaics.is_empty() => pay(body.recipient, body.amount.0),
        Body::Transfer(body) => {
            let [mosaic] = &body.mosaics[..] else { panic!("several mosaics: {transaction:?}") };
            assert!(mosaic.id.is_xem(), "another mosaic: {transaction:?}");
            pay(body.recipient, body.amount.0 * mosaic.quantity / MICRO)
        }
        Body::ImportanceTransfer(_) | Body::AggregateModification(_) => vec![fee],
        Body::ProvisionNamespace(body) => pay(body.rental_fee_sink, body.rental_fee.0),
        Body::Multisig(body) => {
            let account = body.inner.signer_address(NETWORK);
            let fees = transaction.fee.0 + body.cosignatures.iter().map(|one| one.fee.0).sum::<u64>();
            [vec![(account, -i128::from(fees))], movements(&body.inner)].concat()
        }
        _ => panic!("the simulation makes no such transaction: {transaction:?}"),
    }
}
