//! Wallets that subscribe at a node: checks that they receive all messages, and none twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::mem::take;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nisd::codec::{Context, Format};
use nisd::model::{Address, Block, Body, Hash256, Timestamp, Transaction};
use serde_json::Value;

use crate::common::private_network::{NETWORK, address, key_pair, now};
use crate::common::websocket::{PING, PONG, Socket, Stomp, TEXT};

/// Time without messages after which the last one counts as received.
const QUIET: Duration = Duration::from_millis(500);

/// A message about one of the accounts of a wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Concern {
    pub account: Address,
    /// Hash of the transaction.
    pub hash: Hash256,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Height of the next block.
    Height(u64),
    /// A block and the network time of its arrival.
    Block(Box<Block>, Timestamp),
    Unconfirmed(Concern),
    /// A transaction in the block at this height.
    Confirmed(Concern, u64),
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Heard::Height(height) => write!(f, "height {height}"),
            Heard::Block(block, _) => {
                let hashes = block.transactions.iter().map(|transaction| transaction.hash().to_string());
                write!(
                    f,
                    "block {} {} after {:?} with {:?}",
                    block.height.0,
                    block.hash(),
                    block.previous_hash,
                    hashes.collect::<Vec<_>>()
                )
            }
            Heard::Unconfirmed(Concern { account, hash }) => write!(f, "unconfirmed {hash} of {account}"),
            Heard::Confirmed(Concern { account, hash }, height) => {
                write!(f, "confirmed at {height} {hash} of {account}")
            }
        }
    }
}

/// A wallet with subscriptions.
pub struct Wallet {
    accounts: Vec<Address>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Heard>>,
}

impl Wallet {
    /// Subscribes to all blocks, and to the transactions of some accounts.
    pub fn open(node: SocketAddr, accounts: &[Address]) -> Wallet {
        let mut socket = Socket::open(node);
        socket.text("CONNECT\naccept-version:1.2\n\n\0");
        assert_eq!(socket.next_stomp().command, "CONNECTED");
        // From the next block on, everything received is a message.
        let topics = accounts
            .iter()
            .flat_map(|account| ["unconfirmed", "transactions"].map(|kind| format!("/{kind}/{account}")));
        for (number, topic) in topics.chain(["/blocks".to_owned(), "/blocks/new".to_owned()]).enumerate() {
            socket.subscribe(&number.to_string(), &topic);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = thread::spawn(move || listen(socket, &ends));
        Wallet { accounts: accounts.to_vec(), is_over, thread }
    }

    /// Ends the wallet and evaluates what it received.
    pub fn close(self) -> Ledger {
        self.is_over.store(true, Ordering::Relaxed);
        let heard = self.thread.join().expect("it listens to the end");
        Ledger::of(self.accounts, &heard)
    }
}

fn listen(mut socket: Socket, is_over: &AtomicBool) -> Vec<Heard> {
    let mut heard = Vec::new();
    loop {
        match socket.next_within(QUIET) {
            Some(frame) if frame.opcode == PING => socket.frame(true, PONG, &frame.payload),
            Some(frame) if frame.opcode == TEXT => {
                let text = String::from_utf8(frame.payload).expect("a text");
                heard.push(understood(&Stomp::parse(&text)));
            }
            Some(frame) => panic!("{frame:?}"),
            None if is_over.load(Ordering::Relaxed) => return heard,
            None => {}
        }
    }
}

fn understood(message: &Stomp) -> Heard {
    let (topic, subscription) = (message.header("destination"), message.header("subscription"));
    let body = message.message(topic, subscription);
    let json = || serde_json::from_str::<Value>(body).expect("JSON");
    let concern = |account| {
        let account = Address::parse(account, NETWORK).expect("an address");
        let hash = json()["meta"]["hash"]["data"].as_str().map(Hash256::from_hex);
        Concern { account, hash: hash.expect("a hash").expect("a hash") }
    };
    match topic.rsplit_once('/').expect("a topic") {
        ("/blocks", "new") => Heard::Height(json()["height"].as_u64().expect("a height")),
        ("", "blocks") => {
            let context = Context { network: NETWORK, nemesis_signer: address(&key_pair(0)), trusted: false };
            Heard::Block(Box::new(Format::Json.read(body.as_bytes(), context).expect("a block")), now())
        }
        ("/unconfirmed", account) => Heard::Unconfirmed(concern(account)),
        ("/transactions", account) => {
            Heard::Confirmed(concern(account), json()["meta"]["height"].as_u64().expect("a height"))
        }
        _ => panic!("{topic} was not subscribed to"),
    }
}

/// State of a transaction of one of its accounts, as the wallet knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Unconfirmed,
    Confirmed,
}

