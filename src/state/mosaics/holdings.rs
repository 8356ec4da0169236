//! Mosaics in which accounts are invested.
//!
//! The end or renewal of a lease changes no row: whether a row counts follows from the lease state of its period.

use super::balances::last_balance;
use super::{Current, MosaicNumber, last_definition};
use crate::model::MosaicId;
use crate::state::AccountNumber;
use crate::state::bytes::{ByteReader, ByteWriter};
use crate::state::namespaces::{Stand, Tenure};
use crate::store::{Read, StoreError, Table, Write};

/// A row that may make an account invested in a mosaic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    mosaic: MosaicNumber,
    tenure: Tenure,
    /// Lease state when the row was written.
    since: Stand,
    /// Whether the row counts only from the next lease on.
    is_later: bool,
}

impl Current {
    /// Marks an account as invested.
    pub(super) fn set_held(&self, batch: &mut impl Write, account: AccountNumber) -> Result<(), StoreError> {
        self.holding(false).put(batch, account, &self.entry.definition.id)
    }

    /// Marks the creator as invested from the next lease on; a supply increase alone has no earlier effect.
    pub(super) fn set_held_later(&self, batch: &mut impl Write, creator: AccountNumber) -> Result<(), StoreError> {
        let id = &self.entry.definition.id;
        if batch.contains(Table::Holdings, &holding_key(creator, id))? {
            return Ok(());
        }
        self.holding(true).put(batch, creator, id)
    }

    fn holding(&self, is_later: bool) -> Holding {
        Holding { mosaic: self.edition.mosaic, tenure: self.tenure, since: self.stand, is_later }
    }
}

/// Marks an account as not invested.
pub(super) fn set_not_held(batch: &mut impl Write, account: AccountNumber, id: &MosaicId) -> Result<(), StoreError> {
    batch.delete(Table::Holdings, &holding_key(account, id))
}

fn holding_key(account: AccountNumber, id: &MosaicId) -> Vec<u8> {
    [account.key().as_slice(), id.to_string().as_bytes()].concat()
}

impl Holding {
    fn read(value: &[u8]) -> Result<Holding, StoreError> {
        let mut input = ByteReader::new(value, "a holding");
        let (mosaic, tenure) = (MosaicNumber(input.u32()?), Tenure(input.u32()?));
        Ok(Holding { mosaic, tenure, since: Stand(input.u32()?), is_later: input.u8()? != 0 })
    }

    fn put(self, batch: &mut impl Write, account: AccountNumber, id: &MosaicId) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        [self.mosaic.0, self.tenure.0, self.since.0].into_iter().for_each(|number| out.u32(number));
        out.u8(self.is_later.into());
        let key = holding_key(account, id);
        match batch.get(Table::Holdings, &key)? {
            Some(old) if old == out.0 => Ok(()),
            Some(_) => batch.put(Table::Holdings, &key, &out.0),
            None => batch.insert(Table::Holdings, &key, &out.0),
        }
    }

    /// Returns whether the account counts as invested. Once a lease has ended, an older row counts only if the balance
    /// is 0: holders of an expired mosaic do not count, but a creator without a balance does.
    fn counts(self, state: &impl Read, account: AccountNumber) -> Result<bool, StoreError> {
        let stand = self.tenure.stand(state)?;
        if self.is_later && self.since.is_same_lease(stand) {
            return Ok(false);
        }
        if !stand.has_ended() || self.since == stand {
            return Ok(true);
        }
        // A later transfer would have rewritten the row, so the last balance is the one at the end of the lease.
        let (edition, _) = last_definition(state, self.mosaic)?;
        Ok(last_balance(state, edition, account)? == 0)
    }
}

/// One page of the mosaics in which an account is invested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsPart {
    /// The mosaics found, ordered by text.
    pub ids: Vec<MosaicId>,
    /// The mosaic after which the next page starts; `None` for the last page.
    pub last: Option<MosaicId>,
}

/// Returns the mosaics in which an account is invested, ordered by text, after `after`. Reads at most `limit` rows.
pub fn holdings_after(
    state: &impl Read,
    account: AccountNumber,
    after: Option<&MosaicId>,
    limit: usize,
) -> Result<HoldingsPart, StoreError> {
    let mut walk = state.walk(Table::Holdings)?;
    let prefix = account.key();
    // No key lies between a key and the same key with a zero byte appended.
    let from = after.map_or(prefix.to_vec(), |after| [holding_key(account, after).as_slice(), &[0]].concat());
    let mut part = HoldingsPart { ids: Vec::new(), last: None };
    let mut entry = walk.seek(&from)?;
    for number in 1.. {
        let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) else { break };
        let id = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|text| MosaicId::parse(text).ok());
        let id = id.ok_or(StoreError::Damaged("a holding"))?;
        let counts = Holding::read(value)?.counts(state, account)?;
        if number >= limit {
            part.last = Some(id.clone());
        }
        part.ids.extend(Some(id).filter(|_| counts));
        if part.last.is_some() {
            break;
        }
        entry = walk.next()?;
    }
    Ok(part)
}

/// Page size for reading all holdings.
const MANY: usize = 1024;

/// Returns all mosaics in which an account is invested, ordered by text.
pub fn holdings(state: &impl Read, account: AccountNumber) -> Result<Vec<String>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let part = holdings_after(state, account, after.as_ref(), MANY)?;
        found.extend(part.ids.iter().map(MosaicId::to_string));
        match part.last {
            Some(last) => after = Some(last),
            None => return Ok(found),
        }
    }
}

/// Returns whether an account is invested in any mosaic. Reads holdings until one counts.
pub fn holds_any(state: &impl Read, account: AccountNumber) -> Result<bool, StoreError> {
    let mut holds = false;
    state.each(Table::Holdings, &account.key(), |_, value| {
        holds = Holding::read(value)?.counts(state, account)?;
        Ok(!holds)
    })?;
    Ok(holds)
}
