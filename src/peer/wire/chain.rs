//! Parts of the chain, and of the pool.

use std::marker::PhantomData;
use std::vec;

use super::authentication::{AnswerError, Challenge, check_signer};
use crate::codec::binary::BinarySource;
use crate::codec::json::JsonSource;
use crate::codec::lax_json::Value;
use crate::codec::wipe::Wiped;
use crate::codec::{self, Context, Format, ReadError, Readable, Sink, Source, Writable};
use crate::crypto::PublicKey;
use crate::model::network::ChainParameters;
use crate::model::{Block, Hash256, Height, Transaction};
use crate::pool::ShortId;

/// Blocks that every node wants at least.
const LEAST_BLOCKS: u64 = 10;
/// Blocks that are looked at besides those that are wanted.
const SPARE_BLOCKS: u64 = 100;

/// The score of a chain. Never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub i128);

/// A number of any size, as NIS1 writes them.
impl Writable for Score {
    fn write(&self, sink: &mut impl Sink) {
        let bytes = self.0.to_be_bytes();
        // As few bytes as show that it is not negative.
        let first = bytes.windows(2).position(|pair| pair[0] != 0 || pair[1] & 0x80 != 0);
        sink.bytes("score", bytes.get(first.unwrap_or(bytes.len() - 1)..));
    }
}

/// A number that no chain can reach is refused.
impl Readable for Score {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("score")?;
        let significant = bytes.iter().position(|byte| *byte != 0).map_or(&[][..], |first| &bytes[first..]);
        let mut padded = [0; 16];
        let place = padded.len().checked_sub(significant.len()).and_then(|first| padded.get_mut(first..));
        let too_large = || ReadError::Argument("score is too large".to_owned());
        place.ok_or_else(too_large)?.copy_from_slice(significant);
        i128::try_from(u128::from_be_bytes(padded)).map(Score).map_err(|_| too_large())
    }
}

/// How much of the chain a node wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainRequest {
    /// The blocks after this height.
    pub after: Height,
    /// So many blocks, or more.
    pub min_blocks: Option<i32>,
    /// At most so many transactions.
    pub max_transactions: Option<i32>,
}

/// How many blocks a node gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Blocks that it wants.
    pub min_blocks: u64,
    /// Blocks that are looked at first, and so many more as often as there is room.
    pub first_query: u64,
    /// Blocks at most.
    pub blocks: u64,
    /// Transactions at most, as NIS1 counts them.
    pub transactions: u64,
}

impl ChainRequest {
    /// A request within what other nodes of the chain allow.
    pub fn new(after: Height, min_blocks: i32, max_transactions: i32, chain: &ChainParameters) -> ChainRequest {
        let wanted = ChainRequest { after, min_blocks: Some(min_blocks), max_transactions: Some(max_transactions) };
        let limits = wanted.limits(chain);
        let number = |limit: u64| Some(i32::try_from(limit).unwrap_or(i32::MAX));
        ChainRequest { after, min_blocks: number(limits.min_blocks), max_transactions: number(limits.transactions) }
    }

    /// What a node gets, by the parameters of the chain.
    pub fn limits(&self, chain: &ChainParameters) -> PartLimits {
        let (most, least) = (u64::from(chain.max_transactions), u64::from(chain.max_transactions_per_block));
        let blocks = chain.max_blocks_per_sync();
        // A negative number is as good as none at all.
        let wanted = |number: i32| u64::try_from(number).unwrap_or(0);
        let min_blocks = self.min_blocks.map_or(blocks / 4, |number| wanted(number).max(LEAST_BLOCKS).min(blocks));
        let transactions = self.max_transactions.map_or(most / 2, |number| wanted(number).max(least).min(most));
        PartLimits { min_blocks, first_query: (min_blocks + SPARE_BLOCKS).min(blocks), blocks, transactions }
    }
}

/// The first number that is not there ends it.
impl Writable for ChainRequest {
    fn write(&self, sink: &mut impl Sink) {
        sink.u64("height", self.after.0);
        let Some(min_blocks) = self.min_blocks else { return };
        sink.i32("minBlocks", min_blocks);
        if let Some(max_transactions) = self.max_transactions {
            sink.i32("maxTransactions", max_transactions);
        }
    }
}

impl Readable for ChainRequest {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(ChainRequest {
            after: source.height("height")?,
            min_blocks: source.i32("minBlocks")?,
            max_transactions: source.i32("maxTransactions")?,
        })
    }
}

/// Hashes of blocks that follow each other. What bounds it is the length of what it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashChain(pub Vec<Hash256>);

struct Hash(Hash256);

impl Readable for Hash {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("data")?;
        let hash = Hash256::try_from(bytes.as_ref()).map(Hash);
        hash.map_err(|_| ReadError::Argument("the hash of a block must have 32 bytes".to_owned()))
    }
}

impl Writable for HashChain {
    fn write(&self, sink: &mut impl Sink) {
        sink.list("data", &self.0, |sink, hash| sink.bytes("data", Some(&hash.0)));
    }
}

impl Readable for HashChain {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let hashes = source.need_list("data", Hash::read)?;
        Ok(HashChain(hashes.into_iter().map(|Hash(hash)| hash).collect()))
    }
}

/// The transactions that a node has. What bounds it is the length of what it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortIds(pub Vec<ShortId>);

