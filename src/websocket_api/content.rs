//! What is published: each [`Item`] with its topic, the request that asks for it, and its messages; and message bodies,
//! created once and shared by all recipients ([`Content`]).

use std::cell::OnceCell;
use std::rc::Rc;

use super::sockjs;
use super::stomp::encoder::MESSAGE_END;
use super::topics;
use crate::api::streams::ResponseStream;
use crate::api::{
    ALL_TRANSFERS, AccountBody, AccountSearch, ApiError, BlockBody, DefinitionAndSupply, NodeContext, Page,
    TransactionPair, TransactionStatus, View, definitions_owned_by, mosaics_owned_by, namespaces_rented_by, supply_of,
    transfer_page,
};
use crate::codec::json::JsonEncoder;

use crate::model::{Address, Hash256, Height, Timestamp, Transaction};
use crate::net::{SharedBytes, SharedBytesCounter};
use crate::peer::wire::ErrorBody;

/// Bytes of JSON written per work unit.
const BYTES_PER_UNIT: usize = 256;
/// Maximum number of unconfirmed transactions in one answer.
const MAX_UNCONFIRMED_IN_ANSWER: usize = 10;
/// Length of the list of an account's newest transactions.
const RECENT_TRANSFERS: usize = 25;
/// Maximum number of rents examined for the namespaces of an account.
const MAX_RENTS: usize = 1_000;

/// A topic of which each account has its own, and which clients can ask for. In the order of publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountTopic {
    /// The account.
    Account,
    /// Each namespace of the account.
    Namespaces,
    /// Each definition of the account's mosaics and of the mosaics in which their levies are paid.
    Definitions,
    /// Each balance of a mosaic.
    Mosaics,
    /// The newest 25 confirmed transactions.
    RecentTransfers,
}

/// The topics of accounts in their order, each with the command below `/w/api/` that asks for it, the path to which the
/// address is appended, and the route of the HTTP interface that reads the same rows of the store.
const ACCOUNT_TOPICS: [(AccountTopic, &str, &str, &str); 5] = {
    use AccountTopic::{Account, Definitions, Mosaics, Namespaces, RecentTransfers};
    const DEFINITIONS: &str = "account/mosaic/owned/definition";
    [
        (Account, "account/get", topics::ACCOUNT_OF, "account/get"),
        (Namespaces, "account/namespace/owned", "/account/namespace/owned/", "account/namespace/page"),
        (Definitions, DEFINITIONS, "/account/mosaic/owned/definition/", DEFINITIONS),
        (Mosaics, "account/mosaic/owned", "/account/mosaic/owned/", "account/mosaic/owned"),
        (RecentTransfers, "account/transfers/all", "/recenttransactions/", "account/transfers/all"),
    ]
};

impl AccountTopic {
    /// Returns the topic that clients ask for by a command below `/w/api/`.
    pub fn of_command(command: &str) -> Option<AccountTopic> {
        ACCOUNT_TOPICS.iter().find(|(_, known, ..)| *known == command).map(|(topic, ..)| *topic)
    }

    /// Returns the path, to which the address is appended.
    pub fn path(self) -> &'static str {
        ACCOUNT_TOPICS[self as usize].2
    }

    /// Returns the topic of an account.
    pub fn of(self, account: &Address) -> String {
        format!("{}{account}", self.path())
    }

    /// Starts the messages about an account.
    fn open(self, account: Address, node: &mut NodeContext<'_>) -> Result<Box<dyn ResponseStream>, ApiError> {
        Ok(match self {
            AccountTopic::Account => Box::new(AccountBody::new(node, account)?.into_stream()),
            AccountTopic::Namespaces => {
                Box::new(namespaces_rented_by(&node.chain, account, None, MAX_RENTS, true)?.separately())
            }
            AccountTopic::Definitions => Box::new(
                definitions_owned_by(vec![account], |step, definition| {
                    let supply = supply_of(&step.node.chain, &definition.id)?.unwrap_or(0);
                    step.push(&DefinitionAndSupply { definition: &definition, supply, expiration: None });
                    Ok(())
                })
                .separately(),
            ),
            AccountTopic::Mosaics => Box::new(mosaics_owned_by(account).separately()),
            AccountTopic::RecentTransfers => {
                let page = Page { before: u64::MAX, size: RECENT_TRANSFERS };
                Box::new(transfer_page(account, ALL_TRANSFERS, page, None))
            }
        })
    }
}

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
    /// What a topic of an account tells; after its newest transactions those of [`UnconfirmedOf`](Self::UnconfirmedOf).
    OfAccount(AccountTopic, Address),
    /// The search for up to 10 of the newest unconfirmed transactions that affect an account; they are published on the topics
    /// on which they were published when they arrived.
    UnconfirmedOf(Box<AccountSearch>),
    /// The local node, on `/node/info`.
    NodeInfo,
    /// What became of a transaction, on `/status/<HASH>`.
    Status(Hash256),
}

