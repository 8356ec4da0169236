//! The data that the broker reads from the node.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::api::streams::{
    ItemSource, NextItem, OwnedDefinitions, OwnedMosaics, RentedNamespaces, TransferFilter, TransferPage,
};
use crate::api::{AccountStream, BlockStream, Page};
use crate::model::{Address, Height, MosaicId, Transaction};

/// Length of the list of an account's newest transactions.
const RECENT_TRANSFERS: usize = 25;

/// The node's state after the last chain update.
pub trait ChainSource {
    /// Height of the tip.
    fn height(&self) -> Height;
    /// Returns the signer of the block at a height, if there is such a block.
    fn block_signer(&self, height: Height) -> Result<Option<Address>, ChainSourceError>;
    /// Writes a block as JSON within the budget. Returns true when everything is written.
    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, ChainSourceError>;
    /// Returns up to `max` transactions of the block at a height, starting at index `from`; none at its end.
    fn transactions(&self, height: Height, from: usize, max: usize) -> Result<Vec<Transaction>, ChainSourceError>;
    /// Writes an account and its metadata as JSON, as in the HTTP API, within the budget. Returns true when everything
    /// is written.
    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, ChainSourceError>;
    /// Writes the newest transactions of an account as JSON within the budget. Returns true when everything is written.
    fn write_transfers(&self, transfers: &mut TransfersText, budget: &mut u32) -> Result<bool, ChainSourceError>;
    /// Returns the JSON of the next item that an account owns, or [`NextItem::Pending`] if the budget is used up first.
    fn next_owned(&self, owned: &mut OwnedItems, budget: &mut u32) -> Result<NextItem<Vec<u8>>, ChainSourceError>;
    /// Returns the JSON that describes the node.
    fn node_info(&self) -> Result<Vec<u8>, ChainSourceError>;
    /// Returns the recipient of a mosaic's levy, if it has one.
    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, ChainSourceError>;
    /// Returns up to `limit` unconfirmed transactions that affect an account, the newest first.
    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, ChainSourceError>;
}

/// A block's JSON in progress.
pub struct BlockText {
    /// Height of the block.
    pub height: Height,
    /// The text written so far.
    pub text: Vec<u8>,
    /// Writes the rest.
    pub writer: BlockStream,
}

impl BlockText {
    /// Starts with an empty text.
    pub fn new(height: Height) -> BlockText {
        BlockText { height, text: Vec::new(), writer: BlockStream::new(height) }
    }
}

/// An account's JSON in progress.
pub struct AccountText {
    /// The account.
    pub address: Address,
    /// The text written so far.
    pub text: Vec<u8>,
    /// Writes the rest, once it has started.
    pub writer: Option<AccountStream>,
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
    pub writer: TransferPage,
}

impl TransfersText {
    /// Starts with an empty text.
    pub fn new(address: Address) -> TransfersText {
        let page = Page { before: u64::MAX, size: RECENT_TRANSFERS };
        TransfersText { text: Vec::new(), writer: TransferPage::new(address, TransferFilter::All, page) }
    }
}

/// Kinds of items that accounts own, in the order in which they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnedKind {
    /// Namespaces.
    Namespaces,
    /// Definitions of the account's mosaics and of the mosaics in which their levies are paid.
    Definitions,
    /// Balances of mosaics.
    Mosaics,
}

/// Iterates over the items that an account owns.
pub struct OwnedItems {
    /// The account.
    pub address: Address,
    /// The remaining items.
    pub cursor: OwnedCursor,
}

/// The remaining items of one kind.
pub enum OwnedCursor {
    /// Namespaces; `None` until they are looked up.
    Namespaces(Option<RentedNamespaces>),
    /// Definitions.
    Definitions(OwnedDefinitions),
    /// Mosaics.
    Mosaics(OwnedMosaics),
}

impl OwnedItems {
    /// Starts before the first item.
    pub fn new(kind: OwnedKind, address: Address) -> OwnedItems {
        let rest = match kind {
            OwnedKind::Namespaces => OwnedCursor::Namespaces(None),
            OwnedKind::Definitions => OwnedCursor::Definitions(OwnedDefinitions::new(vec![address])),
            OwnedKind::Mosaics => OwnedCursor::Mosaics(OwnedMosaics::new(address)),
        };
        OwnedItems { address, cursor: rest }
    }

    /// Bytes of memory held, approximately.
    pub fn held_bytes(&self) -> usize {
        match &self.cursor {
            OwnedCursor::Namespaces(names) => names.as_ref().map_or(0, RentedNamespaces::held_bytes),
            OwnedCursor::Definitions(definitions) => definitions.held_bytes(),
            OwnedCursor::Mosaics(mosaics) => mosaics.held_bytes(),
        }
    }
}

/// Why the node cannot answer; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSourceError(pub Cow<'static, str>);

impl fmt::Display for ChainSourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ChainSourceError {}
