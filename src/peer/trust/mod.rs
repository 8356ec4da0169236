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

use crate::model::Timestamp;
use crate::peer::experiences::Experiences;

/// Seconds of network time for which a result is used.
pub const LIFE: i32 = 900;

/// The trust that is used at present, and the calculation of the next.
#[derive(Debug, Default)]
pub struct Trust {
    values: TrustValues,
    /// When the present values were begun, and how many nodes there were then.
    since: Option<(Timestamp, usize)>,
    calculation: Option<Calculation>,
}

impl Trust {
    /// Whether a calculation is to begin; `others` is the number of nodes for which trust would be calculated now,
    /// without this one. While a node is young and comes to know others fast it does not wait until the present values
    /// are too old, but only until there are twice as many nodes as when they were calculated. NIS1 uses only the nodes
    /// of its operator's list in its first quarter of an hour.
    pub fn is_due(&self, others: usize, now: Timestamp) -> bool {
        self.calculation.is_none()
            && self.since.is_none_or(|(since, former)| {
                let is_old = now.0.saturating_sub(since.0).saturating_abs() > LIFE;
                is_old || others > former.saturating_mul(2)
            })
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
