//! Execution of the client's frames.

use std::borrow::Cow;

use super::answering::tell_error;
use super::broker::Broker;
use super::query::{self, Asked};
use super::registry::Reason;
use super::session::{Agreement, trim};
use super::stomp::{Command, DecodeError, Frame, encoder};
use super::{Query, SessionId, topics};
use crate::model::{Address, Timestamp};
use crate::net::machine::Effects;

/// Work units after which the rest of a message waits for the next turn of its client.
pub const UNITS_PER_CALL: u32 = 100;
/// Bytes of frames read per work unit.
const BYTES_PER_UNIT: usize = 100;
/// Bytes of payload read per work unit.
const PAYLOAD_BYTES_PER_UNIT: usize = 20;
/// Work units for a subscription, a registration or a queued query.
const ENTRY_UNITS: u32 = 2;
/// Work units for a sent frame.
const SEND_UNITS: u32 = 1;

/// Context for handling some frames of one session.
pub struct Hand<'a> {
    /// The session.
    pub session: SessionId,
    /// Network time.
    pub time: Timestamp,
    /// Receives the outgoing frames.
    pub effects: &'a mut dyn Effects,
    /// Work units used so far.
    pub units: u32,
}

impl Broker {
    /// Handles one frame.
    pub(super) fn handle(&mut self, frame: &Frame<'_>, hand: &mut Hand<'_>) {
        hand.units += 1 + units(frame.size(), BYTES_PER_UNIT);
        match frame.command() {
            Command::Connect | Command::Stomp => self.connect(frame, hand),
            Command::Subscribe => self.subscribe(frame, hand),
            Command::Unsubscribe => self.unsubscribe(frame, hand),
            Command::Send => self.asked(frame, hand),
            Command::Disconnect => self.disconnect(frame, hand),
            // Transactions and acknowledgements have no function here, and server frames from a client publish nothing.
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

    /// Handles a decoding error: closes the session if the error is fatal, and reports it otherwise.
    pub(super) fn refuse(&mut self, error: &DecodeError, hand: &mut Hand<'_>) {
        hand.units += SEND_UNITS;
        if error.is_fatal() {
            self.hub.end(hand.session, &error.to_string(), hand.effects);
        } else {
            self.tell(&error.to_string(), hand);
        }
    }

    fn connect(&mut self, frame: &Frame<'_>, hand: &mut Hand<'_>) {
        let versions = frame.header("accept-version").map(|value| self.read_value(value));
        let forgiving = self.settings.forgiving;
        let Some(session) = self.hub.session_mut(hand.session) else { return };
        match session.connect(versions.as_deref(), forgiving) {
            Agreement::Version(version) => {
                hand.units += SEND_UNITS;
                self.hub.send(hand.session, hand.effects, |out| encoder::connected(out, version));
            }
            Agreement::Silence => {}
            Agreement::Unsupported => {
                self.hub.end(hand.session, "Supported protocol versions are 1.0, 1.1, 1.2", hand.effects);
            }
        }
    }

    fn subscribe(&mut self, frame: &Frame<'_>, hand: &mut Hand<'_>) {
        let [id, destination, receipt] = frame.pick(["id", "destination", "receipt"]);
        let [id, destination] = [id, destination].map(|value| value.map(|value| self.read_value(value)));
        if let Some(destination) = destination
            && topics::is_broker_destination(&destination)
            && (id.is_some() || self.settings.forgiving)
        {
            hand.units += ENTRY_UNITS;
            let address = self.registered_by(&destination);
            let subscribed = self.hub.subscribe(hand.session, id.as_deref(), &destination, address, hand.effects);
            if let Err(refused) = subscribed {
                return self.tell(&refused.to_string(), hand);
            }
        }
        self.acknowledge(receipt, hand);
    }

    /// Returns the address that a subscription to `destination` registers.
    fn registered_by(&self, destination: &str) -> Option<Address> {
        let text = topics::registering_address(destination).filter(|_| self.settings.register_on_subscribe)?;
        // Nothing is published under any other spelling of an address.
        Address::parse(text, self.network).filter(|address| address.as_str() == text)
    }

    fn unsubscribe(&mut self, frame: &Frame<'_>, hand: &mut Hand<'_>) {
        let [id, receipt] = frame.pick(["id", "receipt"]);
        if let Some(id) = id.map(|value| self.read_value(value)) {
            hand.units += units(self.hub.unsubscribe(hand.session, &id), 1);
        }
        self.acknowledge(receipt, hand);
    }

    /// Handles SEND. Only queries have an effect; messages to topics are dropped, so that no client can forge a
    /// publication.
    fn asked(&mut self, frame: &Frame<'_>, hand: &mut Hand<'_>) {
        let [destination, receipt] = frame.pick(["destination", "receipt"]);
        let destination = destination.map(|value| self.read_value(value));
        match destination.and_then(|destination| query::parse(&destination, frame.body(), self.network)) {
            Some(Ok(asked)) => {
                hand.units += ENTRY_UNITS + units(frame.body().len(), PAYLOAD_BYTES_PER_UNIT);
                self.execute(asked, hand);
            }
            Some(Err(error)) => {
                hand.units += units(frame.body().len(), PAYLOAD_BYTES_PER_UNIT);
                self.tell_errors(&error.to_string(), hand);
            }
            None => {}
        }
        self.acknowledge(receipt, hand);
    }

    fn execute(&mut self, asked: Asked, hand: &mut Hand<'_>) {
        let registered = match asked {
            Asked::Registration(address) => self.register(address, hand),
            Asked::Answer(query) => {
                let registered = match query {
                    Query::Account(address) => self.hub.register(hand.session, address, Reason::Query, hand.effects),
                    _ => Ok(()),
                };
                if let Some(session) = self.hub.session_mut(hand.session) {
                    session.queries.push_back(query);
                    self.answering.enter(session.payer, hand.session);
                }
                registered
            }
        };
        if let Err(refused) = registered {
            self.tell_errors(&refused.to_string(), hand);
        }
    }

    /// Registers an address. A legacy client is also subscribed to the address's transactions.
    fn register(&mut self, address: Address, hand: &mut Hand<'_>) -> Result<(), super::hub::Refused> {
        self.hub.register(hand.session, address, Reason::Query, hand.effects)?;
        let is_bare = self.hub.session(hand.session).is_some_and(|session| session.is_bare());
        if is_bare && self.settings.implicit_subscription {
            hand.units += ENTRY_UNITS;
            self.hub.subscribe_implicitly(hand.session, &address, hand.effects)?;
        }
        Ok(())
    }

    fn disconnect(&mut self, frame: &Frame<'_>, hand: &mut Hand<'_>) {
        match frame.header("receipt") {
            Some(receipt) => {
                hand.units += SEND_UNITS + units(self.hub.unsubscribe_all(hand.session), 1);
                self.hub.send(hand.session, hand.effects, |out| encoder::receipt(out, &receipt));
            }
            None => self.hub.end(hand.session, "Session closed.", hand.effects),
        }
    }

    /// Sends the RECEIPT that a processed SUBSCRIBE, UNSUBSCRIBE or SEND asks for, if the settings are lenient.
    fn acknowledge(&mut self, receipt: Option<Cow<'_, str>>, hand: &mut Hand<'_>) {
        if self.settings.forgiving
            && let Some(receipt) = receipt
        {
            hand.units += SEND_UNITS;
            self.hub.send(hand.session, hand.effects, |out| encoder::receipt(out, &receipt));
        }
    }

    /// Sends ERROR to the session.
    fn tell(&mut self, message: &str, hand: &mut Hand<'_>) {
        hand.units += SEND_UNITS;
        self.hub.send(hand.session, hand.effects, |out| encoder::error(out, message));
    }

    /// Sends an error message to the session on `/errors`.
    fn tell_errors(&mut self, message: &str, hand: &mut Hand<'_>) {
        hand.units += SEND_UNITS;
        tell_error(hand.session, message, hand.time, &mut self.hub, &self.pool, hand.effects);
    }

    /// Returns a header value, trimmed if the settings are lenient.
    fn read_value<'f>(&self, value: Cow<'f, str>) -> Cow<'f, str> {
        if !self.settings.forgiving {
            return value;
        }
        match value {
            Cow::Borrowed(text) => Cow::Borrowed(trim(text)),
            Cow::Owned(text) => Cow::Owned(trim(&text).to_owned()),
        }
    }
}

fn units(count: usize, per_unit: usize) -> u32 {
    u32::try_from(count / per_unit).unwrap_or(u32::MAX)
}
