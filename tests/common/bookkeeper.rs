//! What clients of `/events` keep: books of the accounts, and what waits in the mempool. Everything that a stream must not
//! say panics.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use nisd::crypto::PublicKey;
use nisd::model::Address;
use nisd::model::units::MICRO;
use serde_json::Value;

use super::private_network::NETWORK;

/// An event of a stream.
#[derive(Clone, Debug)]
pub struct StreamEvent {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

impl StreamEvent {
    /// Removes the next event from the text of a stream; `None` if it is not whole yet.
    pub fn take_from(text: &mut Vec<u8>) -> Option<StreamEvent> {
        loop {
            let end = text.windows(2).position(|pair| pair == b"\n\n")? + 2;
            let block = String::from_utf8(text.drain(..end).collect()).expect("a text");
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            if let (Some(id), Some(kind), Some(data)) = (field("id"), field("event"), field("data")) {
                let data = serde_json::from_str(data).expect("JSON");
                return Some(StreamEvent { id: id.to_owned(), kind: kind.to_owned(), data });
            }
            let is_other = block.starts_with(':') || block.starts_with("retry: ");
            assert!(is_other, "neither an event nor a comment: {block:?}");
        }
    }

    fn number(&self, name: &str) -> u64 {
        self.data[name].as_u64().unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    fn height(&self) -> u64 {
        self.number("height")
    }

    /// Returns the hash of its transaction.
    fn hash(&self) -> String {
        self.data["meta"]["hash"]["data"].as_str().unwrap_or_else(|| panic!("a hash in {self:?}")).to_owned()
    }
}

/// An entry of the books.
#[derive(Debug)]
pub struct Entry {
    pub height: u64,
    /// Index of the transaction; `None` of a block.
    pub index: Option<u64>,
    /// Hash of the transaction or of the block.
    pub hash: String,
    /// Changes of balances.
    movements: Vec<(Address, i128)>,
}

/// How a bookkeeper undoes what a listed rollback undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undoing {
    /// Each transaction when it is told to be undone.
    OneByOne,
    /// All at once.
    AtOnce,
}

/// How often something happened to the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollbackCounts {
    pub listed: u64,
    pub unknown: u64,
    pub undone: u64,
    /// Maximum number of blocks that a rollback undid.
    pub deepest: u64,
}

impl RollbackCounts {
    pub fn merge(&mut self, other: RollbackCounts) {
        self.listed += other.listed;
        self.unknown += other.unknown;
        self.undone += other.undone;
        self.deepest = self.deepest.max(other.deepest);
    }
}

/// The books of somebody who reads only the stream, from the first block on.
#[derive(Clone, Debug)]
pub struct Books {
    undoing: Undoing,
    /// Confirmations that each block must have; nothing is ever undone if `is_final`.
    pub confirmations: u64,
    pub is_final: bool,
    /// In the order of the chain.
    pub entries: Vec<Rc<Entry>>,
    /// Height above which a listed rollback undoes everything, until the stream goes on.
    rollback: Option<u64>,
}

impl Books {
    pub fn new(undoing: Undoing, confirmations: u64, is_final: bool) -> Books {
        Books { undoing, confirmations, is_final, entries: Vec::new(), rollback: None }
    }

    /// Returns height and hash of the last block.
    pub fn last_block(&self) -> Option<(u64, &str)> {
        let last = self.entries.iter().rfind(|entry| entry.index.is_none())?;
        Some((last.height, &last.hash))
    }

    /// Returns the balances by the entries.
    pub fn balances(&self) -> BTreeMap<Address, i128> {
        let mut balances = BTreeMap::new();
        for (account, amount) in self.entries.iter().flat_map(|entry| &entry.movements) {
            *balances.entry(*account).or_default() += amount;
        }
        balances
    }

    /// Enters an event.
    pub fn apply(&mut self, event: &StreamEvent, counts: &mut RollbackCounts) {
        match event.kind.as_str() {
            "synchronising" => {}
            "block" => self.add_block(event),
            "transaction" => self.add_transaction(event),
            "rollback" => self.roll_back(event, counts),
            "undone" => self.undo(event, counts),
            _ => panic!("was not asked for: {event:?}"),
        }
    }

