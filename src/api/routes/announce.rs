//! Handlers that submit, prepare and list unconfirmed transactions.

use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::call::{Call, Readable};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::long::UnconfirmedList;
use crate::api::views::{AnnounceResult, Data};
use crate::codec::transaction::NullModification;
use crate::codec::wipe::Wiped;
use crate::codec::{Form, ReadError, Source, limits, transaction};
use crate::crypto::{KeyPair, PrivateKey, Signature, verify};
use crate::model::Transaction;
use crate::model::transaction::wire_network;
use crate::rules::{self, Case, Purpose, Refusal, ValidationResult, Verdict};

/// Maximum number of unconfirmed transactions that are shown of an account.
const MAX_SHOWN: usize = 25;

/// The bytes of a transaction, and its signature, which is parsed only after the transaction.
struct Signed {
    data: Vec<u8>,
    signature: Vec<u8>,
}

impl Readable for Signed {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let data = source.need_bytes("data")?.into_owned();
        Ok(Signed { data, signature: source.need_bytes("signature")?.into_owned() })
    }
}

/// A transaction without its signature.
struct Unsigned(Transaction);

impl Readable for Unsigned {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        transaction::read(source, Form::NonVerifiable).map(Unsigned)
    }
}

/// A transaction that the node signs, and the digits of the private key.
struct ToSign {
    transaction: Transaction,
    private_key: Wiped<String>,
}

impl Readable for ToSign {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let Unsigned(transaction) = source.need_object("transaction", Unsigned::read)?;
        let private_key = Wiped(source.need_string("privateKey", limits::TEXT_UNITS)?.into_owned());
        Ok(ToSign { transaction, private_key })
    }
}

/// `POST /transaction/announce`
pub fn announce(call: &mut Call<'_>) -> Result<(), Failure> {
    let Signed { data, signature } = call.body()?;
    let context = call.view.context();
    match (Transaction::from_bytes(&data, Form::NonVerifiable, context), NullModification::from_bytes(&data, context)) {
        (Err(error), Some(null)) => refuse(call, &null, &signature_of(signature)?, error),
        (transaction, _) => {
            let transaction = transaction?;
            let is_rewritten = transaction.signed_bytes() != data;
            offer(call, Transaction { signature: Some(signature_of(signature)?), ..transaction }, is_rewritten)
        }
    }
}

fn signature_of(bytes: Vec<u8>) -> Result<Signature, Failure> {
    let bytes = bytes.try_into().map(Signature);
    bytes.map_err(|_| Failure::argument("binary signature representation must be 64 bytes"))
}

/// Responds to a transaction that cannot be represented: with `error` if its signature is valid.
fn refuse(
    call: &mut Call<'_>,
    transaction: &NullModification,
    signature: &Signature,
    error: ReadError,
) -> Result<(), Failure> {
    let mut result = ValidationResult::FailureWrongNetwork;
    if wire_network(transaction.version) == call.view.network.byte {
        call.need_network()?;
        call.budget.spend(cost::ANNOUNCEMENT);
        let is_signed = verify(&transaction.signer, &transaction.signed_bytes, signature);
        if is_signed.map_err(|error| Failure::Argument(error.to_string().into()))? {
            return Err(error.into());
        }
        result = ValidationResult::FailureSignatureNotVerifiable;
    }
    call.send(&AnnounceResult { result, hash: transaction.hash(), inner_hash: None })
}

/// `POST /transaction/prepare-announce`
pub fn prepare_announce(call: &mut Call<'_>) -> Result<(), Failure> {
    let ToSign { mut transaction, private_key } = call.body()?;
    let private_key = PrivateKey::from_hex(&private_key).map_err(|error| Failure::bad_hex(&error))?;
    call.budget.spend(cost::KEY);
    transaction.signature = Some(KeyPair::new(&private_key).sign(&transaction.signed_bytes()));
    offer(call, transaction, false)
}

/// Submits a transaction and responds with the validation result; the HTTP status is 200 whatever it is. `is_rewritten`
/// if the bytes sent are not the network's form of the transaction.
fn offer(call: &mut Call<'_>, transaction: Transaction, is_rewritten: bool) -> Result<(), Failure> {
    let (hash, inner_hash) = (transaction.hash(), transaction.inner().map(Transaction::hash));
    let result = take_in(transaction, call.view, call.actions, call.budget)?;
    if is_rewritten && result == ValidationResult::FailureSignatureNotVerifiable {
        call.audits.tell_rewritten(&hash, call.now.running);
    }
    call.send(&AnnounceResult { result, hash, inner_hash })
}

/// Submits an announced or pushed transaction and returns its validation result. A node that has not joined its network
/// accepts none, but remembers that the transaction came.
pub fn take_in(
    transaction: Transaction,
    view: &ChainView<'_>,
    actions: &mut dyn Actions,
    budget: &mut Budget,
) -> Result<ValidationResult, Failure> {
    let is_ours = wire_network(transaction.version) == view.network.byte;
    if is_ours && !view.is_booted() {
        return actions.note_early(&transaction).ok_or(Failure::NOT_BOOTED);
    }
    budget.spend(cost::ANNOUNCEMENT);
    result_of(actions.announce(transaction))
}

/// `POST /transaction/prepare`: validates a transaction against the confirmed state, as part of the next block.
pub fn prepare(call: &mut Call<'_>) -> Result<(), Failure> {
    let Unsigned(transaction) = call.body()?;
    call.budget.spend(cost::JUDGEMENT);
    let (view, now) = (call.view, call.now.network);
    let (state, network) = (view.snapshot, view.network);
    let case = Case { state, network, height: view.height.next(), now, purpose: Purpose::Prepare };
    match result_of(rules::check_transaction(&transaction, &case).map(drop))? {
        ValidationResult::Success => call.send(&Data(&transaction.signed_bytes())),
        refusal => Err(Failure::argument(refusal.name())),
    }
}

fn result_of(outcome: Verdict) -> Result<ValidationResult, Failure> {
    match outcome {
        Ok(()) => Ok(ValidationResult::Success),
        Err(Refusal::Result(result)) => Ok(result),
        Err(Refusal::Exception(exception)) => Err(exception.into()),
        Err(Refusal::Store(error)) => Err(error.into()),
    }
}

/// `GET /account/unconfirmedTransactions`
pub fn unconfirmed(call: &mut Call<'_>) -> Result<(), Failure> {
    let transactions = call.actions.unconfirmed(&call.address()?, MAX_SHOWN)?;
    call.send_long(UnconfirmedList::new(transactions))
}
