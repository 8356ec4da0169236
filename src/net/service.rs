//! Interface between the reactor and the service above it. The service is handed [`Event`]s and the time, and acts
//! through [`Effects`]. A simulation is another reactor for the same service.
//!
//! A request may be forwarded: each proxy appends an address to `X-Forwarded-For` or `Forwarded` (RFC 7239). Only
//! trusted proxies are believed, so the list is read from its end, as long as it names trusted proxies. Other proxy
//! headers only show that a request was forwarded.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

use super::fetch::{FetchError, FetchId, FetchRequest, FetchResponse};
use super::http::{MatchedRoute, Request, Response};
use super::metrics::Metrics;
use super::socket::SharedBytes;
use crate::ip::AddressRanges;
use crate::quota::Owner;

/// A listening socket, numbered from 0 by the caller of `listen`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub usize);

/// An accepted connection. Ids are not reused (for four billion connections), so a stale id addresses no other
/// connection.
#[derive(Clone, Copy, derive_more::Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[debug("connection {}:{}", _0 >> 32, self.slot())]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    pub(super) fn new(slot: usize, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | (slot as u64 & 0xffff_ffff))
    }

    pub(super) fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// The current time by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopTime {
    /// Unix time in milliseconds. The system clock can be set back.
    pub unix_millis: i64,
    /// Monotonic time since the node was started.
    pub monotonic: Duration,
}

/// The remote client that made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Listener that accepted its connection.
    pub listener: ListenerId,
    /// Address of the client: the peer of the connection, or the address given by a trusted proxy. IPv4-mapped
    /// addresses are IPv4.
    pub address: IpAddr,
    /// The request has headers of a proxy, true or not, or comes from a trusted proxy. Its address gives no rights.
    pub is_forwarded: bool,
    /// The connection comes from this machine, since both of its ends have the same address: what is sent to such a client
    /// does not leave the machine. Not so if a trusted proxy gives the address.
    pub is_on_this_machine: bool,
    /// The request was forwarded, but by an untrusted proxy or without a client address. `address` is the proxy; the
    /// client is unknown, and the node must not connect back to it.
    pub is_unidentified: bool,
    /// The request has local access ([`Service::is_local`]): it counts for this machine, and is exempt from the limits on
    /// request rate and work. No connection has it before its first request.
    pub is_local: bool,
}

impl Client {
    /// Returns the client at the other end of a connection, without a proxy.
    pub fn direct(listener: ListenerId, address: IpAddr) -> Client {
        Client {
            listener,
            address: address.to_canonical(),
            is_forwarded: false,
            is_on_this_machine: false,
            is_unidentified: false,
            is_local: false,
        }
    }

    /// Returns the client of a request received on a connection from `peer`; not yet whether it is local.
    pub(super) fn of(request: &Request<'_>, peer: Client, proxies: &AddressRanges) -> Client {
        let is_proxy = proxies.contains(peer.address);
        let named = if is_proxy { last_untrusted(request, proxies) } else { None };
        let is_forwarded = is_proxy || request.has_proxy_header;
        Client {
            address: named.unwrap_or(peer.address),
            is_forwarded,
            is_on_this_machine: peer.is_on_this_machine && named.is_none(),
            is_unidentified: is_forwarded && named.is_none(),
            ..peer
        }
    }
}

/// A request and its response.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The connection, for [`Effects::resume`].
    pub connection: ConnectionId,
    /// The client.
    pub client: Client,
    /// The request; the same each time the exchange is resumed, but without its body after [`Progress::Streaming`].
    pub request: &'a Request<'a>,
    /// The response. A resumed exchange has it as the service left it, less the chunks already sent.
    pub response: &'a mut Response,
    /// The exchange returned something other than [`Progress::Done`] before.
    pub is_resumed: bool,
    /// The client exceeds its request rate; the response should be 429.
    pub is_rate_limited: bool,
}

