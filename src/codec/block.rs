//! Blocks on the wire (specification 01 §12).

use super::binary::{BinarySink, BinarySource};
use super::sink::{Form, Sink};
use super::source::{Context, ReadError, Source};
use super::transaction;
use crate::crypto::hash::keccak256;
use crate::model::{Block, BlockKind, Hash256};

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

/// Writes the fields of a block.
pub fn write(sink: &mut impl Sink, block: &Block, form: Form) {
    sink.i32("type", block.kind.code());
    sink.i32("version", block.version);
    sink.i32("timeStamp", block.timestamp.0);
    sink.bytes("signer", Some(&block.signer.0));
    if form == Form::Verifiable {
        sink.bytes("signature", block.signature.as_ref().map(|signature| signature.0.as_slice()));
    }
    sink.hash("prevBlockHash", &block.previous_hash.0);
    sink.u64("height", block.height.0);
    sink.list("transactions", &block.transactions, |sink, item| transaction::write(sink, item, Form::Verifiable));
}

/// Reads the fields of a block.
pub fn read<'a, S: Source<'a>>(source: &mut S, form: Form) -> Result<Block, ReadError> {
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
        transactions: source.need_list("transactions", |source| transaction::read(source, Form::Verifiable))?,
    })
}
