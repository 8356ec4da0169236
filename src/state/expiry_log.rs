//! Log of mosaics that expired or were restored.
//!
//! A row identifies the mosaics and the lease state of their ownership period. Balances are not copied: later changes
//! are written under a later lease state or another definition, so the old balances remain readable.

use super::account_ids::AccountId;
use super::bytes::{ByteReader, ByteWriter};
use super::mosaics::{self, DefinitionVersion, MosaicNumber};
use super::namespaces::{LeaseState, OwnershipPeriod};
use crate::model::{Height, MosaicId};
use crate::store::{Read, StoreError, Table, Write};

/// Reason for a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryKind {
    /// The namespace expired, or the mosaic was redefined before the fork.
    Expired,
    /// The namespace was rented again.
    Restored,
}

impl ExpiryKind {
    /// Returns the code used by NIS1's API.
    pub fn code(self) -> u8 {
        match self {
            ExpiryKind::Expired => 1,
            ExpiryKind::Restored => 2,
        }
    }

    fn from_code(code: u8) -> Option<ExpiryKind> {
        [ExpiryKind::Expired, ExpiryKind::Restored].into_iter().find(|kind| kind.code() == code)
    }
}

/// The mosaics of a log entry.
enum LoggedMosaics {
    /// All mosaics of an ownership period.
    OwnershipPeriod(OwnershipPeriod),
    /// One mosaic, as it was before a redefinition.
    Mosaic(MosaicId, DefinitionVersion),
}

struct LogEntry {
    kind: ExpiryKind,
    /// Lease state up to which balances count.
    lease_state: LeaseState,
    content: LoggedMosaics,
}

const DAMAGED: StoreError = StoreError::Damaged("the log of expired mosaics");

impl LogEntry {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.u8(self.kind.code());
        out.u32(self.lease_state.0);
        match &self.content {
            LoggedMosaics::OwnershipPeriod(ownership_period) => out.u32(ownership_period.0),
            LoggedMosaics::Mosaic(id, DefinitionVersion { mosaic, number, balances_since: first }) => {
                [mosaic.0, *number, *first].into_iter().for_each(|number| out.u32(number));
                out.text(&id.to_string());
            }
        }
        out.0
    }

    fn from_bytes(bytes: &[u8]) -> Result<LogEntry, StoreError> {
        let mut input = ByteReader::new(bytes, "the log of expired mosaics");
        let kind = ExpiryKind::from_code(input.u8()?).ok_or(DAMAGED)?;
        let stand = LeaseState(input.u32()?);
        let number = input.u32()?;
        let subject = match input.is_empty() {
            true => LoggedMosaics::OwnershipPeriod(OwnershipPeriod(number)),
            false => {
                let version = DefinitionVersion {
                    mosaic: MosaicNumber(number),
                    number: input.u32()?,
                    balances_since: input.u32()?,
                };
                LoggedMosaics::Mosaic(MosaicId::parse(input.text()?).map_err(|_| DAMAGED)?, version)
            }
        };
        Ok(LogEntry { kind, lease_state: stand, content: subject })
    }
}

/// Appends log entries for one block.
#[derive(Debug)]
pub struct ExpiryLog {
    height: Height,
    entries: u32,
}

impl ExpiryLog {
    /// Creates the log of a block.
    pub fn new(height: Height) -> ExpiryLog {
        ExpiryLog { height, entries: 0 }
    }

    /// Appends all mosaics of an ownership period.
    pub(super) fn add_ownership_period(
        &mut self,
        txn: &mut impl Write,
        kind: ExpiryKind,
        ownership_period: OwnershipPeriod,
        lease_state: LeaseState,
    ) -> Result<(), StoreError> {
        self.add(txn, &LogEntry { kind, lease_state, content: LoggedMosaics::OwnershipPeriod(ownership_period) })
    }

    /// Appends a mosaic that is redefined, as it was before.
    pub(super) fn add_redefined(
        &mut self,
        txn: &mut impl Write,
        id: &MosaicId,
        version: DefinitionVersion,
        lease_state: LeaseState,
    ) -> Result<(), StoreError> {
        let subject = LoggedMosaics::Mosaic(id.clone(), version);
        self.add(txn, &LogEntry { kind: ExpiryKind::Expired, lease_state, content: subject })
    }

