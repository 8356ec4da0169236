//! Body of an error response.

use std::borrow::Cow;

use crate::codec::limits::MAX_TEXT_UTF16;
use crate::codec::text::truncate_utf16;
use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable};
use crate::model::Timestamp;

/// Error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody<'a> {
    /// HTTP status.
    pub status: i32,
    /// Reason phrase, at most 128 UTF-16 units.
    pub error: Option<Cow<'a, str>>,
    /// Error message, at most 128 UTF-16 units.
    pub message: Option<Cow<'a, str>>,
    /// Network time of the response in seconds.
    pub timestamp: Timestamp,
}

impl<'a> ErrorBody<'a> {
    /// Message of a node that has not joined its network yet.
    pub const NOT_BOOTED: &'static str = "NIS_ILLEGAL_STATE_NOT_BOOTED";
    /// Message of a node that is told to join a network it has already joined.
    pub const ALREADY_BOOTED: &'static str = "NIS_ILLEGAL_STATE_ALREADY_BOOTED";
    /// Message of a node that is still loading its chain.
    pub const LOADING_CHAIN: &'static str = "NIS_ILLEGAL_STATE_LOADING_CHAIN";

    /// Creates the body for a status.
    pub fn new(status: u16, message: Option<&'a str>, timestamp: Timestamp) -> ErrorBody<'a> {
        ErrorBody {
            status: status.into(),
            error: reason_phrase(status).map(Cow::Borrowed),
            message: message.map(Cow::Borrowed),
            timestamp,
        }
    }

    /// Returns whether a healthy node sent it that is still starting.
    pub fn is_starting(&self) -> bool {
        self.status == 503
            && self
                .message
                .as_ref()
                .is_some_and(|text| [Self::NOT_BOOTED, Self::LOADING_CHAIN].contains(&text.as_ref()))
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

impl Writable for ErrorBody<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let cut =
            |text: &Option<Cow<'_, str>>| text.as_deref().map(|text| truncate_utf16(text, MAX_TEXT_UTF16).into_owned());
        sink.i32("status", self.status);
        sink.string("error", cut(&self.error).as_deref());
        sink.string("message", cut(&self.message).as_deref());
        sink.i32("timeStamp", self.timestamp.0);
    }
}

impl Readable for ErrorBody<'static> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let text = |text: Option<Cow<'a, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        Ok(ErrorBody {
            status: source.need_i32("status")?,
            error: text(source.string("error", MAX_TEXT_UTF16)?),
            message: text(source.string("message", MAX_TEXT_UTF16)?),
            timestamp: source.timestamp("timeStamp")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Context, Format};
    use crate::model::Network;

    #[test]
    fn a_message_is_truncated_at_128_units() {
        let long = format!("{}😀", "x".repeat(127));
        let body = ErrorBody::new(400, Some(&long), Timestamp(7));
        let text = String::from_utf8(Format::Json.to_bytes(&body)).unwrap();
        let cut = format!("{}?", "x".repeat(127));
        assert_eq!(text, format!(r#"{{"timeStamp":7,"error":"Bad Request","message":"{cut}","status":400}}"#));
    }

    #[test]
    fn a_starting_peer_is_distinguished_from_a_failing_one() {
        let context = Context::of(&Network::example());
        for (status, message, is_starting) in [
            (503, Some(ErrorBody::NOT_BOOTED), true),
            (503, Some(ErrorBody::LOADING_CHAIN), true),
            (503, Some(ErrorBody::ALREADY_BOOTED), false),
            (503, None, false),
            (500, Some(ErrorBody::NOT_BOOTED), false),
        ] {
            for format in [Format::Json, Format::Binary] {
                let body = format.to_bytes(&ErrorBody::new(status, message, Timestamp(1)));
                let read: ErrorBody<'_> = format.read(&body, context).unwrap();
                assert_eq!(read.is_starting(), is_starting, "{status} {message:?}");
            }
        }
    }
}
