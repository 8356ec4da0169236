//! Tests of the event stream.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::feed::OLD_ROW;
use crate::api::tests::*;
use crate::api::{Api, EventFeed};
use crate::budget::Budget;
use crate::crypto::Signature;
use crate::mempool::{Fate, FateRecord, MempoolEntry, MempoolEvent};
use crate::model::{Address, Amount, Body, Height, Timestamp, Transaction};
use crate::net::http::Response;
use crate::net::service::{ConnectionId, Progress};
use crate::rules::ValidationResult;

/// Budget of a step: small, so that streams are continued anywhere.
const STEP: u32 = 20;
/// Maximum overrun of a step: the cost of the most expensive indivisible work.
const OVERRUN: u32 = 60;

/// An event as a client sees it.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

impl Event {
    fn number(&self, name: &str) -> u64 {
        self.data[name].as_u64().unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    /// Returns kind, height and index.
    fn place(&self) -> (&str, u64, u64) {
        (&self.kind, self.number("height"), self.data["index"].as_u64().unwrap_or(99))
    }

    fn hash(&self) -> String {
        self.data["meta"]["hash"]["data"].as_str().unwrap_or_default().to_owned()
    }
}

/// Splits the text of a stream, and checks its form: each block has data, as some libraries take any block for an event.
fn parse(text: &str) -> Vec<Event> {
    assert!(text.is_empty() || text == ":\n" || text.ends_with("\n\n"), "{text:?}");
    let mut events = Vec::new();
    for block in text.trim_start_matches(":\n").split("\n\n").filter(|block| !block.is_empty()) {
        let mut fields = BTreeMap::new();
        for line in block.split('\n') {
            assert!(!line.contains('\r'), "{line:?}");
            let (name, value) = line.split_once(':').unwrap();
            assert!(fields.insert(name, value.trim_start()).is_none(), "{block:?}");
        }
        let data = serde_json::from_str(fields["data"]).unwrap();
        events.push(Event { id: fields["id"].to_owned(), kind: fields["event"].to_owned(), data });
    }
    events
}

/// A node with one stream.
struct Stream<'a> {
    scene: &'a Scene,
    api: Api,
    node: TestNode,
    line: String,
    body: Vec<u8>,
    id: Option<String>,
    reply: Response,
    is_open: bool,
    /// Steps so far, and the units of work that they were charged.
    steps: usize,
    units: u32,
    text: String,
}

impl<'a> Stream<'a> {
    fn new(scene: &'a Scene, query: &str) -> Stream<'a> {
        Stream {
            scene,
            api: Api::new(settings()),
            node: TestNode::default(),
            line: format!("GET /events?{query}"),
            body: Vec::new(),
            id: None,
            reply: Response::new(),
            is_open: false,
            steps: 0,
            units: 0,
            text: String::new(),
        }
    }

    fn posting(self, addresses: &[String]) -> Stream<'a> {
        let list = serde_json::json!({ "addresses": addresses });
        Stream { line: self.line.replace("GET", "POST"), body: list.to_string().into_bytes(), ..self }
    }

    /// A new connection to the same node that goes on after an event.
    fn reconnect(&mut self, id: &str) {
        (self.id, self.is_open) = (Some(id.to_owned()), false);
        self.node.events.remove(ConnectionId(1));
        self.reply = Response::new();
        self.api.on_disconnect(ConnectionId(1), Duration::ZERO);
    }

    /// Goes on until the stream waits; returns the events.
    fn run(&mut self) -> Vec<Event> {
        self.text.clear();
        loop {
            let body = if self.is_open { Vec::new() } else { self.body.clone() };
            let id = self.id.clone().unwrap_or_default();
            let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", id.as_str()), ("Host", "a")];
            let request = TestRequest { body: &body, ..TestRequest::new(&self.line).with(&headers) };
            let step = request.step(&mut self.api, self.scene, &mut self.node, &mut self.reply, self.is_open, STEP);
            let (progress, used) = step.unwrap();
            assert!(used <= STEP + OVERRUN, "{used} units");
            self.steps += 1;
            self.units += used;
            self.is_open = true;
            match progress {
                Progress::Yield => continue,
                Progress::Streaming => {}
                other => panic!("{other:?}: {} {}", self.reply.status, text_of(&self.reply)),
            }
            assert!(self.reply.is_streaming);
            self.text.push_str(std::str::from_utf8(&self.reply.body).unwrap());
            self.reply.body.clear();
            if self.node.events.take_due(Duration::ZERO).is_empty() {
                return parse(&self.text);
            }
        }
    }

    /// The same without the report of the node's state.
    fn news(&mut self) -> Vec<Event> {
        self.run().into_iter().filter(|event| event.kind != "synchronising").collect()
    }

