mod implicit_subscriptions;
mod memory;
mod owned;
mod publishing;
mod queries;
mod quotas;
mod registration;
mod sessions;
mod sockjs;
mod statuses;
mod steps;
mod subscriptions;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;

use super::testing::{A1, A2, NETWORK, Recorder, Sent, TIME, address, client, multisig, transfer, transfers};
use super::{Broker, BrokerUsage, Limits};
use crate::api::tests::{Scene, TestNode, acceptable, pair};
use crate::model::{Address, Hash256, Height, Transaction};
use crate::net::SharedBytesCounter;
use crate::net::service::{ConnectionId, Progress};
use crate::peer::io::Now;
use crate::state::AccountId;
use crate::store::{Table, Write, tip};

const NOTHING: [&str; 0] = [];
const NOW: Duration = Duration::from_secs(1_000);
const PRESENT: Now = Now { monotonic: NOW, network: TIME, network_millis: 0 };

/// Account 5, which receives a levy, and account 6, which wraps the transactions of others.
const A5: &str = "TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI";
const A6: &str = "TDDP2JY4XNKA4Q7FXGHIIJD5GNE2WEOGMDD2KXTM";

/// A broker with the websockets 1 and 2 of two clients, its recorded effects, and a chain on which some accounts have
/// funds.
struct Bench {
    broker: Broker,
    effects: Recorder,
    scene: Scene,
    node: TestNode,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Bench {
    fn new(limits: Limits) -> Self {
        let mut bench = Self::empty(limits);
        bench.open(1, "10.0.0.1");
        bench.open(2, "10.0.0.2");
        bench
    }

    fn empty(limits: Limits) -> Self {
        let broker = Broker::new(limits, NETWORK, SharedBytesCounter::default());
        let scene = Scene::empty();
        [A1, A2, A5, A6].iter().for_each(|account| scene.fund_address(address(account)));
        let node = TestNode { now: PRESENT, ..TestNode::default() };
        Self { broker, effects: Recorder::default(), scene, node }
    }

    fn open(&mut self, socket: u64, from: &str) {
        self.broker.open_websocket(ConnectionId(socket), &client(from), NOW, &mut self.effects);
    }

    fn disconnect(&mut self, socket: u64) {
        self.broker.on_disconnect(ConnectionId(socket), NOW);
    }

    /// Feeds a whole message as the reactor does, and returns what was sent.
    fn receive(&mut self, socket: u64, message: &str) -> Vec<String> {
        self.feed(socket, message.as_bytes());
        self.effects.drain()
    }

    /// Feeds a message. Returns how often its rest had to wait, or `None` if it still waits.
    fn feed(&mut self, socket: u64, message: &[u8]) -> Option<usize> {
        let mut taken = self.broker.on_message(ConnectionId(socket), message, true, PRESENT, &mut self.effects);
        let mut waits = 0;
        while taken == Progress::Yield {
            waits += 1;
            taken = self.broker.on_resumed(ConnectionId(socket), PRESENT, &mut self.effects);
        }
        (taken == Progress::Done).then_some(waits)
    }

    /// Works once with this budget.
    fn slice(&mut self, budget: u32) {
        self.work_once(true, budget);
    }

    fn work_once(&mut self, is_mempool_current: bool, budget: u32) {
        let Bench { broker, effects, scene, node } = self;
        let snapshot = scene.store.snapshot().unwrap();
        let node = node.context(scene.view(&snapshot, None), scene.status, budget);
        broker.work(is_mempool_current, node, effects);
    }

    /// Returns the number of the smallest slices until no work is left.
    fn slices(&mut self) -> usize {
        let mut slices = 0;
        while self.broker.has_work(true) {
            self.slice(1);
            slices += 1;
        }
        slices
    }

    /// Works until nothing is left, resumes connections as requested, and returns what was sent.
    fn work(&mut self) -> Vec<String> {
        for _ in 0..100_000 {
            self.slice(1_000);
            for socket in std::mem::take(&mut self.effects.resumed) {
                let mut taken = Progress::Yield;
                while taken == Progress::Yield {
                    taken = self.broker.on_resumed(ConnectionId(socket), PRESENT, &mut self.effects);
                }
            }
            if !self.broker.has_work(true) {
                return self.effects.drain();
            }
        }
        panic!("the work has no end");
    }

    fn ask(&mut self, socket: u64, message: &str) -> Vec<String> {
        let mut out = self.receive(socket, message);
        out.extend(self.work());
        out
    }

    /// Puts a block of account 1 into the chain, in place of those from its height on, and empty ones below it if there are
    /// none. The broker does not hear of it.
    fn put_block(&mut self, height: u64, transactions: Vec<Transaction>) {
        let last = tip(&self.scene.store.snapshot().unwrap()).unwrap().map_or(0, |tip| tip.height.0);
        if last >= height {
            self.scene.undo_above(Height(height - 1));
        }
        let harvester = transfer(0).signer;
        (last + 1..height).for_each(|_| _ = self.scene.add_block_of(harvester, Vec::new()));
        self.scene.add_block_of(harvester, transactions);
    }

    /// Adds a block with these transactions to the chain.
    fn add_block_of(&mut self, height: u64, transactions: Vec<Transaction>) {
        self.put_block(height, transactions);
        self.broker.chain_changed(Height(height - 1), Height(height));
    }

    /// Adds a block with this number of transfers to the chain.
    fn add_block(&mut self, height: u64, count: usize) {
        self.add_block_of(height, transfers(count));
    }

    /// Adds a transaction of the account of [`pair`] to account 2 of the scene to the mempool. The broker does not hear of
    /// it.
    fn add_to_mempool(&mut self, number: i32) {
        let Bench { scene, node, .. } = self;
        if node.mempool.is_empty() {
            scene.fund_address(Address::from_public_key(&pair().public(), NETWORK));
        }
        scene.with_view(|chain| node.mempool.add(acceptable(number), chain)).unwrap();
    }

    /// Cuts the stored row of an account behind its address.
    fn damage(&mut self, account: &str) {
        let address = address(account);
        self.scene.write(|batch| {
            let id = AccountId::of(batch, &address).unwrap().unwrap();
            batch.put(Table::Accounts, &id.key(), &address.to_raw()).unwrap();
        });
    }

    fn height(&mut self, height: u64) -> Vec<String> {
        self.add_block(height, 0);
        self.work()
    }

    /// Adds a transaction from account 1 to account 2 to the mempool.
    fn add_transaction(&mut self, number: i32) -> Vec<String> {
        self.broker.news.on_transaction(Rc::new(transfer(number)));
        self.work()
    }

    fn subscribe(&mut self, socket: u64, id: &str, destination: &str) {
        let subscribe = format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\n\n\0");
        assert_eq!(self.receive(socket, &subscribe), NOTHING);
    }

    fn charged(&self, socket: u64) -> u64 {
        self.effects.charged.get(&socket).copied().unwrap_or(0)
    }

    fn registered(&self) -> usize {
        self.broker.usage().addresses
    }
}

fn send(path: &str, account: &str) -> String {
    format!("SEND\ndestination:/w/api/{path}\n\n{{'account':'{account}'}}\0")
}

/// Subscription ids of messages, in order.
fn ids(sent: &[String]) -> Vec<&str> {
    sent.iter()
        .map(|text| text.split("\nsubscription:").nth(1).and_then(|rest| rest.split('\n').next()).unwrap())
        .collect()
}

/// Recipients and topics of messages, in order.
fn topics(sent: &[String]) -> Vec<String> {
    let topic = |text: &String| {
        let (to, frame) = text.split_once(' ').unwrap();
        let topic = frame.strip_prefix("MESSAGE\ndestination:").unwrap().split('\n').next().unwrap();
        format!("{to} {topic}")
    };
    sent.iter().map(topic).collect()
}
