//! Trust in each peer, and selection of peers by trust.
//!
//! Trust is calculated from the experiences of nodes with each other (EigenTrust++). A peer's report counts in
//! proportion to the trust in the peer, and less the more its experiences differ from those of the node that uses it.
//! Peers with which this node had few calls share a part of the trust, so that they are contacted at all.
//!
//! A calculation has at most [`MAX_MEMBERS`] members, holds 330 kB while it runs, and advances row by row so that it
//! can be interleaved with other work. A row is one node's experiences with all members, or one node's weighting of
//! them, or one iteration; it costs some microseconds. The result is used for [`LIFETIME`] seconds. Its size and the cost
//! of a selection are linear in the members.

mod calculation;
mod members;
mod selector;
mod values;

pub use self::calculation::Calculation;
pub use self::members::{MAX_MEMBERS, Members};
pub use self::selector::Selector;
pub use self::values::{Candidates, TrustValues};

use crate::model::{Address, Timestamp};
use crate::peer::experiences::Experiences;

/// Lifetime of a result in seconds of network time.
pub const LIFETIME: i32 = 900;

/// A network with fewer other members than this is small.
pub const SMALL_NETWORK: usize = 20;
/// Lifetime in seconds of a result in a small network that has a member without a value.
pub const SMALL_NETWORK_LIFETIME: i32 = 30;

/// Current trust values, and the calculation of the next ones.
#[derive(Debug, Default)]
pub struct Trust {
    values: TrustValues,
    /// Start of the calculation of the current or next values, and the number of other nodes then.
    since: Option<(Timestamp, usize)>,
    calculation: Option<Calculation>,
}

impl Trust {
    /// Returns whether a calculation may be due if at most `others` other nodes can take part.
    pub fn may_be_due(&self, others: usize, now: Timestamp) -> bool {
        self.calculation.is_none()
            && self.since.is_none_or(|(since, former)| {
                let age = now.0.saturating_sub(since.0).saturating_abs();
                age > LIFETIME
                    || others > former.saturating_mul(2)
                    || (former < SMALL_NETWORK && age >= SMALL_NETWORK_LIFETIME)
            })
    }

    /// Returns whether a calculation is due; `others` are the nodes that could take part, without this one. In a
    /// growing network it is due before the end of [`LIFETIME`]: when the nodes have more than doubled, and in a small
    /// network after [`SMALL_NETWORK_LIFETIME`] if any node has no value. NIS1 uses only pre-trusted nodes in its first quarter of
    /// an hour.
    pub fn is_due(&self, others: &[Address], now: Timestamp) -> bool {
        self.may_be_due(others.len(), now)
            && self.since.is_none_or(|(since, former)| {
                let age = now.0.saturating_sub(since.0).saturating_abs();
                let is_new = |node: &Address| self.values.of(node).is_none();
                age > LIFETIME || others.len() > former.saturating_mul(2) || others.iter().any(is_new)
            })
    }

    /// Removes the trust value of a peer that has moved. Returns whether there was one.
    pub fn forget(&mut self, node: &Address) -> bool {
        // The running calculation is based on its former experiences.
        if self.calculation.take_if(|calculation| calculation.has_member(node)).is_some() {
            self.since = None;
        }
        self.values.forget(node)
    }

    /// Returns whether a calculation is running.
    pub fn is_calculating(&self) -> bool {
        self.calculation.is_some()
    }

    /// Starts a calculation; discards a running one.
    pub fn begin(&mut self, members: Members, now: Timestamp) {
        self.since = Some((now, members.candidate_count()));
        self.calculation = Some(Calculation::new(members));
    }

    /// Advances the calculation by at most `rows` rows, at least one. Returns whether more work is left. The former
    /// values stay in use until the end.
    pub fn advance(&mut self, experiences: &Experiences, rows: usize) -> bool {
        let Some(mut calculation) = self.calculation.take() else { return false };
        match calculation.advance(experiences, rows) {
            Some(values) => self.values = values,
            None => self.calculation = Some(calculation),
        }
        self.calculation.is_some()
    }

    /// Returns the current values; empty before the first calculation has ended.
    pub fn values(&self) -> &TrustValues {
        &self.values
    }
}

#[cfg(test)]
mod tests;
