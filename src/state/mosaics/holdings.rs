//! Mosaics in which accounts are invested.
//!
//! The end or renewal of a lease changes no row: whether a row counts follows from the lease state of its period.

use super::balances::last_balance;
use super::{CurrentMosaic, MosaicNumber, last_definition};
use crate::model::MosaicId;
use crate::state::AccountId;
use crate::state::bytes::{ByteReader, ByteWriter};
use crate::state::namespaces::{LeaseState, OwnershipPeriod};
use crate::store::{Read, StoreError, Table, Write};

/// A row that may make an account invested in a mosaic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    mosaic: MosaicNumber,
    ownership_period: OwnershipPeriod,
    /// Lease state when the row was written.
    as_of: LeaseState,
    /// Whether the row counts only from the next lease on.
    effective_next_lease: bool,
}

impl CurrentMosaic {
    /// Marks an account as invested.
    pub(super) fn mark_invested(&self, txn: &mut impl Write, id: AccountId) -> Result<(), StoreError> {
        self.holding(false).put(txn, id, &self.entry.definition.id)
    }

    /// Marks the creator as invested from the next lease on; a supply increase alone has no earlier effect.
    pub(super) fn mark_invested_next_lease(&self, txn: &mut impl Write, creator: AccountId) -> Result<(), StoreError> {
        let id = &self.entry.definition.id;
        if txn.contains(Table::Holdings, &holding_key(creator, id))? {
            return Ok(());
        }
        self.holding(true).put(txn, creator, id)
    }

    fn holding(&self, is_later: bool) -> Holding {
        Holding {
            mosaic: self.version.mosaic,
            ownership_period: self.ownership_period,
            as_of: self.lease_state,
            effective_next_lease: is_later,
        }
    }
}

/// Marks an account as not invested.
pub(super) fn mark_not_invested(txn: &mut impl Write, account: AccountId, id: &MosaicId) -> Result<(), StoreError> {
    txn.delete(Table::Holdings, &holding_key(account, id))
}

fn holding_key(account: AccountId, id: &MosaicId) -> Vec<u8> {
    [account.key().as_slice(), id.to_string().as_bytes()].concat()
}

impl Holding {
    fn read(value: &[u8]) -> Result<Holding, StoreError> {
        let mut input = ByteReader::new(value, "a holding");
        let (mosaic, tenure) = (MosaicNumber(input.u32()?), OwnershipPeriod(input.u32()?));
        Ok(Holding {
            mosaic,
            ownership_period: tenure,
            as_of: LeaseState(input.u32()?),
            effective_next_lease: input.u8()? != 0,
        })
    }

    fn put(self, txn: &mut impl Write, account: AccountId, id: &MosaicId) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        [self.mosaic.0, self.ownership_period.0, self.as_of.0].into_iter().for_each(|number| out.u32(number));
        out.u8(self.effective_next_lease.into());
        let key = holding_key(account, id);
        match txn.get(Table::Holdings, &key)? {
            Some(old) if old == out.0 => Ok(()),
            Some(_) => txn.put(Table::Holdings, &key, &out.0),
            None => txn.insert(Table::Holdings, &key, &out.0),
        }
    }

    /// Returns whether the account counts as invested. Once a lease has ended, an older row counts only if the balance
    /// is 0: holders of an expired mosaic do not count, but a creator without a balance does.
    fn is_invested(self, state: &impl Read, id: AccountId) -> Result<bool, StoreError> {
        let lease_state = self.ownership_period.lease_state(state)?;
        if self.effective_next_lease && self.as_of.is_same_lease(lease_state) {
            return Ok(false);
        }
        if !lease_state.has_ended() || self.as_of == lease_state {
            return Ok(true);
        }
        // A later transfer would have rewritten the row, so the last balance is the one at the end of the lease.
        let (version, _) = last_definition(state, self.mosaic)?;
        Ok(last_balance(state, version, id)? == 0)
    }
}

/// One page of the mosaics in which an account is invested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsPage {
    /// The mosaics found, ordered by text.
    pub ids: Vec<MosaicId>,
    /// The mosaic after which the next page starts; `None` for the last page.
    pub next_after: Option<MosaicId>,
}

/// Returns the mosaics in which an account is invested, ordered by text, after `after`. Reads at most `limit` rows.
pub fn holdings_after(
    state: &impl Read,
    account: AccountId,
    after: Option<&MosaicId>,
    limit: usize,
) -> Result<HoldingsPage, StoreError> {
    let mut cursor = state.cursor(Table::Holdings)?;
    let prefix = account.key();
    // No key lies between a key and the same key with a zero byte appended.
    let from = after.map_or(prefix.to_vec(), |after| [holding_key(account, after).as_slice(), &[0]].concat());
    let mut part = HoldingsPage { ids: Vec::new(), next_after: None };
    let mut entry = cursor.seek(&from)?;
    for number in 1.. {
        let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) else { break };
        let id = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|text| MosaicId::parse(text).ok());
        let id = id.ok_or(StoreError::Damaged("a holding"))?;
        let counts = Holding::read(value)?.is_invested(state, account)?;
        if number >= limit {
            part.next_after = Some(id.clone());
        }
        part.ids.extend(Some(id).filter(|_| counts));
        if part.next_after.is_some() {
            break;
        }
        entry = cursor.next()?;
    }
    Ok(part)
}

/// Page size for reading all holdings.
const PAGE_SIZE: usize = 1024;

/// Returns all mosaics in which an account is invested, ordered by text.
pub fn holdings(state: &impl Read, id: AccountId) -> Result<Vec<String>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let part = holdings_after(state, id, after.as_ref(), PAGE_SIZE)?;
        found.extend(part.ids.iter().map(MosaicId::to_string));
        match part.next_after {
            Some(last) => after = Some(last),
            None => return Ok(found),
        }
    }
}

/// Returns whether an account is invested in any mosaic. Reads holdings until one counts.
pub fn holds_any(state: &impl Read, id: AccountId) -> Result<bool, StoreError> {
    let mut holds = false;
    state.for_each_prefix(Table::Holdings, &id.key(), |_, value| {
        holds = Holding::read(value)?.is_invested(state, id)?;
        Ok(!holds)
    })?;
    Ok(holds)
}
