//! What the tests of this room stand on: effects that are written down, and a node that knows a few things.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::{AccountText, BlockText, Facts, FactsError, Owned, Ownership, Possessions, TransfersText};
use crate::api::long::Found;
use crate::api::views::{AccountPair, View};
use crate::api::{AccountInfo, AccountMeta, RemoteStatus};
use crate::codec::json::{JsonSink, JsonSource};
use crate::codec::{Context, Form, lax_json, transaction};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, MosaicId, NetworkByte, Timestamp, Transaction,
};
use crate::net::fetch::{Fetch, FetchId};
use crate::net::machine::{Caller, ConnectionId, Dropped, Effects, ListenerId, Message};

/// Bytes of a block that are written in one unit of work.
const BYTES_PER_UNIT: usize = 256;

/// The network of the tests.
pub const NETWORK: NetworkByte = NetworkByte::TESTNET;
/// Network time of the tests.
pub const TIME: Timestamp = Timestamp(367_575_434);
/// An address.
pub const A1: &str = "TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR";
/// Another.
pub const A2: &str = "TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV";

/// Somebody at an address.
pub fn caller(address: &str) -> Caller {
    let address: IpAddr = address.parse().expect("an address");
    Caller { listener: ListenerId(1), address, is_forwarded: false, is_unnamed: false }
}

/// An address from its text.
pub fn address(text: &str) -> Address {
    Address::parse(text, NETWORK).expect("an address")
}

/// A transfer of account 1 to account 2; transfers of different numbers differ.
pub fn transfer(number: i32) -> Transaction {
    const TEXT: &[u8] = br#"{"timeStamp":67191609,"amount":1000000,"signature":"0874af73d64fb9f280f947fc34faea57bd720087a24fa90cbe297306f21d1cbff619758457206071ea0904ad6f9d92f1f48a1ccb6d9568fb58b0f8be0c072e05","fee":1000000,"recipient":"TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV","mosaics":[],"type":257,"deadline":67195209,"message":{"payload":"68656c6c6f","type":1},"version":-1744830462,"signer":"c4db8627b36975d61fb643283a0407a8be48ba4a1825a293aef5f0542dcb4a44"}"#;
    let mut transfer = read(TEXT);
    transfer.timestamp.0 += number;
    transfer
}

