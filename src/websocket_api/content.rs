//! What is published ([`Item`]), the data it is made of ([`ChainSource`]), and message bodies, created once and shared by
//! all recipients ([`Content`]).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;
use std::task::Poll;

use super::stomp::encoder::MESSAGE_END;
use super::topics::{self, OwnedKind};
use super::{BlocksNewBody, sockjs};
use crate::api::streams::{ItemSource, ResponseStream};
use crate::api::{OwnedDefinitions, OwnedMosaics, RentedNamespaces, TransactionMeta, TransactionPair, View};
use crate::budget::Budget;
use crate::codec::json::JsonEncoder;
use crate::codec::limits;
use crate::codec::text::{truncate_utf16, write_json_string};
use crate::model::{Address, Hash256, Height, MosaicId, Timestamp, Transaction};
use crate::net::{SharedBytes, SharedBytesCounter};

/// Bytes of JSON written per work unit.
const BYTES_PER_UNIT: usize = 256;

/// Something to publish: news, or the answer to a query.
#[derive(Clone, Debug)]
pub enum Item {
    /// The height of a chain update's first block on `/blocks/new`, then the block.
    Height(Height),
    /// A block on `/blocks`, then its transactions, the accounts that they affect, and what these own.
    Block(Height),
    /// As the block at the tip.
    LastBlock,
    /// The transactions of a block from an index on.
    Transactions(Height, usize),
    /// A transaction of a block, on the topics of its accounts.
    Confirmed(Rc<Transaction>, Height),
    /// A transaction of the mempool: alone on `/unconfirmed`, then on the topics of its accounts.
    Unconfirmed(Rc<Transaction>),
    /// A transaction with its metadata, on the topic of an account.
    TransactionOf(String, Rc<SharedPair>),
    /// An account, on `/account/<A>`.
    Account(Address),
    /// The newest 25 confirmed transactions, on `/recenttransactions/<A>`; then as
    /// [`UnconfirmedOf`](Self::UnconfirmedOf).
    RecentTransfers(Address),
    /// Up to 10 of the newest unconfirmed transactions that affect the address, on the topics on which they were
    /// published when they arrived.
    UnconfirmedOf(Address),
    /// One message for each item that an account owns.
    Owned(OwnedKind, Address),
    /// The local node, on `/node/info`.
    NodeInfo,
    /// What became of a transaction, on `/status/<HASH>`.
    Status(Hash256),
}

impl Item {
    /// Returns the query of a command that clients SEND to `/w/api/` below this path, with an address in its payload.
    pub fn of_command(path: &str) -> Option<fn(Address) -> Item> {
        Some(match path {
            "account/get" => Item::Account,
            "account/transfers/all" => Item::RecentTransfers,
            "account/transfers/unconfirmed" => Item::UnconfirmedOf,
            "account/mosaic/owned" => |address| Item::Owned(OwnedKind::Mosaics, address),
            "account/mosaic/owned/definition" => |address| Item::Owned(OwnedKind::Definitions, address),
            "account/namespace/owned" => |address| Item::Owned(OwnedKind::Namespaces, address),
            _ => return None,
        })
    }

    /// Returns the topic of its message; `None` if it only consists of other items.
    pub fn topic(&self) -> Option<String> {
        Some(match self {
            Item::Height(_) => "/blocks/new".to_owned(),
            Item::Block(_) => "/blocks".to_owned(),
            Item::Unconfirmed(_) => "/unconfirmed".to_owned(),
            Item::TransactionOf(topic, _) => topic.clone(),
            Item::Account(address) => format!("{}{address}", topics::ACCOUNT_OF),
            Item::RecentTransfers(address) => format!("/recenttransactions/{address}"),
            Item::Owned(kind, address) => kind.topic_of(address),
            Item::NodeInfo => "/node/info".to_owned(),
            Item::Status(hash) => topics::status_topic(hash),
            Item::LastBlock | Item::Transactions(..) | Item::Confirmed(..) | Item::UnconfirmedOf(_) => return None,
        })
    }
}

