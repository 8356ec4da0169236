//! Stored form of values: fields one after another, integers little-endian.

use super::expiry::ExpiryKind;
use crate::codec::{self, write_varint};
use crate::crypto::PublicKey;
use crate::model::transaction::LinkMode;
use crate::model::{Address, Height, Levy, LevyKind, MosaicId, MosaicProperties, NamespaceId};
use crate::store::{Read, Result, StoreError, Table};

/// A value with a stored form.
pub trait Stored: Sized {
    fn write(&self, out: &mut ByteWriter);

    fn read(input: &mut ByteReader<'_>) -> Result<Self>;

    /// Returns the stored form.
    fn to_stored(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        self.write(&mut out);
        out.0
    }

    /// Decodes a whole row. Unexpected input is [`StoreError::Damaged`] with `what`: the store holds only what was
    /// written.
    fn from_stored(bytes: &[u8], what: &'static str) -> Result<Self> {
        let mut input = ByteReader::new(bytes, what);
        let value = Self::read(&mut input)?;
        if input.is_empty() { Ok(value) } else { Err(input.damaged()) }
    }

    /// Reads the row with a key.
    fn get(state: &impl Read, table: Table, key: &[u8], what: &'static str) -> Result<Option<Self>> {
        state.get(table, key)?.map(|row| Self::from_stored(row, what)).transpose()
    }
}

/// Stores a struct as its fields in this order.
macro_rules! stored {
    ($type:ident { $($field:tt),+ }) => {
        impl crate::state::bytes::Stored for $type {
            fn write(&self, out: &mut crate::state::bytes::ByteWriter) {
                $(crate::state::bytes::Stored::write(&self.$field, out);)+
            }

            fn read(input: &mut crate::state::bytes::ByteReader<'_>) -> crate::store::Result<Self> {
                Ok($type { $($field: crate::state::bytes::Stored::read(input)?),+ })
            }
        }
    };
}

pub(super) use stored;

macro_rules! stored_integers {
    ($($type:ty),+) => {
        $(impl Stored for $type {
            fn write(&self, out: &mut ByteWriter) {
                out.array(&self.to_le_bytes());
            }

            fn read(input: &mut ByteReader<'_>) -> Result<Self> {
                Ok(<$type>::from_le_bytes(input.array()?))
            }
        })+
    };
}

stored_integers!(u8, u32, i32, u64, i64, f64);

/// Stores a value as the number that it has on the wire, in one byte.
macro_rules! stored_codes {
    ($($type:ty),+) => {
        $(impl Stored for $type {
            fn write(&self, out: &mut ByteWriter) {
                (self.code() as u8).write(out);
            }

            fn read(input: &mut ByteReader<'_>) -> Result<Self> {
                <$type>::from_code(u8::read(input)?.into()).ok_or(input.damaged())
            }
        })+
    };
}

stored_codes!(LevyKind, LinkMode, ExpiryKind);
stored!(Height { 0 });
stored!(MosaicProperties { divisibility, initial_supply, supply_mutable, transferable });
stored!(Levy { kind, recipient, mosaic, fee });

impl<const N: usize> Stored for [u8; N] {
    fn write(&self, out: &mut ByteWriter) {
        out.array(self);
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        input.array()
    }
}

stored!(PublicKey { 0 });

/// Values up to the end of a row.
impl<T: Stored> Stored for Vec<T> {
    fn write(&self, out: &mut ByteWriter) {
        self.iter().for_each(|value| value.write(out));
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        let mut values = Vec::new();
        while !input.is_empty() {
            values.push(T::read(input)?);
        }
        Ok(values)
    }
}

/// A value at the end of a row, which may be absent.
impl<T: Stored> Stored for Option<T> {
    fn write(&self, out: &mut ByteWriter) {
        self.iter().for_each(|value| value.write(out));
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        if input.is_empty() { Ok(None) } else { T::read(input).map(Some) }
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn write(&self, out: &mut ByteWriter) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        Ok((A::read(input)?, B::read(input)?))
    }
}

impl Stored for bool {
    fn write(&self, out: &mut ByteWriter) {
        u8::from(*self).write(out);
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        Ok(u8::read(input)? != 0)
    }
}

impl Stored for Address {
    fn write(&self, out: &mut ByteWriter) {
        out.array(self.as_bytes());
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        Ok(Address::from_stored(input.array()?))
    }
}

impl Stored for NamespaceId {
    fn write(&self, out: &mut ByteWriter) {
        out.text(self.as_str());
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        NamespaceId::parse(input.text()?).map_err(|_| input.damaged())
    }
}

impl Stored for MosaicId {
    fn write(&self, out: &mut ByteWriter) {
        out.text(&self.to_string());
    }

    fn read(input: &mut ByteReader<'_>) -> Result<Self> {
        MosaicId::parse(input.text()?).map_err(|_| input.damaged())
    }
}

/// Writes a stored value.
#[derive(Debug, Default)]
pub struct ByteWriter(pub Vec<u8>);

impl ByteWriter {
    /// Writes a number as a varint.
    pub fn varint(&mut self, value: u64) {
        write_varint(&mut self.0, value);
    }

    pub fn array(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        (text.len() as u32).write(self);
        self.array(text.as_bytes());
    }
}

/// Reads a stored value.
pub struct ByteReader<'a> {
    input: codec::ByteReader<'a>,
    what: &'static str,
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> ByteReader<'a> {
        ByteReader { input: codec::ByteReader(bytes), what }
    }

    /// Returns the number of bytes left.
    pub fn len(&self) -> usize {
        self.input.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.input.0.is_empty()
    }

    /// Returns the error for input that was never written.
    pub fn damaged(&self) -> StoreError {
        StoreError::Damaged(self.what)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.input.array().ok_or(self.damaged())
    }

    pub fn varint(&mut self) -> Result<u64> {
        self.input.varint().ok_or(self.damaged())
    }

    pub fn text(&mut self) -> Result<&'a str> {
        let length = u32::read(self)? as usize;
        let text = self.input.slice(length).ok_or(self.damaged())?;
        std::str::from_utf8(text).map_err(|_| self.damaged())
    }
}
