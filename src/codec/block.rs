//! Blocks on the wire.

use super::binary::{BinarySink, BinarySource};
use super::format::{Readable, Writable};
use super::sink::{Form, Sink};
use super::source::{Context, ReadError, Source};
use super::transaction;
use crate::crypto::hash::keccak256;
use crate::model::{Block, BlockKind, Hash256, Height};

impl Block {
    /// The binary form. Transactions are verifiable in both forms.
    pub fn to_bytes(&self, form: Form) -> Vec<u8> {
        let mut sink = BinarySink::default();
        write(&mut sink, self, form);
        sink.into_bytes()
    }

    /// Hash of the non-verifiable form.
    pub fn hash(&self) -> Hash256 {
        Hash256(keccak256(&self.to_bytes(Form::NonVerifiable)))
    }

    /// Reads a block in its verifiable form from the start of `bytes`.
    pub fn from_bytes(bytes: &[u8], context: Context) -> Result<Block, ReadError> {
        read(&mut BinarySource::new(bytes, context), Form::Verifiable)
    }
}

/// In its verifiable form.
impl Writable for Block {
    fn write(&self, sink: &mut impl Sink) {
        write(sink, self, Form::Verifiable);
    }
}

/// In its verifiable form.
impl Readable for Block {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read(source, Form::Verifiable)
    }
}

/// `{"height": n}`.
impl Writable for Height {
    fn write(&self, sink: &mut impl Sink) {
        sink.u64("height", self.0);
    }
}

/// `{"height": n}`.
impl Readable for Height {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.height("height")
    }
}

/// Writes the fields of a block.
pub fn write(sink: &mut impl Sink, block: &Block, form: Form) {
    write_head(sink, block, form);
    sink.list("transactions", &block.transactions, |sink, item| transaction::write(sink, item, Form::Verifiable));
}

/// Writes the fields of a block in its verifiable form, with a [`Sink::gap`] for its transactions.
pub fn write_with_gap(sink: &mut impl Sink, block: &Block) {
    write_head(sink, block, Form::Verifiable);
    sink.gap("transactions");
}

fn write_head(sink: &mut impl Sink, block: &Block, form: Form) {
    sink.i32("type", block.kind.code());
    sink.i32("version", block.version);
    sink.i32("timeStamp", block.timestamp.0);
    sink.bytes("signer", Some(&block.signer.0));
    if form == Form::Verifiable {
        sink.bytes("signature", block.signature.as_ref().map(|signature| signature.0.as_slice()));
    }
    sink.hash("prevBlockHash", &block.previous_hash.0);
    sink.u64("height", block.height.0);
}

/// Reads the fields of a block.
pub fn read<'a, S: Source<'a>>(source: &mut S, form: Form) -> Result<Block, ReadError> {
    let mut block = read_head(source, form)?;
    block.transactions = source.need_list("transactions", |source| transaction::read(source, Form::Verifiable))?;
    Ok(block)
}

fn read_head<'a, S: Source<'a>>(source: &mut S, form: Form) -> Result<Block, ReadError> {
    let code = source.need_i32("type")?;
    let kind = BlockKind::from_code(code).ok_or_else(|| ReadError::Argument(format!("Unknown block type: {code}")))?;
    Ok(Block {
        kind,
        version: source.need_i32("version")?,
        timestamp: source.timestamp("timeStamp")?,
        signer: source.public_key("signer")?,
        signature: match form {
            Form::Verifiable => Some(source.signature("signature")?),
            Form::NonVerifiable => None,
        },
        previous_hash: source.hash("prevBlockHash")?,
        height: source.height("height")?,
        transactions: Vec::new(),
    })
}

/// A block in its verifiable binary form, of which the transactions were left unread.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The block, without its transactions.
    pub block: Block,
    /// How many it has.
    pub transactions: usize,
    /// Where the first of them begins, for [`transaction_at`].
    pub first: usize,
}

impl Outline {
    /// Reads a block from the start of `bytes`.
    pub fn read(bytes: &[u8], context: Context) -> Result<Outline, ReadError> {
        let mut source = BinarySource::new(bytes, context);
        let block = read_head(&mut source, Form::Verifiable)?;
        let transactions = usize::try_from(source.need_i32("transactions")?).unwrap_or(0);
        Ok(Outline { block, transactions, first: bytes.len() - source.rest().len() })
    }
}

/// The binary form of the transaction of a block that begins at a place, and the place of the one after it. `None` if
/// the block ends before.
pub fn transaction_at(block: &[u8], place: usize) -> Option<(&[u8], usize)> {
    let (length, rest) = block.get(place..)?.split_first_chunk()?;
    let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
    Some((rest.get(..length)?, place + length.checked_add(4)?))
}
