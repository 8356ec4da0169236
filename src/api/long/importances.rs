//! The importances of all accounts.

use super::{ListSize, LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::media::Format;
use crate::api::views::{DataGap, ImportanceEntry};
use crate::net::machine::Taken;
use crate::state::AccountNumber;

/// The number of accounts has changed by more than new ones while they were listed.
const CHANGED: Failure = Failure::Unavailable("the accounts have changed while they were listed");

/// Writes all accounts that there are when it begins, each with its importance. In the binary format their number comes
/// first, so that the list can be sent as it is made: it fails if the chain loses some of them meanwhile.
#[derive(Default)]
pub struct ImportanceList {
    after: Option<AccountNumber>,
    /// Accounts that are still to be written.
    left: u32,
    list: Option<OpenList>,
}

impl LongView for ImportanceList {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if self.list.is_none() {
            self.left = view.account_count()?;
            // No length counts them in: the list is all there is.
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
