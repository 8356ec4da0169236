//! The broker: what the frames of each session do (specification 07 §6 and §12).

use std::borrow::Cow;
use std::fmt;

use super::hub::Hub;
use super::registry::{AddressText, Registry};
use super::requests::{self, Request, RequestError};
use super::session::{Agreement, Kind, Session, Subscription, trim};
use super::stomp::{Command, Decoder, Frame, encoder};
use super::{ApiRequest, BlocksNewBody, Outbox, Output, Settings, topics};

/// The topic of new heights.
const BLOCKS_NEW: &str = "/blocks/new";
/// The topic of failed requests.
const ERRORS: &str = "/errors";
/// The id of implicit subscriptions (§15, D3).
const IMPLICIT_ID: &str = "sub-0";
/// Failed requests of one websocket message that are reported on `/errors`; further ones are not,
/// because each report goes to all subscribers.
const MAX_ERRORS_PER_MESSAGE: u32 = 16;
/// Websocket close code of a session that the STOMP layer ends.
const CLOSE_PROTOCOL_ERROR: u16 = 1002;

/// What the broker has to know about the node while it handles a message.
pub trait Context {
    /// Network time in seconds since the network's epoch.
    fn network_time(&self) -> i32;
    /// Whether `text` is a valid address of the node's network in upper case without hyphens.
    fn is_address(&self, text: &str) -> bool;
}

/// The limit of open sessions is reached; close the connection or refuse the upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySessions {
    /// The limit.
    pub limit: usize,
}

impl fmt::Display for TooManySessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        write!(f, "all {limit} messaging sessions are in use")
    }
}

impl std::error::Error for TooManySessions {}

/// The one broker of a node. The caller knows its sessions by a connection id of its own choice.
///
/// The frames of a session are handled in the order of arrival, and its messages are put into the
/// outbox in the order of publication. Requests are answered by the caller, so after all frames of
/// the websocket message they came with.
#[derive(Debug)]
pub struct Broker {
    settings: Settings,
    hub: Hub,
    registry: Registry,
    /// Bytes of incomplete frames of all sessions.
    incomplete_bytes: usize,
}

/// The handling of one websocket message.
struct Turn<'a> {
    session: u64,
    context: &'a dyn Context,
    out: &'a mut Outbox,
    errors_left: u32,
}

impl Broker {
    /// A broker without sessions.
    pub fn new(settings: Settings) -> Self {
        Self {
            hub: Hub::new(settings.limits),
            registry: Registry::new(settings.limits.registered_addresses),
            incomplete_bytes: 0,
            settings,
        }
    }

    /// Starts the session of connection `session`, replacing one that was never closed.
    /// `session_name` becomes the first half of its message ids: for a raw connection 1 to 8
    /// lower-case hex digits, without padding and unique.
    pub fn open(&mut self, session: u64, session_name: String) -> Result<(), TooManySessions> {
        self.close(session);
        let limits = &self.settings.limits;
        if self.hub.session_count() >= limits.sessions {
            return Err(TooManySessions { limit: limits.sessions });
        }
        let decoder = Decoder::new(limits.frame_bytes, self.settings.forgiving);
        let state = Session::new(session_name, Kind::Raw, decoder);
        self.hub.insert(session, state);
        Ok(())
    }

    /// Handles one websocket message, text or binary. Messages of unknown and of closing sessions
    /// are ignored.
    pub fn receive(&mut self, session: u64, message: &[u8], context: &dyn Context, out: &mut Outbox) {
        let Some(state) = self.hub.session_mut(session) else {
            return;
        };
        if state.closing {
            return;
        }
        let mut decoder = std::mem::take(&mut state.decoder);
        self.incomplete_bytes -= decoder.buffered();
        decoder.feed(message);
        let mut turn = Turn { session, context, out, errors_left: MAX_ERRORS_PER_MESSAGE };
        self.handle_frames(&mut decoder, &mut turn);
        let limit = self.settings.limits.incomplete_bytes;
        if self.incomplete_bytes + decoder.buffered() > limit {
            self.end(&mut turn, "The node holds too many incomplete frames");
        }
        if let Some(state) = self.hub.session_mut(session)
            && !state.closing
        {
            self.incomplete_bytes += decoder.buffered();
            state.decoder = decoder;
        }
    }

