//! Handlers of pushes by peers. A push with a valid signature of its sender succeeds, whatever the validation result.

use std::vec;

use super::announce::take_in;
use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::call::Call;
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::long::{LongView, Sheet};
use crate::api::media::Format;
use crate::api::views::View;
use crate::codec::binary::BinarySource;
use crate::codec::{Context, ReadError, Readable, Source};
use crate::model::transaction::wire_network;
use crate::model::{Block, Transaction};
use crate::net::machine::Taken;
use crate::peer::wire::{List, SecureEntity};

/// A transaction pushed by a peer.
type Pushed = SecureEntity<Transaction>;

/// Approximate memory in bytes of a pushed transaction.
const TRANSACTION_BYTES: usize = 2048;

/// Returns what was pushed, if its sender has signed it.
fn verified<T: View>(pushed: SecureEntity<T>, budget: &mut Budget) -> Result<T, Failure> {
    let (is_genuine, hashed) = pushed.verify();
    budget.spend(cost::VERIFICATION + cost::bytes(hashed));
    if is_genuine { Ok(pushed.entity) } else { Err(Failure::internal("entity source cannot be verified")) }
}

/// Submits a list of pushed transactions one after another.
enum Intake {
    /// Decoded while they are submitted: `left` transactions from a position of the body on.
    Binary { at: usize, left: usize },
    /// Already decoded. JSON can only be parsed as a whole.
    Read(vec::IntoIter<Pushed>),
}

impl Intake {
    /// Creates the list in a body of the binary format.
    fn of_binary(body: &[u8], context: Context) -> Result<Intake, ReadError> {
        let mut source = BinarySource::new(body, context);
        let left = match source.need_i32("data")? {
            -1 => return Err(ReadError::Missing("data")),
            count => usize::try_from(count).unwrap_or(0),
        };
        Ok(Intake::Binary { at: body.len() - source.rest().len(), left })
    }

    /// Returns the next transaction.
    fn next(&mut self, body: &[u8], context: Context, budget: &mut Budget) -> Option<Result<Pushed, ReadError>> {
        match self {
            Intake::Read(pushed) => pushed.next().map(Ok),
            Intake::Binary { left: 0, .. } => None,
            Intake::Binary { at, left } => {
                let rest = body.get(*at..).unwrap_or_default();
                let mut source = BinarySource::new(rest, context);
                let read = source.need_object("data", Pushed::read);
                let taken = rest.len() - source.rest().len();
                budget.spend(cost::bytes(taken));
                (*at, *left) = (*at + taken, *left - 1);
                Some(read)
            }
        }
    }

    fn left(&self) -> usize {
        match self {
            Intake::Read(pushed) => pushed.len(),
            Intake::Binary { left, .. } => *left,
        }
    }
}

impl LongView for Intake {
    fn look(
        &mut self,
        asked: &[u8],
        view: &ChainView<'_>,
        actions: &mut dyn Actions,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        while let Some(pushed) = self.next(asked, view.context(), budget) {
            let pushed = pushed?;
            let by = pushed.identity.key;
            let transaction = verified(pushed, budget)?;
            let result = take_in(transaction, view, actions, budget)?;
            actions.pushed(&by, result);
            if budget.is_spent() {
                break;
            }
        }
        Ok(())
    }

    fn write_on(&mut self, _: &ChainView<'_>, _: &mut Sheet<'_>, _: &mut Budget) -> Result<Taken, Failure> {
        Ok(if self.left() == 0 { Taken::Done } else { Taken::Unfinished })
    }

    fn held_bytes(&self) -> usize {
        match self {
            Intake::Read(pushed) => pushed.len() * TRANSACTION_BYTES,
            Intake::Binary { .. } => size_of::<Intake>(),
        }
    }
}

/// `POST /push/transaction`
pub fn transaction(call: &mut Call<'_>) -> Result<(), Failure> {
    let pushed = call.body()?;
    call.do_long(Intake::Read(vec![pushed].into_iter()))
}

/// `POST /push/transactions`
pub fn transactions(call: &mut Call<'_>) -> Result<(), Failure> {
    let intake = match call.raw_body()? {
        (Format::Binary, body) => Intake::of_binary(body, call.view.context())?,
        (Format::Json, _) => {
            let List(pushed) = call.body()?;
            Intake::Read(pushed.into_iter())
        }
    };
    call.do_long(intake)
}

/// `POST /push/block`: the block is validated after the response.
pub fn block(call: &mut Call<'_>) -> Result<(), Failure> {
    let pushed: SecureEntity<Block> = call.body()?;
    let by = pushed.identity.key;
    let block = verified(pushed, call.budget)?;
    if wire_network(block.version) != call.view.network.byte {
        return Ok(());
    }
    // For the hash and signature of the block itself.
    call.budget.spend(cost::VERIFICATION + 2 * cost::bytes(call.request.body.len()));
    match call.actions.push_block(block, by)? {
        true => Ok(()),
        false => Err(Failure::NOT_BOOTED),
    }
}
