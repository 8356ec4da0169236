//! How much a node holds of what others can make grow.

use super::Node;
use crate::peer::{Load, Peers};
use crate::pool;

impl Node<'_> {
    /// How much is held, of everything with a limit of its own, in the rooms that take from others: the pool, the judge
    /// and the room of other nodes.
    pub fn loads(&self) -> Vec<Load> {
        let pool = &self.unconfirmed.pool;
        let mut loads = vec![
            Load::new("unconfirmed transactions", pool.len(), pool::most_transactions(&self.network.chain)),
            Load::new("bytes of the pool", pool.bytes(), pool::MAX_BYTES),
            Load::new("answers to transactions", pool.answers(), pool::MAX_ANSWERS),
        ];
        loads.extend(self.judge.loads());
        loads.extend(self.partners.peers().into_iter().flat_map(Peers::loads));
        loads
    }
}
