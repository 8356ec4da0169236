//! One connection to another server, from DNS to its last response, as a state machine on bytes.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::response::{CompleteResponse, ResponseReader};
use super::{FetchError, FetchId, Response};

/// A request in progress.
#[derive(Debug)]
pub struct PendingRequest {
    pub id: FetchId,
    pub head: Vec<u8>,
    pub body: Rc<[u8]>,
    pub body_limit: usize,
    pub timeout: Duration,
    pub deadline: Duration,
    pub read_timeout: Duration,
    /// Next timeout: the earliest of deadline, read timeout and minimum rate.
    pub due: Duration,
    /// When the minimum number of bytes must have been received; set once there is a connection.
    pub min_rate_due: Option<Duration>,
    /// Bytes received towards that minimum.
    pub recent_bytes: usize,
    pub is_idempotent: bool,
    /// A reused connection was closed before its response, and it waits for another.
    pub is_retry: bool,
}

/// A connection, opened for a request, which serves one request at a time.
#[derive(Debug)]
pub struct OutboundConnection {
    /// Slot of the host in the pool.
    pub host: usize,
    /// The request; `None` between requests.
    pub pending: Option<PendingRequest>,
    /// Timeout of the connection attempt or of an idle connection.
    pub due: Option<Duration>,
    stage: Stage,
    /// An earlier request was answered on it.
    is_reused: bool,
    /// Address of the server, once connected.
    address: Option<SocketAddr>,
}

#[derive(Debug)]
enum Stage {
    /// The addresses of the host are not known yet.
    Resolving { is_queried: bool },
    /// The first of the addresses is being tried, once the attempt has begun.
    Connecting { addresses: VecDeque<SocketAddr>, has_begun: bool },
    /// The connection is established.
    Open { sent: usize, reader: ResponseReader },
}

impl OutboundConnection {
    /// Returns a connection to open.
    pub fn new(host: usize, pending: PendingRequest) -> Self {
        let stage = Stage::Resolving { is_queried: false };
        Self { host, pending: Some(pending), due: None, stage, is_reused: false, address: None }
    }

    /// Returns whether to send a DNS query; true only the first time.
    pub fn take_dns_query(&mut self) -> bool {
        match &mut self.stage {
            Stage::Resolving { is_queried: is_asked } => !std::mem::replace(is_asked, true),
            _ => false,
        }
    }

    /// Sets the addresses of the host, in the order of attempts.
    pub fn resolved(&mut self, addresses: VecDeque<SocketAddr>) {
        if let Stage::Resolving { .. } = self.stage {
            self.stage = Stage::Connecting { addresses, has_begun: false };
        }
    }

    /// Returns the address to connect to; `None` once the attempt has begun.
    pub fn take_attempt(&mut self) -> Option<SocketAddr> {
        let Stage::Connecting { addresses, has_begun } = &mut self.stage else {
            return None;
        };
        let is_new = !std::mem::replace(has_begun, true);
        addresses.front().copied().filter(|_| is_new)
    }

    /// Records a failed attempt. Returns whether there is another address.
    pub fn attempt_failed(&mut self) -> bool {
        let Stage::Connecting { addresses, has_begun } = &mut self.stage else {
            return false;
        };
        addresses.pop_front();
        *has_begun = false;
        !addresses.is_empty()
    }

    /// Records a successful attempt, so that the request can be sent. Returns the address.
    pub fn connected(&mut self) -> Option<SocketAddr> {
        let Stage::Connecting { addresses, .. } = &self.stage else {
            return None;
        };
        self.address = addresses.front().copied();
        self.begin();
        self.address
    }

    /// Returns the address of the server; `None` before it is connected.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Assigns a request to an idle connection.
    pub fn assign(&mut self, pending: PendingRequest) {
        self.pending = Some(pending);
        self.is_reused = true;
        self.begin();
    }

    fn begin(&mut self) {
        let body_limit = self.pending.as_ref().map_or(0, |pending| pending.body_limit);
        self.stage = Stage::Open { sent: 0, reader: ResponseReader::new(body_limit) };
    }

