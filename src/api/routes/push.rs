//! What other nodes push. Whatever becomes of it, a push that is signed by whom it says is answered with success.

use std::vec;

use super::announce::take_in;
use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::call::Call;
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::long::{LongView, Sheet};
use crate::api::views::View;
use crate::model::transaction::wire_network;
use crate::model::{Block, Transaction};
use crate::net::machine::Taken;
use crate::peer::wire::{List, SecureEntity};

/// Memory that a pushed transaction takes, roughly.
const TRANSACTION_BYTES: usize = 2048;

/// What was pushed, if the node has signed it that is said to push it.
fn verified<T: View>(pushed: SecureEntity<T>, budget: &mut Budget) -> Result<T, Failure> {
    let (is_genuine, hashed) = pushed.verify();
    budget.spend(cost::VERIFICATION + cost::bytes(hashed));
    if is_genuine { Ok(pushed.entity) } else { Err(Failure::internal("entity source cannot be verified")) }
}

/// Takes pushed transactions in, one after the other.
struct Intake(vec::IntoIter<SecureEntity<Transaction>>);

impl LongView for Intake {
    fn look(&mut self, view: &ChainView<'_>, actions: &mut dyn Actions, budget: &mut Budget) -> Result<(), Failure> {
        for pushed in self.0.by_ref() {
            let transaction = verified(pushed, budget)?;
            take_in(transaction, view, actions, budget)?;
            if budget.is_spent() {
                break;
            }
        }
        Ok(())
    }

    fn write_on(&mut self, _: &ChainView<'_>, _: &mut Sheet<'_>, _: &mut Budget) -> Result<Taken, Failure> {
        Ok(if self.0.len() == 0 { Taken::Done } else { Taken::Unfinished })
    }

    fn held_bytes(&self) -> usize {
        self.0.len() * TRANSACTION_BYTES
    }
}

/// `POST /push/transaction`
pub fn transaction(call: &mut Call<'_>) -> Result<(), Failure> {
    let pushed = call.body()?;
    call.do_long(Intake(vec![pushed].into_iter()))
}

/// `POST /push/transactions`
pub fn transactions(call: &mut Call<'_>) -> Result<(), Failure> {
    let List(pushed) = call.body()?;
    call.do_long(Intake(pushed.into_iter()))
}

/// `POST /push/block`: a block is judged after this is answered.
pub fn block(call: &mut Call<'_>) -> Result<(), Failure> {
    let pushed: SecureEntity<Block> = call.body()?;
    let by = pushed.identity.key;
    let block = verified(pushed, call.budget)?;
    if wire_network(block.version) != call.view.network.byte {
        return Ok(());
    }
    call.budget.spend(cost::VERIFICATION);
    match call.actions.push_block(block, by)? {
        true => Ok(()),
        false => Err(Failure::NOT_BOOTED),
    }
}
