//! Handlers of the transactions of an account.

use std::borrow::Cow;

use crate::api::budget::cost;
use crate::api::call::{Call, Readable, parse_page};
use crate::api::chain_view::Page;
use crate::api::failure::Failure;
use crate::api::long::{TransferRows, Transfers};
use crate::codec::wipe::Wiped;
use crate::codec::{ReadError, Source, limits};
use crate::crypto::hex_text::decode_hex;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::{Address, Hash256};
use crate::state::{AccountNumber, Place};

/// `GET /account/transfers/incoming`
pub fn incoming(call: &mut Call<'_>) -> Result<(), Failure> {
    of_address(call, Transfers::Incoming)
}

/// `GET /account/transfers/outgoing`
pub fn outgoing(call: &mut Call<'_>) -> Result<(), Failure> {
    of_address(call, Transfers::Outgoing)
}

/// `GET /account/transfers/all`
pub fn all(call: &mut Call<'_>) -> Result<(), Failure> {
    of_address(call, Transfers::All)
}

/// `POST /local/account/transfers/incoming`
pub fn incoming_of_key(call: &mut Call<'_>) -> Result<(), Failure> {
    of_key(call, Transfers::Incoming)
}

/// `POST /local/account/transfers/outgoing`
pub fn outgoing_of_key(call: &mut Call<'_>) -> Result<(), Failure> {
    of_key(call, Transfers::Outgoing)
}

/// `POST /local/account/transfers/all`
pub fn all_of_key(call: &mut Call<'_>) -> Result<(), Failure> {
    of_key(call, Transfers::All)
}

fn of_address(call: &mut Call<'_>, transfers: Transfers) -> Result<(), Failure> {
    let (account, hash) = (call.address()?, call.optional_hash()?);
    let page = call.page()?;
    let page = page_of(call, &account, hash, page)?;
    call.send_long(TransferRows::new(account, transfers, page))
}

fn of_key(call: &mut Call<'_>, transfers: Transfers) -> Result<(), Failure> {
    let asked: OfKey = call.body()?;
    let hash = asked.hash.as_deref().map(|text| decode_hex(text).map_err(|error| Failure::bad_hex(&error)));
    let hash = hash.transpose()?;
    let page = parse_page(asked.id.as_deref().map(String::as_str), asked.size.as_deref().map(String::as_str))?;
    let key = Box::new(KeyPair::new(&asked.key));
    call.budget.spend(cost::KEY);
    let account = call.address_of(&key.public());
    let page = page_of(call, &account, hash, page)?;
    call.send_long(TransferRows::new(account, transfers, page).read_by(key))
}

/// Returns the page that begins after the transaction with a hash, unless the page has an id.
fn page_of(call: &Call<'_>, account: &Address, hash: Option<Vec<u8>>, page: Page) -> Result<Page, Failure> {
    let Some(hash) = hash.filter(|_| page.is_first()) else { return Ok(page) };
    if !call.settings.features.transaction_hash_lookup {
        return Err(Failure::internal("this node does not support transaction hash lookup"));
    }
    // A hash of another length is not an error; no transaction has it.
    let hash = Hash256::try_from(hash.as_slice()).ok();
    let entry = hash.map(|hash| call.find_hash(&hash)).transpose()?.flatten();
    let Some((hash, entry)) = hash.zip(entry) else {
        return Err(Failure::argument("Neither transaction id was supplied nor hash was found in cache"));
    };
    if AccountNumber::of(call.view.snapshot, account)?.is_none() {
        return Ok(page);
    }
    if entry.is_nested {
        return Err(Failure::no_transaction(&hash));
    }
    let before = call.view.transaction_id(Place { height: entry.height, index: entry.index })?;
    Ok(Page { before: before.ok_or_else(|| Failure::no_transaction(&hash))?, ..page })
}

/// `{"value": private key, "hash": hex, "id": digits, "pageSize": digits}`. All but the key are texts that may be
/// absent or empty. They are erased too, as a client may put a key in the wrong field.
struct OfKey {
    key: PrivateKey,
    hash: Option<Wiped<String>>,
    id: Option<Wiped<String>>,
    size: Option<Wiped<String>>,
}

impl Readable for OfKey {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let key = PrivateKey::read(source)?;
        Ok(OfKey {
            key,
            hash: read_text(source, "hash")?,
            id: read_text(source, "id")?,
            size: read_text(source, "pageSize")?,
        })
    }
}

fn read_text<'a, S: Source<'a>>(source: &mut S, label: &'static str) -> Result<Option<Wiped<String>>, ReadError> {
    let text = source.string(label, limits::TEXT_UNITS)?.map(Cow::into_owned).map(Wiped);
    Ok(text.filter(|text| !text.is_empty()))
}
