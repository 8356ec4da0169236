//! Experiences of nodes with each other.

use super::limits;
use super::node::NodeInfo;
use super::secure::{read_at_most, write_list};
use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable};
use crate::peer::experiences::Experience;

/// Experience with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperiencePair {
    /// The node.
    pub node: NodeInfo,
    /// Experience with it.
    pub experience: Experience,
}

/// Experiences of a node with others, for peers; at most [`limits::EXPERIENCES`] are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExperiences {
    /// Reporting node.
    pub node: NodeInfo,
    /// Reported experiences.
    pub experiences: Vec<ExperiencePair>,
}

/// Experience with a node, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperienceEntry {
    /// The node.
    pub node: NodeInfo,
    /// Experience with it.
    pub experience: Experience,
    /// Synchronisations started with it.
    pub syncs: i32,
}

/// Announcement of a node. The experiences that it contains are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife(pub NodeInfo);

impl Writable for Experience {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("s", self.successes());
        sink.u64("f", self.failures());
    }
}

impl Readable for Experience {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(Experience::new(source.need_i64("s")?, source.need_i64("f")?))
    }
}

impl Writable for ExperiencePair {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("node", |sink| self.node.write(sink));
        sink.object("experience", |sink| self.experience.write(sink));
    }
}

impl Readable for ExperiencePair {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        Ok(ExperiencePair { node, experience: source.need_object("experience", Experience::read)? })
    }
}

impl Writable for NodeExperiences {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("node", |sink| self.node.write(sink));
        write_list(sink, "experiences", &self.experiences);
    }
}

impl Readable for NodeExperiences {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        let experiences = read_at_most(source, "experiences", limits::EXPERIENCES, ExperiencePair::read)?;
        Ok(NodeExperiences { node, experiences })
    }
}

impl Writable for ExperienceEntry {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("node", |sink| self.node.write(sink));
        sink.object("experience", |sink| self.experience.write(sink));
        sink.i32("syncs", self.syncs);
    }
}

impl Readable for ExperienceEntry {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(ExperienceEntry {
            node: source.need_object("node", NodeInfo::read)?,
            experience: source.need_object("experience", Experience::read)?,
            syncs: source.need_i32("syncs")?,
        })
    }
}

impl Readable for SignOfLife {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        source.need_list("experiences", |_| Ok(()))?;
        Ok(SignOfLife(node))
    }
}
