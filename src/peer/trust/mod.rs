//! How far each node is trusted, and who is drawn as a partner.
//!
//! Trust is calculated from the experiences that nodes have made with each other (EigenTrust++): what a node says of
//! others counts as much as it is trusted itself, and the less the more its experiences differ from those of the node
//! that listens. Nodes with which this one had little to do share a part of the trust, so that they are met at all.
//!
//! A calculation takes part of at most [`MAX_MEMBERS`] nodes, holds 330 kB while it runs, and goes row by row so
//! that it can run between other duties: a row is one node's experiences with all, or its say in the trust of all, and
//! costs some microseconds. The result is used for [`LIFE`] seconds; it and a draw grow with the number of members.

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

/// Seconds of network time for which a result is used.
pub const LIFE: i32 = 900;

/// A network is small where trust is calculated for fewer others than this.
pub const SMALL: usize = 20;
/// Seconds of network time for which a result is used in a small network where there is somebody new.
pub const SMALL_LIFE: i32 = 30;

/// The trust that is used at present, and the calculation of the next.
#[derive(Debug, Default)]
pub struct Trust {
    values: TrustValues,
    /// When the present values were begun, and how many nodes there were then.
    since: Option<(Timestamp, usize)>,
    calculation: Option<Calculation>,
}

impl Trust {
    /// Whether a calculation may be to begin, where at most so many others are to take part.
    pub fn may_be_due(&self, others: usize, now: Timestamp) -> bool {
        self.calculation.is_none()
            && self.since.is_none_or(|(since, former)| {
                let age = now.0.saturating_sub(since.0).saturating_abs();
                age > LIFE || others > former.saturating_mul(2) || (former < SMALL && age >= SMALL_LIFE)
            })
    }

    /// Whether a calculation is to begin; `others` are the nodes for which trust would be calculated now, without this one.
    /// While a node is young and comes to know others fast it does not wait until the present values are too old, but only
    /// until there are twice as many nodes as when they were calculated, and where these were few only [`SMALL_LIFE`] if
    /// there is any that has no value. NIS1 uses only the nodes of its operator's list in its first quarter of an hour.
    pub fn is_due(&self, others: &[Address], now: Timestamp) -> bool {
        self.may_be_due(others.len(), now)
            && self.since.is_none_or(|(since, former)| {
                let age = now.0.saturating_sub(since.0).saturating_abs();
                let is_new = |node: &Address| self.values.of(node).is_none();
                age > LIFE || others.len() > former.saturating_mul(2) || others.iter().any(is_new)
            })
    }

    /// A node is not the one for which its value was calculated. Says whether it had one.
    pub fn forget(&mut self, node: &Address) -> bool {
        // What is being calculated rests on it.
        if self.calculation.take_if(|calculation| calculation.is_of(node)).is_some() {
            self.since = None;
        }
        self.values.forget(node)
    }

    /// Whether a calculation goes on.
    pub fn is_calculating(&self) -> bool {
        self.calculation.is_some()
    }

    /// Begins a calculation, in place of one that may be going on.
    pub fn begin(&mut self, members: Members, now: Timestamp) {
        self.since = Some((now, members.others_in_all()));
        self.calculation = Some(Calculation::new(members));
    }

    /// Goes on with the calculation by at most `rows` rows, at least one, and says whether there is more to do. Until
    /// the end the former values are used.
    pub fn advance(&mut self, experiences: &Experiences, rows: usize) -> bool {
        let Some(mut calculation) = self.calculation.take() else { return false };
        match calculation.advance(experiences, rows) {
            Some(values) => self.values = values,
            None => self.calculation = Some(calculation),
        }
        self.calculation.is_some()
    }

    /// The present values; those of no node before the first calculation has ended.
    pub fn values(&self) -> &TrustValues {
        &self.values
    }
}

#[cfg(test)]
mod tests;
