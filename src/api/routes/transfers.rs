//! Handlers of the transactions of an account.

use std::borrow::Cow;

use crate::api::budget::cost;
use crate::api::chain_snapshot::Page;
use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext, parse_page};
use crate::api::streams::{TransferFilter, TransferPage};
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError, limits};
use crate::crypto::hex_text::decode_hex;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::{Address, Hash256};
use crate::state::{AccountId, TxLocation};

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
    context.send_stream(TransferPage::new(account, transfers, page))
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
    context.send_stream(TransferPage::new(account, transfers, page).with_decryption_key(key))
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
