//! The binary format: encoder and decoder.

use std::borrow::Cow;

use super::text;
use super::wipe::Wipe as _;
use super::{Context, Decoder, Encoder, ReadError, Result, limits};

const NULL: i32 = -1;

/// Encodes entities as bytes.
#[derive(Default)]
pub struct BinaryEncoder {
    bytes: Vec<u8>,
    /// Offsets of the length fields of the entities being written.
    open_lengths: Vec<usize>,
    splice_points: Vec<SplicePoint>,
}

/// A list in encoded bytes whose elements are inserted later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplicePoint {
    /// Offset of the element count, which the elements follow.
    at: usize,
    /// Offsets of the length fields that include the elements.
    lengths: Vec<usize>,
}

impl SplicePoint {
    /// Returns the offset of the first element.
    pub fn start(&self) -> usize {
        self.at + 4
    }

    /// Corrects the count and the lengths in `bytes` for `elements` inserted elements of `size` bytes in total.
    pub fn fill(&self, bytes: &mut [u8], elements: usize, size: usize) {
        let mut add = |place: &usize, amount: usize| {
            if let Some(field) = bytes.get_mut(*place..).and_then(|rest| rest.first_chunk_mut::<4>()) {
                *field = i32::from_le_bytes(*field).wrapping_add(amount as i32).to_le_bytes();
            }
        };
        add(&self.at, elements);
        self.lengths.iter().for_each(|place| add(place, size));
    }

    /// Adjusts the offsets after `size` bytes were inserted at `place`.
    pub fn shift(&mut self, place: usize, size: usize) {
        for at in self.lengths.iter_mut().chain([&mut self.at]).filter(|at| **at >= place) {
            *at += size;
        }
    }
}

impl BinaryEncoder {
    /// Returns the bytes of one entity.
    pub fn document(write: impl FnOnce(&mut BinaryEncoder)) -> Vec<u8> {
        let mut sink = BinaryEncoder::default();
        write(&mut sink);
        sink.bytes
    }

    /// Appends an entity to `out`. Returns its [`Encoder::spliced_list`]s in order.
    pub fn append_to(out: &mut Vec<u8>, write: impl FnOnce(&mut BinaryEncoder)) -> Vec<SplicePoint> {
        let mut sink = BinaryEncoder { bytes: std::mem::take(out), ..BinaryEncoder::default() };
        write(&mut sink);
        *out = sink.bytes;
        sink.splice_points
    }

    /// Like [`BinaryEncoder::append_to`], with the length before the entity, as in a list.
    pub fn append_element(out: &mut Vec<u8>, write: impl FnOnce(&mut BinaryEncoder)) -> Vec<SplicePoint> {
        Self::append_to(out, |sink| sink.sized(write))
    }

    /// Bytes of the length before a list element.
    pub const LENGTH_BYTES: usize = 4;

    /// Returns the number of bytes written.
    pub fn written(&self) -> usize {
        self.bytes.len()
    }

    fn length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&(length as i32).to_le_bytes());
    }

    /// Writes an entity with its length before it.
    fn sized(&mut self, write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.length(0);
        self.open_lengths.push(start);
        write(self);
        self.open_lengths.pop();
        let length = (self.bytes.len() - start - 4) as i32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

impl Encoder for BinaryEncoder {
    fn i32(&mut self, _: &'static str, value: i32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn i64(&mut self, _: &'static str, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn f64(&mut self, label: &'static str, value: f64) {
        let canonical = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
        self.i64(label, canonical as i64);
    }

    fn bytes(&mut self, label: &'static str, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.length(bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
            None => self.i32(label, NULL),
        }
    }

    fn string(&mut self, label: &'static str, value: Option<&str>) {
        self.bytes(label, value.map(str::as_bytes));
    }

    fn object(&mut self, _: &'static str, write: impl FnOnce(&mut Self)) {
        self.sized(write);
    }

    fn null_object(&mut self, _: &'static str) {
        self.length(0);
    }

    fn list<T>(&mut self, _: &'static str, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            self.sized(|sink| write(sink, item));
        }
    }

    fn spliced_list(&mut self, _: &'static str) {
        self.splice_points.push(SplicePoint { at: self.bytes.len(), lengths: self.open_lengths.clone() });
        self.length(0);
    }
}

