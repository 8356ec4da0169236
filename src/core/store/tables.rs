//! The tables. Numbers in keys are big-endian, so that key order is query order.

/// Version of the tables, which every change to them increases. A store with another version is rejected.
pub const SCHEMA: &str = "10";
/// Earlier versions from whose stores a new one can be built, because the rows of `meta`, `blocks` and `checksums` are
/// the same. No release has written the only one; the tests of rebuilding use it.
pub const EARLIER_SCHEMAS: &[&str] = &["0"];

/// Declares the tables: name, whether the journal covers the table, and where its rows are written. The order gives
/// the numbers, which are stored; so a new table comes last but one, before the checksums, with a new schema.
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident: $name:literal, $journal:ident, $rows:ident;)*) => {
        /// A table of the store. Text in keys is UTF-8; `‖` joins fields; addresses are their 40 characters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table { $($(#[$doc])* $table),* }

        impl Table {
            /// All tables, in the order of their numbers.
            pub const ALL: [Table; [$($name),*].len()] = [$(Table::$table),*];

            fn schema(self) -> (&'static str, Journal, Rows) {
                match self { $(Table::$table => ($name, Journal::$journal, Rows::$rows)),* }
            }
        }
    };
}

/// Whether blocks change a table through the journal, and an undo restores it.
#[derive(PartialEq)]
enum Journal {
    /// It depends on the blocks alone, whatever else a node is configured to keep.
    State,
    /// It does not.
    Other,
}

/// Where rows of a table are written.
#[derive(PartialEq)]
enum Rows {
    /// New ones after all others, so that pages can be filled one after the other.
    Last,
    /// Anywhere.
    Anywhere,
    /// Anywhere, or the same ones by many blocks: they can be collected in memory first.
    Collected,
    /// As the last two.
    LastCollected,
}

