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
    /// Grouped height → what was recalculated; grouped height ‖ address → importances up to that address
    /// ([`crate::state::AccountImportance`]).
    Importances,
    /// Address → [`crate::state::Account`].
    Accounts,
    /// Multisig account ‖ cosignatory → nothing.
    Cosignatories,
    /// Cosignatory ‖ multisig account → nothing.
    CosignatoryOf,
    /// Root name → its leases ([`crate::state::Lease`]), oldest first.
    Namespaces,
    /// Height ‖ root name → nothing, for every lease that began there.
    LeasesByHeight,
    /// Owner of the newest lease ‖ root name → nothing.
    NamespacesByOwner,
    /// Mosaic id ‖ 0 ‖ number of the definition → number of the definition with which its balances began, supply and
    /// definition ([`crate::state::Edition`]).
    Mosaics,
    /// Mosaic id ‖ 0 ‖ address ‖ number of the definition under which it was written → smallest units; 0 only where an
    /// older row holds more.
    Balances,
    /// Address ‖ mosaic id → nothing: the mosaics in which an account is invested.
    Holdings,
    /// Height ‖ number in the block → sender ‖ recipient ‖ weight of a movement of currency.
    Outlinks,
    /// Transaction hash → where it is ([`crate::state::HashEntry`]).
    Hashes,
    /// Time stamp ‖ transaction hash → nothing, for forgetting old hashes.
    HashesByTime,
    /// Height ‖ number → mosaics that expired or came back.
    ExpiredMosaics,
    /// Address ‖ direction ‖ transaction id → height ‖ index in the block.
    Transfers,
    /// Address ‖ height → nothing, for every block signed by or credited to the account.
    Harvests,
    /// Row → provision of a namespace; nothing is ever forgotten ([`crate::state::catalogue::Provision`]).
    Provisions,
    /// Row → definition of a mosaic; nothing is ever forgotten.
    Definitions,
    /// List ‖ row → nothing: rows in the order in which they are paged through ([`crate::state::catalogue::List`]).
    Lists,
}

impl Table {
    /// All tables, in the order of their numbers.
    pub const ALL: [Table; 22] = [
        Table::Meta,
        Table::Blocks,
        Table::Undo,
        Table::Importances,
        Table::Accounts,
        Table::Cosignatories,
        Table::CosignatoryOf,
        Table::Namespaces,
        Table::LeasesByHeight,
        Table::NamespacesByOwner,
        Table::Mosaics,
        Table::Balances,
        Table::Holdings,
        Table::Outlinks,
        Table::Hashes,
        Table::HashesByTime,
        Table::ExpiredMosaics,
        Table::Transfers,
        Table::Harvests,
        Table::Provisions,
        Table::Definitions,
        Table::Lists,
    ];

    /// Tables that a block changes through the journal and an undo restores.
    pub fn state() -> impl Iterator<Item = Table> {
        Table::ALL.into_iter().skip(Table::Accounts as usize)
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
            Table::Cosignatories => "cosignatories",
            Table::CosignatoryOf => "cosignatory-of",
            Table::Namespaces => "namespaces",
            Table::LeasesByHeight => "leases-by-height",
            Table::NamespacesByOwner => "namespaces-by-owner",
            Table::Mosaics => "mosaics",
            Table::Balances => "balances",
            Table::Holdings => "holdings",
            Table::Outlinks => "outlinks",
            Table::Hashes => "hashes",
            Table::HashesByTime => "hashes-by-time",
            Table::ExpiredMosaics => "expired-mosaics",
            Table::Transfers => "transfers",
            Table::Harvests => "harvests",
            Table::Provisions => "provisions",
            Table::Definitions => "definitions",
            Table::Lists => "lists",
        }
    }
}
