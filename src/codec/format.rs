//! The two formats, and the traits of entities that can be read or written in both.

use super::binary::{BinaryDecoder, BinaryEncoder};
use super::decoder::{Context, Decoder, ReadError};
use super::encoder::Encoder;
use super::json::{JsonDecoder, JsonEncoder};
use super::lenient_json;
use super::wipe::Wiped;

/// An encoding of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/binary`.
    Binary,
}

/// An entity that can be read in both formats.
///
/// It may hold a private key. The input is wiped; an implementation has to keep its own copies in [`Wiped`] or the like
/// while it reads.
pub trait Readable: Sized {
    /// Reads the fields in definition order.
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError>;
}

/// An entity that can be written in both formats.
pub trait Writable {
    /// Writes the fields in definition order.
    fn write(&self, sink: &mut impl Encoder);
}

impl<T: Writable> Writable for &T {
    fn write(&self, sink: &mut impl Encoder) {
        (*self).write(sink);
    }
}

impl Format {
    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Binary => "application/binary",
        }
    }

    /// Encodes an entity.
    pub fn to_bytes(self, entity: &impl Writable) -> Vec<u8> {
        match self {
            Format::Json => JsonEncoder::document(|sink| entity.write(sink)),
            Format::Binary => {
                let mut sink = BinaryEncoder::default();
                entity.write(&mut sink);
                sink.into_bytes()
            }
        }
    }

    /// Reads an entity from the start of a body. The rest of the body is ignored. The caller limits its length.
    pub fn read<T: Readable>(self, body: &[u8], context: Context) -> Result<T, ReadError> {
        match self {
            Format::Json => T::read(&mut JsonDecoder::new(&*parse(body)?, context)?),
            Format::Binary => T::read(&mut BinaryDecoder::new(body, context)),
        }
    }
}

/// Parses a body as JSON. The value is wiped when it is dropped.
pub fn parse(body: &[u8]) -> Result<Wiped<lenient_json::Value>, ReadError> {
    let value = lenient_json::parse(body).map_err(|_| ReadError::Argument("JSON Object was expected".to_owned()))?;
    Ok(Wiped(value))
}
