//! Bytes that no program writes: lists out of order, things twice, other spellings; what no block may hold; and numbers
//! at their limits.

use nisd::codec::Form;
use nisd::model::transaction::{SupplyChangeKind, wire_version};
use nisd::model::{Address, Amount, Block, Body, Mosaic, MosaicDefinition, Transaction};

use super::Stage;
use super::bends::version_1;
use super::block_cases::resign;
use super::court::Purpose;
use super::figures::Class;
use super::ground::UNREADABLE;
use super::maker::{MICRO, Maker};
use super::people::{HARVESTERS, Who};
use super::rule::{Rule, Verdict};

/// Where the signature of a transaction is, and where what is signed goes on.
const SIGNATURE: std::ops::Range<usize> = 52..116;
const AFTER_SIGNATURE: usize = 116;
/// Where the body of a transaction begins.
const BODY: usize = 128;
/// Bytes of an address with its length.
const ADDRESS: usize = 44;
const SINK: [Who; 2] = [HARVESTERS[0]; 2];

impl Stage {
    /// Offers a valid block some of whose bytes are odd: it is the same block. Signed as the bytes are it is none.
    pub fn try_odd_bytes(&mut self) {
        if self.next_height() == self.world.terms.forks.treasury {
            return;
        }
        let Some(transaction) = self.with_maker(SINK, |maker| maker.something_with_lists()) else { return };
        let time = self.time();
        let block = self.block(HARVESTERS[0], time, vec![transaction.clone()]);
        let Ok(after) = self.world.court(&self.model, time, Purpose::Block).judge_block(&block) else { return };
        let seed = self.random.next();
        let Some((class, odd)) = self.make_odd(&transaction, seed) else { return };
        let usual = transaction.to_bytes(Form::Verifiable);
        let bytes = replaced(&block.to_bytes(Form::Verifiable), &usual, &odd);
        self.figures.offered += 2;
        let before = self.ground.digest();
        let (found, _) = self.ground.offer_bytes(self.model.height, std::slice::from_ref(&bytes), time);
        let is_same = self.ground.height() > self.model.height && self.ground.hash(block.height.0) == block.hash();
        if found != Verdict::Valid || !is_same {
            self.differ(format!("{}: {found:?}; time {time}; {}", class.name(), hex::encode(&bytes)));
        } else {
            let own = std::mem::replace(&mut self.model, after);
            self.check_state();
            if let Some(recorder) = &mut self.recorder {
                recorder.undone(&self.world, &[bytes], (own.height, time), [&own, &self.model]);
            }
            self.model = own;
            self.ground.go_back(self.model.height);
        }
        if self.ground.digest() != before {
            self.differ(format!("{}: undoing it leaves something", class.name()));
        }
        self.figures.note(class);
        self.try_signed_oddly(&transaction, &odd, block);
    }

    /// The same with a signature of the odd bytes.
    fn try_signed_oddly(&mut self, transaction: &Transaction, odd: &[u8], mut block: Block) {
        let signed = [&odd[..SIGNATURE.start - 4], &odd[AFTER_SIGNATURE..]].concat();
        let signer = self.world.people.of_key(&transaction.signer);
        let is_odd = signed != transaction.signed_bytes();
        if matches!(transaction.body, Body::Multisig(_)) || !self.world.people.can_sign(signer) || !is_odd {
            return;
        }
        let signature = self.world.people.keys(signer).sign(&signed);
        let mut odd = odd.to_vec();
        odd[SIGNATURE].copy_from_slice(&signature.0);
        let usual = transaction.to_bytes(Form::Verifiable);
        let bytes = replaced(&block.to_bytes(Form::Verifiable), &usual, &odd);
        let now = block.timestamp.0;
        let (found, _) = self.ground.offer_bytes(self.model.height, std::slice::from_ref(&bytes), now);
        block.transactions[0].signature = Some(signature);
        self.check_refusal(&Rule::BadTransactionSignature.into(), &[block], now, &found);
        self.figures.note(Class::SignedOddly);
    }

    /// A transaction's bytes in another form than they are written in.
    fn make_odd(&mut self, transaction: &Transaction, seed: u64) -> Option<(Class, Vec<u8>)> {
        let mut odd = transaction.clone();
        let initiator = self.world.people.of_key(&transaction.signer);
        match &mut odd.body {
            Body::Multisig(body) => {
                let count = body.cosignatures.len();
                let class = match seed % 4 {
                    0 if count > 1 => {
                        body.cosignatures.reverse();
                        Class::UnsortedCosignatures
                    }
                    1 if count > 0 => {
                        let mut again = body.cosignatures[0].clone();
                        again.fee.0 += 1;
                        body.cosignatures.push(again);
                        Class::DuplicateCosignatures
                    }
                    2 if count > 0 => {
                        let mut own = body.cosignatures[0].clone();
                        own.signer = self.world.people.public(initiator);
                        body.cosignatures.insert(0, own);
                        Class::OwnCosignature
                    }
                    _ => make_odd_struct(&mut body.inner.body, seed / 4)?,
                };
                Some((class, odd.to_bytes(Form::Verifiable)))
            }
            body => {
                if let Some(class) = make_odd_struct(body, seed) {
                    return Some((class, odd.to_bytes(Form::Verifiable)));
                }
                make_odd_text(transaction, seed)
            }
        }
    }

