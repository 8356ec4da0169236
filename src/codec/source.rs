//! Reading of entities, whatever the format.

use std::borrow::Cow;
use std::fmt;

use super::text;
use crate::model::address::RAW_LENGTH;
use crate::model::{Address, Amount, Height, Network, NetworkByte, Timestamp, WireHash};

/// Limits that cut what is read, and one that refuses.
pub mod limits {
    /// Bytes kept of any byte string, and of the UTF-8 form of any text in the binary format.
    pub const BYTES: usize = 2048;
    /// UTF-16 units kept of any text, unless listed below.
    pub const TEXT_UNITS: usize = 128;
    /// UTF-16 units kept of a mosaic's description.
    pub const DESCRIPTION_UNITS: usize = crate::model::mosaic::MAX_DESCRIPTION_UNITS;
    /// How deep entities may be nested. Valid ones need 6; more could exhaust the stack and is refused.
    pub const NESTING: u32 = 48;
}

const SERIALIZATION: &str = "org.nem.core.serialization.SerializationException";

/// Why an entity could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// A value is not allowed.
    Argument(String),
    /// A text should be a number.
    NotANumber(String),
    /// An amount or a quantity is negative.
    Negative(Measure, i64),
    /// An address is not valid on this network; the text as read, in upper case.
    UnknownAddress(String),
    /// A required field is null.
    Missing(&'static str),
    /// A field has another type or an impossible value.
    Incompatible(&'static str),
    /// The bytes are not a serialised entity, or a nested entity in binary is wrong.
    Serialization(String),
    /// A text should be `true` or `false`.
    NotABoolean,
    /// Something else; the text is this node's own.
    Internal(String),
}

/// What must not be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// An amount of the native currency.
    Amount,
    /// A quantity or supply of a mosaic.
    Quantity,
}

impl ReadError {
    /// The failure to read an entity inside which this one happened, in the binary format: the text tells the name of
    /// the former failure too, once for each level.
    pub fn nested(self) -> ReadError {
        let name = match &self {
            ReadError::Argument(_) => "java.lang.IllegalArgumentException",
            ReadError::NotANumber(_) => "java.lang.NumberFormatException",
            ReadError::Negative(Measure::Amount, _) => "org.nem.core.model.primitive.NegativeBalanceException",
            ReadError::Negative(Measure::Quantity, _) => "org.nem.core.model.primitive.NegativeQuantityException",
            ReadError::Missing(_) => "org.nem.core.serialization.MissingRequiredPropertyException",
            ReadError::Serialization(_) => SERIALIZATION,
            // The text does not tell the address.
            ReadError::UnknownAddress(_) => {
                return ReadError::Serialization("java.util.MissingResourceException: invalid address".to_owned());
            }
            // NIS1's name for it is not known.
            ReadError::Incompatible(_) => return ReadError::Serialization(self.to_string()),
            // The text is the same at every level.
            ReadError::NotABoolean | ReadError::Internal(_) => return self,
        };
        ReadError::Serialization(format!("{name}: {self}"))
    }

    /// The input ends inside a field.
    pub fn end_of_stream() -> ReadError {
        ReadError::Serialization("unexpected end of stream reached".to_owned())
    }

    /// The class as one letter: A an argument, U an unknown address, M something missing, T a wrong type, S a wrong
    /// serialisation, I something internal.
    pub fn class(&self) -> char {
        match self {
            ReadError::Argument(_) | ReadError::NotANumber(_) | ReadError::Negative(..) => 'A',
            ReadError::UnknownAddress(_) => 'U',
            ReadError::Missing(_) => 'M',
            ReadError::Incompatible(_) => 'T',
            ReadError::Serialization(_) | ReadError::NotABoolean => 'S',
            ReadError::Internal(_) => 'I',
        }
    }

    /// Status of an HTTP answer to a request that failed so.
    pub fn http_status(&self) -> u16 {
        match self.class() {
            'A' => 400,
            'U' => 404,
            _ => 500,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Argument(text) | ReadError::Serialization(text) | ReadError::Internal(text) => f.write_str(text),
            ReadError::NotANumber(text) => write!(f, "For input string: \"{text}\""),
            ReadError::Negative(measure, value) => {
                let name = match measure {
                    Measure::Amount => "amount",
                    Measure::Quantity => "quantity",
                };
                write!(f, "{name} ({value}) must be non-negative")
            }
            ReadError::NotABoolean => {
                let cause = "java.lang.RuntimeException: java.lang.NumberFormatException";
                write!(f, "{SERIALIZATION}: {cause}: string must be either true or false")
            }
            ReadError::UnknownAddress(address) => {
                write!(f, "invalid address '{address}' (org.nem.core.model.Address)")
            }
            ReadError::Missing(label) => write!(f, "expected value for property {label}, but none was found"),
            ReadError::Incompatible(label) => write!(f, "property {label} has an incompatible value"),
        }
    }
}

impl std::error::Error for ReadError {}

/// What reading needs to know of the node's network.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// First byte of valid addresses.
    pub network: NetworkByte,
    /// The account whose transactions are free of fees.
    pub nemesis_signer: Address,
    /// Whether the input comes from the node's own store, so that it was checked and brought into its normal form
    /// before.
    pub trusted: bool,
}

impl Context {
    /// For input from outside.
    pub fn of(network: &Network) -> Context {
        Context { network: network.byte, nemesis_signer: network.nemesis_signer, trusted: false }
    }