/// Reads fields from the start of bytes. Returns `None` if there are too few.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    /// Reads a field of `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// Reads `length` bytes.
    pub fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (slice, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(slice)
    }

    /// Reads a number that [`write_varint`] wrote.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads bytes with their length before them, as 4 little-endian bytes.
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?);
        self.slice(length as usize)
    }
}

/// Appends a number as a LEB128 varint: seven bits per byte, lowest first; the high bit marks a continuation.
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decodes entities from bytes.
pub struct BinaryDecoder<'a> {
    input: ByteReader<'a>,
    context: Context,
    depth: u32,
}

impl<'a> BinaryDecoder<'a> {
    /// Creates a source that reads from the start of `bytes`. Bytes after the entity are ignored.
    pub fn new(bytes: &'a [u8], context: Context) -> BinaryDecoder<'a> {
        BinaryDecoder { input: ByteReader(bytes), context, depth: 0 }
    }

    /// Returns the unread bytes.
    pub fn remaining(&self) -> &'a [u8] {
        self.input.0
    }

    fn take<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        match self.input.array() {
            None if !self.input.0.is_empty() => Err(ReadError::end_of_stream()),
            field => Ok(field),
        }
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8]> {
        self.input.slice(length).ok_or_else(ReadError::end_of_stream)
    }

    fn limited(&mut self, label: &'static str) -> Result<Option<&'a [u8]>> {
        let Some(length) = self.i32(label)?.filter(|length| *length != NULL) else { return Ok(None) };
        let negative = |_| ReadError::Internal(format!("property {label} has the negative length {length}"));
        let bytes = self.slice(usize::try_from(length).map_err(negative)?)?;
        Ok(Some(&bytes[..bytes.len().min(limits::MAX_BYTES)]))
    }

    /// Reads an entity of `length` bytes.
    fn nested<T>(&mut self, length: usize, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let bytes = self.slice(length).map_err(ReadError::nested)?;
        if self.depth >= limits::MAX_NESTING {
            return Err(ReadError::Serialization("entities are nested too deep".to_owned()));
        }
        let mut source = BinaryDecoder { input: ByteReader(bytes), context: self.context, depth: self.depth + 1 };
        read(&mut source).map_err(ReadError::nested)
    }
}

