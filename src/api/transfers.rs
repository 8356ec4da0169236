//! Transactions of an account: handlers and stream.

use std::borrow::Cow;

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext, parse_page};
use crate::api::streams::{ResponseStream, list_stream};
use crate::api::views::{TransactionMeta, TransactionPair};
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError, limits};
use crate::crypto::cipher::decrypt;
use crate::crypto::hex_text::decode_hex;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::transaction::{Message, MessageKind, wire_version};
use crate::model::{Address, Body, Hash256, Transaction};
use crate::state::{AccountId, AccountTxCursor, Direction, TxLocation};
use crate::store::StoreError;

const DAMAGED: StoreError = StoreError::Damaged("the location of a transaction");

/// Selection of the transactions of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFilter {
    /// Those that it received.
    Incoming,
    /// Those that it sent, or that a multisig account sent of which it was a cosignatory.
    Outgoing,
    /// All, each once.
    All,
}

impl TransferFilter {
    fn directions(self) -> &'static [Direction] {
        match self {
            TransferFilter::Incoming => &[Direction::Incoming],
            TransferFilter::Outgoing => &[Direction::Outgoing],
            TransferFilter::All => &[Direction::Incoming, Direction::Outgoing],
        }
    }
}

/// `GET /account/transfers/incoming`
pub fn incoming(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    of_address(context, TransferFilter::Incoming)
}

/// `GET /account/transfers/outgoing`
pub fn outgoing(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    of_address(context, TransferFilter::Outgoing)
}

/// `GET /account/transfers/all`
pub fn all(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    of_address(context, TransferFilter::All)
}

/// `POST /local/account/transfers/incoming`
pub fn incoming_of_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    of_key(context, TransferFilter::Incoming)
}

/// `POST /local/account/transfers/outgoing`
pub fn outgoing_of_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    of_key(context, TransferFilter::Outgoing)
}

/// `POST /local/account/transfers/all`
pub fn all_of_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    of_key(context, TransferFilter::All)
}

fn of_address(context: &mut RequestContext<'_>, transfers: TransferFilter) -> Result<(), ApiError> {
    let (account, hash) = (context.address()?, context.optional_hash()?);
    let page = context.page()?;
    let page = page_of(context, &account, hash, page)?;
    context.send_stream(transfer_page(account, transfers, page, None))
}

fn of_key(context: &mut RequestContext<'_>, transfers: TransferFilter) -> Result<(), ApiError> {
    let query: KeyQuery = context.body()?;
    let hash = query.hash.as_deref().map(|text| decode_hex(text).map_err(|error| ApiError::bad_hex(&error)));
    let hash = hash.transpose()?;
    let page = parse_page(query.id.as_deref().map(String::as_str), query.size.as_deref().map(String::as_str))?;
    let key = Box::new(KeyPair::new(&query.key));
    context.budget.charge(cost::KEY);
    let account = context.address_of(&key.public());
    let page = page_of(context, &account, hash, page)?;
    context.send_stream(transfer_page(account, transfers, page, Some(key)))
}

/// Returns the page that begins after the transaction with a hash, unless the page has an id.
fn page_of(
    context: &RequestContext<'_>,
    account: &Address,
    hash: Option<Vec<u8>>,
    page: Page,
) -> Result<Page, ApiError> {
    let Some(hash) = hash.filter(|_| page.is_first()) else { return Ok(page) };
    if !context.settings.features.transaction_hash_lookup {
        return Err(ApiError::internal("this node does not support transaction hash lookup"));
    }
    // A hash of another length is not an error; no transaction has it.
    let hash = Hash256::try_from(hash.as_slice()).ok();
    let entry = hash.map(|hash| context.find_hash(&hash)).transpose()?.flatten();
    let Some((hash, entry)) = hash.zip(entry) else {
        return Err(ApiError::argument("Neither transaction id was supplied nor hash was found in cache"));
    };
    if AccountId::of(context.chain.snapshot, account)?.is_none() {
        return Ok(page);
    }
    if entry.is_nested {
        return Err(ApiError::no_transaction(&hash));
    }
    let before = context.chain.transaction_id(TxLocation { height: entry.height, index: entry.index })?;
    Ok(Page { before: before.ok_or_else(|| ApiError::no_transaction(&hash))?, ..page })
}

