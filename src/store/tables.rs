//! The tables. Numbers in keys are big-endian, so that key order is query order.

/// A table of the store. Text in keys is UTF-8; `‖` joins fields; addresses are their 40 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// `schema`, `network` → version and network of the store.
    Meta,
    /// Height → header, block and index ([`crate::store::StoredHeader`]).
    Blocks,
    /// Height → undo journal, for the last blocks only.
    Undo,
    /// Importance height → record of the recalculation; importance height ‖ account id → importances up to that account
    /// ([`crate::state::AccountImportance`]).
    Importances,
    /// Account id → state of the account that blocks change ([`crate::state::Account`]).
    Accounts,
    /// Decoded address → account id.
    AccountIds,
    /// Account id → decoded address, then the public key once it is known.
    AccountAddresses,
    /// Name → totals that are kept up to date with the blocks ([`crate::state::AccountTotals`] and others).
    Totals,
    /// Account id → nothing, for the accounts that are eligible for the importance calculation once their whole balance
    /// has vested.
    EligibleAccounts,
    /// Multisig account ‖ cosignatory → nothing.
    Cosignatories,
    /// Cosignatory ‖ multisig account → nothing.
    CosignatoryOf,
    /// Root name → its leases ([`crate::state::Lease`]), oldest first.
    Namespaces,
    /// Ownership period → its last lease, and whether it has ended.
    OwnershipPeriods,
    /// Ownership period ‖ full name → height of the lease in which the sub-namespace was created.
    Subnamespaces,
    /// Height ‖ root name → nothing, for every lease that started there.
    LeasesByHeight,
    /// Owner of the newest lease ‖ root name → nothing.
    NamespacesByOwner,
    /// Ownership period ‖ mosaic id → mosaic number.
    MosaicNumbers,
    /// Mosaic number ‖ definition version → the version from which its balances are kept, height, supply and definition
    /// ([`crate::state::DefinitionVersion`]).
    Mosaics,
    /// Mosaic number ‖ account id ‖ lease state and definition version at the time of writing → smallest units; 0 only
    /// if an older row holds more.
    Balances,
    /// Account id ‖ mosaic id → mosaic number, ownership period and lease state: the mosaics in which an account is
    /// invested, unless they have expired since.
    Holdings,
    /// Height → transfers of currency in the block ([`crate::state::Outlink`]).
    Outlinks,
    /// Epoch ‖ first bytes of a transaction hash ‖ height ‖ index in the block → nothing ([`crate::state::HashEntry`]).
    /// An epoch is a range of transaction ids: new rows are added to the last one only.
    Hashes,
    /// Level ‖ first epoch ‖ last row of the page → a page of a sorted run: rows of [`Table::Hashes`] without epochs.
    HashRuns,
    /// Height ‖ number → a mosaic that expired or was restored ([`crate::state::ExpiredMosaic`]).
    ExpiredMosaics,
    /// Height → for each transaction of the block the affected accounts, and the location of their previous
    /// transactions ([`crate::state::AccountTxList`]).
    AccountTxLists,
    /// Account id ‖ direction ‖ transaction id → height and index in the block, for every 32nd one: a skip pointer.
    SkipPointers,
    /// Account id ‖ height → nothing, for every block signed by or credited to the account.
    Harvests,
    /// Row id → provision of a namespace; never pruned ([`crate::state::registry::Provision`]).
    Provisions,
    /// Row id → definition of a mosaic with the height of its block; never pruned.
    Definitions,
    /// List ‖ row id → nothing: rows in the order of their pages ([`crate::state::registry::ListingIndex`]).
    ListingIndex,
    /// Row id of the definition that was in force ‖ height ‖ index in the block → change of a mosaic's supply; never
    /// pruned ([`crate::state::registry::SupplyQuery`]).
    SupplyChanges,
    /// Account id ‖ height → balance of the account from that height on until its next change; only if history is kept
    /// ([`crate::state::AccountHistory`]). A row of its own holds the known heights.
    BalanceHistory,
    /// Table (1 byte) ‖ first key of a range → bytes and sum of the hashes of the range's rows (`checksums.rs`).
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
        Table::AccountIds,
        Table::AccountAddresses,
        Table::Totals,
        Table::EligibleAccounts,
        Table::Cosignatories,
        Table::CosignatoryOf,
        Table::Namespaces,
        Table::OwnershipPeriods,
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
        Table::AccountTxLists,
        Table::SkipPointers,
        Table::Harvests,
        Table::Provisions,
        Table::Definitions,
        Table::ListingIndex,
        Table::SupplyChanges,
        Table::BalanceHistory,
        Table::Checksums,
    ];

    /// Returns the tables that depend on the blocks alone, whatever else a node is configured to keep. A block changes
    /// them through the journal, and an undo restores them; only the compaction of old hashes bypasses the journal.
    pub fn state() -> impl Iterator<Item = Table> {
        let follow = |table: &Table| *table >= Table::Accounts && *table < Table::BalanceHistory;
        Table::ALL.into_iter().filter(follow)
    }

    /// Returns whether new rows come after all others, so that pages can be filled one after the other.
    pub(super) fn appends_at_end(self) -> bool {
        use Table::{
            AccountAddresses, AccountTxLists, Accounts, Blocks, Definitions, Importances, Outlinks, Provisions, Undo,
        };
        matches!(
            self,
            Blocks
                | Undo
                | Importances
                | Accounts
                | AccountAddresses
                | Outlinks
                | AccountTxLists
                | Provisions
                | Definitions
        )
    }

    /// Returns the table with a number.
    pub fn from_number(number: u8) -> Option<Table> {
        Table::ALL.get(usize::from(number)).copied()
    }

    /// Returns the name in LMDB.
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Blocks => "blocks",
            Table::Undo => "undo",
            Table::Importances => "importances",
            Table::Accounts => "accounts",
            Table::AccountIds => "numbers",
            Table::AccountAddresses => "identities",
            Table::Totals => "totals",
            Table::EligibleAccounts => "stakes",
            Table::Cosignatories => "cosignatories",
            Table::CosignatoryOf => "cosignatory-of",
            Table::Namespaces => "namespaces",
            Table::OwnershipPeriods => "tenures",
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
            Table::AccountTxLists => "trails",
            Table::SkipPointers => "signposts",
            Table::Harvests => "harvests",
            Table::Provisions => "provisions",
            Table::Definitions => "definitions",
            Table::ListingIndex => "lists",
            Table::SupplyChanges => "supply-changes",
            Table::BalanceHistory => "balance-history",
            Table::Checksums => "checksums",
        }
    }
}