tables! {
    /// `schema`, `network` → version and network of the store.
    Meta: "meta", Other, Anywhere;
    /// Height of the last block of the row → blocks, data on them, and indexes of their transactions
    /// ([`crate::store::BlockRow`]).
    Blocks: "blocks", Other, Last;
    /// Height → undo journal, for the last blocks only.
    Undo: "undo", Other, Last;
    /// Importance height → record of the recalculation; importance height ‖ account id → importances up to that account
    /// ([`crate::state::AccountImportance`]).
    Importances: "importances", Other, Last;
    /// Account id → decoded address, then the state of the account ([`crate::state::Account`]).
    Accounts: "accounts", State, LastCollected;
    /// First bytes of a decoded address ‖ account id → the same of the accounts up to the next key
    /// (`state/account_ids.rs`).
    AccountIds: "account-ids", State, Collected;
    /// Account id → public key, once it is known.
    PublicKeys: "public-keys", State, Collected;
    /// Name → totals that are kept up to date with the blocks ([`crate::state::AccountTotals`] and others).
    Totals: "totals", State, Anywhere;
    /// Account id → nothing, for the accounts that are eligible for the importance calculation once their whole balance
    /// has vested.
    EligibleAccounts: "eligible-accounts", State, Anywhere;
    /// Multisig account ‖ cosignatory → nothing.
    Cosignatories: "cosignatories", State, Anywhere;
    /// Cosignatory ‖ multisig account → nothing.
    CosignatoryOf: "cosignatory-of", State, Anywhere;
    /// Root name → its leases ([`crate::state::Lease`]), oldest first.
    Namespaces: "namespaces", State, Anywhere;
    /// Ownership period → its last lease, and whether it has ended.
    OwnershipPeriods: "ownership-periods", State, Anywhere;
    /// Ownership period ‖ full name → height of the lease in which the sub-namespace was created.
    Subnamespaces: "subnamespaces", State, Anywhere;
    /// Height ‖ root name → nothing, for every lease that started there.
    LeasesByHeight: "leases-by-height", State, Anywhere;
    /// Owner of the newest lease ‖ root name → nothing.
    NamespacesByOwner: "namespaces-by-owner", State, Anywhere;
    /// Ownership period ‖ mosaic id → mosaic number.
    MosaicNumbers: "mosaic-numbers", State, Anywhere;
    /// Mosaic number ‖ definition version → the version from which its balances are kept, height, supply and definition
    /// ([`crate::state::DefinitionVersion`]).
    Mosaics: "mosaics", State, Anywhere;
    /// Mosaic number ‖ account id ‖ lease state and definition version at the time of writing → smallest units; 0 only
    /// if an older row holds more.
    Balances: "balances", State, Collected;
    /// Account id ‖ mosaic id → mosaic number, ownership period and lease state: the mosaics in which an account is
    /// invested, unless they have expired since.
    Holdings: "holdings", State, Collected;
    /// Height → transfers of currency in the block ([`crate::state::Outlink`]).
    Outlinks: "outlinks", State, Last;
    /// Epoch ‖ first bytes of a transaction hash ‖ height ‖ index in the block → nothing ([`crate::state::HashEntry`]).
    /// An epoch is a range of transaction ids: new rows are added to the last one only. The compaction of old hashes
    /// bypasses the journal.
    Hashes: "hashes", State, Anywhere;
    /// Level ‖ first epoch ‖ last row of the page → a page of a sorted run: rows of [`Table::Hashes`] without epochs.
    HashRuns: "hash-runs", State, Anywhere;
    /// Height ‖ number → a mosaic that expired or was restored ([`crate::state::ExpiredMosaic`]).
    ExpiredMosaics: "expired-mosaics", State, Anywhere;
    /// Height → for each transaction of the block the affected accounts, and the location of their previous
    /// transactions ([`crate::state::AccountTxList`]).
    AccountTxLists: "account-tx-lists", State, Last;
    /// Account id ‖ direction ‖ transaction id → height and index in the block, for every 32nd one: a skip pointer.
    SkipPointers: "skip-pointers", State, Collected;
    /// Account id ‖ height → nothing, for every 32nd block signed by or credited to the account: a skip pointer.
    Harvests: "harvests", State, Collected;
    /// Row id → provision of a namespace; never pruned ([`crate::state::registry::Provision`]).
    Provisions: "provisions", State, Last;
    /// Row id → definition of a mosaic with the height of its block; never pruned.
    Definitions: "definitions", State, Last;
    /// List ‖ row id → nothing: rows in the order of their pages ([`crate::state::registry::ListingIndex`]).
    ListingIndex: "listing-index", State, Collected;
    /// Row id of the definition that was in force ‖ height ‖ index in the block → change of a mosaic's supply; never
    /// pruned ([`crate::state::registry::SupplyQuery`]).
    SupplyChanges: "supply-changes", State, Anywhere;
    /// Account id ‖ height → balance of the account from that height on until its next change; only if history is kept
    /// ([`crate::state::AccountHistory`]). A row of its own holds the known heights.
    BalanceHistory: "balance-history", Other, Anywhere;
    /// Table (1 byte) ‖ first key of a range → bytes and sum of the hashes of the range's rows (`checksums.rs`).
    Checksums: "checksums", Other, Anywhere;
}

impl Table {
    /// Returns the name in LMDB.
    pub fn name(self) -> &'static str {
        self.schema().0
    }

    /// Returns the table with a number.
    pub fn from_number(number: u8) -> Option<Table> {
        Table::ALL.get(usize::from(number)).copied()
    }

    /// Returns the tables that depend on the blocks alone, whatever else a node is configured to keep.
    pub fn state() -> impl Iterator<Item = Table> {
        Table::ALL.into_iter().filter(|table| table.schema().1 == Journal::State)
    }

    /// Returns whether changes of rows can be collected in memory: many blocks change the same rows, or rows all over the
    /// table.
    pub(super) fn is_collected(self) -> bool {
        matches!(self.schema().2, Rows::Collected | Rows::LastCollected)
    }

    /// Returns whether new rows come after all others.
    pub(super) fn appends_at_end(self) -> bool {
        matches!(self.schema().2, Rows::Last | Rows::LastCollected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_one_name_in_the_code_and_in_the_store() {
        for table in Table::ALL {
            let words = table.name().split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
            assert_eq!(words.collect::<String>(), format!("{table:?}"));
        }
    }

    #[test]
    fn rows_of_blocks_come_last_and_those_of_addresses_anywhere() {
        assert!(Table::Blocks.appends_at_end());
        assert!(!Table::AccountIds.appends_at_end());
    }
}
