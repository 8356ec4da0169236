//! Transactions on the wire.

use super::binary::{BinaryDecoder, BinaryEncoder};
use super::mosaic::{read_definition, read_mosaic, read_mosaic_id, read_namespace, write_mosaic_id};
use super::{
    ByteReader, Context, Decoder, Encoder, Measure, ReadError, Readable, Result, SigningForm, Writable, limits,
};
use crate::crypto::PublicKey;
use crate::crypto::hash::{keccak256, keccak256_parts};
use crate::model::mosaic::{NameError, is_part};
use crate::model::transaction::{
    AggregateModification, Cosignature, Hashes, ImportanceTransfer, LinkMode, Message, MessageKind, Modification,
    ModificationKind, MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
    TransactionKind, Transfer, entity_version,
};
use crate::model::{Address, Amount, Body, Hash256, Mosaic, NetworkByte, Timestamp, Transaction};

const MAX_SUPPLY_DELTA: u64 = crate::model::mosaic::MAX_QUANTITY;

/// An aggregate modification with a single null modification, or a multisig transaction with one inside. NIS1 reads it and
/// checks its signature before it rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NullModification {
    /// Network byte and entity version.
    pub version: i32,
    /// Key of the signer.
    pub signer: PublicKey,
    /// The bytes that the signature covers.
    pub signed_bytes: Vec<u8>,
    /// Hash of the inner transaction, if it is a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl NullModification {
    /// Reads it from the start of `bytes`, which are not verifiable; `None` if they are anything else.
    pub fn from_bytes(bytes: &[u8], context: Context) -> Option<NullModification> {
        /// Bytes of a transaction before its body.
        const HEADER: usize = 60;
        /// A list with one element of length 0.
        const NULL: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];
        // An inner transaction follows its length.
        let start = if is_multisig(bytes)? { HEADER + 4 } else { 0 };
        let replace = |bytes: &[u8], old: &[u8], new: &[u8]| {
            let (before, list) = bytes.split_at_checked(start + HEADER)?;
            let mut replaced = [before, new, list.strip_prefix(old)?].concat();
            if let Some(length) = replaced.get_mut(HEADER..start).and_then(|length| length.first_chunk_mut()) {
                let grown = i32::from_le_bytes(*length).checked_add(new.len() as i32 - old.len() as i32)?;
                *length = grown.to_le_bytes();
            }
            Some(replaced)
        };
        // A list with one valid element of 40 bytes, an addition of a key of 32 bytes, is substituted to read the rest.
        let fields = [1, 40, ModificationKind::Add.code(), 32].map(i32::to_le_bytes);
        let stand_in = [fields.as_flattened(), &[0; 32]].concat();
        let read = Transaction::from_bytes(&replace(bytes, &NULL, &stand_in)?, SigningForm::NonVerifiable, context);
        let read = read.ok()?;
        matches!(read.inner().unwrap_or(&read).body, Body::AggregateModification(_)).then_some(())?;
        let signed_bytes = replace(&read.signed_bytes(), &stand_in, &NULL)?;
        let inner_hash = read.inner().map(|_| Hash256(keccak256(&signed_bytes[start..])));
        Some(NullModification { version: read.version, signer: read.signer, signed_bytes, inner_hash })
    }

    /// Returns the hash.
    pub fn hash(&self) -> Hash256 {
        Hash256(keccak256(&self.signed_bytes))
    }
}

impl Transaction {
    /// Returns the bytes that are hashed and signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        self.to_bytes(SigningForm::NonVerifiable)
    }

    /// Returns the binary form.
    pub fn to_bytes(&self, form: SigningForm) -> Vec<u8> {
        BinaryEncoder::document(|sink| write(sink, self, form))
    }

    /// Returns the hash of the non-verifiable form.
    pub fn hash(&self) -> Hash256 {
        Hash256(keccak256(&self.signed_bytes()))
    }

    /// Returns its hash and those of its children.
    pub fn hashes(&self) -> Hashes {
        Hashes { own: self.hash(), children: self.children().map(Transaction::hash).collect() }
    }

    /// Reads a transaction from the start of `bytes`.
    pub fn from_bytes(bytes: &[u8], form: SigningForm, context: Context) -> Result<Transaction> {
        read(&mut BinaryDecoder::new(bytes, context), form)
    }
}

/// Written in the verifiable form.
impl Writable for Transaction {
    fn write(&self, sink: &mut impl Encoder) {
        write(sink, self, SigningForm::Verifiable);
    }
}

/// Read in the verifiable form.
impl Readable for Transaction {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self> {
        read(source, SigningForm::Verifiable)
    }
}

