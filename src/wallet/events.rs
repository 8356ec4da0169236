//! The event stream of a node (`/events`), and its events as lines for people.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::node::{NodeClient, NodeError, printable, signatures};
use super::transaction::{mosaics_sent, transaction_of};
use super::values::currency;
use crate::codec::lenient_json;
use crate::model::transaction::{LinkMode, Message, MessageKind, Transfer, wire_network};
use crate::model::{Address, Amount, Body, MosaicId, Timestamp, Transaction};
use crate::net::blocking_client::{EventReader, ResponseStream, StreamPart};

pub use crate::net::blocking_client::{Event, MAX_EVENT_BYTES};

/// Route of the stream.
pub const EVENTS: &str = "/events";

/// The events of a node.
pub struct EventStream<'a> {
    node: &'a NodeClient,
    stream: ResponseStream,
    /// The events that have arrived already.
    pub reader: EventReader,
    has_ended: bool,
}

impl NodeClient {
    /// Opens the event stream of these accounts, or of all if there are none, after the event with this id if there is
    /// one. `target` is [`EVENTS`] with its query.
    pub fn events(
        &self,
        target: &str,
        addresses: &[Address],
        last_id: Option<&str>,
    ) -> Result<EventStream<'_>, NodeError> {
        let body = json!({ "addresses": addresses }).to_string();
        let body = (!addresses.is_empty()).then_some(body.as_bytes());
        let opened = self.client.open_stream(target, body, last_id);
        let stream = opened.map_err(|error| NodeError::NoAnswer { node: self.url(), error })?;
        Ok(EventStream { node: self, stream, reader: EventReader::default(), has_ended: false })
    }
}

impl EventStream<'_> {
    /// Waits for at most `time` until more of the stream arrives, or until a signal comes. Returns whether any has; it may
    /// be a heartbeat only. The end of the stream is an error.
    pub fn receive(&mut self, time: Duration) -> Result<bool, NodeError> {
        if self.has_ended {
            return Err(self.ended("it closed the connection"));
        }
        let bytes = match self.stream.read(time).map_err(|error| self.ended(error))? {
            StreamPart::Nothing => return Ok(false),
            StreamPart::Body(bytes) => bytes,
            StreamPart::End(bytes) => {
                self.has_ended = true;
                bytes
            }
            StreamPart::Response(response) if response.status == 404 => {
                let node = self.node.url();
                return Err(NodeError::Unusable(format!("the node {node} has no /events; it needs a nisd node")));
            }
            StreamPart::Response(response) => self.node.success_body(EVENTS, Ok(response))?,
        };
        self.reader.receive(&bytes).map_err(|error| self.node.invalid_answer(EVENTS, error))?;
        Ok(true)
    }

    /// Returns the error for an event that cannot be understood.
    pub fn invalid_event(&self, event: &Event, reason: &str) -> NodeError {
        let name = printable(&event.name);
        self.node.invalid_answer(EVENTS, format!("event {name}: {reason}"))
    }

    /// Returns the error for a stream that cannot go on.
    pub fn ended(&self, reason: impl ToString) -> NodeError {
        NodeError::StreamEnded { node: self.node.url(), reason: reason.to_string() }
    }
}

/// Returns an event as one line of JSON, with its data unchanged; `None` if they are not JSON.
pub fn json_line(event: &Event) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(&event.data).ok()?;
    // A line end can only be between the values of JSON.
    let data = event.data.replace(['\r', '\n'], " ");
    Some(format!("{{\"event\":{},\"id\":{},\"data\":{data}}}", json!(event.name), json!(event.id)))
}

