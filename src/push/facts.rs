//! What the broker asks of the node to make its messages.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::api::long::{Found, Items, OwnedDefinitions, OwnedMosaics, RentedNames, TransferRows, Transfers};
use crate::api::{AccountWriter, BlockWriter, Page};
use crate::model::{Address, Height, MosaicId, Transaction};

/// Transactions in the list of the newest ones of an account.
const RECENT_TRANSFERS: usize = 25;

/// The node as it is after the last change of its chain.
pub trait Facts {
    /// Height of the last block.
    fn height(&self) -> Height;
    /// The account that signed the block at a height, if there is one.
    fn block_signer(&self, height: Height) -> Result<Option<Address>, FactsError>;
    /// Writes a block until the units in `budget` are used up; true when everything is written.
    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, FactsError>;
    /// Transactions of the block at a height: those from an index on, at most `most` of them, none at its end.
    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, FactsError>;
    /// Writes an account and what goes with it, as the HTTP interface shows it, until the units in `budget` are used up;
    /// true when everything is written.
    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, FactsError>;
    /// Writes the newest transactions of an account until the units in `budget` are used up; true when everything is
    /// written.
    fn write_transfers(&self, transfers: &mut TransfersText, budget: &mut u32) -> Result<bool, FactsError>;
    /// The JSON text of the next thing that an account owns, unless the units in `budget` are used up before.
    fn next_owned(&self, owned: &mut Owned, budget: &mut u32) -> Result<Found<Vec<u8>>, FactsError>;
    /// The JSON text that tells of the node.
    fn node_info(&self) -> Result<Vec<u8>, FactsError>;
    /// Who receives the levy of a mosaic, if it has one.
    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, FactsError>;
    /// Unconfirmed transactions that concern an account, the youngest first, at most `limit`.
    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, FactsError>;
}

/// The JSON text of a block in the making.
pub struct BlockText {
    /// Height of the block.
    pub height: Height,
    /// What has been written so far.
    pub text: Vec<u8>,
    /// What writes the rest.
    pub writer: BlockWriter,
}

impl BlockText {
    /// Nothing has been written yet.
    pub fn new(height: Height) -> BlockText {
        BlockText { height, text: Vec::new(), writer: BlockWriter::new(height) }
    }
}

/// The JSON text of an account in the making.
pub struct AccountText {
    /// The account.
    pub address: Address,
    /// What has been written so far.
    pub text: Vec<u8>,
    /// What writes the rest, once it has begun.
    pub writer: Option<AccountWriter>,
}

impl AccountText {
    /// Nothing has been written yet.
    pub fn new(address: Address) -> AccountText {
        AccountText { address, text: Vec::new(), writer: None }
    }
}

/// The JSON text of the newest transactions of an account in the making.
pub struct TransfersText {
    /// What has been written so far.
    pub text: Vec<u8>,
    /// What writes the rest.
    pub writer: TransferRows,
}

impl TransfersText {
    /// Nothing has been written yet.
    pub fn new(address: Address) -> TransfersText {
        let page = Page { before: u64::MAX, size: RECENT_TRANSFERS };
        TransfersText { text: Vec::new(), writer: TransferRows::new(address, Transfers::All, page) }
    }
}

/// Kinds of things that accounts own, in the order in which they are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// Namespaces.
    Namespaces,
    /// Definitions of the mosaics that it has, and of those in which their levies are paid.
    Definitions,
    /// How much it has of each mosaic.
    Mosaics,
}

/// What an account owns: one thing after another.
pub struct Owned {
    /// The account.
    pub address: Address,
    /// What is left of it.
    pub rest: Possessions,
}

/// What is left of what an account owns.
pub enum Possessions {
    /// Namespaces; `None` until they are looked for.
    Namespaces(Option<RentedNames>),
    /// Definitions.
    Definitions(OwnedDefinitions),
    /// Mosaics.
    Mosaics(OwnedMosaics),
}

impl Owned {
    /// Nothing has been told of yet.
    pub fn new(kind: Ownership, address: Address) -> Owned {
        let rest = match kind {
            Ownership::Namespaces => Possessions::Namespaces(None),
            Ownership::Definitions => Possessions::Definitions(OwnedDefinitions::new(vec![address])),
            Ownership::Mosaics => Possessions::Mosaics(OwnedMosaics::new(address)),
        };
        Owned { address, rest }
    }

    /// Bytes of memory that it holds, roughly.
    pub fn held_bytes(&self) -> usize {
        match &self.rest {
            Possessions::Namespaces(names) => names.as_ref().map_or(0, RentedNames::held_bytes),
            Possessions::Definitions(definitions) => definitions.held_bytes(),
            Possessions::Mosaics(mosaics) => mosaics.held_bytes(),
        }
    }
}

/// Why the node cannot say something; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsError(pub Cow<'static, str>);

impl fmt::Display for FactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FactsError {}
