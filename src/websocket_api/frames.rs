//! What clients send: execution of their STOMP frames, among them the commands SENT to `/w/api/...`.

use std::borrow::Cow;

use super::broker::Broker;
use super::content::{AccountTopic, Item};
use super::session_table::{CLOSE_PROTOCOL_ERROR, SESSION_BYTES, SessionId, trim};
use super::stomp::{Frame, encoder};
use super::topics;
use crate::codec::lenient_json::{self, Value};
use crate::codec::limits::MAX_TEXT_UTF16;
use crate::codec::text::{is_blank, truncate_utf16};
use crate::model::{Address, NetworkByte};
use crate::net::service::{Effects, Progress};

/// Work units after which the rest of a message waits for the next turn of its client.
const UNITS_PER_CALL: u32 = 100;
/// Bytes of frames read per work unit.
const BYTES_PER_UNIT: usize = 100;
/// Bytes of payload read per work unit.
const PAYLOAD_BYTES_PER_UNIT: usize = 20;
/// Work units for a subscription, a registration or a queued query.
const ENTRY_UNITS: u32 = 2;
/// Work units for a sent frame.
const SEND_UNITS: u32 = 1;

/// Context for handling some frames of one session.
struct FrameContext<'a> {
    session: SessionId,
    effects: &'a mut dyn Effects,
    /// Work units used so far.
    units: u32,
}

impl Broker {
    /// Handles frames of a session until all are done, the work limit of one call is reached, or the session has too
    /// many queries.
    pub(super) fn handle_frames(&mut self, id: SessionId, effects: &mut dyn Effects) -> Progress {
        let Some(session) = self.table.sessions.get_mut(&id) else { return Progress::Done };
        session.is_suspended = false;
        let socket = session.socket;
        let mut decoder = std::mem::take(&mut session.decoder);
        let mut context = FrameContext { session: id, effects, units: 1 };
        let progress = loop {
            let limit = self.table.limits.queries_per_session;
            let Some(session) = self.table.sessions.get_mut(&id) else { break Progress::Done };
            if session.queries.len() >= limit {
                session.is_suspended = true;
                break Progress::Suspended;
            }
            if context.units >= UNITS_PER_CALL && decoder.has_unread() {
                break Progress::Yield;
            }
            match decoder.next_frame() {
                Ok(Some(frame)) => self.handle(&frame, &mut context),
                Ok(None) => break Progress::Done,
                Err(error) => {
                    self.send_error(&error.text, error.receipt.as_deref(), &mut context);
                    if error.is_fatal {
                        self.table.close(id, (CLOSE_PROTOCOL_ERROR, ""), false, context.effects);
                    }
                }
            }
        };
        let FrameContext { effects, units, .. } = context;
        effects.charge(socket, units);
        if let Some(session) = self.table.sessions.get_mut(&id) {
            session.decoder = decoder;
            // The memory of an idle decoder is part of `SESSION_BYTES`.
            session.decoder_bytes = session.decoder.held_bytes().saturating_sub(SESSION_BYTES / 2);
            self.table.update_memory(id, effects);
        }
        if self.table.sessions.contains_key(&id) { progress } else { Progress::Done }
    }

    /// Handles one frame. One that asks for a receipt gets it once it is handled; CONNECT never does, as the protocol demands.
    fn handle(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        context.units += 1 + units(frame.size(), BYTES_PER_UNIT);
        let handled = match frame.command {
            "CONNECT" | "STOMP" => return self.connect(frame, context),
            "DISCONNECT" => return self.disconnect(frame, context),
            "SUBSCRIBE" => self.subscribe(frame, context),
            "UNSUBSCRIBE" => self.unsubscribe(frame, context),
            "SEND" => self.send_command(frame, context),
            // Transactions and acknowledgements have no function here, and server frames from a client publish nothing.
            _ => Ok(()),
        };
        let [receipt] = frame.pick(["receipt"]);
        match (handled, receipt) {
            (Err(rejection), receipt) => self.send_error(rejection, receipt.as_deref(), context),
            (Ok(()), Some(receipt)) => self.send(context, |out| encoder::receipt(out, &receipt)),
            (Ok(()), None) => {}
        }
    }