    fn add_block(&mut self, event: &StreamEvent) {
        self.end_rollback(event);
        let (height, expected) = (event.height(), self.last_block().map_or(0, |(height, _)| height) + 1);
        assert_eq!(height, expected, "not the next block: {event:?}");
        assert!(event.number("confirmations") >= self.confirmations, "{event:?}");
        let hash = event.data["hash"].as_str().expect("a hash").to_owned();
        let movements = vec![(address(&event.data["harvester"]), i128::from(event.number("totalFee")))];
        self.entries.push(Rc::new(Entry { height, index: None, hash, movements }));
    }

    fn add_transaction(&mut self, event: &StreamEvent) {
        self.end_rollback(event);
        let (height, index, hash) = (event.height(), Some(event.number("index")), event.hash());
        let last = self.entries.last().unwrap_or_else(|| panic!("no block is told before {event:?}"));
        let block = self.last_block().map(|(height, hash)| (height, Some(hash)));
        assert_eq!(block, Some((height, event.data["blockHash"].as_str())), "not of the last block: {event:?}");
        assert!(last.index < index, "told again, or too late: {event:?} after {last:?}");
        assert!(event.number("confirmations") >= self.confirmations, "{event:?}");
        let is_there = self.entries.iter().any(|entry| entry.index.is_some() && entry.hash == hash);
        assert!(!is_there, "it is counted already: {event:?}");
        let movements = movements(&event.data["transaction"]);
        self.entries.push(Rc::new(Entry { height, index, hash, movements }));
    }

    /// A listed rollback has told all that it undoes.
    fn end_rollback(&mut self, event: &StreamEvent) {
        if let Some(rollback) = self.rollback.take() {
            let last = self.entries.last();
            assert!(last.is_none_or(|last| last.height <= rollback), "{last:?} is not undone before {event:?}");
        }
    }

    fn roll_back(&mut self, event: &StreamEvent, counts: &mut RollbackCounts) {
        assert!(!self.is_final, "what is final is undone: {event:?}");
        let (height, last) = (event.height(), self.last_block().map_or(0, |(height, _)| height));
        // A stream that goes on within a rollback tells it again.
        assert!(height < last || self.rollback.is_some_and(|before| height <= before), "nothing above: {event:?}");
        counts.deepest = counts.deepest.max(last.saturating_sub(height));
        match event.data["transactions"].as_str() {
            Some("listed") if self.undoing == Undoing::OneByOne => {
                counts.listed += 1;
                self.entries.retain(|entry| entry.height <= height || entry.index.is_some());
                self.rollback = Some(height);
            }
            Some("listed") => {
                counts.listed += 1;
                self.entries.retain(|entry| entry.height <= height);
                self.rollback = Some(height);
            }
            Some("unknown") => {
                counts.unknown += 1;
                self.entries.retain(|entry| entry.height <= height);
                self.rollback = None;
            }
            _ => panic!("{event:?}"),
        }
    }

    fn undo(&mut self, event: &StreamEvent, counts: &mut RollbackCounts) {
        assert!(!self.is_final, "what is final is undone: {event:?}");
        assert!(self.rollback.is_some_and(|rollback| rollback < event.height()), "no rollback before {event:?}");
        counts.undone += 1;
        if self.undoing == Undoing::OneByOne {
            let last = self.entries.pop().unwrap_or_else(|| panic!("nothing is left: {event:?}"));
            let told = (event.height(), Some(event.number("index")), event.hash());
            assert_eq!((last.height, last.index, last.hash.clone()), told, "not the last one: {event:?}");
        }
    }
}

/// What somebody knows of the mempool who asks for 0 confirmations.
#[derive(Clone, Debug, Default)]
pub struct MempoolWatch {
    /// Hashes of transactions that wait.
    pub waiting: BTreeSet<String>,
    /// Heights of confirmed ones.
    confirmed: BTreeMap<String, u64>,
    /// How many ended as confirmed and otherwise.
    pub ends: [u64; 2],
}