    /// Offers a block that cannot be read.
    pub fn try_unreadable(&mut self, harvesters: [Who; 2]) {
        let now = self.time_of(harvesters[0]);
        let other = self.world.people.other_network();
        let made = self.with_maker(harvesters, |maker| maker.unreadable(other));
        let Some((class, transaction)) = made else { return };
        let mut block = self.block(harvesters[0], now, vec![transaction]);
        resign(&mut block, self.world.people.keys(harvesters[0]));
        let bytes = block.to_bytes(Form::Verifiable);
        self.figures.offered += 1;
        let (found, _) = self.ground.offer_bytes(self.model.height, std::slice::from_ref(&bytes), now);
        if !matches!(&found, Verdict::Exception(text) if text.starts_with(UNREADABLE)) {
            self.differ(format!("{}: {found:?}; {}", class.name(), hex::encode(&bytes)));
        }
        self.figures.refuse(Rule::Unreadable, false);
        self.figures.note(class);
        if let Some(recorder) = &mut self.recorder {
            let at = (self.model.height, now);
            recorder.refused_bytes(self.model.height, &[bytes], at, Rule::Unreadable, &found);
        }
    }

    /// Offers a transaction with a number at its limit, whatever is to be said of it.
    pub fn try_limit(&mut self) {
        if self.next_height() == self.world.terms.forks.treasury {
            return;
        }
        let now = self.time();
        let Some(transaction) = self.with_maker(SINK, |maker| maker.limit()) else { return };
        let block = self.block(HARVESTERS[0], now, vec![transaction]);
        match self.world.court(&self.model, now, Purpose::Block).judge_block(&block) {
            Err(ruling) => self.offer_bad(&ruling, std::slice::from_ref(&block), now),
            Ok(after) => self.offer_good(&block, after, now, false),
        }
        self.announce(&block.transactions[0], now);
        self.figures.note(Class::Limit);
    }
}

/// The bytes of a block that holds one transaction, with other bytes for that.
fn replaced(block: &[u8], usual: &[u8], odd: &[u8]) -> Vec<u8> {
    let start = block.len() - usual.len();
    assert!(&block[start..] == usual, "the transaction ends the block");
    [&block[..start - 4], &(odd.len() as u32).to_le_bytes(), odd].concat()
}

/// Brings what is in a body out of order.
fn make_odd_struct(body: &mut Body, seed: u64) -> Option<Class> {
    match body {
        Body::Transfer(body) if body.mosaics.len() > 1 && seed.is_multiple_of(2) => {
            body.mosaics.reverse();
            Some(Class::UnsortedMosaics)
        }
        Body::Transfer(body) if !body.mosaics.is_empty() => {
            let first = &mut body.mosaics[0];
            let rest = seed % (first.quantity / 2 + 1);
            first.quantity -= rest;
            let again = Mosaic { quantity: rest, ..first.clone() };
            body.mosaics.push(again);
            Some(Class::DuplicateMosaics)
        }
        Body::AggregateModification(body) if body.modifications.len() > 1 => {
            body.modifications.reverse();
            Some(Class::UnsortedModifications)
        }
        _ => None,
    }
}

