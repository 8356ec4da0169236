//! Transports that carry a session's frames to its client. The session does not depend on the kind of its transport.

use std::time::Duration;

use super::content::Content;
use super::settings::Limits;
use super::sockjs::{PollQueue, frame, poll_queue};
use crate::net::service::{ConnectionId, Dropped, Effects, Message};

/// Bytes copied per work unit.
const BYTES_PER_UNIT: usize = 4 * 1024;

/// The transport of a session.
#[derive(Debug)]
pub enum SessionTransport {
    /// A plain websocket; each frame is one message.
    Websocket(ConnectionId),
    /// A SockJS websocket; each frame is a SockJS frame in one message.
    Sockjs {
        /// The websocket.
        socket: ConnectionId,
        /// When the last frame was sent.
        last_sent: Duration,
    },
    /// A queue from which the client fetches by HTTP requests.
    PollQueue(Box<PollQueue>),
}

/// One outgoing STOMP frame.
#[derive(Clone, Copy)]
pub struct OutboundFrame<'a> {
    /// The whole frame, or its head.
    pub head: &'a [u8],
    /// The body, and whether it is for a legacy client.
    pub body: Option<(&'a Content, bool)>,
}

/// Context for sending.
pub struct SendContext<'a> {
    /// Time since the start.
    pub now: Duration,
    /// The limits.
    pub limits: &'a Limits,
    /// Scratch buffer.
    pub scratch: &'a mut Vec<u8>,
    /// Receives the outgoing messages.
    pub effects: &'a mut dyn Effects,
}

impl SessionTransport {
    /// Returns whether it is a plain websocket.
    pub fn is_raw(&self) -> bool {
        matches!(self, SessionTransport::Websocket(_))
    }

    /// Returns the websocket, if there is one.
    pub fn socket(&self) -> Option<ConnectionId> {
        match self {
            SessionTransport::Websocket(socket) | SessionTransport::Sockjs { socket, .. } => Some(*socket),
            SessionTransport::PollQueue(_) => None,
        }
    }

    /// Returns the queue, if the client fetches by requests.
    pub fn poll_queue(&mut self) -> Option<&mut PollQueue> {
        match self {
            SessionTransport::PollQueue(poll_queue) => Some(poll_queue),
            _ => None,
        }
    }

    /// Returns all connections that currently carry data of the session.
    pub fn connections(&self) -> Vec<ConnectionId> {
        match self {
            SessionTransport::Websocket(socket) | SessionTransport::Sockjs { socket, .. } => vec![*socket],
            SessionTransport::PollQueue(poll_queue) => poll_queue.connections().collect(),
        }
    }

    /// Returns the connection whose messages are being read.
    pub fn reading_connection(&self) -> Option<ConnectionId> {
        match self {
            SessionTransport::PollQueue(poll_queue) => poll_queue.sender(),
            _ => self.socket(),
        }
    }

    /// Sends a frame. Returns the work units beyond the usual cost.
    pub fn send(&mut self, frame: OutboundFrame<'_>, sending: &mut SendContext<'_>) -> Result<u32, Dropped> {
        let SendContext { now, limits, scratch: room, effects } = sending;
        let OutboundFrame { head, body } = frame;
        match self {
            SessionTransport::Websocket(socket) => {
                let body = body.map(|(content, is_bare)| content.for_session(is_bare));
                effects.send(*socket, Message { head, body, tail: &[] })?;
                Ok(0)
            }
            SessionTransport::Sockjs { socket, last_sent: since } => {
                room.clear();
                room.extend_from_slice(frame::MESSAGE_START);
                escape(room, head);
                let body = body.map(|(content, _)| content.escaped());
                effects.send(*socket, Message { head: room, body, tail: frame::MESSAGE_END })?;
                *since = *now;
                Ok(0)
            }
            SessionTransport::PollQueue(poll_queue) => {
                let body = body.map_or(&[][..], |(content, _)| content.escaped());
                room.clear();
                room.push(b'"');
                escape(room, head);
                let message = [room.as_slice(), body, b"\""].concat();
                let units = message.len() / BYTES_PER_UNIT;
                let posted = poll_queue.push(message.into(), limits.backlog_bytes, *now);
                wake_receiver(poll_queue, *effects);
                posted?;
                Ok(u32::try_from(units).unwrap_or(u32::MAX))
            }
        }
    }

