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

use super::testing::{A1, A2, FakeNode, NETWORK, Recorder, Sent, TIME, address, block_of, client, multisig, transfer};
use super::{BlocksNewBody, Broker, BrokerUsage, Limits, Settings};
use crate::model::Height;
use crate::net::SharedBytesCounter;
use crate::net::service::{ConnectionId, Progress};
use crate::peer::io::Now;

const NOTHING: [&str; 0] = [];
const NOW: Duration = Duration::from_secs(1_000);
const PRESENT: Now = Now { monotonic: NOW, network: TIME, network_millis: 0 };

/// A broker with the websockets 1 and 2 of two clients, and its recorded effects.
struct Bench {
    broker: Broker,
    effects: Recorder,
    node: FakeNode,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let mut bench = Self::empty(settings);
        bench.open(1, "10.0.0.1");
        bench.open(2, "10.0.0.2");
        bench
    }

    fn empty(settings: Settings) -> Self {
        let broker = Broker::new(settings, NETWORK, SharedBytesCounter::default());
        Self { broker, effects: Recorder::default(), node: FakeNode::default() }
    }

    fn strict() -> Self {
        Self::new(Settings { lenient: false, ..Settings::default() })
    }

    fn limited(limits: Limits) -> Self {
        Self::new(Settings { limits, ..Settings::default() })
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
        self.broker.work(true, &mut self.node, PRESENT, budget, &mut self.effects);
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

    /// Adds a block with this number of transfers to the chain.
    fn add_block(&mut self, height: u64, transactions: usize) {
        self.node.blocks.insert(height, block_of(Height(height), transactions));
        self.broker.chain_changed(Height(height - 1), Height(height));
    }

    fn height(&mut self, height: u64) -> Vec<String> {
        self.add_block(height, 0);
        self.work()
    }

    /// Adds a transaction from account 1 to account 2 to the mempool.
    fn add_transaction(&mut self, number: i32) -> Vec<String> {
        self.broker.on_transaction(Rc::new(transfer(number)));
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

#[test]
fn the_default_settings_are_fixed() {
    let settings = Settings::default();
    assert_eq!(settings.blocks_new, BlocksNewBody::Auto);
    assert!(settings.register_on_subscribe && settings.implicit_subscription && settings.lenient);
}
