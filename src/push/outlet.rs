//! Transports that carry a session's frames to its client. The session does not depend on the kind of its transport.

use std::time::Duration;

use super::content::Content;
use super::settings::Limits;
use super::sockjs::{Mailbox, frame, mailbox};
use crate::net::machine::{ConnectionId, Dropped, Effects, Message};

/// Bytes copied per work unit.
const BYTES_PER_UNIT: usize = 4 * 1024;

/// The transport of a session.
#[derive(Debug)]
pub enum Outlet {
    /// A plain websocket; each frame is one message.
    Websocket(ConnectionId),
    /// A SockJS websocket; each frame is a SockJS frame in one message.
    Sockjs {
        /// The websocket.
        socket: ConnectionId,
        /// When the last frame was sent.
        since: Duration,
    },
    /// A queue from which the client fetches by HTTP requests.
    Mailbox(Box<Mailbox>),
}

/// One outgoing STOMP frame.
#[derive(Clone, Copy)]
pub struct Letter<'a> {
    /// The whole frame, or its head.
    pub head: &'a [u8],
    /// The body, and whether it is for a legacy client.
    pub body: Option<(&'a Content, bool)>,
}

/// Context for sending.
pub struct Sending<'a> {
    /// Time since the start.
    pub now: Duration,
    /// The limits.
    pub limits: &'a Limits,
    /// Scratch buffer.
    pub room: &'a mut Vec<u8>,
    /// Receives the outgoing messages.
    pub effects: &'a mut dyn Effects,
}

impl Outlet {
    /// Returns whether it is a plain websocket.
    pub fn is_raw(&self) -> bool {
        matches!(self, Outlet::Websocket(_))
    }

    /// Returns the websocket, if there is one.
    pub fn socket(&self) -> Option<ConnectionId> {
        match self {
            Outlet::Websocket(socket) | Outlet::Sockjs { socket, .. } => Some(*socket),
            Outlet::Mailbox(_) => None,
        }
    }

    /// Returns the queue, if the client fetches by requests.
    pub fn mailbox(&mut self) -> Option<&mut Mailbox> {
        match self {
            Outlet::Mailbox(mailbox) => Some(mailbox),
            _ => None,
        }
    }

    /// Returns all connections that currently carry data of the session.
    pub fn connections(&self) -> Vec<ConnectionId> {
        match self {
            Outlet::Websocket(socket) | Outlet::Sockjs { socket, .. } => vec![*socket],
            Outlet::Mailbox(mailbox) => mailbox.connections().collect(),
        }
    }

    /// Returns the connection whose messages are being read.
    pub fn reader(&self) -> Option<ConnectionId> {
        match self {
            Outlet::Mailbox(mailbox) => mailbox.sender(),
            _ => self.socket(),
        }
    }

    /// Sends a frame. Returns the work units beyond the usual cost.
    pub fn send(&mut self, letter: Letter<'_>, sending: &mut Sending<'_>) -> Result<u32, Dropped> {
        let Sending { now, limits, room, effects } = sending;
        let Letter { head, body } = letter;
        match self {
            Outlet::Websocket(socket) => {
                let body = body.map(|(content, is_bare)| content.for_session(is_bare));
                effects.send(*socket, Message { head, body, tail: &[] })?;
                Ok(0)
            }
            Outlet::Sockjs { socket, since } => {
                room.clear();
                room.extend_from_slice(frame::MESSAGE_START);
                escape(room, head);
                let body = body.map(|(content, _)| content.escaped());
                effects.send(*socket, Message { head: room, body, tail: frame::MESSAGE_END })?;
                *since = *now;
                Ok(0)
            }
            Outlet::Mailbox(mailbox) => {
                let body = body.map_or(&[][..], |(content, _)| content.escaped());
                room.clear();
                room.push(b'"');
                escape(room, head);
                let message = [room.as_slice(), body, b"\""].concat();
                let units = message.len() / BYTES_PER_UNIT;
                let posted = mailbox.post(message.into(), limits.backlog_bytes, *now);
                wake_receiver(mailbox, *effects);
                posted?;
                Ok(u32::try_from(units).unwrap_or(u32::MAX))
            }
        }
    }

    /// Closes the transport with a code and a reason. A SockJS websocket also gets a close frame unless `silently`.
    pub fn close(&mut self, code: u16, reason: &str, silently: bool, now: Duration, effects: &mut dyn Effects) {
        match self {
            Outlet::Websocket(socket) => effects.close(*socket, code, reason),
            Outlet::Sockjs { socket, .. } => {
                let is_there = silently || {
                    let frame = mailbox::close_frame(code, reason);
                    effects.send(*socket, Message::of(&frame)).is_ok()
                };
                if is_there {
                    effects.close(*socket, code, reason);
                }
            }
            Outlet::Mailbox(mailbox) => {
                mailbox.finish(code, reason, now);
                mailbox.connections().for_each(|connection| effects.resume(connection));
            }
        }
    }

    /// Charges the client with work.
    pub fn charge(&mut self, units: u32, effects: &mut dyn Effects) {
        match self {
            Outlet::Websocket(socket) | Outlet::Sockjs { socket, .. } => effects.charge(*socket, units),
            Outlet::Mailbox(mailbox) => match mailbox.receiver().or(mailbox.sender()) {
                Some(connection) => effects.charge(connection, units),
                None => mailbox.owe(units),
            },
        }
    }

    /// Bytes that wait for the client.
    pub fn backlog(&self, effects: &dyn Effects) -> usize {
        match self {
            Outlet::Websocket(socket) | Outlet::Sockjs { socket, .. } => effects.backlog(*socket),
            Outlet::Mailbox(mailbox) => {
                mailbox.held_bytes() + mailbox.receiver().map_or(0, |receiver| effects.backlog(receiver))
            }
        }
    }

    /// Bytes queued in the transport itself.
    pub fn held_bytes(&self) -> usize {
        match self {
            Outlet::Mailbox(mailbox) => mailbox.held_bytes(),
            _ => 0,
        }
    }

    /// When the transport needs a heartbeat or times out.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        match self {
            Outlet::Websocket(_) => None,
            Outlet::Sockjs { since, .. } => Some(*since + limits.heartbeat),
            Outlet::Mailbox(mailbox) => Some(mailbox.due(limits.heartbeat, limits.disconnect_delay)),
        }
    }

    /// Runs what is due. Returns false if the session has timed out, and an error if its websocket is gone.
    pub fn keep_up(&mut self, now: Duration, effects: &mut dyn Effects) -> Result<bool, Dropped> {
        match self {
            Outlet::Websocket(_) => {}
            Outlet::Sockjs { socket, since } => {
                effects.send(*socket, Message::of(frame::HEARTBEAT))?;
                *since = now;
            }
            Outlet::Mailbox(mailbox) if mailbox.receiver().is_none() => return Ok(false),
            Outlet::Mailbox(mailbox) => {
                mailbox.beat(now);
                wake_receiver(mailbox, effects);
            }
        }
        Ok(true)
    }
}

fn wake_receiver(mailbox: &Mailbox, effects: &mut dyn Effects) {
    mailbox.receiver().into_iter().for_each(|receiver| effects.resume(receiver));
}

/// Appends a part of a UTF-8 frame, escaped for a SockJS frame.
fn escape(out: &mut Vec<u8>, part: &[u8]) {
    frame::escape(out, &String::from_utf8_lossy(part));
}