/// Returns the latest time stamp of a transaction in its verifiable form, as this program writes it, and of the
/// transactions nested in it. Reads nothing else. `None` if the bytes end too early.
pub fn latest_timestamp(bytes: &[u8]) -> Option<Timestamp> {
    /// Bytes before a time stamp: kind and version.
    const BEFORE: usize = 8;
    /// Bytes before the inner transaction of a multisig transaction.
    const BEFORE_INNER: usize = 128;
    let time = |bytes: &[u8]| Some(Timestamp(i32::from_le_bytes(*bytes.get(BEFORE..)?.first_chunk()?)));
    let mut latest = time(bytes)?;
    if is_multisig(bytes)? {
        let mut input = ByteReader(bytes.get(BEFORE_INNER..)?);
        latest = latest.max(time(input.sized()?)?);
        for _ in 0..u32::from_le_bytes(input.array()?) {
            latest = latest.max(time(input.sized()?)?);
        }
    }
    Some(latest)
}

/// Returns the hash of a transaction in its verifiable form, as this program writes it: of all bytes but its signature.
/// `None` without a signature, and for a multisig transaction, whose hash does not cover its cosignatures either.
pub fn stored_transaction_hash(bytes: &[u8]) -> Option<Hash256> {
    /// Bytes before the signature: kind, version, time stamp and signer.
    const BEFORE: usize = 4 + 4 + 4 + (4 + 32);
    let mut input = ByteReader(bytes);
    let before = input.slice(BEFORE)?;
    let signature = input.sized()?;
    (signature.len() == 64 && !is_multisig(bytes)?).then(|| Hash256(keccak256_parts(&[before, input.0])))
}

fn is_multisig(bytes: &[u8]) -> Option<bool> {
    Some(i32::from_le_bytes(*bytes.first_chunk()?) == TransactionKind::Multisig.code())
}

/// Writes the fields of a transaction.
pub fn write(sink: &mut impl Encoder, transaction: &Transaction, form: SigningForm) {
    sink.i32("type", transaction.body.kind().code());
    sink.i32("version", transaction.version);
    sink.i32("timeStamp", transaction.timestamp.0);
    sink.bytes("signer", Some(&transaction.signer.0));
    if form == SigningForm::Verifiable {
        sink.bytes("signature", transaction.signature.as_ref().map(|signature| signature.0.as_slice()));
    }
    sink.u64("fee", transaction.fee.0);
    sink.i32("deadline", transaction.deadline.0);
    write_body(sink, transaction, form);
}

fn write_body(sink: &mut impl Encoder, transaction: &Transaction, form: SigningForm) {
    let newer = transaction.entity_version() >= 2;
    match &transaction.body {
        Body::Transfer(body) => write_transfer(sink, body, newer),
        Body::ImportanceTransfer(body) => {
            sink.i32("mode", body.mode.code());
            sink.bytes("remoteAccount", Some(&body.remote.0));
        }
        Body::AggregateModification(body) => write_modifications(sink, body, newer),
        Body::Cosignature(body) => {
            sink.hash("otherHash", &body.other_hash.0);
            sink.string("otherAccount", Some(body.other_account.as_str()));
        }
        Body::Multisig(body) => {
            sink.object("otherTrans", |sink| write(sink, &body.inner, SigningForm::NonVerifiable));
            if form == SigningForm::Verifiable {
                sink.list("signatures", &body.cosignatures, |sink, item| write(sink, item, SigningForm::Verifiable));
            }
        }
        Body::ProvisionNamespace(body) => {
            sink.string("rentalFeeSink", Some(body.rental_fee_sink.as_str()));
            sink.u64("rentalFee", body.rental_fee.0);
            sink.string("newPart", Some(&body.new_part));
            sink.string("parent", body.parent.as_ref().map(|parent| parent.as_str()));
        }
        Body::MosaicDefinitionCreation(body) => {
            sink.object("mosaicDefinition", |sink| body.definition.write(sink));
            sink.string("creationFeeSink", Some(body.creation_fee_sink.as_str()));
            sink.u64("creationFee", body.creation_fee.0);
        }
        Body::MosaicSupplyChange(body) => {
            sink.object("mosaicId", |sink| write_mosaic_id(sink, &body.mosaic));
            sink.i32("supplyType", body.kind.code());
            sink.u64("delta", body.delta);
        }
    }
}

