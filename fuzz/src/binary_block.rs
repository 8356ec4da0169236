//! Fuzz target: blocks in the binary format.

use nisd::model::Block;

use crate::entities::{Entity, check_entity, read_as};

/// Checks [`check_entity`] for a block read from bytes, in the form and on the network that the first byte selects.
pub fn check(data: &[u8]) -> usize {
    let Some((form, context, bytes)) = read_as(data) else { return 0 };
    let Ok(block) = Block::from_binary(bytes, form, context) else { return 0 };
    check_entity(&block, form, context);
    1
}
