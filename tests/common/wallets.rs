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

use super::private_network::{NETWORK, address, key_pair, now};
use super::websocket::{PING, PONG, Socket, Stomp, TEXT};

/// Time without messages after which the last one counts as received.
const QUIET: Duration = Duration::from_millis(500);

/// A message about one of the accounts of a wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountMessage {
    pub account: Address,
    /// Hash of the transaction.
    pub hash: Hash256,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub enum WalletMessage {
    /// Height of the next block.
    Height(u64),
    /// A block and the network time of its arrival.
    Block(Box<Block>, Timestamp),
    Unconfirmed(AccountMessage),
    /// A transaction in the block at this height.
    Confirmed(AccountMessage, u64),
}

impl fmt::Display for WalletMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalletMessage::Height(height) => write!(f, "height {height}"),
            WalletMessage::Block(block, _) => {
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
            WalletMessage::Unconfirmed(AccountMessage { account, hash }) => {
                write!(f, "unconfirmed {hash} of {account}")
            }
            WalletMessage::Confirmed(AccountMessage { account, hash }, height) => {
                write!(f, "confirmed at {height} {hash} of {account}")
            }
        }
    }
}

/// A wallet with subscriptions.
pub struct Wallet {
    accounts: Vec<Address>,
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Vec<WalletMessage>>,
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
        Wallet { accounts: accounts.to_vec(), is_stopped: is_over, thread }
    }

    /// Ends the wallet and evaluates what it received.
    pub fn close(self) -> MessageAudit {
        self.is_stopped.store(true, Ordering::Relaxed);
        let heard = self.thread.join().expect("it listens to the end");
        MessageAudit::of(self.accounts, &heard)
    }
}

fn listen(mut socket: Socket, is_over: &AtomicBool) -> Vec<WalletMessage> {
    let mut heard = Vec::new();
    loop {
        match socket.next_within(QUIET) {
            Some(frame) if frame.opcode == PING => socket.frame(true, PONG, &frame.payload),
            Some(frame) if frame.opcode == TEXT => {
                let text = String::from_utf8(frame.payload).expect("a text");
                heard.push(parse_message(&Stomp::parse(&text)));
            }
            Some(frame) => panic!("{frame:?}"),
            None if is_over.load(Ordering::Relaxed) => return heard,
            None => {}
        }
    }
}

