//! Fuzz target: transactions and blocks in the JSON format.

use nisd::codec::json::JsonDecoder;
use nisd::codec::lenient_json::{self, Value};
use nisd::codec::{Context, SigningForm};
use nisd::model::{Block, Transaction};

use crate::entities::{Entity, check_entity, read_as};

/// Checks [`check_entity`] for an entity read from permissive JSON, in the form and on the network that the first byte
/// selects. The same text is read as a transaction and as a block.
pub fn check(data: &[u8]) -> usize {
    let Some((form, context, text)) = read_as(data) else { return 0 };
    let Ok(value) = lenient_json::parse(text) else { return 0 };
    check_as::<Transaction>(&value, form, context) + check_as::<Block>(&value, form, context)
}

fn check_as<E: Entity>(value: &Value, form: SigningForm, context: Context) -> usize {
    let Ok(source) = JsonDecoder::new(value, context) else { return 0 };
    let Ok(entity) = E::from_json(source, form) else { return 0 };
    check_entity(&entity, form, context);
    1
}