    /// Sends what must be an error.
    fn error(mut self) -> (u16, String) {
        loop {
            let id = self.id.clone().unwrap_or_default();
            let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", id.as_str()), ("Host", "a")];
            let request = TestRequest { body: &self.body, ..TestRequest::new(&self.line).with(&headers) };
            let step = request.step(&mut self.api, self.scene, &mut self.node, &mut self.reply, self.is_open, STEP);
            let (progress, _) = step.unwrap();
            self.is_open = true;
            if progress == Progress::Done {
                return failure_in(&self.reply);
            }
            assert_eq!(progress, Progress::Yield);
        }
    }

    fn add_block(&mut self, transactions: Vec<Transaction>) -> Height {
        let height = self.scene.add_block(transactions);
        self.changed(Height(height.0 - 1), Vec::new());
        height
    }

    /// Replaces the blocks above a height.
    fn replace(&mut self, common: Height, blocks: Vec<Vec<Transaction>>) {
        let undone = self.scene.undo_above(common);
        blocks.into_iter().for_each(|block| _ = self.scene.add_block(block));
        self.changed(common, undone);
    }

    fn changed(&mut self, common: Height, undone: Vec<crate::chain::ConfirmedBlock>) {
        let events = &mut self.node.events;
        self.scene.with_view(|chain| events.chain_changed(common, undone, chain)).unwrap();
    }

    fn announce(&mut self, transaction: Transaction) {
        let node = &mut self.node;
        self.scene.with_view(|chain| node.mempool.add(transaction, chain)).unwrap();
        self.tell_arrivals();
    }

    /// Tells the stream what has arrived in the mempool, as the node does after each step.
    fn tell_arrivals(&mut self) {
        let node = &mut self.node;
        while let Some(transaction) = node.mempool.newly_accepted.pop_front() {
            if let Some(entry) = node.mempool.by_hash(&transaction.hash()) {
                node.events.mempool_changed(entry, MempoolEvent::Arrived);
            }
        }
    }
}

/// A transfer of the first account.
fn pay(recipient: u8, number: i32) -> Transaction {
    let Body::Transfer(body) = transfer(Some(Signature([3; 64]))).body else { unreachable!() };
    let body = crate::model::transaction::Transfer { recipient: address(recipient), ..body };
    Transaction {
        timestamp: Timestamp(1000 + number),
        fee: Amount(0),
        ..transaction(Some(Signature([3; 64])), Body::Transfer(body))
    }
}

/// Blocks with payments to accounts 2 and 3: each third one is empty.
fn with_payments(blocks: i32) -> Scene {
    let scene = Scene::empty();
    scene.add_block(Vec::new());
    scene.fund(1);
    for number in 0..blocks {
        let payments = [pay(2, 10 * number), pay(3, 10 * number + 1), pay(2, 10 * number + 2)];
        scene.add_block(payments.into_iter().take((number % 3) as usize).collect());
    }
    scene
}

fn of(byte: u8) -> String {
    address(byte).to_string()
}

#[test]
fn a_stream_tells_the_history_of_an_account_in_order_and_then_what_comes() {
    let scene = with_payments(9);
    let mut stream = Stream::new(&scene, &format!("from=1&address={}", of(2)));
    let told = stream.run();
    assert_eq!(told[0].kind, "synchronising");
    assert_eq!(told[0].data["status"], "no peers");
    let transactions: Vec<_> = told[1..].iter().map(Event::place).collect();
    let expected: Vec<_> = [3, 4, 6, 7, 9, 10].into_iter().map(|height| ("transaction", height, 0)).collect();
    assert_eq!(transactions, expected);
    assert_eq!(told[1].number("confirmations"), 8);
    assert_eq!(told[1].data["transaction"]["recipient"], of(2).as_str());
    assert_eq!(told[1].data["meta"]["height"], 3);
    assert_eq!(stream.run(), []);
    stream.add_block(vec![pay(3, 1000)]);
    assert_eq!(stream.run(), []);
    stream.add_block(vec![pay(3, 1001), pay(2, 1002)]);
    let told = stream.run();
    assert_eq!(told.iter().map(Event::place).collect::<Vec<_>>(), [("transaction", 12, 1)]);
    assert_eq!(told[0].number("confirmations"), 1);
    assert_eq!(told[0].hash(), hex::encode(pay(2, 1002).hash().0));
}

#[test]
fn a_stream_is_resumed_exactly_after_any_of_its_events() {
    let scene = with_payments(12).with_rewrite_limit(3);
    for query in [
        "from=1".to_owned(),
        format!("from=1&address={},{}", of(2), of(3)),
        format!("from=1&address={}&kinds=transaction,block", of(3)),
    ] {
        let mut stream = Stream::new(&scene, &query);
        let told = stream.news();
        assert!(told.len() > 5, "{query}");
        for (index, event) in told.iter().enumerate() {
            stream.reconnect(&event.id);
            assert_eq!(stream.news(), told[index + 1..], "{query} after {}", event.id);
            // A node that has never heard of the stream goes on just as well, also by the parameter.
            let mut other = Stream::new(&scene, &format!("{query}&after={}", event.id));
            assert_eq!(other.news(), told[index + 1..]);
        }
    }
}