fn write_transfer(sink: &mut impl Encoder, body: &Transfer, newer: bool) {
    sink.string("recipient", Some(body.recipient.as_str()));
    sink.u64("amount", body.amount.0);
    sink.optional("message", body.message.as_ref(), |sink, message| {
        sink.i32("type", message.kind.code());
        // Only a message that was decrypted with a private key can have an empty payload.
        sink.bytes("payload", Some(message.payload.as_slice()).filter(|payload| !payload.is_empty()));
    });
    if newer {
        sink.list("mosaics", &body.mosaics, |sink, mosaic| mosaic.write(sink));
    }
}

fn write_modifications(sink: &mut impl Encoder, body: &AggregateModification, newer: bool) {
    sink.list("modifications", &body.modifications, |sink, modification| {
        sink.i32("modificationType", modification.kind.code());
        sink.bytes("cosignatoryAccount", Some(&modification.cosignatory.0));
    });
    if newer {
        sink.optional("minCosignatories", body.min_cosignatories_change, |sink, change| {
            sink.i32("relativeChange", change);
        });
    }
}

/// Reads the fields of a transaction and normalises it.
pub fn read<'a, S: Decoder<'a>>(source: &mut S, form: SigningForm) -> Result<Transaction> {
    let kind = source.need_kind("type", TransactionKind::from_code, "Unknown transaction type")?;
    let version = source.need_i32("version")?;
    let timestamp = source.timestamp("timeStamp")?;
    let signer = source.public_key("signer")?;
    let signature = match form {
        SigningForm::Verifiable => Some(source.signature("signature")?),
        SigningForm::NonVerifiable => None,
    };
    let fee = source.amount("fee")?;
    let deadline = source.timestamp("deadline")?;
    let newer = entity_version(version) >= 2;
    let body = match kind {
        TransactionKind::Transfer => Body::Transfer(read_transfer(source, newer)?),
        TransactionKind::ImportanceTransfer => Body::ImportanceTransfer(read_importance_transfer(source)?),
        TransactionKind::AggregateModification => Body::AggregateModification(read_modifications(source, newer)?),
        TransactionKind::Cosignature => Body::Cosignature(Cosignature {
            other_hash: source.hash("otherHash")?,
            other_account: source.address("otherAccount")?,
        }),
        TransactionKind::Multisig => Body::Multisig(Box::new(read_multisig(source, form, &signer)?)),
        TransactionKind::ProvisionNamespace => Body::ProvisionNamespace(read_provision(source)?),
        TransactionKind::MosaicDefinitionCreation => {
            Body::MosaicDefinitionCreation(Box::new(read_definition_creation(source, &signer)?))
        }
        TransactionKind::MosaicSupplyChange => Body::MosaicSupplyChange(read_supply_change(source)?),
    };
    let fee = effective_fee(fee, &signer, source.context());
    Ok(Transaction { version, timestamp, signer, signature, fee, deadline, body })
}

/// Returns the fee that counts: the nemesis account pays none, whatever its transactions state.
fn effective_fee(fee: Amount, signer: &PublicKey, context: &Context) -> Amount {
    let free = fee > Amount::ZERO
        && !context.trusted
        && Address::from_public_key(signer, context.network) == context.nemesis_signer;
    if free { Amount::ZERO } else { fee }
}

fn read_transfer<'a, S: Decoder<'a>>(source: &mut S, newer: bool) -> Result<Transfer> {
    let recipient = source.address("recipient")?;
    let amount = source.amount("amount")?;
    let message = source.object("message", read_message)?.filter(|message| !message.payload.is_empty());
    let mosaics = if newer { source.need_list("mosaics", read_mosaic)? } else { Vec::new() };
    let mosaics = if source.context().trusted { mosaics } else { merge_mosaics(mosaics)? };
    Ok(Transfer { recipient, amount, message, mosaics })
}

fn read_message<'a, S: Decoder<'a>>(source: &mut S) -> Result<Message> {
    let kind = source.need_kind("type", MessageKind::from_code, "Unknown message type")?;
    Ok(Message { kind, payload: source.need_bytes("payload")?.into_owned() })
}

/// Merges mosaics with the same id and sorts them in wire order: by the text `namespace:name : quantity`.
fn merge_mosaics(mut mosaics: Vec<Mosaic>) -> Result<Vec<Mosaic>> {
    mosaics.sort_by(|a, b| a.id.cmp(&b.id));
    let mut merged: Vec<Mosaic> = Vec::with_capacity(mosaics.len());
    for mosaic in mosaics {
        match merged.last_mut().filter(|last| last.id == mosaic.id) {
            Some(last) => {
                let sum = last.quantity.wrapping_add(mosaic.quantity) as i64;
                last.quantity = u64::try_from(sum).map_err(|_| ReadError::Negative(Measure::Quantity, sum))?;
            }
            None => merged.push(mosaic),
        }
    }
    if merged.len() > 1 {
        merged.sort_by_cached_key(|mosaic| format!("{} : {}", mosaic.id, mosaic.quantity));
    }
    Ok(merged)
}

