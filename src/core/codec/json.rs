//! The JSON format: encoder and decoder.

use std::borrow::Cow;

use super::lenient_json::Value;
use super::text;
use super::wipe::Wipe as _;
use super::{Context, Decoder, Encoder, ReadError, Result, SPLICE_BYTE, limits};
use crate::crypto::keys::decode_hex_into;

/// Writes an entity as a JSON object. Members are in the order of NIS1's hash table.
#[derive(Default)]
pub struct JsonEncoder {
    out: Vec<u8>,
    /// Members of the objects under construction; those of the innermost object are last.
    members: Vec<Member>,
    /// The buffer that is not written to. An object writes its members to the one that its parent does not use, and is
    /// then arranged, in its final order, into the one of its parent.
    other: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Member {
    bucket: u8,
    start: usize,
    end: usize,
}

/// Returns the bucket of a name in NIS1's hash table: one of sixteen, as no object has more than twelve members.
const fn bucket(name: &str) -> u8 {
    let bytes = name.as_bytes();
    let mut hash = 0u32;
    let mut index = 0;
    while index < bytes.len() {
        hash = hash.wrapping_mul(31).wrapping_add(bytes[index] as u32);
        index += 1;
    }
    ((hash ^ (hash >> 16)) & 15) as u8
}

impl JsonEncoder {
    /// Returns the JSON text of one entity.
    pub fn document(write: impl FnOnce(&mut JsonEncoder)) -> Vec<u8> {
        let mut sink = JsonEncoder::default();
        sink.entity(write);
        sink.out
    }

    /// Writes one entity.
    pub fn entity(&mut self, write: impl FnOnce(&mut JsonEncoder)) {
        std::mem::swap(&mut self.out, &mut self.other);
        let (start, first) = (self.out.len(), self.members.len());
        write(self);
        std::mem::swap(&mut self.out, &mut self.other);
        self.arrange(first);
        self.other.truncate(start);
    }

    /// Appends one entity to `out`, reusing this sink's buffers. The output of the sink itself does not change.
    pub fn append_to(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut JsonEncoder)) {
        std::mem::swap(&mut self.out, out);
        self.entity(write);
        std::mem::swap(&mut self.out, out);
    }

    /// Reserves memory, so that the buffers do not move for the next `bytes` bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
        self.other.reserve(bytes);
    }

    /// Wipes the output.
    pub fn wipe(&mut self) {
        self.out.wipe();
        self.other.wipe();
    }

    /// Writes the members of the present object, from number `first` on, in their final order.
    fn arrange(&mut self, first: usize) {
        let members = &mut self.members[first..];
        members.sort_by_key(|member| member.bucket);
        self.out.push(b'{');
        for (position, member) in members.iter().enumerate() {
            if position > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(&self.other[member.start..member.end]);
        }
        self.out.push(b'}');
        self.members.truncate(first);
    }

    fn member(&mut self, label: &'static str, write: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        self.out.push(b'"');
        self.out.extend_from_slice(label.as_bytes());
        self.out.extend_from_slice(b"\":");
        write(self);
        let end = self.out.len();
        self.members.push(Member { bucket: bucket(label), start, end });
    }

    fn literal(&mut self, label: &'static str, text: &[u8]) {
        self.member(label, |sink| sink.out.extend_from_slice(text));
    }
}

/// The two hex digits of each byte. Most of a response is hex, and with these it costs a third less than with a crate.
const HEX_PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

impl Encoder for JsonEncoder {
    fn i32(&mut self, label: &'static str, value: i32) {
        self.i64(label, i64::from(value));
    }

    fn i64(&mut self, label: &'static str, value: i64) {
        self.member(label, |sink| text::write_integer(&mut sink.out, value));
    }

    fn boolean(&mut self, label: &'static str, value: bool) {
        self.literal(label, if value { b"true" } else { b"false" });
    }

    fn f64(&mut self, label: &'static str, value: f64) {
        self.member(label, |sink| text::write_json_double(&mut sink.out, value));
    }

    fn bytes(&mut self, label: &'static str, value: Option<&[u8]>) {
        let Some(bytes) = value else { return self.literal(label, b"null") };
        self.member(label, |sink| {
            sink.out.push(b'"');
            let start = sink.out.len();
            sink.out.resize(start + 2 * bytes.len(), 0);
            for (byte, digits) in bytes.iter().zip(sink.out[start..].chunks_exact_mut(2)) {
                digits.copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
            }
            sink.out.push(b'"');
        });
    }

    fn string(&mut self, label: &'static str, value: Option<&str>) {
        match value {
            Some(value) => self.member(label, |sink| text::write_json_string(&mut sink.out, value)),
            None => self.literal(label, b"null"),
        }
    }

    fn object(&mut self, label: &'static str, write: impl FnOnce(&mut Self)) {
        self.member(label, |sink| sink.entity(write));
    }

    fn null_object(&mut self, label: &'static str) {
        self.literal(label, b"{}");
    }

    fn list<T>(&mut self, label: &'static str, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.member(label, |sink| {
            sink.out.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    sink.out.push(b',');
                }
                sink.entity(|sink| write(sink, item));
            }
            sink.out.push(b']');
        });
    }

    fn spliced_list(&mut self, label: &'static str) {
        self.literal(label, &[b'[', SPLICE_BYTE, b']']);
    }
}

