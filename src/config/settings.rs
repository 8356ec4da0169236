//! All settings, checked and typed.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::address_ranges::AddressRanges;
use super::changes::ExplicitSettings;
use super::local_addresses::LocalAddresses;
use super::peers::PeersFile;
use super::problem::Diagnostic;
use super::secret::Secret;
use crate::clock::ClockMode;
use crate::model::Checkpoint;
use crate::model::address::Address;
use crate::model::hash::Hash256;
use crate::model::network::Network;
use crate::peer::wire::Version;

pub use crate::api::Features;
pub use crate::peer::wire::Endpoint;
pub use crate::websocket_api::BlocksNewBody;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network and its chain.
    pub network: Network,
    /// File of the nemesis block, unless the block comes from a peer.
    pub nemesis: NemesisFile,
    /// Hash of the nemesis block, for known networks.
    pub nemesis_hash: Option<Hash256>,
    /// Folder of the chain store.
    pub data: PathBuf,
    /// Address space for the chain store in bytes, a multiple of 64 KiB.
    pub map_size: usize,
    /// Source of network time.
    pub clock: ClockMode,
    /// Log level.
    pub log_level: log::LevelFilter,
    /// Whether log lines are JSON.
    pub logs_json: bool,
    /// Optional parts of the HTTP interface.
    pub features: Features,
    /// The node's identity and start options.
    pub boot: Boot,
    /// The endpoint that the node announces: `http` with the port of the HTTP interface, or `https` with
    /// `nem.httpsPort`.
    pub endpoint: Endpoint,
    /// The version of NIS1 that the node announces (`nisd.announcedVersion`).
    pub announced_version: Version,
    /// Clients with local access.
    pub local: LocalAddresses,
    /// Proxies that are trusted to name the client of a forwarded request (`nisd.trustedProxies`).
    pub trusted_proxies: AddressRanges,
    /// Names under which browsers and proxies reach this node, besides `localhost` and loopback addresses:
    /// `nisd.hostNames` and `nem.host`. Host names in lower case, IP addresses in their usual form without brackets; no
    /// ports.
    pub host_names: Vec<String>,
    /// Origins whose pages have local access (`nisd.localOrigins`): scheme, host and port as browsers send them, in
    /// lower case.
    pub local_origins: Vec<String>,
    /// Accounts whose private keys requests may contain; empty allows all.
    pub allowed_harvesters: Vec<Address>,
    /// Whether transactions are found by hash only during the protocol's retention time of hashes.
    pub forgets_hashes: bool,
    /// The HTTP interface.
    pub http: HttpSettings,
    /// The websocket interface.
    pub websocket: WebsocketSettings,
    /// Limits on connections and sessions.
    pub limits: Limits,
    /// Additional private keys to harvest with (`nis.additionalHarvesterPrivateKeys`).
    pub harvester_keys: Vec<Secret>,
    /// Maximum number of accounts that harvest on this node (`nis.unlockedLimit`).
    pub unlocked_limit: i32,
    /// Settings for peers.
    pub peers: PeerSettings,
    /// Warnings about these settings, logged once at startup.
    pub diagnostics: Vec<Diagnostic>,
    /// Values that were set explicitly, to find changes on a reload.
    pub explicit: ExplicitSettings,
}

/// The file of a nemesis block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NemesisFile(pub PathBuf);

/// The node's identity and start options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// `nis.shouldAutoBoot`: boot with a random key if none is set.
    pub auto: bool,
    /// `nis.bootKey`.
    pub key: Option<Secret>,
    /// `nis.bootName`, trimmed; `None` if not set. The default is the address of the key.
    pub name: Option<String>,
    /// `nis.shouldAutoHarvestOnBoot`: harvest with the keys of the configuration.
    pub auto_harvest: bool,
}

/// Addresses to listen on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// All addresses of the machine, IPv6 and IPv4.
    #[default]
    All,
    /// 127.0.0.1 and, where the machine has it, ::1.
    Loopback,
    /// This address.
    One(IpAddr),
}