/// What a wallet knows from its messages alone, and the errors found in them.
#[derive(Default)]
pub struct Ledger {
    /// All messages, for display.
    pub history: String,
    accounts: Vec<Address>,
    /// The chain since the subscription: the hash of each block.
    pub chain: BTreeMap<u64, Hash256>,
    blocks: BTreeMap<Hash256, Block>,
    states: BTreeMap<Concern, State>,
    /// Reported as unconfirmed although confirmed: the next block must undo their blocks.
    returned: BTreeSet<Concern>,
    /// Their blocks were then undone and they were not reported again: they must be in one of the new blocks, which
    /// were made earlier.
    awaited: BTreeMap<Concern, Timestamp>,
    /// Transactions of the last block that are not reported yet.
    due: Vec<(Concern, u64)>,
    /// The reported height until its block arrives.
    height: Option<u64>,
    /// Reported before confirmation.
    pub announced: BTreeSet<Concern>,
    /// When the last block was made.
    made: Timestamp,
    /// Received messages.
    pub told: Told,
    /// Missing messages.
    pub lost: Vec<String>,
    /// Duplicate messages and messages without a reason.
    pub surplus: Vec<String>,
}

/// Numbers of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub blocks: usize,
    pub confirmed: usize,
    pub unconfirmed: usize,
    /// Unconfirmed again after their blocks were undone.
    pub returned: usize,
    /// Number of reorgs.
    pub switches: usize,
    /// Maximum number of blocks undone at once.
    pub deepest: usize,
}

impl Ledger {
    /// Evaluates messages in the order of their arrival.
    pub fn of(accounts: Vec<Address>, heard: &[Heard]) -> Ledger {
        let mut ledger = Ledger { accounts, ..Ledger::default() };
        for heard in heard {
            let _ = writeln!(ledger.history, "  {heard}");
            match heard {
                Heard::Height(height) => ledger.announce_block(*height),
                Heard::Block(block, came) => ledger.add(block, *came),
                Heard::Unconfirmed(concern) => ledger.unconfirmed(*concern),
                Heard::Confirmed(concern, height) => ledger.confirmed(*concern, *height),
            }
        }
        ledger.end();
        ledger
    }

    /// Returns whether the messages confirm a transaction.
    pub fn has_confirmed(&self, transaction: &Transaction) -> bool {
        let is_confirmed = |concern| self.states.get(&concern) == Some(&State::Confirmed);
        self.concerned(transaction).all(is_confirmed)
    }

    /// Returns whether a transaction was reported before its confirmation.
    pub fn was_announced(&self, transaction: &Transaction) -> bool {
        self.concerned(transaction).all(|concern| self.announced.contains(&concern))
    }

    /// Returns those of the accounts that are notified of a transfer, as its sender or recipient.
    fn concerned(&self, transaction: &Transaction) -> impl Iterator<Item = Concern> {
        let sender = Address::from_public_key(&transaction.signer, NETWORK);
        let recipient = match &transaction.body {
            Body::Transfer(transfer) => Some(transfer.recipient),
            _ => None,
        };
        let hash = transaction.hash();
        let accounts = self.accounts.iter().copied();
        let concerned = accounts.filter(move |account| *account == sender || Some(*account) == recipient);
        concerned.map(move |account| Concern { account, hash })
    }

