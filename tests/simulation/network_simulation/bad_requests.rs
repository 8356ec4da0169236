//! Pushes and signs of life of byzantine peers.

use std::sync::LazyLock;

use nisd::codec::{Format, SigningForm, Writable};
use nisd::crypto::{KeyPair, PublicKey, Signature};
use nisd::model::transaction::{
    AggregateModification, Cosignature, Modification, ModificationKind, Multisig, Transfer,
};
use nisd::model::{Address, Amount, Block, Body, Timestamp, Transaction};
use nisd::peer::wire::{Identity, List, NodeInfo, SecureEntity};
use nisd::state;

use super::byzantine_peer::{ByzantinePeer, LieContext};
use super::environment::{BYZANTINE_PEERS, byzantine_keys, unfunded_keys, user_keys};
use super::fault::Fault;
use crate::common::private_network::{NETWORK, address, block, key_pair, signed, transfer};

/// Maximum size of a request that byzantine peers claim to send.
const OVERSIZED: usize = 1 << 30;
/// Number of pushes that exceed the rate limit per second.
const TOO_OFTEN: usize = 70;
/// Number of transactions in a long list.
const MANY: u64 = 40;
/// Number of cosignatories of an account that needs one signature, and of cosignatures of each of them.
const COSIGNATORIES: u64 = 10;
const COSIGNATURES: i32 = 20;
/// Key number of the first cosignatory.
const FIRST_COSIGNATORY: u64 = 6_000;
/// Entity version of another network.
const OTHER_NETWORK: i32 = 0x6800_0001;

/// A request of a byzantine peer.
#[derive(Clone)]
pub struct BadRequest {
    pub path: &'static str,
    pub body: Vec<u8>,
    /// The announced length of the body.
    pub length: usize,
}

impl BadRequest {
    fn new(path: &'static str, body: Vec<u8>) -> BadRequest {
        let length = body.len();
        BadRequest { path, body, length }
    }

    fn signed<T: Writable>(path: &'static str, entity: T, keys: &KeyPair) -> BadRequest {
        BadRequest::new(path, Format::Binary.to_bytes(&SecureEntity::sign(entity, keys, None)))
    }

    fn block(block: Block, keys: &KeyPair) -> BadRequest {
        BadRequest::signed("/push/block", block, keys)
    }

    fn transaction(transaction: Transaction, keys: &KeyPair) -> BadRequest {
        BadRequest::signed("/push/transaction", transaction, keys)
    }

    /// Builds the sign of life of a node.
    pub fn sign_of_life(node: &NodeInfo) -> BadRequest {
        BadRequest::new("/node/sign-of-life", Format::Binary.to_bytes(node))
    }
}

/// Builds what a relay forwards after an honest node has signed it for others: a block that follows the receiver's tip,
/// or otherwise a transaction.
pub fn relayed(keys: &KeyPair, next: Option<Block>, transaction: Transaction) -> BadRequest {
    match next {
        Some(block) => BadRequest::block(block, keys),
        None => BadRequest::transaction(transaction, keys),
    }
}

