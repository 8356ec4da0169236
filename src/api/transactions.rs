//! Transactions: handlers that look up, submit and prepare them.

use super::routes::{BodyLimit, Route, get, post};
use super::{ApiError, NodeContext, RequestContext, RequestResult, ResultKind, View};
use crate::budget::cost;
use crate::chain::ChainSnapshot;
use crate::codec::transaction::NullModification;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, Encoder, ReadError, Readable, SigningForm, limits, transaction};
use crate::crypto::{KeyPair, PrivateKey, Signature, verify};
use crate::model::transaction::wire_network;
use crate::model::{Hash256, Height, Transaction};
use crate::rules::{self, Purpose, Rejection, RuleResult, ValidationContext, ValidationResult};
use crate::state::{self, TxLocation};
use crate::store::StoreError;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/transaction/get", by_hash).cached(),
    post("/transaction/announce", announce).with_bodies(BodyLimit::Large).reading_store().needing_mempool(),
    post("/transaction/prepare-announce", prepare_announce).with_bodies(BodyLimit::Large).local().needing_mempool(),
    post("/transaction/prepare", prepare).with_bodies(BodyLimit::Large).local().reading_store(),
];

pub(super) const DAMAGED: StoreError = StoreError::Damaged("the location of a transaction");

/// Location and hashes of a transaction.
pub struct TransactionMeta {
    /// Height of its block.
    pub height: Height,
    /// Id in the node-wide sequence; 0 in notifications.
    pub id: u64,
    /// Its hash.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    pub inner_hash: Option<Hash256>,
}

impl View for TransactionMeta {
    fn write(&self, sink: &mut impl Encoder) {
        sink.u64("height", self.height.0);
        sink.u64("id", self.id);
        sink.hash("hash", &self.hash.0);
        write_hash(sink, "innerHash", self.inner_hash.as_ref());
    }
}

pub(super) fn write_hash(sink: &mut impl Encoder, label: &'static str, hash: Option<&Hash256>) {
    match hash {
        Some(hash) => sink.hash(label, &hash.0),
        None => sink.null_object(label),
    }
}

/// A transaction with its metadata.
pub struct TransactionPair<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Metadata.
    pub meta: TransactionMeta,
}

impl TransactionPair<'_> {
    /// Creates the pair of a transaction with this height, id and hash.
    pub fn new(transaction: &Transaction, height: Height, id: u64, hash: Hash256) -> TransactionPair<'_> {
        let inner_hash = transaction.inner().map(Transaction::hash);
        TransactionPair { transaction, meta: TransactionMeta { height, id, hash, inner_hash } }
    }
}

impl View for TransactionPair<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("transaction", |sink| self.transaction.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

/// Response to an announced transaction.
struct AnnounceResult {
    result: ValidationResult,
    hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction.
    inner_hash: Option<Hash256>,
}

impl View for AnnounceResult {
    fn write(&self, sink: &mut impl Encoder) {
        let (code, message) = (self.result.code(), self.result.name());
        RequestResult { kind: ResultKind::Validation, code, message }.write(sink);
        write_hash(sink, "innerTransactionHash", self.inner_hash.as_ref());
        sink.hash("transactionHash", &self.hash.0);
    }
}

/// `{"data": hex}`.
pub(super) struct Data<'a>(pub &'a [u8]);

impl View for Data<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("data", Some(self.0));
    }
}

/// `GET /transaction/get`; with `nested=true` also returns the transaction that contains an inner one or cosignature.
fn by_hash(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    if !context.settings.features.transaction_hash_lookup {
        return Err(ApiError::internal("this node does not support transaction lookup using a hash"));
    }
    let Some((hash, entry)) = context.find_hash(&context.hex("hash")?)? else {
        return Err(ApiError::argument("Hash was not found in cache"));
    };
    let takes_nested = context.flag("nested")?;
    if entry.is_nested && !takes_nested {
        return Err(ApiError::no_transaction(&hash));
    }
    let place = TxLocation { height: entry.height, index: entry.index };
    let chain = context.node.chain;
    let id = state::transaction_id(chain.snapshot, place)?;
    let (raw, id) = chain.transaction(place)?.zip(id).ok_or(DAMAGED)?;
    let transaction = raw.read()?;
    context.node.budget.charge(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
    let hash = if entry.is_nested { raw.hash(&transaction) } else { hash };
    context.response.send(&TransactionPair::new(&transaction, entry.height, id, hash))
}

/// The bytes of a transaction, and its signature, which is parsed only after the transaction.
struct Signed {
    data: Vec<u8>,
    signature: Vec<u8>,
}

impl Readable for Signed {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let data = source.need_bytes("data")?.into_owned();
        Ok(Signed { data, signature: source.need_bytes("signature")?.into_owned() })
    }
}

/// A transaction without its signature.
struct Unsigned(Transaction);

impl Readable for Unsigned {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        transaction::read(source, SigningForm::NonVerifiable).map(Unsigned)
    }
}

/// A transaction that the node signs, and the digits of the private key.
struct ToSign {
    transaction: Transaction,
    private_key: Wiped<String>,
}

