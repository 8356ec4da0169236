//! Objects of the interface, written in either format. The push room writes the bodies of its messages with them too.

mod account;
mod mosaic;
mod node;
mod transaction;

pub use account::{AccountInfo, AccountMeta, AccountPair, AccountWithGap, MultisigInfo, RemoteStatus, UnlockedInfo};
pub use mosaic::{DefinitionAndSupply, MosaicSupply, Namespace, Numbered};
pub use node::{ClockState, ExtendedInfo, NetworkTime, NodeClock, NodeDescription, NodeStatus};
pub use transaction::{AnnounceResult, BlockWithGap, TransactionMeta, TransactionPair, Unconfirmed};

use crate::codec::text::cut_units;
use crate::codec::{Sink, limits};
use crate::model::{Height, Timestamp};

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
    fn a_message_is_cut_at_128_units() {
        let long = format!("{}😀", "x".repeat(127));
        let object = ErrorObject { status: 400, message: Some(&long), timestamp: Timestamp(7) };
        let text = String::from_utf8(JsonSink::document(|sink| object.write(sink))).unwrap();
        let cut = format!("{}?", "x".repeat(127));
        assert_eq!(text, format!(r#"{{"timeStamp":7,"error":"Bad Request","message":"{cut}","status":400}}"#));
    }
}
