//! Execution of the client's frames.

use std::borrow::Cow;

use super::broker::Broker;
use super::query::{self, ClientCommand};
use super::query_scheduler::send_error;
use super::registry::Reason;
use super::session::{ConnectResponse, trim};
use super::stomp::{Command, DecodeError, Frame, encoder};
use super::{Query, SessionId, topics};
use crate::model::{Address, Timestamp};
use crate::net::service::Effects;

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
pub struct FrameContext<'a> {
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
    pub(super) fn handle(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        context.units += 1 + units(frame.size(), BYTES_PER_UNIT);
        match frame.command() {
            Command::Connect | Command::Stomp => self.connect(frame, context),
            Command::Subscribe => self.subscribe(frame, context),
            Command::Unsubscribe => self.unsubscribe(frame, context),
            Command::Send => self.send_command(frame, context),
            Command::Disconnect => self.disconnect(frame, context),
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
    pub(super) fn on_decode_error(&mut self, error: &DecodeError, context: &mut FrameContext<'_>) {
        context.units += SEND_UNITS;
        if error.is_fatal() {
            self.session_table.fail(context.session, &error.to_string(), context.effects);
        } else {
            self.send_error(&error.to_string(), context);
        }
    }

    fn connect(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        let versions = frame.header("accept-version").map(|value| self.read_value(value));
        let lenient = self.settings.lenient;
        let Some(session) = self.session_table.session_mut(context.session) else { return };
        match session.connect(versions.as_deref(), lenient) {
            ConnectResponse::Version(version) => {
                context.units += SEND_UNITS;
                self.session_table.send(context.session, context.effects, |out| encoder::connected(out, version));
            }
            ConnectResponse::Ignore => {}
            ConnectResponse::Unsupported => {
                self.session_table.fail(
                    context.session,
                    "Supported protocol versions are 1.0, 1.1, 1.2",
                    context.effects,
                );
            }
        }
    }

    fn subscribe(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        let [id, destination, receipt] = frame.pick(["id", "destination", "receipt"]);
        let [id, destination] = [id, destination].map(|value| value.map(|value| self.read_value(value)));
        if let Some(destination) = destination
            && topics::is_broker_destination(&destination)
            && (id.is_some() || self.settings.lenient)
        {
            context.units += ENTRY_UNITS;
            let address = self.address_registered_by(&destination);
            let subscribed =
                self.session_table.subscribe(context.session, id.as_deref(), &destination, address, context.effects);
            if let Err(refused) = subscribed {
                return self.send_error(&refused.to_string(), context);
            }
        }
        self.acknowledge(receipt, context);
    }

    /// Returns the address that a subscription to `destination` registers.
    fn address_registered_by(&self, destination: &str) -> Option<Address> {
        let text = topics::registering_address(destination).filter(|_| self.settings.register_on_subscribe)?;
        // Nothing is published under any other spelling of an address.
        Address::parse(text, self.network).filter(|address| address.as_str() == text)
    }

    fn unsubscribe(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        let [id, receipt] = frame.pick(["id", "receipt"]);
        if let Some(id) = id.map(|value| self.read_value(value)) {
            context.units += units(self.session_table.unsubscribe(context.session, &id), 1);
        }
        self.acknowledge(receipt, context);
    }

    /// Handles SEND. Only queries have an effect; messages to topics are dropped, so that no client can forge a
    /// publication.
    fn send_command(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        let [destination, receipt] = frame.pick(["destination", "receipt"]);
        let destination = destination.map(|value| self.read_value(value));
        match destination.and_then(|destination| query::parse(&destination, frame.body(), self.network)) {
            Some(Ok(asked)) => {
                context.units += ENTRY_UNITS + units(frame.body().len(), PAYLOAD_BYTES_PER_UNIT);
                self.execute(asked, context);
            }
            Some(Err(error)) => {
                context.units += units(frame.body().len(), PAYLOAD_BYTES_PER_UNIT);
                self.send_query_error(&error.to_string(), context);
            }
            None => {}
        }
        self.acknowledge(receipt, context);
    }

    fn execute(&mut self, asked: ClientCommand, context: &mut FrameContext<'_>) {
        let registered = match asked {
            ClientCommand::Register(address) => self.register(address, context),
            ClientCommand::Query(query) => {
                let registered = match query {
                    Query::Account(address) => {
                        self.session_table.register(context.session, address, Reason::Query, context.effects)
                    }
                    _ => Ok(()),
                };
                if let Some(session) = self.session_table.session_mut(context.session) {
                    session.queries.push_back(query);
                    self.query_scheduler.add(session.client, context.session);
                }
                registered
            }
        };
        if let Err(refused) = registered {
            self.send_query_error(&refused.to_string(), context);
        }
    }

    /// Registers an address. A legacy client is also subscribed to the address's transactions.
    fn register(
        &mut self,
        address: Address,
        context: &mut FrameContext<'_>,
    ) -> Result<(), super::session_table::LimitReached> {
        self.session_table.register(context.session, address, Reason::Query, context.effects)?;
        let is_legacy_client =
            self.session_table.session(context.session).is_some_and(|session| session.is_legacy_client());
        if is_legacy_client && self.settings.implicit_subscription {
            context.units += ENTRY_UNITS;
            self.session_table.subscribe_implicitly(context.session, &address, context.effects)?;
        }
        Ok(())
    }

    fn disconnect(&mut self, frame: &Frame<'_>, context: &mut FrameContext<'_>) {
        match frame.header("receipt") {
            Some(receipt) => {
                context.units += SEND_UNITS + units(self.session_table.unsubscribe_all(context.session), 1);
                self.session_table.send(context.session, context.effects, |out| encoder::receipt(out, &receipt));
            }
            None => self.session_table.fail(context.session, "Session closed.", context.effects),
        }
    }

    /// Sends the RECEIPT that a processed SUBSCRIBE, UNSUBSCRIBE or SEND asks for, if the settings are lenient.
    fn acknowledge(&mut self, receipt: Option<Cow<'_, str>>, context: &mut FrameContext<'_>) {
        if self.settings.lenient
            && let Some(receipt) = receipt
        {
            context.units += SEND_UNITS;
            self.session_table.send(context.session, context.effects, |out| encoder::receipt(out, &receipt));
        }
    }

    /// Sends ERROR to the session.
    fn send_error(&mut self, message: &str, context: &mut FrameContext<'_>) {
        context.units += SEND_UNITS;
        self.session_table.send(context.session, context.effects, |out| encoder::error(out, message));
    }

    /// Sends an error message to the session on `/errors`.
    fn send_query_error(&mut self, message: &str, context: &mut FrameContext<'_>) {
        context.units += SEND_UNITS;
        send_error(context.session, message, context.time, &mut self.session_table, &self.pool, context.effects);
    }

    /// Returns a header value, trimmed if the settings are lenient.
    fn read_value<'f>(&self, value: Cow<'f, str>) -> Cow<'f, str> {
        if !self.settings.lenient {
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