fn read_importance_transfer<'a, S: Decoder<'a>>(source: &mut S) -> Result<ImportanceTransfer> {
    let mode = source.need_i32("mode")?;
    let remote = source.public_key("remoteAccount")?;
    let mode = LinkMode::from_code(mode).ok_or(ReadError::Incompatible("mode"))?;
    Ok(ImportanceTransfer { mode, remote })
}

fn read_modifications<'a, S: Decoder<'a>>(source: &mut S, newer: bool) -> Result<AggregateModification> {
    let mut modifications = source.need_list("modifications", |source| {
        let kind = ModificationKind::from_code(source.need_i32("modificationType")?)
            .ok_or_else(|| ReadError::argument("invalid mode"))?;
        Ok(Modification { kind, cosignatory: source.public_key("cosignatoryAccount")? })
    })?;
    let read_change = |source: &mut S| source.need_i32("relativeChange");
    let change = if newer { source.object("minCosignatories", read_change)? } else { None };
    if modifications.is_empty() && change.is_none() {
        let text = if newer {
            "Either cosignatory modifications or change of minimum cosignatories must be present"
        } else {
            "Cosignatory modifications cannot be empty"
        };
        return Err(ReadError::argument(text));
    }
    let Context { network, trusted, .. } = *source.context();
    if !trusted {
        // The sort is stable.
        modifications.sort_by_cached_key(|modification| {
            (modification.kind, Address::from_public_key(&modification.cosignatory, network))
        });
    }
    Ok(AggregateModification { modifications, min_cosignatories_change: change })
}

fn read_multisig<'a, S: Decoder<'a>>(source: &mut S, form: SigningForm, signer: &PublicKey) -> Result<Multisig> {
    let inner = source.need_object("otherTrans", |source| read(source, SigningForm::NonVerifiable))?;
    let cosignatures = match form {
        SigningForm::Verifiable => source.need_list("signatures", |source| read(source, SigningForm::Verifiable))?,
        SigningForm::NonVerifiable => Vec::new(),
    };
    // Transactions from the node's own store were already checked and sorted.
    let Context { network, trusted, .. } = *source.context();
    let cosignatures =
        if trusted { cosignatures } else { normalise_cosignatures(cosignatures, &inner, signer, network)? };
    Ok(Multisig { inner, cosignatures })
}

/// Checks the cosignatures of a transaction, drops those of its initiator `signer`, keeps one per cosigner and sorts
/// them by address.
fn normalise_cosignatures(
    list: Vec<Transaction>,
    inner: &Transaction,
    signer: &PublicKey,
    network: NetworkByte,
) -> Result<Vec<Transaction>> {
    if list.is_empty() {
        return Ok(list);
    }
    let inner_hash = inner.hash();
    let account = inner.signer_address(network);
    let mut cosignatures = Vec::with_capacity(list.len());
    for cosignature in list {
        check_cosignature(&cosignature, &inner_hash, &account)?;
        if cosignature.signer != *signer {
            cosignatures.push((cosignature.signer_address(network), cosignature));
        }
    }
    // The sort is stable, so the first of several by one signer stays.
    cosignatures.sort_by_key(|(address, _)| *address);
    cosignatures.dedup_by(|(later, _), (earlier, _)| later == earlier);
    Ok(cosignatures.into_iter().map(|(_, cosignature)| cosignature).collect())
}

fn check_cosignature(cosignature: &Transaction, inner_hash: &Hash256, account: &Address) -> Result<()> {
    let Body::Cosignature(body) = &cosignature.body else {
        return Err(ReadError::Internal("a list of cosignatures holds another kind of transaction".to_owned()));
    };
    let problem = if body.other_hash != *inner_hash {
        "trying to add a signature for another transaction to a multisig transaction"
    } else if body.other_account != *account {
        "trying to add a signature with an unexpected debtor"
    } else {
        return Ok(());
    };
    Err(ReadError::argument(problem))
}

fn read_provision<'a, S: Decoder<'a>>(source: &mut S) -> Result<ProvisionNamespace> {
    let rental_fee_sink = source.address("rentalFeeSink")?;
    let rental_fee = source.amount("rentalFee")?;
    let new_part = source.need_string("newPart", limits::MAX_TEXT_UTF16)?.into_owned();
    if !is_part(&new_part) {
        return Err(ReadError::argument(NameError::bad_part(&new_part)));
    }
    let parent = source.string("parent", limits::MAX_TEXT_UTF16)?.map(|text| read_namespace(&text)).transpose()?;
    Ok(ProvisionNamespace { rental_fee_sink, rental_fee, new_part, parent })
}

