//! Sessions without a websocket: their clients fetch and send by HTTP requests.

use super::broker::{Broker, Present, TOO_MANY_SESSIONS, payload_units};
use super::http::{self, Answer, Call, NO_CACHE};
use super::outlet::Outlet;
use super::sockjs::mailbox::{GO_AWAY, Mailbox, Refusal, close_frame};
use super::sockjs::payload;
use super::sockjs::transport::{Fetching, Transport, Wrapper, callback};
use crate::net::http::Reply;
use crate::net::machine::{ConnectionId, Effects, Exchange, Taken};

/// Content type of plain text.
const TEXT: &str = "text/plain;charset=utf-8";

impl Broker {
    /// Answers a request on the port, or starts to. `entropy` is a fresh random number.
    pub fn request(
        &mut self,
        mut exchange: Exchange<'_>,
        present: Present,
        entropy: i32,
        effects: &mut dyn Effects,
    ) -> Taken {
        self.hub.set_now(present.running);
        let answer = match http::call_of(exchange.request.path) {
            Some(call) if exchange.is_resumed => Answer::Session(call),
            _ => http::answer(&mut exchange, present.network, entropy),
        };
        match answer {
            Answer::Whole => Taken::Done,
            Answer::Upgrade(session) => {
                self.upgrading = Some((exchange.connection, session.map(str::to_owned)));
                Taken::Done
            }
            Answer::Session(Call { session, transport }) => match transport {
                Transport::Fetching(fetching) if exchange.is_resumed => self.go_on(fetching, exchange, effects),
                Transport::Fetching(fetching) => self.fetch(session, fetching, exchange, effects),
                Transport::Websocket | Transport::XhrSend | Transport::JsonpSend => {
                    self.send(session, transport, exchange, present, effects)
                }
            },
        }
    }

    /// Attaches a request that fetches from a session; opens the session if it does not exist.
    fn fetch(&mut self, name: &str, fetching: Fetching, exchange: Exchange<'_>, effects: &mut dyn Effects) -> Taken {
        let Exchange { connection, caller, request, reply, .. } = exchange;
        let callback = match callback(request.query) {
            Some(callback) if fetching.has_callback() => callback,
            _ if !fetching.has_callback() => String::new(),
            _ => return refuse(reply, 500, "\"callback\" parameter required"),
        };
        let wrapper = Wrapper { fetching, callback: &callback };
        let known = self.hub.named(name);
        let other = known.and_then(|id| self.hub.mailbox(id)).map(|mailbox| mailbox.fetching());
        if other.is_some_and(|other| !fetching.goes_with(other)) {
            reply.status = 404;
            return Taken::Done;
        }
        let id = known.or_else(|| {
            let mailbox = Mailbox::new(fetching, self.hub.now());
            self.welcome(Outlet::Mailbox(Box::new(mailbox)), Some(name), &caller, effects)
        });
        reply.header("Content-Type", fetching.content_type());
        reply.header("Cache-Control", NO_CACHE);
        reply.pieces = fetching.is_streaming();
        wrapper.begin(&mut reply.body);
        let attached = match id.and_then(|id| self.hub.mailbox(id)) {
            Some(mailbox) => mailbox.attach(connection),
            None => Err(TOO_MANY_SESSIONS),
        };
        match attached {
            Ok(owed) => {
                effects.charge(connection, owed);
                self.hub.carry(connection, id);
                id.into_iter().for_each(|id| self.hub.heard(id));
                self.write(&wrapper, connection, reply, effects)
            }
            Err(refusal) => close(&wrapper, refusal, reply),
        }
    }

    /// Resumes a request that fetches.
    fn go_on(&mut self, fetching: Fetching, exchange: Exchange<'_>, effects: &mut dyn Effects) -> Taken {
        let Exchange { connection, request, reply, .. } = exchange;
        let callback = callback(request.query).unwrap_or_default();
        self.write(&Wrapper { fetching, callback: &callback }, connection, reply, effects)
    }

    /// Writes the session's queued frames into the response.
    fn write(
        &mut self,
        wrapper: &Wrapper<'_>,
        connection: ConnectionId,
        reply: &mut Reply,
        effects: &mut dyn Effects,
    ) -> Taken {
        let now = self.hub.now();
        let id = self.hub.on(connection);
        let Some((id, mailbox)) = id.and_then(|id| Some((id, self.hub.mailbox(id)?))) else {
            // The session was removed in the meantime.
            return close(wrapper, GO_AWAY, reply);
        };
        let taken = mailbox.fetch(wrapper, now, &mut reply.body);
        if taken == Taken::Done {
            self.hub.carry(connection, None);
        }
        self.hub.fetched(id, effects);
        taken
    }

    /// Handles a request that sends to a session.
    fn send(
        &mut self,
        name: &str,
        transport: Transport,
        exchange: Exchange<'_>,
        present: Present,
        effects: &mut dyn Effects,
    ) -> Taken {
        let Exchange { connection, request, reply, .. } = exchange;
        let Some(id) = self.hub.named(name) else {
            reply.status = 404;
            return Taken::Done;
        };
        if self.hub.session(id).is_none() {
            // The session has ended; its client is informed when it fetches.
            self.hub.carry(connection, None);
            let now = self.hub.now();
            self.hub.mailbox(id).into_iter().for_each(|mailbox| _ = mailbox.lose(connection, now));
            return refuse(reply, 500, "");
        }
        let is_new = self.hub.on(connection).is_none();
        let is_sender = self.hub.mailbox(id).is_some_and(|mailbox| mailbox.sender() == Some(connection));
        if !is_sender {
            let stream = match transport {
                Transport::JsonpSend => payload::read_form(request.body, request.header("Content-Type")),
                _ => payload::read(request.body),
            };
            if is_new {
                effects.charge(connection, payload_units(request.body));
            }
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => return refuse(reply, 500, error.text()),
            };
            let Some(mailbox) = self.hub.mailbox(id) else { return refuse(reply, 500, "") };
            let Ok(is_turn) = mailbox.begin_sending(connection) else { return refuse(reply, 503, "") };
            self.hub.carry(connection, Some(id));
            if !is_turn {
                return Taken::Parked;
            }
            self.feed(id, &stream);
        }
        let taken = self.read(id, present.network, effects);
        if taken == Taken::Done {
            self.hub.carry(connection, None);
            let next = self.hub.mailbox(id).and_then(Mailbox::end_sending);
            next.into_iter().for_each(|next| effects.resume(next));
            reply.header("Content-Type", TEXT);
            reply.header("Cache-Control", NO_CACHE);
            match transport {
                Transport::JsonpSend => reply.body.extend_from_slice(b"ok"),
                _ => reply.status = 204,
            }
        }
        taken
    }
}

/// Ends a response with a close frame.
fn close(wrapper: &Wrapper<'_>, refusal: Refusal, reply: &mut Reply) -> Taken {
    wrapper.frame(&mut reply.body, &close_frame(refusal.0, refusal.1));
    Taken::Done
}

fn refuse(reply: &mut Reply, status: u16, text: &str) -> Taken {
    reply.status = status;
    if !text.is_empty() {
        reply.header("Content-Type", TEXT);
        reply.body.extend_from_slice(text.as_bytes());
    }
    Taken::Done
}