/// An event for the service.
#[derive(Debug)]
pub enum Event<'a> {
    /// A complete request has arrived, or is resumed.
    Request(Exchange<'a>),
    /// A connection has become a websocket.
    WebSocketOpened {
        /// The websocket.
        socket: ConnectionId,
        /// The client.
        client: Client,
    },
    /// A websocket message has arrived. It may be empty; text is valid UTF-8.
    WebSocketMessage {
        /// The websocket.
        socket: ConnectionId,
        /// The complete message.
        message: &'a [u8],
        /// The message was sent as text, not as binary.
        is_text: bool,
    },
    /// Processing of a websocket message continues: it returned [`Progress::Yield`], or [`Progress::Suspended`] and was
    /// resumed. No further message of the websocket is delivered before it is done.
    WebSocketResumed {
        /// The websocket.
        socket: ConnectionId,
    },
    /// A websocket has ended, by whichever side, or the connection of an unfinished, suspended or streaming request has
    /// closed. Delivered exactly once for each.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A request to another server has completed.
    FetchCompleted {
        /// The request.
        fetch: FetchId,
        /// The response or the error.
        result: Result<FetchResponse, FetchError>,
    },
    /// Time for background work and for timers of the service.
    Tick {
        /// Units of work that may be done, each about a microsecond.
        budget: u32,
        /// Duration of the previous such call.
        last_tick: Duration,
    },
}

/// How far the service got with a request or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Done; the response is complete. Also returned for all other events.
    Done,
    /// Yields: resumed in the client's next turn. If [`Response::is_streaming`] is set, the body so far is sent as a chunk, and
    /// the request is resumed when the client has taken most of the output.
    Yield,
    /// Suspended until [`Effects::resume`], for at most [`Limits::request_time`](super::Limits::request_time).
    Suspended,
    /// Like `Suspended`, for a request that waits in a line: behind others of its client, or for a helper process. It may
    /// wait for [`Limits::websocket_idle`](super::Limits::websocket_idle). For a websocket message, the same as `Suspended`.
    Queued,
    /// Like `Suspended`, for a request whose client waits by design. Only the time without any output is limited
    /// ([`Limits::websocket_idle`](super::Limits::websocket_idle)), and the connection closes when the client closes
    /// its side. If [`Response::is_streaming`] is set, the body so far is sent as a chunk. For a websocket message, the same as
    /// `Suspended`.
    Streaming,
}

/// A message for a websocket in up to three parts, which together must be UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// First part, for this websocket only.
    pub head: &'a [u8],
    /// Part shared by many websockets, held once.
    pub body: Option<&'a SharedBytes>,
    /// Last part, for this websocket only.
    pub tail: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns a message of one part.
    pub fn of(text: &'a [u8]) -> Message<'a> {
        Message { head: text, body: None, tail: &[] }
    }

    /// Returns the number of bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.body.map_or(0, |body| body.len()) + self.tail.len()
    }
}

/// The websocket is gone: closed, dropped because its client was too slow, or never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the websocket is closed or was dropped because its client does not keep up")]
pub struct Dropped;

/// Actions that a service can take while it handles an event. By default none has an effect.
pub trait Effects {
    /// Queues a text message for a websocket. Fails if the websocket is closed, or is dropped now because its queue is
    /// full ([`Limits::backlog_bytes`](super::Limits::backlog_bytes)).
    fn send(&mut self, _socket: ConnectionId, _message: Message<'_>) -> Result<(), Dropped> {
        Err(Dropped)
    }

    /// Returns the bytes queued for a websocket.
    fn backlog(&self, _socket: ConnectionId) -> usize {
        0
    }

    /// Closes a websocket with a close code (1000 to 4999) and a reason, after its queued output. [`Event::Disconnected`]
    /// follows.
    fn close(&mut self, _socket: ConnectionId, _code: u16, _reason: &str) {}

    /// Resumes a suspended or streaming request or message. No effect on other connections, including the one whose event is
    /// being handled.
    fn resume(&mut self, _connection: ConnectionId) {}

