//! What nodes tell about themselves and each other: endpoints, versions, descriptions, experiences, clocks and errors.

use std::net::IpAddr;
use std::str::FromStr;

use super::{ReadField, WriteField, limits};
use crate::codec::limits::MAX_TEXT_UTF16;
use crate::codec::text::truncate_utf16;
use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable};
use crate::crypto::PublicKey;
use crate::ip::{Url, in_url, may_be_name};
use crate::model::{NetworkByte, Timestamp};
use crate::net::fetch;
use crate::net::http::reason_phrase;
use crate::peer::trust::Experience;

/// Default port of a node's HTTP interface.
pub const DEFAULT_PORT: u16 = 7890;
/// Protocols that NIS1 accepts in a URL.
const PROTOCOLS: [&str; 5] = ["http", "https", "ftp", "file", "jar"];

/// Network endpoint of a node.
#[derive(Clone, Debug, derive_more::Display, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{protocol}://{host}:{port}")]
pub struct Endpoint {
    /// Protocol; `http` for every node that can be reached.
    pub protocol: &'static str,
    /// Host name or IP address; IPv6 usually in brackets.
    pub host: String,
    /// Port of the HTTP interface. Peers may report any number from -1 on, including invalid ones.
    pub port: i32,
}

/// Error in an endpoint: NIS1's text, which other nodes see.
pub type BadEndpoint = &'static str;

impl Endpoint {
    /// Creates an endpoint for plain HTTP.
    pub fn http(host: impl Into<String>, port: u16) -> Endpoint {
        Endpoint { protocol: "http", host: host.into(), port: port.into() }
    }

    /// Checks the form: a known protocol, a port from -1 on, and a valid address or name. Names are not resolved, which
    /// would take long.
    pub fn checked(protocol: &str, host: String, port: i32) -> Result<Endpoint, BadEndpoint> {
        let protocol = PROTOCOLS.into_iter().find(|known| *known == protocol).filter(|_| port >= -1);
        let protocol = protocol.ok_or("url is malformed")?;
        let is_host = bare(&host).parse::<IpAddr>().is_ok() || may_be_name(&host);
        if is_host { Ok(Endpoint { protocol, host, port }) } else { Err("host is unknown") }
    }

    /// Parses [`Url::of_node`].
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let (host, port) = Url::of_node(text)?;
        Endpoint::checked("http", in_url(&host), port.unwrap_or(DEFAULT_PORT).into()).map_err(str::to_owned)
    }

    /// Returns the IP address, if the host is not a name.
    pub fn address(&self) -> Option<IpAddr> {
        bare(&self.host).parse().ok()
    }

    /// Returns host and port for a connection, IPv6 without brackets; `None` if the endpoint cannot be reached.
    pub fn to_connect(&self) -> Option<fetch::Endpoint> {
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0)?;
        (self.protocol == "http").then(|| fetch::Endpoint { host: bare(&self.host).to_owned(), port })
    }

    /// Decodes an endpoint; the inner error is an invalid endpoint, the outer one a malformed message.
    fn read_unchecked<'a, S: Decoder<'a>>(source: &mut S) -> Result<Result<Self, BadEndpoint>, ReadError> {
        let protocol = source.need_string("protocol", MAX_TEXT_UTF16)?;
        let host = source.need_string("host", MAX_TEXT_UTF16)?.into_owned();
        Ok(Endpoint::checked(&protocol, host, source.need_i32("port")?))
    }
}

/// Removes the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(host)
}

impl Writable for Endpoint {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("protocol", Some(self.protocol));
        sink.string("host", Some(&truncate_utf16(&self.host, MAX_TEXT_UTF16)));
        sink.i32("port", self.port);
    }
}

impl Readable for Endpoint {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Endpoint::read_unchecked(source)?.map_err(|error| ReadError::Internal(error.to_owned()))
    }
}

/// Version, written `MAJOR.MINOR.BUILD` or `MAJOR.MINOR.BUILD-TAG`.
#[derive(Clone, Debug, derive_more::Display, Default, PartialEq, Eq)]
#[display("{major}.{minor}.{build}{tag}")]
pub struct Version {
    /// First number, below 2³¹ like the others.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; irrelevant for compatibility, except in 0.0.0.
    pub build: u32,
    /// Text from the first hyphen on, or nothing; irrelevant for compatibility.
    pub tag: String,
}

impl Version {
    /// NIS1 version that this node reports.
    pub const OWN: Version = Version { major: 0, minor: 6, build: 102, tag: String::new() };