/// Reads an entity from a parsed JSON object.
pub struct JsonDecoder<'a> {
    members: &'a [(String, Value)],
    context: Context,
    depth: u32,
    order: Option<std::slice::Iter<'a, Value>>,
}

/// Name of the member that requires an order of the others.
const ORDER_MEMBER: &str = "_propertyOrderArray";

impl<'a> JsonDecoder<'a> {
    /// Creates a source of an object. Fails with [`ReadError::Argument`] if the value is not an object.
    pub fn new(value: &'a Value, context: Context) -> Result<JsonDecoder<'a>> {
        match value {
            Value::Object(members) => Ok(JsonDecoder::of(members, context, 0)),
            _ => Err(ReadError::argument("JSON Object was expected")),
        }
    }

    fn of(members: &'a [(String, Value)], context: Context, depth: u32) -> JsonDecoder<'a> {
        let mut source = JsonDecoder { members, context, depth, order: None };
        if let Some(Value::Array(order)) = source.find(ORDER_MEMBER) {
            source.order = Some(order.iter());
        }
        source
    }

    fn find(&self, label: &str) -> Option<&'a Value> {
        let found = self.members.iter().rev().find(|(name, _)| name == label);
        found.map(|(_, value)| value).filter(|value| !matches!(value, Value::Null))
    }

    /// Returns the value of the member that is read next, or `None` if it is absent or null.
    fn next(&mut self, label: &'static str) -> Result<Option<&'a Value>> {
        if let Some(order) = &mut self.order {
            let expected = match order.next() {
                Some(Value::String(name)) => name.as_str(),
                _ => "null",
            };
            if expected != label {
                let text = format!("expected property '{expected}' but request was for property '{label}'");
                return Err(ReadError::Argument(text));
            }
        }
        Ok(self.find(label))
    }

    fn text(&mut self, label: &'static str) -> Result<Option<&'a str>> {
        match self.next(label)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong_type(label)),
        }
    }

    fn nested<T>(&self, members: &'a [(String, Value)], read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= limits::MAX_NESTING {
            return Err(ReadError::Serialization("entities are nested too deep".to_owned()));
        }
        read(&mut JsonDecoder::of(members, self.context, self.depth + 1))
    }
}

fn wrong_type(label: &str) -> ReadError {
    ReadError::Internal(format!("property {label} has another JSON type"))
}

impl<'a> Decoder<'a> for JsonDecoder<'a> {
    fn context(&self) -> &Context {
        &self.context
    }

    fn i32(&mut self, label: &'static str) -> Result<Option<i32>> {
        // As in NIS1, larger numbers are truncated to the lower 32 bits.
        Ok(self.i64(label)?.map(|value| value as i32))
    }

    fn i64(&mut self, label: &'static str) -> Result<Option<i64>> {
        match self.next(label)? {
            None => Ok(None),
            Some(Value::Integer(value)) => Ok(Some(*value)),
            Some(_) => Err(ReadError::Incompatible(label)),
        }
    }

    fn bytes(&mut self, label: &'static str) -> Result<Option<Cow<'a, [u8]>>> {
        let Some(text) = self.text(label)? else { return Ok(None) };
        let mut bytes = Vec::new();
        if let Err(error) = decode_hex_into(text, &mut bytes) {
            // The bytes may be part of a secret.
            bytes.wipe();
            return Err(ReadError::argument(format!("org.apache.commons.codec.DecoderException: {error}")));
        }
        bytes.truncate(limits::MAX_BYTES);
        Ok(Some(Cow::Owned(bytes)))
    }

    fn string(&mut self, label: &'static str, units: usize) -> Result<Option<Cow<'a, str>>> {
        Ok(self.text(label)?.map(|text| text::truncate_utf16(text, units)))
    }

    fn object<T>(&mut self, label: &'static str, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        match self.next(label)? {
            None => Ok(None),
            Some(Value::Object(members)) if members.is_empty() => Ok(None),
            Some(Value::Object(members)) => self.nested(members, read).map(Some),
            Some(_) => Err(wrong_type(label)),
        }
    }

    fn list<T>(&mut self, label: &'static str, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Option<Vec<T>>> {
        match self.next(label)? {
            None => Ok(None),
            Some(Value::Array(values)) => {
                let elements = values.iter().map(|value| match value {
                    Value::Object(members) if !members.is_empty() => self.nested(members, &mut read),
                    Value::Object(_) => Err(ReadError::Internal(format!("property {label} holds a null element"))),
                    _ => Err(wrong_type(label)),
                });
                elements.collect::<Result<Vec<T>>>().map(Some)
            }
            Some(_) => Err(wrong_type(label)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_written_in_hash_table_order() {
        let text = JsonEncoder::document(|sink| {
            sink.i32("status", 400);
            sink.string("error", Some("Bad Request"));
            sink.string("message", None);
            sink.i32("timeStamp", 7);
        });
        let expected = r#"{"timeStamp":7,"error":"Bad Request","message":null,"status":400}"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn nested_objects_lists_and_bytes_are_written() {
        let text = JsonEncoder::document(|sink| {
            sink.list("data", &[1, 2], |sink, item| sink.i32("id", *item));
            sink.null_object("message");
            sink.hash("hash", &[0xab, 0x01]);
            sink.object("flags", |sink| {
                sink.boolean("a", true);
                sink.boolean("b", false);
            });
        });
        let expected =
            r#"{"data":[{"id":1},{"id":2}],"flags":{"a":true,"b":false},"message":{},"hash":{"data":"ab01"}}"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
