//! What the settings do to the running program: listeners, limits, listed peers, and a reload of them.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::process;
use crate::commands::CommandError;
use crate::config::{Bind, Listener, LocalAccess, Settings};
use crate::ip::LocalAddresses;
use crate::local_cookie::LocalCookie;
use crate::logging;
use crate::net::fetch::{FetchLimits, Names};
use crate::net::{self, Reactor, service::ListenerId};
use crate::node::{self, ListedPeer, LocalRights};

/// The first address on which each interface listens.
pub struct Addresses {
    pub http: SocketAddr,
    pub websocket: SocketAddr,
}

/// Opens the ports.
pub fn open(settings: &Settings) -> Result<(Reactor, Addresses), CommandError> {
    let (max_connections, fetches) = process::raise_descriptor_limit();
    warn_of(settings, max_connections);
    let connections = settings.http.connections.min(max_connections);
    let defaults = FetchLimits::default();
    let fetch_limits = FetchLimits { connections: defaults.connections.min(fetches), ..defaults };
    let reactor = Reactor::new(net_limits(settings, connections), fetch_limits);
    let mut reactor = reactor.map_err(CommandError::System)?;
    let ([http, websocket], metrics) = settings.listeners();
    if let Some(metrics) = metrics {
        let port = listen(&mut reactor, node::METRICS, metrics)?.port();
        let address = SocketAddr::new(metrics.bind.local_address(), port);
        log::info!("metrics for all clients on http://{address}/metrics");
    }
    let addresses = Addresses {
        http: listen(&mut reactor, node::HTTP, http)?,
        websocket: listen(&mut reactor, node::WEBSOCKET, websocket)?,
    };
    Ok((reactor, addresses))
}

/// Warns of settings that the system does not allow, or that give rights to more clients than one may think.
fn warn_of(settings: &Settings, max_connections: usize) {
    let wanted = settings.http.connections;
    if max_connections < wanted {
        log::warn!(
            "the system allows {max_connections} connections instead of nisd.maxConnections = {wanted}; raise the \
             limit on open files (ulimit -n)"
        );
    }
    if settings.http.local_access == LocalAccess::Address {
        log::warn!(
            "nisd.localAccess = address: the address of a client gives it local access, as in NIS1. Every client of a \
             proxy on this machine has it, unless the proxy names its clients (nisd help operating)"
        );
    }
}

fn net_limits(settings: &Settings, connections: usize) -> net::Limits {
    let http = &settings.http;
    net::Limits {
        trusted_proxies: http.trusted_proxies.clone(),
        connections,
        connections_per_client: http.connections_per_address,
        requests_per_second: http.dos_filter.then_some(node::REQUESTS_PER_SECOND),
        buffered_bytes: http.buffered,
        keep_alive: http.idle_timeout,
        websocket_idle: settings.websocket.idle_timeout,
        ..net::Limits::default()
    }
}

/// Listens for one interface. Returns the first address.
fn listen(reactor: &mut Reactor, id: ListenerId, listener: Listener) -> Result<SocketAddr, CommandError> {
    let Listener { setting, bind, port } = listener;
    let mut open = |address: IpAddr, port: u16| {
        let address = SocketAddr::new(address, port);
        reactor.listen(id, address).map_err(|error| CommandError::Listen { setting, address, error })
    };
    match bind {
        Bind::One(address) => open(address, port),
        Bind::All => match open(Ipv6Addr::UNSPECIFIED.into(), port) {
            Err(error) if !is_in_use(&error) => {
                let first = open(Ipv4Addr::UNSPECIFIED.into(), port)?;
                log_without_ipv6(&error);
                Ok(first)
            }
            opened => opened,
        },
        Bind::Loopback => {
            let first = open(Ipv4Addr::LOCALHOST.into(), port)?;
            match open(Ipv6Addr::LOCALHOST.into(), first.port()) {
                // What the system has chosen for IPv4 may be in use for IPv6.
                Err(error) if port != 0 && is_in_use(&error) => return Err(error),
                Err(error) => log_without_ipv6(&error),
                Ok(_) => {}
            }
            Ok(first)
        }
    }
}

/// Returns whether another program has the port, which would get the clients that use IPv6 if this one listened on IPv4
/// only. Any other error is that of a machine without IPv6.
fn is_in_use(error: &CommandError) -> bool {
    matches!(error, CommandError::Listen { error, .. } if error.kind() == ErrorKind::AddrInUse)
}

fn log_without_ipv6(error: &CommandError) {
    log::info!("not listening on IPv6: {error}");
}

/// Interval between lookups of the names of clients that may be local.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Reads the settings again from their original sources.
pub type SettingsReader<'a> = &'a dyn Fn() -> Result<Settings, Box<dyn Error>>;

