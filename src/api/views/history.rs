//! Views of harvested blocks, importances and historical account data.

use super::View;
use crate::codec::Encoder;
use crate::model::{Address, Height};
use crate::state::{AccountImportance, HistoryEntry};
use crate::store::StoredHeader;

/// A harvested block.
#[derive(Clone, Copy, Debug)]
pub struct HarvestInfo<'a>(pub &'a StoredHeader);

impl View for HarvestInfo<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let block = self.0;
        sink.u64("id", block.height.0);
        sink.u64("height", block.height.0);
        sink.i32("timeStamp", block.timestamp.0);
        sink.u64("totalFee", block.total_fee.0);
        sink.u64("difficulty", block.difficulty);
    }
}

/// An account and its importance.
#[derive(Clone, Copy, Debug)]
pub struct ImportanceEntry {
    /// Its address.
    pub address: Address,
    /// Importance of the last recalculation that included the account; `None` if there is none.
    pub importance: Option<AccountImportance>,
}

impl View for ImportanceEntry {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.object("importance", |sink| {
            sink.i32("isSet", self.importance.is_some().into());
            if let Some(importance) = &self.importance {
                sink.f64("score", importance.importance);
                sink.f64("ev", importance.page_rank);
                sink.u64("height", importance.height.0);
            }
        });
    }
}

/// State of an account at a height.
#[derive(Clone, Copy, Debug)]
pub struct HistoryPoint {
    /// The height.
    pub height: Height,
    /// The account.
    pub address: Address,
    /// State.
    pub entry: HistoryEntry,
}

impl View for HistoryPoint {
    fn write(&self, sink: &mut impl Encoder) {
        let HistoryEntry { balance, importance, page_rank } = self.entry;
        sink.u64("height", self.height.0);
        sink.string("address", Some(self.address.as_str()));
        sink.u64("balance", balance.total());
        sink.u64("vestedBalance", balance.vested);
        sink.u64("unvestedBalance", balance.unvested);
        sink.f64("importance", importance);
        sink.f64("pageRank", page_rank);
    }
}