fn read_definition_creation<'a, S: Decoder<'a>>(
    source: &mut S,
    signer: &PublicKey,
) -> Result<MosaicDefinitionCreation> {
    let definition = source.need_object("mosaicDefinition", read_definition)?;
    let creation_fee_sink = source.address("creationFeeSink")?;
    let creation_fee = source.amount("creationFee")?;
    if definition.creator != *signer {
        return Err(ReadError::argument("transaction signer and mosaic definition creator must be identical"));
    }
    Ok(MosaicDefinitionCreation { definition, creation_fee_sink, creation_fee })
}

fn read_supply_change<'a, S: Decoder<'a>>(source: &mut S) -> Result<MosaicSupplyChange> {
    let mosaic = source.need_object("mosaicId", read_mosaic_id)?;
    let code = source.need_i32("supplyType")?;
    let delta = source.quantity("delta")?;
    if !(1..=MAX_SUPPLY_DELTA).contains(&delta) {
        return Err(ReadError::argument(format!("delta must be between 1 and {MAX_SUPPLY_DELTA} inclusive")));
    }
    let kind =
        SupplyChangeKind::from_code(code).ok_or_else(|| ReadError::argument("supply type validity must be true"))?;
    Ok(MosaicSupplyChange { mosaic, kind, delta })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::Signature;
    use crate::model::transaction::wire_version;

    const BYTE: NetworkByte = NetworkByte::TESTNET;

    fn transaction(signer: u8, signature: Option<Signature>, body: Body) -> Transaction {
        Transaction {
            version: wire_version(BYTE, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([signer; 32]),
            signature,
            fee: Amount(1),
            deadline: Timestamp(2),
            body,
        }
    }

    /// Returns an inner transaction of one of three kinds.
    fn inner(which: u8, payload: Vec<u8>) -> Transaction {
        let address = Address::from_public_key(&PublicKey([1; 32]), BYTE);
        let message = Some(Message { kind: MessageKind::Plain, payload }).filter(|message| !message.payload.is_empty());
        let body = match which {
            0 => Body::Transfer(Transfer { recipient: address, amount: Amount(1), message, mosaics: Vec::new() }),
            1 => Body::ImportanceTransfer(ImportanceTransfer { mode: LinkMode::Activate, remote: PublicKey([3; 32]) }),
            _ => Body::AggregateModification(AggregateModification {
                modifications: vec![Modification { kind: ModificationKind::Add, cosignatory: PublicKey([4; 32]) }],
                min_cosignatories_change: None,
            }),
        };
        transaction(20, None, body)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hash_and_latest_time_stamp_of_stored_bytes_are_those_of_the_transaction(
            which in 0u8..3,
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            cosigners in proptest::collection::btree_set(30u8..60, 0..6),
            times in prop::array::uniform8(0i32..1000),
            cut in any::<prop::sample::Index>(),
        ) {
            let inner = Transaction { timestamp: Timestamp(times[0]), ..inner(which, payload) };
            let (signature, account) = (Some(Signature([7; 64])), inner.signer_address(BYTE));
            let cosignature = |signer| {
                let body = Cosignature { other_hash: inner.hash().into(), other_account: account };
                let timestamp = Timestamp(times[2 + usize::from(signer) % 6]);
                Transaction { timestamp, ..transaction(signer, signature, Body::Cosignature(body)) }
            };
            let cosignatures = cosigners.into_iter().map(cosignature).collect();
            let multisig = Multisig { inner: inner.clone(), cosignatures };
            let multisig = transaction(9, signature, Body::Multisig(Box::new(multisig)));
            let bytes = Transaction { timestamp: Timestamp(times[1]), ..multisig }.to_bytes(SigningForm::Verifiable);
            let nemesis_signer = Address::from_public_key(&PublicKey([8; 32]), BYTE);
            let context = Context { network: BYTE, nemesis_signer, trusted: false };
            let read = Transaction::from_bytes(&bytes, SigningForm::Verifiable, context).unwrap();
            let cut = cut.index(bytes.len());
            prop_assert_eq!(latest_timestamp(&bytes), read.self_and_children().map(|one| one.timestamp).max());
            prop_assert_eq!(latest_timestamp(&bytes[..cut]), None);
            prop_assert_eq!(stored_transaction_hash(&bytes), None);
            let inner = Transaction { signature, ..inner };
            prop_assert_eq!(stored_transaction_hash(&inner.to_bytes(SigningForm::Verifiable)), Some(inner.hash()));
        }
    }
}