#[test]
fn the_first_event_carries_the_place_from_which_a_client_that_was_told_nothing_goes_on() {
    let scene = with_payments(3);
    let mut stream = Stream::new(&scene, &format!("address={}", of(2)));
    let first = stream.run();
    assert_eq!(first.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["synchronising"]);
    stream.add_block(vec![pay(2, 500)]);
    stream.reconnect(&first[0].id);
    assert_eq!(stream.news().iter().map(Event::place).collect::<Vec<_>>(), [("transaction", 5, 0)]);
}

#[test]
fn what_a_reorg_undoes_is_told_backwards_before_anything_new() {
    let scene = with_payments(9);
    let mut stream = Stream::new(&scene, &format!("from=1&address={},{}", of(2), of(3)));
    let told = stream.news();
    let undone: Vec<_> = told.iter().rev().take_while(|event| event.number("height") > 6).collect();
    stream.replace(Height(6), vec![vec![], vec![pay(3, 700)], vec![], vec![], vec![pay(2, 701)]]);
    let after = stream.news();
    assert_eq!((after[0].kind.as_str(), after[0].number("height")), ("rollback", 6));
    assert_eq!(after[0].data["transactions"], "listed");
    let count = undone.len();
    assert_eq!(count, 5);
    for (event, before) in after[1..=count].iter().zip(&undone) {
        assert_eq!((event.kind.as_str(), event.hash()), ("undone", before.hash()));
        assert_eq!(event.data["transaction"], before.data["transaction"]);
    }
    let new: Vec<_> = after[count + 1..].iter().map(Event::place).collect();
    assert_eq!(new, [("transaction", 8, 0), ("transaction", 11, 0)]);
    // Whoever lost the connection in between goes on there.
    for (index, event) in told.iter().chain(&after).enumerate() {
        stream.reconnect(&event.id);
        let rest = stream.news();
        if index < told.len() {
            let height = event.number("height");
            let undone = undone.iter().filter(|one| one.number("height") < height || one.place() <= event.place());
            let undone: Vec<_> = undone.map(|one| one.hash()).collect();
            let heard: Vec<_> = rest.iter().filter(|one| one.kind == "undone").map(Event::hash).collect();
            assert_eq!(heard, if height > 6 { undone } else { Vec::new() }, "after {}", event.id);
            assert_eq!(rest[0].kind == "rollback", height > 6);
        } else {
            let expected: Vec<_> =
                after[index - told.len() + 1..].iter().filter(|one| one.kind != "rollback").collect();
            let rest: Vec<_> = rest.iter().filter(|one| one.kind != "rollback").collect();
            assert_eq!(rest, expected, "after {}", event.id);
        }
    }
}

#[test]
fn a_rollback_that_has_begun_is_told_to_its_end_by_a_node_that_has_the_blocks() {
    let (scene, original) = (with_payments(9), with_payments(9));
    let mut stream = Stream::new(&scene, "from=1&kinds=transaction,block");
    let told = stream.news();
    stream.replace(Height(6), vec![vec![], vec![pay(3, 700)], vec![], vec![], vec![pay(2, 701)]]);
    let after = stream.news();
    let undone: Vec<_> = after.iter().filter(|event| event.kind == "undone").collect();
    assert_eq!((after[0].kind.as_str(), undone.len()), ("rollback", 5));
    for (place, event) in after[..=undone.len()].iter().enumerate() {
        let mut other = Stream::new(&original, &format!("kinds=transaction,block&after={}", event.id));
        let rest = other.news();
        let (still, again) = rest.split_at(undone.len() - place);
        assert_eq!(still.iter().collect::<Vec<_>>(), undone[place..], "after {}", event.id);
        let above: Vec<_> = told.iter().filter(|one| one.number("height") > 6).collect();
        assert_eq!(again.iter().collect::<Vec<_>>(), above, "after {}", event.id);
    }
}

#[test]
fn a_node_on_a_short_branch_finds_a_place_that_is_final_elsewhere() {
    let scene = with_payments(12).with_rewrite_limit(3);
    let told = Stream::new(&scene, "from=1&kinds=block").news();
    let branch = with_payments(12).with_rewrite_limit(3);
    branch.undo_above(Height(8));
    branch.add_block(vec![pay(2, 700)]);
    for event in told.iter().filter(|event| event.number("height") == 9) {
        let mut other = Stream::new(&branch, &format!("kinds=block&after={}", event.id));
        let rest: Vec<_> = other.news().iter().map(|one| (one.kind.clone(), one.number("height"))).collect();
        let expected = [("rollback", 6), ("block", 7), ("block", 8), ("block", 9)];
        assert_eq!(rest, expected.map(|(kind, height)| (kind.to_owned(), height)), "after {}", event.id);
        // Nothing is taken back from a client for which a block was final: it is told nothing until the chain is another.
        let mut other = Stream::new(&branch, &format!("confirmations=4&kinds=block&after={}", event.id));
        assert_eq!(other.news(), [], "after {}", event.id);
        other.add_block(vec![]);
        assert_eq!(other.news(), [], "after {}", event.id);
    }
}