/// Writes texts in other ways.
fn make_odd_text(transaction: &Transaction, seed: u64) -> Option<(Class, Vec<u8>)> {
    let mut bytes = transaction.to_bytes(Form::Verifiable);
    match &transaction.body {
        Body::Transfer(body) if body.message.is_none() && seed.is_multiple_of(2) => {
            let message = BODY + ADDRESS + 8;
            let empty = [8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
            bytes.splice(message..message + 4, empty);
            Some((Class::EmptyMessage, bytes))
        }
        Body::Transfer(_) | Body::ProvisionNamespace(_) => {
            bytes[BODY + 4..BODY + ADDRESS].make_ascii_lowercase();
            Some((Class::LowerCase, bytes))
        }
        Body::MosaicDefinitionCreation(body) => {
            Some((Class::OddProperties, with_odd_properties(bytes, &body.definition, seed)?))
        }
        _ => None,
    }
}

/// Properties from the last to the first, their flags in capital letters, one twice, and one that nobody knows.
fn with_odd_properties(mut bytes: Vec<u8>, definition: &MosaicDefinition, seed: u64) -> Option<Vec<u8>> {
    let properties = &definition.properties;
    let all = [
        ("divisibility", properties.divisibility.to_string()),
        ("initialSupply", properties.initial_supply.to_string()),
        ("supplyMutable", properties.supply_mutable.to_string()),
        ("transferable", properties.transferable.to_string()),
    ];
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let entry = |(name, value): &(&str, String)| {
        let entry = [text(name), text(value)].concat();
        [(entry.len() as u32).to_le_bytes().to_vec(), entry].concat()
    };
    let usual: Vec<u8> = all.iter().flat_map(entry).collect();
    let place = bytes.windows(usual.len()).position(|part| part == usual)?;
    let mut odd: Vec<(&str, String)> = all.iter().rev().map(|(name, value)| (*name, value.to_uppercase())).collect();
    if seed.is_multiple_of(2) {
        odd.insert(0, ("divisibility", "6".to_owned()));
        odd.insert(2, ("colour", "green".to_owned()));
    }
    let odd_bytes: Vec<u8> = odd.iter().flat_map(entry).collect();
    let more = (odd_bytes.len() - usual.len()) as u32;
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(place - 4, odd.len() as u32);
    let length = u32::from_le_bytes(*bytes[BODY..].first_chunk()?);
    bytes[BODY..BODY + 4].copy_from_slice(&(length + more).to_le_bytes());
    bytes.splice(place..place + usual.len(), odd_bytes);
    Some(bytes)
}

impl Maker<'_> {
    /// A valid transaction that is likely to hold a list.
    fn something_with_lists(&mut self) -> Option<Transaction> {
        (0..8).find_map(|_| {
            let draft = match self.random.below(8) {
                0 | 1 => self.token_transfer(),
                2 | 3 => self.modification(),
                4 => self.definition(),
                5 => self.draft_of_multisig(),
                6 => self.transfer(),
                _ => self.provision(),
            };
            let whole = self.finish(draft?)?;
            self.court.judge(&whole).ok().map(|_| whole)
        })
    }

    /// A signed transaction that nobody can read.
    fn unreadable(&mut self, other: nisd::model::NetworkByte) -> Option<(Class, Transaction)> {
        let (from, to) = (self.single_payer(100)?, self.payee());
        let mut draft = self.transfer_of(from, to, MICRO, Vec::new());
        let class = match self.random.below(6) {
            0 => {
                let Body::Transfer(body) = &mut draft.body else { return None };
                body.recipient = Address::from_public_key(&self.court.people.public(to), other);
                draft = version_1(draft);
                Class::ForeignAddress
            }
            1 => {
                let name = ["Upper", "with blank", "-first", "a.b", "", "\u{e9}"][self.random.below(6)];
                draft = self.rent(from, None, name);
                Class::OddName
            }
            2 => {
                let Body::Transfer(body) = &mut draft.body else { return None };
                let id = nisd::model::MosaicId::xem();
                let quantity = i64::MAX as u64 - self.random.next() % 1_000;
                body.mosaics = vec![Mosaic { id: id.clone(), quantity }, Mosaic { id, quantity: 1_000 }];
                Class::MosaicOverflow
            }
            3 => {
                let id = self.token_name(nisd::model::NamespaceId::parse("r0").ok()?);
                let mut definition = self.definition_of(from, id);
                match self.random.below(3) {
                    0 => definition.description = " ".to_owned(),
                    1 => definition.description.clear(),
                    _ => definition.creator = self.court.people.public(to),
                }
                if self.court.people.of_key(&definition.creator) == from && !definition.description.trim().is_empty() {
                    return None;
                }
                draft = self.define(from, definition);
                Class::OddText
            }
            4 => {
                let id = self.token_name(nisd::model::NamespaceId::parse("r0").ok()?);
                let delta = if self.random.coin() { 0 } else { 9_000_000_000_000_001 };
                draft = self.change_supply(from, id, SupplyChangeKind::Create, delta);
                Class::OddText
            }
            _ => {
                let inner = self.draft_of_multisig()?;
                let mut whole = self.wrap(inner)?;
                let Body::Multisig(body) = &mut whole.body else { return None };
                let is_hash = self.random.coin();
                let Body::Cosignature(signed) = &mut body.cosignatures.first_mut()?.body else { return None };
                if is_hash {
                    signed.other_hash = nisd::model::Hash256([7; 32]).into();
                } else {
                    signed.other_account = self.court.people.address(from);
                }
                draft = whole;
                Class::OddText
            }
        };
        self.sign(&mut draft);
        Some((class, draft))
    }

    /// A signed transaction with a number at its limit.
    fn limit(&mut self) -> Option<Transaction> {
        const GREATEST: u64 = i64::MAX as u64;
        let mut draft = self.something()?;
        let coin = self.random.coin();
        match &mut draft.body {
            Body::Transfer(body) if body.mosaics.is_empty() => {
                body.amount = Amount(if coin { GREATEST } else { GREATEST - draft.fee.0 });
                draft.version = wire_version(self.court.people.network, 1);
            }
            Body::Transfer(body) if coin => body.mosaics[0].quantity = GREATEST,
            Body::AggregateModification(body) => {
                draft.version = wire_version(self.court.people.network, 2);
                body.min_cosignatories_change = Some(if coin { i32::MIN } else { i32::MAX });
            }
            Body::ProvisionNamespace(body) if coin => body.rental_fee = Amount(GREATEST),
            Body::MosaicDefinitionCreation(body) if coin => body.creation_fee = Amount(GREATEST),
            Body::MosaicSupplyChange(body) => body.delta = if coin { 9_000_000_000_000_000 } else { 1 },
            _ => draft.fee = Amount(GREATEST),
        }
        self.finish(draft)
    }
}
