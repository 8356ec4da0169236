//! The tables. Numbers in keys are big-endian, so that key order is the order in which things are asked for.

/// A table of the store. Text in keys is UTF-8; `‖` joins fields; addresses are their 40 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// `schema`, `network` → what the store was made with.
    Meta,
    /// Height → block and what is known of it ([`crate::store::StoredBlock`]).
    Blocks,
    /// Height → old values of all that the block changed, for the last blocks only.
    Undo,
    /// Grouped height → what was recalculated; grouped height ‖ account number → importances up to that account
    /// ([`crate::state::AccountImportance`]).
    Importances,
    /// Account number → what blocks change of an account ([`crate::state::Account`]).
    Accounts,
    /// Decoded address → account number.
    Numbers,
    /// Account number → decoded address, then the key once it is known.
    Identities,
    /// Name → numbers that are counted along with the blocks ([`crate::state::AccountTotals`] and others).
    Totals,
    /// Account number → nothing: the accounts that have enough to take part in the importance calculation, once all
    /// they have is vested.
    Stakes,
    /// Multisig account ‖ cosignatory → nothing.
    Cosignatories,
    /// Cosignatory ‖ multisig account → nothing.
    CosignatoryOf,
    /// Root name → its leases ([`crate::state::Lease`]), oldest first.
    Namespaces,
    /// Tenure → the last lease, and whether that has ended.
    Tenures,
    /// Tenure ‖ full name → height of the lease in which the sub-namespace was made.
    Subnamespaces,
    /// Height ‖ root name → nothing, for every lease that began there.
    LeasesByHeight,
    /// Owner of the newest lease ‖ root name → nothing.
    NamespacesByOwner,
    /// Tenure ‖ mosaic id → mosaic number.
    MosaicNumbers,
    /// Mosaic number ‖ number of the definition → number of the definition with which its balances began, height, supply
    /// and definition ([`crate::state::Edition`]).
    Mosaics,
    /// Mosaic number ‖ account number ‖ where the tenure stood and number of the definition when it was written →
    /// smallest units; 0 only where an older row holds more.
    Balances,
    /// Account number ‖ mosaic id → mosaic number, tenure, and where that stood: the mosaics in which an account is
    /// invested, unless they have expired since.
    Holdings,
    /// Height → movements of currency in the block ([`crate::state::Outlink`]).
    Outlinks,
    /// Era ‖ first bytes of a transaction hash ‖ height ‖ index in the block → nothing ([`crate::state::HashEntry`]). An
    /// era is a range of transaction numbers: new rows come to the last one only.
    Hashes,
    /// Level ‖ first era ‖ last row of the value → rows of [`Table::Hashes`] without their eras, a page of a sorted run.
    HashRuns,
    /// Height ‖ number → whose mosaics expired or came back ([`crate::state::ExpiredMosaic`]).
    ExpiredMosaics,
    /// Height → for each transaction of the block whom it concerns, and where theirs before it are
    /// ([`crate::state::Trail`]).
    Trails,
    /// Account number ‖ direction ‖ transaction id → height and index in the block, now and then on a trail.
    Signposts,
    /// Account number ‖ height → nothing, for every block signed by or credited to the account.
    Harvests,
    /// Row → provision of a namespace; nothing is ever forgotten ([`crate::state::catalogue::Provision`]).
    Provisions,
    /// Row → definition of a mosaic with the height of its block; nothing is ever forgotten.
    Definitions,
    /// List ‖ row → nothing: rows in the order in which they are paged through ([`crate::state::catalogue::List`]).
    Lists,
    /// Row of the definition that was in force ‖ height ‖ index in the block → change of a mosaic's supply; nothing is
    /// ever forgotten ([`crate::state::catalogue::SupplyWalk`]).
    SupplyChanges,
    /// Account number ‖ height → the balance that the account had from that height on until it changed; only if that is
    /// kept ([`crate::state::AccountHistory`]). What heights are known is in a row of its own.
    BalanceHistory,
    /// Table (1 byte) ‖ first key of a range → bytes and sum of the hashes of the rows of the range
    /// (`checksums.rs`).
    Checksums,
}

impl Table {
    /// All tables, in the order of their numbers.
    pub const ALL: [Table; 33] = [
        Table::Meta,
        Table::Blocks,
        Table::Undo,
        Table::Importances,
        Table::Accounts,
        Table::Numbers,
        Table::Identities,
        Table::Totals,
        Table::Stakes,
        Table::Cosignatories,
        Table::CosignatoryOf,
        Table::Namespaces,
        Table::Tenures,
        Table::Subnamespaces,
        Table::LeasesByHeight,
        Table::NamespacesByOwner,
        Table::MosaicNumbers,
        Table::Mosaics,
        Table::Balances,
        Table::Holdings,
        Table::Outlinks,
        Table::Hashes,
        Table::HashRuns,
        Table::ExpiredMosaics,
        Table::Trails,
        Table::Signposts,
        Table::Harvests,
        Table::Provisions,
        Table::Definitions,
        Table::Lists,
        Table::SupplyChanges,
        Table::BalanceHistory,
        Table::Checksums,
    ];

    /// The tables that follow from the blocks alone, whatever a node is told to keep besides. A block changes them through
    /// the journal, and an undo restores them.
    pub fn state() -> impl Iterator<Item = Table> {
        let follow = |table: &Table| *table >= Table::Accounts && *table < Table::BalanceHistory;
        Table::ALL.into_iter().filter(follow)
    }

    /// Whether new rows come behind all others, so that its pages can be filled one after the other.
    pub(super) fn grows_at_its_end(self) -> bool {
        use Table::{Accounts, Blocks, Definitions, Identities, Importances, Outlinks, Provisions, Trails, Undo};
        matches!(
            self,
            Blocks | Undo | Importances | Accounts | Identities | Outlinks | Trails | Provisions | Definitions
        )
    }

    /// The table with a number.
    pub fn from_number(number: u8) -> Option<Table> {
        Table::ALL.get(usize::from(number)).copied()
    }

    /// Name in LMDB.
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Blocks => "blocks",
            Table::Undo => "undo",
            Table::Importances => "importances",
            Table::Accounts => "accounts",
            Table::Numbers => "numbers",
            Table::Identities => "identities",
            Table::Totals => "totals",
            Table::Stakes => "stakes",
            Table::Cosignatories => "cosignatories",
            Table::CosignatoryOf => "cosignatory-of",
            Table::Namespaces => "namespaces",
            Table::Tenures => "tenures",
            Table::Subnamespaces => "subnamespaces",
            Table::LeasesByHeight => "leases-by-height",
            Table::NamespacesByOwner => "namespaces-by-owner",
            Table::MosaicNumbers => "mosaic-numbers",
            Table::Mosaics => "mosaics",
            Table::Balances => "balances",
            Table::Holdings => "holdings",
            Table::Outlinks => "outlinks",
            Table::Hashes => "hashes",
            Table::HashRuns => "hash-runs",
            Table::ExpiredMosaics => "expired-mosaics",
            Table::Trails => "trails",
            Table::Signposts => "signposts",
            Table::Harvests => "harvests",
            Table::Provisions => "provisions",
            Table::Definitions => "definitions",
            Table::Lists => "lists",
            Table::SupplyChanges => "supply-changes",
            Table::BalanceHistory => "balance-history",
            Table::Checksums => "checksums",
        }
    }
}
