//! Usage of the node's bounded collections.

use super::Node;
use crate::peer::{Load, Peers};
use crate::pool;

impl Node<'_> {
    /// Returns the usage of every collection that outsiders can grow and that has its own limit: of the mempool, the
    /// block processor and the peer layer.
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
