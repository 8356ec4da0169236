//! Transactions: handlers that look up, submit, prepare and list them.

use std::rc::Rc;

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::node_handle::NodeHandle;
use crate::api::request_context::{Readable, RequestContext};
use crate::api::streams::{ResponseStream, list_stream};
use crate::api::views::{AnnounceResult, Data, TransactionMeta, TransactionPair, Unconfirmed};
use crate::codec::transaction::NullModification;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError, SigningForm, limits, transaction};
use crate::crypto::{KeyPair, PrivateKey, Signature, verify};
use crate::model::transaction::wire_network;
use crate::model::{Hash256, Transaction};
use crate::rules;
use crate::rules::{Purpose, Rejection, RuleResult, ValidationContext, ValidationResult};
use crate::state::TxLocation;
use crate::store::StoreError;

const DAMAGED: StoreError = StoreError::Damaged("the location of a transaction");

/// `GET /transaction/get`; with `nested=true` also returns the transaction that contains an inner one or cosignature.
pub fn by_hash(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    if !context.settings.features.transaction_hash_lookup {
        return Err(ApiError::internal("this node does not support transaction lookup using a hash"));
    }
    // A hash of another length is not an error; no transaction has it.
    let hash = Hash256::try_from(context.hex("hash")?.as_slice()).ok();
    let entry = hash.map(|hash| context.find_hash(&hash)).transpose()?.flatten();
    let Some((hash, entry)) = hash.zip(entry) else {
        return Err(ApiError::argument("Hash was not found in cache"));
    };
    let takes_nested = match context.parameter("nested")?.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::argument("nested must be true or false")),
    };
    if entry.is_nested && !takes_nested {
        return Err(ApiError::no_transaction(&hash));
    }
    let place = TxLocation { height: entry.height, index: entry.index };
    let (raw, id) = context.chain.transaction(place)?.zip(context.chain.transaction_id(place)?).ok_or(DAMAGED)?;
    let transaction = raw.read()?;
    let inner_hash = transaction.inner().map(Transaction::hash);
    context.budget.charge(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
    let hash = if entry.is_nested { raw.hash(&transaction) } else { hash };
    let meta = TransactionMeta { height: entry.height, id, hash, inner_hash };
    context.send(&TransactionPair { transaction: &transaction, meta })
}

/// Maximum number of unconfirmed transactions that are shown of an account.
const MAX_SHOWN: usize = 25;

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
pub fn announce(call: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Signed { data, signature } = call.body()?;
    let context = call.chain.context();
    match (
        Transaction::from_bytes(&data, SigningForm::NonVerifiable, context),
        NullModification::from_bytes(&data, context),
    ) {
        (Err(error), Some(null)) => reject(call, &null, &signature_of(signature)?, error),
        (transaction, _) => {
            let transaction = transaction?;
            let is_rewritten = transaction.signed_bytes() != data;
            submit_and_respond(
                call,
                Transaction { signature: Some(signature_of(signature)?), ..transaction },
                is_rewritten,
            )
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
    if wire_network(transaction.version) == context.chain.network.byte {
        context.require_joined()?;
        context.budget.charge(cost::ANNOUNCEMENT);
        let is_signed = verify(&transaction.signer, &transaction.signed_bytes, signature);
        if is_signed.map_err(|error| ApiError::Argument(error.to_string().into()))? {
            return Err(error.into());
        }
        result = ValidationResult::FailureSignatureNotVerifiable;
    }
    context.send(&AnnounceResult { result, hash: transaction.hash(), inner_hash: None })
}

/// `POST /transaction/prepare-announce`
pub fn prepare_announce(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let ToSign { mut transaction, private_key } = context.body()?;
    let private_key = PrivateKey::from_hex(&private_key).map_err(|error| ApiError::bad_hex(&error))?;
    context.budget.charge(cost::KEY);
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
    let result = submit(transaction, context.chain, context.node, context.budget)?;
    if is_rewritten && result == ValidationResult::FailureSignatureNotVerifiable {
        context.request_history.warn_rewritten(&hash, context.now.uptime);
    }
    context.send(&AnnounceResult { result, hash, inner_hash })
}

/// Submits an announced or pushed transaction and returns its validation result. A node that has not joined its network
/// accepts none, but remembers that the transaction came.
pub fn submit(
    transaction: Transaction,
    view: &ChainSnapshot<'_>,
    node: &mut dyn NodeHandle,
    budget: &mut Budget,
) -> Result<ValidationResult, ApiError> {
    let is_ours = wire_network(transaction.version) == view.network.byte;
    if is_ours && !view.is_booted() {
        return node.result_before_join(&transaction).ok_or(ApiError::NOT_BOOTED);
    }
    budget.charge(cost::ANNOUNCEMENT);
    result_of(node.announce(transaction))
}

/// `POST /transaction/prepare`: validates a transaction against the confirmed state, as part of the next block.
pub fn prepare(call: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Unsigned(transaction) = call.body()?;
    call.budget.charge(cost::VALIDATION);
    let (view, now) = (call.chain, call.now.network);
    let (state, network) = (view.snapshot, view.network);
    let context =
        ValidationContext { state, block: None, network, height: view.height.next(), now, purpose: Purpose::Prepare };
    match result_of(rules::check_transaction(&transaction, &context).map(drop))? {
        ValidationResult::Success => call.send(&Data(&transaction.signed_bytes())),
        rejection => Err(ApiError::argument(rejection.name())),
    }
}

fn result_of(outcome: RuleResult) -> Result<ValidationResult, ApiError> {
    match outcome {
        Ok(()) => Ok(ValidationResult::Success),
        Err(Rejection::Result(result)) => Ok(result),
        Err(Rejection::Exception(exception)) => Err(exception.into()),
        Err(Rejection::Store(error)) => Err(error.into()),
    }
}

/// `GET /account/unconfirmedTransactions`
pub fn unconfirmed(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let transactions = context.node.unconfirmed(&context.address()?, MAX_SHOWN)?;
    context.send_stream(unconfirmed_list(transactions, None))
}

/// Approximate memory in bytes of a transaction that has left the mempool.
const TRANSACTION_BYTES: usize = 2048;

/// Unconfirmed transactions in this order: as clients see them, or bare and signed for a peer.
pub(super) fn unconfirmed_list(
    transactions: Vec<Rc<Transaction>>,
    signature: Option<Signature>,
) -> impl ResponseStream {
    let (held_bytes, is_bare) = (transactions.len() * TRANSACTION_BYTES, signature.is_some());
    let mut waiting = transactions.into_iter();
    let list = list_stream(move |step| {
        while let Some(transaction) = waiting.next() {
            let start = step.written();
            match is_bare {
                true => step.push(&*transaction),
                false => step.push(&Unconfirmed(&transaction)),
            }
            *step.held_bytes = waiting.len() * TRANSACTION_BYTES;
            step.budget.charge(cost::TRANSACTION + cost::bytes(step.written() - start));
            if !step.should_continue(waiting.len()) {
                break;
            }
        }
        Ok(())
    });
    let list = list.holding(held_bytes);
    match signature {
        Some(signature) => list.signed(signature),
        None => list,
    }
}