fn parse_message(message: &Stomp) -> WalletMessage {
    let (topic, subscription) = (message.header("destination"), message.header("subscription"));
    let body = message.message(topic, subscription);
    let json = || serde_json::from_str::<Value>(body).expect("JSON");
    let concern = |account| {
        let account = Address::parse(account, NETWORK).expect("an address");
        let hash = json()["meta"]["hash"]["data"].as_str().map(Hash256::from_hex);
        AccountMessage { account, hash: hash.expect("a hash").expect("a hash") }
    };
    match topic.rsplit_once('/').expect("a topic") {
        ("/blocks", "new") => WalletMessage::Height(json()["height"].as_u64().expect("a height")),
        ("", "blocks") => {
            let context = Context { network: NETWORK, nemesis_signer: address(&key_pair(0)), trusted: false };
            WalletMessage::Block(Box::new(Format::Json.read(body.as_bytes(), context).expect("a block")), now())
        }
        ("/unconfirmed", account) => WalletMessage::Unconfirmed(concern(account)),
        ("/transactions", account) => {
            WalletMessage::Confirmed(concern(account), json()["meta"]["height"].as_u64().expect("a height"))
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
pub struct MessageAudit {
    /// All messages, for display.
    pub history: String,
    accounts: Vec<Address>,
    /// The chain since the subscription: the hash of each block.
    pub chain: BTreeMap<u64, Hash256>,
    blocks: BTreeMap<Hash256, Block>,
    states: BTreeMap<AccountMessage, State>,
    /// Reported as unconfirmed although confirmed: the next block must undo their blocks.
    returned: BTreeSet<AccountMessage>,
    /// Their blocks were then undone and they were not reported again: they must be in one of the new blocks, which
    /// were made earlier.
    awaited: BTreeMap<AccountMessage, Timestamp>,
    /// Transactions of the last block that are not reported yet.
    unreported: Vec<(AccountMessage, u64)>,
    /// The reported height until its block arrives.
    height: Option<u64>,
    /// Reported before confirmation.
    pub seen_unconfirmed: BTreeSet<AccountMessage>,
    /// When the last block was made.
    last_block_time: Timestamp,
    /// Received messages.
    pub counts: MessageCounts,
    /// Missing messages.
    pub missing: Vec<String>,
    /// Duplicate messages and messages without a reason.
    pub unexpected: Vec<String>,
}

/// Numbers of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    pub blocks: usize,
    pub confirmed: usize,
    pub unconfirmed: usize,
    /// Unconfirmed again after their blocks were undone.
    pub returned: usize,
    /// Number of reorgs.
    pub reorgs: usize,
    /// Maximum number of blocks undone at once.
    pub max_undone: usize,
}

impl MessageAudit {
    /// Evaluates messages in the order of their arrival.
    pub fn of(accounts: Vec<Address>, heard: &[WalletMessage]) -> MessageAudit {
        let mut ledger = MessageAudit { accounts, ..MessageAudit::default() };
        for heard in heard {
            let _ = writeln!(ledger.history, "  {heard}");
            match heard {
                WalletMessage::Height(height) => ledger.announce_block(*height),
                WalletMessage::Block(block, came) => ledger.add(block, *came),
                WalletMessage::Unconfirmed(concern) => ledger.unconfirmed(*concern),
                WalletMessage::Confirmed(concern, height) => ledger.confirmed(*concern, *height),
            }
        }
        ledger.end();
        ledger
    }

    /// Returns whether the messages confirm a transaction.
    pub fn has_confirmed(&self, transaction: &Transaction) -> bool {
        let is_confirmed = |concern| self.states.get(&concern) == Some(&State::Confirmed);
        self.affected_accounts(transaction).all(is_confirmed)
    }

    /// Returns whether a transaction was reported before its confirmation.
    pub fn was_seen_unconfirmed(&self, transaction: &Transaction) -> bool {
        self.affected_accounts(transaction).all(|concern| self.seen_unconfirmed.contains(&concern))
    }

    /// Returns those of the accounts that are notified of a transfer, as its sender or recipient.
    fn affected_accounts(&self, transaction: &Transaction) -> impl Iterator<Item = AccountMessage> {
        let sender = Address::from_public_key(&transaction.signer, NETWORK);
        let recipient = match &transaction.body {
            Body::Transfer(transfer) => Some(transfer.recipient),
            _ => None,
        };
        let hash = transaction.hash();
        let accounts = self.accounts.iter().copied();
        let concerned = accounts.filter(move |account| *account == sender || Some(*account) == recipient);
        concerned.map(move |account| AccountMessage { account, hash })
    }

    fn messages_of_block(&self, block: &Block) -> Vec<AccountMessage> {
        block.transactions.iter().flat_map(|transaction| self.affected_accounts(transaction)).collect()
    }

    fn announce_block(&mut self, height: u64) {
        self.end_block();
        self.height = Some(height);
    }

    fn add(&mut self, block: &Block, came: Timestamp) {
        self.counts.blocks += 1;
        self.report_missing();
        let (height, parent) = (block.height.0, block.height.0 - 1);
        match self.height.take() {
            Some(told) if told == height => {}
            Some(told) => self.missing.push(format!("block {told}, instead of which {height} came")),
            // Only the first height of a reorg is reported.
            None if self.chain.last_key_value().is_none_or(|(last, _)| *last == parent) => {}
            None => self.unexpected.push(format!("block {height}, whose height was not told")),
        }
        self.undo_from(height, block.hash(), came);
        let fits = self.chain.get(&parent).is_some_and(|hash| block.previous_hash == *hash);
        if !self.chain.is_empty() && !fits {
            self.missing.push(format!("what is below block {height}"));
        }
        self.last_block_time = block.timestamp;
        self.unreported = self.messages_of_block(block).into_iter().map(|concern| (concern, height)).collect();
        self.chain.insert(height, block.hash());
        self.blocks.insert(block.hash(), block.clone());
    }

    /// Undoes the blocks from `height` on; `first` is the new block at that height.
    fn undo_from(&mut self, height: u64, first: Hash256, came: Timestamp) {
        let undone = self.chain.split_off(&height);
        if undone.get(&height) == Some(&first) {
            self.unexpected.push(format!("block {height}, which is the same"));
        }
        self.counts.reorgs += usize::from(!undone.is_empty());
        self.counts.max_undone = self.counts.max_undone.max(undone.len());
        let concerns: Vec<_> = undone.values().flat_map(|hash| self.messages_of_block(&self.blocks[hash])).collect();
        for concern in concerns {
            if self.returned.remove(&concern) {
                self.counts.returned += 1;
                self.states.insert(concern, State::Unconfirmed);
            } else {
                self.awaited.insert(concern, came);
            }
        }
        let without_reason = take(&mut self.returned);
        self.unexpected.extend(without_reason.iter().map(|concern| format!("{concern:?} unconfirmed, and not undone")));
    }

    fn unconfirmed(&mut self, concern: AccountMessage) {
        self.counts.unconfirmed += 1;
        self.seen_unconfirmed.insert(concern);
        match self.states.get(&concern) {
            None => {
                self.states.insert(concern, State::Unconfirmed);
            }
            Some(State::Confirmed) if self.returned.insert(concern) => {}
            _ => self.unexpected.push(format!("{concern:?} unconfirmed")),
        }
    }

    fn confirmed(&mut self, concern: AccountMessage, height: u64) {
        self.counts.confirmed += 1;
        match self.unreported.iter().position(|due| *due == (concern, height)) {
            Some(place) => drop(self.unreported.swap_remove(place)),
            None => self.unexpected.push(format!("{concern:?} confirmed at {height}")),
        }
        if self.awaited.remove(&concern).is_some_and(|undone| self.last_block_time > undone) {
            self.missing.push(format!("{concern:?} unconfirmed again, when it was undone"));
        }
        self.states.insert(concern, State::Confirmed);
    }

    fn end_block(&mut self) {
        self.report_missing();
        if let Some(height) = self.height.take() {
            self.missing.push(format!("block {height}"));
        }
    }

    /// Adds the transactions of the last block that were not reported to the missing messages.
    fn report_missing(&mut self) {
        let lost = take(&mut self.unreported);
        self.missing.extend(lost.iter().map(|(concern, height)| format!("{concern:?} confirmed at {height}")));
    }

    fn end(&mut self) {
        self.end_block();
        let (returned, awaited) = (take(&mut self.returned), take(&mut self.awaited));
        self.unexpected
            .extend(returned.iter().map(|concern| format!("{concern:?} unconfirmed at last, and not undone")));
        self.missing.extend(awaited.keys().map(|concern| format!("{concern:?} in a new block, or unconfirmed again")));
    }
}
