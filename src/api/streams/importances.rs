//! Streamed importances of all accounts.

use super::{BodyWriter, ListSize, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::views::{DataListHead, ImportanceEntry};
use crate::net::service::Progress;
use crate::state::AccountId;

/// Accounts were removed by a reorg while they were listed.
const CHANGED: ApiError = ApiError::Unavailable("the accounts have changed while they were listed");

/// Stream of all accounts that exist when it starts, with their importances. In the binary format the count comes
/// first, so that the list can be streamed; it fails if the chain loses some of the accounts meanwhile.
#[derive(Default)]
pub struct ImportanceList {
    after: Option<AccountId>,
    /// Accounts left to write.
    left: u32,
    list: Option<ListWriter>,
}

impl ResponseStream for ImportanceList {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        if self.list.is_none() {
            self.left = view.account_count()?;
            // No enclosing length includes the list: it is the whole response.
            let size = ListSize { count: self.left as usize, bytes: 0 };
            self.list = Some(ListWriter::open_sized(writer, &DataListHead, size));
        }
        let ImportanceList { after, left, list: Some(list) } = self else { return Ok(Progress::Done) };
        let mut is_interrupted = false;
        if *left > 0 {
            view.each_account_after(*after, |number, address, importance| {
                *after = Some(number);
                *left -= 1;
                list.push(writer, &ImportanceEntry { address, importance });
                budget.charge(cost::IMPORTANCE);
                is_interrupted = *left > 0 && budget.is_exhausted();
                Ok(*left > 0 && !is_interrupted)
            })?;
        }
        if is_interrupted {
            return Ok(Progress::Yield);
        }
        if *left > 0 {
            return Err(CHANGED);
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list)
    }

    fn is_streamable(&self, _: Format) -> bool {
        true
    }
}