    /// Forgets a session, whoever closed it. Unknown sessions are ignored.
    pub fn close(&mut self, session: u64) {
        if let Some(state) = self.hub.remove(session) {
            self.incomplete_bytes -= state.decoder.buffered();
        }
    }

    /// Publishes the JSON text `body`, given **without** the closing CR LF, which is added and
    /// counted, to every matching subscription. Not for `/blocks/new`: see
    /// [`publish_height`](Self::publish_height).
    pub fn publish(&mut self, destination: &str, body: &[u8], out: &mut Outbox) {
        self.hub.deliver(destination, |_| body, out);
    }

    /// Publishes `height` on `/blocks/new`, in the form [`Settings::blocks_new`] says.
    pub fn publish_height(&mut self, height: u64, out: &mut Outbox) {
        let object = format!("{{\"height\":{height}}}");
        let number = height.to_string();
        let form = self.settings.blocks_new;
        let body = |session: &Session| match form {
            BlocksNewBody::Auto if session.takes_bare_height() => number.as_bytes(),
            BlocksNewBody::Number => number.as_bytes(),
            BlocksNewBody::Auto | BlocksNewBody::Object => object.as_bytes(),
        };
        self.hub.deliver(BLOCKS_NEW, body, out);
    }

    /// Publishes a failed request on `/errors` (§9.13), for requests that fail while they are
    /// answered. `network_time` is in seconds.
    pub fn publish_error(&mut self, message: Option<&str>, network_time: i32, out: &mut Outbox) {
        if self.wanted(ERRORS) {
            let body = requests::error_body(message, network_time);
            self.publish(ERRORS, &body, out);
        }
    }

    /// Whether anybody is subscribed to `destination`, so that its body is worth computing.
    pub fn wanted(&self, destination: &str) -> bool {
        self.hub.wanted(destination)
    }

    /// Whether anybody has registered `address` (§11).
    pub fn is_registered(&self, address: &AddressText) -> bool {
        self.registry.contains(address)
    }