#[test]
fn a_node_that_never_had_the_replaced_blocks_tells_down_to_where_all_is_undone() {
    let scene = with_payments(9);
    let mut stream = Stream::new(&scene, &format!("from=1&address={}", of(2)));
    let told = stream.news();
    stream.replace(Height(6), vec![vec![], vec![pay(2, 700)], vec![], vec![], vec![]]);
    for event in &told {
        let mut other = Stream::new(&scene, &format!("address={}&after={}", of(2), event.id));
        let rest = other.news();
        if event.number("height") <= 6 {
            assert_ne!(rest[0].kind, "rollback");
            continue;
        }
        assert_eq!((rest[0].kind.as_str(), &rest[0].data["transactions"]), ("rollback", &"unknown".into()));
        let down_to = rest[0].number("height");
        assert!((2..=6).contains(&down_to), "{down_to} of {}", event.id);
        // What is told again is all that the chain has above it.
        let again: Vec<_> = rest[1..].iter().map(|one| one.number("height")).collect();
        let expected: Vec<u64> = [3, 4, 6, 8].into_iter().filter(|height| *height > down_to).collect();
        assert_eq!(again, expected);
    }
}

#[test]
fn an_id_above_the_tip_waits_for_the_chain_and_one_of_another_chain_is_an_error() {
    let scene = with_payments(9).with_rewrite_limit(4);
    let mut stream = Stream::new(&scene, "from=1");
    let last = stream.news().pop().unwrap();
    let blocks = scene.undo_above(Height(7));
    // The node is behind.
    let mut behind = Stream::new(&scene, &format!("after={}", last.id));
    let told = behind.run();
    assert_eq!((told.len(), &told[0].data["status"], told[0].number("behind")), (1, &"synchronising".into(), 3));
    assert_eq!(blocks.len(), 3);
    for number in [6, 7, 8] {
        let payments = [pay(2, 10 * number), pay(3, 10 * number + 1), pay(2, 10 * number + 2)];
        behind.add_block(payments.into_iter().take((number % 3) as usize).collect());
        assert_eq!(behind.news(), [], "it was told before");
    }
    behind.add_block(vec![pay(2, 900)]);
    assert_eq!(behind.news().len(), 1);
    let foreign = "6.end.0123456789abcdef.0123456789abcdef.0123456789abcdef.0123456789abcdef";
    let (status, message) = Stream::new(&scene, &format!("after={foreign}")).error();
    assert_eq!(status, 400);
    assert!(message.contains("begin again with from="), "{message}");
}

#[test]
fn a_transaction_is_told_once_it_has_the_confirmations_and_is_not_taken_back_within_them() {
    let scene = with_payments(0);
    let mut stream = Stream::new(&scene, "confirmations=3");
    assert_eq!(stream.news(), []);
    stream.add_block(vec![pay(2, 1)]);
    stream.add_block(vec![]);
    assert_eq!(stream.news(), []);
    stream.add_block(vec![]);
    let told = stream.news();
    assert_eq!(
        told.iter().map(|event| (event.place(), event.number("confirmations"))).collect::<Vec<_>>(),
        [(("transaction", 2, 0), 3)]
    );
    stream.add_block(vec![pay(2, 2)]);
    stream.replace(Height(4), vec![vec![], vec![pay(2, 3)], vec![], vec![]]);
    assert_eq!(stream.news().iter().map(Event::place).collect::<Vec<_>>(), [("transaction", 6, 0)]);
    stream.replace(Height(1), vec![vec![]; 8]);
    let told: Vec<_> = stream.news().iter().map(|event| event.kind.clone()).collect();
    assert_eq!(told, ["rollback", "undone", "undone"]);
}

#[test]
fn a_stream_that_tells_nothing_of_the_chain_reads_none_of_its_blocks() {
    for query in ["kinds=left".to_owned(), "kinds=unconfirmed".to_owned(), format!("kinds=left&address={}", of(2))] {
        let scene = with_payments(60).with_rewrite_limit(5);
        let mut stream = Stream::new(&scene, &format!("from=1&confirmations=0&{query}"));
        assert_eq!(stream.news(), [], "{query}");
        assert!(stream.units < 60, "{} units for {query}", stream.units);
        assert_eq!(stream.node.events.bytes(), 0);
        // It is at the tip.
        stream.replace(Height(60), vec![vec![], vec![], vec![]]);
        assert_eq!(stream.news()[0].place(), ("rollback", 60, 99), "{query}");
    }
}

