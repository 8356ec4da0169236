//! The two formats, and what can be read and written in either.

use super::binary::{BinarySink, BinarySource};
use super::json::{JsonSink, JsonSource};
use super::lax_json;
use super::sink::Sink;
use super::source::{Context, ReadError, Source};
use super::wipe::Wiped;

/// A representation of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/binary`.
    Binary,
}

/// Something that can be read in either format.
///
/// It may hold a private key: what it is read from is wiped, and it has to keep its own copies in [`Wiped`] or the like
/// while it reads.
pub trait Readable: Sized {
    /// Reads the fields in definition order.
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError>;
}

/// Something that can be written in either format.
pub trait Writable {
    /// Writes the fields in definition order.
    fn write(&self, sink: &mut impl Sink);
}

impl<T: Writable> Writable for &T {
    fn write(&self, sink: &mut impl Sink) {
        (*self).write(sink);
    }
}

impl Format {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Binary => "application/binary",
        }
    }

    /// An entity as bytes or as JSON text.
    pub fn to_bytes(self, entity: &impl Writable) -> Vec<u8> {
        match self {
            Format::Json => JsonSink::document(|sink| entity.write(sink)),
            Format::Binary => {
                let mut sink = BinarySink::default();
                entity.write(&mut sink);
                sink.into_bytes()
            }
        }
    }

    /// Reads an entity from the start of a body; what follows it is ignored. The caller bounds the body.
    pub fn read<T: Readable>(self, body: &[u8], context: Context) -> Result<T, ReadError> {
        match self {
            Format::Json => T::read(&mut JsonSource::new(&*parse(body)?, context)?),
            Format::Binary => T::read(&mut BinarySource::new(body, context)),
        }
    }
}

/// The JSON value of a body, which is wiped when it is dropped.
pub fn parse(body: &[u8]) -> Result<Wiped<lax_json::Value>, ReadError> {
    let value = lax_json::parse(body).map_err(|_| ReadError::Argument("JSON Object was expected".to_owned()))?;
    Ok(Wiped(value))
}
