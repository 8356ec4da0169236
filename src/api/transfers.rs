//! Transactions of an account: handlers and stream.

use std::borrow::Cow;

use super::harvesting::read_key;
use super::request_context::{Page, parse_page};
use super::routes::{Route, get, post};
use super::streams::{ListStream, list_stream};
use super::transactions::{DAMAGED, TransactionPair};
use super::{ApiError, RequestContext};
use crate::budget::{Budget, cost};
use crate::chain::ChainSnapshot;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError, Readable, limits};
use crate::crypto::cipher::decrypt;
use crate::crypto::keys::decode_hex;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::transaction::{Message, MessageKind, wire_version};
use crate::model::{Address, Body, Transaction};
use crate::state::{self, AccountId, AccountTxCursor, Direction, TxLocation};
use crate::store::StoreError;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/account/transfers/incoming", |context| of_address(context, INCOMING)).cached(),
    get("/account/transfers/outgoing", |context| of_address(context, OUTGOING)).cached(),
    get("/account/transfers/all", |context| of_address(context, ALL_TRANSFERS)).cached(),
    post("/local/account/transfers/incoming", |context| of_key(context, INCOMING)).local(),
    post("/local/account/transfers/outgoing", |context| of_key(context, OUTGOING)).local(),
    post("/local/account/transfers/all", |context| of_key(context, ALL_TRANSFERS)).local(),
];

/// The transactions that an account received.
const INCOMING: &[Direction] = &[Direction::Incoming];
/// Those that it sent, or that a multisig account sent of which it was a cosignatory.
const OUTGOING: &[Direction] = &[Direction::Outgoing];
/// All transactions of an account, each once.
pub const ALL_TRANSFERS: &[Direction] = &[Direction::Incoming, Direction::Outgoing];

fn of_address(context: &mut RequestContext<'_>, directions: &'static [Direction]) -> Result<(), ApiError> {
    let (account, hash) = (context.address()?, context.optional_hash()?);
    let page = context.page()?;
    let page = page_of(context, &account, hash, page)?;
    context.send_stream(transfer_page(account, directions, page, None))
}

fn of_key(context: &mut RequestContext<'_>, directions: &'static [Direction]) -> Result<(), ApiError> {
    let query: KeyQuery = context.body()?;
    let hash = query.hash.as_deref().map(|text| decode_hex(text)).transpose()?;
    let page = parse_page(query.id.as_deref().map(String::as_str), query.size.as_deref().map(String::as_str))?;
    let key = Box::new(KeyPair::new(&query.key));
    context.node.budget.charge(cost::KEY);
    let account = context.address_of(&key.public());
    let page = page_of(context, &account, hash, page)?;
    context.send_stream(transfer_page(account, directions, page, Some(key)))
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
    let Some((hash, entry)) = context.find_hash(&hash)? else {
        return Err(ApiError::argument("Neither transaction id was supplied nor hash was found in cache"));
    };
    if AccountId::of(context.node.chain.snapshot, account)?.is_none() {
        return Ok(page);
    }
    if entry.is_nested {
        return Err(ApiError::no_transaction(&hash));
    }
    let before =
        state::transaction_id(context.node.chain.snapshot, TxLocation { height: entry.height, index: entry.index })?;
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
        let key = read_key(source, "value")?;
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
    directions: &'static [Direction],
    page: Page,
    key: Option<Box<KeyPair>>,
) -> ListStream {
    let (mut before, mut left) = (page.before, page.size);
    list_stream(move |step| {
        *step.held_bytes = key.as_ref().map_or(0, |_| size_of::<KeyPair>());
        let chain = step.node.chain;
        let lists = directions.iter();
        let lists = lists.map(|direction| AccountTxCursor::new(chain.snapshot, &account, *direction, before));
        let mut lists = lists.collect::<Result<Vec<_>, _>>()?;
        step.node.budget.charge(cost::TX_LIST * lists.len() as u32);
        while left > 0 {
            let Some((id, place)) = next_transfer(&mut lists, &chain)? else { break };
            let raw = chain.transaction(place)?.ok_or(DAMAGED)?;
            let transaction = raw.read()?;
            let hash = raw.hash(&transaction);
            let transaction = match &key {
                Some(key) => decrypted(transaction, key, &account, &chain, &mut step.node.budget)?,
                None => transaction,
            };
            step.push(&TransactionPair::new(&transaction, place.height, id, hash));
            (before, left) = (id, left - 1);
            step.node.budget.charge(cost::TRANSACTION + cost::SKIP + cost::bytes(2 * raw.bytes.len()));
            if !step.should_continue(left) {
                break;
            }
        }
        Ok(())
    })
}

/// Returns the highest id in lists of transactions, and its location. A transaction in several lists is returned once.
fn next_transfer(
    lists: &mut [AccountTxCursor],
    chain: &ChainSnapshot<'_>,
) -> Result<Option<(u64, TxLocation)>, StoreError> {
    let next = lists.iter().filter_map(AccountTxCursor::peek).max();
    for list in lists {
        if list.peek() == next {
            list.advance(chain.snapshot)?;
        }
    }
    Ok(next)
}

/// Decrypts the message of a transfer, if the account's key can read it.
fn decrypted(
    mut transaction: Transaction,
    key: &KeyPair,
    account: &Address,
    chain: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<Transaction, StoreError> {
    let network = chain.network.byte;
    let is_sender = transaction.signer_address(network) == *account;
    let Body::Transfer(body) = &mut transaction.body else { return Ok(transaction) };
    let Some(message) = body.message.as_mut().filter(|message| message.kind == MessageKind::Secure) else {
        return Ok(transaction);
    };
    let other = if is_sender { state::public_key(chain.snapshot, &body.recipient)? } else { Some(transaction.signer) };
    let Some(other) = other else { return Ok(transaction) };
    budget.charge(cost::SHARED_KEY);
    if let Ok(Some(payload)) = decrypt(key, &other, &message.payload) {
        *message = Message { kind: MessageKind::Plain, payload };
        // NIS1 builds a new transaction from it, which has the newer version.
        transaction.version = wire_version(network, 2);
    }
    Ok(transaction)
}

#[cfg(test)]
mod tests;
