//! Objects of the interface, written in either format. The push room writes the bodies of its messages with them too.

mod account;
mod explorer;
mod history;
mod mosaic;
mod node;
mod transaction;

pub use account::{
    AccountInfo, AccountMeta, AccountPair, AccountWithGap, MetaWithGap, MultisigInfo, RemoteStatus, UnlockedInfo,
};
pub use explorer::{ExplorerEntry, ExplorerWithGaps};
pub use history::{HarvestInfo, HistoryPoint, ImportanceEntry};
pub use mosaic::{
    DefinitionAndSupply, ExpiredBalance, ExpiredWithGap, ExpiringDefinition, MosaicSupply, Namespace, Numbered,
};
pub use node::{
    AuditedRequests, ClockState, Endpoint, Experiences, ExtendedInfo, NetworkTime, NodeClock, NodeDescription,
    NodeLists, NodeStatus,
};
pub use transaction::{AnnounceResult, BlockWithGap, TransactionMeta, TransactionPair, Unconfirmed};

use crate::codec::text::cut_units;
use crate::codec::{Sink, limits};
use crate::crypto::{PublicKey, Signature};
use crate::model::{Address, Height, Timestamp};

/// Something the interface shows. Fields are written in definition order.
pub trait View {
    /// Writes the fields.
    fn write(&self, sink: &mut impl Sink);
}

/// `{"height": n}`.
impl View for Height {
    fn write(&self, sink: &mut impl Sink) {
        sink.u64("height", self.0);
    }
}

/// The answer of a check or an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// What kind of answer it is.
    pub kind: ResultKind,
    /// Its meaning depends on the kind.
    pub code: i32,
    /// A text for people.
    pub message: &'static str,
}

/// Kinds of [`RequestResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// 1: result of validation.
    Validation,
    /// 2: a sign of life.
    Heartbeat,
    /// 4: how far the node is.
    Status,
}

impl View for RequestResult {
    fn write(&self, sink: &mut impl Sink) {
        let kind = match self.kind {
            ResultKind::Validation => 1,
            ResultKind::Heartbeat => 2,
            ResultKind::Status => 4,
        };
        sink.i32("type", kind);
        sink.i32("code", self.code);
        sink.string("message", Some(self.message));
    }
}

/// `{"data": hex}`.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a>(pub &'a [u8]);

impl View for Data<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.bytes("data", Some(self.0));
    }
}

/// `{"score": hex}`: a number that is never negative, as NIS1 writes those of any size.
#[derive(Clone, Copy, Debug)]
pub struct Score(pub i128);

impl View for Score {
    fn write(&self, sink: &mut impl Sink) {
        let bytes = self.0.to_be_bytes();
        // As few bytes as show that it is not negative.
        let first = bytes.windows(2).position(|pair| pair[0] != 0 || pair[1] & 0x80 != 0);
        sink.bytes("score", bytes.get(first.unwrap_or(bytes.len() - 1)..));
    }
}

/// `{"data": []}`.
#[derive(Clone, Copy, Debug)]
pub struct NoData;

impl View for NoData {
    fn write(&self, sink: &mut impl Sink) {
        sink.list::<()>("data", &[], |_, ()| {});
    }
}

/// The answer to a challenge of another node, which proves by whom it is.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a, V>(pub &'a V, pub Signature);

impl<V: View> View for Signed<'_, V> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("entity", |sink| self.0.write(sink));
        sink.bytes("signature", Some(&self.1.0));
    }
}

/// A new key pair.
pub struct NewKey<'a> {
    /// The private key as NIS1 prints it.
    pub private_key: &'a str,
    /// Its public key.
    pub public_key: PublicKey,
    /// Its address.
    pub address: Address,
}

impl View for NewKey<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.string("privateKey", Some(self.private_key));
        sink.string("publicKey", Some(&self.public_key.to_string()));
        sink.string("address", Some(self.address.as_str()));
    }
}

/// `{"data": [...]}`, with a [`Sink::gap`] for what is listed.
#[derive(Clone, Copy, Debug)]
pub struct DataGap;

impl View for DataGap {
    fn write(&self, sink: &mut impl Sink) {
        sink.gap("data");
    }
}

/// The object that tells a client of a failure.
#[derive(Clone, Copy, Debug)]
pub struct ErrorObject<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Cut to [`limits::TEXT_UNITS`] when written.
    pub message: Option<&'a str>,
    /// Network time at which it was made.
    pub timestamp: Timestamp,
}

impl View for ErrorObject<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let message = self.message.map(|text| cut_units(text, limits::TEXT_UNITS));
        sink.i32("status", self.status.into());
        sink.string("error", reason_phrase(self.status));
        sink.string("message", message.as_deref());
        sink.i32("timeStamp", self.timestamp.0);
    }
}

fn reason_phrase(status: u16) -> Option<&'static str> {
    Some(match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        406 => "Not Acceptable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::json::JsonSink;

    #[test]
    fn a_score_has_as_few_bytes_as_show_that_it_is_not_negative() {
        for (score, text) in
            [(0, "00"), (127, "7f"), (128, "0080"), (255, "00ff"), (0x7fff, "7fff"), (0x8000, "008000")]
        {
            let written = JsonSink::document(|sink| Score(score).write(sink));
            assert_eq!(String::from_utf8(written).unwrap(), format!("{{\"score\":\"{text}\"}}"));
        }
    }

    #[test]
    fn a_message_is_cut_at_128_units() {
        let long = format!("{}😀", "x".repeat(127));
        let object = ErrorObject { status: 400, message: Some(&long), timestamp: Timestamp(7) };
        let text = String::from_utf8(JsonSink::document(|sink| object.write(sink))).unwrap();
        let cut = format!("{}?", "x".repeat(127));
        assert_eq!(text, format!(r#"{{"timeStamp":7,"error":"Bad Request","message":"{cut}","status":400}}"#));
    }
}