    fn connect(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        let [versions] = frame.pick(["accept-version"]).map(|value| value.map(trimmed));
        let Some(session) = self.table.sessions.get_mut(&context.session) else { return };
        match session.connect(versions.as_deref()) {
            Some(version) => self.send(context, |out| encoder::connected(out, version)),
            None => self.table.fail(context.session, "Supported protocol versions are 1.0, 1.1, 1.2", context.effects),
        }
    }

    fn subscribe(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) -> Result<(), &'static str> {
        let [id, destination] = frame.pick(["id", "destination"]).map(|value| value.map(trimmed));
        if let Some(destination) = destination
            && topics::is_broker_destination(&destination)
        {
            context.units += ENTRY_UNITS;
            // Nothing is published under any other spelling of an address.
            let network = self.network;
            let address = topics::registering_address(&destination)
                .and_then(|text| Address::parse(text, network).filter(|address| address.as_str() == text));
            self.table.subscribe(context.session, id.as_deref(), &destination, address, false, context.effects)?;
            if let Some(hash) = topics::transaction_of(&destination) {
                self.queue_query(Item::Status(hash), context.session);
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) -> Result<(), &'static str> {
        let [id] = frame.pick(["id"]).map(|value| value.map(trimmed));
        if let Some(id) = id {
            context.units += units(self.table.unsubscribe(context.session, Some(&id)), 1);
        }
        Ok(())
    }

    /// Handles SEND. Only queries have an effect; messages to topics are dropped, so that no client can forge a
    /// publication.
    fn send_command(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) -> Result<(), &'static str> {
        let [destination] = frame.pick(["destination"]).map(|value| value.map(trimmed));
        if let Some(command) = destination.and_then(|destination| parse(&destination, frame.body, self.network)) {
            context.units += units(frame.body.len(), PAYLOAD_BYTES_PER_UNIT);
            if let Err(error) = command.and_then(|command| self.execute(command, context).map_err(Cow::Borrowed)) {
                context.units += SEND_UNITS;
                self.table.send_query_error(context.session, &error, context.effects);
            }
        }
        Ok(())
    }

    /// Registers an address, or queues a query. A legacy client is also subscribed to the transactions of an address that
    /// it registers.
    fn execute(&mut self, command: ClientCommand, context: &mut FrameContext<'_>) -> Result<(), &'static str> {
        context.units += ENTRY_UNITS;
        let FrameContext { session: id, effects, units } = context;
        match command {
            ClientCommand::Register(address) => {
                self.table.register(*id, address, *effects)?;
                if self.table.sessions.get(id).is_some_and(|session| session.is_legacy_client()) {
                    *units += ENTRY_UNITS;
                    let destination = format!("{}{address}", topics::TRANSACTIONS_OF);
                    self.table.subscribe(*id, None, &destination, None, true, *effects)?;
                }
                Ok(())
            }
            ClientCommand::Query(query) => {
                let registered = match query {
                    Item::OfAccount(AccountTopic::Account, account) => self.table.register(*id, account, *effects),
                    _ => Ok(()),
                };
                self.queue_query(query, *id);
                registered
            }
        }
    }

    fn queue_query(&mut self, query: Item, id: SessionId) {
        if let Some(session) = self.table.sessions.get_mut(&id) {
            session.queries.push_back(query);
            self.queries.add(id, &mut self.table);
        }
    }

    fn disconnect(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        let [receipt] = frame.pick(["receipt"]);
        match receipt {
            Some(receipt) => {
                context.units += units(self.table.unsubscribe(context.session, None), 1);
                self.send(context, |out| encoder::receipt(out, &receipt));
            }
            None => self.table.fail(context.session, "Session closed.", context.effects),
        }
    }

    /// Sends ERROR to the session, for a frame that asked for this receipt.
    fn send_error(&mut self, message: &str, receipt: Option<&str>, context: &mut FrameContext<'_>) {
        self.send(context, |out| encoder::error(out, message, receipt));
    }

    fn send(&mut self, context: &mut FrameContext<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        context.units += SEND_UNITS;
        self.table.send(context.session, context.effects, write);
    }
}