/// `{"value": private key, "hash": hex, "id": digits, "pageSize": digits}`. All but the key are texts that may be
/// absent or empty. They are erased too, as a client may put a key in the wrong field.
struct KeyQuery {
    key: PrivateKey,
    hash: Option<Wiped<String>>,
    id: Option<Wiped<String>>,
    size: Option<Wiped<String>>,
}

impl Readable for KeyQuery {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let key = PrivateKey::read(source)?;
        Ok(KeyQuery {
            key,
            hash: read_text(source, "hash")?,
            id: read_text(source, "id")?,
            size: read_text(source, "pageSize")?,
        })
    }
}

fn read_text<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Option<Wiped<String>>, ReadError> {
    let text = source.string(label, limits::MAX_TEXT_UTF16)?.map(Cow::into_owned).map(Wiped);
    Ok(text.filter(|text| !text.is_empty()))
}

/// A page of the transactions of an account with their locations in the chain, highest ids first. A key decrypts the
/// messages that it can read.
///
/// Each step starts anew after the last transaction written, so it shows the chain as of that step, also after a reorg.
pub fn transfer_page(
    account: Address,
    transfers: TransferFilter,
    page: Page,
    key: Option<Box<KeyPair>>,
) -> impl ResponseStream {
    let (mut before, mut left) = (page.before, page.size);
    let held_bytes = key.as_ref().map_or(0, |_| size_of::<KeyPair>());
    let list = list_stream(move |step| {
        let view = step.view;
        let mut cursor = TransferCursor::new(view, &account, transfers, before)?;
        step.budget.charge(cost::TX_LIST * cursor.cursors.len() as u32);
        while left > 0 {
            let Some((id, place)) = cursor.next(view)? else { break };
            let raw = view.transaction(place)?.ok_or(DAMAGED)?;
            let transaction = raw.read()?;
            let inner_hash = transaction.inner().map(Transaction::hash);
            let meta = TransactionMeta { height: place.height, id, hash: raw.hash(&transaction), inner_hash };
            let transaction = match &key {
                Some(key) => decrypted(transaction, key, &account, view, step.budget)?,
                None => transaction,
            };
            step.push(&TransactionPair { transaction: &transaction, meta });
            (before, left) = (id, left - 1);
            step.budget.charge(cost::TRANSACTION + cost::SKIP + cost::bytes(2 * raw.bytes.len()));
            if !step.should_continue(left) {
                break;
            }
        }
        Ok(())
    });
    list.holding(held_bytes)
}

/// Cursor over the transactions of an account, highest ids first.
struct TransferCursor {
    cursors: Vec<AccountTxCursor>,
}

impl TransferCursor {
    /// Creates a cursor at the first transaction with an id below `before`.
    fn new(
        view: &ChainSnapshot<'_>,
        account: &Address,
        transfers: TransferFilter,
        before: u64,
    ) -> Result<TransferCursor, StoreError> {
        let directions = transfers.directions().iter();
        let trails = directions.map(|direction| AccountTxCursor::new(view.snapshot, account, *direction, before));
        Ok(TransferCursor { cursors: trails.collect::<Result<_, _>>()? })
    }

    /// Returns the id and location of the next transaction. A transaction in both lists is returned once.
    fn next(&mut self, view: &ChainSnapshot<'_>) -> Result<Option<(u64, TxLocation)>, StoreError> {
        let next = self.cursors.iter().filter_map(AccountTxCursor::peek).max();
        for cursor in &mut self.cursors {
            if cursor.peek() == next {
                cursor.advance(view.snapshot)?;
            }
        }
        Ok(next)
    }
}

/// Decrypts the message of a transfer, if the account's key can read it.
fn decrypted(
    mut transaction: Transaction,
    key: &KeyPair,
    account: &Address,
    view: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<Transaction, StoreError> {
    let network = view.network.byte;
    let is_sender = transaction.signer_address(network) == *account;
    let Body::Transfer(body) = &mut transaction.body else { return Ok(transaction) };
    let Some(message) = body.message.as_mut().filter(|message| message.kind == MessageKind::Secure) else {
        return Ok(transaction);
    };
    let other = if is_sender { view.public_key(&body.recipient)? } else { Some(transaction.signer) };
    let Some(other) = other else { return Ok(transaction) };
    budget.charge(cost::SHARED_KEY);
    if let Ok(Some(payload)) = decrypt(key, &other, &message.payload) {
        *message = Message { kind: MessageKind::Plain, payload };
        // NIS1 builds a new transaction from it, which has the newer version.
        transaction.version = wire_version(network, 2);
    }
    Ok(transaction)
}
