//! Test support: accounts and transactions, recorded effects, and a broker with some clients on a small chain.

pub(super) use super::{Broker, Limits};
pub(super) use crate::api::tests::{Scene, TestNode, acceptable, pair};
pub(super) use crate::codec::json::JsonDecoder;
pub(super) use crate::codec::{Context, SigningForm, lenient_json, transaction};
pub(super) use crate::model::{Address, Hash256, Height, Transaction};
pub(super) use crate::model::{NetworkByte, Timestamp};
pub(super) use crate::net::SharedBytes;
pub(super) use crate::net::SharedBytesCounter;
pub(super) use crate::net::fetch::{FetchId, FetchRequest};
pub(super) use crate::net::service::Progress;
pub(super) use crate::net::service::{Client, ConnectionId, Dropped, Effects, ListenerId, Message};
pub(super) use crate::peer::io::Now;
pub(super) use crate::state::AccountId;
pub(super) use crate::store::{Table, Write, tip};
pub(super) use proptest::prelude::*;
pub(super) use std::collections::BTreeMap;
pub(super) use std::net::IpAddr;
pub(super) use std::rc::Rc;
pub(super) use std::time::Duration;

/// The network of the tests.
pub const NETWORK: NetworkByte = NetworkByte::TESTNET;
/// Network time of the tests.
pub const TIME: Timestamp = Timestamp(367_575_434);
/// Address of account 1.
pub const A1: &str = "TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR";
/// Address of account 2.
pub const A2: &str = "TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV";

/// A client at an address.
pub fn client(address: &str) -> Client {
    let address: IpAddr = address.parse().expect("an address");
    Client { is_local: address.is_loopback(), ..Client::direct(ListenerId(1), address) }
}

/// Parses an address.
pub fn address(text: &str) -> Address {
    Address::parse(text, NETWORK).expect("an address")
}

/// A transfer from account 1 to account 2; transfers with different numbers differ.
pub fn transfer(number: i32) -> Transaction {
    const TEXT: &[u8] = br#"{"timeStamp":67191609,"amount":1000000,"signature":"0874af73d64fb9f280f947fc34faea57bd720087a24fa90cbe297306f21d1cbff619758457206071ea0904ad6f9d92f1f48a1ccb6d9568fb58b0f8be0c072e05","fee":1000000,"recipient":"TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV","mosaics":[],"type":257,"deadline":67195209,"message":{"payload":"68656c6c6f","type":1},"version":-1744830462,"signer":"c4db8627b36975d61fb643283a0407a8be48ba4a1825a293aef5f0542dcb4a44"}"#;
    let mut transfer = read(TEXT);
    transfer.timestamp.0 += number;
    transfer
}

/// A transfer from account 5 to account 2, wrapped by account 6 and signed by account 7.
pub fn multisig() -> Transaction {
    read(br#"{"timeStamp":67191609,"signature":"d8c6f0507db33efc1112130f32dfc7111ab1c5c11bd3ab40b86810001ffbf138260af06fea26ca88699817abc3d4753d36cec99728ddd8f4c783661110ae2609","fee":3000000,"type":4100,"deadline":67195209,"version":-1744830463,"signatures":[{"timeStamp":67191609,"otherHash":{"data":"1a3576514967c6557fb090230385db5c1ec257442293f75d4a5ab83e989e6d65"},"otherAccount":"TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI","signature":"7730a99a838bcbdc095aec7451e60c8534659a2b64009bf8e92ca9b2d51936e83aee8a9c87070e8c34731cb5c2cc30d8d89ec4023e388649ad7ebce98f06a504","fee":1000000,"type":4098,"deadline":67195209,"version":-1744830463,"signer":"cf9b41670c3f0fb6f26094254e04431616f0bc907aab312071dd2eaf77a68db8"}],"signer":"26d75efff993c1ef7efa85fee049023e0332f73f8d4669f9a0b1db639dc0d750","otherTrans":{"timeStamp":67191609,"amount":2000000,"fee":2000000,"recipient":"TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV","mosaics":[],"type":257,"deadline":67195209,"message":{},"version":-1744830462,"signer":"27530f2efaf575dd22135c7e535f804beaf36fedd8bde190d9bcb68d76ec0a62"}}"#)
}

pub(super) fn read(text: &[u8]) -> Transaction {
    let value = lenient_json::parse(text).expect("an object");
    let nemesis_signer = address("TDYCUX6CAGPBYQGVGHGQ2BHPDVEF6JF7CYNDAUWP");
    let context = Context { network: NETWORK, nemesis_signer, trusted: false };
    let mut source = JsonDecoder::new(&value, context).expect("an object");
    transaction::read(&mut source, SigningForm::Verifiable).expect("a transaction")
}

/// This number of different transfers from account 1 to account 2.
pub fn transfers(count: usize) -> Vec<Transaction> {
    (0..count as i32).map(transfer).collect()
}

/// A recorded effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A message, and its connection.
    Message(u64, String),
    /// The end of a connection, and its close code.
    Close(u64, u16),
}

