//! Parts of the chain and of the mempool.

use std::marker::PhantomData;
use std::vec;

use super::{ReadField, WriteField};
use crate::codec::binary::{BinaryDecoder, ByteReader};
use crate::codec::json::JsonDecoder;
use crate::codec::lenient_json::Value;
use crate::codec::wipe::Wiped;
use crate::codec::{Context, Decoder, Encoder, ReadError, Readable, Writable};
use crate::mempool::ShortId;
use crate::model::network::ChainParameters;
use crate::model::{Block, Hash256, Height, Transaction};

/// Minimum of [`BlockListLimits::min_blocks`].
const MIN_BLOCKS: u64 = 10;
/// Blocks of the first query beyond [`BlockListLimits::min_blocks`].
const SPARE_BLOCKS: u64 = 100;

/// Score of a chain. Never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub i128);

/// Big-endian integer, as NIS1's `BigInteger`.
impl Writable for Score {
    fn write(&self, sink: &mut impl Encoder) {
        let bytes = self.0.to_be_bytes();
        // As few bytes as show that it is not negative.
        let first = bytes.windows(2).position(|pair| pair[0] != 0 || pair[1] & 0x80 != 0);
        sink.bytes("score", bytes.get(first.unwrap_or(bytes.len() - 1)..));
    }
}

/// Rejects numbers that no chain can reach.
impl Readable for Score {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("score")?;
        let significant = bytes.iter().position(|byte| *byte != 0).map_or(&[][..], |first| &bytes[first..]);
        let mut padded = [0; 16];
        let place = padded.len().checked_sub(significant.len()).and_then(|first| padded.get_mut(first..));
        let too_large = || ReadError::Argument("score is too large".to_owned());
        place.ok_or_else(too_large)?.copy_from_slice(significant);
        i128::try_from(u128::from_be_bytes(padded)).map(Score).map_err(|_| too_large())
    }
}

message! {
    /// Request for blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ChainRequest {
        /// The blocks after this height.
        pub after: Height = "height",
        /// Minimum number of blocks.
        pub min_blocks: Option<i32> = "minBlocks",
        /// Maximum number of transactions.
        pub max_transactions: Option<i32> = "maxTransactions",
    }
}

/// Limits of an answer with blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockListLimits {
    /// Requested number of blocks; a hint, not enforced.
    pub min_blocks: u64,
    /// Blocks of NIS1's first database query, which affects its count of transactions.
    pub first_query: u64,
    /// Maximum number of blocks.
    pub blocks: u64,
    /// Maximum number of transactions, as NIS1 counts them.
    pub transactions: u64,
}

impl ChainRequest {
    /// Creates a request within the limits of other nodes.
    pub fn new(after: Height, min_blocks: i32, max_transactions: i32, chain: &ChainParameters) -> ChainRequest {
        let wanted = ChainRequest { after, min_blocks: Some(min_blocks), max_transactions: Some(max_transactions) };
        let limits = wanted.limits(chain);
        let number = |limit: u64| Some(i32::try_from(limit).unwrap_or(i32::MAX));
        ChainRequest { after, min_blocks: number(limits.min_blocks), max_transactions: number(limits.transactions) }
    }

    /// Returns the limits of the answer for the parameters of the chain.
    pub fn limits(&self, chain: &ChainParameters) -> BlockListLimits {
        let (most, least) = (u64::from(chain.max_transactions), u64::from(chain.max_transactions_per_block));
        let blocks = chain.max_blocks_per_sync();
        // A negative number counts as 0.
        let wanted = |number: i32| u64::try_from(number).unwrap_or(0);
        let min_blocks = self.min_blocks.map_or(blocks / 4, |number| wanted(number).max(MIN_BLOCKS).min(blocks));
        let transactions = self.max_transactions.map_or(most / 2, |number| wanted(number).max(least).min(most));
        BlockListLimits { min_blocks, first_query: (min_blocks + SPARE_BLOCKS).min(blocks), blocks, transactions }
    }
}

/// Hashes of consecutive blocks, bounded by the length of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashChain(pub Vec<Hash256>);

impl Writable for HashChain {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("data", &self.0, |sink, hash| sink.bytes("data", Some(&hash.0)));
    }
}

impl Readable for HashChain {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let hash = |source: &mut S| {
            let bytes = source.need_bytes("data")?;
            let wrong = || ReadError::Argument("the hash of a block must have 32 bytes".to_owned());
            Hash256::try_from(bytes.as_ref()).map_err(|_| wrong())
        };
        source.need_list("data", hash).map(HashChain)
    }
}

/// Short ids of the transactions that a node has, bounded by the length of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortIds(pub Vec<ShortId>);

impl Writable for ShortIds {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("hashShortIds", &self.0, |sink, id| sink.i64("hashShortId", *id));
    }
}

impl Readable for ShortIds {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_list("hashShortIds", |source| source.need_i64("hashShortId")).map(ShortIds)
    }
}

/// List of a peer, decoded one element at a time to spread the work.
pub struct LazyList<T> {
    undecoded: Undecoded,
    kind: PhantomData<T>,
}

/// Blocks.
pub type BlockList = LazyList<Block>;
/// Unconfirmed transactions.
pub type TransactionList = LazyList<Transaction>;

impl<T: Readable> std::fmt::Debug for LazyList<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} undecoded elements", self.left())
    }
}

