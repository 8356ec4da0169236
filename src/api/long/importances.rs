//! Streamed importances of all accounts.

use super::{ListSize, LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::media::Format;
use crate::api::views::{DataGap, ImportanceEntry};
use crate::net::machine::Taken;
use crate::state::AccountNumber;

/// Accounts were removed by a reorg while they were listed.
const CHANGED: Failure = Failure::Unavailable("the accounts have changed while they were listed");

/// Stream of all accounts that exist when it starts, with their importances. In the binary format the count comes
/// first, so that the list can be streamed; it fails if the chain loses some of the accounts meanwhile.
#[derive(Default)]
pub struct ImportanceList {
    after: Option<AccountNumber>,
    /// Accounts left to write.
    left: u32,
    list: Option<OpenList>,
}

impl LongView for ImportanceList {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if self.list.is_none() {
            self.left = view.account_count()?;
            // No enclosing length includes the list: it is the whole response.
            let size = ListSize { count: self.left as usize, bytes: 0 };
            self.list = Some(OpenList::open_sized(sheet, &DataGap, size));
        }
        let ImportanceList { after, left, list: Some(list) } = self else { return Ok(Taken::Done) };
        let mut is_interrupted = false;
        if *left > 0 {
            view.each_account_after(*after, |number, address, importance| {
                *after = Some(number);
                *left -= 1;
                list.push(sheet, &ImportanceEntry { address, importance });
                budget.spend(cost::IMPORTANCE);
                is_interrupted = *left > 0 && budget.is_spent();
                Ok(*left > 0 && !is_interrupted)
            })?;
        }
        if is_interrupted {
            return Ok(Taken::Unfinished);
        }
        if *left > 0 {
            return Err(CHANGED);
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }

    fn can_be_cut(&self, _: Format) -> bool {
        true
    }
}
