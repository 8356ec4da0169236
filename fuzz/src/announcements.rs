//! Announcements to the mempool, mixed with blocks, reorgs and time.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use nisd::budget::Budget;
use nisd::chain::ChainSnapshot;
use nisd::chain::harvest::{HarvestProgress, HarvestRound, KeyOrigin, UnlockResult, UnlockedAccounts};
use nisd::chain::{ChainUpdate, StakeCache, Verified, pushed_branch, rollback};
use nisd::codec::SigningForm;
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::mempool::{AccountSearch, MAX_BYTES, Mempool, ShortId, short_id};
use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Message, MessageKind, Modification,
    ModificationKind, Multisig, Transfer, wire_version,
};
use nisd::model::{Address, Amount, Body, Hash256, Height, Timestamp, Transaction};
use nisd::rules::{Purpose, Rejection, RuleResult, ValidationContext, check_transaction, participants};
use nisd::state;
use nisd::store::{Store, stored_block};

use crate::tiny;

/// Height of the chain at the start of an input.
const TIP: Height = Height(53);
/// Maximum announcements of an input.
const MAX_ANNOUNCED: usize = 400;
/// Maximum blocks that an input makes.
const MAX_BLOCKS: usize = 6;
/// Seconds after which nearly every account with importance may make the next block.
const HIT_TIME: i32 = 6 * 3600;
/// Mempool limit of each class, as a multiple of what fits into a block.
const BLOCKS_WORTH: usize = 10;
/// Maximum unconfirmed transactions that are listed for an account.
const MAX_SHOWN: usize = 25;

/// An action of an input: one byte, followed by a fixed number of argument bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Announce a new transaction: kind, signer, other account, amount, fee, time, deadline, flaw.
    Announce,
    /// Announce an earlier transaction again, or a cosignature of it: which, signer, flaw.
    Again,
    /// Announce many transactions that differ in their amount: count, signer, fee.
    Flood,
    /// Advance the time: minutes.
    Wait,
    /// Run steps of the mempool rebuild: count.
    Work,
    /// Make a block from the mempool.
    Block,
    /// Roll back the last blocks: count. Their transactions return to the mempool.
    Rollback,
}

impl Action {
    /// All actions; an input names one by its index.
    pub const ALL: [Action; 7] =
        [Action::Announce, Action::Again, Action::Flood, Action::Wait, Action::Work, Action::Block, Action::Rollback];

    fn arguments(self) -> usize {
        match self {
            Action::Announce => 8,
            Action::Again | Action::Flood => 3,
            Action::Wait | Action::Work | Action::Rollback => 1,
            Action::Block => 0,
        }
    }
}

/// The chain, created once per thread. Every input finds it in the same state.
struct Fixture {
    settings: nisd::config::Settings,
    store: Store,
    /// Multisig accounts first, then their cosignatories.
    accounts: Vec<KeyPair>,
    unlocked: UnlockedAccounts,
    time: Timestamp,
    digest: Hash256,
}

thread_local! {
    static FIXTURE: RefCell<Fixture> = RefCell::new(Fixture::new());
}

/// Checks for any order of announcements, blocks, rollbacks and time: the mempool keeps its limits; each of its lookups
/// finds exactly what it holds; it reports each transaction that it accepts once, and rejected ones do not change it. A
/// transaction accepted alone is valid on the chain, and a block made from the mempool is accepted.
pub fn check(data: &[u8]) -> usize {
    FIXTURE.with_borrow_mut(|ground| {
        let mut unlocked = std::mem::replace(&mut ground.unlocked, UnlockedAccounts::new(0));
        let accepted = Harness::new(ground, &mut unlocked).play(data);
        ground.unlocked = unlocked;
        ground.restore();
        accepted
    })
}