    /// Closes the transport with a code and a reason. A SockJS websocket also gets a close frame unless `silently`.
    pub fn close(&mut self, code: u16, reason: &str, silently: bool, now: Duration, effects: &mut dyn Effects) {
        match self {
            SessionTransport::Websocket(socket) => effects.close(*socket, code, reason),
            SessionTransport::Sockjs { socket, .. } => {
                let is_there = silently || {
                    let frame = poll_queue::close_frame(code, reason);
                    effects.send(*socket, Message::of(&frame)).is_ok()
                };
                if is_there {
                    effects.close(*socket, code, reason);
                }
            }
            SessionTransport::PollQueue(poll_queue) => {
                poll_queue.close(code, reason, now);
                poll_queue.connections().for_each(|connection| effects.resume(connection));
            }
        }
    }

    /// Charges the client with work.
    pub fn charge(&mut self, units: u32, effects: &mut dyn Effects) {
        match self {
            SessionTransport::Websocket(socket) | SessionTransport::Sockjs { socket, .. } => {
                effects.charge(*socket, units)
            }
            SessionTransport::PollQueue(poll_queue) => match poll_queue.receiver().or(poll_queue.sender()) {
                Some(connection) => effects.charge(connection, units),
                None => poll_queue.defer_cost(units),
            },
        }
    }

    /// Bytes that wait for the client.
    pub fn backlog(&self, effects: &dyn Effects) -> usize {
        match self {
            SessionTransport::Websocket(socket) | SessionTransport::Sockjs { socket, .. } => effects.backlog(*socket),
            SessionTransport::PollQueue(poll_queue) => {
                poll_queue.held_bytes() + poll_queue.receiver().map_or(0, |receiver| effects.backlog(receiver))
            }
        }
    }

    /// Bytes queued in the transport itself.
    pub fn held_bytes(&self) -> usize {
        match self {
            SessionTransport::PollQueue(poll_queue) => poll_queue.held_bytes(),
            _ => 0,
        }
    }

    /// When the transport needs a heartbeat or times out.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        match self {
            SessionTransport::Websocket(_) => None,
            SessionTransport::Sockjs { last_sent: since, .. } => Some(*since + limits.heartbeat),
            SessionTransport::PollQueue(poll_queue) => Some(poll_queue.due(limits.heartbeat, limits.disconnect_delay)),
        }
    }

    /// Runs what is due. Returns false if the session has timed out, and an error if its websocket is gone.
    pub fn on_timer(&mut self, now: Duration, effects: &mut dyn Effects) -> Result<bool, Dropped> {
        match self {
            SessionTransport::Websocket(_) => {}
            SessionTransport::Sockjs { socket, last_sent: since } => {
                effects.send(*socket, Message::of(frame::HEARTBEAT))?;
                *since = now;
            }
            SessionTransport::PollQueue(poll_queue) if poll_queue.receiver().is_none() => return Ok(false),
            SessionTransport::PollQueue(poll_queue) => {
                poll_queue.request_heartbeat(now);
                wake_receiver(poll_queue, effects);
            }
        }
        Ok(true)
    }
}

fn wake_receiver(poll_queue: &PollQueue, effects: &mut dyn Effects) {
    poll_queue.receiver().into_iter().for_each(|receiver| effects.resume(receiver));
}

/// Appends a part of a UTF-8 frame, escaped for a SockJS frame.
fn escape(out: &mut Vec<u8>, part: &[u8]) {
    frame::escape(out, &String::from_utf8_lossy(part));
}
