//! What the broker asks of the node to make its messages.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::api::{AccountWriter, BlockWriter};
use crate::model::{Address, Height, MosaicId, Transaction};

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

/// Why the node cannot say something; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsError(pub Cow<'static, str>);

impl fmt::Display for FactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FactsError {}
