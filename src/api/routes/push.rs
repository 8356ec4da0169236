//! What other nodes push. Whatever becomes of it, a push that is signed by whom it says is answered with success.

use std::vec;

use super::announce::take_in;
use super::peer::OtherIdentity;
use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::call::{Call, Readable};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::long::{LongView, Sheet};
use crate::codec::{Form, ReadError, Source, block, transaction};
use crate::crypto::hash::keccak256;
use crate::crypto::{PublicKey, Signature, verify};
use crate::model::transaction::wire_network;
use crate::model::{Block, Transaction};
use crate::net::machine::Taken;

/// What a node signs in front of its key and the hash of what it pushes.
const PUSH_PREFIX: &[u8] = b"nem trust challenge:";
/// Memory that a pushed transaction takes, roughly.
const TRANSACTION_BYTES: usize = 2048;

/// Something that is pushed.
trait Pushed: Sized {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError>;

    /// Its binary form with all signatures.
    fn verifiable_bytes(&self) -> Vec<u8>;
}

impl Pushed for Transaction {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        transaction::read(source, Form::Verifiable)
    }

    fn verifiable_bytes(&self) -> Vec<u8> {
        self.to_bytes(Form::Verifiable)
    }
}

impl Pushed for Block {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        block::read(source, Form::Verifiable)
    }

    fn verifiable_bytes(&self) -> Vec<u8> {
        self.to_bytes(Form::Verifiable)
    }
}

/// Something with the signature of the node that pushes it.
struct Secure<T> {
    entity: T,
    signature: Signature,
    pusher: PublicKey,
}

impl<T: Pushed> Readable for Secure<T> {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let entity = source.need_object("entity", T::read)?;
        let signature = source.signature("signature")?;
        let OtherIdentity(pusher) = source.need_object("identity", OtherIdentity::read)?;
        Ok(Secure { entity, signature, pusher })
    }
}

impl<T: Pushed> Secure<T> {
    /// What was pushed, if the node has signed it that is said to push it.
    fn verified(self, budget: &mut Budget) -> Result<T, Failure> {
        let bytes = self.entity.verifiable_bytes();
        budget.spend(cost::VERIFICATION + cost::bytes(bytes.len()));
        let signed = [PUSH_PREFIX, &self.pusher.0, &keccak256(&bytes)].concat();
        match verify(&self.pusher, &signed, &self.signature) {
            Ok(true) => Ok(self.entity),
            _ => Err(Failure::internal("entity source cannot be verified")),
        }
    }
}

struct Transactions(Vec<Secure<Transaction>>);

impl Readable for Transactions {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_list("data", Secure::read).map(Transactions)
    }
}

/// Takes pushed transactions in, one after the other.
struct Intake(vec::IntoIter<Secure<Transaction>>);

impl LongView for Intake {
    fn look(&mut self, view: &ChainView<'_>, actions: &mut dyn Actions, budget: &mut Budget) -> Result<(), Failure> {
        for pushed in self.0.by_ref() {
            let transaction = pushed.verified(budget)?;
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
    let Transactions(pushed) = call.body()?;
    call.do_long(Intake(pushed.into_iter()))
}

/// `POST /push/block`: a block is looked at, but not taken in yet.
pub fn block(call: &mut Call<'_>) -> Result<(), Failure> {
    let block: Block = call.body::<Secure<Block>>()?.verified(call.budget)?;
    match wire_network(block.version) == call.view.network.byte {
        true => call.need_network(),
        false => Ok(()),
    }
}
