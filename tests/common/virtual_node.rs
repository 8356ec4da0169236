//! A node in virtual time: what a running one does each second, without sockets and clock.

use std::collections::BTreeSet;
use std::rc::Rc;

use nisd::chain::harvest::{Harvested, Tick, TickProgress, UnlockResult, Unlocked};
use nisd::chain::{PartProgress, Switch, harvested_part};
use nisd::crypto::{KeyPair, Verifier};
use nisd::model::{Address, Block, Network, Timestamp, Transaction};
use nisd::pool::{Confirmed, Pool};
use nisd::rules::Outcome;
use nisd::store::{Store, StoredBlock, tip};

/// The node.
pub struct VirtualNode<'n> {
    network: &'n Network,
    store: &'n Store,
    /// Its unconfirmed transactions.
    pub pool: Pool,
    /// The accounts that harvest on it.
    pub unlocked: Unlocked,
    /// Network time.
    pub now: Timestamp,
    verifier: Verifier,
    discarded: Vec<Address>,
}

/// A block that the node has made and put onto its chain.
pub struct Made {
    /// The block.
    pub block: Block,
    /// What is known of it.
    pub header: StoredBlock,
    /// What the pool held when it was made.
    pub waiting: Vec<Rc<Transaction>>,
    /// Accounts that have hit since the block before, but may not make a block.
    pub discarded: Vec<Address>,
}

impl<'n> VirtualNode<'n> {
    /// A node on a chain, which at most so many accounts harvest on.
    pub fn new(network: &'n Network, store: &'n Store, unlocked_limit: i32, now: Timestamp) -> VirtualNode<'n> {
        let (pool, unlocked, verifier) = (Pool::default(), Unlocked::new(unlocked_limit), Verifier::default());
        VirtualNode { network, store, pool, unlocked, now, verifier, discarded: Vec::new() }
    }

    /// The last block.
    pub fn tip(&self) -> StoredBlock {
        tip(&self.store.snapshot().unwrap()).unwrap().unwrap()
    }

    /// Lets an account harvest.
    pub fn unlock(&mut self, key: KeyPair) -> UnlockResult {
        let (height, snapshot) = (self.tip().height, self.store.snapshot().unwrap());
        self.unlocked.unlock(Box::new(key), height, &snapshot, self.network).unwrap()
    }

    /// Takes in what somebody announces.
    pub fn announce(&mut self, transaction: Transaction) -> Outcome {
        self.with_pool(|pool, confirmed, verifier| pool.announce(transaction, confirmed, verifier))
    }

    /// A second goes by: what has expired is dropped, and every account tries to make the next block.
    pub fn second(&mut self) -> Option<Made> {
        self.now.0 += 1;
        self.pool.drop_expired(self.now);
        self.keep_pool();
        let harvested = self.tick()?;
        let (waiting, discarded) = (self.pool.in_fee_order(), std::mem::take(&mut self.discarded));
        let block = harvested.block.clone();
        let switch = self.process(harvested);
        let confirmed: BTreeSet<_> = block.transactions.iter().map(Transaction::hash).collect();
        assert_eq!(switch.confirmed, confirmed);
        self.pool.on_chain_change(&confirmed, switch.returned);
        self.keep_pool();
        Some(Made { block, header: self.tip(), waiting, discarded })
    }

    fn with_pool<T>(&mut self, act: impl FnOnce(&mut Pool, &Confirmed<'_>, &mut Verifier) -> T) -> T {
        let (height, snapshot) = (self.tip().height, self.store.snapshot().unwrap());
        let confirmed = Confirmed { snapshot: &snapshot, network: self.network, height, now: self.now };
        act(&mut self.pool, &confirmed, &mut self.verifier)
    }

    fn keep_pool(&mut self) {
        while self.pool.has_work() {
            self.with_pool(|pool, confirmed, verifier| pool.work(confirmed, verifier)).unwrap();
        }
    }

    fn tick(&mut self) -> Option<Harvested> {
        let snapshot = self.store.snapshot().unwrap();
        let mut tick = Tick::begin(&mut self.unlocked, self.now, false, &snapshot, self.network).unwrap()?;
        loop {
            match tick.step(&self.unlocked, || self.pool.in_fee_order(), &snapshot, self.network).unwrap() {
                TickProgress::Working => {}
                TickProgress::Discarded(address, _) => self.discarded.push(address),
                TickProgress::Done(harvested) => return harvested,
            }
        }
    }

    fn process(&self, harvested: Harvested) -> Switch {
        let mut part = harvested_part(self.store, self.network, harvested).unwrap();
        loop {
            match part.step(self.now).unwrap() {
                PartProgress::Working(more) => part = more,
                PartProgress::Done(outcome) => return outcome.switch.clone().unwrap_or_else(|| panic!("{outcome:?}")),
            }
        }
    }
}