#[test]
fn who_reads_a_block_first_is_charged_for_that_though_nothing_of_it_is_told() {
    let scene = with_payments(60);
    let mut stream = Stream::new(&scene, "from=1&mosaic=a:b");
    assert_eq!(stream.news(), []);
    let read = stream.units;
    assert!(read > 62 * OLD_ROW, "{read} units for 62 blocks");
    stream.reconnect("");
    assert_eq!(stream.news(), []);
    let told_again = stream.units - read;
    assert!(told_again < read / 2, "{told_again} units for what was read before, {read} at first");
}

#[test]
fn of_an_old_block_without_transactions_the_header_alone_is_read() {
    let (empty, full) = (Scene::empty().with_rewrite_limit(5), with_payments(60).with_rewrite_limit(5));
    (0..62).for_each(|_| _ = empty.add_block(Vec::new()));
    let mut stream = Stream::new(&empty, "from=1");
    assert_eq!(stream.news(), []);
    // Those that can still be replaced are told by many streams, and read once for all.
    assert!(stream.units < 62 * 6 + 7 * OLD_ROW, "{} units", stream.units);
    let mut stream = Stream::new(&full, "from=1");
    let told: Vec<_> =
        stream.news().iter().map(|event| (event.number("height"), event.data["index"].clone())).collect();
    let mut with_blocks = Stream::new(&full, "from=1&kinds=block,transaction");
    let expected = with_blocks.news().into_iter().filter(|event| event.kind == "transaction");
    assert_eq!(told, expected.map(|event| (event.number("height"), event.data["index"].clone())).collect::<Vec<_>>());
    assert_eq!(told.len(), 60);
}

#[test]
fn an_id_whose_rollback_is_deeper_than_the_rewrite_limit_allows_is_rejected() {
    let scene = with_payments(60).with_rewrite_limit(5);
    let id = Stream::new(&scene, "").run()[0].id.clone();
    let forged = |common: u64| format!("after={}", id.replacen(".end", &format!(".end-{common}"), 1));
    let height: u64 = id.split('.').next().unwrap().parse().unwrap();
    for common in [height - 11, 1] {
        let (status, message) = Stream::new(&scene, &forged(common)).error();
        assert_eq!((status, message.contains("must be one that a stream sent")), (400, true), "{message}");
    }
    let told = Stream::new(&scene, &forged(height - 10)).news();
    assert_eq!((told[0].kind.as_str(), told[0].number("height")), ("undone", height));
    assert!(told.iter().filter(|event| event.kind == "undone").all(|event| event.number("height") > height - 10));
}

#[test]
fn far_behind_the_tip_the_lists_of_the_accounts_tell_what_the_blocks_tell() {
    let scene = with_payments(200).with_rewrite_limit(5);
    let whole = format!("from=1&address={},{}", of(2), of(3));
    let mut along_lists = Stream::new(&scene, &whole);
    let mut along_blocks = Stream::new(&scene, &format!("{whole}&kinds=transaction,block"));
    let by_lists = along_lists.news();
    let by_blocks: Vec<_> = along_blocks.news().into_iter().filter(|event| event.kind != "block").collect();
    let data = |events: &[Event]| events.iter().map(|event| event.data.clone()).collect::<Vec<_>>();
    assert_eq!(by_lists.len(), 199);
    assert_eq!(data(&by_lists), data(&by_blocks));
    // One account of few transactions is not searched block by block.
    scene.add_block(vec![pay(4, 9000)]);
    (0..100).for_each(|_| _ = scene.add_block(Vec::new()));
    let mut rare = Stream::new(&scene, &format!("from=1&address={}", of(4)));
    assert_eq!(rare.news().iter().map(|event| event.number("height")).collect::<Vec<_>>(), [202]);
    assert!(rare.steps < 30, "{} steps", rare.steps);
}

#[test]
fn blocks_are_told_before_their_transactions_with_who_earned_the_fees() {
    let scene = with_payments(2);
    let mut stream = Stream::new(&scene, "from=2&kinds=block,transaction");
    let told = stream.news();
    let kinds: Vec<_> = told.iter().map(|event| (event.kind.as_str(), event.number("height"))).collect();
    assert_eq!(kinds, [("block", 2), ("block", 3), ("transaction", 3)]);
    let block = &told[1].data;
    assert_eq!((&block["transactions"], &block["totalFee"]), (&1.into(), &0.into()));
    assert!(block["harvester"].as_str().is_some_and(|address| address.len() == 40));
    assert_eq!(block["hash"].as_str().map(str::len), Some(64));
}

#[test]
fn only_transactions_that_move_the_mosaic_are_told() {
    let scene = Scene::with_mosaics();
    let all = Stream::new(&scene, "from=1").news();
    let mut xem = Stream::new(&scene, "from=1&mosaic=nem:xem");
    let xem = xem.news();
    assert!(!xem.is_empty() && xem.len() < all.len());
    let is_transfer = |event: &Event| {
        let transaction = &event.data["transaction"];
        [&transaction["type"], &transaction["otherTrans"]["type"]].contains(&&257.into())
    };
    assert!(xem.iter().all(is_transfer));
    assert!(!all.iter().any(|event| !xem.contains(event) && is_transfer(event)));
    assert_eq!(Stream::new(&scene, "from=1&mosaic=no:such").news(), []);
}