    /// Returns whether nodes of these versions work together: equal major and minor numbers, 0.6 with 0.7, and the
    /// unknown version 0.0.0 with all.
    pub fn is_compatible(&self, other: &Version) -> bool {
        let is_older_pair = |a: &Version, b: &Version| (a.major, a.minor, b.major, b.minor) == (0, 6, 0, 7);
        self.is_unknown()
            || other.is_unknown()
            || (self.major, self.minor) == (other.major, other.minor)
            || is_older_pair(self, other)
            || is_older_pair(other, self)
    }

    fn is_unknown(&self) -> bool {
        (self.major, self.minor, self.build) == (0, 0, 0)
    }
}

impl FromStr for Version {
    type Err = ReadError;

    /// The text of the error is NIS1's, which other nodes see.
    fn from_str(text: &str) -> Result<Version, ReadError> {
        let number = |digits: &str| {
            let number = digits.parse().ok().filter(|number: &u32| i32::try_from(*number).is_ok());
            number.filter(|_| !digits.starts_with('+'))
        };
        let parse = || {
            let (numbers, tag) = text.split_at(text.find('-').unwrap_or(text.len()));
            let numbers = numbers.split('.').map(number).collect::<Option<Vec<_>>>()?;
            let [major, minor, build] = numbers[..] else { return None };
            let is_line_end = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
            (!tag.contains(is_line_end)).then(|| Version { major, minor, build, tag: tag.to_owned() })
        };
        parse().ok_or_else(|| ReadError::Argument(format!("pattern '{text}' could not be parsed")))
    }
}

message! {
    /// Identity of a node: its key. The name is for people.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Identity {
        /// Public key.
        pub key: PublicKey = "public-key",
        /// Freely chosen name, at most 128 UTF-16 units.
        pub name: Option<String> = "name",
    }
}

message! {
    /// Program and network of a node.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct MetaData {
        /// Version that peers check.
        pub version: Version = "version",
        /// Platform, at most 128 UTF-16 units.
        pub platform: Option<String> = "platform",
        /// Name of the program, as configured by its operator, at most 128 UTF-16 units.
        pub application: Option<String> = "application",
        /// Bits of optional features.
        pub features: i32 = default "features",
        /// Signed network byte; peers may report any number.
        pub network_id: i32 = default "networkId",
    }
}

/// Public description of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Identity.
    pub identity: Identity,
    /// Endpoint.
    pub endpoint: Endpoint,
    /// Program and network.
    pub meta_data: MetaData,
}

/// List of nodes; at most [`limits::LISTED_NODES`] are read. Unreadable ones are skipped and do not affect the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeList(pub Vec<NodeInfo>);

message! {
    /// All nodes that a node knows, by state.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct NodeCollection {
        /// They answer.
        pub active: Vec<NodeInfo> = "active",
        /// They are slow.
        pub busy: Vec<NodeInfo> = "busy",
        /// They are unreachable.
        pub inactive: Vec<NodeInfo> = "inactive",
        /// They answer wrongly.
        pub failure: Vec<NodeInfo> = "failure",
    }
}

impl MetaData {
    /// Returns the network id for a network byte.
    pub fn network_id_of(byte: NetworkByte) -> i32 {
        i32::from(byte.0 as i8)
    }

    /// Returns whether two nodes can work together: same network, compatible versions.
    pub fn is_compatible(&self, other: &MetaData) -> bool {
        self.network_id == other.network_id && self.version.is_compatible(&other.version)
    }
}

impl Writable for NodeInfo {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("identity", |sink| self.identity.write(sink));
        sink.object("endpoint", |sink| self.endpoint.write(sink));
        sink.object("metaData", |sink| self.meta_data.write(sink));
    }
}

impl Readable for NodeInfo {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        NodeInfo::read_unchecked(source)?.map_err(|error| ReadError::Internal(error.to_owned()))
    }
}

impl NodeInfo {
    /// Decodes a node; the inner error is an invalid endpoint, the outer one a malformed message.
    pub fn read_unchecked<'a, S: Decoder<'a>>(source: &mut S) -> Result<Result<Self, BadEndpoint>, ReadError> {
        let identity = source.need_object("identity", Identity::read)?;
        let endpoint = source.need_object("endpoint", Endpoint::read_unchecked)?;
        let meta_data = source.object("metaData", MetaData::read)?.unwrap_or_default();
        Ok(endpoint.map(|endpoint| NodeInfo { identity, endpoint, meta_data }))
    }
}

impl Writable for NodeList {
    fn write(&self, sink: &mut impl Encoder) {
        self.0.write_field("data", sink);
    }
}

impl Readable for NodeList {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Vec::read_field("data", source).map(NodeList)
    }
}

