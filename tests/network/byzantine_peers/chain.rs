//! Lies about the chain by a peer that claims to have the better one.

use nisd::codec::SigningForm;
use nisd::crypto::Signature;
use nisd::model::transaction::wire_version;
use nisd::model::{Amount, Block, Hash256, NetworkByte, Timestamp, Transaction};
use nisd::peer::wire::{HashChain, List, Score};

use super::attacks::{Attack, ExpectedOpinion, Lie};
use super::{BYZANTINE, POOR};
use crate::common::private_network::{address, block, key_pair, now, transfer};
use crate::network::scripted_peer::{HonestPeer, ReceivedRequest, ScriptedResponse, read, start_height};

/// Maximum number of hashes and blocks that a node sends.
const MAX_ITEMS: usize = 50;
const LAST: &str = "/chain/last-block";
const HASHES: &str = "/chain/hashes-from";
const AT: &str = "/block/at";
const BLOCKS: &str = "/chain/blocks-after";

/// Claims a better chain that is one block longer.
pub fn ahead(request: &ReceivedRequest, honest: &HonestPeer) -> ScriptedResponse {
    match request.path.as_str() {
        "/chain/score" => {
            let Score(score) = honest.query("/chain/score", &[]);
            ScriptedResponse::entity(&Score(score + 1_000_000_000_000_000_000))
        }
        LAST => ScriptedResponse::entity(&next_block(honest)),
        HASHES => ScriptedResponse::entity(&HashChain(with_one_more(request, honest))),
        _ => ScriptedResponse::Truthful,
    }
}

/// Builds a valid successor of the honest node's tip whose harvester has no right to make it.
fn next_block(honest: &HonestPeer) -> Block {
    let last: Block = honest.query(LAST, &[]);
    block(&key_pair(BYZANTINE), last.height.0 + 1, now(), last.hash(), Vec::new())
}

fn with_one_more(request: &ReceivedRequest, honest: &HonestPeer) -> Vec<Hash256> {
    let HashChain(mut hashes) = read(&honest.entity(request).expect("an answer"));
    hashes.truncate(MAX_ITEMS - 1);
    hashes.push(Hash256([9; 32]));
    hashes
}

/// Builds `count` blocks after the requested one, made by an account that owns nothing.
fn unentitled_blocks(
    request: &ReceivedRequest,
    honest: &HonestPeer,
    count: u64,
    transactions: &[Transaction],
) -> Vec<Block> {
    let common = start_height(request);
    let height = [&8_u32.to_le_bytes()[..], &common.to_le_bytes()].concat();
    let mut parent: Block = honest.query(AT, &height);
    let make = |number: u64| {
        let time = Timestamp(parent.timestamp.0 + 1);
        parent = block(&key_pair(POOR), common + number, time, parent.hash(), transactions.to_vec());
        parent.clone()
    };
    (1..=count).map(make).collect()
}

fn of_mainnet(block: Block) -> Block {
    let mut block = Block { version: wire_version(NetworkByte::MAINNET, 1), signature: None, ..block };
    let signer = if block.signer == key_pair(POOR).public() { POOR } else { BYZANTINE };
    block.signature = Some(key_pair(signer).sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

fn forged_transaction() -> Transaction {
    let (keys, to) = (key_pair(BYZANTINE), address(&key_pair(BYZANTINE)));
    Transaction { signature: Some(Signature([5; 64])), ..transfer(&keys, to, Amount(1), Amount::whole(1), now()) }
}

fn lie(name: &'static str, expected: ExpectedOpinion, path: &'static str, lie: impl Lie) -> Attack {
    Attack::new(name, expected, path, ahead, lie)
}

/// Returns the attacks on which memory or the processor may depend, and those that a simulated network does not have.
pub fn attacks() -> Vec<Attack> {
    use ExpectedOpinion::{NotPenalized, Penalized};
    vec![
        lie("last block: of another network", NotPenalized, LAST, |_, honest| {
            ScriptedResponse::entity(&of_mainnet(next_block(honest)))
        }),
        lie("hashes: only those that we have", Penalized, HASHES, |request, honest| {
            ScriptedResponse::entity(&HashChain(with_one_more(request, honest).into_iter().take(1).collect()))
        }),
        lie("hashes: thousands", NotPenalized, HASHES, |request, honest| {
            let mut hashes = with_one_more(request, honest);
            hashes.resize(100_000, Hash256([9; 32]));
            ScriptedResponse::entity(&HashChain(hashes))
        }),
        lie("blocks: invalid transactions", Penalized, BLOCKS, |request, honest| {
            let transactions = vec![forged_transaction(); 100];
            ScriptedResponse::entity(&List(unentitled_blocks(request, honest, 10, &transactions)))
        }),
        lie("blocks: of another network", Penalized, BLOCKS, |request, honest| {
            let blocks = unentitled_blocks(request, honest, 1, &[]).into_iter().map(of_mainnet);
            ScriptedResponse::entity(&List(blocks.collect()))
        }),
        lie("blocks: two thousand millions of them", NotPenalized, BLOCKS, |_, _| {
            ScriptedResponse::Entity([&i32::MAX.to_le_bytes()[..], &[0; 100]].concat())
        }),
    ]
}
