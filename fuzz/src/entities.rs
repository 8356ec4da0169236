//! Properties of every transaction and block that can be read.

use std::sync::LazyLock;

use nisd::codec::binary::{BinaryDecoder, BinaryEncoder};
use nisd::codec::json::{JsonDecoder, JsonEncoder};
use nisd::codec::lenient_json;
use nisd::codec::{Context, ReadError, SigningForm, block, transaction};
use nisd::model::{Address, Block, NetworkByte, Transaction};

/// The three networks with the signers of their nemesis blocks, whose fees are read as zero. For testnet it is the
/// nemesis account of the chain in `tests/data/recorded/chains/tiny`.
static CONTEXTS: LazyLock<[Context; 3]> = LazyLock::new(|| {
    [
        (NetworkByte::TESTNET, "TAABRCHNTAKNKOB77TWEORMYVCF3ERG4VUMQBLDK"),
        (NetworkByte::MAINNET, "NANEMOABLAGR72AZ2RV3V4ZHDCXW25XQ73O7OBT5"),
        (NetworkByte::MIJINNET, "MDY6LYMYW4BV5H5QIVRSDXVEYFC4HABIUSTJ57QQ"),
    ]
    .map(|(network, nemesis)| Context {
        network,
        nemesis_signer: Address::parse(nemesis, network).expect("a valid constant"),
        trusted: false,
    })
});

/// Splits off the first byte, which selects how the rest is read: bit 0 is the non-verifiable form, bits 1 and 2 the
/// network (testnet, mainnet, mijinnet).
pub fn read_as(data: &[u8]) -> Option<(SigningForm, Context, &[u8])> {
    let (selector, bytes) = data.split_first()?;
    let form = if selector & 1 == 0 { SigningForm::Verifiable } else { SigningForm::NonVerifiable };
    let context = CONTEXTS.get(usize::from(selector >> 1 & 3))?;
    Some((form, *context, bytes))
}

/// Returns the first byte for [`read_as`], as a digit.
pub fn selector(form: SigningForm, network: &str) -> u8 {
    let network = ["testnet", "mainnet", "mijinnet"].iter().position(|name| *name == network);
    b'0' + 2 * network.expect("one of the three") as u8 + u8::from(form == SigningForm::NonVerifiable)
}

/// An entity with both its formats.
pub trait Entity: Sized + PartialEq + std::fmt::Debug {
    /// Reads the binary format.
    fn from_binary(bytes: &[u8], form: SigningForm, context: Context) -> Result<Self, ReadError>;
    /// Writes the binary format.
    fn to_binary(&self, form: SigningForm) -> Vec<u8>;
    /// Reads the JSON format.
    fn from_json(source: JsonDecoder<'_>, form: SigningForm) -> Result<Self, ReadError>;
    /// Writes the JSON format.
    fn to_json(&self, form: SigningForm) -> Vec<u8>;
    /// Returns its hash.
    fn hash_bytes(&self) -> [u8; 32];
}

impl Entity for Transaction {
    fn from_binary(bytes: &[u8], form: SigningForm, context: Context) -> Result<Self, ReadError> {
        Transaction::from_bytes(bytes, form, context)
    }

    fn to_binary(&self, form: SigningForm) -> Vec<u8> {
        self.to_bytes(form)
    }

    fn from_json(mut source: JsonDecoder<'_>, form: SigningForm) -> Result<Self, ReadError> {
        transaction::read(&mut source, form)
    }

    fn to_json(&self, form: SigningForm) -> Vec<u8> {
        JsonEncoder::document(|sink| transaction::write(sink, self, form))
    }

    fn hash_bytes(&self) -> [u8; 32] {
        self.hash().0
    }
}

impl Entity for Block {
    fn from_binary(bytes: &[u8], form: SigningForm, context: Context) -> Result<Self, ReadError> {
        block::read(&mut BinaryDecoder::new(bytes, context), form)
    }

    fn to_binary(&self, form: SigningForm) -> Vec<u8> {
        BinaryEncoder::document(|sink| block::write(sink, self, form))
    }

    fn from_json(mut source: JsonDecoder<'_>, form: SigningForm) -> Result<Self, ReadError> {
        block::read(&mut source, form)
    }

    fn to_json(&self, form: SigningForm) -> Vec<u8> {
        JsonEncoder::document(|sink| block::write(sink, self, form))
    }

    fn hash_bytes(&self) -> [u8; 32] {
        self.hash().0
    }
}

/// Checks that an entity that is written and read again, in either format, keeps its bytes and its hash.
pub fn check_entity<E: Entity>(entity: &E, form: SigningForm, context: Context) {
    let bytes = entity.to_binary(form);
    check_binary(entity, &bytes, form, context);
    // Values that this node wrote to its store are read with fewer checks, but to the same result.
    check_binary(entity, &bytes, form, Context { trusted: true, ..context });

    let json = entity.to_json(form);
    serde_json::from_slice::<serde_json::Value>(&json).expect("the JSON form is JSON");
    let value = lenient_json::parse(&json).expect("the JSON form is read");
    let source = JsonDecoder::new(&value, context).expect("an entity is an object");
    let again = E::from_json(source, form).expect("the JSON form is that of an entity");
    assert_eq!(again.to_json(form), json);
    assert_eq!(again.to_binary(form), bytes);
    assert_eq!(again, *entity);
}

fn check_binary<E: Entity>(entity: &E, bytes: &[u8], form: SigningForm, context: Context) {
    let again = E::from_binary(bytes, form, context).expect("the binary form is read");
    assert_eq!(again.to_binary(form), bytes);
    assert_eq!(again.hash_bytes(), entity.hash_bytes());
    assert_eq!(again, *entity);
}
