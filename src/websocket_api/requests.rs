//! Sessions without a websocket: their clients fetch and send by HTTP requests.

use super::broker::{Broker, BrokerTime, TOO_MANY_SESSIONS, payload_units};
use super::http::{self, NO_CACHE, RequestOutcome, SessionRequest};
use super::session_transport::SessionTransport;
use super::sockjs::payload;
use super::sockjs::poll_queue::{CloseReason, GO_AWAY, PollQueue, close_frame};
use super::sockjs::transport::{ReceiveTransport, Transport, Wrapper, callback};
use crate::net::http::Response;
use crate::net::service::{ConnectionId, Effects, Exchange, Progress};

/// Content type of plain text.
const TEXT: &str = "text/plain;charset=utf-8";

impl Broker {
    /// Answers a request on the port, or starts to. `entropy` is a fresh random number.
    pub fn request(
        &mut self,
        mut exchange: Exchange<'_>,
        present: BrokerTime,
        entropy: i32,
        effects: &mut dyn Effects,
    ) -> Progress {
        self.session_table.set_now(present.monotonic);
        let answer = match http::parse_session_path(exchange.request.path) {
            Some(call) if exchange.is_resumed => RequestOutcome::Session(call),
            _ => http::answer(&mut exchange, present.network, entropy),
        };
        match answer {
            RequestOutcome::Complete => Progress::Done,
            RequestOutcome::Upgrade(session) => {
                self.upgrading = Some((exchange.connection, session.map(str::to_owned)));
                Progress::Done
            }
            RequestOutcome::Session(SessionRequest { session, transport }) => match transport {
                Transport::Receive(fetching) if exchange.is_resumed => self.resume_receive(fetching, exchange, effects),
                Transport::Receive(fetching) => self.receive(session, fetching, exchange, effects),
                Transport::Websocket | Transport::XhrSend | Transport::JsonpSend => {
                    self.send(session, transport, exchange, present, effects)
                }
            },
        }
    }

    /// Attaches a request that fetches from a session; opens the session if it does not exist.
    fn receive(
        &mut self,
        name: &str,
        transport: ReceiveTransport,
        exchange: Exchange<'_>,
        effects: &mut dyn Effects,
    ) -> Progress {
        let Exchange { connection, client: caller, request, response: reply, .. } = exchange;
        let callback = match callback(request.query) {
            Some(callback) if transport.has_callback() => callback,
            _ if !transport.has_callback() => String::new(),
            _ => return reject_request(reply, 500, "\"callback\" parameter required"),
        };
        let wrapper = Wrapper { transport, callback: &callback };
        let known = self.session_table.find_by_name(name);
        let opened_by = known.and_then(|id| self.session_table.poll_queue(id)).map(|mailbox| mailbox.transport());
        if opened_by.is_some_and(|other| !transport.is_compatible_with(other)) {
            reply.status = 404;
            return Progress::Done;
        }
        let id = known.or_else(|| {
            let poll_queue = PollQueue::new(transport, self.session_table.now());
            self.open_session(SessionTransport::PollQueue(Box::new(poll_queue)), Some(name), &caller, effects)
        });
        reply.header("Content-Type", transport.content_type());
        reply.header("Cache-Control", NO_CACHE);
        reply.is_streaming = transport.is_streaming();
        wrapper.begin(&mut reply.body);
        let deferred_cost = match id.and_then(|id| self.session_table.poll_queue(id)) {
            Some(mailbox) => mailbox.attach(connection),
            None => Err(TOO_MANY_SESSIONS),
        };
        match deferred_cost {
            Ok(owed) => {
                effects.charge(connection, owed);
                self.session_table.attach(connection, id);
                id.into_iter().for_each(|id| self.session_table.record_message(id));
                self.write(&wrapper, connection, reply, effects)
            }
            Err(rejection) => close_response(&wrapper, rejection, reply),
        }
    }

    /// Resumes a request that fetches.
    fn resume_receive(
        &mut self,
        transport: ReceiveTransport,
        exchange: Exchange<'_>,
        effects: &mut dyn Effects,
    ) -> Progress {
        let Exchange { connection, request, response: reply, .. } = exchange;
        let callback = callback(request.query).unwrap_or_default();
        self.write(&Wrapper { transport, callback: &callback }, connection, reply, effects)
    }

    /// Writes the session's queued frames into the response.
    fn write(
        &mut self,
        wrapper: &Wrapper<'_>,
        connection: ConnectionId,
        response: &mut Response,
        effects: &mut dyn Effects,
    ) -> Progress {
        let now = self.session_table.now();
        let id = self.session_table.session_of(connection);
        let Some((id, poll_queue)) = id.and_then(|id| Some((id, self.session_table.poll_queue(id)?))) else {
            // The session was removed in the meantime.
            return close_response(wrapper, GO_AWAY, response);
        };
        let taken = poll_queue.write_pending(wrapper, now, &mut response.body);
        if taken == Progress::Done {
            self.session_table.attach(connection, None);
        }
        self.session_table.on_fetched(id, effects);
        taken
    }

    /// Handles a request that sends to a session.
    fn send(
        &mut self,
        name: &str,
        transport: Transport,
        exchange: Exchange<'_>,
        present: BrokerTime,
        effects: &mut dyn Effects,
    ) -> Progress {
        let Exchange { connection, request, response: reply, .. } = exchange;
        let Some(id) = self.session_table.find_by_name(name) else {
            reply.status = 404;
            return Progress::Done;
        };
        if self.session_table.session(id).is_none() {
            // The session has ended; its client is informed when it fetches.
            self.session_table.attach(connection, None);
            let now = self.session_table.now();
            self.session_table
                .poll_queue(id)
                .into_iter()
                .for_each(|mailbox| _ = mailbox.on_disconnect(connection, now));
            return reject_request(reply, 500, "");
        }
        let is_new = self.session_table.session_of(connection).is_none();
        let is_sender = self.session_table.poll_queue(id).is_some_and(|mailbox| mailbox.sender() == Some(connection));
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
                Err(error) => return reject_request(reply, 500, error.text()),
            };
            let Some(poll_queue) = self.session_table.poll_queue(id) else { return reject_request(reply, 500, "") };
            let Ok(is_turn) = poll_queue.begin_sending(connection) else { return reject_request(reply, 503, "") };
            self.session_table.attach(connection, Some(id));
            if !is_turn {
                return Progress::Suspended;
            }
            self.feed(id, &stream);
        }
        let taken = self.handle_frames(id, present.network, effects);
        if taken == Progress::Done {
            self.session_table.attach(connection, None);
            let next = self.session_table.poll_queue(id).and_then(PollQueue::end_sending);
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
fn close_response(wrapper: &Wrapper<'_>, rejection: CloseReason, response: &mut Response) -> Progress {
    wrapper.frame(&mut response.body, &close_frame(rejection.0, rejection.1));
    Progress::Done
}

fn reject_request(response: &mut Response, status: u16, text: &str) -> Progress {
    response.status = status;
    if !text.is_empty() {
        response.header("Content-Type", TEXT);
        response.body.extend_from_slice(text.as_bytes());
    }
    Progress::Done
}