impl Fixture {
    fn new() -> Fixture {
        let settings = tiny::settings();
        let store = tiny::store(&settings, TIP);
        let (digest, tip) = tiny::state_of(&store);
        let network = &settings.network;
        let snapshot = store.snapshot().expect("a snapshot");
        let chain = ChainSnapshot { snapshot: &snapshot, network, height: TIP, now: Timestamp(0) };
        let (mut accounts, mut unlocked) = (Vec::new(), UnlockedAccounts::new(-1));
        for (name, private) in tiny::private_keys() {
            let pair = || KeyPair::new(&PrivateKey::from_hex(&private).expect("hex"));
            if name.starts_with("harvester") {
                let result = unlocked.unlock(Box::new(pair()), KeyOrigin::LocalClient, &chain).expect("a store");
                assert_eq!(result, UnlockResult::Success);
            } else {
                accounts.push(pair());
            }
        }
        let address = |pair: &KeyPair| Address::from_public_key(&pair.public(), network.byte);
        accounts.sort_by_cached_key(|pair| {
            let account = address(pair);
            let is_multisig = !state::cosignatories(&snapshot, &account).expect("a store").is_empty();
            let is_cosignatory = !state::cosignatory_of(&snapshot, &account).expect("a store").is_empty();
            (Reverse(is_multisig), Reverse(is_cosignatory))
        });
        drop(snapshot);
        Fixture { settings, store, accounts, unlocked, time: tip.timestamp, digest }
    }

    fn restore(&self) {
        if tiny::state_of(&self.store).1.height > TIP {
            let mut batch = self.store.begin_write().expect("a batch");
            rollback(&mut batch, TIP).expect("blocks made a moment ago");
            batch.commit().expect("a store that works");
            assert_eq!(tiny::state_of(&self.store).0, self.digest);
        }
    }
}

/// The argument bytes of an input; 0 after their end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }
}

/// A mempool on the chain, and the expected state.
struct Harness<'g> {
    fixture: &'g Fixture,
    unlocked: &'g mut UnlockedAccounts,
    pool: Mempool,
    height: Height,
    now: Timestamp,
    announced: Vec<Transaction>,
    /// Hashes of rolled-back transactions that may be reported again.
    rolled_back: Vec<Hash256>,
    accepted: usize,
    blocks: usize,
}

