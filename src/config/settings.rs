//! Everything that is configured, checked and typed.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::address_ranges::AddressRanges;
use super::changes::Given;
use super::local_addresses::LocalAddresses;
use super::peers::PeersFile;
use super::problem::Notice;
use super::secret::Secret;
use crate::clock::ClockMode;
use crate::model::Checkpoint;
use crate::model::address::Address;
use crate::model::hash::Hash256;
use crate::model::network::Network;
use crate::peer::wire::Version;

pub use crate::api::Features;
pub use crate::peer::wire::Endpoint;
pub use crate::push::BlocksNewBody;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network and its chain.
    pub network: Network,
    /// Where the nemesis block is, unless it is to come from another node.
    pub nemesis: NemesisFile,
    /// Hash of that block, where everybody knows it.
    pub nemesis_hash: Option<Hash256>,
    /// Folder of the chain store.
    pub data: PathBuf,
    /// Bytes of address space for the chain store, a multiple of 64 KiB.
    pub map_size: usize,
    /// Where network time comes from.
    pub clock: ClockMode,
    /// What is logged.
    pub log_level: log::LevelFilter,
    /// Whether lines of the log are JSON.
    pub logs_json: bool,
    /// Optional parts of the HTTP interface.
    pub features: Features,
    /// The node's identity and how it starts.
    pub boot: Boot,
    /// The endpoint that the node tells others: `http` with the port of the HTTP interface, or `https` with
    /// `nem.httpsPort`.
    pub endpoint: Endpoint,
    /// The version of NIS1 that it tells them (`nisd.announcedVersion`).
    pub announced_version: Version,
    /// Callers that may use what only local ones may.
    pub local: LocalAddresses,
    /// Proxies that are believed when they say for whom they pass on a request (`nisd.trustedProxies`).
    pub trusted_proxies: AddressRanges,
    /// Names under which browsers and proxies reach this node, besides `localhost` and IP addresses of the loopback:
    /// `nisd.hostNames` and `nem.host`. Host names in small letters, IP addresses in their usual form without brackets;
    /// no ports.
    pub host_names: Vec<String>,
    /// Origins whose pages have the rights of local clients (`nisd.localOrigins`): scheme, host and port as browsers send
    /// them, in small letters.
    pub local_origins: Vec<String>,
    /// Accounts whose private keys requests may bring; empty allows all.
    pub allowed_harvesters: Vec<Address>,
    /// Whether transactions are found by their hashes only as long as the protocol remembers these.
    pub forgets_hashes: bool,
    /// The HTTP interface.
    pub http: HttpSettings,
    /// The websocket interface.
    pub websocket: WebsocketSettings,
    /// Limits on connections and sessions.
    pub limits: Limits,
    /// Further private keys to harvest with (`nis.additionalHarvesterPrivateKeys`).
    pub harvester_keys: Vec<Secret>,
    /// Most accounts that harvest on this node (`nis.unlockedLimit`).
    pub unlocked_limit: i32,
    /// Other nodes.
    pub peers: PeerSettings,
    /// What a person should know about these settings. For the log, once, when the node starts.
    pub notices: Vec<Notice>,
    /// What was set, to tell what has changed when settings are read anew.
    pub given: Given,
}

/// The file of a nemesis block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NemesisFile(pub PathBuf);

/// The node's identity and how it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// `nis.shouldAutoBoot`: boot with a random key if there is none.
    pub auto: bool,
    /// `nis.bootKey`.
    pub key: Option<Secret>,
    /// `nis.bootName`, without blanks around it; `None` if it is not set. The address of the key stands for it.
    pub name: Option<String>,
    /// `nis.shouldAutoHarvestOnBoot`: harvest with the keys of the configuration.
    pub auto_harvest: bool,
}

/// Where to listen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// On all addresses of the machine, IPv6 and IPv4.
    #[default]
    All,
    /// On 127.0.0.1 and, where the machine has it, on ::1.
    Loopback,
    /// On this address.
    One(IpAddr),
}