impl Readable for ToSign {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let Unsigned(transaction) = source.need_object("transaction", Unsigned::read)?;
        let private_key = Wiped(source.need_string("privateKey", limits::MAX_TEXT_UTF16)?.into_owned());
        Ok(ToSign { transaction, private_key })
    }
}

/// `POST /transaction/announce`
fn announce(call: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Signed { data, signature } = call.body()?;
    let context = call.node.chain.context();
    let read = Transaction::from_bytes(&data, SigningForm::NonVerifiable, context);
    match (read, NullModification::from_bytes(&data, context)) {
        (Err(error), Some(null)) => reject(call, &null, &signature_of(signature)?, error),
        (read, _) => {
            let transaction = read?;
            let is_rewritten = transaction.signed_bytes() != data;
            let signature = Some(signature_of(signature)?);
            submit_and_respond(call, Transaction { signature, ..transaction }, is_rewritten)
        }
    }
}

fn signature_of(bytes: Vec<u8>) -> Result<Signature, ApiError> {
    let bytes = bytes.try_into().map(Signature);
    bytes.map_err(|_| ApiError::argument("binary signature representation must be 64 bytes"))
}

/// Responds to a transaction that cannot be represented: with `error` if its signature is valid.
fn reject(
    context: &mut RequestContext<'_>,
    transaction: &NullModification,
    signature: &Signature,
    error: ReadError,
) -> Result<(), ApiError> {
    let mut result = ValidationResult::FailureWrongNetwork;
    if wire_network(transaction.version) == context.node.chain.network.byte {
        context.node.require_joined()?;
        context.node.budget.charge(cost::ANNOUNCEMENT);
        let is_signed = verify(&transaction.signer, &transaction.signed_bytes, signature);
        if is_signed.map_err(|error| ApiError::new(400, error.to_string()))? {
            return Err(error.into());
        }
        result = ValidationResult::FailureSignatureNotVerifiable;
    }
    context.response.send(&AnnounceResult { result, hash: transaction.hash(), inner_hash: transaction.inner_hash })
}

/// `POST /transaction/prepare-announce`
fn prepare_announce(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let ToSign { mut transaction, private_key } = context.body()?;
    let private_key = PrivateKey::from_hex(&private_key)?;
    context.node.budget.charge(cost::KEY);
    transaction.signature = Some(KeyPair::new(&private_key).sign(&transaction.signed_bytes()));
    submit_and_respond(context, transaction, false)
}

/// Submits a transaction and responds with the validation result; the HTTP status is 200 whatever it is. `is_rewritten`
/// if the bytes sent are not the network's form of the transaction.
fn submit_and_respond(
    context: &mut RequestContext<'_>,
    transaction: Transaction,
    is_rewritten: bool,
) -> Result<(), ApiError> {
    let (hash, inner_hash) = (transaction.hash(), transaction.inner().map(Transaction::hash));
    let result = submit(transaction, &mut context.node)?;
    if is_rewritten && result == ValidationResult::FailureSignatureNotVerifiable {
        context.request_history.warn_rewritten(&hash, context.node.now.monotonic);
    }
    context.response.send(&AnnounceResult { result, hash, inner_hash })
}

/// Submits an announced or pushed transaction and returns its validation result. A node that has not joined its network
/// accepts none, but remembers that the transaction came.
pub fn submit(transaction: Transaction, node: &mut NodeContext<'_>) -> Result<ValidationResult, ApiError> {
    let is_ours = wire_network(transaction.version) == node.chain.network.byte;
    if is_ours && !node.status.is_joined() {
        let remembered = node.mempool.result_before_join(&transaction);
        return remembered.ok_or(ApiError::NOT_BOOTED);
    }
    node.budget.charge(cost::ANNOUNCEMENT);
    let checked_before = node.mempool.checked_signatures();
    let outcome = node.mempool.announce(transaction, &node.chain);
    // One signature is in the cost of the announcement.
    let further = (node.mempool.checked_signatures() - checked_before).saturating_sub(1);
    node.budget.charge(cost::VERIFICATION.saturating_mul(u32::try_from(further).unwrap_or(u32::MAX)));
    let accepted = outcome.as_ref().ok().and_then(Option::as_ref);
    if let (Some(accepted), Some(peers)) = (accepted, node.peers.as_deref_mut().filter(|peers| peers.is_booted())) {
        peers.queue_transaction(accepted);
    }
    result_of(outcome.map(drop))
}

/// `POST /transaction/prepare`: validates a transaction against the confirmed state, as part of the next block.
fn prepare(call: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Unsigned(transaction) = call.body()?;
    call.node.budget.charge(cost::VALIDATION);
    let ChainSnapshot { snapshot: state, network, height, now } = call.node.chain;
    let context =
        ValidationContext { state, block: None, network, height: height.next(), now, purpose: Purpose::Prepare };
    match result_of(rules::check_transaction(&transaction, &context).map(drop))? {
        ValidationResult::Success => call.response.send(&Data(&transaction.signed_bytes())),
        rejection => Err(ApiError::argument(rejection.name())),
    }
}

fn result_of(outcome: RuleResult) -> Result<ValidationResult, ApiError> {
    match outcome {
        Ok(()) => Ok(ValidationResult::Success),
        Err(Rejection::Result(result)) => Ok(result),
        Err(rejection) => Err(rejection.into()),
    }
}
