//! Message bodies, created once and shared by all recipients.

use std::cell::OnceCell;
use std::rc::Rc;

use super::BlocksNewBody;
use super::sockjs::frame;
use super::stomp::encoder::MESSAGE_END;
use crate::api::views::View;
use crate::codec::json::JsonEncoder;
use crate::codec::limits;
use crate::codec::text::{truncate_utf16, write_json_string};
use crate::model::{Height, Timestamp};
use crate::net::{SharedBytes, SharedBytesCounter};

/// Bytes of JSON written per work unit.
const BYTES_PER_UNIT: usize = 256;

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

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.default_body.len()
    }

    /// Returns the variant for a SockJS session, which is never a legacy client.
    pub fn escaped(&self) -> &SharedBytes {
        self.escaped.get_or_init(|| {
            let mut escaped = Vec::with_capacity(self.default_body.len() + self.default_body.len() / 4);
            frame::escape(&mut escaped, &String::from_utf8_lossy(&self.default_body));
            escaped.shrink_to_fit();
            self.pool.share(escaped)
        })
    }

    /// Work units for creating the body.
    pub fn units(&self) -> u32 {
        units_of(self.default_body.len())
    }
}

/// Work units for writing this many bytes of JSON.
fn units_of(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_UNIT).unwrap_or(u32::MAX)
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