#[test]
fn the_mempool_is_told_with_zero_confirmations_what_is_there_what_comes_and_what_leaves() {
    let scene = with_payments(1);
    let sender = address_of(&pair().public());
    scene.fund_address(sender);
    let mut stream = Stream::new(&scene, &format!("confirmations=0&address={sender}"));
    stream.announce(acceptable(1));
    let told = stream.news();
    assert_eq!(told.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["unconfirmed"]);
    assert_eq!(told[0].data["meta"]["hash"]["data"], hex::encode(acceptable(1).hash().0));
    assert_eq!(told[0].data["since"], NOW.network.0);
    stream.announce(acceptable(2));
    let told = stream.news();
    assert_eq!(told.len(), 1);
    // Another account hears of its own ones only.
    let mut other = Stream::new(&scene, &format!("confirmations=0&address={}", of(77)));
    other.announce(acceptable(1));
    assert_eq!(other.news(), []);
    // It leaves.
    let mut entry = MempoolEntry::new(acceptable(2), NETWORK, Timestamp(5));
    let fate = Fate::Rejected(ValidationResult::FailureInsufficientBalance);
    let (events, fate) = (&mut stream.node.events, FateRecord { fate, at: Timestamp(9) });
    events.mempool_changed(&entry, MempoolEvent::Left(fate));
    let told = stream.news();
    assert_eq!((told[0].kind.as_str(), told.len()), ("left", 1));
    assert_eq!(told[0].data["status"], "rejected");
    assert_eq!(told[0].data["message"], "FAILURE_INSUFFICIENT_BALANCE");
    // Whoever was a cosignatory hears of it too.
    let mut cosignatory = Stream::new(&scene, &format!("confirmations=0&address={}", of(77)));
    cosignatory.run();
    entry.cosignatories = vec![address(77)];
    cosignatory.node.events.mempool_changed(&entry, MempoolEvent::Left(fate));
    assert_eq!(cosignatory.news().iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["left"]);
    // After a reconnection all that is there is told again.
    stream.reconnect(&told[0].id);
    assert_eq!(stream.news().len(), 2);
    // Without zero confirmations nothing of it is told.
    let mut confirmed = Stream::new(&scene, "confirmations=1");
    confirmed.announce(acceptable(1));
    assert_eq!(confirmed.news(), []);
    assert!(!confirmed.node.events.tells_mempool());
}

#[test]
fn who_was_told_of_an_unconfirmed_transaction_hears_of_its_confirmation_by_its_block_or_as_left() {
    let scene = with_payments(1);
    let sender = address_of(&pair().public());
    scene.fund_address(sender);
    let told_to = |parameters: &str, is_confirmed: bool| {
        let mut stream = Stream::new(&scene, &format!("confirmations=0{parameters}"));
        stream.run();
        // It concerns a former cosignatory while it waits only.
        let mut entry = MempoolEntry::new(acceptable(1), NETWORK, Timestamp(5));
        entry.cosignatories = vec![address(77)];
        let common = Height(scene.add_block(vec![acceptable(1)]).0 - 1);
        stream.changed(common, Vec::new());
        if !is_confirmed {
            stream.replace(common, Vec::new());
        }
        stream.node.events.mempool_changed(&entry, MempoolEvent::Confirmed);
        let told = stream.news();
        if is_confirmed {
            stream.replace(common, Vec::new());
        }
        told
    };
    let former = told_to(&format!("&address={}", of(77)), true);
    assert_eq!((former.len(), former[0].kind.as_str()), (1, "left"));
    assert_eq!(former[0].data["hash"], hex::encode(acceptable(1).hash().0));
    assert_eq!((&former[0].data["status"], former[0].number("confirmations")), (&"confirmed".into(), 1));
    for parameters in [format!("&address={sender}"), format!("&address={sender}&address={}", of(77)), String::new()] {
        let told = told_to(&parameters, true);
        assert_eq!(told.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["transaction"]);
    }
    let told = told_to(&format!("&address={sender}&kinds=unconfirmed,left"), true);
    assert_eq!(told.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["left"], "it tells no transactions");
    assert_eq!(told_to(&format!("&address={}&kinds=unconfirmed", of(77)), true), []);
    assert_eq!(told_to(&format!("&address={}", of(77)), false), [], "its block is undone: it is told what follows");
}

