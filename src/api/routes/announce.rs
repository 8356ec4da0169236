//! Handlers that submit, prepare and list unconfirmed transactions.

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::node_handle::NodeHandle;
use crate::api::request_context::{Readable, RequestContext};
use crate::api::streams::UnconfirmedList;
use crate::api::views::{AnnounceResult, Data};
use crate::codec::transaction::NullModification;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError, SigningForm, limits, transaction};
use crate::crypto::{KeyPair, PrivateKey, Signature, verify};
use crate::model::Transaction;
use crate::model::transaction::wire_network;
use crate::rules::{self, Purpose, Rejection, RuleResult, ValidationContext, ValidationResult};

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
    context.send_stream(UnconfirmedList::new(transactions))
}