    /// Returns whether the connection is being established.
    pub fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting { .. })
    }

    /// Returns the bytes left to send, in two parts.
    pub fn unsent(&self) -> [&[u8]; 2] {
        let (Stage::Open { sent, .. }, Some(PendingRequest { head, body, .. })) = (&self.stage, &self.pending) else {
            return [&[], &[]];
        };
        let of_head = head.get(*sent..).unwrap_or_default();
        let of_body = body.get(sent.saturating_sub(head.len())..).unwrap_or_default();
        [of_head, of_body]
    }

    /// Records bytes as sent.
    pub fn sent(&mut self, count: usize) {
        if let Stage::Open { sent, .. } = &mut self.stage {
            *sent += count;
        }
    }

    /// Handles received bytes. Returns the response once it is complete.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<CompleteResponse>, FetchError> {
        let is_sent = self.unsent().iter().all(|part| part.is_empty());
        let (Stage::Open { reader, .. }, Some(_)) = (&mut self.stage, &self.pending) else {
            return Err(FetchError::NotHttp("it came without a request"));
        };
        let complete = reader.receive(bytes)?;
        Ok(complete.map(|complete| CompleteResponse { keep_alive: complete.keep_alive && is_sent, ..complete }))
    }

    /// Handles the end of the connection by the server, with or without an error. Returns the response if it ends so.
    pub fn end(&mut self, cause: Option<io::Error>) -> Result<Response, FetchError> {
        match (&mut self.stage, cause) {
            (_, Some(error)) => Err(FetchError::Broken(error)),
            (Stage::Open { reader, .. }, None) if reader.has_begun() => reader.close(),
            (_, None) => Err(FetchError::Broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns whether the request can be repeated after this connection has ended: the server may have closed it
    /// before it received the request.
    pub fn may_retry(&self) -> bool {
        let has_begun = matches!(&self.stage, Stage::Open { reader, .. } if reader.has_begun());
        let allowed = self.pending.as_ref().is_some_and(|pending| pending.is_idempotent && !pending.is_retry);
        self.is_reused && !has_begun && allowed
    }

    /// Returns the allocated bytes of a response in progress.
    pub fn held_bytes(&self) -> usize {
        match &self.stage {
            Stage::Open { reader, .. } => reader.held_bytes(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> PendingRequest {
        PendingRequest {
            id: FetchId(1),
            head: b"head".to_vec(),
            body: b"body".as_slice().into(),
            body_limit: 10,
            timeout: Duration::ZERO,
            deadline: Duration::ZERO,
            read_timeout: Duration::ZERO,
            due: Duration::ZERO,
            min_rate_due: None,
            recent_bytes: 0,
            is_idempotent: true,
            is_retry: false,
        }
    }

    fn address(last: u8) -> SocketAddr {
        ([127, 0, 0, last], 1).into()
    }

    fn open() -> OutboundConnection {
        let mut connection = OutboundConnection::new(0, pending());
        connection.resolved([address(1)].into());
        connection.connected();
        connection
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    #[test]
    fn addresses_are_resolved_once_and_tried_in_order() {
        let mut connection = OutboundConnection::new(0, pending());
        assert!(connection.take_dns_query() && !connection.take_dns_query());
        connection.resolved([address(1), address(2)].into());
        assert_eq!(connection.take_attempt(), Some(address(1)));
        assert_eq!(connection.take_attempt(), None);
        assert!(connection.attempt_failed());
        assert_eq!(connection.take_attempt(), Some(address(2)));
        assert_eq!(connection.connected(), Some(address(2)));
        assert!(!connection.attempt_failed());
    }

    #[test]
    fn a_request_is_sent_in_any_pieces() {
        let mut connection = open();
        let mut seen = Vec::new();
        while !connection.unsent().concat().is_empty() {
            let taken = connection.unsent().concat()[..1].to_vec();
            connection.sent(1);
            seen.extend(taken);
        }
        assert_eq!(seen, b"headbody");
    }

    #[test]
    fn a_response_before_the_request_was_sent_ends_the_connection() {
        let mut connection = open();
        connection.sent(7);
        assert!(!connection.receive(ANSWER).unwrap().unwrap().keep_alive);
        let mut connection = open();
        connection.sent(8);
        assert!(connection.receive(ANSWER).unwrap().unwrap().keep_alive);
    }

    #[test]
    fn a_request_is_retried_only_if_a_reused_connection_returned_nothing() {
        assert!(!open().may_retry(), "a new connection");
        let mut connection = open();
        connection.receive(ANSWER).unwrap();
        connection.assign(pending());
        assert!(connection.may_retry());
        connection.receive(b"H").unwrap();
        assert!(!connection.may_retry(), "the answer has begun");
        connection.assign(PendingRequest { is_idempotent: false, ..pending() });
        assert!(!connection.may_retry());
        connection.assign(PendingRequest { is_retry: true, ..pending() });
        assert!(!connection.may_retry());
    }

    #[test]
    fn the_end_of_a_connection_is_classified() {
        assert!(matches!(open().end(None), Err(FetchError::Broken(_))));
        let mut connection = open();
        connection.receive(b"HTTP/1.1 200 OK\r\n\r\nok").unwrap();
        assert!(matches!(connection.end(Some(io::ErrorKind::ConnectionReset.into())), Err(FetchError::Broken(_))));
        assert_eq!(connection.end(None).unwrap().body, b"ok");
        let mut connection = open();
        connection.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").unwrap();
        assert!(matches!(connection.end(None), Err(FetchError::NotHttp(_))));
        let mut idle = open();
        idle.pending = None;
        assert!(idle.receive(b"x").is_err(), "nothing was asked for");
    }
}