    /// Charges units of work to a connection and its client. The service charges the cost of handling an event to the
    /// event's connection.
    fn charge(&mut self, _connection: ConnectionId, _units: u32) {}

    /// Sends a request to another server. [`Event::FetchCompleted`] delivers the outcome exactly once, unless the request is
    /// cancelled. A request whose id is in use, or that finds no connection, fails with [`FetchError::Busy`].
    fn fetch(&mut self, _id: FetchId, _request: FetchRequest) {}

    /// Cancels a request to another server; its outcome is not delivered.
    fn cancel(&mut self, _fetch: FetchId) {}

    /// Requests an [`Event::Tick`] at a time ([`LoopTime::monotonic`]) at the latest, at once if that has passed. Each turn
    /// clears earlier requests.
    fn wake_at(&mut self, _monotonic: Duration) {}

    /// Returns the metrics of the reactor.
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

/// A state machine driven by events, which acts through [`Effects`].
pub trait Service {
    /// Handles one event.
    fn handle(&mut self, event: Event<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress;

    /// Returns whether a request has local access. Called for each complete request.
    fn is_local(&self, _client: &Client, _request: &Request<'_>) -> bool {
        false
    }

    /// Returns whether requests with a route count for the request rate of their client.
    fn is_counted(&self, _route: usize) -> bool {
        true
    }

    /// Finds the route of a request. Called once for each, when its head is complete.
    fn route(&self, listener: ListenerId, method: &str, path: &str) -> MatchedRoute;
}

/// Addresses read, from the end of the list.
const MAX_HOPS: usize = 16;

/// Returns the last address of the list that is no trusted proxy, or the first of the list if all are. Text that is
/// no address ends the list, because what precedes it cannot be trusted.
fn last_untrusted(request: &Request<'_>, proxies: &AddressRanges) -> Option<IpAddr> {
    let mut named: Vec<&str> = request.header_values("X-Forwarded-For").flat_map(|value| value.split(',')).collect();
    if named.is_empty() {
        let elements = request.header_values("Forwarded").flat_map(|value| value.split(','));
        named = elements.filter_map(forwarded_for).collect();
    }
    let mut last = None;
    for text in named.iter().rev().take(MAX_HOPS) {
        let Some(address) = address(text) else { break };
        last = Some(address);
        if !proxies.contains(address) {
            break;
        }
    }
    last
}

/// Returns the value of `for` in an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value)
    })
}

/// Parses an address with or without port, brackets and quotes.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