    /// For entities that this node wrote to its store, of whatever network: nothing is checked that depends on it.
    pub fn of_store() -> Context {
        let nobody = Address::from_raw(&[0; RAW_LENGTH]);
        Context { network: NetworkByte(0), nemesis_signer: nobody, trusted: true }
    }

    /// For entities that this node wrote to its store.
    pub fn trusting(self) -> Context {
        Context { trusted: true, ..self }
    }
}

/// Gives the fields of an entity in their fixed order; `None` is null. Labels matter in JSON, and in errors.
pub trait Source<'a>: Sized {
    /// The node's network.
    fn context(&self) -> &Context;
    /// A 32-bit integer.
    fn i32(&mut self, label: &'static str) -> Result<Option<i32>, ReadError>;
    /// A 64-bit integer.
    fn i64(&mut self, label: &'static str) -> Result<Option<i64>, ReadError>;
    /// A byte string, cut to [`limits::BYTES`].
    fn bytes(&mut self, label: &'static str) -> Result<Option<Cow<'a, [u8]>>, ReadError>;
    /// A text, cut to `units` UTF-16 units.
    fn string(&mut self, label: &'static str, units: usize) -> Result<Option<Cow<'a, str>>, ReadError>;
    /// A nested entity.
    fn object<T>(
        &mut self,
        label: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError>;
    /// A list of nested entities, none of them null.
    fn list<T>(
        &mut self,
        label: &'static str,
        read: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Option<Vec<T>>, ReadError>;

    /// A required 32-bit integer.
    fn need_i32(&mut self, label: &'static str) -> Result<i32, ReadError> {
        self.i32(label)?.ok_or(ReadError::Missing(label))
    }

    /// A required 64-bit integer.
    fn need_i64(&mut self, label: &'static str) -> Result<i64, ReadError> {
        self.i64(label)?.ok_or(ReadError::Missing(label))
    }

    /// A required byte string.
    fn need_bytes(&mut self, label: &'static str) -> Result<Cow<'a, [u8]>, ReadError> {
        self.bytes(label)?.ok_or(ReadError::Missing(label))
    }

    /// A required text of more than white space.
    fn need_string(&mut self, label: &'static str, units: usize) -> Result<Cow<'a, str>, ReadError> {
        match self.string(label, units)? {
            Some(text) if !text::is_blank(&text) => Ok(text),
            _ => Err(ReadError::Missing(label)),
        }
    }

    /// A required nested entity.
    fn need_object<T>(
        &mut self,
        label: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.object(label, read)?.ok_or(ReadError::Missing(label))
    }

    /// A required list.
    fn need_list<T>(
        &mut self,
        label: &'static str,
        read: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        self.list(label, read)?.ok_or(ReadError::Missing(label))
    }

    /// A required address, valid on this network.
    fn address(&mut self, label: &'static str) -> Result<Address, ReadError> {
        let text = self.need_string(label, limits::TEXT_UNITS)?;
        if self.context().trusted
            && let Ok(bytes) = text.as_bytes().try_into()
        {
            return Ok(Address::from_stored(bytes));
        }
        Address::parse(&text, self.context().network).ok_or_else(|| ReadError::UnknownAddress(text.to_uppercase()))
    }

    /// A required amount of the native currency.
    fn amount(&mut self, label: &'static str) -> Result<Amount, ReadError> {
        let value = self.need_i64(label)?;
        let amount = u64::try_from(value);
        amount.map(Amount).map_err(|_| ReadError::Negative(Measure::Amount, value))
    }

    /// A required quantity or supply of a mosaic.
    fn quantity(&mut self, label: &'static str) -> Result<u64, ReadError> {
        let value = self.need_i64(label)?;
        u64::try_from(value).map_err(|_| ReadError::Negative(Measure::Quantity, value))
    }

    /// A required block height.
    fn height(&mut self, label: &'static str) -> Result<Height, ReadError> {
        match u64::try_from(self.need_i64(label)?) {
            Ok(height) if height > 0 => Ok(Height(height)),
            _ => Err(ReadError::Argument("height must be positive".to_owned())),
        }
    }

    /// A required time stamp.
    fn timestamp(&mut self, label: &'static str) -> Result<Timestamp, ReadError> {
        match self.need_i32(label)? {
            seconds if seconds >= 0 => Ok(Timestamp(seconds)),
            _ => Err(ReadError::Argument("time must be non-negative".to_owned())),
        }
    }

    /// A required public key.
    fn public_key(&mut self, label: &'static str) -> Result<crate::crypto::PublicKey, ReadError> {
        let bytes = self.need_bytes(label)?;
        let key = bytes.as_ref().try_into().map(crate::crypto::PublicKey);
        key.map_err(|_| ReadError::Argument("publicKey must be in compressed form".to_owned()))
    }

    /// A required signature.
    fn signature(&mut self, label: &'static str) -> Result<crate::crypto::Signature, ReadError> {
        let bytes = self.need_bytes(label)?;
        let signature = bytes.as_ref().try_into().map(crate::crypto::Signature);
        signature.map_err(|_| ReadError::Argument("binary signature representation must be 64 bytes".to_owned()))
    }

    /// A required hash of any length.
    fn hash(&mut self, label: &'static str) -> Result<WireHash, ReadError> {
        self.need_object(label, |source| Ok(WireHash(source.need_bytes("data")?.into_owned())))
    }
}
