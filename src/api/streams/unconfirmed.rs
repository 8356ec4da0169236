//! Streamed unconfirmed transactions.

use std::rc::Rc;
use std::vec;

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, Unconfirmed};
use crate::crypto::Signature;
use crate::model::Transaction;
use crate::net::service::Progress;
use crate::peer::wire::AuthenticatedResponse;

/// Approximate memory in bytes of a transaction that has left the mempool.
const TRANSACTION_BYTES: usize = 2048;

/// Stream of unconfirmed transactions: as clients see them, or bare and signed for a peer.
pub struct UnconfirmedList {
    remaining: vec::IntoIter<Rc<Transaction>>,
    signature: Option<Signature>,
    list: Option<ListWriter>,
}

impl UnconfirmedList {
    /// Creates a stream of these transactions, in this order.
    pub fn new(transactions: Vec<Rc<Transaction>>) -> UnconfirmedList {
        UnconfirmedList { remaining: transactions.into_iter(), signature: None, list: None }
    }

    /// Writes the bare transactions, signed for a peer.
    pub fn signed(self, signature: Signature) -> UnconfirmedList {
        UnconfirmedList { signature: Some(signature), ..self }
    }
}

impl ResponseStream for UnconfirmedList {
    fn write_chunk(
        &mut self,
        _: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let UnconfirmedList { remaining: waiting, signature, list } = self;
        let list = list.get_or_insert_with(|| match signature {
            Some(signature) => {
                ListWriter::open(writer, &AuthenticatedResponse { entity: DataListHead, signature: *signature })
            }
            None => ListWriter::open(writer, &DataListHead),
        });
        for transaction in waiting {
            let start = writer.body.len();
            match signature {
                Some(_) => list.push(writer, &*transaction),
                None => list.push(writer, &Unconfirmed(&transaction)),
            }
            budget.charge(cost::TRANSACTION + cost::bytes(writer.body.len() - start));
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.remaining.len() * TRANSACTION_BYTES
    }
}