/// Unreadable nodes are skipped.
impl ReadField for Vec<NodeInfo> {
    fn read_field<'a, S: Decoder<'a>>(label: &'static str, source: &mut S) -> Result<Self, ReadError> {
        let nodes = read_at_most(source, label, limits::LISTED_NODES, |source| Ok(NodeInfo::read(source).ok()))?;
        Ok(nodes.into_iter().flatten().collect())
    }
}

/// Reads a list of at most `max` elements. Rejects a longer one after reading that many.
fn read_at_most<'a, S: Decoder<'a>, T>(
    source: &mut S,
    label: &'static str,
    max: usize,
    mut read: impl FnMut(&mut S) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut count = 0;
    source.need_list(label, |source| {
        count += 1;
        if count > max {
            Err(ReadError::Argument(format!("property {label} has more than {max} elements")))
        } else {
            read(source)
        }
    })
}

message! {
    /// Experience with a node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExperiencePair {
        /// The node.
        pub node: NodeInfo = object "node",
        /// Experience with it.
        pub experience: Experience = object "experience",
    }
}

message! {
    /// Experiences of a node with others, for peers; at most [`limits::EXPERIENCES`] are read.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeExperiences {
        /// Reporting node.
        pub node: NodeInfo = object "node",
        /// Reported experiences.
        pub experiences: Vec<ExperiencePair> = "experiences",
    }
}

message! {
    /// Experience with a node, for people.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExperienceEntry {
        /// The node.
        pub node: NodeInfo = object "node",
        /// Experience with it.
        pub experience: Experience = object "experience",
        /// Synchronisations started with it.
        pub syncs: i32 = "syncs",
    }
}

impl ReadField for Vec<ExperiencePair> {
    fn read_field<'a, S: Decoder<'a>>(label: &'static str, source: &mut S) -> Result<Self, ReadError> {
        read_at_most(source, label, limits::EXPERIENCES, ExperiencePair::read)
    }
}

impl Writable for Experience {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("s", self.successes);
        sink.u64("f", self.failures);
    }
}

impl Readable for Experience {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(Experience::new(source.need_i64("s")?, source.need_i64("f")?))
    }
}

/// Announcement of a node. The experiences that it contains are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife(pub NodeInfo);

impl Readable for SignOfLife {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        source.need_list("experiences", |_| Ok(()))?;
        Ok(SignOfLife(node))
    }
}

message! {
    /// Clock of a queried node, in milliseconds of network time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CommunicationTimeStamps {
        /// Time of the answer.
        pub send: i64 = "sendTimeStamp",
        /// Arrival of the request.
        pub receive: i64 = "receiveTimeStamp",
    }
}

message! {
    /// Body of an error response.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ErrorBody {
        /// HTTP status.
        pub status: i32 = "status",
        /// Reason phrase, at most 128 UTF-16 units.
        pub error: Option<String> = "error",
        /// Error message, at most 128 UTF-16 units.
        pub message: Option<String> = "message",
        /// Network time of the response.
        pub timestamp: Timestamp = "timeStamp",
    }
}

impl ErrorBody {
    /// Message of a node that has not joined its network yet.
    pub const NOT_BOOTED: &'static str = "NIS_ILLEGAL_STATE_NOT_BOOTED";
    /// Message of a node that is told to join a network it has already joined.
    pub const ALREADY_BOOTED: &'static str = "NIS_ILLEGAL_STATE_ALREADY_BOOTED";
    /// Message of a node that is still loading its chain. A node of this program adds its progress.
    pub const LOADING_CHAIN: &'static str = "NIS_ILLEGAL_STATE_LOADING_CHAIN";

    /// Creates the body for a status.
    pub fn new(status: u16, message: Option<&str>, timestamp: Timestamp) -> ErrorBody {
        ErrorBody {
            status: status.into(),
            error: Some(reason_phrase(status).to_owned()),
            message: message.map(str::to_owned),
            timestamp,
        }
    }