/// Builds the requests with which a byzantine peer commits a fault.
pub fn bad_requests(byzantine: &ByzantinePeer, fault: Fault, context: &mut LieContext<'_>) -> Vec<BadRequest> {
    let keys = byzantine.keys(0);
    let now = context.now;
    let tip = context.tip();
    let last = context.block(tip.height.0).expect("the last block");
    let child = |time: Timestamp, signer: &KeyPair| block(signer, tip.height.0 + 1, time, tip.hash, Vec::new());
    let known = context.sent.last().cloned();
    match fault {
        Fault::PushedForgedBlock => {
            let block = Block { signer: context.members[0].identity.key, ..child(now, keys) };
            vec![BadRequest::block(block, keys)]
        }
        Fault::PushedUnentitledBlock => vec![BadRequest::block(child(now, &unfunded_keys()), keys)],
        Fault::PushedFutureBlock => vec![BadRequest::block(child(Timestamp(now.0 + 3_600), keys), keys)],
        Fault::PushedOldBlock => {
            let old = context.block(tip.height.0.saturating_sub(3).max(2));
            old.into_iter().map(|old| BadRequest::block(old, keys)).collect()
        }
        Fault::PushedSibling => {
            let (time, parent) = (Timestamp(last.timestamp.0 - 1), context.block(tip.height.0.max(2) - 1));
            let parent = parent.expect("the block before the last").hash();
            vec![BadRequest::block(block(&unfunded_keys(), tip.height.0.max(2), time, parent, Vec::new()), keys)]
        }
        Fault::PushedKnownBlock => vec![BadRequest::block(last, keys)],
        Fault::PushedBlockOfOtherNetwork => {
            let mut block = Block { version: OTHER_NETWORK, ..child(now, keys) };
            block.signature = Some(keys.sign(&block.to_bytes(SigningForm::NonVerifiable)));
            vec![BadRequest::block(block, keys)]
        }
        Fault::PushedInAnothersName => {
            let mut entity = SecureEntity::sign(last, keys, None);
            entity.identity = Identity { key: context.members[0].identity.key, name: None };
            vec![BadRequest::new("/push/block", Format::Binary.to_bytes(&entity))]
        }
        Fault::PushedForgedTransaction => {
            let good = context.overspending();
            vec![BadRequest::transaction(Transaction { signature: Some(Signature([4; 64])), ..good }, keys)]
        }
        Fault::PushedOverspending => vec![BadRequest::transaction(context.overspending(), keys)],
        Fault::PushedExpired => {
            let time = Timestamp(now.0 - 2 * 3_600);
            let old = transfer(&user_keys(3), address(&user_keys(4)), Amount::whole(1), Amount::whole(1), time);
            vec![BadRequest::transaction(old, keys)]
        }
        Fault::PushedKnownTransaction => known.into_iter().map(|known| BadRequest::transaction(known, keys)).collect(),
        Fault::PushedManyTransactions => {
            let one = context.overspending();
            let other = |place| Transaction { fee: Amount(one.fee.0 + place), ..one.clone() };
            let list = (0..MANY).map(|place| SecureEntity::sign(other(place), keys, None)).collect();
            vec![BadRequest::new("/push/transactions", Format::Binary.to_bytes(&List(list)))]
        }
        Fault::PushedSurplusCosignatures => {
            let list = surplus_cosignatures(keys, context);
            let list = list.into_iter().map(|transaction| SecureEntity::sign(transaction, keys, None)).collect();
            vec![BadRequest::new("/push/transactions", Format::Binary.to_bytes(&List(list)))]
        }
        Fault::PushedGarbage => {
            let bytes = (0..300).map(|_| context.random.next() as u8).collect();
            vec![BadRequest::new("/push/transactions", bytes)]
        }
        Fault::PushedOversized => {
            vec![BadRequest { length: OVERSIZED, ..BadRequest::new("/push/transactions", Vec::new()) }]
        }
        Fault::PushedTooOften => vec![BadRequest::block(last, keys); TOO_OFTEN],
        Fault::SignInAnothersName => {
            let info = NodeInfo { identity: context.members[0].identity.clone(), ..byzantine.info(0) };
            vec![BadRequest::sign_of_life(&info)]
        }
        Fault::SignFromElsewhere => {
            let info = NodeInfo { endpoint: context.members[0].endpoint.clone(), ..byzantine.info(0) };
            vec![BadRequest::sign_of_life(&info)]
        }
        Fault::ManyFaces => {
            (0..byzantine.identities()).map(|identity| BadRequest::sign_of_life(&byzantine.info(identity))).collect()
        }
        other => unreachable!("{other:?} is not pushed"),
    }
}

/// Accounts of byzantine peers that have a balance, and the cosignatories that they give them.
static ACCOUNTS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| {
    let own = (0..BYZANTINE_PEERS).map(|byzantine| byzantine_keys(byzantine, 0));
    own.chain(cosignatories()).map(|keys| keys.public()).collect()
});

/// Returns whether a valid transaction can be of a byzantine peer.
pub fn is_of_byzantine_peer(transaction: &Transaction) -> bool {
    ACCOUNTS.contains(&transaction.signer)
}

fn cosignatories() -> impl Iterator<Item = KeyPair> {
    (FIRST_COSIGNATORY..FIRST_COSIGNATORY + COSIGNATORIES).map(key_pair)
}

/// Builds a transaction of a multisig account that needs one signature, and many cosignatures of it; before that, the
/// transaction that makes it one.
fn surplus_cosignatures(account: &KeyPair, context: &LieContext<'_>) -> Vec<Transaction> {
    let cosignatories: Vec<_> = cosignatories().collect();
    let (fee, now) = (Amount::whole(1), context.now);
    let snapshot = context.store.snapshot().expect("a snapshot");
    if state::cosignatories(&snapshot, &address(account)).expect("a store").is_empty() {
        let add = |keys: &KeyPair| Modification { kind: ModificationKind::Add, cosignatory: keys.public() };
        let mut modifications: Vec<_> = cosignatories.iter().map(add).collect();
        modifications.sort_by_key(|one| Address::from_public_key(&one.cosignatory, NETWORK));
        let body = AggregateModification { modifications, min_cosignatories_change: Some(1) };
        return vec![signed(account, 2, Body::AggregateModification(body), fee, now)];
    }
    let body = Transfer { recipient: address(account), amount: fee, message: None, mosaics: Vec::new() };
    let inner = Transaction { signature: None, ..signed(account, 1, Body::Transfer(body), fee, now) };
    let body = Cosignature { other_hash: inner.hash().into(), other_account: address(account) };
    let cosign =
        |keys: &KeyPair, place| signed(keys, 1, Body::Cosignature(body.clone()), fee, Timestamp(now.0 - place));
    let surplus = cosignatories[1..].iter().flat_map(|keys| (0..COSIGNATURES).map(move |place| (keys, place)));
    let outer = Multisig { inner, cosignatures: Vec::new() };
    let outer = signed(&cosignatories[0], 1, Body::Multisig(Box::new(outer)), fee, now);
    std::iter::once(outer).chain(surplus.map(|(keys, place)| cosign(keys, place))).collect()
}
