//! Entities as bytes and as JSON, and all limits on what is read.
//!
//! Each entity is described once, in terms of [`Decoder`] and [`Encoder`], which both formats implement. Hashes and
//! signatures always cover the bytes as written again, never the bytes as read.

pub mod binary;
pub mod block;
pub mod block_file;
pub mod json;
pub mod lenient_json;
pub mod mosaic;
pub mod text;
pub mod transaction;
pub mod wipe;

use std::borrow::Cow;
use std::rc::Rc;

pub use binary::{ByteReader, write_varint};

use serde_json::{Map, Value};

use self::binary::{BinaryDecoder, BinaryEncoder};
use self::json::{JsonDecoder, JsonEncoder};
use self::wipe::Wiped;
use crate::crypto::{PublicKey, Signature};
use crate::model::{ADDRESS_LENGTH, Address, Amount, Height, Network, NetworkByte, Timestamp, WireHash};

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
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self>;
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

impl<T: Writable> Writable for Rc<T> {
    fn write(&self, sink: &mut impl Encoder) {
        (**self).write(sink);
    }
}

impl Format {
    /// Returns the format of a media type.
    pub fn of(media_type: &str) -> Option<Format> {
        [Format::Json, Format::Binary].into_iter().find(|format| media_type.eq_ignore_ascii_case(format.media_type()))
    }

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
            Format::Binary => BinaryEncoder::document(|sink| entity.write(sink)),
        }
    }

    /// Reads an entity from the start of a body. The rest of the body is ignored. The caller limits its length.
    pub fn read<T: Readable>(self, body: &[u8], context: Context) -> Result<T> {
        match self {
            Format::Json => read_json(&*parse(body)?, context),
            Format::Binary => T::read(&mut BinaryDecoder::new(body, context)),
        }
    }
}

/// Reads an entity from a JSON value.
pub fn read_json<T: Readable>(value: &lenient_json::Value, context: Context) -> Result<T> {
    T::read(&mut JsonDecoder::new(value, context)?)
}

/// Parses a body as JSON. The value is wiped when it is dropped.
pub fn parse(body: &[u8]) -> Result<Wiped<lenient_json::Value>> {
    lenient_json::parse(body).map(Wiped).map_err(not_json)
}

/// Returns the error for a body that is not JSON.
pub fn not_json(_: lenient_json::LenientJsonError) -> ReadError {
    ReadError::argument("JSON Object was expected")
}

/// Whether an entity is written with its own signature and cosignatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningForm {
    /// With signatures: for other nodes, and for the HTTP interface.
    Verifiable,
    /// Without signatures: the bytes that are hashed and signed.
    NonVerifiable,
}

/// Placeholder in JSON for the elements of a list. JSON always escapes this character.
pub const SPLICE_BYTE: u8 = 0;