impl<'a> Decoder<'a> for BinaryDecoder<'a> {
    fn context(&self) -> &Context {
        &self.context
    }

    fn i32(&mut self, _: &'static str) -> Result<Option<i32>> {
        Ok(self.take()?.map(i32::from_le_bytes))
    }

    fn i64(&mut self, label: &'static str) -> Result<Option<i64>> {
        // NIS1 reads a long as two halves; if the second one is absent, the value is missing.
        if self.input.0.len() == 4 { Err(ReadError::Missing(label)) } else { Ok(self.take()?.map(i64::from_le_bytes)) }
    }

    fn bytes(&mut self, label: &'static str) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(self.limited(label)?.map(Cow::Borrowed))
    }

    fn string(&mut self, label: &'static str, units: usize) -> Result<Option<Cow<'a, str>>> {
        let Some(bytes) = self.limited(label)? else { return Ok(None) };
        Ok(Some(match text::repair_utf8(bytes) {
            Cow::Borrowed(text) => text::truncate_utf16(text, units),
            Cow::Owned(mut text) => {
                let cut = text::truncate_utf16(&text, units).into_owned();
                // The text may be a secret.
                text.wipe();
                Cow::Owned(cut)
            }
        }))
    }

    fn object<T>(&mut self, label: &'static str, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        let length = self.i32(label).map_err(ReadError::nested)?.filter(|length| *length != 0);
        let Some(length) = length else { return Ok(None) };
        let negative = |_| ReadError::Serialization(format!("property {label} has a negative length"));
        self.nested(usize::try_from(length).map_err(negative)?, read).map(Some)
    }

    fn list<T>(&mut self, label: &'static str, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Option<Vec<T>>> {
        let Some(count) = self.i32(label)?.filter(|count| *count != NULL) else { return Ok(None) };
        let count = usize::try_from(count).unwrap_or(0);
        // Limits the reservation by the input. Every element takes at least four bytes.
        let mut items = Vec::with_capacity(count.min(self.input.0.len() / 64));
        for _ in 0..count {
            match self.i32(label).map_err(ReadError::nested)? {
                None => return Err(ReadError::end_of_stream().nested()),
                Some(0) => return Err(ReadError::Internal(format!("property {label} holds a null element"))),
                Some(length) => {
                    let length = usize::try_from(length).map_err(|_| ReadError::end_of_stream().nested())?;
                    items.push(self.nested(length, &mut read)?);
                }
            }
        }
        Ok(Some(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Address, NetworkByte};

    fn source(bytes: &[u8]) -> BinaryDecoder<'_> {
        let address = Address::from_stored([b'A'; 40]);
        BinaryDecoder::new(bytes, Context { network: NetworkByte::TESTNET, nemesis_signer: address, trusted: false })
    }

    #[test]
    fn the_end_of_the_input_is_null_and_a_cut_field_is_an_error() {
        assert_eq!(source(&[]).i32("x"), Ok(None));
        assert_eq!(source(&[1, 2]).i32("x"), Err(ReadError::end_of_stream()));
        assert_eq!(source(&[1, 2, 3, 4]).i64("x"), Err(ReadError::Missing("x")));
        assert_eq!(source(&[1, 2, 3, 4, 5]).i64("x"), Err(ReadError::end_of_stream()));
    }

    #[test]
    fn a_list_with_a_negative_count_is_empty_and_minus_one_is_null() {
        let list = |bytes: &[u8]| source(bytes).list("x", |_| Ok(()));
        assert_eq!(list(&(-2i32).to_le_bytes()), Ok(Some(vec![])));
        assert_eq!(list(&(-1i32).to_le_bytes()), Ok(None));
        assert_eq!(list(&i32::MAX.to_le_bytes()), Err(ReadError::end_of_stream().nested()));
    }

    /// Objects nested in each other.
    fn nested_objects(depth: u32) -> Vec<u8> {
        let mut bytes = vec![7];
        for _ in 0..depth {
            bytes.splice(0..0, (bytes.len() as i32).to_le_bytes());
        }
        bytes
    }

    fn read_nested(source: &mut BinaryDecoder<'_>, depth: u32) -> Result<(), ReadError> {
        match depth {
            0 => Ok(()),
            _ => source.object("x", |source| read_nested(source, depth - 1)).map(drop),
        }
    }

    #[test]
    fn entities_are_nested_up_to_the_depth_limit() {
        let read = |depth| read_nested(&mut source(&nested_objects(depth)), depth);
        assert_eq!(read(limits::MAX_NESTING), Ok(()));
        let rejection = read(limits::MAX_NESTING + 1).expect_err("one entity too many");
        assert!(rejection.to_string().contains("nested too deep"), "{rejection}");
    }

    #[test]
    fn binary_values_round_trip() {
        let mut sink = BinaryEncoder::default();
        sink.i64("a", -7);
        sink.string("b", Some("é"));
        sink.bytes("c", None);
        sink.list("d", &[1, 2], |sink, item| sink.i32("e", *item));
        let bytes = sink.bytes;
        let mut source = source(&bytes);
        assert_eq!(source.i64("a"), Ok(Some(-7)));
        assert_eq!(source.string("b", 10).unwrap().unwrap(), "é");
        assert_eq!(source.bytes("c"), Ok(None));
        assert_eq!(source.list("d", |source| source.need_i32("e")), Ok(Some(vec![1, 2])));
        assert!(source.remaining().is_empty());
    }
}
