//! Encoding of stored values: fields one after another, integers little-endian.

use crate::model::{Address, address::ADDRESS_LENGTH};
use crate::store::StoreError;

/// Writes a stored value.
#[derive(Debug, Default)]
pub struct ByteWriter(pub Vec<u8>);

impl ByteWriter {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a number as a LEB128 varint: seven bits per byte, lowest first; the high bit marks a continuation.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    pub fn array(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.array(text.as_bytes());
    }
}

/// Reads a stored value. Unexpected input is [`StoreError::Damaged`]: the store holds only what [`ByteWriter`] wrote.
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> ByteReader<'a> {
        ByteReader { bytes, what }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(StoreError::Damaged(self.what))?;
        self.bytes = rest;
        Ok(*array)
    }

    pub fn u8(&mut self) -> Result<u8, StoreError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32, StoreError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, StoreError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn varint(&mut self) -> Result<u64, StoreError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(StoreError::Damaged(self.what))
    }

    pub fn address(&mut self) -> Result<Address, StoreError> {
        Ok(Address::from_stored(self.array::<ADDRESS_LENGTH>()?))
    }

    pub fn text(&mut self) -> Result<&'a str, StoreError> {
        let length = self.u32()? as usize;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(StoreError::Damaged(self.what))?;
        self.bytes = rest;
        std::str::from_utf8(text).map_err(|_| StoreError::Damaged(self.what))
    }
}