impl Owner {
    /// Returns the owner for a client.
    pub fn of(client: &Client) -> Owner {
        if client.is_local { Owner::local(client.address) } else { Owner::at(client.address) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::RequestReader;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn client_of(headers: &str, peer: &str) -> (String, bool) {
        let client = whole(headers, peer);
        (client.address.to_string(), client.is_forwarded)
    }

    fn whole(headers: &str, peer: &str) -> Client {
        let mut proxies = AddressRanges::default();
        for proxy in ["127.0.0.1", "10.0.0.9"] {
            proxies.add(proxy).unwrap();
        }
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        let peer = Client { is_on_this_machine: true, ..Client::direct(ListenerId(0), ip(peer)) };
        Client::of(&reader.next_request().unwrap().unwrap(), peer, &proxies)
    }

    #[test]
    fn a_client_that_a_proxy_of_this_machine_names_is_elsewhere() {
        assert!(whole("", "10.0.0.8").is_on_this_machine && whole("", "10.0.0.9").is_on_this_machine);
        for named in ["X-Forwarded-For: 10.0.0.9\r\n", "Forwarded: for=8.8.8.8\r\n"] {
            assert!(!whole(named, "10.0.0.9").is_on_this_machine, "{named}");
        }
        assert!(!Client::direct(ListenerId(0), ip("127.0.0.1")).is_on_this_machine, "unless both ends are known");
        assert_eq!(Client::direct(ListenerId(0), ip("::ffff:1.2.3.4")).address, ip("1.2.3.4"));
    }

    #[test]
    fn trusted_proxies_name_the_client() {
        for (headers, address) in [
            ("X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 6.6.6.6, 1.2.3.4\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.2.3.4, 10.0.0.9\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 10.0.0.9, 127.0.0.1\r\n", "10.0.0.9"),
            ("X-Forwarded-For: 1.2.3.4:5678\r\n", "1.2.3.4"),
            ("X-Forwarded-For: 2001:db8::1\r\n", "2001:db8::1"),
            ("X-Forwarded-For: ::ffff:1.2.3.4\r\n", "1.2.3.4"),
            ("Forwarded: for=6.6.6.6, for=1.2.3.4;proto=http\r\n", "1.2.3.4"),
            ("Forwarded: proto=http;For=\"[2001:db8::1]:80\"\r\n", "2001:db8::1"),
            ("X-Forwarded-For: 1.2.3.4, unknown\r\n", "127.0.0.1"),
            ("Forwarded: for=_hidden\r\n", "127.0.0.1"),
            ("Forwarded: by=1.2.3.4\r\n", "127.0.0.1"),
            ("X-Forwarded-For:\r\n", "127.0.0.1"),
        ] {
            assert_eq!(client_of(headers, "127.0.0.1"), (address.to_owned(), true), "{headers}");
        }
    }

    #[test]
    fn a_forwarded_client_is_identified_only_by_a_trusted_proxy() {
        for (headers, peer, is_unnamed) in [
            // A trusted proxy that names no client.
            ("", "127.0.0.1", true),
            ("", "8.8.8.8", false),
            ("X-Forwarded-For: 1.2.3.4\r\n", "127.0.0.1", false),
            ("X-Forwarded-For: 10.0.0.9\r\n", "127.0.0.1", false),
            ("X-Forwarded-For: unknown\r\n", "127.0.0.1", true),
            ("Forwarded: by=1.2.3.4\r\n", "10.0.0.9", true),
            ("X-Forwarded-For: 1.2.3.4\r\n", "::1", true),
            ("X-Forwarded-For: 1.2.3.4\r\n", "10.0.0.8", true),
            ("forwarded: for=127.0.0.1\r\n", "8.8.8.8", true),
            // Forwarded without the address of the client.
            ("X-Real-IP: 1.2.3.4\r\n", "127.0.0.1", true),
            ("via: 1.1 proxy\r\n", "127.0.0.1", true),
            ("X-Forwarded-Host: a\r\n", "127.0.0.1", true),
            ("x-forwarded-PROTO: https\r\n", "8.8.8.8", true),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-For: 1.2.3.4\r\n", "127.0.0.1", false),
            ("Viable: 1\r\nX-Forwarded: 1\r\n", "8.8.8.8", false),
        ] {
            assert_eq!(whole(headers, peer).is_unidentified, is_unnamed, "{headers} {peer}");
        }
    }

    #[test]
    fn untrusted_forwarding_headers_remove_local_access_but_name_no_client() {
        assert_eq!(client_of("X-Forwarded-For: 127.0.0.1\r\n", "8.8.8.8"), ("8.8.8.8".to_owned(), true));
        assert_eq!(client_of("forwarded: for=1.2.3.4\r\n", "::1"), ("::1".to_owned(), true));
        assert_eq!(client_of("", "::1"), ("::1".to_owned(), false));
        assert_eq!(client_of("", "127.0.0.1"), ("127.0.0.1".to_owned(), true), "a trusted proxy");
    }
}

#[cfg(test)]
mod client_key_tests {
    use super::super::service::ListenerId;
    use super::*;

    fn of(address: &str) -> Owner {
        Owner::of(&Client::direct(ListenerId(0), address.parse().unwrap()))
    }

    #[test]
    fn an_ipv6_network_and_an_ipv4_address_are_one_client_each() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn an_address_alone_is_not_this_machine() {
        let client = Client::direct(ListenerId(0), "127.0.0.1".parse().unwrap());
        assert!(!Owner::of(&client).is_local());
        assert!(Owner::of(&Client { is_local: true, ..client }).is_local());
    }
}
