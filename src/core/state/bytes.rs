//! Stored form of values: fields one after another, integers little-endian.

use super::expiry::ExpiryKind;
use crate::codec::ByteReader;
use crate::crypto::PublicKey;
use crate::model::address::ADDRESS_LENGTH;
use crate::model::mosaic::MAX_DIVISIBILITY;
use crate::model::transaction::LinkMode;
use crate::model::{Address, Height, Levy, LevyKind, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId};
use crate::store::{Read, Result, StoreError, Table};

/// A value with a stored form.
pub trait Stored: Sized {
    fn write(&self, out: &mut Vec<u8>);

    /// Reads the value. Returns `None` for input that was never written.
    fn read(input: &mut ByteReader<'_>) -> Option<Self>;

    /// Returns the stored form.
    fn to_stored(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Decodes a whole row. Unexpected input is [`StoreError::Damaged`] with `what`: the store holds only what was
    /// written.
    fn from_stored(row: &[u8], what: &'static str) -> Result<Self> {
        let mut input = ByteReader(row);
        Self::read(&mut input).filter(|_| input.0.is_empty()).ok_or(StoreError::Damaged(what))
    }

    /// Decodes a row that consists of such values.
    fn all_from_stored(row: &[u8], what: &'static str) -> Result<Vec<Self>> {
        Self::read_all(&mut ByteReader(row)).ok_or(StoreError::Damaged(what))
    }

    /// Reads values up to the end of a row.
    fn read_all(input: &mut ByteReader<'_>) -> Option<Vec<Self>> {
        let mut values = Vec::new();
        while !input.0.is_empty() {
            values.push(Self::read(input)?);
        }
        Some(values)
    }

    /// Reads the row with a key.
    fn get(state: &impl Read, table: Table, key: &[u8], what: &'static str) -> Result<Option<Self>> {
        state.get(table, key)?.map(|row| Self::from_stored(row, what)).transpose()
    }
}

/// Returns the stored form of a row of values.
pub fn all_to_stored(values: &[impl Stored]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| value.write(&mut out));
    out
}

/// Stores a struct as its fields in this order. A value that is not valid was never written.
macro_rules! stored {
    ($type:ident { $($field:tt),+ } $(if $is_valid:expr)?) => {
        impl crate::state::bytes::Stored for $type {
            fn write(&self, out: &mut Vec<u8>) {
                $(crate::state::bytes::Stored::write(&self.$field, out);)+
            }

            fn read(input: &mut crate::codec::ByteReader<'_>) -> Option<Self> {
                let value = $type { $($field: crate::state::bytes::Stored::read(input)?),+ };
                $(let is_valid: fn(&$type) -> bool = $is_valid;
                is_valid(&value).then_some(())?;)?
                Some(value)
            }
        }
    };
}

pub(super) use stored;

macro_rules! stored_integers {
    ($($type:ty),+) => {
        $(impl Stored for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(input: &mut ByteReader<'_>) -> Option<Self> {
                input.array().map(<$type>::from_le_bytes)
            }
        })+
    };
}

stored_integers!(u8, u32, u64, i32, i64, f64);

/// Stores a value as another one: what it is stored as, and what it is read from, if that was ever written.
macro_rules! stored_as {
    ($($type:ty as $stored:ty: $to:expr, $from:expr;)+) => {
        $(impl crate::state::bytes::Stored for $type {
            fn write(&self, out: &mut Vec<u8>) {
                let to: fn(&$type) -> $stored = $to;
                to(self).write(out);
            }

            fn read(input: &mut crate::codec::ByteReader<'_>) -> Option<Self> {
                let from: fn($stored) -> Option<$type> = $from;
                from(<$stored>::read(input)?)
            }
        })+
    };
}

pub(super) use stored_as;

stored_as! {
    bool as u8: |value| (*value).into(), |byte| Some(byte != 0);
    Address as [u8; ADDRESS_LENGTH]: |address| *address.as_bytes(), |text| Some(Address::from_stored(text));
    NamespaceId as String: NamespaceId::to_string, |text| NamespaceId::parse(&text).ok();
    MosaicId as String: MosaicId::to_string, |text| MosaicId::parse(&text).ok();
    // Their numbers on the wire.
    LevyKind as u8: |kind| kind.code() as u8, |code| LevyKind::from_code(code.into());
    LinkMode as u8: |mode| mode.code() as u8, |code| LinkMode::from_code(code.into());
    ExpiryKind as u8: |kind| kind.code() as u8, |code| ExpiryKind::from_code(code.into());
}

stored!(Height { 0 });
stored!(PublicKey { 0 });
stored!(MosaicProperties { divisibility, initial_supply, supply_mutable, transferable }
    if |properties| properties.divisibility <= MAX_DIVISIBILITY);
stored!(Levy { kind, recipient, mosaic, fee });
stored!(MosaicDefinition { creator, id, description, properties, levy });

impl<const N: usize> Stored for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(input: &mut ByteReader<'_>) -> Option<Self> {
        input.array()
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(input: &mut ByteReader<'_>) -> Option<Self> {
        if bool::read(input)? { T::read(input).map(Some) } else { Some(None) }
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(input: &mut ByteReader<'_>) -> Option<Self> {
        Some((A::read(input)?, B::read(input)?))
    }
}

impl Stored for String {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(input: &mut ByteReader<'_>) -> Option<Self> {
        std::str::from_utf8(input.sized()?).ok().map(str::to_owned)
    }
}