/// Accepts the fields of an entity in their fixed order. Labels matter in JSON only.
pub trait Encoder {
    /// Writes a 32-bit integer.
    fn i32(&mut self, label: &'static str, value: i32);
    /// Writes a 64-bit integer.
    fn i64(&mut self, label: &'static str, value: i64);
    /// Writes a double.
    fn f64(&mut self, label: &'static str, value: f64);
    /// Writes a byte string, or null.
    fn bytes(&mut self, label: &'static str, value: Option<&[u8]>);
    /// Writes a text, or null. The caller respects the limits of [`crate::codec::limits`].
    fn string(&mut self, label: &'static str, value: Option<&str>);
    /// Writes a nested entity.
    fn object(&mut self, label: &'static str, write: impl FnOnce(&mut Self));
    /// Writes a nested entity that is null.
    fn null_object(&mut self, label: &'static str);
    /// Writes a list of nested entities.
    fn list<T>(&mut self, label: &'static str, items: &[T], write: impl FnMut(&mut Self, &T));
    /// Writes a list whose elements are inserted later, at most one per entity that is written as a whole. JSON has
    /// [`SPLICE_BYTE`] in its place, the binary format an empty list.
    fn spliced_list(&mut self, label: &'static str);

    /// Writes a truth value. NIS1 has none; the binary format has 1 or 0 in its place.
    fn boolean(&mut self, label: &'static str, value: bool) {
        self.i32(label, value.into());
    }

    /// Writes a count, an amount or a height: all are below 2⁶³.
    fn u64(&mut self, label: &'static str, value: u64) {
        self.i64(label, value as i64);
    }

    /// Writes a nested entity, or null.
    fn optional<T>(&mut self, label: &'static str, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => self.object(label, |sink| write(sink, value)),
            None => self.null_object(label),
        }
    }

    /// Writes a hash: an entity with the single field `data`.
    fn hash(&mut self, label: &'static str, hash: &[u8]) {
        self.object(label, |sink| sink.bytes("data", Some(hash)));
    }
}

/// Limits on what is read. Longer values are cut; only too deep nesting is an error.
pub mod limits {
    /// Bytes kept of a byte string, and of the UTF-8 form of a text in the binary format.
    pub const MAX_BYTES: usize = 2048;
    /// UTF-16 units kept of a text, unless listed below.
    pub const MAX_TEXT_UTF16: usize = 128;
    /// UTF-16 units kept of a mosaic description.
    pub const MAX_DESCRIPTION_UTF16: usize = crate::model::mosaic::MAX_DESCRIPTION_UNITS;
    /// Maximum nesting depth of entities. Valid ones need 6; more could exhaust the stack.
    pub const MAX_NESTING: u32 = 48;
}

const SERIALIZATION: &str = "org.nem.core.serialization.SerializationException";

/// Why an entity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A value is not allowed.
    #[error("{0}")]
    Argument(String),
    /// A text is not a number.
    #[error("For input string: \"{0}\"")]
    NotANumber(String),
    /// An amount or a quantity is negative.
    #[error("{0} ({1}) must be non-negative")]
    Negative(Measure, i64),
    /// An address is not valid on this network; the text in upper case.
    #[error("invalid address '{0}' (org.nem.core.model.Address)")]
    UnknownAddress(String),
    /// A required field is null.
    #[error("expected value for property {0}, but none was found")]
    Missing(&'static str),
    /// A field has another type or an impossible value.
    #[error("property {0} has an incompatible value")]
    Incompatible(&'static str),
    /// The bytes are not an encoded entity, or a nested entity in the binary format is invalid.
    #[error("{0}")]
    Serialization(String),
    /// A text is neither `true` nor `false`.
    #[error(
        "{}: java.lang.RuntimeException: java.lang.NumberFormatException: string must be either true or false",
        SERIALIZATION
    )]
    NotABoolean,
    /// Any other error; the text is not NIS1's.
    #[error("{0}")]
    Internal(String),
}

/// Result of reading.
pub type Result<T, E = ReadError> = std::result::Result<T, E>;

/// Kind of a value that must not be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Measure {
    /// An amount of the native currency.
    #[error("amount")]
    Amount,
    /// A quantity or supply of a mosaic.
    #[error("quantity")]
    Quantity,
}

impl ReadError {
    /// Creates the error for a value that is not allowed.
    pub fn argument(text: impl ToString) -> ReadError {
        ReadError::Argument(text.to_string())
    }

    /// Wraps this error as the failure to read the enclosing entity in the binary format. The text includes the name of
    /// the inner exception, once for each level.
    pub fn nested(self) -> ReadError {
        let name = match &self {
            ReadError::Argument(_) => "java.lang.IllegalArgumentException",
            ReadError::NotANumber(_) => "java.lang.NumberFormatException",
            ReadError::Negative(Measure::Amount, _) => "org.nem.core.model.primitive.NegativeBalanceException",
            ReadError::Negative(Measure::Quantity, _) => "org.nem.core.model.primitive.NegativeQuantityException",
            ReadError::Missing(_) => "org.nem.core.serialization.MissingRequiredPropertyException",
            ReadError::Serialization(_) => SERIALIZATION,
            // The text does not include the address.
            ReadError::UnknownAddress(_) => {
                return ReadError::Serialization("java.util.MissingResourceException: invalid address".to_owned());
            }
            // NIS1's exception for this is not known.
            ReadError::Incompatible(_) => return ReadError::Serialization(self.to_string()),
            // The text is the same at every level.
            ReadError::NotABoolean | ReadError::Internal(_) => return self,
        };
        ReadError::Serialization(format!("{name}: {self}"))
    }

    /// Returns the text for people, without NIS1's names of exceptions.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        text.rsplit_once("Exception: ").map_or_else(|| text.clone(), |(_, reason)| reason.to_owned())
    }

    /// Returns the error for input that ends inside a field.
    pub fn end_of_stream() -> ReadError {
        ReadError::Serialization("unexpected end of stream reached".to_owned())
    }

    /// Returns the status of an HTTP response to a request with this error.
    pub fn http_status(&self) -> u16 {
        match self {
            ReadError::Argument(_) | ReadError::NotANumber(_) | ReadError::Negative(..) => 400,
            ReadError::UnknownAddress(_) => 404,
            _ => 500,
        }
    }
}

/// Information on the node's network that reading needs.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// First byte of valid addresses.
    pub network: NetworkByte,
    /// The account whose transactions pay no fees.
    pub nemesis_signer: Address,
    /// Whether the input comes from the node's own store, where it was already checked and normalised.
    pub trusted: bool,
}

impl Context {
    /// Returns the context for untrusted input.
    pub fn of(network: &Network) -> Context {
        Context { network: network.byte, nemesis_signer: network.nemesis_signer, trusted: false }
    }

    /// Returns the context for entities in this node's store. Checks that depend on the network are skipped.
    pub const fn trusted_store() -> Context {
        let nobody = Address::from_stored([b'A'; ADDRESS_LENGTH]);
        Context { network: NetworkByte(0), nemesis_signer: nobody, trusted: true }
    }
}

/// Provides the fields of an entity in their fixed order; `None` is null. Labels matter in JSON, and in errors.
pub trait Decoder<'a>: Sized {
    /// Returns the context.
    fn context(&self) -> &Context;
    /// Reads a 32-bit integer.
    fn i32(&mut self, label: &'static str) -> Result<Option<i32>>;
    /// Reads a 64-bit integer.
    fn i64(&mut self, label: &'static str) -> Result<Option<i64>>;
    /// Reads a byte string, cut to [`limits::MAX_BYTES`].
    fn bytes(&mut self, label: &'static str) -> Result<Option<Cow<'a, [u8]>>>;
    /// Reads a text, cut to `units` UTF-16 units.
    fn string(&mut self, label: &'static str, units: usize) -> Result<Option<Cow<'a, str>>>;
    /// Reads a nested entity.
    fn object<T>(&mut self, label: &'static str, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>>;
    /// Reads a list of nested entities, none of them null.
    fn list<T>(&mut self, label: &'static str, read: impl FnMut(&mut Self) -> Result<T>) -> Result<Option<Vec<T>>>;

    /// Reads a required 32-bit integer.
    fn need_i32(&mut self, label: &'static str) -> Result<i32> {
        self.i32(label)?.ok_or(ReadError::Missing(label))
    }

    /// Reads a required value of an enum by its number. In the error, an unknown number follows the text `unknown`.
    fn need_kind<T>(&mut self, label: &'static str, of: impl Fn(i32) -> Option<T>, unknown: &str) -> Result<T> {
        let code = self.need_i32(label)?;
        of(code).ok_or_else(|| ReadError::argument(format!("{unknown}: {code}")))
    }

    /// Reads a required 64-bit integer.
    fn need_i64(&mut self, label: &'static str) -> Result<i64> {
        self.i64(label)?.ok_or(ReadError::Missing(label))
    }

    /// Reads a required byte string.
    fn need_bytes(&mut self, label: &'static str) -> Result<Cow<'a, [u8]>> {
        self.bytes(label)?.ok_or(ReadError::Missing(label))
    }

    /// Reads a required text that is not blank.
    fn need_string(&mut self, label: &'static str, units: usize) -> Result<Cow<'a, str>> {
        self.string(label, units)?.filter(|text| !text::is_blank(text)).ok_or(ReadError::Missing(label))
    }

    /// Reads a required nested entity.
    fn need_object<T>(&mut self, label: &'static str, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.object(label, read)?.ok_or(ReadError::Missing(label))
    }

    /// Reads a required list.
    fn need_list<T>(&mut self, label: &'static str, read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.list(label, read)?.ok_or(ReadError::Missing(label))
    }

    /// Reads a required address, valid on this network.
    fn address(&mut self, label: &'static str) -> Result<Address> {
        let text = self.need_string(label, limits::MAX_TEXT_UTF16)?;
        if self.context().trusted
            && let Ok(bytes) = text.as_bytes().try_into()
        {
            return Ok(Address::from_stored(bytes));
        }
        Address::parse(&text, self.context().network).ok_or_else(|| ReadError::UnknownAddress(text.to_uppercase()))
    }

    /// Reads a required amount of the native currency.
    fn amount(&mut self, label: &'static str) -> Result<Amount> {
        let value = self.need_i64(label)?;
        u64::try_from(value).map(Amount).map_err(|_| ReadError::Negative(Measure::Amount, value))
    }

    /// Reads a required quantity or supply of a mosaic.
    fn quantity(&mut self, label: &'static str) -> Result<u64> {
        let value = self.need_i64(label)?;
        u64::try_from(value).map_err(|_| ReadError::Negative(Measure::Quantity, value))
    }

    /// Reads a required block height.
    fn height(&mut self, label: &'static str) -> Result<Height> {
        let height = u64::try_from(self.need_i64(label)?).ok().filter(|height| *height > 0);
        height.map(Height).ok_or_else(|| ReadError::argument("height must be positive"))
    }

    /// Reads a required time stamp.
    fn timestamp(&mut self, label: &'static str) -> Result<Timestamp> {
        let time = Some(Timestamp(self.need_i32(label)?)).filter(|time| time.0 >= 0);
        time.ok_or_else(|| ReadError::argument("time must be non-negative"))
    }

    /// Reads a required public key.
    fn public_key(&mut self, label: &'static str) -> Result<PublicKey> {
        PublicKey::try_from(&*self.need_bytes(label)?).map_err(ReadError::argument)
    }

    /// Reads a required signature.
    fn signature(&mut self, label: &'static str) -> Result<Signature> {
        let bytes = self.need_bytes(label)?;
        let signature = bytes.as_ref().try_into().map(Signature);
        signature.map_err(|_| ReadError::argument("binary signature representation must be 64 bytes"))
    }

    /// Reads a required hash of any length.
    fn hash(&mut self, label: &'static str) -> Result<WireHash> {
        self.need_object(label, |source| Ok(WireHash(source.need_bytes("data")?.into_owned())))
    }
}

/// Returns the text of a network, in which a store keeps the network of its chain: a JSON object.
pub fn network_to_text(network: &Network) -> String {
    serde_json::to_string(network).unwrap_or_default()
}

/// Parses the text of a network. Returns `None` if it is not valid, has members that are not known, or a member twice.
pub fn network_from_text(text: &str) -> Option<Network> {
    let network: Network = serde_json::from_str(text).ok()?;
    let (members, known) =
        (serde_json::from_str::<Map<String, Value>>(text).ok()?, serde_json::to_value(&network).ok()?);
    let is_known = members.keys().all(|key| known.get(key).is_some());
    // The map keeps one of two equal members.
    let is_whole = serde_json::to_string(&members).ok()?.len() == text.len();
    (is_known && is_whole && network.nemesis_signer.to_raw()[0] == network.byte.0).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::ChainParameters;
    use crate::model::{Address, Amount, Hash256, Height, NetworkByte};

    #[test]
    fn a_network_round_trips_through_its_text() {
        let byte = NetworkByte::TESTNET;
        let chain = ChainParameters {
            ignore_fees: true,
            hash_retention_hours: None,
            history_from: Some(Height(7)),
            proof_of_stake: true,
            immediate_vesting: true,
            stabilize_block_times: true,
            ..ChainParameters::after_all_forks()
        };
        let network = Network {
            name: "devnet".to_owned(),
            byte,
            generation_hash: Hash256([7; 32]),
            nemesis_signer: Address::from_public_key(&crate::model::network::NAMESPACE_SINK, byte),
            total_amount: Amount::whole(8_999_999_999),
            chain,
        };
        assert_eq!(network_from_text(&network_to_text(&network)), Some(network.clone()));
        let usual = Network { chain: ChainParameters::after_all_forks(), ..network };
        assert_eq!(network_from_text(&network_to_text(&usual)), Some(usual));
    }

    #[test]
    fn the_text_is_a_flat_object_in_a_fixed_order() {
        let text = network_to_text(&Network::example());
        let signer = Network::example().nemesis_signer;
        let expected = format!(
            r#"{{"name":"of my own","byte":152,"generationHash":"{}","nemesisSigner":"{signer}","totalAmount":"#,
            "07".repeat(32)
        ) + r#"8999999999000000,"targetTime":60,"rewriteLimit":360,"maxTransactionsPerBlock":120,"ignoreFees":false,"#
            + r#""proofOfStake":false,"immediateVesting":false,"stabilizeBlockTimes":false,"multisigMOfN":1,"#
            + r#""mosaics":1,"firstFee":1,"remoteAccount":1,"mosaicRedefinition":1,"secondFee":1,"#
            + r#""treasuryReissuance":1,"treasuryHashes":[],"treasuryFallbackHashes":[],"hashRetentionHours":36,"#
            + r#""maxTransactions":10000,"historyFrom":null}"#;
        assert_eq!(text, expected);
        assert_eq!(network_from_text(&text), Some(Network::example()));
        // A text of an earlier version has no history; one of a later version has other members.
        let earlier = text.replace(r#","historyFrom":null"#, "");
        assert_eq!(network_from_text(&earlier), Some(Network::example()));
        assert_eq!(network_from_text(&text.replace("historyFrom", "futureFrom")), None);
        assert_eq!(network_from_text(&text.replace(r#""byte":152"#, r#""byte":104"#)), None);
        assert_eq!(network_from_text(&text.replace(r#""mosaics":1,"#, "")), None);
        assert_eq!(network_from_text(&text.replace(r#""mosaics":1,"#, r#""mosaics":2,"mosaics":1,"#)), None);
    }
}
