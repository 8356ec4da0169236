//! What nodes think of each other.

use super::limits;
use super::list::{read_at_most, write_list};
use super::node::NodeInfo;
use crate::codec::{ReadError, Readable, Sink, Source, Writable};

/// How often a node was of use, and how often it did harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Experience {
    /// Successes, below 2⁶³.
    pub successes: u64,
    /// Failures, below 2⁶³.
    pub failures: u64,
}

/// A node, and what another one thinks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperiencePair {
    /// The node.
    pub node: NodeInfo,
    /// What it did.
    pub experience: Experience,
}

/// What a node thinks of others, as it tells them; at most [`limits::EXPERIENCES`] are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExperiences {
    /// Who says so.
    pub node: NodeInfo,
    /// Of whom.
    pub experiences: Vec<ExperiencePair>,
}

/// What a node thinks of another, as it tells people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperienceEntry {
    /// The other node.
    pub node: NodeInfo,
    /// What it did.
    pub experience: Experience,
    /// Attempts to synchronise with it.
    pub syncs: i32,
}

/// A node that says that it is there, together with experiences nobody looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife(pub NodeInfo);

impl Writable for Experience {
    fn write(&self, sink: &mut impl Sink) {
        sink.u64("s", self.successes);
        sink.u64("f", self.failures);
    }
}

impl Readable for Experience {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        // Less than nothing is nothing.
        let successes = source.need_i64("s")?.max(0).unsigned_abs();
        Ok(Experience { successes, failures: source.need_i64("f")?.max(0).unsigned_abs() })
    }
}

impl Writable for ExperiencePair {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("node", |sink| self.node.write(sink));
        sink.object("experience", |sink| self.experience.write(sink));
    }
}

impl Readable for ExperiencePair {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        Ok(ExperiencePair { node, experience: source.need_object("experience", Experience::read)? })
    }
}

impl Writable for NodeExperiences {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("node", |sink| self.node.write(sink));
        write_list(sink, "experiences", &self.experiences);
    }
}

impl Readable for NodeExperiences {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        let experiences = read_at_most(source, "experiences", limits::EXPERIENCES, ExperiencePair::read)?;
        Ok(NodeExperiences { node, experiences })
    }
}

impl Writable for ExperienceEntry {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("node", |sink| self.node.write(sink));
        sink.object("experience", |sink| self.experience.write(sink));
        sink.i32("syncs", self.syncs);
    }
}

impl Readable for ExperienceEntry {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(ExperienceEntry {
            node: source.need_object("node", NodeInfo::read)?,
            experience: source.need_object("experience", Experience::read)?,
            syncs: source.need_i32("syncs")?,
        })
    }
}

impl Readable for SignOfLife {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let node = source.need_object("node", NodeInfo::read)?;
        source.need_list("experiences", |_| Ok(()))?;
        Ok(SignOfLife(node))
    }
}
