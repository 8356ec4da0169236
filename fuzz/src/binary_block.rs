//! Fuzz target: blocks in the binary format.

use nisd::codec::SigningForm;
use nisd::codec::block_file::block_links;
use nisd::model::Block;

use crate::entities::{Entity, check_entity, read_as};

/// Bytes of the number of transactions.
const COUNT_BYTES: usize = 4;

/// Checks [`check_entity`] for a block read from bytes, in the form and on the network that the first byte selects. Its links
/// are found in its bytes, and it is written from parts as it is written whole.
pub fn check(data: &[u8]) -> usize {
    let Some((form, context, bytes)) = read_as(data) else { return 0 };
    let found = block_links(bytes);
    let Ok(block) = Block::from_binary(bytes, form, context) else { return 0 };
    check_entity(&block, form, context);
    let whole = block.to_binary(SigningForm::Verifiable);
    if form == SigningForm::Verifiable
        && bytes.starts_with(&whole)
        && let Some(links) = found.filter(|_| bytes.len() == whole.len())
    {
        assert_eq!((links.hash, links.height), (block.hash(), block.height));
        assert!(block.previous_hash == links.previous_hash);
    }
    let empty = Block { transactions: Vec::new(), ..block.clone() };
    let transactions = &whole[empty.to_binary(SigningForm::Verifiable).len()..];
    let mut parts = Vec::with_capacity(whole.len() + COUNT_BYTES);
    block.append_bytes((block.transactions.len(), transactions), &mut parts);
    assert_eq!(parts, whole);
    1
}
