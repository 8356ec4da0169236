//! Blocks on the wire.

use super::binary::{BinaryDecoder, BinaryEncoder};
use super::transaction;
use super::{Context, Decoder, Encoder, Readable, Result, SigningForm, Writable};
use crate::crypto::hash::keccak256;
use crate::model::{Block, BlockKind, Hash256, Height, Transaction};

/// Bytes of the number of transactions in the binary form.
pub const COUNT_BYTES: usize = 4;
/// Bytes of the verifiable binary form before the transactions.
pub const HEAD_BYTES: usize = 168;

/// The transactions of a block as all its forms contain them, and as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTransactions {
    /// Their number ([`COUNT_BYTES`]), and the transactions in their verifiable binary form, each after its length.
    pub bytes: Vec<u8>,
    /// The offset of each length from the first one.
    pub starts: Vec<usize>,
}

impl Block {
    /// Returns the binary form. Transactions are verifiable in both forms.
    pub fn to_bytes(&self, form: SigningForm) -> Vec<u8> {
        self.to_bytes_with(&self.encode_transactions(), form)
    }

    /// Returns the binary form with the transactions encoded before.
    pub fn to_bytes_with(&self, transactions: &EncodedTransactions, form: SigningForm) -> Vec<u8> {
        let mut bytes = BinaryEncoder::document(|sink| write_head(sink, self, form));
        bytes.extend_from_slice(&transactions.bytes);
        bytes
    }

    /// Encodes the transactions.
    pub fn encode_transactions(&self) -> EncodedTransactions {
        let mut starts = Vec::with_capacity(self.transactions.len());
        let write = |sink: &mut BinaryEncoder, transaction: &Transaction| {
            starts.push(sink.written() - BinaryEncoder::LENGTH_BYTES - COUNT_BYTES);
            transaction::write(sink, transaction, SigningForm::Verifiable);
        };
        let bytes = BinaryEncoder::document(|sink| sink.list("transactions", &self.transactions, write));
        EncodedTransactions { bytes, starts }
    }

    /// Appends the verifiable binary form, with `count` transactions in their binary form in place of its own.
    pub fn append_bytes(&self, (count, transactions): (usize, &[u8]), out: &mut Vec<u8>) {
        BinaryEncoder::append_to(out, |sink| write_head(sink, self, SigningForm::Verifiable));
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(transactions);
    }

    /// Returns the hash of the non-verifiable form.
    pub fn hash(&self) -> Hash256 {
        Hash256(keccak256(&self.to_bytes(SigningForm::NonVerifiable)))
    }

    /// Reads a block in its verifiable form from the start of `bytes`.
    pub fn from_bytes(bytes: &[u8], context: Context) -> Result<Block> {
        read(&mut BinaryDecoder::new(bytes, context), SigningForm::Verifiable)
    }
}

/// Written in the verifiable form.
impl Writable for Block {
    fn write(&self, sink: &mut impl Encoder) {
        write(sink, self, SigningForm::Verifiable);
    }
}

/// Read in the verifiable form.
impl Readable for Block {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self> {
        read(source, SigningForm::Verifiable)
    }
}

/// `{"height": n}`.
impl Writable for Height {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("height", self.0);
    }
}

/// `{"height": n}`.
impl Readable for Height {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self> {
        source.height("height")
    }
}

/// Writes the fields of a block.
pub fn write(sink: &mut impl Encoder, block: &Block, form: SigningForm) {
    write_head(sink, block, form);
    sink.list("transactions", &block.transactions, |sink, item| {
        transaction::write(sink, item, SigningForm::Verifiable)
    });
}

/// Writes the fields of a block in its verifiable form, with a [`Encoder::spliced_list`] for its transactions.
pub fn write_spliced(sink: &mut impl Encoder, block: &Block) {
    write_head(sink, block, SigningForm::Verifiable);
    sink.spliced_list("transactions");
}

fn write_head(sink: &mut impl Encoder, block: &Block, form: SigningForm) {
    sink.i32("type", block.kind.code());
    sink.i32("version", block.version);
    sink.i32("timeStamp", block.timestamp.0);
    sink.bytes("signer", Some(&block.signer.0));
    if form == SigningForm::Verifiable {
        sink.bytes("signature", block.signature.as_ref().map(|signature| signature.0.as_slice()));
    }
    sink.hash("prevBlockHash", &block.previous_hash.0);
    sink.u64("height", block.height.0);
}

/// Reads the fields of a block.
pub fn read<'a, S: Decoder<'a>>(source: &mut S, form: SigningForm) -> Result<Block> {
    Ok(Block {
        kind: source.need_kind("type", BlockKind::from_code, "Unknown block type")?,
        version: source.need_i32("version")?,
        timestamp: source.timestamp("timeStamp")?,
        signer: source.public_key("signer")?,
        signature: match form {
            SigningForm::Verifiable => Some(source.signature("signature")?),
            SigningForm::NonVerifiable => None,
        },
        previous_hash: source.hash("prevBlockHash")?,
        height: source.height("height")?,
        transactions: source.need_list("transactions", |source| transaction::read(source, SigningForm::Verifiable))?,
    })
}