    fn concerns(&self, block: &Block) -> Vec<Concern> {
        block.transactions.iter().flat_map(|transaction| self.concerned(transaction)).collect()
    }

    fn announce_block(&mut self, height: u64) {
        self.end_block();
        self.height = Some(height);
    }

    fn add(&mut self, block: &Block, came: Timestamp) {
        self.told.blocks += 1;
        self.told_missing();
        let (height, parent) = (block.height.0, block.height.0 - 1);
        match self.height.take() {
            Some(told) if told == height => {}
            Some(told) => self.lost.push(format!("block {told}, instead of which {height} came")),
            // Only the first height of a reorg is reported.
            None if self.chain.last_key_value().is_none_or(|(last, _)| *last == parent) => {}
            None => self.surplus.push(format!("block {height}, whose height was not told")),
        }
        self.undo_from(height, block.hash(), came);
        let fits = self.chain.get(&parent).is_some_and(|hash| block.previous_hash == *hash);
        if !self.chain.is_empty() && !fits {
            self.lost.push(format!("what is below block {height}"));
        }
        self.made = block.timestamp;
        self.due = self.concerns(block).into_iter().map(|concern| (concern, height)).collect();
        self.chain.insert(height, block.hash());
        self.blocks.insert(block.hash(), block.clone());
    }

    /// Undoes the blocks from `height` on; `first` is the new block at that height.
    fn undo_from(&mut self, height: u64, first: Hash256, came: Timestamp) {
        let undone = self.chain.split_off(&height);
        if undone.get(&height) == Some(&first) {
            self.surplus.push(format!("block {height}, which is the same"));
        }
        self.told.switches += usize::from(!undone.is_empty());
        self.told.deepest = self.told.deepest.max(undone.len());
        let concerns: Vec<_> = undone.values().flat_map(|hash| self.concerns(&self.blocks[hash])).collect();
        for concern in concerns {
            if self.returned.remove(&concern) {
                self.told.returned += 1;
                self.states.insert(concern, State::Unconfirmed);
            } else {
                self.awaited.insert(concern, came);
            }
        }
        let without_reason = take(&mut self.returned);
        self.surplus.extend(without_reason.iter().map(|concern| format!("{concern:?} unconfirmed, and not undone")));
    }

    fn unconfirmed(&mut self, concern: Concern) {
        self.told.unconfirmed += 1;
        self.announced.insert(concern);
        match self.states.get(&concern) {
            None => {
                self.states.insert(concern, State::Unconfirmed);
            }
            Some(State::Confirmed) if self.returned.insert(concern) => {}
            _ => self.surplus.push(format!("{concern:?} unconfirmed")),
        }
    }

    fn confirmed(&mut self, concern: Concern, height: u64) {
        self.told.confirmed += 1;
        match self.due.iter().position(|due| *due == (concern, height)) {
            Some(place) => drop(self.due.swap_remove(place)),
            None => self.surplus.push(format!("{concern:?} confirmed at {height}")),
        }
        if self.awaited.remove(&concern).is_some_and(|undone| self.made > undone) {
            self.lost.push(format!("{concern:?} unconfirmed again, when it was undone"));
        }
        self.states.insert(concern, State::Confirmed);
    }

    fn end_block(&mut self) {
        self.told_missing();
        if let Some(height) = self.height.take() {
            self.lost.push(format!("block {height}"));
        }
    }

    /// Adds the transactions of the last block that were not reported to the missing messages.
    fn told_missing(&mut self) {
        let lost = take(&mut self.due);
        self.lost.extend(lost.iter().map(|(concern, height)| format!("{concern:?} confirmed at {height}")));
    }

    fn end(&mut self) {
        self.end_block();
        let (returned, awaited) = (take(&mut self.returned), take(&mut self.awaited));
        self.surplus.extend(returned.iter().map(|concern| format!("{concern:?} unconfirmed at last, and not undone")));
        self.lost.extend(awaited.keys().map(|concern| format!("{concern:?} in a new block, or unconfirmed again")));
    }
}
