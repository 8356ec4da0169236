//! Wallets that subscribe at a node: checks that they receive all messages, and none twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem::take;

use nisd::codec::{Context, Format};
use nisd::model::{Address, Block, Body, Hash256, Timestamp, Transaction};
use serde_json::Value;

use crate::common::private_network::{NETWORK, address, key_pair};
use crate::common::websocket::Stomp;

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

/// Returns the frames with which a wallet subscribes to all blocks, and to the transactions of some accounts.
pub fn subscriptions(accounts: &[Address]) -> String {
    let of_account = |account: &Address| ["unconfirmed", "transactions"].map(|kind| format!("/{kind}/{account}"));
    let topics = accounts.iter().flat_map(of_account).chain(["/blocks".to_owned(), "/blocks/new".to_owned()]);
    let mut frames = "CONNECT\naccept-version:1.2\n\n\0".to_owned();
    for (number, topic) in topics.enumerate() {
        let _ = write!(frames, "SUBSCRIBE\nid:{number}\ndestination:{topic}\n\n\0");
    }
    frames
}

/// Parses a frame to a wallet.
pub fn parse_message(frame: &[u8], arrived: Timestamp) -> WalletMessage {
    let frame = Stomp::parse(std::str::from_utf8(frame).expect("a text"));
    let (topic, subscription) = (frame.header("destination"), frame.header("subscription"));
    let body = frame.message(topic, subscription);
    let json = || serde_json::from_str::<Value>(body).expect("JSON");
    let of_account = |account| {
        let account = Address::parse(account, NETWORK).expect("an address");
        let hash = json()["meta"]["hash"]["data"].as_str().map(Hash256::from_hex);
        AccountMessage { account, hash: hash.expect("a hash").expect("a hash") }
    };
    match topic.rsplit_once('/').expect("a topic") {
        ("/blocks", "new") => WalletMessage::Height(json()["height"].as_u64().expect("a height")),
        ("", "blocks") => {
            let context = Context { network: NETWORK, nemesis_signer: address(&key_pair(0)), trusted: false };
            let block = Format::Json.read(body.as_bytes(), context).expect("a block");
            WalletMessage::Block(Box::new(block), arrived)
        }
        ("/unconfirmed", account) => WalletMessage::Unconfirmed(of_account(account)),
        ("/transactions", account) => {
            WalletMessage::Confirmed(of_account(account), json()["meta"]["height"].as_u64().expect("a height"))
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
    pub fn of(accounts: Vec<Address>, messages: &[WalletMessage]) -> MessageAudit {
        let mut audit = MessageAudit { accounts, ..MessageAudit::default() };
        for message in messages {
            let _ = writeln!(audit.history, "  {message:?}");
            match message {
                WalletMessage::Height(height) => audit.announce_block(*height),
                WalletMessage::Block(block, arrived) => audit.add(block, *arrived),
                WalletMessage::Unconfirmed(message) => audit.unconfirmed(*message),
                WalletMessage::Confirmed(message, height) => audit.confirmed(*message, *height),
            }
        }
        audit.end();
        audit
    }

    /// Returns whether the messages confirm a transaction.
    pub fn has_confirmed(&self, transaction: &Transaction) -> bool {
        let is_confirmed = |message| self.states.get(&message) == Some(&State::Confirmed);
        self.affected_accounts(transaction).all(is_confirmed)
    }

    /// Returns whether a transaction was reported before its confirmation.
    pub fn was_seen_unconfirmed(&self, transaction: &Transaction) -> bool {
        self.affected_accounts(transaction).all(|message| self.seen_unconfirmed.contains(&message))
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
        let affected = accounts.filter(move |account| *account == sender || Some(*account) == recipient);
        affected.map(move |account| AccountMessage { account, hash })
    }

    fn messages_of_block(&self, block: &Block) -> Vec<AccountMessage> {
        block.transactions.iter().flat_map(|transaction| self.affected_accounts(transaction)).collect()
    }

    fn announce_block(&mut self, height: u64) {
        self.end_block();
        self.height = Some(height);
    }

    fn add(&mut self, block: &Block, arrived: Timestamp) {
        self.counts.blocks += 1;
        self.report_missing();
        let (height, parent) = (block.height.0, block.height.0 - 1);
        match self.height.take() {
            Some(reported) if reported == height => {}
            Some(reported) => self.missing.push(format!("block {reported}, instead of which {height} came")),
            // Only the first height of a reorg is reported.
            None if self.chain.last_key_value().is_none_or(|(last, _)| *last == parent) => {}
            None => self.unexpected.push(format!("block {height}, whose height was not reported")),
        }
        self.undo_from(height, block.hash(), arrived);
        let fits = self.chain.get(&parent).is_some_and(|hash| block.previous_hash == *hash);
        if !self.chain.is_empty() && !fits {
            self.missing.push(format!("what is below block {height}"));
        }
        self.last_block_time = block.timestamp;
        self.unreported = self.messages_of_block(block).into_iter().map(|message| (message, height)).collect();
        self.chain.insert(height, block.hash());
        self.blocks.insert(block.hash(), block.clone());
    }

    /// Undoes the blocks from `height` on; `first` is the new block at that height.
    fn undo_from(&mut self, height: u64, first: Hash256, arrived: Timestamp) {
        let undone = self.chain.split_off(&height);
        if undone.get(&height) == Some(&first) {
            self.unexpected.push(format!("block {height}, which is the same"));
        }
        self.counts.reorgs += usize::from(!undone.is_empty());
        self.counts.max_undone = self.counts.max_undone.max(undone.len());
        let messages: Vec<_> = undone.values().flat_map(|hash| self.messages_of_block(&self.blocks[hash])).collect();
        for message in messages {
            if self.returned.remove(&message) {
                self.counts.returned += 1;
                self.states.insert(message, State::Unconfirmed);
            } else {
                self.awaited.insert(message, arrived);
            }
        }
        let without_reason = take(&mut self.returned);
        self.unexpected.extend(without_reason.iter().map(|message| format!("{message:?} unconfirmed, and not undone")));
    }

    fn unconfirmed(&mut self, message: AccountMessage) {
        self.counts.unconfirmed += 1;
        self.seen_unconfirmed.insert(message);
        match self.states.get(&message) {
            None => {
                self.states.insert(message, State::Unconfirmed);
            }
            Some(State::Confirmed) if self.returned.insert(message) => {}
            _ => self.unexpected.push(format!("{message:?} unconfirmed")),
        }
    }

    fn confirmed(&mut self, message: AccountMessage, height: u64) {
        self.counts.confirmed += 1;
        match self.unreported.iter().position(|due| *due == (message, height)) {
            Some(place) => drop(self.unreported.swap_remove(place)),
            None => self.unexpected.push(format!("{message:?} confirmed at {height}")),
        }
        if self.awaited.remove(&message).is_some_and(|undone| self.last_block_time > undone) {
            self.missing.push(format!("{message:?} unconfirmed again, when it was undone"));
        }
        self.states.insert(message, State::Confirmed);
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
        self.missing.extend(lost.iter().map(|(message, height)| format!("{message:?} confirmed at {height}")));
    }

    fn end(&mut self) {
        self.end_block();
        let (returned, awaited) = (take(&mut self.returned), take(&mut self.awaited));
        self.unexpected
            .extend(returned.iter().map(|message| format!("{message:?} unconfirmed at last, and not undone")));
        self.missing.extend(awaited.keys().map(|message| format!("{message:?} in a new block, or unconfirmed again")));
    }
}

/// Tests of the evaluation itself: a made-up history, and the result when a message is missing or duplicated.
mod tests {
    use nisd::model::Amount;

    use super::*;
    use crate::common::private_network::{block, transfer};

    fn accounts() -> Vec<Address> {
        vec![address(&key_pair(200))]
    }

    /// Returns a block that is reported as soon as it is made, and its hash.
    fn made(height: u64, parent: Hash256, time: i32, transactions: &[&Transaction]) -> (WalletMessage, Hash256) {
        let transactions = transactions.iter().map(|&transaction| transaction.clone()).collect();
        let block = block(&key_pair(1), height, Timestamp(time), parent, transactions);
        let hash = block.hash();
        (WalletMessage::Block(Box::new(block), Timestamp(time)), hash)
    }

    /// Of two confirmed payments, one is also in the better chain; the other becomes unconfirmed again and is confirmed
    /// later. The announcement of the second payment is the third message.
    fn history() -> Vec<WalletMessage> {
        let to = accounts()[0];
        let payment = |amount| transfer(&key_pair(100), to, Amount(amount), Amount(1), Timestamp(1));
        let (stays, returns) = (payment(1), payment(2));
        let message_about = |payment: &Transaction| AccountMessage { account: to, hash: payment.hash() };
        let (first, hash) = made(7, Hash256([7; 32]), 10, &[]);
        let (old, _) = made(8, hash, 20, &[&stays, &returns]);
        let (new, new_hash) = made(8, hash, 30, &[&stays]);
        let (next, _) = made(9, new_hash, 40, &[&returns]);
        vec![
            WalletMessage::Height(7),
            first,
            WalletMessage::Unconfirmed(message_about(&returns)),
            WalletMessage::Height(8),
            old,
            WalletMessage::Confirmed(message_about(&stays), 8),
            WalletMessage::Confirmed(message_about(&returns), 8),
            WalletMessage::Unconfirmed(message_about(&returns)),
            WalletMessage::Height(8),
            new,
            WalletMessage::Confirmed(message_about(&stays), 8),
            WalletMessage::Height(9),
            next,
            WalletMessage::Confirmed(message_about(&returns), 9),
        ]
    }

    fn errors(history: &[WalletMessage]) -> [usize; 2] {
        let audit = MessageAudit::of(accounts(), history);
        [audit.missing.len(), audit.unexpected.len()]
    }

    #[test]
    fn a_history_without_faults_is_accepted() {
        let audit = MessageAudit::of(accounts(), &history());
        assert_eq!((audit.missing, audit.unexpected), (Vec::new(), Vec::new()));
        let counts = audit.counts;
        assert_eq!([counts.blocks, counts.confirmed, counts.unconfirmed], [4, 4, 2]);
        assert_eq!([counts.returned, counts.reorgs, counts.max_undone], [1, 1, 1]);
        assert_eq!(audit.chain.keys().copied().collect::<Vec<_>>(), [7, 8, 9]);
    }

    #[test]
    fn every_missing_message_is_detected() {
        // The loss of the first three messages cannot be detected: nothing precedes them, or a transaction may first
        // appear in its block. Nor can the loss of consecutive heights: the block may be a further one of the preceding
        // reorg, of which only the first height is reported.
        const CONSECUTIVE_HEIGHTS: [usize; 2] = [3, 11];
        for place in (3..history().len()).filter(|place| !CONSECUTIVE_HEIGHTS.contains(place)) {
            let mut history = history();
            let missing = history.remove(place);
            assert_ne!(errors(&history), [0, 0], "{missing:?}");
        }
    }

    #[test]
    fn every_duplicate_message_is_detected() {
        for place in 0..history().len() {
            let mut history = history();
            history.insert(place, history[place].clone());
            assert_ne!(errors(&history), [0, 0], "{:?}", history[place]);
        }
    }

    #[test]
    fn a_block_published_twice_is_detected() {
        let mut history = history();
        let last: Vec<_> = history.iter().rev().take(3).rev().cloned().collect();
        assert!(matches!(last[0], WalletMessage::Height(9)));
        history.extend(last);
        assert_ne!(errors(&history), [0, 0]);
    }
}
