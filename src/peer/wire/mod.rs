//! Peer messages in binary and JSON: plain types without sockets, clocks or state. A message is declared once, by
//! `message!` or with its own reader and writer; [`Query`] and [`Message`] are all requests, with paths and limits.

/// Declares a message: its fields in their order on the wire, each with its label, behind `object` for what has fields of
/// its own, or behind `default` for an integer that may be missing.
macro_rules! message {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$($param:ident $(= $default:ty)?),+>)? {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty = $($kind:ident)? $label:literal,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name $(<$($param $(= $default)?),+>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $(<$($param: Writable),+>)? Writable for $name $(<$($param),+>)? {
            fn write(&self, sink: &mut impl Encoder) {
                $(field!(write $($kind)? $label, &self.$field, sink);)*
            }
        }

        impl $(<$($param: Readable),+>)? Readable for $name $(<$($param),+>)? {
            fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
                Ok($name { $($field: field!(read $($kind)? $label, $type, source)?,)* })
            }
        }
    };
}

/// Writes or reads a field of a message.
macro_rules! field {
    (write object $label:literal, $value:expr, $sink:ident) => {
        $sink.object($label, |sink| $value.write(sink))
    };
    (write $(default)? $label:literal, $value:expr, $sink:ident) => {
        WriteField::write_field($value, $label, $sink)
    };
    (read object $label:literal, $type:ty, $source:ident) => {
        $source.need_object($label, <$type>::read)
    };
    (read default $label:literal, $type:ty, $source:ident) => {
        $source.i32($label).map(Option::unwrap_or_default)
    };
    (read $label:literal, $type:ty, $source:ident) => {
        <$type>::read_field($label, $source)
    };
}

mod chain;
mod node;
mod request;

pub use chain::*;
pub use node::*;
pub use request::*;

use crate::codec::limits::MAX_TEXT_UTF16;
use crate::codec::text::truncate_utf16;
use crate::codec::{Decoder, Encoder, ReadError, Writable};
use crate::crypto::{PublicKey, Signature};
use crate::model::{Height, Timestamp};

/// A field that is written under its label.
trait WriteField {
    fn write_field(&self, label: &'static str, sink: &mut impl Encoder);
}

/// A required field that is read under its label.
trait ReadField: Sized {
    fn read_field<'a, S: Decoder<'a>>(label: &'static str, source: &mut S) -> Result<Self, ReadError>;
}

impl<T: Writable> WriteField for Vec<T> {
    fn write_field(&self, label: &'static str, sink: &mut impl Encoder) {
        sink.list(label, self, |sink, item| item.write(sink));
    }
}

/// How values that are no entities are written and read under their label.
macro_rules! fields {
    ($($type:ty: |$value:ident, $write_label:ident, $sink:ident| $write:expr, |$read_label:ident, $source:ident| $read:expr;)*) => {
        $(
            impl WriteField for $type {
                fn write_field(&self, $write_label: &'static str, $sink: &mut impl Encoder) {
                    let $value = self;
                    $write
                }
            }

            impl ReadField for $type {
                fn read_field<'a, S: Decoder<'a>>($read_label: &'static str, $source: &mut S) -> Result<Self, ReadError> {
                    $read
                }
            }
        )*
    };
}

fields! {
    i32: |value, label, sink| sink.i32(label, *value), |label, source| source.need_i32(label);
    i64: |value, label, sink| sink.i64(label, *value), |label, source| source.need_i64(label);
    Timestamp: |value, label, sink| sink.i32(label, value.0), |label, source| source.timestamp(label);
    PublicKey: |value, label, sink| sink.bytes(label, Some(&value.0)), |label, source| source.public_key(label);
    Signature: |value, label, sink| sink.bytes(label, Some(&value.0)), |label, source| source.signature(label);
    Height: |value, label, sink| sink.u64(label, value.0), |label, source| source.height(label);
    Version:
        |value, label, sink| sink.string(label, Some(&truncate_utf16(&value.to_string(), MAX_TEXT_UTF16))),
        |label, source| source.need_string(label, MAX_TEXT_UTF16)?.parse();
    // A message ends where a number is missing, so only its last fields are of this type.
    Option<i32>:
        |value, label, sink| value.iter().for_each(|number| sink.i32(label, *number)),
        |label, source| source.i32(label);
    Option<String>:
        |value, label, sink| sink.string(label, value.as_deref().map(|text| truncate_utf16(text, MAX_TEXT_UTF16)).as_deref()),
        |label, source| Ok(source.string(label, MAX_TEXT_UTF16)?.map(|text| text.into_owned()));
}
