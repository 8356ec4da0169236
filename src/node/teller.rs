//! Data for the websocket API, read from one commit.

use std::borrow::Cow;
use std::rc::Rc;

use super::Desk;
use crate::api::long::{Found, Items, RentedNames};
use crate::api::media::Format;
use crate::api::views::{DefinitionAndSupply, View};
use crate::api::{AccountWriter, Actions, Budget, ChainView, Failure, LongView, Sheet};
use crate::codec::json::JsonSink;
use crate::model::{Address, Height, MosaicDefinition, MosaicId, Transaction};
use crate::net::machine::Taken;
use crate::push::{AccountText, BlockText, Facts, FactsError, Owned, Possessions, TransfersText};
use crate::store::StoreError;

/// Maximum number of rents examined for the namespaces of an account.
const MAX_RENTS: usize = 1_000;

/// The node's implementation of [`Facts`].
pub struct Teller<'a, 's> {
    pub desk: Desk<'a, 's>,
}

impl Teller<'_, '_> {
    fn view(&self) -> &ChainView<'_> {
        &self.desk.view
    }

    /// Continues a JSON text within `units`, which it reduces. Returns true when the text is complete.
    fn write_on(&self, writer: &mut dyn LongView, text: &mut Vec<u8>, units: &mut u32) -> Result<bool, FactsError> {
        let mut sheet = Sheet { format: Format::Json, body: text, json: &mut JsonSink::default() };
        let mut budget = Budget::new(*units);
        let taken = writer.write_on(self.view(), &mut sheet, &mut budget);
        *units = units.saturating_sub(budget.used());
        Ok(taken.map_err(told)? == Taken::Done)
    }

    fn next_text(
        &self,
        rest: &mut Possessions,
        address: &Address,
        budget: &mut Budget,
    ) -> Result<Found<Vec<u8>>, Failure> {
        let view = self.view();
        Ok(match rest {
            Possessions::Namespaces(names) => {
                let names = match names {
                    Some(names) => names,
                    None => names.insert(RentedNames::new(view, *address, None, MAX_RENTS)?.current()),
                };
                names.next(view, budget)?.map(|namespace| text_of(&namespace))
            }
            Possessions::Mosaics(mosaics) => mosaics.next(view, budget)?.map(|mosaic| text_of(&mosaic)),
            Possessions::Definitions(definitions) => match definitions.next(view, budget)? {
                Found::One(definition) => Found::One(definition_text(&definition, view)?),
                Found::NotYet => Found::NotYet,
                Found::End => Found::End,
            },
        })
    }
}

fn text_of(view: &impl View) -> Vec<u8> {
    JsonSink::document(|sink| view.write(sink))
}

fn definition_text(definition: &MosaicDefinition, view: &ChainView<'_>) -> Result<Vec<u8>, StoreError> {
    let supply = view.supply(&definition.id)?.unwrap_or(0);
    Ok(text_of(&DefinitionAndSupply { definition, supply }))
}

impl Facts for Teller<'_, '_> {
    fn height(&self) -> Height {
        self.view().height
    }

    fn block_signer(&self, height: Height) -> Result<Option<Address>, FactsError> {
        let opened = self.view().open_block(height).map_err(failed)?;
        Ok(opened.map(|(block, _)| Address::from_public_key(&block.signer, self.view().network.byte)))
    }

    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, FactsError> {
        self.write_on(&mut block.writer, &mut block.text, budget)
    }

    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, FactsError> {
        self.view().transactions(height, from, most).map_err(failed)
    }

    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, FactsError> {
        let AccountText { address, text, writer } = account;
        let writer = match writer {
            Some(writer) => writer,
            None => {
                let mut units = Budget::new(*budget);
                let begun = AccountWriter::new(self.view(), &self.desk, *address, &mut units);
                *budget = budget.saturating_sub(units.used());
                writer.insert(begun.map_err(told)?)
            }
        };
        self.write_on(writer, text, budget)
    }

    fn write_transfers(&self, transfers: &mut TransfersText, budget: &mut u32) -> Result<bool, FactsError> {
        self.write_on(&mut transfers.writer, &mut transfers.text, budget)
    }

    fn next_owned(&self, owned: &mut Owned, budget: &mut u32) -> Result<Found<Vec<u8>>, FactsError> {
        let mut units = Budget::new(*budget);
        let found = self.next_text(&mut owned.rest, &owned.address, &mut units);
        *budget = budget.saturating_sub(units.used());
        found.map_err(told)
    }

    fn node_info(&self) -> Result<Vec<u8>, FactsError> {
        match self.view().is_booted() {
            true => Ok(text_of(&self.desk.node().info)),
            false => Err(told(Failure::NOT_BOOTED)),
        }
    }

    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, FactsError> {
        let definition = self.view().mosaic_definition(mosaic).map_err(failed)?;
        Ok(definition.and_then(|definition| definition.levy).map(|levy| levy.recipient))
    }

    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, FactsError> {
        self.desk.unconfirmed(address, limit).map_err(failed)
    }
}

fn told(failure: Failure) -> FactsError {
    FactsError(Cow::Owned(failure.message().to_owned()))
}

/// The client cannot do anything about it; the code that works on the store informs the operator.
fn failed(_: StoreError) -> FactsError {
    FactsError(Cow::Borrowed("the node's store failed"))
}