/// The messages of an item.
pub enum Messages {
    /// One message.
    One(Content),
    /// A message that is written in steps; or several, with [`Progress::Streaming`](crate::net::service::Progress) after each.
    Stream(Box<dyn ResponseStream>),
}

impl Item {
    /// Creates [`UnconfirmedOf`](Self::UnconfirmedOf) an account.
    pub fn unconfirmed_of(account: Address) -> Item {
        Item::UnconfirmedOf(Box::new(AccountSearch::new(account, MAX_UNCONFIRMED_IN_ANSWER)))
    }

    /// Returns the topic of its messages; `None` if it only consists of other items.
    pub fn topic(&self) -> Option<String> {
        Some(match self {
            Item::Height(_) => "/blocks/new".to_owned(),
            Item::Block(_) => "/blocks".to_owned(),
            Item::Unconfirmed(_) => "/unconfirmed".to_owned(),
            Item::TransactionOf(topic, _) => topic.clone(),
            Item::OfAccount(topic, address) => topic.of(address),
            Item::NodeInfo => "/node/info".to_owned(),
            Item::Status(hash) => topics::status_topic(hash),
            _ => return None,
        })
    }

    /// Returns the request of the HTTP interface that reads the same rows of the store, unless they are surely in memory.
    pub fn request(&self) -> Option<String> {
        let path = match self {
            Item::OfAccount(topic, address) => format!("{}?address={address}", ACCOUNT_TOPICS[*topic as usize].3),
            Item::Status(hash) => format!("transaction/status?hash={hash}"),
            _ => return None,
        };
        Some(format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Starts its messages.
    pub fn open(&self, node: &mut NodeContext<'_>, pool: &SharedBytesCounter) -> Result<Messages, ApiError> {
        Ok(Messages::One(match self {
            Item::Height(height) => Content::height(*height, pool),
            Item::Unconfirmed(transaction) => Content::view(&**transaction, pool),
            Item::TransactionOf(_, pair) => pair.content(pool),
            Item::NodeInfo => {
                node.require_joined()?;
                Content::view(&node.info, pool)
            }
            Item::Status(hash) => Content::view(&TransactionStatus::look_up(*hash, node)?, pool),
            Item::OfAccount(topic, address) => return topic.open(*address, node).map(Messages::Stream),
            Item::Block(height) => return Ok(Messages::Stream(Box::new(BlockBody::new(*height).into_stream()))),
            _ => return Err(ApiError::internal("no message")),
        }))
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
        let make = || Content::view(&TransactionPair::new(transaction, *height, 0, transaction.hash()), pool);
        content.get_or_init(make).clone()
    }
}

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

    /// Creates the body for a new height: `{"height":N}`, or the number `N` for a legacy client.
    pub fn height(height: Height, pool: &SharedBytesCounter) -> Content {
        let number = height.0.to_string().into_bytes();
        Content { legacy_body: Some(share(number, pool)), ..Content::view(&height, pool) }
    }

    /// Creates the body for a failed query; a long text is cut.
    pub fn error(message: &str, time: Timestamp, pool: &SharedBytesCounter) -> Content {
        Content::view(&ErrorBody::new(400, Some(message), time), pool)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_sessions_get_their_own_form_of_a_height() {
        let pool = SharedBytesCounter::default();
        let content = Content::height(Height(7), &pool);
        assert_eq!(&content.for_session(false)[..], b"{\"height\":7}\r\n\0");
        assert_eq!(&content.for_session(true)[..], b"7\r\n\0");
    }

    fn error_text(message: &str, time: Timestamp) -> String {
        let content = Content::error(message, time, &SharedBytesCounter::default());
        String::from_utf8(content.default_body.to_vec()).unwrap()
    }

    #[test]
    fn the_body_of_an_error_is_that_of_the_example() {
        let body = error_text("address must be valid", Timestamp(367_575_434));
        let text = "{\"timeStamp\":367575434,\"error\":\"Bad Request\",\
                    \"message\":\"address must be valid\",\"status\":400}\r\n\0";
        assert_eq!((body.as_str(), body.len()), (text, 94 + 1));
    }

    #[test]
    fn the_text_of_an_error_is_truncated_to_128_characters() {
        let body = error_text(&"x/".repeat(99), Timestamp(0));
        assert!(body.contains(&format!("\"{}\"", "x\\/".repeat(64))));
    }
}
