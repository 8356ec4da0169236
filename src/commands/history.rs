//! Log messages about the account history of a store when it is opened.

use crate::model::{Height, Network};
use crate::state::{self, HistoryRange};
use crate::store::{self, Read, Store, StoreError, Table};

/// Logs from which height historical account data is known, if it is or was kept.
pub fn log_history(store: &Store, network: &Network) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    let last = store::tip(&snapshot)?.map_or(Height(0), |block| block.height);
    let text = match network.chain.history_from {
        Some(from) => describe_kept(from, last, state::history_from(&snapshot, last)?),
        None => describe_dropped(HistoryRange::of(&snapshot)?, snapshot.has_prefix(Table::BalanceHistory, &[])?),
    };
    if let Some(said) = text {
        log::info!("historical account data {said}");
    }
    Ok(())
}

/// Describes a store that keeps the data from height `from` on and knows it from height `known` on.
fn describe_kept(from: Height, last: Height, known: Option<Height>) -> Option<String> {
    match known {
        Some(known) if known <= from => Some(format!("is known from height {known} on")),
        Some(known) => Some(format!("is known from height {known} on; `nisd reindex` adds the earlier ones")),
        // The chain has not reached that height.
        None if last < from => None,
        None => {
            Some(format!("is known from height {} on, the next one; `nisd reindex` adds the earlier ones", last.next()))
        }
    }
}

/// Describes a store that does not keep the data.
fn describe_dropped(range: Option<HistoryRange>, is_there: bool) -> Option<String> {
    let text = |to| format!("is no longer kept and no longer returned{to}; `nisd reindex` removes it");
    is_there.then(|| text(range.map(|range| format!(" (it ends at height {})", range.to)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_history_is_reported_with_the_command_that_completes_it() {
        let said = |from, last, known: Option<u64>| describe_kept(Height(from), Height(last), known.map(Height));
        assert_eq!(said(1, 0, None), None);
        assert_eq!(said(500, 60, None), None);
        assert_eq!(said(1, 60, Some(1)).unwrap(), "is known from height 1 on");
        assert!(said(1, 60, Some(41)).unwrap().starts_with("is known from height 41 on; `nisd reindex`"));
        assert!(said(1, 60, None).unwrap().starts_with("is known from height 61 on, the next one; `nisd reindex`"));
        assert_eq!(describe_dropped(None, false), None);
        let ended = describe_dropped(Some(HistoryRange { from: Height(1), to: Height(40) }), true).unwrap();
        assert!(ended.contains("no longer kept") && ended.contains("height 40"), "{ended}");
    }
}