impl<'g> Harness<'g> {
    fn new(ground: &'g Fixture, unlocked: &'g mut UnlockedAccounts) -> Harness<'g> {
        Harness {
            fixture: ground,
            unlocked,
            pool: Mempool::default(),
            height: TIP,
            now: Timestamp(ground.time.0 + HIT_TIME),
            announced: Vec::new(),
            rolled_back: Vec::new(),
            accepted: 0,
            blocks: 0,
        }
    }

    fn play(mut self, data: &[u8]) -> usize {
        let mut rest = data;
        while let Some((first, behind)) = rest.split_first() {
            let deed = Action::ALL[usize::from(*first) % Action::ALL.len()];
            let (arguments, behind) = behind.split_at(deed.arguments().min(behind.len()));
            self.act(deed, Bytes(arguments));
            self.assert_consistent();
            rest = behind;
        }
        self.complete();
        self.assert_consistent();
        self.accepted
    }

    fn act(&mut self, deed: Action, mut arguments: Bytes<'_>) {
        match deed {
            Action::Announce => {
                let transaction = self.new_transaction(&mut arguments);
                self.announce(transaction);
            }
            Action::Again => self.announce_again(&mut arguments),
            Action::Flood => self.flood(&mut arguments),
            Action::Wait => self.wait(i32::from(arguments.next()) * 60),
            Action::Work => (0..arguments.next()).for_each(|_| self.work()),
            Action::Block => self.make_block(),
            Action::Rollback => self.undo_blocks(arguments.next()),
        }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Mempool, &ChainSnapshot<'_>) -> T) -> T {
        let snapshot = self.fixture.store.snapshot().expect("a snapshot");
        let network = &self.fixture.settings.network;
        let confirmed = ChainSnapshot { snapshot: &snapshot, network, height: self.height, now: self.now };
        act(&mut self.pool, &confirmed)
    }

    fn pair(&self, choice: u8) -> &'g KeyPair {
        &self.fixture.accounts[usize::from(choice) % self.fixture.accounts.len()]
    }

    fn address(&self, choice: u8) -> Address {
        Address::from_public_key(&self.pair(choice).public(), self.fixture.settings.network.byte)
    }

    fn new_transaction(&self, bytes: &mut Bytes<'_>) -> Transaction {
        let (kind, signer, other, amount) = (bytes.next(), bytes.next(), bytes.next(), bytes.next());
        let (fee, time, deadline, flaw) = (bytes.next(), bytes.next(), bytes.next(), bytes.next());
        let body = self.body(kind, other, amount);
        let byte = self.fixture.settings.network.byte;
        let timestamp = Timestamp(self.now.0 - 1 + i32::from(time as i8));
        let mut transaction = Transaction {
            version: wire_version(byte, if flaw == 3 { 9 } else { 1 }),
            timestamp,
            signer: self.pair(signer).public(),
            signature: None,
            fee: Amount(u64::from(fee) * 50_000),
            deadline: Timestamp(timestamp.0 + 3600 + i32::from(deadline as i8) * 700),
            body,
        };
        if kind & 0x80 != 0 {
            let initiator = self.pair(amount);
            let body = Multisig { inner: transaction.clone(), cosignatures: Vec::new() };
            transaction = Transaction {
                signer: initiator.public(),
                body: Body::Multisig(Box::new(body)),
                version: wire_version(byte, 1),
                ..transaction
            };
            return sign(transaction, initiator, flaw);
        }
        sign(transaction, self.pair(signer), flaw)
    }

    fn body(&self, kind: u8, other: u8, amount: u8) -> Body {
        match kind & 7 {
            4 => Body::ImportanceTransfer(ImportanceTransfer {
                mode: if amount & 1 == 0 { LinkMode::Activate } else { LinkMode::Deactivate },
                remote: self.pair(other).public(),
            }),
            5 => {
                let kind = if amount & 1 == 0 { ModificationKind::Add } else { ModificationKind::Delete };
                let modification = Modification { kind, cosignatory: self.pair(other).public() };
                Body::AggregateModification(AggregateModification {
                    modifications: vec![modification],
                    min_cosignatories_change: None,
                })
            }
            6 => Body::Cosignature(Cosignature {
                other_hash: Hash256([amount; 32]).into(),
                other_account: self.address(other),
            }),
            kind => Body::Transfer(Transfer {
                recipient: self.address(other),
                amount: Amount(u64::from(amount) << (8 * kind.min(6))),
                message: (kind == 3)
                    .then(|| Message { kind: MessageKind::Plain, payload: vec![amount; 1 + usize::from(amount) * 4] }),
                mosaics: Vec::new(),
            }),
        }
    }

    /// Announces an earlier transaction, or a cosignature of it.
    fn announce_again(&mut self, bytes: &mut Bytes<'_>) {
        let (which, signer, flaw) = (bytes.next(), bytes.next(), bytes.next());
        let Some(place) = self.announced.len().checked_sub(1 + usize::from(which)) else { return };
        let earlier = self.announced[place].clone();
        let byte = self.fixture.settings.network.byte;
        let transaction = match earlier.inner() {
            Some(inner) if flaw & 0x80 == 0 => {
                let other_account = inner.signer_address(byte);
                let body = Body::Cosignature(Cosignature { other_hash: inner.hash().into(), other_account });
                let timestamp = Timestamp(self.now.0 - 1);
                let consent = Transaction {
                    signer: self.pair(signer).public(),
                    signature: None,
                    timestamp,
                    deadline: Timestamp(timestamp.0 + 3600),
                    body,
                    ..earlier
                };
                sign(consent, self.pair(signer), flaw)
            }
            _ => earlier,
        };
        self.announce(transaction);
    }

    fn flood(&mut self, bytes: &mut Bytes<'_>) {
        let (count, signer, fee) = (bytes.next(), bytes.next(), bytes.next());
        for amount in 0..count & 0x7f {
            let transaction = self.new_transaction(&mut Bytes(&[0, signer, signer ^ 1, amount, fee, 0, 0, 0]));
            self.announce(transaction);
        }
    }

    fn announce(&mut self, transaction: Transaction) {
        if self.announced.len() == MAX_ANNOUNCED {
            return;
        }
        self.announced.push(transaction.clone());
        let (before, is_settled) = (self.contents(), !self.pool.is_rebuilding());
        let outcome = self.with(|pool, confirmed| pool.announce(transaction.clone(), confirmed).map(drop));
        let told = self.take_reported();
        let mut others = told.iter().filter(|one| ***one != transaction);
        assert!(others.all(|one| !is_settled || self.is_rolled_back(one)), "told of what nobody announced");
        assert!(is_known(&outcome), "{outcome:?}");
        let after = self.contents();
        if outcome.is_err() {
            assert!(told.len() == self.count_rolled_back(&told), "what is refused is told of");
            assert!(!is_settled || after == before, "what is refused has changed the pool: {outcome:?}");
        } else {
            self.accepted += 1;
            let times = told.iter().filter(|one| ***one == transaction).count();
            // A second cosignature of one signer is accepted but not kept.
            let is_kept = self.pool.by_hash(&transaction.hash()).is_some();
            assert_eq!(times, usize::from(is_kept), "what is accepted is told of once");
            assert!(!is_settled || after == with(before.clone(), &transaction, &after), "accepted, and not there");
            if is_settled && before.is_empty() {
                self.assert_valid(&transaction);
            }
        }
        self.forget_rolled_back(&told);
    }

    /// Returns the transactions of the mempool in order of arrival.
    fn contents(&self) -> Vec<Transaction> {
        self.pool.unknown_to(&BTreeSet::new()).iter().map(|one| (**one).clone()).collect()
    }

    fn take_reported(&mut self) -> Vec<Rc<Transaction>> {
        let told: Vec<_> = std::iter::from_fn(|| self.pool.newly_accepted.pop_front()).collect();
        assert!(self.pool.newly_accepted.is_empty());
        told
    }

    fn is_rolled_back(&self, transaction: &Transaction) -> bool {
        self.rolled_back.contains(&transaction.hash())
    }

    fn count_rolled_back(&self, told: &[Rc<Transaction>]) -> usize {
        told.iter().filter(|one| self.is_rolled_back(one)).count()
    }

    /// A rolled-back transaction is reported once for each time that it was rolled back.
    fn forget_rolled_back(&mut self, told: &[Rc<Transaction>]) {
        for one in told {
            let hash = one.hash();
            if let Some(place) = self.rolled_back.iter().position(|other| *other == hash) {
                self.rolled_back.swap_remove(place);
            }
        }
    }

    /// Asserts that a transaction accepted alone is valid on the chain; only cosignatures may be missing.
    fn assert_valid(&mut self, transaction: &Transaction) {
        let is_multisig = matches!(transaction.body, Body::Multisig(_));
        let purpose = if is_multisig { Purpose::Mempool } else { Purpose::Block };
        let outcome = self.with(|_, confirmed| {
            let ChainSnapshot { snapshot, network, height, now } = *confirmed;
            let case = ValidationContext { state: snapshot, block: None, network, height: height.next(), now, purpose };
            check_transaction(transaction, &case).map(drop)
        });
        assert!(outcome.is_ok(), "{outcome:?}: {transaction:?}");
    }

    fn wait(&mut self, seconds: i32) {
        self.now.0 += seconds;
        self.pool.drop_expired(self.now);
        let now = self.now;
        assert!(self.pool.by_fee().all(|root| !root.transaction.is_expired(now)), "what has expired is gone at once");
    }

    fn work(&mut self) {
        self.with(|pool, confirmed| pool.step_rebuild(confirmed, &mut Budget::new(0))).expect("a store that works");
        let told = self.take_reported();
        assert_eq!(told.len(), self.count_rolled_back(&told), "only what has lost its block is told of");
        self.forget_rolled_back(&told);
    }

    fn complete(&mut self) {
        // After a reorganisation each may take two steps, and a cosignature that may be lost takes one.
        let steps = 2 * (self.pool.len() + self.rolled_back.len()) + self.announced.len() + 2;
        for _ in 0..=steps {
            if !self.pool.is_rebuilding() {
                return;
            }
            self.work();
        }
        panic!("a rebuild of {steps} transactions does not end");
    }

    /// Makes a block from the mempool, and processes it.
    fn make_block(&mut self) {
        if self.blocks == MAX_BLOCKS {
            return;
        }
        self.blocks += 1;
        self.wait(HIT_TIME / 12);
        self.complete();
        let Some(switch) = self.harvest() else { return };
        self.height = switch.tip;
        let confirmed: BTreeSet<Hash256> = switch.confirmed.iter().copied().collect();
        self.pool.cosignatures_may_be_lost(switch.cosignatures);
        self.pool.chain_changed(switch.common, confirmed.clone(), switch.returned);
        let confirmed = self.pool.by_fee().filter(|root| confirmed.contains(&root.hashes.own)).count();
        assert_eq!(confirmed, 0, "what is confirmed is gone at once");
    }

    fn harvest(&mut self) -> Option<ChainUpdate> {
        let Fixture { store, settings, .. } = self.fixture;
        let (network, now) = (&settings.network, self.now);
        let unconfirmed = self.pool.in_fee_order();
        let snapshot = store.snapshot().expect("a snapshot");
        let chain = ChainSnapshot { snapshot: &snapshot, network, height: self.height, now };
        let tick = HarvestRound::begin(self.unlocked, &chain).expect("a store that works");
        let mut tick = tick.expect("somebody harvests");
        let harvested = loop {
            let progress = tick.step(self.unlocked, || unconfirmed.clone(), &chain);
            match progress.expect("a store that works") {
                HarvestProgress::Working => {}
                HarvestProgress::Discarded(address, error) => panic!("a block of {address} is not valid: {error}"),
                HarvestProgress::Done(harvested) => break harvested?,
            }
        };
        drop(snapshot);
        let verified = Verified { transactions: Some(harvested.hashes), ..Verified::default() };
        let part = pushed_branch(store, network, harvested.block, verified);
        let mut part = part.expect("a block that follows ours");
        let mut stakes = StakeCache::default();
        loop {
            if let Some(outcome) = part.step(now, &mut stakes).expect("a store that works") {
                outcome.validity.expect("a valid block");
                return Some(outcome.update.expect("a block more is a better chain"));
            }
        }
    }

    fn undo_blocks(&mut self, count: u8) {
        let to = Height(self.height.0.saturating_sub(u64::from(count)).max(TIP.0));
        if to == self.height {
            return;
        }
        let mut returned = VecDeque::new();
        for height in (to.0 + 1..=self.height.0).rev() {
            let snapshot = self.fixture.store.snapshot().expect("a snapshot");
            let block = stored_block(&snapshot, Height(height)).expect("a store").expect("a block").1;
            block.transactions.into_iter().rev().for_each(|transaction| returned.push_front(transaction));
        }
        let mut batch = self.fixture.store.begin_write().expect("a batch");
        rollback(&mut batch, to).expect("blocks made a moment ago");
        batch.commit().expect("a store that works");
        self.height = to;
        self.rolled_back.extend(returned.iter().map(Transaction::hash));
        self.pool.chain_changed(to, BTreeSet::new(), returned.into());
    }

    /// Asserts that each lookup of the mempool finds what it holds.
    fn assert_consistent(&mut self) {
        let network = &self.fixture.settings.network;
        let flat = self.contents();
        let held: Vec<&Transaction> = flat.iter().filter(|one| !is_cosignature(one)).collect();
        assert_eq!(self.pool.len(), held.len());
        assert_eq!(self.pool.is_empty(), held.is_empty());
        let size: usize = held.iter().map(|one| one.to_bytes(SigningForm::Verifiable).len()).sum();
        assert!((size..=MAX_BYTES).contains(&self.pool.bytes()), "{} bytes for {size}", self.pool.bytes());
        let multisigs = held.iter().filter(|one| matches!(one.body, Body::Multisig(_))).count();
        let most = BLOCKS_WORTH * network.chain.max_transactions_per_block as usize;
        assert!(multisigs <= most && held.len() - multisigs <= most);
        let mut by_fee = held.clone();
        by_fee.sort_by_key(|one| (Reverse(one.fee), one.timestamp));
        assert!(self.pool.in_fee_order().iter().map(Rc::as_ref).eq(by_fee.iter().copied()), "the order of blocks");
        let cosignatures = by_fee.iter().flat_map(|one| one.cosignatures());
        let short: Vec<ShortId> = by_fee.iter().copied().chain(cosignatures).map(|one| short_id(&one.hash())).collect();
        assert_eq!(self.pool.short_ids(), short);
        let known: BTreeSet<ShortId> = short.into_iter().collect();
        assert!(self.pool.unknown_to(&known).is_empty());
        self.assert_found_by_accounts(&held);
    }

    fn assert_found_by_accounts(&mut self, held: &[&Transaction]) {
        let byte = self.fixture.settings.network.byte;
        let concerned: Vec<(Vec<Address>, &Transaction)> =
            held.iter().map(|one| (participants(one, byte), *one)).collect();
        let ground = self.fixture;
        for pair in &ground.accounts {
            let account = Address::from_public_key(&pair.public(), byte);
            let has_transfer = concerned
                .iter()
                .any(|(accounts, one)| accounts.contains(&account) && matches!(one.body, Body::ImportanceTransfer(_)));
            assert_eq!(self.pool.has_importance_transfer(&account), has_transfer);
            self.with(|pool, confirmed| {
                let of = state::cosignatory_of(confirmed.snapshot, &account).expect("a store");
                let waits =
                    |one: &Transaction| one.inner().is_some_and(|inner| of.contains(&inner.signer_address(byte)));
                let found = concerned.iter().filter(|(accounts, one)| accounts.contains(&account) || waits(one));
                let mut expected: Vec<&Transaction> = found.map(|(_, one)| *one).collect();
                expected.sort_by_key(|one| Reverse(one.timestamp));
                expected.truncate(MAX_SHOWN);
                let mut search = AccountSearch::new(account, MAX_SHOWN);
                let shown = loop {
                    let step = pool.search(&mut search, confirmed, &mut Budget::new(8)).expect("a store that works");
                    if let Some(shown) = step {
                        break shown;
                    }
                };
                let shown: Vec<_> = shown.into_iter().map(|entry| Rc::clone(&entry.transaction)).collect();
                assert!(shown.iter().map(|one| &**one).eq(expected), "what an account is shown");
                if !pool.is_rebuilding() {
                    let is_new = |one: &Rc<Transaction>| {
                        state::find_remembered_hash(confirmed.snapshot, &one.hash()).expect("a store").is_none()
                    };
                    assert!(shown.iter().all(is_new), "what is in the chain is not unconfirmed");
                }
            });
        }
    }
}