    /// Returns whether a healthy node sent it that is still starting.
    pub fn is_starting(&self) -> bool {
        let is_starting = |message: &str| message == Self::NOT_BOOTED || message.starts_with(Self::LOADING_CHAIN);
        self.status == 503 && self.message.as_deref().is_some_and(is_starting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Context, Format};
    use crate::model::Network;

    #[test]
    fn endpoints_are_read_in_common_spellings() {
        let parse = |text| Endpoint::parse(text).map(|endpoint| endpoint.to_string());
        for (text, url) in [
            ("node.example", "http://node.example:7890"),
            ("node.example:80", "http://node.example:80"),
            ("http://10.0.0.1:7895/", "http://10.0.0.1:7895"),
            ("[::1]:80", "http://[::1]:80"),
            ("[::1]", "http://[::1]:7890"),
            ("2001:db8::1", "http://[2001:db8::1]:7890"),
        ] {
            assert_eq!(parse(text), Ok(url.to_owned()), "{text}");
        }
        for text in
            ["", ":80", "a:0", "a:65536", "a:", "a:b", "a/b", "a b", "https://a", "[::1", "[::1]x", "[::1]:", "a@b"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_connection_needs_http_and_a_port_that_exists() {
        let endpoint = |protocol, host: &str, port| Endpoint::checked(protocol, host.to_owned(), port).unwrap();
        let connection = |host: &str, port| Some(fetch::Endpoint { host: host.to_owned(), port });
        assert_eq!(endpoint("http", "[::1]", 7890).to_connect(), connection("::1", 7890));
        assert_eq!(endpoint("http", "a.b", 65_535).to_connect(), connection("a.b", 65_535));
        for (protocol, port) in [("https", 7890), ("ftp", 21), ("http", -1), ("http", 0), ("http", 65_536)] {
            assert_eq!(endpoint(protocol, "a", port).to_connect(), None, "{protocol} {port}");
        }
        assert_eq!(endpoint("http", "[::1]", 1).address(), Some("::1".parse().unwrap()));
        assert_eq!(endpoint("http", "a.b", 1).address(), None);
    }

    #[test]
    fn malformed_endpoints_are_rejected() {
        let checked = |protocol, host: &str, port| Endpoint::checked(protocol, host.to_owned(), port);
        assert_eq!(checked("gopher", "a", 1), Err("url is malformed"));
        assert_eq!(checked("http", "a", -2), Err("url is malformed"));
        for host in ["", "a..b", "a b", "ä", "[::1", "a/b", &"a.".repeat(200)] {
            assert_eq!(checked("http", host, 1), Err("host is unknown"), "{host}");
        }
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_is_written_as_it_was_read() {
        for text in ["0.6.102", "0.0.0", "2147483647.0.1", "0.6.102-BETA", "1.2.3-a-b.c", "1.2.3-"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("00.06.0102").to_string(), "0.6.102");
        assert_eq!(version("0.6.102"), Version::OWN);
    }

    #[test]
    fn a_version_is_three_numbers_before_an_optional_hyphen() {
        for text in [
            "",
            "0.6",
            "0.6.102.1",
            "a.b.c",
            "0.6.x",
            "2147483648.0.0",
            "0.6.+1",
            "-0.6.1",
            " 0.6.1",
            "1.2.3-a\nb",
            "..",
            "٣.1.1",
        ] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error.to_string(), format!("pattern '{text}' could not be parsed"));
        }
    }

    #[test]
    fn versions_are_compatible_by_major_and_minor_number_or_if_one_is_unknown() {
        for (other, goes) in [
            ("0.6.1", true),
            ("0.6.102-X", true),
            ("0.7.1", true),
            ("0.0.0", true),
            ("0.0.0-X", true),
            ("0.0.1", false),
            ("0.5.9", false),
            ("0.8.0", false),
            ("1.6.1", false),
            ("1.7.0", false),
        ] {
            assert_eq!(Version::OWN.is_compatible(&version(other)), goes, "{other}");
            assert_eq!(version(other).is_compatible(&Version::OWN), goes, "{other}");
        }
        assert!(!version("1.6.0").is_compatible(&version("1.7.0")));
    }

    #[test]
    fn a_message_is_truncated_at_128_units() {
        let long = format!("{}😀", "x".repeat(127));
        let body = ErrorBody::new(400, Some(&long), Timestamp(7));
        let text = String::from_utf8(Format::Json.to_bytes(&body)).unwrap();
        let cut = format!("{}?", "x".repeat(127));
        assert_eq!(text, format!(r#"{{"timeStamp":7,"error":"Bad Request","message":"{cut}","status":400}}"#));
    }

    #[test]
    fn a_starting_peer_is_distinguished_from_a_failing_one() {
        let context = Context::of(&Network::example());
        for (status, message, is_starting) in [
            (503, Some(ErrorBody::NOT_BOOTED), true),
            (503, Some(ErrorBody::LOADING_CHAIN), true),
            (503, Some("NIS_ILLEGAL_STATE_LOADING_CHAIN: the store is rebuilt, height 1 of 2"), true),
            (503, Some(ErrorBody::ALREADY_BOOTED), false),
            (503, None, false),
            (500, Some(ErrorBody::NOT_BOOTED), false),
        ] {
            for format in [Format::Json, Format::Binary] {
                let body = format.to_bytes(&ErrorBody::new(status, message, Timestamp(1)));
                let read: ErrorBody = format.read(&body, context).unwrap();
                assert_eq!(read.is_starting(), is_starting, "{status} {message:?}");
            }
        }
    }
}