impl Bind {
    /// Whether nobody but programs of this machine reaches the node.
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
    /// Where to listen.
    pub bind: Bind,
    /// Port; 0 for one that the system chooses.
    pub port: u16,
    /// Path in front of all others: empty, or begins with `/` and does not end with it.
    pub context: String,
    /// Whether the request rate is limited, also on the websocket port.
    pub dos_filter: bool,
    /// Whether answers to GET may be compressed.
    pub gzip: bool,
    /// Whether the page `/explorer` is served.
    pub explorer: bool,
    /// Where anybody may ask for the figures, and for nothing else.
    pub metrics: Option<SocketAddr>,
}

/// Settings of the websocket interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebsocketSettings {
    /// Where to listen.
    pub bind: Bind,
    /// Port; 0 for one that the system chooses.
    pub port: u16,
    /// Body of messages to `/blocks/new`.
    pub blocks_new_body: BlocksNewBody,
    /// Subscribing to an account's channel registers the account.
    pub register_on_subscribe: bool,
    /// Registering an account subscribes a session to its transactions.
    pub implicit_subscription: bool,
    /// Frames are read forgivingly.
    pub forgiving_stomp: bool,
}

/// Limits on connections and sessions. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of both interfaces together.
    pub connections: usize,
    /// Open connections of the HTTP port; at most [`connections`](Limits::connections).
    pub http_connections: usize,
    /// Open connections of the websocket port; at most [`connections`](Limits::connections).
    pub websocket_connections: usize,
    /// Open connections of one address, or of one IPv6 prefix. Loopback and trusted proxies may have more.
    pub connections_per_address: usize,
    /// Bits of an IPv6 address that tell callers apart, 32 to 128.
    pub ipv6_prefix_length: u8,
    /// Memory for requests and unsent answers of all connections together.
    pub buffered: usize,
    /// Longest body of a request, whatever its route allows.
    pub body_size: usize,
    /// After this an HTTP connection without a request is closed.
    pub idle_timeout: Duration,
    /// Within this a request must arrive as a whole, and within as long its answer must be taken.
    pub request_timeout: Duration,
    /// After this a websocket session without traffic is closed.
    pub websocket_idle_timeout: Duration,
    /// After this a subscriber that leaves a message unread is dropped.
    pub send_timeout: Duration,
    /// Bytes of messages waiting for one subscriber, above which it is dropped.
    pub backlog: usize,
    /// Subscriptions of one session.
    pub subscriptions: usize,
    /// Accounts that one session has registered for messages.
    pub registered_addresses: usize,
}

/// What concerns other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// The list of those that are known from the start.
    pub file: PeersFile,
    /// Further ones, whose keys are not known yet (`nisd.peers`).
    pub hosts: Vec<Endpoint>,
    /// A block that the operator vouches for (`nisd.trustBelow`).
    pub checkpoint: Option<Checkpoint>,
    /// How many are asked or told at a time (`nis.nodeLimit`).
    pub node_limit: usize,
    /// How many are asked for their time at a time (`nis.timeSyncNodeLimit`).
    pub time_sync_node_limit: usize,
    /// Whether they are asked in the binary format instead of JSON (`nis.useBinaryTransport`).
    pub binary_transport: bool,
    /// Whether the clock follows theirs (`nis.useNetworkTime`).
    pub use_network_time: bool,
    /// Whether they are asked for the own address.
    pub ip_detection: IpDetection,
    /// Paths of requests that are left out of `/debug/connections/incoming`, in small letters.
    pub unaudited_paths: Vec<String>,
}

/// `nis.ipDetectionMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpDetection {
    /// Other nodes are to be asked; without an answer the node does not boot.
    AutoRequired,
    /// Other nodes are to be asked, and need not answer.
    AutoOptional,
    /// The endpoint stays as configured.
    Disabled,
}