enum Undecoded {
    /// Binary list.
    Binary {
        body: Vec<u8>,
        /// Offset of the next element, and the end of the list.
        at: usize,
        end: usize,
        /// Number of elements not yet decoded.
        left: usize,
        /// Maximum bytes of an element.
        max_element: usize,
    },
    /// JSON is parsed as a whole.
    Json {
        values: vec::IntoIter<Value>,
        /// Approximate bytes of memory of all values.
        bytes: usize,
    },
}

/// Bytes of memory that the values of a byte of JSON take at most.
const BYTES_PER_JSON_BYTE: usize = 3;

impl<T: Readable> LazyList<T> {
    /// Opens the list `data` of a message, or of its `entity` if that is signed. Elements of more than `max_element` bytes
    /// are not decoded.
    pub fn of_binary(
        body: Vec<u8>,
        context: Context,
        is_signed: bool,
        max_element: usize,
    ) -> Result<LazyList<T>, ReadError> {
        /// Bytes of a length or count.
        const NUMBER: usize = 4;
        let read_count = |source: &mut BinaryDecoder<'_>| match source.need_i32("data")? {
            -1 => Err(ReadError::Missing("data")),
            count => Ok(usize::try_from(count).unwrap_or(0)),
        };
        let mut source = BinaryDecoder::new(&body, context);
        let (left, at, end) = if is_signed {
            let left = source.need_object("entity", read_count)?;
            (left, 2 * NUMBER, body.len() - source.remaining().len())
        } else {
            (read_count(&mut source)?, NUMBER, body.len())
        };
        Ok(LazyList { undecoded: Undecoded::Binary { at, end, left, max_element, body }, kind: PhantomData })
    }

    /// Like [`LazyList::of_binary`], for JSON of this `length` that was parsed. The length of an element has no limit of its
    /// own, as all of them are parsed.
    pub fn of_json(mut value: Wiped<Value>, length: usize, is_signed: bool) -> Result<LazyList<T>, ReadError> {
        let holder = if is_signed { json_member(&mut value, "entity") } else { Some(&mut value.0) };
        let Some(Value::Array(values)) = holder.and_then(|holder| json_member(holder, "data")) else {
            return Err(ReadError::Missing("data"));
        };
        let (values, bytes) = (std::mem::take(values).into_iter(), length * BYTES_PER_JSON_BYTE);
        Ok(LazyList { undecoded: Undecoded::Json { values, bytes }, kind: PhantomData })
    }

    /// Returns the number of elements not yet decoded, as announced by the sender: there may be fewer.
    pub fn left(&self) -> usize {
        match &self.undecoded {
            Undecoded::Binary { left, .. } => *left,
            Undecoded::Json { values, .. } => values.len(),
        }
    }

    /// Returns the approximate bytes of memory held until it is dropped.
    pub fn held_bytes(&self) -> usize {
        match &self.undecoded {
            Undecoded::Binary { body, .. } => body.len(),
            Undecoded::Json { bytes, .. } => *bytes,
        }
    }

    /// Decodes the next element; `None` after the last one. After an error nothing more is returned. An element that is too
    /// long is an error.
    pub fn next(&mut self, context: Context) -> Option<Result<T, ReadError>> {
        let read = match &mut self.undecoded {
            Undecoded::Json { values, .. } => {
                let value = values.next()?;
                JsonDecoder::new(&value, context).and_then(|mut source| T::read(&mut source))
            }
            Undecoded::Binary { left: 0, .. } => return None,
            Undecoded::Binary { body, at, end, left, max_element } => {
                *left -= 1;
                let rest = body.get(*at..*end).unwrap_or_default();
                match ByteReader(rest).sized() {
                    Some(element) if element.len() > *max_element => Err(ReadError::Internal(format!(
                        "an element of a list has {} bytes, more than {max_element}",
                        element.len()
                    ))),
                    _ => {
                        let mut source = BinaryDecoder::new(rest, context);
                        let element = source.need_object("data", T::read);
                        *at = *end - source.remaining().len();
                        element
                    }
                }
            }
        };
        if read.is_err() {
            self.undecoded = Undecoded::Json { values: Vec::new().into_iter(), bytes: 0 };
        }
        Some(read)
    }
}

/// Returns a member of an object; of duplicates, the last.
pub fn json_member<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    let Value::Object(members) = value else { return None };
    members.iter_mut().rev().find(|(label, _)| label == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Format;
    use crate::codec::binary::BinaryEncoder;
    use crate::model::Network;
    use crate::peer::wire::List;

    #[test]
    fn an_element_that_is_too_long_ends_the_list_before_it_is_decoded() {
        let context = Context::of(&Network::example());
        let list = List(vec![Height(7), Height(8)]);
        let body = Format::Binary.to_bytes(&list);
        let element = (body.len() - 4) / 2 - BinaryEncoder::LENGTH_BYTES;
        let open = |most| LazyList::<Height>::of_binary(body.clone(), context, false, most).unwrap();
        let mut short = open(element - 1);
        assert!(short.next(context).unwrap().is_err() && short.next(context).is_none());
        assert_eq!(short.held_bytes(), 0);
        let mut whole = open(element);
        assert_eq!(
            [whole.next(context), whole.next(context), whole.next(context)],
            [Some(Ok(Height(7))), Some(Ok(Height(8))), None]
        );
        // What cannot be decoded would be another error.
        let garbage = [&1_i32.to_le_bytes()[..], &40_i32.to_le_bytes(), &[255; 40]].concat();
        let error = |most| LazyList::<Block>::of_binary(garbage.clone(), context, false, most).unwrap().next(context);
        assert!(matches!(error(39), Some(Err(ReadError::Internal(_)))));
        assert!(!matches!(error(40), Some(Err(ReadError::Internal(_)))));
    }
}
