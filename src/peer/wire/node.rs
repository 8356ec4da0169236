//! Descriptions of nodes.

use super::endpoint::{BadEndpoint, Endpoint};
use super::limits;
use super::secure::{read_at_most, write_list};
use super::version::Version;
use crate::codec::limits::MAX_TEXT_UTF16;
use crate::codec::text::truncate_utf16;
use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable};
use crate::crypto::PublicKey;
use crate::model::NetworkByte;

/// Identity of a node: its key. The name is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Public key.
    pub key: PublicKey,
    /// Freely chosen name, at most 128 UTF-16 units.
    pub name: Option<String>,
}

/// Program and network of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaData {
    /// Version that peers check.
    pub version: Version,
    /// Platform, at most 128 UTF-16 units.
    pub platform: Option<String>,
    /// Name of the program, as configured by its operator, at most 128 UTF-16 units.
    pub application: Option<String>,
    /// Bits of optional features.
    pub features: i32,
    /// Signed network byte; peers may report any number.
    pub network_id: i32,
}

/// Public description of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// All nodes that a node knows, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCollection {
    /// They answer.
    pub active: Vec<NodeInfo>,
    /// They are slow.
    pub busy: Vec<NodeInfo>,
    /// They are unreachable.
    pub inactive: Vec<NodeInfo>,
    /// They answer wrongly.
    pub failure: Vec<NodeInfo>,
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

fn cut(text: &Option<String>) -> Option<std::borrow::Cow<'_, str>> {
    text.as_deref().map(|text| truncate_utf16(text, MAX_TEXT_UTF16))
}

fn read_text<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Option<String>, ReadError> {
    Ok(source.string(label, MAX_TEXT_UTF16)?.map(|text| text.into_owned()))
}

impl Writable for Identity {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("public-key", Some(&self.key.0));
        sink.string("name", cut(&self.name).as_deref());
    }
}

impl Readable for Identity {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(Identity { key: source.public_key("public-key")?, name: read_text(source, "name")? })
    }
}

impl Writable for MetaData {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("version", Some(&truncate_utf16(&self.version.to_string(), MAX_TEXT_UTF16)));
        sink.string("platform", cut(&self.platform).as_deref());
        sink.string("application", cut(&self.application).as_deref());
        sink.i32("features", self.features);
        sink.i32("networkId", self.network_id);
    }
}

impl Readable for MetaData {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(MetaData {
            version: source.need_string("version", MAX_TEXT_UTF16)?.parse::<Version>()?,
            platform: read_text(source, "platform")?,
            application: read_text(source, "application")?,
            features: source.i32("features")?.unwrap_or_default(),
            network_id: source.i32("networkId")?.unwrap_or_default(),
        })
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
        Ok(NodeInfo::read_unchecked(source)??)
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
        write_list(sink, "data", &self.0);
    }
}

impl Readable for NodeList {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_nodes(source, "data").map(NodeList)
    }
}

impl Writable for NodeCollection {
    fn write(&self, sink: &mut impl Encoder) {
        let NodeCollection { active, busy, inactive, failure } = self;
        for (label, nodes) in [("active", active), ("busy", busy), ("inactive", inactive), ("failure", failure)] {
            write_list(sink, label, nodes);
        }
    }
}

impl Readable for NodeCollection {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(NodeCollection {
            active: read_nodes(source, "active")?,
            busy: read_nodes(source, "busy")?,
            inactive: read_nodes(source, "inactive")?,
            failure: read_nodes(source, "failure")?,
        })
    }
}

fn read_nodes<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Vec<NodeInfo>, ReadError> {
    let nodes = read_at_most(source, label, limits::LISTED_NODES, |source| Ok(NodeInfo::read(source).ok()))?;
    Ok(nodes.into_iter().flatten().collect())
}
