//! The data that the broker reads from the node.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::api::long::{Found, Items, OwnedDefinitions, OwnedMosaics, RentedNames, TransferRows, Transfers};
use crate::api::{AccountWriter, BlockWriter, Page};
use crate::model::{Address, Height, MosaicId, Transaction};

/// Length of the list of an account's newest transactions.
const RECENT_TRANSFERS: usize = 25;

/// The node's state after the last chain update.
pub trait Facts {
    /// Height of the tip.
    fn height(&self) -> Height;
    /// Returns the signer of the block at a height, if there is such a block.
    fn block_signer(&self, height: Height) -> Result<Option<Address>, FactsError>;
    /// Writes a block as JSON within the budget. Returns true when everything is written.
    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, FactsError>;
    /// Returns up to `most` transactions of the block at a height, starting at index `from`; none at its end.
    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, FactsError>;
    /// Writes an account and its metadata as JSON, as in the HTTP API, within the budget. Returns true when everything
    /// is written.
    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, FactsError>;
    /// Writes the newest transactions of an account as JSON within the budget. Returns true when everything is written.
    fn write_transfers(&self, transfers: &mut TransfersText, budget: &mut u32) -> Result<bool, FactsError>;
    /// Returns the JSON of the next item that an account owns, or [`Found::NotYet`] if the budget is used up first.
    fn next_owned(&self, owned: &mut Owned, budget: &mut u32) -> Result<Found<Vec<u8>>, FactsError>;
    /// Returns the JSON that describes the node.
    fn node_info(&self) -> Result<Vec<u8>, FactsError>;
    /// Returns the recipient of a mosaic's levy, if it has one.
    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, FactsError>;
    /// Returns up to `limit` unconfirmed transactions that affect an account, the newest first.
    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, FactsError>;
}

/// A block's JSON in progress.
pub struct BlockText {
    /// Height of the block.
    pub height: Height,
    /// The text written so far.
    pub text: Vec<u8>,
    /// Writes the rest.
    pub writer: BlockWriter,
}

impl BlockText {
    /// Starts with an empty text.
    pub fn new(height: Height) -> BlockText {
        BlockText { height, text: Vec::new(), writer: BlockWriter::new(height) }
    }
}

/// An account's JSON in progress.
pub struct AccountText {
    /// The account.
    pub address: Address,
    /// The text written so far.
    pub text: Vec<u8>,
    /// Writes the rest, once it has started.
    pub writer: Option<AccountWriter>,
}

impl AccountText {
    /// Starts with an empty text.
    pub fn new(address: Address) -> AccountText {
        AccountText { address, text: Vec::new(), writer: None }
    }
}

/// The JSON of an account's newest transactions in progress.
pub struct TransfersText {
    /// The text written so far.
    pub text: Vec<u8>,
    /// Writes the rest.
    pub writer: TransferRows,
}

impl TransfersText {
    /// Starts with an empty text.
    pub fn new(address: Address) -> TransfersText {
        let page = Page { before: u64::MAX, size: RECENT_TRANSFERS };
        TransfersText { text: Vec::new(), writer: TransferRows::new(address, Transfers::All, page) }
    }
}

/// Kinds of items that accounts own, in the order in which they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// Namespaces.
    Namespaces,
    /// Definitions of the account's mosaics and of the mosaics in which their levies are paid.
    Definitions,
    /// Balances of mosaics.
    Mosaics,
}

/// Iterates over the items that an account owns.
pub struct Owned {
    /// The account.
    pub address: Address,
    /// The remaining items.
    pub rest: Possessions,
}

/// The remaining items of one kind.
pub enum Possessions {
    /// Namespaces; `None` until they are looked up.
    Namespaces(Option<RentedNames>),
    /// Definitions.
    Definitions(OwnedDefinitions),
    /// Mosaics.
    Mosaics(OwnedMosaics),
}

impl Owned {
    /// Starts before the first item.
    pub fn new(kind: Ownership, address: Address) -> Owned {
        let rest = match kind {
            Ownership::Namespaces => Possessions::Namespaces(None),
            Ownership::Definitions => Possessions::Definitions(OwnedDefinitions::new(vec![address])),
            Ownership::Mosaics => Possessions::Mosaics(OwnedMosaics::new(address)),
        };
        Owned { address, rest }
    }

    /// Bytes of memory held, approximately.
    pub fn held_bytes(&self) -> usize {
        match &self.rest {
            Possessions::Namespaces(names) => names.as_ref().map_or(0, RentedNames::held_bytes),
            Possessions::Definitions(definitions) => definitions.held_bytes(),
            Possessions::Mosaics(mosaics) => mosaics.held_bytes(),
        }
    }
}

/// Why the node cannot answer; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsError(pub Cow<'static, str>);

impl fmt::Display for FactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FactsError {}
