//! `/transaction/status`: what became of a transaction, wherever it is. NIS1 does not have this.

use std::collections::BTreeSet;

use super::request_context::BAD_HASH;
use super::routes::{BodyLimit, Route, get, post};
use super::streams::list_of_each;
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::codec::{Decoder, Encoder, ReadError, Readable, limits};
use crate::mempool::{Conflict, Fate, FateRecord, MempoolEntry};
use crate::model::{Address, Body, Hash256, Height, Timestamp, Transaction};
use crate::rules::ValidationResult;
use crate::state::{self, HashEntry};
use crate::store::{StoreError, stored_header};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/transaction/status", status).reading_store().needing_mempool().own(),
    post("/transaction/status/batch", statuses).with_bodies(BodyLimit::Large).reading_store().needing_mempool().own(),
];

/// Maximum number of hashes of a batch.
const MAX_HASHES: usize = 512;

/// What became of a transaction.
enum Status {
    /// It is in the mempool.
    Unconfirmed {
        /// When it arrived, in network time.
        since: Timestamp,
        deadline: Timestamp,
        /// Of a multisig transaction, who has signed it and who may still sign.
        signatures: Option<Signatures>,
    },
    /// It is in the chain.
    Confirmed { height: Height, index: u32, block: Hash256, confirmations: u64 },
    /// It is neither, and it is known why.
    Ended(FateRecord),
    /// Nothing is known of it.
    Unknown {
        /// Since when the node would know.
        known_since: Timestamp,
    },
}

/// Signatures of a multisig transaction. All lists are ordered by address.
pub(super) struct Signatures {
    signed: Vec<Address>,
    missing: Vec<Address>,
    /// How many signatures it needs.
    required: usize,
}

/// A hash, and what became of its transaction.
pub struct TransactionStatus {
    hash: Hash256,
    status: Status,
}

impl TransactionStatus {
    /// Returns the status of a transaction that has left the mempool without being confirmed.
    pub fn ended(hash: Hash256, fate: FateRecord) -> TransactionStatus {
        TransactionStatus { hash, status: Status::Ended(fate) }
    }

    /// Looks for a transaction in the mempool, in the chain, and among those that have left both.
    pub fn look_up(hash: Hash256, node: &mut NodeContext<'_>) -> Result<TransactionStatus, StoreError> {
        node.budget.charge(cost::TRANSACTION);
        let (chain, now) = (node.chain, node.chain.now);
        let status = if let Some(HashEntry { height, index, .. }) = node.find_hash(&hash)? {
            let header = stored_header(chain.snapshot, height)?.ok_or(StoreError::Damaged("a block is missing"))?;
            let confirmations = chain.height.0.saturating_sub(height.0) + 1;
            Status::Confirmed { height, index, block: header.hash, confirmations }
        } else if let Some(entry) = node.mempool.by_hash(&hash) {
            let (since, deadline) = (entry.since, entry.transaction.deadline);
            Status::Unconfirmed { since, deadline, signatures: signatures_of(entry, node)? }
        } else if let Some(fate) = node.mempool.fates.get(&hash, now) {
            Status::Ended(fate)
        } else {
            Status::Unknown { known_since: node.mempool.fates.remembered_since(now) }
        };
        Ok(TransactionStatus { hash, status })
    }
}

impl View for TransactionStatus {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("hash", Some(&self.hash.0));
        match &self.status {
            Status::Unconfirmed { since, deadline, signatures } => {
                sink.string("status", Some("unconfirmed"));
                sink.i32("since", since.0);
                sink.i32("deadline", deadline.0);
                if let Some(signatures) = signatures {
                    sink.object("multisig", |sink| signatures.write(sink));
                }
            }
            Status::Confirmed { height, index, block, confirmations } => {
                sink.string("status", Some("confirmed"));
                sink.u64("height", height.0);
                sink.i32("index", *index as i32);
                sink.bytes("blockHash", Some(&block.0));
                sink.u64("confirmations", *confirmations);
            }
            Status::Ended(FateRecord { fate, at }) => {
                let (word, result) = match fate {
                    Fate::Rejected(result) => ("rejected", *result),
                    Fate::Replaced(result, _) => ("replaced", *result),
                    Fate::Expired => ("expired", ValidationResult::FailurePastDeadline),
                    Fate::Evicted => ("evicted", ValidationResult::FailureTransactionCacheTooFull),
                };
                sink.string("status", Some(word));
                sink.i32("since", at.0);
                sink.i32("code", result.code());
                sink.string("message", Some(result.name()));
                sink.string("reason", Some(&result.explanation()));
                if let Fate::Replaced(_, Some(Conflict { hash, height })) = fate {
                    sink.object("conflict", |sink| {
                        sink.bytes("hash", Some(&hash.0));
                        if let Some(height) = height {
                            sink.u64("height", height.0);
                        }
                    });
                }
            }
            Status::Unknown { known_since } => {
                sink.string("status", Some("unknown"));
                sink.i32("knownSince", known_since.0);
            }
        }
    }
}

impl View for Signatures {
    fn write(&self, sink: &mut impl Encoder) {
        let address = |sink: &mut _, address: &Address| Encoder::string(sink, "address", Some(address.as_str()));
        sink.list("signed", &self.signed, address);
        sink.list("missing", &self.missing, address);
        sink.i32("required", self.required as i32);
    }
}

/// `GET /transaction/status`
fn status(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let status = TransactionStatus::look_up(context.hash()?, &mut context.node)?;
    context.response.send(&status)
}

/// The hashes of a batch: `{"data": [{"hash": hex}, ...]}`.
struct HashBatch(Vec<Hash256>);

impl Readable for HashBatch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let hashes = source.need_list("data", |source| {
            let text = source.need_string("hash", limits::MAX_TEXT_UTF16)?;
            Hash256::from_hex(&text).ok_or_else(|| ReadError::argument(BAD_HASH))
        })?;
        if hashes.len() > MAX_HASHES {
            return Err(ReadError::Argument(format!("a batch may name at most {MAX_HASHES} hashes")));
        }
        Ok(HashBatch(hashes))
    }
}

/// `POST /transaction/status/batch`
fn statuses(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let HashBatch(hashes) = context.body()?;
    context.send_stream(list_of_each(hashes, size_of::<Hash256>(), |step, hash| {
        let status = TransactionStatus::look_up(hash, step.node)?;
        step.push(&status);
        Ok(())
    }))
}

/// Returns who has signed a multisig transaction and who has not.
pub(super) fn signatures_of(entry: &MempoolEntry, node: &NodeContext<'_>) -> Result<Option<Signatures>, StoreError> {
    let Body::Multisig(body) = &entry.transaction.body else { return Ok(None) };
    let (chain, network) = (node.chain, node.chain.network.byte);
    let account = body.inner.signer_address(network);
    let needed = state::account(chain.snapshot, &account)?.min_cosignatories;
    let cosignatories = state::cosignatories(chain.snapshot, &account)?.into_iter().collect();
    let (counting, required) = body.counting_signers(cosignatories, needed, network);
    let signers = std::iter::once(&*entry.transaction).chain(&body.cosignatures);
    let signers: BTreeSet<Address> = signers.map(|one: &Transaction| one.signer_address(network)).collect();
    let (signed, missing) = counting.into_iter().partition(|one| signers.contains(one));
    Ok(Some(Signatures { signed, missing, required }))
}

#[cfg(test)]
mod tests;