/// Records effects.
#[derive(Default)]
pub struct Recorder {
    /// Messages and closes in order.
    pub sent: Vec<Sent>,
    /// Units charged to each connection.
    pub charged: BTreeMap<u64, u64>,
    /// Resumed connections in order.
    pub resumed: Vec<u64>,
    /// Simulated backlog of each connection.
    pub backlogs: BTreeMap<u64, usize>,
    /// Connections that cannot be sent to any more.
    pub dropped: Vec<u64>,
    /// Counts sent bodies instead of recording them.
    pub counts_only: bool,
    /// The shared bodies of all messages, if they are kept.
    pub bodies: Option<Vec<SharedBytes>>,
    /// Messages sent.
    pub messages: usize,
}

impl Recorder {
    /// Returns the effects since the last call as text: `<connection> <frame>` or `<connection> close <code>`.
    pub fn drain(&mut self) -> Vec<String> {
        let text = |sent: Sent| match sent {
            Sent::Message(to, frame) => format!("{to} {frame}"),
            Sent::Close(to, code) => format!("{to} close {code}"),
        };
        self.sent.drain(..).map(text).collect()
    }
}

impl Effects for Recorder {
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped> {
        if self.dropped.contains(&socket.0) {
            return Err(Dropped);
        }
        if let Some(bodies) = &mut self.bodies {
            bodies.extend(message.body.cloned());
        }
        self.messages += 1;
        if !self.counts_only {
            let body = message.body.map_or(&[][..], |body| body);
            let text = String::from_utf8([message.head, body, message.tail].concat()).expect("UTF-8");
            self.sent.push(Sent::Message(socket.0, text));
        }
        Ok(())
    }

    fn backlog(&self, socket: ConnectionId) -> usize {
        self.backlogs.get(&socket.0).copied().unwrap_or(0)
    }

    fn close(&mut self, socket: ConnectionId, code: u16, _: &str) {
        self.dropped.push(socket.0);
        self.sent.push(Sent::Close(socket.0, code));
    }

    fn resume(&mut self, connection: ConnectionId) {
        self.resumed.push(connection.0);
    }

    fn charge(&mut self, connection: ConnectionId, units: u32) {
        *self.charged.entry(connection.0).or_default() += u64::from(units);
    }

    fn fetch(&mut self, _: FetchId, _: FetchRequest) {
        unreachable!("the broker asks no other server")
    }

    fn cancel(&mut self, _: FetchId) {
        unreachable!("the broker asks no other server")
    }

    fn wake_at(&mut self, _: std::time::Duration) {
        unreachable!("the node asks for turns")
    }
}

pub(super) const NOTHING: [&str; 0] = [];
pub(super) const NOW: Duration = Duration::from_secs(1_000);
pub(super) const PRESENT: Now = Now { monotonic: NOW, network: TIME, network_millis: 0 };

/// Account 5, which receives a levy, and account 6, which wraps the transactions of others.
pub(super) const A5: &str = "TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI";
pub(super) const A6: &str = "TDDP2JY4XNKA4Q7FXGHIIJD5GNE2WEOGMDD2KXTM";

