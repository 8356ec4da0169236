//! Usage of the node's bounded collections.

use super::Node;
use crate::mempool;
use crate::peer::{LimitUsage, Manager};

impl Node<'_> {
    /// Returns the usage of every collection that outsiders can grow and that has its own limit: of the mempool, the
    /// block processor and the peer layer.
    pub fn limit_usage(&self) -> Vec<LimitUsage> {
        let pool = &self.mempool.pool;
        let mut loads = vec![
            LimitUsage::new("unconfirmed transactions", pool.len(), mempool::max_transactions(&self.network.chain)),
            LimitUsage::new("bytes of the mempool", pool.bytes(), mempool::MAX_BYTES),
            LimitUsage::new("cached results of transactions", pool.remembered_results(), mempool::MAX_RESULTS),
        ];
        loads.extend(self.block_processor.limit_usage());
        loads.extend(self.peer_adapter.peers().into_iter().flat_map(Manager::usage));
        loads
    }
}
