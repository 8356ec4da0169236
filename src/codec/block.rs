//! Blocks on the wire.

use super::binary::{BinarySink, BinarySource};
use super::format::{Readable, Writable};
use super::sink::{Form, Sink};
use super::source::{Context, ReadError, Source};
use super::transaction;
use crate::crypto::hash::keccak256;
use crate::model::{Block, BlockKind, Hash256, Height};

impl Block {
    /// Returns the binary form. Transactions are verifiable in both forms.
    pub fn to_bytes(&self, form: Form) -> Vec<u8> {
        let mut sink = BinarySink::default();
        write(&mut sink, self, form);
        sink.into_bytes()
    }

    /// Returns the verifiable binary form, and the offset of each transaction's length in it.
    pub fn to_indexed_bytes(&self) -> (Vec<u8>, Vec<usize>) {
        let mut sink = BinarySink::default();
        let mut starts = Vec::with_capacity(self.transactions.len());
        write_head(&mut sink, self, Form::Verifiable);
        sink.list("transactions", &self.transactions, |sink, transaction| {
            starts.push(sink.written() - BinarySink::LENGTH_BYTES);
            transaction::write(sink, transaction, Form::Verifiable);
        });
        (sink.into_bytes(), starts)
    }

    /// Returns the hash of the non-verifiable form.
    pub fn hash(&self) -> Hash256 {
        Hash256(keccak256(&self.to_bytes(Form::NonVerifiable)))
    }

    /// Reads a block in its verifiable form from the start of `bytes`.
    pub fn from_bytes(bytes: &[u8], context: Context) -> Result<Block, ReadError> {
        read(&mut BinarySource::new(bytes, context), Form::Verifiable)
    }
}

/// Written in the verifiable form.
impl Writable for Block {
    fn write(&self, sink: &mut impl Sink) {
        write(sink, self, Form::Verifiable);
    }
}

/// Read in the verifiable form.
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

/// Reads the fields of a block in its verifiable binary form, without its transactions.
pub fn read_without_transactions(head: &[u8], context: Context) -> Result<Block, ReadError> {
    read_head(&mut BinarySource::new(head, context), Form::Verifiable)
}