impl Bind {
    /// Returns whether only programs on this machine can reach the node.
    pub fn is_loopback(self) -> bool {
        match self {
            Bind::All => false,
            Bind::Loopback => true,
            Bind::One(address) => address.to_canonical().is_loopback(),
        }
    }
}

/// Settings of the HTTP interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Addresses to listen on.
    pub bind: Bind,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Path prefix: empty, or starts with `/` and does not end with it.
    pub context: String,
    /// Whether the request rate is limited, also on the websocket port.
    pub dos_filter: bool,
    /// Whether responses to GET may be compressed.
    pub gzip: bool,
    /// Whether the page `/explorer` is served.
    pub explorer: bool,
    /// Address on which anyone may query the metrics, and nothing else.
    pub metrics: Option<SocketAddr>,
}

/// Settings of the websocket interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebsocketSettings {
    /// Addresses to listen on.
    pub bind: Bind,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Body of messages to `/blocks/new`.
    pub blocks_new_body: BlocksNewBody,
    /// Whether subscribing to an account's channel registers the account.
    pub register_on_subscribe: bool,
    /// Whether registering an account subscribes a session without subscriptions to its transactions.
    pub implicit_subscription: bool,
    /// Whether STOMP frames are parsed leniently.
    pub lenient_stomp: bool,
}

/// Limits on connections and sessions. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum open connections of both interfaces together.
    pub connections: usize,
    /// Maximum open connections of the HTTP port; at most [`connections`](Limits::connections).
    pub http_connections: usize,
    /// Maximum open connections of the websocket port; at most [`connections`](Limits::connections).
    pub websocket_connections: usize,
    /// Maximum open connections of one IPv4 address or IPv6 prefix. Loopback and trusted proxies may have more.
    pub connections_per_address: usize,
    /// Prefix length that identifies an IPv6 client, 32 to 128 bits.
    pub ipv6_prefix_length: u8,
    /// Maximum memory for requests and unsent responses of all connections together.
    pub buffered: usize,
    /// Maximum body of a request, whatever its route allows.
    pub body_size: usize,
    /// Time after which an HTTP connection without a request is closed.
    pub idle_timeout: Duration,
    /// Time within which a complete request must arrive, and within which its response must be read.
    pub request_timeout: Duration,
    /// Time after which a websocket session without traffic is closed.
    pub websocket_idle_timeout: Duration,
    /// Time after which a subscriber that does not read a message is dropped.
    pub send_timeout: Duration,
    /// Maximum bytes of queued messages for one subscriber; beyond it the subscriber is dropped.
    pub backlog: usize,
    /// Maximum subscriptions of one session.
    pub subscriptions: usize,
    /// Maximum accounts that one session may register for messages.
    pub registered_addresses: usize,
}

/// Settings for peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// File with the peers that are known at startup.
    pub file: PeersFile,
    /// Additional peers, whose keys are not known yet (`nisd.peers`).
    pub hosts: Vec<Endpoint>,
    /// Trusted checkpoint (`nisd.trustBelow`).
    pub checkpoint: Option<Checkpoint>,
    /// Peers per broadcast or query (`nis.nodeLimit`).
    pub node_limit: usize,
    /// Peers per time synchronisation (`nis.timeSyncNodeLimit`).
    pub time_sync_node_limit: usize,
    /// Whether requests to peers use the binary format instead of JSON (`nis.useBinaryTransport`).
    pub binary_transport: bool,
    /// Whether the clock follows that of peers (`nis.useNetworkTime`).
    pub use_network_time: bool,
    /// Whether peers are asked for the node's own address.
    pub ip_detection: IpDetection,
    /// Request paths that are left out of `/debug/connections/incoming`, in lower case.
    pub unaudited_paths: Vec<String>,
}

/// `nis.ipDetectionMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpDetection {
    /// Peers are asked; without an answer the node does not boot.
    AutoRequired,
    /// Peers are asked, but need not answer.
    AutoOptional,
    /// Peers are not asked; the endpoint stays as configured.
    Disabled,
}