/// Returns the line that describes an event; `None` for an event that is not about payments.
pub fn describe_event(event: &Event) -> Option<String> {
    let data: Value = serde_json::from_str(&event.data).ok()?;
    let text = |path: &str| data.pointer(path).and_then(Value::as_str).map(printable);
    let number = |path: &str| data.pointer(path).and_then(Value::as_u64);
    let time = |path: &str| {
        let second = number(path).and_then(|second| i32::try_from(second).ok());
        second.map(|second| format!("{} UTC", Timestamp(second).date_and_time()))
    };
    let height = number("/height").map(|height| format!("height {height}"));
    let confirmations = number("/confirmations").map(|count| counted(count, "confirmation"));
    let hash = text("/meta/hash/data").map(|hash| match text("/meta/innerHash/data") {
        Some(inner) => format!("{hash} (inner hash {inner})"),
        None => hash,
    });
    let word = |word: &str| Some(word.to_owned());
    let parts = match event.name.as_str() {
        "transaction" => [time("/timeStamp"), height, confirmations, Some(payment(&event.data)), hash],
        "undone" => [word("undone"), time("/timeStamp"), height, Some(payment(&event.data)), hash],
        "unconfirmed" => {
            [word("unconfirmed"), time("/since"), Some(payment(&event.data)), describe_signatures(&data), hash]
        }
        "left" => {
            let conflict = text("/conflict/hash").map(|hash| format!("in conflict with {hash}"));
            let reason = [text("/reason"), text("/message").map(|name| format!("({name})")), conflict];
            let reason = reason.into_iter().flatten().collect::<Vec<_>>().join(" ");
            [word("left"), time("/since").or(height), text("/status"), Some(reason), text("/hash")]
        }
        "rollback" => {
            let above = format!("every block above height {} is undone", number("/height").unwrap_or_default());
            let is_unknown = text("/transactions").as_deref() == Some("unknown");
            let unknown = "the node does not know the replaced blocks, so their transactions are not listed: whatever \
                           is still in the chain is told again";
            [word("rollback"), Some(above), is_unknown.then(|| unknown.to_owned()), None, None]
        }
        "block" => {
            let fees = currency(Amount(number("/totalFee").unwrap_or_default()));
            let harvested = format!("harvested by {} for {fees}", text("/harvester").unwrap_or_default());
            let transactions = counted(number("/transactions").unwrap_or_default(), "transaction");
            [word("block"), time("/timeStamp"), height, Some(format!("{harvested}, {transactions}")), text("/hash")]
        }
        _ => return None,
    };
    Some(parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  "))
}

/// Returns the node's state of synchronisation in words, from the event `synchronising`.
pub fn describe_synchronisation(event: &Event) -> String {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let number = |name: &str| data.get(name).and_then(Value::as_u64).unwrap_or_default();
    let status = data.get("status").and_then(Value::as_str).map(printable).unwrap_or_default();
    let (height, behind) = (number("height"), number("behind"));
    match behind {
        0 => format!("the node is at height {height}: {status}"),
        _ => format!("the node is at height {height}, {} behind: {status}", counted(behind, "block")),
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Describes the transaction in the data of an event: the inner one, if it is a multisig transaction.
fn payment(data: &str) -> String {
    let value = lenient_json::parse(data.as_bytes()).ok();
    let transaction = value.as_ref().and_then(|value| transaction_of(value.get("transaction")?).ok());
    let Some(transaction) = transaction else {
        return "a transaction that this program cannot read".to_owned();
    };
    let paying = transaction.inner().unwrap_or(&transaction);
    let from = paying.signer_address(wire_network(paying.version));
    match &paying.body {
        Body::Transfer(body) => {
            let message = body.message.as_ref().map(message).unwrap_or_default();
            let to = format!("{from} → {}", body.recipient);
            [to, amount(body), message].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
        }
        _ => format!("{from}  {}", other_kind(paying)),
    }
}

/// Writes mosaics other than XEM as `nisd send` reads them, in smallest units.
fn amount(body: &Transfer) -> String {
    if body.mosaics.is_empty() {
        return currency(body.amount);
    }
    let one = |(id, sent): (&MosaicId, u128)| match u64::try_from(sent) {
        Ok(micro) if id.is_xem() => currency(Amount(micro)),
        _ => format!("{id}={sent}"),
    };
    mosaics_sent(body).map(one).collect::<Vec<_>>().join(", ")
}

fn message(Message { kind, payload }: &Message) -> String {
    match (kind, str::from_utf8(payload)) {
        (MessageKind::Secure, _) => "encrypted".to_owned(),
        (MessageKind::Plain, Ok(text)) => format!("{text:?}"),
        (MessageKind::Plain, Err(_)) => format!("hex {}", hex::encode(payload)),
    }
}

/// Describes a transaction that is no transfer.
fn other_kind(transaction: &Transaction) -> String {
    match &transaction.body {
        Body::Transfer(_) | Body::Multisig(_) => "initiates a multisig transaction".to_owned(),
        Body::ImportanceTransfer(body) => match body.mode {
            LinkMode::Activate => "activates remote harvesting".to_owned(),
            LinkMode::Deactivate => "deactivates remote harvesting".to_owned(),
        },
        Body::AggregateModification(_) => "changes its cosignatories".to_owned(),
        Body::Cosignature(body) => format!("cosigns a transaction of {}", body.other_account),
        Body::ProvisionNamespace(body) => {
            let parent = body.parent.as_ref().map(|parent| format!("{parent}.")).unwrap_or_default();
            format!("rents the namespace {}", printable(&format!("{parent}{}", body.new_part)))
        }
        Body::MosaicDefinitionCreation(body) => format!("defines the mosaic {}", body.definition.id),
        Body::MosaicSupplyChange(body) => format!("changes the supply of the mosaic {}", body.mosaic),
    }
}

/// Describes the signatures of an unconfirmed multisig transaction.
fn describe_signatures(data: &Value) -> Option<String> {
    let (required, [signed, missing]) = signatures(data.get("multisig")?);
    let signed = format!("signed by {} of {required} cosignatories", signed.len());
    Some(if missing.is_empty() { signed } else { format!("{signed}, missing: {}", missing.join(" ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "TALICE";
    const HASH: &str = "53ad7d62339f7b057d79dd358820dd1d1911ba2cd35c70336f5d887fb6bc211c";

    fn event(name: &str, data: impl ToString) -> Event {
        Event { id: Some("7.0.ab".to_owned()), name: name.to_owned(), data: data.to_string() }
    }

    /// Returns a transaction of the help, by the type and its number among those of this type.
    fn transaction(kind: u64, index: usize) -> Value {
        let lines = super::super::TRANSACTIONS.lines().map(str::trim).filter(|line| line.starts_with('{'));
        let values = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        values.filter(|value| value["type"] == kind).nth(index).unwrap()
    }

    fn confirmed(transaction: Value) -> Value {
        json!({
            "confirmations": 1, "height": 12, "index": 0, "blockHash": HASH, "timeStamp": 300_000_060,
            "meta": {"height": 12, "id": 5, "hash": {"data": HASH}, "innerHash": {}}, "transaction": transaction,
        })
    }

    fn line(name: &str, data: Value) -> String {
        describe_event(&event(name, data)).unwrap()
    }

    #[test]
    fn a_payment_is_one_line_with_everything_to_book_it() {
        let payment = payment_of(&transaction(257, 0));
        let told = line("transaction", confirmed(transaction(257, 0)));
        let expected =
            format!("2024-09-29 05:27:25 UTC  height 12  1 confirmation  {payment}  1 XEM  \"hello\"  {HASH}");
        assert_eq!(told, expected);
        let mut deep = confirmed(transaction(257, 0));
        deep["confirmations"] = 20.into();
        assert!(line("transaction", deep).contains("  20 confirmations  "));
        let undone = line("undone", confirmed(transaction(257, 0)));
        assert!(undone.starts_with("undone  2024-09-29 05:27:25 UTC  height 12  T"), "{undone}");
        assert!(undone.ends_with(&format!("  1 XEM  \"hello\"  {HASH}")), "{undone}");
    }

    fn payment_of(value: &Value) -> String {
        let read = super::super::read_transaction(value.to_string().as_bytes()).unwrap();
        let from = read.inner().unwrap_or(&read).signer_address(wire_network(read.version));
        format!("{from} → TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ")
    }

    #[test]
    fn mosaics_are_shown_as_they_are_sent() {
        let mut both = transaction(257, 1);
        assert!(line("transaction", confirmed(both.clone())).contains("  devnet:coin=5000  "));
        let xem = json!({"mosaicId": {"namespaceId": "nem", "name": "xem"}, "quantity": 1_500_000});
        both["mosaics"].as_array_mut().unwrap().push(xem);
        both["amount"] = 2_000_000.into();
        let told = line("transaction", confirmed(both));
        assert!(told.contains("  devnet:coin=10000, 3 XEM  "), "{told}");
    }

    #[test]
    fn the_payment_of_a_multisig_transaction_is_its_inner_transfer() {
        let multisig = transaction(4100, 0);
        let mut data = confirmed(multisig.clone());
        data["meta"]["innerHash"] = json!({"data": "ab"});
        let told = line("transaction", data);
        let expected = format!("{}  100 XEM  {HASH} (inner hash ab)", payment_of(&multisig));
        assert!(told.ends_with(&expected), "{told}");
        let missing = json!([{"address": "TB"}, {"address": "TC"}]);
        let told = line(
            "unconfirmed",
            json!({"meta": {"hash": {"data": HASH}, "innerHash": {}}, "since": 0, "deadline": 9,
                "multisig": {"signed": [{"address": ALICE}], "missing": missing, "required": 2},
                "transaction": multisig}),
        );
        assert!(told.starts_with("unconfirmed  2015-03-29 00:06:25 UTC  T"), "{told}");
        assert!(told.contains("  signed by 1 of 2 cosignatories, missing: TB TC  "), "{told}");
    }

    #[test]
    fn messages_cannot_disturb_the_terminal() {
        let told = |kind: u8, payload: &[u8]| {
            let mut transfer = transaction(257, 0);
            transfer["message"] = json!({"type": kind, "payload": hex::encode(payload)});
            line("transaction", confirmed(transfer))
        };
        let escaped = told(1, "ä\u{1b}[31m\n\u{202e}\u{9b}\"".as_bytes());
        assert!(escaped.contains(r#"  "ä\u{1b}[31m\n\u{202e}\u{9b}\""  "#), "{escaped}");
        assert!(told(1, &[0xfe, 0x4e]).contains("  hex fe4e  "));
        assert!(told(2, &[1; 48]).contains("  encrypted  "));
        assert!(!told(1, b"").contains("\"\""));
    }

    #[test]
    fn every_kind_of_transaction_has_a_line() {
        for (kind, index, words) in [
            (2049, 0, "activates remote harvesting"),
            (4097, 0, "changes its cosignatories"),
            (4098, 0, "cosigns a transaction of TD5SM57H5NUGJZSYCLLIBF5234I4AIVUMMLMYDG7"),
            (8193, 0, "rents the namespace devnet"),
            (16385, 0, "defines the mosaic devnet:coin"),
            (16386, 0, "changes the supply of the mosaic devnet:coin"),
        ] {
            let told = line("transaction", confirmed(transaction(kind, index)));
            assert!(told.contains(&format!("  {words}  ")), "{told}");
        }
        let told = line("transaction", confirmed(json!({"type": 9999, "version": 1})));
        assert!(told.contains("cannot read") && told.ends_with(HASH), "{told}");
    }

    #[test]
    fn rollbacks_and_the_end_of_unconfirmed_transactions_are_told_in_words() {
        let rollback = line("rollback", json!({"height": 9, "transactions": "listed"}));
        assert_eq!(rollback, "rollback  every block above height 9 is undone");
        let unknown = line("rollback", json!({"height": 9, "transactions": "unknown"}));
        assert!(unknown.starts_with(&rollback) && unknown.contains("told again"), "{unknown}");
        let left = json!({"hash": HASH, "status": "rejected", "since": 0, "code": 5,
            "message": "FAILURE_INSUFFICIENT_BALANCE", "reason": "insufficient balance"});
        let expected = format!(
            "left  2015-03-29 00:06:25 UTC  rejected  insufficient balance (FAILURE_INSUFFICIENT_BALANCE)  {HASH}"
        );
        assert_eq!(line("left", left.clone()), expected);
        let confirmed = json!({"hash": HASH, "status": "confirmed", "height": 7, "confirmations": 1});
        assert_eq!(line("left", confirmed), format!("left  height 7  confirmed  {HASH}"));
        let mut replaced = left;
        replaced["conflict"] = json!({"hash": "cd", "height": 7});
        assert!(
            line("left", replaced).ends_with(&format!(" (FAILURE_INSUFFICIENT_BALANCE) in conflict with cd  {HASH}"))
        );
        let block = json!({"confirmations": 1, "height": 3, "hash": HASH, "timeStamp": 0, "signer": "ab",
            "harvester": ALICE, "totalFee": 150_000, "transactions": 1});
        let expected = format!(
            "block  2015-03-29 00:06:25 UTC  height 3  harvested by TALICE for 0.15 XEM, 1 transaction  {HASH}"
        );
        assert_eq!(line("block", block), expected);
    }

    #[test]
    fn synchronisation_is_told_in_words() {
        let told = |behind: u64, status: &str| {
            describe_synchronisation(&event("synchronising", json!({"height": 5, "behind": behind, "status": status})))
        };
        assert_eq!(told(0, "synchronised"), "the node is at height 5: synchronised");
        assert_eq!(told(1, "synchronising"), "the node is at height 5, 1 block behind: synchronising");
        assert_eq!(describe_event(&event("synchronising", "{}")), None);
    }

    #[test]
    fn an_event_is_one_line_of_json_with_its_data_unchanged() {
        let data = "{\"amount\":9223372036854775807,\n\"a\":1.0}";
        let expected = r#"{"event":"transaction","id":"7.0.ab","data":{"amount":9223372036854775807, "a":1.0}}"#;
        assert_eq!(json_line(&event("transaction", data)).as_deref(), Some(expected));
        let without_id = Event { id: None, ..event("a\"b", "{}") };
        assert_eq!(json_line(&without_id).as_deref(), Some(r#"{"event":"a\"b","id":null,"data":{}}"#));
        assert_eq!(json_line(&event("transaction", "{\"a\":")), None);
    }
}
