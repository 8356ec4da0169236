//! Starting a node.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use super::{BATCH_BLOCKS, BATCH_STEPS, Node, NodeError};
use crate::chain::{Intake, IntakeOptions};
use crate::codec::block_file::BlockFile;
use crate::commands;
use crate::config::{Bind, LocalAddresses, Settings};
use crate::devnet::{Devnet, Ports};
use crate::model::Height;
use crate::net::{Limits, ListenerId, Reactor};
use crate::store::Store;

/// The blocks that a node takes in: the nemesis block, if there is none yet, and those of files.
pub fn intake<'s>(
    store: &'s Store,
    settings: &'s Settings,
    nemesis: Vec<u8>,
    files: Vec<BlockFile<'static>>,
) -> Result<Intake<'s>, NodeError> {
    let options =
        IntakeOptions { batch_steps: BATCH_STEPS, batch_blocks: BATCH_BLOCKS, stop_at: None, trusted_below: Height(0) };
    Ok(Intake::new(store, &settings.network, nemesis, files, options)?)
}

/// The sockets that a node listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// Of the HTTP interface.
    pub http: ListenerId,
    /// Of the websocket interface.
    pub websocket: ListenerId,
}

/// Opens the ports.
pub fn reactor(settings: &Settings) -> Result<(Reactor, Listeners), NodeError> {
    let limits = &settings.limits;
    let mut reactor = Reactor::new(Limits {
        connections: limits.connections,
        body_bytes: limits.body_size,
        websocket_backlog_bytes: limits.backlog,
        buffered_bytes: limits.buffered,
        keep_alive: limits.idle_timeout,
        request_time: limits.request_timeout,
        write_stall: limits.request_timeout,
        websocket_idle: limits.websocket_idle_timeout,
        websocket_send_age: limits.send_timeout,
        ..Limits::default()
    })
    .map_err(NodeError::System)?;
    let (http, websocket) = (&settings.http, &settings.websocket);
    let listeners = Listeners {
        http: listen(&mut reactor, http.bind, http.port, limits.connections)?,
        websocket: listen(&mut reactor, websocket.bind, websocket.port, limits.connections)?,
    };
    Ok((reactor, listeners))
}

fn listen(reactor: &mut Reactor, bind: Bind, port: u16, connections: usize) -> Result<ListenerId, NodeError> {
    let everywhere = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let addresses = match &bind {
        Bind::All => everywhere.as_slice(),
        Bind::One(address) => std::slice::from_ref(address),
    };
    // A machine without IPv6 refuses the first of all addresses.
    let mut failure = io::ErrorKind::InvalidInput.into();
    for address in addresses {
        match reactor.listen(SocketAddr::new(*address, port), connections) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(NodeError::Listen(SocketAddr::new(addresses[addresses.len() - 1], port), failure))
}

/// The callers that count as local, with the host names among them looked up once.
pub fn resolve_local(settings: &Settings) -> LocalAddresses {
    let mut local = settings.local.clone();
    for host in settings.local.hosts() {
        match (host.as_str(), 0).to_socket_addrs() {
            Ok(addresses) => addresses.for_each(|address| local.add(address.ip())),
            Err(error) => log::warn!("nis.additionalLocalIps: {host} cannot be looked up and is left out: {error}"),
        }
    }
    local
}

/// Tells the operator what runs where.
pub fn greet(settings: &Settings, devnet: Option<&Devnet>, reactor: &Reactor, listeners: Listeners, node: &Node<'_>) {
    let address = |id| reactor.local_addr(id).map_or_else(|| "?".to_owned(), |address| address.to_string());
    log::info!("nisd {}, network {}, height {}", env!("CARGO_PKG_VERSION"), settings.network.name, node.height());
    if let Some(announcement) = node.clock().announcement() {
        log::warn!("{announcement}");
    }
    let (http, websocket) = (address(listeners.http), address(listeners.websocket));
    log::info!("HTTP on {http}, websocket on {websocket} at /w/messages/websocket");
    let port = |id| reactor.local_addr(id).map_or(0, |address| address.port());
    let ports = Ports { http: port(listeners.http), websocket: port(listeners.websocket) };
    match devnet {
        // Where standard output is gone, nobody reads it.
        Some(devnet) => drop(commands::introduce(devnet, settings, ports)),
        None => log::info!("try: curl http://127.0.0.1:{}/chain/height", ports.http),
    }
}
