//! The mosaics in which accounts are invested.
//!
//! A row is not touched when a lease ends or is renewed: whether it counts is seen from where its tenure stands.

use super::balances::last_balance;
use super::{Current, MosaicNumber, last_definition};
use crate::model::MosaicId;
use crate::state::AccountNumber;
use crate::state::bytes::{ByteReader, ByteWriter};
use crate::state::namespaces::{Stand, Tenure};
use crate::store::{Read, StoreError, Table, Write};

/// Where an account may be invested in a mosaic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    mosaic: MosaicNumber,
    tenure: Tenure,
    /// Where the tenure stood when this was written.
    since: Stand,
    /// Whether it does not count before the next lease.
    is_later: bool,
}

impl Current {
    /// Makes an account count as invested.
    pub(super) fn set_held(&self, batch: &mut impl Write, account: AccountNumber) -> Result<(), StoreError> {
        self.holding(false).put(batch, account, &self.entry.definition.id)
    }

    /// The same from the next lease on: more units alone do not make their creator invested.
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

/// Makes an account no longer count as invested.
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

    /// Whether the account counts as invested. What it had of a mosaic when that expired does not count, but to have
    /// created it does, and so does what came after.
    fn counts(self, state: &impl Read, account: AccountNumber) -> Result<bool, StoreError> {
        let stand = self.tenure.stand(state)?;
        if self.is_later && self.since.is_same_lease(stand) {
            return Ok(false);
        }
        if !stand.has_ended() || self.since == stand {
            return Ok(true);
        }
        // Nothing was moved since then, or this would have been written anew.
        let (edition, _) = last_definition(state, self.mosaic)?;
        Ok(last_balance(state, edition, account)? == 0)
    }
}

/// A part of the mosaics in which an account is invested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsPart {
    /// Those found, by text.
    pub ids: Vec<MosaicId>,
    /// After which the next part begins; `None` if this is the last.
    pub last: Option<MosaicId>,
}

/// The mosaics in which an account is invested, by text: of those after one, or the first. So many are looked at.
pub fn holdings_after(
    state: &impl Read,
    account: AccountNumber,
    after: Option<&MosaicId>,
    limit: usize,
) -> Result<HoldingsPart, StoreError> {
    let mut walk = state.walk(Table::Holdings)?;
    let prefix = account.key();
    // Nothing comes between a key and the same with a zero byte behind it.
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

/// Holdings that are looked at together where all are.
const MANY: usize = 1024;

/// All mosaics in which an account is invested, by text.
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

/// Whether an account is invested in a mosaic. Looks at holdings until one counts.
pub fn holds_any(state: &impl Read, account: AccountNumber) -> Result<bool, StoreError> {
    let mut holds = false;
    state.each(Table::Holdings, &account.key(), |_, value| {
        holds = Holding::read(value)?.counts(state, account)?;
        Ok(!holds)
    })?;
    Ok(holds)
}