#[test]
fn a_transaction_is_told_once_whether_it_arrives_before_or_after_the_listing_or_returns_from_a_block() {
    let scene = with_payments(1);
    scene.fund_address(address_of(&pair().public()));
    let mut stream = Stream::new(&scene, "confirmations=0");
    let hashes = |told: Vec<Event>| told.iter().map(|event| (event.kind.clone(), event.hash())).collect::<Vec<_>>();
    let once = |number| vec![("unconfirmed".to_owned(), hex::encode(acceptable(number).hash().0))];
    // It is in the mempool, and the streams are told of it only after the listing.
    let node = &mut stream.node;
    scene.with_view(|chain| node.mempool.add(acceptable(1), chain)).unwrap();
    assert_eq!(hashes(stream.news()), once(1));
    stream.tell_arrivals();
    assert_eq!(hashes(stream.news()), []);
    // It arrives, is confirmed, and returns before the stream goes on.
    stream.announce(acceptable(2));
    let (node, tip) = (&mut stream.node, Height(3));
    node.mempool.chain_changed(tip, [acceptable(2).hash()].into(), Vec::new());
    node.mempool.chain_changed(tip, Default::default(), vec![acceptable(2)]);
    while node.mempool.is_rebuilding() {
        scene.with_view(|chain| node.mempool.step_rebuild(chain, &mut Budget::new(0))).unwrap();
    }
    stream.tell_arrivals();
    assert_eq!(hashes(stream.news()), once(2));
}

#[test]
fn a_stream_that_missed_changes_of_the_mempool_is_told_the_whole_again() {
    let scene = with_payments(1);
    scene.fund_address(address_of(&pair().public()));
    let mut stream = Stream::new(&scene, "confirmations=0&kinds=unconfirmed");
    stream.announce(acceptable(1));
    assert_eq!(stream.news().len(), 1);
    let long = MempoolEntry::new(acceptable(2), NETWORK, Timestamp(5));
    let count = crate::api::events::MAX_CHANGE_BYTES / 1024;
    (0..count).for_each(|_| stream.node.events.mempool_changed(&long, MempoolEvent::Arrived));
    assert!(stream.node.events.bytes() <= crate::api::events::MAX_CHANGE_BYTES);
    let told = stream.news();
    assert_eq!(told.iter().map(Event::hash).collect::<Vec<_>>(), [hex::encode(acceptable(1).hash().0)]);
}

#[test]
fn changes_of_the_mempool_are_told_together_so_that_many_streams_do_not_multiply_them() {
    let scene = with_payments(1);
    let mut stream = Stream::new(&scene, "confirmations=0");
    stream.run();
    let (events, second) = (&mut stream.node.events, Duration::from_secs(1));
    (2..=1_000).for_each(|number| events.wait(ConnectionId(number), 3_600 * second, true, false));
    let entry = MempoolEntry::new(acceptable(2), NETWORK, Timestamp(5));
    let mut told = 0;
    for millisecond in 0..1_000 {
        let now = second + Duration::from_millis(millisecond);
        events.mempool_changed(&entry, MempoolEvent::Arrived);
        assert!(events.next_due().is_some_and(|due| due <= now + second / 10));
        told += events.take_due(now).len();
    }
    assert_eq!(told, 10 * 1_000, "ten times a second, for a thousand streams");
}

#[test]
fn streams_go_on_in_the_order_of_their_connections() {
    let scene = with_payments(1);
    let (mut events, hour) = (EventFeed::default(), Duration::from_secs(3_600));
    (1..=1_000).rev().for_each(|number| events.wait(ConnectionId(number), hour, true, false));
    let all: Vec<ConnectionId> = (1..=1_000).map(ConnectionId).collect();
    let entry = MempoolEntry::new(acceptable(2), NETWORK, Timestamp(5));
    events.mempool_changed(&entry, MempoolEvent::Arrived);
    assert_eq!(events.take_due(Duration::ZERO), all);
    scene.with_view(|chain| events.chain_changed(Height(1), Vec::new(), chain)).unwrap();
    assert_eq!(events.take_due(Duration::ZERO), all);
}

#[test]
fn a_silent_stream_sends_a_sign_of_life_every_fifteen_seconds() {
    let scene = with_payments(1);
    let mut stream = Stream::new(&scene, "address=&confirmations=1".trim_start_matches("address=&"));
    stream.run();
    let start = NOW.monotonic;
    assert_eq!(stream.node.events.next_due(), Some(start + Duration::from_secs(15)));
    assert!(stream.node.events.take_due(start + Duration::from_secs(14)).is_empty());
    stream.node.now.monotonic = start + Duration::from_secs(15);
    assert_eq!(stream.node.events.take_due(start + Duration::from_secs(15)), [ConnectionId(1)]);
    assert_eq!((stream.run(), stream.text.as_str()), (vec![], ":\n"));
    assert_eq!(stream.node.events.next_due(), Some(start + Duration::from_secs(30)));
    stream.node.events.remove(ConnectionId(1));
    assert_eq!((stream.node.events.next_due(), stream.node.events.streams()), (None, 0));
}