/// A transfer of account 5 to account 2, wrapped by account 6 and signed by account 7.
pub fn multisig() -> Transaction {
    read(br#"{"timeStamp":67191609,"signature":"d8c6f0507db33efc1112130f32dfc7111ab1c5c11bd3ab40b86810001ffbf138260af06fea26ca88699817abc3d4753d36cec99728ddd8f4c783661110ae2609","fee":3000000,"type":4100,"deadline":67195209,"version":-1744830463,"signatures":[{"timeStamp":67191609,"otherHash":{"data":"1a3576514967c6557fb090230385db5c1ec257442293f75d4a5ab83e989e6d65"},"otherAccount":"TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI","signature":"7730a99a838bcbdc095aec7451e60c8534659a2b64009bf8e92ca9b2d51936e83aee8a9c87070e8c34731cb5c2cc30d8d89ec4023e388649ad7ebce98f06a504","fee":1000000,"type":4098,"deadline":67195209,"version":-1744830463,"signer":"cf9b41670c3f0fb6f26094254e04431616f0bc907aab312071dd2eaf77a68db8"}],"signer":"26d75efff993c1ef7efa85fee049023e0332f73f8d4669f9a0b1db639dc0d750","otherTrans":{"timeStamp":67191609,"amount":2000000,"fee":2000000,"recipient":"TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV","mosaics":[],"type":257,"deadline":67195209,"message":{},"version":-1744830462,"signer":"27530f2efaf575dd22135c7e535f804beaf36fedd8bde190d9bcb68d76ec0a62"}}"#)
}

fn read(text: &[u8]) -> Transaction {
    let value = lax_json::parse(text).expect("an object");
    let nemesis_signer = address("TDYCUX6CAGPBYQGVGHGQ2BHPDVEF6JF7CYNDAUWP");
    let context = Context { network: NETWORK, nemesis_signer, trusted: false };
    let mut source = JsonSource::new(&value, context).expect("an object");
    transaction::read(&mut source, Form::Verifiable).expect("a transaction")
}

/// A block of account 1 with so many different transfers.
pub fn block_of(height: Height, transactions: usize) -> Block {
    let model = transfer(0);
    Block {
        kind: BlockKind::Regular,
        version: model.version,
        timestamp: Timestamp(67_191_729),
        signer: model.signer,
        signature: model.signature,
        previous_hash: Hash256([7; 32]).into(),
        height,
        transactions: (0..transactions as i32).map(transfer).collect(),
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A message, and to whom.
    Message(u64, String),
    /// The end of a connection, and its close code.
    Close(u64, u16),
}

/// Effects that are written down.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Messages and closes in order.
    pub sent: Vec<Sent>,
    /// Units charged to each connection.
    pub charged: BTreeMap<u64, u64>,
    /// Connections resumed, in order.
    pub resumed: Vec<u64>,
    /// What is said to wait for a connection.
    pub backlogs: BTreeMap<u64, usize>,
    /// Connections that cannot be sent to any more.
    pub dropped: Vec<u64>,
    /// Whether sent bodies are only counted.
    pub counts_only: bool,
    /// Bytes sent.
    pub bytes: usize,
    /// Messages sent.
    pub messages: usize,
}

impl Recorder {
    /// What came out since the last time, as text: `<connection> <frame>` or `<connection> close <code>`.
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
        self.bytes += message.len();
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

    fn fetch(&mut self, _: Fetch) -> FetchId {
        unreachable!("the broker asks no other server")
    }

    fn cancel(&mut self, _: FetchId) {
        unreachable!("the broker asks no other server")
    }

    fn wake_at(&mut self, _: std::time::Duration) {
        unreachable!("the node asks for turns")
    }
}

/// A node that knows blocks, a pool and the accounts that are not broken.
#[derive(Default)]
pub struct Known {
    /// Its blocks.
    pub blocks: BTreeMap<u64, Block>,
    /// Its pool.
    pub pool: Vec<Rc<Transaction>>,
    /// The account that it cannot tell of.
    pub broken: Option<Address>,
    /// How many things accounts own.
    pub owned: BTreeMap<(Ownership, Address), usize>,
    /// How many of them were told of.
    pub told: RefCell<BTreeMap<(Ownership, Address), usize>>,
    /// The last thing that was looked for was not found yet.
    pub is_late: Cell<bool>,
    /// It cannot tell of itself yet.
    pub is_booting: bool,
    /// How many accounts it was asked for.
    pub accounts_asked: Cell<usize>,
    /// How many blocks it was asked for.
    pub blocks_asked: Cell<usize>,
}

impl Facts for Known {
    fn height(&self) -> Height {
        Height(self.blocks.keys().next_back().copied().unwrap_or(1))
    }

    fn block_signer(&self, height: Height) -> Result<Option<Address>, FactsError> {
        self.blocks_asked.set(self.blocks_asked.get() + 1);
        Ok(self.blocks.get(&height.0).map(|block| Address::from_public_key(&block.signer, NETWORK)))
    }

    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, FactsError> {
        let known = self.blocks.get(&block.height.0).ok_or(FactsError("there is no such block".into()))?;
        let whole = JsonSink::document(|sink| known.write(sink));
        let rest = &whole[block.text.len()..];
        let piece = rest.len().min(*budget as usize * BYTES_PER_UNIT);
        block.text.extend_from_slice(&rest[..piece]);
        *budget -= (piece / BYTES_PER_UNIT) as u32;
        Ok(piece == rest.len())
    }

    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, FactsError> {
        let block = self.blocks.get(&height.0).ok_or(FactsError("there is no such block".into()))?;
        Ok(block.transactions.iter().skip(from).take(most).cloned().collect())
    }

    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, FactsError> {
        *budget = budget.saturating_sub(20);
        let address = &account.address;
        self.accounts_asked.set(self.accounts_asked.get() + 1);
        if self.broken == Some(*address) {
            return Err(FactsError("it is broken".into()));
        }
        let info = AccountInfo {
            address: *address,
            public_key: None,
            balance: Amount(1),
            vested_balance: Amount(1),
            harvested_blocks: 0,
            importance: 0.0,
            multisig: None,
        };
        let (cosignatory_of, cosignatories) = (Vec::new(), Vec::new());
        let meta =
            AccountMeta { unlocked: false, remote_status: RemoteStatus::Inactive, cosignatory_of, cosignatories };
        account.text = JsonSink::document(|sink| AccountPair { account: &info, meta: &meta }.write(sink));
        Ok(true)
    }

    fn write_transfers(&self, transfers: &mut TransfersText, budget: &mut u32) -> Result<bool, FactsError> {
        *budget = budget.saturating_sub(20);
        transfers.text = b"{\"data\":[]}".to_vec();
        Ok(true)
    }

    fn next_owned(&self, owned: &mut Owned, budget: &mut u32) -> Result<Found<Vec<u8>>, FactsError> {
        let kind = match owned.rest {
            Possessions::Namespaces(_) => Ownership::Namespaces,
            Possessions::Definitions(_) => Ownership::Definitions,
            Possessions::Mosaics(_) => Ownership::Mosaics,
        };
        *budget = budget.saturating_sub(4);
        if self.broken == Some(owned.address) {
            return Err(FactsError("it is broken".into()));
        }
        let mut told = self.told.borrow_mut();
        let told = told.entry((kind, owned.address)).or_default();
        let all = self.owned.get(&(kind, owned.address)).copied().unwrap_or(0);
        if *told == all {
            *told = 0;
            return Ok(Found::End);
        }
        *told += 1;
        // Every other time nothing is found at once.
        self.is_late.set(!self.is_late.get());
        if self.is_late.get() {
            *told -= 1;
            return Ok(Found::NotYet);
        }
        Ok(Found::One(format!("{{\"number\":{told}}}").into_bytes()))
    }

    fn node_info(&self) -> Result<Vec<u8>, FactsError> {
        match self.is_booting {
            true => Err(FactsError("NIS_ILLEGAL_STATE_NOT_BOOTED".into())),
            false => Ok(b"{\"node\":1}".to_vec()),
        }
    }

    fn levy_recipient(&self, _: &MosaicId) -> Result<Option<Address>, FactsError> {
        Ok(Some(address(A2)))
    }

    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, FactsError> {
        let concerns = |transaction: &&Rc<Transaction>| {
            let to = |body: &Body| matches!(body, Body::Transfer(transfer) if transfer.recipient == *account);
            to(&transaction.body) || transaction.signer_address(NETWORK) == *account
        };
        Ok(self.pool.iter().filter(concerns).take(limit).cloned().collect())
    }
}