struct OneShortId(ShortId);

impl Writable for OneShortId {
    fn write(&self, sink: &mut impl Sink) {
        sink.i64("hashShortId", self.0);
    }
}

impl Writable for ShortIds {
    fn write(&self, sink: &mut impl Sink) {
        sink.list("hashShortIds", &self.0, |sink, id| OneShortId(*id).write(sink));
    }
}

impl Readable for ShortIds {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_list("hashShortIds", |source| source.need_i64("hashShortId")).map(ShortIds)
    }
}

/// What another node has sent, read one after another, so that much of it need not be read in one go.
pub struct Listed<T> {
    unread: Unread,
    kind: PhantomData<T>,
}

/// Blocks.
pub type BlockList = Listed<Block>;
/// Unconfirmed transactions.
pub type TransactionList = Listed<Transaction>;

impl<T> std::fmt::Debug for Listed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.unread.fmt(f)
    }
}

enum Unread {
    /// The list in an answer.
    Binary {
        body: Vec<u8>,
        /// Where the next element stands, and where the list ends.
        at: usize,
        end: usize,
        /// Elements that were not read yet.
        left: usize,
    },
    /// JSON cannot be taken apart without being read as a whole.
    Json(vec::IntoIter<Value>),
}

impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unread::Binary { at, end, left, .. } => write!(f, "{left} in {} bytes", end - at),
            Unread::Json(values) => write!(f, "{} in JSON", values.len()),
        }
    }
}

impl<T: Readable> Listed<T> {
    /// Takes the answer to a challenge by the node that has the expected key. The caller bounds the body
    /// ([`super::limits`]). It costs the verification of a signature.
    pub fn open(
        format: Format,
        body: Vec<u8>,
        context: Context,
        challenge: &Challenge,
        expected: &PublicKey,
    ) -> Result<Listed<T>, AnswerError> {
        match format {
            Format::Binary => {
                check_signer(&mut BinarySource::new(&body, context), challenge, expected)?;
                Ok(Listed::of_binary(body, context)?)
            }
            Format::Json => {
                let value = codec::parse(&body)?;
                check_signer(&mut JsonSource::new(&value, context)?, challenge, expected)?;
                Ok(Listed::of_json(value)?)
            }
        }
    }

    /// The same for an answer whose signature was checked.
    pub fn of_checked(format: Format, body: Vec<u8>, context: Context) -> Result<Listed<T>, ReadError> {
        match format {
            Format::Binary => Listed::of_binary(body, context),
            Format::Json => Listed::of_json(codec::parse(&body)?),
        }
    }

    fn of(unread: Unread) -> Listed<T> {
        Listed { unread, kind: PhantomData }
    }

    fn of_binary(body: Vec<u8>, context: Context) -> Result<Listed<T>, ReadError> {
        /// How many elements there are, and how many bytes are behind that number.
        struct Begun(usize);
        impl Readable for Begun {
            fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
                match source.need_i32("data")? {
                    -1 => Err(ReadError::Missing("data")),
                    count => Ok(Begun(usize::try_from(count).unwrap_or(0))),
                }
            }
        }
        /// Bytes of a length and of a number of elements.
        const NUMBER: usize = 4;
        let mut source = BinarySource::new(&body, context);
        let Begun(left) = source.need_object("entity", Begun::read)?;
        let end = body.len() - source.rest().len();
        Ok(Listed::of(Unread::Binary { at: 2 * NUMBER, end, left, body }))
    }

    fn of_json(mut value: Wiped<Value>) -> Result<Listed<T>, ReadError> {
        let Some(Value::Array(values)) = member(&mut value, "entity").and_then(|entity| member(entity, "data")) else {
            return Err(ReadError::Missing("data"));
        };
        Ok(Listed::of(Unread::Json(std::mem::take(values).into_iter())))
    }

    /// Elements that were not read yet, by what the other node says: there may be fewer.
    pub fn left(&self) -> usize {
        match &self.unread {
            Unread::Binary { left, .. } => *left,
            Unread::Json(values) => values.len(),
        }
    }

    /// Bytes of memory that it holds until it is dropped, roughly.
    pub fn held_bytes(&self) -> usize {
        match &self.unread {
            Unread::Binary { body, .. } => body.len(),
            Unread::Json(values) => values.len() * size_of::<Value>(),
        }
    }

    /// The next element; `None` behind the last one. After a failure nothing more comes.
    pub fn next(&mut self, context: Context) -> Option<Result<T, ReadError>> {
        let read = match &mut self.unread {
            Unread::Json(values) => {
                let value = values.next()?;
                JsonSource::new(&value, context).and_then(|mut source| T::read(&mut source))
            }
            Unread::Binary { left: 0, .. } => return None,
            Unread::Binary { body, at, end, left } => {
                *left -= 1;
                let mut source = BinarySource::new(body.get(*at..*end).unwrap_or_default(), context);
                let element = source.need_object("data", T::read);
                *at = *end - source.rest().len();
                element
            }
        };
        if read.is_err() {
            self.unread = Unread::Json(Vec::new().into_iter());
        }
        Some(read)
    }
}

/// A member of an object; of several the last.
fn member<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    let Value::Object(members) = value else { return None };
    members.iter_mut().rev().find(|(label, _)| label == name).map(|(_, value)| value)
}