/// A broker with the websockets 1 and 2 of two clients, its recorded effects, and a chain on which some accounts have
/// funds.
pub(super) struct Bench {
    pub(super) broker: Broker,
    pub(super) effects: Recorder,
    pub(super) scene: Scene,
    pub(super) node: TestNode,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Bench {
    pub(super) fn new(limits: Limits) -> Self {
        let mut bench = Self::empty(limits);
        bench.open(1, "10.0.0.1");
        bench.open(2, "10.0.0.2");
        bench
    }

    pub(super) fn empty(limits: Limits) -> Self {
        let broker = Broker::new(limits, NETWORK, SharedBytesCounter::default());
        let scene = Scene::empty();
        [A1, A2, A5, A6].iter().for_each(|account| scene.fund_address(address(account)));
        let node = TestNode { now: PRESENT, ..TestNode::default() };
        Self { broker, effects: Recorder::default(), scene, node }
    }

    pub(super) fn open(&mut self, socket: u64, from: &str) {
        self.broker.open_websocket(ConnectionId(socket), &client(from), NOW, &mut self.effects);
    }

    pub(super) fn disconnect(&mut self, socket: u64) {
        self.broker.on_disconnect(ConnectionId(socket), NOW);
    }

    /// Feeds a whole message as the reactor does, and returns what was sent.
    pub(super) fn receive(&mut self, socket: u64, message: &str) -> Vec<String> {
        self.feed(socket, message.as_bytes());
        self.effects.drain()
    }

    /// Feeds a message. Returns how often its rest had to wait, or `None` if it still waits.
    pub(super) fn feed(&mut self, socket: u64, message: &[u8]) -> Option<usize> {
        let mut taken = self.broker.on_message(ConnectionId(socket), message, true, PRESENT, &mut self.effects);
        let mut waits = 0;
        while taken == Progress::Yield {
            waits += 1;
            taken = self.broker.on_resumed(ConnectionId(socket), PRESENT, &mut self.effects);
        }
        (taken == Progress::Done).then_some(waits)
    }

    /// Works once with this budget.
    pub(super) fn slice(&mut self, budget: u32) {
        self.work_once(true, budget);
    }

    pub(super) fn work_once(&mut self, is_mempool_current: bool, budget: u32) {
        let Bench { broker, effects, scene, node } = self;
        let snapshot = scene.store.snapshot().unwrap();
        let node = node.context(scene.view(&snapshot, None), scene.status, budget);
        broker.work(is_mempool_current, node, effects);
    }

    /// Returns the number of the smallest slices until no work is left.
    pub(super) fn slices(&mut self) -> usize {
        let mut slices = 0;
        while self.broker.has_work(true) {
            self.slice(1);
            slices += 1;
        }
        slices
    }

    /// Works until nothing is left, resumes connections as requested, and returns what was sent.
    pub(super) fn work(&mut self) -> Vec<String> {
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

    pub(super) fn ask(&mut self, socket: u64, message: &str) -> Vec<String> {
        let mut out = self.receive(socket, message);
        out.extend(self.work());
        out
    }

    /// Puts a block of account 1 into the chain, in place of those from its height on, and empty ones below it if there are
    /// none. The broker does not hear of it.
    pub(super) fn put_block(&mut self, height: u64, transactions: Vec<Transaction>) {
        let last = tip(&self.scene.store.snapshot().unwrap()).unwrap().map_or(0, |tip| tip.height.0);
        if last >= height {
            self.scene.undo_above(Height(height - 1));
        }
        let harvester = transfer(0).signer;
        (last + 1..height).for_each(|_| _ = self.scene.add_block_of(harvester, Vec::new()));
        self.scene.add_block_of(harvester, transactions);
    }

    /// Adds a block with these transactions to the chain.
    pub(super) fn add_block_of(&mut self, height: u64, transactions: Vec<Transaction>) {
        self.put_block(height, transactions);
        self.broker.chain_changed(Height(height - 1), Height(height));
    }

    /// Adds a block with this number of transfers to the chain.
    pub(super) fn add_block(&mut self, height: u64, count: usize) {
        self.add_block_of(height, transfers(count));
    }

    /// Adds a transaction of the account of [`pair`] to account 2 of the scene to the mempool. The broker does not hear of
    /// it.
    pub(super) fn add_to_mempool(&mut self, number: i32) {
        let Bench { scene, node, .. } = self;
        if node.mempool.is_empty() {
            scene.fund_address(Address::from_public_key(&pair().public(), NETWORK));
        }
        scene.with_view(|chain| node.mempool.add(acceptable(number), chain)).unwrap();
    }

    /// Cuts the stored row of an account behind its address.
    pub(super) fn damage(&mut self, account: &str) {
        let address = address(account);
        self.scene.write(|batch| {
            let id = AccountId::of(batch, &address).unwrap().unwrap();
            batch.put(Table::Accounts, &id.key(), &address.to_raw()).unwrap();
        });
    }

    pub(super) fn height(&mut self, height: u64) -> Vec<String> {
        self.add_block(height, 0);
        self.work()
    }

    /// Adds a transaction from account 1 to account 2 to the mempool.
    pub(super) fn add_transaction(&mut self, number: i32) -> Vec<String> {
        self.broker.news.on_transaction(Rc::new(transfer(number)));
        self.work()
    }

    pub(super) fn subscribe(&mut self, socket: u64, id: &str, destination: &str) {
        let subscribe = format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\n\n\0");
        assert_eq!(self.receive(socket, &subscribe), NOTHING);
    }

    pub(super) fn charged(&self, socket: u64) -> u64 {
        self.effects.charged.get(&socket).copied().unwrap_or(0)
    }

    pub(super) fn registered(&self) -> usize {
        self.broker.table.registered.len()
    }
}

pub(super) fn send(path: &str, account: &str) -> String {
    format!("SEND\ndestination:/w/api/{path}\n\n{{'account':'{account}'}}\0")
}

/// Subscription ids of messages, in order.
pub(super) fn ids(sent: &[String]) -> Vec<&str> {
    sent.iter()
        .map(|text| text.split("\nsubscription:").nth(1).and_then(|rest| rest.split('\n').next()).unwrap())
        .collect()
}

/// Recipients and topics of messages, in order.
pub(super) fn topics(sent: &[String]) -> Vec<String> {
    let topic = |text: &String| {
        let (to, frame) = text.split_once(' ').unwrap();
        let topic = frame.strip_prefix("MESSAGE\ndestination:").unwrap().split('\n').next().unwrap();
        format!("{to} {topic}")
    };
    sent.iter().map(topic).collect()
}