/// The settings in effect, without private keys, and values derived from them.
pub struct ActiveSettings<'a> {
    reader: SettingsReader<'a>,
    pub settings: Settings,
    /// Clients that may be local, with the addresses of their names.
    addresses: LocalAddresses,
    /// The names of clients that may be local.
    pub local_names: Names,
    /// When names without an address are looked up again.
    look_up_at: Duration,
    cookie: LocalCookie,
    /// The operator's list of peers.
    pub listed: Vec<ListedPeer>,
}

impl<'a> ActiveSettings<'a> {
    /// Creates it from the settings at startup.
    pub fn new(settings: &Settings, listed: Vec<ListedPeer>, cookie: LocalCookie, reader: SettingsReader<'a>) -> Self {
        let (addresses, local_names) = (settings.http.local.clone(), Names::default());
        let settings = settings.without_secrets();
        ActiveSettings { reader, settings, addresses, local_names, look_up_at: Duration::ZERO, cookie, listed }
    }

    /// Takes the addresses of names of clients that may be local, and asks again for those that are missing. Returns
    /// whether there are new ones.
    pub fn look_up_local(&mut self, now: Duration) -> bool {
        let hosts = &self.settings.http.local.hosts;
        if now >= self.look_up_at {
            self.look_up_at = now + LOOKUP_INTERVAL;
            hosts.iter().enumerate().for_each(|(index, host)| self.local_names.resolve(host, index, now));
        }
        let mut is_new = false;
        for (index, resolution) in self.local_names.resolved.drain(..) {
            match resolution {
                Ok(found) => found.iter().for_each(|address| is_new |= self.addresses.add(*address)),
                Err(why) => log::warn!(
                    "nis.additionalLocalIps: {} cannot be looked up, which is tried again: {why}",
                    hosts[index]
                ),
            }
        }
        is_new
    }

    /// Returns what gives clients local access.
    pub fn local(&self) -> LocalRights {
        LocalRights {
            addresses: self.addresses.clone(),
            cookie: Some(self.cookie.clone()),
            needs_cookie: self.settings.http.local_access == LocalAccess::Cookie,
        }
    }

    /// Reloads the settings, applies what may change of log and limits, and logs the changes. Returns the peers that
    /// are new on the operator's list; `None` if the reload failed, which changes nothing.
    pub fn reload(&mut self, reactor: &mut Reactor) -> Option<Vec<ListedPeer>> {
        let mut settings = self.settings.clone();
        let changes = (self.reader)().map(|read| settings.reload(read));
        let (changes, listed) = match changes.and_then(|changes| Ok((changes, listed_peers(&settings)?))) {
            Ok(read) => read,
            Err(error) => {
                logging::log_always(log::Level::Error, &format_args!("no setting is changed: {error}"));
                return None;
            }
        };
        self.settings = settings;
        // Logged before the log level may change.
        log::info!("the settings are reloaded: {} changes", changes.len());
        for change in changes {
            let level = if change.is_live { log::Level::Info } else { log::Level::Warn };
            logging::log_always(level, &change);
        }
        self.addresses = self.settings.http.local.clone();
        // What was asked for an earlier list has no effect, and all names are looked up again.
        (self.local_names, self.look_up_at) = (Names::default(), Duration::ZERO);
        self.look_up_local(reactor.server.time.monotonic);
        log::set_max_level(self.settings.node.log_level);
        let max_connections = process::raise_descriptor_limit().0;
        warn_of(&self.settings, max_connections);
        let connections = self.settings.http.connections.min(max_connections);
        reactor.set_limits(net_limits(&self.settings, connections));
        Some(self.compare_lists(listed))
    }

    /// Returns the peers that are new on the operator's list.
    fn compare_lists(&mut self, listed: Vec<ListedPeer>) -> Vec<ListedPeer> {
        let new: Vec<_> = listed.iter().filter(|peer| !self.listed.contains(peer)).cloned().collect();
        let gone = self.listed.iter().filter(|peer| !listed.contains(peer)).count();
        if !new.is_empty() {
            log::info!("new peers on the operator's list: {}", new.len());
        }
        if gone > 0 {
            log::warn!("peers removed from the operator's list: {gone}; they stay listed until the next start");
        }
        self.listed.extend(new.iter().cloned());
        new
    }
}

/// Returns the listed peers, those of the command line first.
pub fn listed_peers(settings: &Settings) -> Result<Vec<ListedPeer>, CommandError> {
    let file = settings.listed_peers().map_err(CommandError::Usage)?;
    for notice in file.diagnostics {
        logging::log_always(notice.level, &notice);
    }
    let hosts = settings.peers.hosts.iter().cloned().map(ListedPeer::Endpoint);
    Ok(hosts.chain(file.nodes.into_iter().map(ListedPeer::Node)).collect())
}