/// Trims a header value.
fn trimmed(value: Cow<'_, str>) -> Cow<'_, str> {
    match value {
        Cow::Borrowed(text) => Cow::Borrowed(trim(text)),
        Cow::Owned(text) => Cow::Owned(trim(&text).to_owned()),
    }
}

fn units(count: usize, per_unit: usize) -> u32 {
    u32::try_from(count / per_unit).unwrap_or(u32::MAX)
}

/// Maximum length of a payload, in bytes. Wallets send 54.
const MAX_PAYLOAD_BYTES: usize = 4 * 1024;

/// The command of a SEND to `/w/api/...`.
#[derive(Clone, Debug)]
enum ClientCommand {
    /// `account/subscribe`: registers the address.
    Register(Address),
    /// Any other: a query that is answered by messages.
    Query(Item),
}

/// Why a query fails before it is answered: the `message` on `/errors`, before it is cut.
type QueryError = Cow<'static, str>;

/// Parses a SEND to `destination`. Returns `None` if the destination is not a command.
fn parse(destination: &str, payload: &[u8], network: NetworkByte) -> Option<Result<ClientCommand, QueryError>> {
    let path = destination.strip_prefix("/w/api/")?;
    // Some clients join the prefix and a path that starts with a slash.
    let path = path.strip_prefix('/').unwrap_or(path);
    let topic = match path {
        "node/info" => return Some(Ok(ClientCommand::Query(Item::NodeInfo))),
        "block/last" => return Some(Ok(ClientCommand::Query(Item::LastBlock))),
        "account/subscribe" | "account/transfers/unconfirmed" => None,
        _ => Some(AccountTopic::of_command(path)?),
    };
    let address = account_of(payload)
        .and_then(|account| Address::parse(&account, network).ok_or(Cow::Borrowed("address must be valid")));
    Some(address.map(|address| match topic {
        Some(topic) => ClientCommand::Query(Item::OfAccount(topic, address)),
        None if path == "account/subscribe" => ClientCommand::Register(address),
        None => ClientCommand::Query(Item::unconfirmed_of(address)),
    }))
}

/// Returns the member `account` of a payload, cut and in upper case, but not yet validated.
fn account_of(payload: &[u8]) -> Result<String, QueryError> {
    const MISSING: QueryError = Cow::Borrowed("expected value for property account, but none was found");
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(format!("the payload must not be longer than {MAX_PAYLOAD_BYTES} bytes").into());
    }
    let value = lenient_json::parse(payload).unwrap_or(Value::Null);
    let described = match &value {
        Value::Object(_) => None,
        Value::Null => Some("null".into()),
        Value::String(text) => Some(Cow::Borrowed(text.as_str())),
        _ => Some(String::from_utf8_lossy(payload)),
    };
    if let Some(text) = described {
        return Err(format!("unexpected data: {}", truncate_utf16(&text, MAX_TEXT_UTF16)).into());
    }
    match value.get("account") {
        None | Some(Value::Null) => Err(MISSING),
        Some(Value::String(text)) if is_blank(text) => Err(MISSING),
        Some(Value::String(text)) => Ok(truncate_utf16(text, MAX_TEXT_UTF16).to_uppercase()),
        Some(_) => Err("property account has an incompatible value".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A1: &str = "TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR";

    fn address() -> Address {
        Address::parse(A1, NetworkByte::TESTNET).unwrap()
    }

    fn ask(destination: &str, payload: &str) -> Option<Result<ClientCommand, QueryError>> {
        parse(destination, payload.as_bytes(), NetworkByte::TESTNET)
    }

    #[test]
    fn each_destination_makes_its_query() {
        let a = address();
        let cases = [
            ("account/subscribe", ClientCommand::Register(a)),
            ("account/get", ClientCommand::Query(Item::OfAccount(AccountTopic::Account, a))),
            ("account/transfers/all", ClientCommand::Query(Item::OfAccount(AccountTopic::RecentTransfers, a))),
            ("account/transfers/unconfirmed", ClientCommand::Query(Item::unconfirmed_of(a))),
            ("account/mosaic/owned", ClientCommand::Query(Item::OfAccount(AccountTopic::Mosaics, a))),
            ("account/mosaic/owned/definition", ClientCommand::Query(Item::OfAccount(AccountTopic::Definitions, a))),
            ("account/namespace/owned", ClientCommand::Query(Item::OfAccount(AccountTopic::Namespaces, a))),
            ("node/info", ClientCommand::Query(Item::NodeInfo)),
            ("block/last", ClientCommand::Query(Item::LastBlock)),
        ];
        let payload = format!("{{'account':'{A1}'}}");
        for (path, asked) in cases {
            for prefix in ["/w/api/", "/w/api//"] {
                let found = ask(&format!("{prefix}{path}"), &payload);
                assert_eq!(format!("{found:?}"), format!("Some(Ok({asked:?}))"), "{prefix}{path}");
            }
        }
    }

    #[test]
    fn other_destinations_are_no_queries() {
        for destination in [
            "/account/transfers/unconfirmed",
            "/w/api/account/get/",
            "/w/api/account/get?x",
            "/w/api/Account/get",
            "/w/api///account/get",
            "/w/apiaccount/get",
            "/w/api/",
            "/blocks/new",
            "",
        ] {
            assert!(ask(destination, "{}").is_none(), "{destination}");
        }
    }

    #[test]
    fn the_payload_is_read_leniently() {
        for payload in [
            format!("{{'account':'{A1}'}}"),
            format!("{{\"account\":\"{A1}\"}}"),
            format!("{{account:{A1}}}"),
            format!(" {{ 'account' : '{}', 'more': [1,{{}}] }} tail", A1.to_lowercase()),
            format!("{{'account':1,'account':'{A1}'}}"),
        ] {
            let asked = ask("/w/api/account/subscribe", &payload);
            assert!(matches!(asked, Some(Ok(ClientCommand::Register(account))) if account == address()), "{payload}");
        }
    }

    #[test]
    fn payload_errors_have_the_texts_of_nis1() {
        let missing = "expected value for property account, but none was found";
        let incompatible = "property account has an incompatible value";
        let invalid = "address must be valid";
        let hyphens = "{'account':'TCOBFU-4E56PB-UI23AU-HTPKMZ-HX7FPG-X67DJP-WROR'}";
        let cases = [
            ("null", "unexpected data: null"),
            ("{", "unexpected data: null"),
            ("{'account':'TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR'", "unexpected data: null"),
            ("", "unexpected data: null"),
            ("[]", "unexpected data: []"),
            ("[1, 'a', {b:null}]", "unexpected data: [1, 'a', {b:null}]"),
            ("\"x\"", "unexpected data: x"),
            ("xyz", "unexpected data: xyz"),
            ("17", "unexpected data: 17"),
            ("true", "unexpected data: true"),
            ("{}", missing),
            ("{\"Account\":\"x\"}", missing),
            ("{'account':null}", missing),
            ("{'account':''}", missing),
            ("{'account':'  '}", missing),
            ("{'account':7}", incompatible),
            ("{'account':true}", incompatible),
            ("{'account':[]}", incompatible),
            ("{'account':{}}", incompatible),
            ("{'account':'TALICE'}", invalid),
            (hyphens, invalid),
            ("{'account':' TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR'}", invalid),
        ];
        for (payload, text) in cases {
            let error = ask("/w/api/account/get", payload).unwrap().unwrap_err();
            assert_eq!(error.to_string(), text, "{payload}");
        }
    }

    #[test]
    fn a_large_unexpected_value_has_a_short_description() {
        let payload = format!("[{}", "['aaaaaaaa',1],".repeat(280) + "]");
        let error = account_of(payload.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 2 * MAX_TEXT_UTF16);
    }

    #[test]
    fn a_long_payload_is_rejected_unread() {
        let payload = format!("{{'account':'{A1}'}}{}", " ".repeat(MAX_PAYLOAD_BYTES));
        assert_eq!(account_of(payload.as_bytes()), Err("the payload must not be longer than 4096 bytes".into()));
    }
}