/// Signs a transaction; with flaw 1 not at all, with flaw 2 with the signature of something else.
fn sign(mut transaction: Transaction, pair: &KeyPair, flaw: u8) -> Transaction {
    transaction.signature = match flaw {
        1 => None,
        2 => Some(pair.sign(b"something else")),
        _ => Some(pair.sign(&transaction.signed_bytes())),
    };
    transaction
}

fn is_cosignature(transaction: &Transaction) -> bool {
    matches!(transaction.body, Body::Cosignature(_))
}

/// Returns whether an outcome is a result of the rules, rather than a store failure or an error with a success code.
fn is_known(outcome: &RuleResult) -> bool {
    match outcome {
        Ok(()) => true,
        Err(Rejection::Result(result)) => !result.is_success(),
        Err(Rejection::Exception(exception)) => !exception.to_string().is_empty(),
        Err(Rejection::TooDeep | Rejection::Unusable | Rejection::Store(_)) => false,
    }
}

/// Returns the expected content of the mempool after one more transaction was accepted. A cosignature is added to its
/// multisig transaction, or nowhere if its signer has given one before; its position is taken from `after`.
fn with(mut before: Vec<Transaction>, accepted: &Transaction, after: &[Transaction]) -> Vec<Transaction> {
    if !is_cosignature(accepted) {
        before.push(accepted.clone());
        before.extend(accepted.cosignatures().iter().cloned());
        return before;
    }
    let roots = |list: &[Transaction]| list.iter().filter(|one| !is_cosignature(one)).map(Transaction::hash).collect();
    let (old, new): (Vec<Hash256>, Vec<Hash256>) = (roots(&before), roots(after));
    assert_eq!(old, new, "a cosignature adds and removes no transaction");
    let is_added = after.contains(accepted) && !before.contains(accepted);
    assert_eq!(after.len(), before.len() + usize::from(is_added));
    after.to_vec()
}