/// A transaction, its height and, once it was made, its body. It is always the outer transaction of the block or the
/// mempool, also for the accounts of an inner transaction. All accounts get the same body.
#[derive(Debug)]
pub struct SharedPair(pub Rc<Transaction>, pub Height, pub OnceCell<Content>);

impl SharedPair {
    /// Returns the body, creating it if necessary.
    pub fn content(&self, pool: &SharedBytesCounter) -> Content {
        let SharedPair(transaction, height, content) = self;
        let make = || {
            let inner_hash = transaction.inner().map(Transaction::hash);
            let meta = TransactionMeta { height: *height, id: 0, hash: transaction.hash(), inner_hash };
            Content::view(&TransactionPair { transaction, meta }, pool)
        };
        content.get_or_init(make).clone()
    }
}

/// The node's state after the last chain update.
pub trait ChainSource {
    /// Height of the tip.
    fn height(&self) -> Height;
    /// Returns the signer of the block at a height, if there is such a block.
    fn block_signer(&self, height: Height) -> Result<Option<Address>, ChainSourceError>;
    /// Returns up to `max` transactions of the block at a height, starting at index `from`; none at its end.
    fn transactions(&self, height: Height, from: usize, max: usize) -> Result<Vec<Transaction>, ChainSourceError>;
    /// Returns the JSON of a block, an account, its newest transactions, the node or a transaction's status, or of the next
    /// item that an account owns, as in the HTTP API; [`Poll::Pending`] if the budget is used up first.
    fn next_body(
        &mut self,
        item: &Item,
        progress: &mut BodyProgress,
        budget: &mut Budget,
    ) -> Result<Poll<Option<Vec<u8>>>, ChainSourceError>;
    /// Returns the recipient of a mosaic's levy, if it has one.
    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, ChainSourceError>;
    /// Returns up to `limit` unconfirmed transactions that affect an account, the newest first.
    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, ChainSourceError>;
}

/// A JSON text in progress, or the remaining items of an account.
#[derive(Default)]
pub struct BodyProgress {
    /// The text written so far.
    pub text: Vec<u8>,
    /// The rest, once it has started.
    pub rest: Option<BodyStream>,
}

/// The rest of a body.
pub enum BodyStream {
    /// Writes one text.
    Text(Box<dyn ResponseStream>),
    /// The remaining namespaces of an account.
    Namespaces(RentedNamespaces),
    /// The remaining definitions of an account's mosaics.
    Definitions(OwnedDefinitions),
    /// The remaining mosaics of an account.
    Mosaics(OwnedMosaics),
}

impl BodyProgress {
    /// Bytes of memory held, approximately.
    pub fn held_bytes(&self) -> usize {
        self.text.capacity()
            + match &self.rest {
                None | Some(BodyStream::Text(_)) => 0,
                Some(BodyStream::Namespaces(rest)) => rest.held_bytes(),
                Some(BodyStream::Definitions(rest)) => rest.held_bytes(),
                Some(BodyStream::Mosaics(rest)) => rest.held_bytes(),
            }
    }
}

/// Why the node cannot answer; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChainSourceError(pub Cow<'static, str>);

/// The body of a MESSAGE and the end of its frame.
#[derive(Clone, Debug)]
pub struct Content {
    default_body: SharedBytes,
    /// The variant for legacy clients.
    legacy_body: Option<SharedBytes>,
    /// The variant escaped for a SockJS frame, created on demand.
    escaped: Rc<OnceCell<SharedBytes>>,
    pool: SharedBytesCounter,
}

impl Content {
    /// Creates a body from the JSON text `json`.
    pub fn of(json: Vec<u8>, pool: &SharedBytesCounter) -> Content {
        Content { default_body: share(json, pool), legacy_body: None, escaped: Rc::default(), pool: pool.clone() }
    }