#[test]
#[ignore = "slow: computes for long"]
fn ten_thousand_addresses_are_read_in_steps_and_a_bad_one_is_an_error_that_names_it() {
    let scene = with_payments(3);
    let many = |count: u32| {
        let key = |number: u32| {
            let mut seed = [9; 32];
            seed[..4].copy_from_slice(&number.to_be_bytes());
            crate::crypto::PublicKey(seed)
        };
        (0..count).map(|number| address_of(&key(number)).to_string()).chain([of(2)]).collect::<Vec<_>>()
    };
    let mut stream = Stream::new(&scene, "from=1").posting(&many(9_999));
    assert_eq!(stream.news().len(), 2);
    assert!(stream.steps > 1_500, "{}", stream.steps);
    let (status, message) = Stream::new(&scene, "").posting(&many(10_000)).error();
    assert_eq!((status, message.contains("10000 addresses")), (400, true), "{message}");
    let mut addresses = many(100);
    addresses[0] = "TALICE".to_owned();
    let (status, message) = Stream::new(&scene, "").posting(&addresses).error();
    assert_eq!((status, message.contains("TALICE is not an address")), (400, true), "{message}");
}

#[test]
fn bad_parameters_are_errors_that_say_what_to_do() {
    let scene = with_payments(3);
    for (query, part) in [
        ("from=0", "height must be positive"),
        ("from=7", "from must not be above the next block"),
        ("from=x", "from must be the height of a block"),
        ("confirmations=-1", "from 0 to 1000000"),
        ("confirmations=1000001", "from 0 to 1000000"),
        ("kinds=blocks", "some of transaction, block, unconfirmed and left"),
        ("kinds=unconfirmed", "need confirmations=0"),
        ("kinds=block,left&confirmations=1", "need confirmations=0"),
        ("mosaic=xem", "a namespace and a name, such as nem:xem"),
        ("after=1.2", "must be one that a stream sent"),
        ("after=0.0.0000000000000000", "must be one that a stream sent"),
        ("after=0.7.0000000000000000", "must be one that a stream sent"),
        ("after=1.2.zz", "must be one that a stream sent"),
        ("after=9.end-0.0123456789abcdef", "must be one that a stream sent"),
        ("address=TALICE", "TALICE is not an address"),
        ("address=", " is not an address"),
        ("adress=TALICE", "adress is no parameter of this stream; it has address, after, confirmations"),
        ("from=1&confirmation=3", "confirmation is no parameter"),
        ("from=1&lastEventId=1.2", "must be one that a stream sent"),
    ] {
        let (status, message) = Stream::new(&scene, query).error();
        assert_eq!(status, 400, "{query}: {message}");
        assert!(message.contains(part), "{query}: {message}");
    }
    let mut bad = Stream::new(&scene, "");
    (bad.line, bad.body) = ("POST /events".to_owned(), b"{}".to_vec());
    let (status, message) = bad.error();
    assert_eq!((status, message.contains("{\"addresses\": [\"...\"]}")), (400, true), "{message}");
    for member in ["confirmations", "address"] {
        let mut bad = Stream::new(&scene, "").posting(&[of(2)]);
        bad.body = String::from_utf8(bad.body).unwrap().replacen('{', &format!("{{\"{member}\":20,"), 1).into_bytes();
        let (status, message) = bad.error();
        assert_eq!((status, message.contains(&format!("not {member}; "))), (400, true), "{message}");
    }
    // These are in the body.
    let mut bad = Stream::new(&scene, "");
    bad.line = "POST /events?address=TALICE".to_owned();
    assert!(bad.error().1.starts_with("address is no parameter of this stream; it has after, "));
}

#[test]
fn a_head_request_gets_the_head_alone() {
    let scene = with_payments(1);
    let reply = TestRequest::new("HEAD /events").send(&scene);
    let mut stream = Stream::new(&scene, "");
    stream.news();
    // A streamed response has no length.
    assert_eq!((reply.status, reply.is_streaming, &reply.headers), (200, true, &stream.reply.headers));
    assert_eq!(headers(&reply, "Content-Type"), ["text/event-stream"]);
    // What is wrong with a request is found in the same way.
    for query in ["from=x", "from=9999999", "after=1.2.3", "kinds=x", "address=x"] {
        let [get, head] =
            ["GET", "HEAD"].map(|method| TestRequest::new(&format!("{method} /events?{query}")).send(&scene).status);
        assert_eq!((get, head), (400, 400), "{query}");
    }
}

#[test]
fn addresses_may_have_hyphens() {
    let scene = with_payments(2);
    let address: Address = address(2);
    let text: Vec<String> =
        address.as_str().as_bytes().chunks(6).map(|part| String::from_utf8_lossy(part).into()).collect();
    let mut stream = Stream::new(&scene, &format!("from=1&address={}", text.join("-")));
    assert_eq!(stream.news().len(), 1);
}
