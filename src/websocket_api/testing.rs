//! Test support: accounts and transactions, and recorded effects.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::codec::json::JsonDecoder;
use crate::codec::{Context, SigningForm, lenient_json, transaction};
use crate::model::{Address, NetworkByte, Timestamp, Transaction};
use crate::net::SharedBytes;
use crate::net::fetch::{FetchId, FetchRequest};
use crate::net::service::{Client, ConnectionId, Dropped, Effects, ListenerId, Message};

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

fn read(text: &[u8]) -> Transaction {
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