    fn add(&mut self, txn: &mut impl Write, entry: &LogEntry) -> Result<(), StoreError> {
        let key = [self.height.0.to_be_bytes().as_slice(), &self.entries.to_be_bytes()].concat();
        self.entries += 1;
        txn.insert(Table::ExpiredMosaics, &key, &entry.to_bytes())
    }
}

/// A mosaic that expired or was restored, with access to its balances at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredMosaic {
    /// Reason for the entry.
    pub kind: ExpiryKind,
    /// The mosaic.
    pub id: MosaicId,
    version: DefinitionVersion,
    lease_state: LeaseState,
}

impl ExpiredMosaic {
    /// Calls `visit` with the balances at that time in the order of account ids, starting after `after`, until it
    /// returns `false`. Accounts that had a balance only at another time are visited with 0.
    pub fn for_each_balance(
        &self,
        state: &impl Read,
        after: Option<AccountId>,
        visit: impl FnMut(AccountId, u64) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        mosaics::for_each_balance(state, self.version, self.lease_state, after, visit)
    }
}

/// A resumable cursor over the mosaics that expired or were restored at a height, in that order. It reads one row at a
/// time and holds no reference to the store, so it stays valid between snapshots.
#[derive(Clone, Debug)]
pub struct ExpiredCursor {
    height: Height,
    /// Number of the current log entry.
    entry: u32,
    /// The last mosaic visited of the current ownership period.
    after: Option<MosaicId>,
}

/// Result of one step of an [`ExpiredCursor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiredRow {
    /// A mosaic.
    Mosaic(ExpiredMosaic),
    /// No mosaic in this row: it did not exist at that height, or the entry has no more mosaics.
    Absent,
    /// No more rows.
    End,
}

impl ExpiredCursor {
    /// Starts at the first entry of a height.
    pub fn new(height: Height) -> ExpiredCursor {
        ExpiredCursor { height, entry: 0, after: None }
    }

    /// Reads the next row.
    pub fn step(&mut self, state: &impl Read) -> Result<ExpiredRow, StoreError> {
        let key = [self.height.0.to_be_bytes().as_slice(), &self.entry.to_be_bytes()].concat();
        let Some(value) = state.get(Table::ExpiredMosaics, &key)? else { return Ok(ExpiredRow::End) };
        let LogEntry { kind, lease_state: stand, content: subject } = LogEntry::from_bytes(value)?;
        let (id, edition) = match subject {
            LoggedMosaics::Mosaic(id, edition) => {
                self.entry += 1;
                (id, Some(edition))
            }
            LoggedMosaics::OwnershipPeriod(ownership_period) => {
                let Some((id, number)) = mosaics::mosaic_after(state, ownership_period, self.after.as_ref())? else {
                    (self.entry, self.after) = (self.entry + 1, None);
                    return Ok(ExpiredRow::Absent);
                };
                self.after = Some(id.clone());
                (id, mosaics::version_at(state, number, self.last_definition_height(kind))?)
            }
        };
        Ok(edition.map_or(ExpiredRow::Absent, |edition| {
            ExpiredRow::Mosaic(ExpiredMosaic { kind, id, version: edition, lease_state: stand })
        }))
    }

    /// Returns the last height whose definitions count.
    fn last_definition_height(&self, kind: ExpiryKind) -> Height {
        match kind {
            ExpiryKind::Expired => self.height,
            // A restoration precedes any definition of the same block in the namespace.
            ExpiryKind::Restored => Height(self.height.0.saturating_sub(1)),
        }
    }
}

/// Calls `visit` with the mosaics that expired or were restored at a height, in that order, until it returns `false`.
pub fn for_each_expired(
    state: &impl Read,
    height: Height,
    mut visit: impl FnMut(ExpiredMosaic) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let mut cursor = ExpiredCursor::new(height);
    loop {
        match cursor.step(state)? {
            ExpiredRow::Mosaic(mosaic) => {
                if !visit(mosaic)? {
                    return Ok(());
                }
            }
            ExpiredRow::Absent => {}
            ExpiredRow::End => return Ok(()),
        }
    }
}