impl MempoolWatch {
    /// Forgets what waits, since a new connection tells it again.
    pub fn reconnect(&mut self) {
        self.waiting.clear();
    }

    /// Takes note of an event.
    pub fn apply(&mut self, event: &StreamEvent) {
        match event.kind.as_str() {
            "synchronising" => {}
            "transaction" => {
                let hash = event.hash();
                self.ends[0] += u64::from(self.waiting.remove(&hash));
                assert_eq!(self.confirmed.insert(hash, event.height()), None, "confirmed twice: {event:?}");
            }
            "undone" => {
                let before = self.confirmed.remove(&event.hash());
                assert_eq!(before, Some(event.height()), "was not confirmed: {event:?}");
            }
            "rollback" if event.data["transactions"] == "unknown" => {
                self.confirmed.retain(|_, height| *height <= event.height());
            }
            "rollback" => {}
            "unconfirmed" => {
                let hash = event.hash();
                assert!(!self.confirmed.contains_key(&hash), "is confirmed: {event:?}");
                // Told again with each cosignature.
                self.waiting.insert(hash);
            }
            "left" => {
                let hash = event.data["hash"].as_str().expect("a hash");
                assert!(!self.confirmed.contains_key(hash), "is confirmed: {event:?}");
                self.ends[1] += u64::from(self.waiting.remove(hash));
            }
            _ => panic!("was not asked for: {event:?}"),
        }
    }
}

fn address(value: &Value) -> Address {
    let text = value.as_str().unwrap_or_else(|| panic!("an address: {value}"));
    Address::parse(text, NETWORK).unwrap_or_else(|| panic!("an address: {text}"))
}

/// Returns how the balances of accounts change by a transaction as a stream tells it. Fees go to the harvester besides.
fn movements(transaction: &Value) -> Vec<(Address, i128)> {
    let number = |name: &str| transaction[name].as_u64().unwrap_or_else(|| panic!("{name} in {transaction}"));
    let signer = signer(transaction);
    let fee = (signer, -i128::from(number("fee")));
    let pay = |to: &str, amount: u64| {
        vec![fee, (signer, -i128::from(amount)), (address(&transaction[to]), i128::from(amount))]
    };
    match number("type") {
        0x101 => pay("recipient", moved_currency(transaction)),
        // The importance is lent, or the cosignatories are others.
        0x801 | 0x1001 => vec![fee],
        0x1004 => {
            let inner = &transaction["otherTrans"];
            let account = self::signer(inner);
            let cosignatures = transaction["signatures"].as_array().expect("a list");
            let fees = cosignatures.iter().map(|one| one["fee"].as_u64().expect("a fee")).sum::<u64>();
            let fees = (account, -i128::from(number("fee") + fees));
            [vec![fees], movements(inner)].concat()
        }
        0x2001 => pay("rentalFeeSink", number("rentalFee")),
        _ => panic!("it is not known what this moves: {transaction}"),
    }
}

fn signer(transaction: &Value) -> Address {
    let key = PublicKey::from_hex(transaction["signer"].as_str().expect("a key")).expect("a key");
    Address::from_public_key(&key, NETWORK)
}

/// Returns the currency that a transfer moves: its amount, or that of the attached mosaic, of which the amount is a
/// multiplier.
fn moved_currency(transfer: &Value) -> u64 {
    let amount = transfer["amount"].as_u64().expect("an amount");
    let mosaics = transfer["mosaics"].as_array().map_or(&[][..], Vec::as_slice);
    match mosaics {
        [] => amount,
        [mosaic] if mosaic["mosaicId"] == serde_json::json!({"namespaceId": "nem", "name": "xem"}) => {
            amount * mosaic["quantity"].as_u64().expect("a quantity") / MICRO
        }
        _ => panic!("it is not known what these mosaics move: {transfer}"),
    }
}