    fn handle_frames(&mut self, decoder: &mut Decoder, turn: &mut Turn<'_>) {
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => self.handle(&frame, turn),
                Ok(None) => return,
                Err(error) if error.is_fatal() => self.end(turn, &error.to_string()),
                Err(error) => self.error(turn, &error.to_string()),
            }
            let state = self.hub.session(turn.session);
            if state.is_none_or(|state| state.closing) {
                decoder.clear();
                return;
            }
        }
    }

    fn handle(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        match frame.command() {
            Command::Connect | Command::Stomp => self.connect(frame, turn),
            Command::Subscribe => self.subscribe(frame, turn),
            Command::Unsubscribe => self.unsubscribe(frame, turn),
            Command::Send => self.request(frame, turn),
            Command::Disconnect => self.disconnect(frame, turn),
            // Transactions and acknowledgements mean nothing here, and a client that sends
            // server frames publishes nothing.
            Command::Ack
            | Command::Nack
            | Command::Begin
            | Command::Commit
            | Command::Abort
            | Command::Connected
            | Command::Receipt
            | Command::Message
            | Command::Error => {}
        }
    }

    fn connect(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        let versions = self.header(frame, "accept-version");
        let forgiving = self.settings.forgiving;
        let Some(state) = self.hub.session_mut(turn.session) else {
            return;
        };
        match state.connect(versions.as_deref(), forgiving) {
            Agreement::Version(version) => {
                self.hub.send(turn.session, turn.out, |out| encoder::connected(out, version));
            }
            Agreement::Silence => {}
            Agreement::Unsupported => {
                self.end(turn, "Supported protocol versions are 1.0, 1.1, 1.2");
            }
        }
    }

    fn subscribe(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        let id = self.header(frame, "id");
        if let Some(destination) = self.header(frame, "destination")
            && topics::is_broker_destination(&destination)
            && (id.is_some() || self.settings.forgiving)
        {
            self.hub.unsubscribe(turn.session, |held| held.is_implicit);
            let id = id.map(Cow::into_owned);
            let id = id.unwrap_or_else(|| self.generate_id(turn.session));
            let subscription = Subscription::explicit(id, destination.to_string());
            if let Err(error) = self.hub.subscribe(turn.session, subscription) {
                return self.error(turn, &error.to_string());
            }
            self.register_subscribed(&destination, turn.context);
        }
        self.acknowledge(frame, turn);
    }

    fn generate_id(&mut self, session: u64) -> String {
        let state = self.hub.session_mut(session);
        state.map(Session::generate_id).unwrap_or_default()
    }

    /// D2: a subscription to an address's topic registers the address, as far as there is room.
    fn register_subscribed(&mut self, destination: &str, context: &dyn Context) {
        if self.settings.register_on_subscribe
            && let Some(text) = topics::registering_address(destination)
            && let Some(address) = requests::checked_address(text, |text| context.is_address(text))
        {
            self.registry.add(address);
        }
    }

    fn unsubscribe(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        if let Some(id) = self.header(frame, "id") {
            self.hub.unsubscribe(turn.session, |held| held.id == id);
        }
        self.acknowledge(frame, turn);
    }

    /// SEND. Only requests do anything; what is sent to a topic is dropped, so that no client can
    /// forge a publication (§6.4).
    fn request(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        let destination = self.header(frame, "destination");
        let is_address = |text: &str| turn.context.is_address(text);
        let request = destination.and_then(|destination| requests::parse(&destination, frame.body(), is_address));
        match request {
            Some(Ok(request)) => self.execute(request, turn),
            Some(Err(error)) => self.report(&error, turn),
            None => {}
        }
        self.acknowledge(frame, turn);
    }

    fn execute(&mut self, request: Request, turn: &mut Turn<'_>) {
        match request {
            Request::Subscribe(address) => {
                if self.registry.add(address) {
                    self.subscribe_implicitly(&address, turn.session);
                } else {
                    self.report(&RequestError::RegistryFull, turn);
                }
            }
            Request::Api(request) => {
                if let ApiRequest::AccountGet(address) = &request {
                    self.registry.add(*address);
                }
                turn.out.push(Output::Request { session: turn.session, request });
            }
        }
    }

    /// D3: a session that subscribes to nothing itself gets the transactions of the addresses it
    /// registers, as far as there is room.
    fn subscribe_implicitly(&mut self, address: &AddressText, session: u64) {
        let state = self.hub.session(session);
        if !self.settings.implicit_subscription || state.is_none_or(Session::has_explicit) {
            return;
        }
        let subscription = Subscription {
            id: IMPLICIT_ID.to_owned(),
            destination: format!("/transactions/{}", String::from_utf8_lossy(address)),
            is_implicit: true,
        };
        // Without room the session is only not given what it did not ask for in so many words.
        let _ = self.hub.subscribe(session, subscription);
    }

    fn disconnect(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        match frame.header("receipt") {
            Some(receipt) => {
                self.hub.unsubscribe(turn.session, |_| true);
                self.hub.send(turn.session, turn.out, |out| encoder::receipt(out, &receipt));
            }
            None => self.end(turn, "Session closed."),
        }
    }

    /// D4: RECEIPT for a processed SUBSCRIBE, UNSUBSCRIBE or SEND that asks for one.
    fn acknowledge(&mut self, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        if self.settings.forgiving
            && let Some(receipt) = frame.header("receipt")
        {
            self.hub.send(turn.session, turn.out, |out| encoder::receipt(out, &receipt));
        }
    }

    fn report(&mut self, error: &RequestError, turn: &mut Turn<'_>) {
        if let Some(left) = turn.errors_left.checked_sub(1) {
            turn.errors_left = left;
            let time = turn.context.network_time();
            self.publish_error(Some(&error.to_string()), time, turn.out);
        }
    }

    fn error(&mut self, turn: &mut Turn<'_>, message: &str) {
        self.hub.send(turn.session, turn.out, |out| encoder::error(out, message));
    }

    /// Ends the session of this turn: ERROR, then close.
    fn end(&mut self, turn: &mut Turn<'_>, message: &str) {
        self.error(turn, message);
        self.hub.unsubscribe(turn.session, |_| true);
        if let Some(state) = self.hub.session_mut(turn.session) {
            state.closing = true;
            turn.out.push(Output::Close { session: turn.session, code: CLOSE_PROTOCOL_ERROR, reason: String::new() });
        }
    }

    /// A header that may be surrounded by blanks (§15, D4).
    fn header<'f>(&self, frame: &Frame<'f>, name: &str) -> Option<Cow<'f, str>> {
        let value = frame.header(name)?;
        if !self.settings.forgiving {
            return Some(value);
        }
        Some(match value {
            Cow::Borrowed(text) => Cow::Borrowed(trim(text)),
            Cow::Owned(text) => Cow::Owned(trim(&text).to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::Limits;
    use proptest::prelude::*;

    const A1: &str = "TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR";
    const A2: &str = "TA5546P7LQXTULS6U6WNTBOJV5MGKHLLEG3EQ4AV";

    struct Node;

    impl Context for Node {
        fn network_time(&self) -> i32 {
            367_575_434
        }

        fn is_address(&self, text: &str) -> bool {
            [A1, A2].contains(&text)
        }
    }

    fn address(text: &str) -> AddressText {
        text.as_bytes().try_into().unwrap()
    }

    /// A broker with two raw sessions, 1 and 2, and what it wants done.
    struct Bench {
        broker: Broker,
        out: Outbox,
    }

    impl Bench {
        fn new(settings: Settings) -> Self {
            let mut broker = Broker::new(settings);
            broker.open(1, "1c884f9d".to_owned()).unwrap();
            broker.open(2, "2".to_owned()).unwrap();
            let out = Outbox::new();
            Self { broker, out }
        }

        fn strict() -> Self {
            Self::new(Settings { forgiving: false, ..Settings::default() })
        }

        /// Hands in a message and returns what came out, as text.
        fn receive(&mut self, session: u64, message: &str) -> Vec<String> {
            let bytes = message.as_bytes();
            self.broker.receive(session, bytes, &Node, &mut self.out);
            self.drain()
        }

        fn publish(&mut self, topic: &str, json: &str) -> Vec<String> {
            self.broker.publish(topic, json.as_bytes(), &mut self.out);
            self.drain()
        }

        fn height(&mut self, height: u64) -> Vec<String> {
            self.broker.publish_height(height, &mut self.out);
            self.drain()
        }

        fn drain(&mut self) -> Vec<String> {
            let mut all = Vec::new();
            while let Some(output) = self.out.pop() {
                all.push(match output {
                    Output::Send { session, frame } => {
                        format!("{session} {}", String::from_utf8(frame).unwrap())
                    }
                    Output::Close { session, code, .. } => format!("{session} close {code}"),
                    Output::Request { session, request } => format!("{session} {request:?}"),
                });
            }
            all
        }
    }

    impl Default for Bench {
        fn default() -> Self {
            Self::new(Settings::default())
        }
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn a_client_without_headers_sees_exactly_what_the_interface_text_shows() {
        let mut bench = Bench::default();
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
        let subscribe = "SUBSCRIBE\nid:sub-0\ndestination:/blocks/new\n\n\0";
        assert_eq!(bench.receive(1, subscribe), NOTHING);
        assert_eq!(
            bench.height(77),
            ["1 MESSAGE\ndestination:/blocks/new\nsubscription:sub-0\nmessage-id:1c884f9d-0\n\
                 content-length:4\n\n77\r\n\0"]
        );
    }

    #[test]
    fn a_stomp_library_gets_the_height_as_an_object() {
        let mut bench = Bench::default();
        let connect = "CONNECT\naccept-version:1.1,1.0\nheart-beat:10000,10000\n\n\0";
        assert_eq!(bench.receive(1, connect), ["1 CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0"]);
        bench.receive(1, "SUBSCRIBE\nid:sub-0\ndestination:/blocks/new\n\n\0");
        assert_eq!(
            bench.height(2),
            ["1 MESSAGE\ndestination:/blocks/new\nsubscription:sub-0\nmessage-id:1c884f9d-0\n\
                 content-length:14\n\n{\"height\":2}\r\n\0"]
        );
    }

    #[test]
    fn the_form_of_the_height_can_be_fixed() {
        for (form, body) in
            [(BlocksNewBody::Object, "\n\n{\"height\":7}\r\n\0"), (BlocksNewBody::Number, "\n\n7\r\n\0")]
        {
            for connect in ["CONNECT\n\n\0", "STOMP\naccept-version:1.2\n\n\0"] {
                let mut bench = Bench::new(Settings { blocks_new: form, ..Settings::default() });
                bench.receive(1, connect);
                bench.receive(1, "SUBSCRIBE\nid:1\ndestination:/blocks/*\n\n\0");
                let sent = bench.height(7);
                assert!(sent.len() == 1 && sent[0].ends_with(body), "{sent:?}");
            }
        }
    }

    #[test]
    fn unknown_versions_are_ignored_or_refused() {
        let connect = "CONNECT\naccept-version:1.3\n\n\0CONNECT\n\n\0";
        assert_eq!(Bench::strict().receive(1, connect), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
        assert_eq!(
            Bench::default().receive(1, connect),
            [
                "1 ERROR\nmessage:Supported protocol versions are 1.0, 1.1, 1.2\n\
                 content-length:0\n\n\0",
                "1 close 1002"
            ]
        );
    }

    #[test]
    fn escaped_subscription_ids_come_back_as_they_were_sent() {
        let mut bench = Bench::default();
        bench.receive(1, "SUBSCRIBE\nid:a\\cb\\nc\\\\d\ndestination:/blocks\n\n\0");
        let sent = bench.publish("/blocks", "{}");
        assert!(sent[0].contains("\nsubscription:a\\cb\\nc\\\\d\n"), "{sent:?}");
    }

    #[test]
    fn subscriptions_are_pairs_of_id_and_destination() {
        let mut bench = Bench::default();
        for (id, destination) in [("a", "/blocks"), ("a", "/blocks"), ("b", "/blocks"), ("a", "/errors")] {
            bench.receive(1, &format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\n\n\0"));
        }
        assert_eq!(bench.publish("/blocks", "{}").len(), 2);
        bench.receive(1, "UNSUBSCRIBE\nid:undefined\n\n\0UNSUBSCRIBE\n\n\0");
        assert!(bench.broker.wanted("/errors"));
        bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
        assert_eq!(bench.publish("/blocks", "{}").len(), 1);
        assert!(!bench.broker.wanted("/errors"));
    }

    #[test]
    fn useless_subscriptions_are_ignored() {
        let mut bench = Bench::strict();
        for head in [
            "id:a\ndestination:/w/api/account/get",
            "id:a\ndestination:/user/errors",
            "id:a\ndestination: /blocks",
            "id:a",
            "destination:/blocks",
        ] {
            assert_eq!(bench.receive(1, &format!("SUBSCRIBE\n{head}\n\n\0")), NOTHING);
        }
        assert_eq!(bench.publish("/blocks", "{}"), NOTHING);
    }

    #[test]
    fn forgiving_input_is_understood() {
        let mut bench = Bench::default();
        let subscribe = "SUBSCRIBE\ndestination: /blocks \nreceipt:r:1\n\n\0";
        assert_eq!(bench.receive(1, subscribe), ["1 RECEIPT\nreceipt-id:r\\c1\n\n\0"]);
        let sent = bench.publish("/blocks", "{}");
        assert!(sent[0].contains("\nsubscription:sub-0\n"), "{sent:?}");
        let unsubscribe = "UNSUBSCRIBE\nid: sub-0\nreceipt:2\n\n\0SEND\nreceipt:3\n\n\0";
        assert_eq!(bench.receive(1, unsubscribe), ["1 RECEIPT\nreceipt-id:2\n\n\0", "1 RECEIPT\nreceipt-id:3\n\n\0"]);
        assert!(!bench.broker.wanted("/blocks"));
        assert_eq!(Bench::strict().receive(1, subscribe), NOTHING);
    }

    #[test]
    fn disconnect_with_receipt_leaves_the_connection_to_the_client() {
        let mut bench = Bench::default();
        bench.receive(1, "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0");
        assert_eq!(bench.receive(1, "DISCONNECT\nreceipt:close-1\n\n\0"), ["1 RECEIPT\nreceipt-id:close-1\n\n\0"]);
        assert!(!bench.broker.wanted("/blocks"));
        bench.receive(1, "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0");
        assert!(bench.broker.wanted("/blocks"));
    }

    #[test]
    fn disconnect_without_receipt_ends_the_session() {
        let mut bench = Bench::default();
        bench.receive(1, "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0");
        assert_eq!(
            bench.receive(1, "DISCONNECT\n\n\0CONNECT\n\n\0"),
            ["1 ERROR\nmessage:Session closed.\ncontent-length:0\n\n\0", "1 close 1002"]
        );
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
        assert_eq!(bench.publish("/blocks", "{}"), NOTHING);
        bench.broker.close(1);
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
    }

    #[test]
    fn closing_the_socket_ends_the_subscriptions() {
        let mut bench = Bench::default();
        bench.receive(1, "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0");
        bench.broker.close(1);
        assert!(!bench.broker.wanted("/blocks"));
    }

    #[test]
    fn an_undecodable_frame_is_answered_and_the_session_goes_on() {
        let mut bench = Bench::default();
        assert_eq!(
            bench.receive(1, "SEND\nbad\n\n\0CONNECT\n\n\0"),
            ["1 ERROR\nmessage:Illegal header\\c 'bad'. A header must be of the form \
                 <name>\\c[<value>].\ncontent-length:0\n\n\0"]
        );
        assert_eq!(bench.receive(1, "\n"), NOTHING);
        assert_eq!(bench.receive(1, "CONNECT\n\n\0").len(), 1);
    }

    #[test]
    fn frames_beyond_the_limit_end_the_session() {
        let mut bench = Bench::default();
        assert_eq!(
            bench.receive(1, "SEND\ncontent-length:70000\n\n"),
            [
                "1 ERROR\nmessage:STOMP 'content-length' header value 70000  exceeds configured \
                 buffer size limit 65536\ncontent-length:0\n\n\0",
                "1 close 1002"
            ]
        );
        let half = "x".repeat(40_000);
        assert_eq!(bench.receive(2, &half), NOTHING);
        assert_eq!(bench.receive(2, &half)[1..], ["2 close 1002"]);
        assert_eq!(bench.broker.incomplete_bytes, 0);
    }

    #[test]
    fn clients_cannot_publish() {
        let mut bench = Bench::default();
        bench.receive(2, "SUBSCRIBE\nid:a\ndestination:/blocks/new\n\n\0");
        for command in ["SEND", "MESSAGE"] {
            let forged = format!("{command}\ndestination:/blocks/new\n\n{{\"height\":9}}\0");
            assert_eq!(bench.receive(1, &forged), NOTHING);
        }
        let ignored = "ACK\nid:1\n\n\0NACK\n\n\0BEGIN\n\n\0COMMIT\n\n\0ABORT\n\n\0\
                       CONNECTED\n\n\0RECEIPT\n\n\0ERROR\n\nx\0";
        assert_eq!(bench.receive(1, ignored), NOTHING);
    }

    fn send(path: &str, account: &str) -> String {
        format!("SEND\ndestination:/w/api/{path}\n\n{{'account':'{account}'}}\0")
    }

    #[test]
    fn requests_are_handed_out_and_only_two_of_them_register() {
        let mut bench = Bench::default();
        assert_eq!(bench.receive(1, &send("account/mosaic/owned", A1)).len(), 1);
        assert!(!bench.broker.is_registered(&address(A1)));
        let get = bench.receive(1, &send("account/get", A1));
        assert!(get.len() == 1 && get[0].starts_with("1 AccountGet("), "{get:?}");
        assert!(bench.broker.is_registered(&address(A1)));
        assert_eq!(bench.receive(1, &send("account/subscribe", A2)), NOTHING);
        assert!(bench.broker.is_registered(&address(A2)));
        assert_eq!(bench.receive(1, "SEND\ndestination:/w/api//block/last\n\nignored\0"), ["1 LastBlock"]);
    }

    #[test]
    fn failed_requests_are_reported_to_all_subscribers_of_errors() {
        let mut bench = Bench::default();
        assert_eq!(bench.receive(1, &send("account/get", "TALICE")), NOTHING);
        bench.receive(2, "SUBSCRIBE\nid:sub-0\ndestination:/errors\n\n\0");
        assert_eq!(
            bench.receive(1, &send("account/get", "TALICE")),
            ["2 MESSAGE\ndestination:/errors\nsubscription:sub-0\nmessage-id:2-0\n\
                 content-length:94\n\n{\"timeStamp\":367575434,\"error\":\"Bad Request\",\
                 \"message\":\"address must be valid\",\"status\":400}\r\n\0"]
        );
        bench.broker.publish_error(None, 1, &mut bench.out);
        assert!(bench.drain()[0].contains("\"message\":null"));
    }

    #[test]
    fn one_message_causes_a_limited_number_of_reports() {
        let mut bench = Bench::default();
        bench.receive(2, "SUBSCRIBE\nid:sub-0\ndestination:/errors\n\n\0");
        let many = send("account/get", "TALICE").repeat(100);
        assert_eq!(bench.receive(1, &many).len(), 16);
        assert_eq!(bench.receive(1, &send("account/get", "TALICE")).len(), 1);
    }

    #[test]
    fn subscribing_to_an_address_registers_it() {
        for topic in ["transactions", "unconfirmed", "account"] {
            let subscribe = format!("SUBSCRIBE\nid:a\ndestination:/{topic}/{A1}\n\n\0");
            for register_on_subscribe in [false, true] {
                let mut bench = Bench::new(Settings { register_on_subscribe, ..Settings::default() });
                assert_eq!(bench.receive(1, &subscribe), NOTHING);
                let registered = bench.broker.is_registered(&address(A1));
                assert_eq!(registered, register_on_subscribe);
            }
        }
        let mut bench = Bench::default();
        bench.receive(1, &format!("SUBSCRIBE\nid:a\ndestination:/recenttransactions/{A1}\n\n\0"));
        assert!(!bench.broker.is_registered(&address(A1)));
    }

    #[test]
    fn account_subscribe_alone_delivers_transactions_until_the_first_subscribe() {
        let mut bench = Bench::default();
        bench.receive(1, &send("account/subscribe", A1));
        bench.receive(1, &send("account/subscribe", A1));
        bench.receive(1, &send("account/subscribe", A2));
        let topic = format!("/transactions/{A1}");
        let sent = bench.publish(&topic, "{}");
        assert!(sent.len() == 1 && sent[0].contains("\nsubscription:sub-0\n"), "{sent:?}");
        bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/w/api/account/subscribe\n\n\0");
        assert!(bench.broker.wanted(&topic));
        bench.receive(1, "SUBSCRIBE\ndestination:/blocks\n\n\0");
        assert!(!bench.broker.wanted(&topic));
        bench.receive(1, &send("account/subscribe", A1));
        assert!(!bench.broker.wanted(&topic));
        let sent = bench.publish("/blocks", "{}");
        assert!(sent[0].contains("\nsubscription:sub-0\n"), "{sent:?}");
    }

    #[test]
    fn implicit_subscriptions_can_be_switched_off() {
        let mut bench = Bench::new(Settings { implicit_subscription: false, ..Settings::default() });
        bench.receive(1, &send("account/subscribe", A1));
        assert!(!bench.broker.wanted(&format!("/transactions/{A1}")));
        assert!(bench.broker.is_registered(&address(A1)));
    }

    #[test]
    fn the_frames_of_a_message_are_handled_in_order_and_answers_follow() {
        let mut bench = Bench::default();
        let frames = format!(
            "SUBSCRIBE\nid:a\ndestination:/account/{A1}\nreceipt:1\n\n\0{}UNSUBSCRIBE\nid:a\n\
             receipt:2\n\n\0SUBSCRIBE\nid:b\ndestination:/account/{A1}\n\n\0",
            send("account/get", A1)
        );
        let out = bench.receive(1, &frames);
        assert_eq!(out.len(), 3);
        assert!(out[0].starts_with("1 RECEIPT") && out[1].starts_with("1 AccountGet"));
        let sent = bench.publish(&format!("/account/{A1}"), "{}");
        assert!(sent.len() == 1 && sent[0].contains("\nsubscription:b\n"), "{sent:?}");
    }

    #[test]
    fn each_session_gets_its_messages_in_the_order_of_publication() {
        let mut bench = Bench::default();
        for session in [1, 2] {
            bench.receive(session, "SUBSCRIBE\nid:a\ndestination:/**\n\n\0");
            bench.receive(session, "SUBSCRIBE\nid:a\ndestination:/blocks/**\n\n\0");
        }
        for height in 0..50 {
            bench.broker.publish_height(height, &mut bench.out);
            let body = format!("block {height}");
            bench.broker.publish("/blocks", body.as_bytes(), &mut bench.out);
        }
        let sent = bench.drain();
        for session in ["1 ", "2 "] {
            let own = sent.iter().filter(|text| text.starts_with(session));
            let bodies = own.map(|text| text.rsplit("\n\n").next().unwrap());
            let expected = (0..50).flat_map(|height| {
                let (number, block) = (format!("{height}\r\n\0"), format!("block {height}\r\n\0"));
                [number, block]
            });
            assert!(bodies.eq(expected));
        }
        let number = |text: &String| {
            let id = text.split("message-id:").nth(1).unwrap();
            let id = id.split('\n').next().unwrap();
            id.rsplit('-').next().unwrap().parse::<usize>().unwrap()
        };
        assert!(sent.iter().map(number).eq(0..200));
    }

    #[test]
    fn sessions_are_limited_and_their_ids_can_be_used_again() {
        let mut bench =
            Bench::new(Settings { limits: Limits { sessions: 2, ..Limits::default() }, ..Settings::default() });
        let refused = bench.broker.open(3, "3".to_owned());
        assert_eq!(refused, Err(TooManySessions { limit: 2 }));
        bench.receive(1, "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0");
        bench.broker.open(1, "4".to_owned()).unwrap();
        assert!(!bench.broker.wanted("/blocks"));
        bench.broker.close(1);
        bench.broker.open(3, "3".to_owned()).unwrap();
    }

    #[test]
    fn a_subscription_too_many_is_refused_and_the_session_goes_on() {
        let mut bench = Bench::default();
        for id in 0..1_000 {
            let subscribe = format!("SUBSCRIBE\nid:{id}\ndestination:/blocks\n\n\0");
            assert_eq!(bench.receive(1, &subscribe), NOTHING);
        }
        assert_eq!(
            bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/blocks\nreceipt:1\n\n\0"),
            ["1 ERROR\nmessage:The session has too many subscriptions, unsubscribe first\n\
                 content-length:0\n\n\0"]
        );
        assert_eq!(bench.publish("/blocks", "{}").len(), 1_000);
    }

    #[test]
    fn a_full_registry_is_reported() {
        let mut bench = Bench::new(Settings {
            limits: Limits { registered_addresses: 1, ..Limits::default() },
            ..Settings::default()
        });
        bench.receive(2, "SUBSCRIBE\nid:sub-0\ndestination:/errors\n\n\0");
        assert_eq!(bench.receive(1, &send("account/subscribe", A1)), NOTHING);
        let sent = bench.receive(1, &send("account/subscribe", A2));
        assert!(sent[0].contains("cannot register further"), "{sent:?}");
        assert_eq!(bench.receive(1, &send("account/get", A2)).len(), 1);
    }

    #[test]
    fn incomplete_frames_of_all_sessions_have_a_common_limit() {
        let mut bench = Bench::new(Settings {
            limits: Limits { incomplete_bytes: 100, ..Limits::default() },
            ..Settings::default()
        });
        let part = "x".repeat(60);
        assert_eq!(bench.receive(1, &part), NOTHING);
        assert_eq!(
            bench.receive(2, &part),
            [
                "2 ERROR\nmessage:The node holds too many incomplete frames\n\
                 content-length:0\n\n\0",
                "2 close 1002"
            ]
        );
        bench.broker.close(1);
        bench.broker.close(2);
        assert_eq!(bench.broker.incomplete_bytes, 0);
    }

    /// Pieces of which many make valid frames.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let frames = vec![
            "CONNECT\n\n\0".to_owned(),
            "CONNECT\naccept-version:1.2\n\n\0".to_owned(),
            "SUBSCRIBE\nid:a\ndestination:/errors\n\n\0".to_owned(),
            "SUBSCRIBE\nid:b\ndestination:/**\n\n\0".to_owned(),
            "SUBSCRIBE\ndestination:/blocks/new\n\n\0".to_owned(),
            "UNSUBSCRIBE\nid:a\n\n\0".to_owned(),
            "DISCONNECT\nreceipt:1\n\n\0".to_owned(),
            send("account/subscribe", A1),
            send("account/get", "x"),
            "SEND\ncontent-length:9\n\n".to_owned(),
        ];
        prop_oneof![
            4 => prop::sample::select(frames).prop_map(String::into_bytes),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    proptest! {
        #[test]
        fn any_input_leaves_the_books_in_order(
            messages in prop::collection::vec((1..3u64, prop::collection::vec(piece(), 0..4)), 0..40)
        ) {
            let mut bench = Bench::default();
            for (session, pieces) in messages {
                bench.broker.receive(session, &pieces.concat(), &Node, &mut bench.out);
                bench.broker.publish_height(1, &mut bench.out);
                prop_assert!(bench.drain().len() < 200);
            }
            let buffered = [1, 2].map(|id| bench.broker.hub.session(id).unwrap().decoder.buffered());
            prop_assert_eq!(bench.broker.incomplete_bytes, buffered.iter().sum::<usize>());
            bench.broker.close(1);
            bench.broker.close(2);
            prop_assert_eq!(bench.broker.incomplete_bytes, 0);
            prop_assert!(!bench.broker.wanted("/errors") && !bench.broker.wanted("/blocks/new"));
        }
    }
}