    /// Creates the body for a view.
    pub fn view(view: &impl View, pool: &SharedBytesCounter) -> Content {
        Content::of(JsonEncoder::document(|sink| view.write(sink)), pool)
    }

    /// Creates the body for a new height.
    pub fn height(height: Height, form: BlocksNewBody, pool: &SharedBytesCounter) -> Content {
        let object = || JsonEncoder::document(|sink| height.write(sink));
        let number = || height.0.to_string().into_bytes();
        match form {
            BlocksNewBody::Object => Content::of(object(), pool),
            BlocksNewBody::Number => Content::of(number(), pool),
            BlocksNewBody::Auto => Content { legacy_body: Some(share(number(), pool)), ..Content::of(object(), pool) },
        }
    }

    /// Creates the body for a failed query; a long text is cut.
    pub fn error(message: &str, time: Timestamp, pool: &SharedBytesCounter) -> Content {
        Content::of(error_text(message, time), pool)
    }

    /// Returns the variant for a raw websocket session.
    pub fn for_session(&self, is_legacy_client: bool) -> &SharedBytes {
        self.legacy_body.as_ref().filter(|_| is_legacy_client).unwrap_or(&self.default_body)
    }

    /// Returns the variant for a SockJS session, which is never a legacy client.
    pub fn escaped(&self) -> &SharedBytes {
        self.escaped.get_or_init(|| {
            let mut escaped = Vec::with_capacity(self.default_body.len() + self.default_body.len() / 4);
            sockjs::escape(&mut escaped, &String::from_utf8_lossy(&self.default_body));
            escaped.shrink_to_fit();
            self.pool.share(escaped)
        })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.default_body.len()
    }

    /// Work units for creating the body.
    pub fn units(&self) -> u32 {
        u32::try_from(self.default_body.len() / BYTES_PER_UNIT).unwrap_or(u32::MAX)
    }
}

fn share(mut json: Vec<u8>, pool: &SharedBytesCounter) -> SharedBytes {
    json.reserve_exact(MESSAGE_END.len());
    json.extend_from_slice(MESSAGE_END);
    json.shrink_to_fit();
    pool.share(json)
}

fn error_text(message: &str, time: Timestamp) -> Vec<u8> {
    let mut text = format!("{{\"timeStamp\":{},\"error\":\"Bad Request\",\"message\":", time.0).into_bytes();
    write_json_string(&mut text, &truncate_utf16(message, limits::MAX_TEXT_UTF16));
    text.extend_from_slice(b",\"status\":400}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_sessions_get_their_own_form_of_a_height() {
        let pool = SharedBytesCounter::default();
        for (form, usual, bare) in [
            (BlocksNewBody::Object, "{\"height\":7}\r\n\0", "{\"height\":7}\r\n\0"),
            (BlocksNewBody::Auto, "{\"height\":7}\r\n\0", "7\r\n\0"),
            (BlocksNewBody::Number, "7\r\n\0", "7\r\n\0"),
        ] {
            let content = Content::height(Height(7), form, &pool);
            assert_eq!(&content.for_session(false)[..], usual.as_bytes());
            assert_eq!(&content.for_session(true)[..], bare.as_bytes());
        }
    }

    #[test]
    fn the_body_of_an_error_is_that_of_the_example() {
        let body = error_text("address must be valid", Timestamp(367_575_434));
        let text = "{\"timeStamp\":367575434,\"error\":\"Bad Request\",\
                    \"message\":\"address must be valid\",\"status\":400}";
        assert_eq!(String::from_utf8(body).unwrap(), text);
        assert_eq!(text.len() + 2, 94);
    }

    #[test]
    fn the_text_of_an_error_is_truncated_to_128_characters() {
        let body = String::from_utf8(error_text(&"x/".repeat(99), Timestamp(0))).unwrap();
        assert!(body.contains(&format!("\"{}\"", "x\\/".repeat(64))));
    }
}
