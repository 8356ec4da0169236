//! Bytes that no program writes: unordered lists, duplicates, other spellings, content that no block may have, and
//! numbers at their limits.

use nisd::codec::SigningForm;
use nisd::model::mosaic::LevyKind;
use nisd::model::transaction::wire_version;
use nisd::model::{Amount, Block, Body, Mosaic, MosaicDefinition, MosaicId, Transaction};

use super::NetworkRun;
use super::block_cases::resign;
use super::court::Purpose;
use super::figures::Class;
use super::maker::{MAX_DESCRIPTION, MICRO, Maker};
use super::people::{AccountIndex, HARVESTERS};
use super::record::Part;
use super::rule::{ExpectedResult, Rule};

/// Position of a transaction's signature, and where the signed bytes continue.
const SIGNATURE: std::ops::Range<usize> = 52..116;
const AFTER_SIGNATURE: usize = 116;
/// Position of the body of a transaction.
const BODY: usize = 128;
/// Size of an address with its length prefix in bytes.
const ADDRESS: usize = 44;
/// The maximum amount.
const MAX_AMOUNT: u64 = i64::MAX as u64;
const SINK: [AccountIndex; 2] = [HARVESTERS[0]; 2];

impl NetworkRun {
    /// Offers a valid block with some odd bytes, which is the same block. If the signature covers the odd bytes, it is
    /// invalid.
    pub fn try_odd_bytes(&mut self) {
        if self.next_height() == self.test_network.terms.forks.treasury {
            return;
        }
        let Some(transaction) = self.with_maker(SINK, |maker| maker.something_with_lists()) else { return };
        let time = self.time();
        let block = self.block(HARVESTERS[0], time, vec![transaction.clone()]);
        let Ok(after) = self.test_network.oracle(&self.model, time, Purpose::Block).validate_block(&block) else {
            return;
        };
        let seed = self.random.next();
        let Some((class, odd)) = self.make_odd(&transaction, seed) else { return };
        let usual = transaction.to_bytes(SigningForm::Verifiable);
        let bytes = replaced(&block.to_bytes(SigningForm::Verifiable), &usual, &odd);
        self.statistics.offered += 2;
        let before = self.node.digest();
        let (found, _) = self.node.offer_bytes(self.model.height, std::slice::from_ref(&bytes), time);
        let is_same = self.node.height() > self.model.height && self.node.hash(block.height.0) == block.hash();
        if found != ExpectedResult::Valid || !is_same {
            self.add_difference(format!("{}: {found:?}; time {time}; {}", class.name(), hex::encode(&bytes)));
        } else {
            let own = std::mem::replace(&mut self.model, after);
            self.check_state();
            if let Some(recorder) = &mut self.recorder {
                recorder.undone(&self.test_network, &Part::after(&own, &[bytes], time), &[&own, &self.model]);
            }
            self.model = own;
            self.node.roll_back(self.model.height);
        }
        if self.node.digest() != before {
            self.add_difference(format!("{}: undoing it leaves something", class.name()));
        }
        self.statistics.count_class(class);
        self.try_signed_oddly(&transaction, &odd, block);
    }

    /// The variant with a signature over the odd bytes.
    fn try_signed_oddly(&mut self, transaction: &Transaction, odd: &[u8], block: Block) {
        let signed = [&odd[..SIGNATURE.start - 4], &odd[AFTER_SIGNATURE..]].concat();
        let signer = self.test_network.key_ring.of_key(&transaction.signer);
        let is_odd = signed != transaction.signed_bytes();
        if matches!(transaction.body, Body::Multisig(_)) || !self.test_network.key_ring.can_sign(signer) || !is_odd {
            return;
        }
        let signature = self.test_network.key_ring.keys(signer).sign(&signed);
        let mut odd = odd.to_vec();
        odd[SIGNATURE].copy_from_slice(&signature.0);
        // The signature of the block, which is checked first, is that of what is read.
        let mut block = block;
        let usual = Transaction { signature: Some(signature), ..transaction.clone() };
        block.transactions.iter_mut().filter(|one| *one == transaction).for_each(|one| *one = usual.clone());
        let harvester = self.test_network.key_ring.of_key(&block.signer);
        resign(&mut block, self.test_network.key_ring.keys(harvester));
        let usual = usual.to_bytes(SigningForm::Verifiable);
        let bytes = replaced(&block.to_bytes(SigningForm::Verifiable), &usual, &odd);
        let now = block.timestamp.0;
        let (found, _) = self.node.offer_bytes(self.model.height, std::slice::from_ref(&bytes), now);
        self.check_refusal(&Rule::BadTransactionSignature.into(), self.model.height, &[bytes], now, &found);
        self.statistics.count_class(Class::SignedOddly);
    }

    /// Returns a transaction in other bytes than its usual ones.
    fn make_odd(&mut self, transaction: &Transaction, seed: u64) -> Option<(Class, Vec<u8>)> {
        let mut odd = transaction.clone();
        let initiator = self.test_network.key_ring.of_key(&transaction.signer);
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
                        own.signer = self.test_network.key_ring.public(initiator);
                        body.cosignatures.insert(0, own);
                        Class::OwnCosignature
                    }
                    _ => make_odd_struct(&mut body.inner.body, seed / 4)?,
                };
                Some((class, odd.to_bytes(SigningForm::Verifiable)))
            }
            body => {
                if let Some(class) = make_odd_struct(body, seed) {
                    return Some((class, odd.to_bytes(SigningForm::Verifiable)));
                }
                make_odd_text(transaction, seed)
            }
        }
    }

    /// Offers a transaction with a number at its limit, whatever its result.
    pub fn try_limit(&mut self) {
        if self.next_height() == self.test_network.terms.forks.treasury {
            return;
        }
        let now = self.time();
        let Some((class, transaction)) = self.with_maker(SINK, |maker| maker.limit()) else { return };
        let block = self.block(HARVESTERS[0], now, vec![transaction]);
        let class = match self.test_network.oracle(&self.model, now, Purpose::Block).validate_block(&block) {
            Err(ruling) => {
                self.offer_bad(&ruling, std::slice::from_ref(&block), now);
                // Some are rejected for another reason.
                if class == Class::WrappedLevy { Class::Limit } else { class }
            }
            Ok(after) => {
                self.offer_good(&block, after, now, false);
                class
            }
        };
        self.announce(&block.transactions[0], now);
        self.statistics.count_class(class);
    }
}

/// Returns the bytes of a block with the bytes of its only transaction replaced.
pub fn replaced(block: &[u8], usual: &[u8], odd: &[u8]) -> Vec<u8> {
    let start = block.len() - usual.len();
    assert!(&block[start..] == usual, "the transaction ends the block");
    [&block[..start - 4], &(odd.len() as u32).to_le_bytes(), odd].concat()
}

/// Reorders the content of a body.
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
    let mut bytes = transaction.to_bytes(SigningForm::Verifiable);
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
        Body::MosaicDefinitionCreation(body) => match with_odd_description(&bytes, &body.definition) {
            Some(odd) => Some((Class::LongDescription, odd)),
            None => Some((Class::OddProperties, with_odd_properties(bytes, &body.definition, seed)?)),
        },
        _ => None,
    }
}

/// Returns a description longer than what is read of it, or with invalid UTF-8 where the replacement character is.
fn with_odd_description(bytes: &[u8], definition: &MosaicDefinition) -> Option<Vec<u8>> {
    let text = definition.description.as_bytes();
    let odd = match text.windows(3).position(|part| part == "\u{fffd}".as_bytes()) {
        Some(place) => [&text[..place], &[0xff], &text[place + 3..]].concat(),
        None if definition.description.encode_utf16().count() == MAX_DESCRIPTION => [text, b" and more"].concat(),
        None => return None,
    };
    let with_length = |text: &[u8]| [&(text.len() as u32).to_le_bytes(), text].concat();
    let (usual, odd) = (with_length(text), with_length(&odd));
    let place = bytes.windows(usual.len()).position(|part| part == usual)?;
    let length = u32::from_le_bytes(*bytes[BODY..].first_chunk()?) + odd.len() as u32 - usual.len() as u32;
    Some([&bytes[..BODY], &length.to_le_bytes(), &bytes[BODY + 4..place], &odd, &bytes[place + usual.len()..]].concat())
}

/// Returns whether a name in a transaction is unusual.
pub fn has_odd_name(transaction: &Transaction) -> bool {
    let is_odd = |name: &str| name.len() > 15 || name.contains(['-', '_', '\'', ' ']);
    match &transaction.body {
        Body::ProvisionNamespace(body) => is_odd(&body.new_part),
        Body::MosaicDefinitionCreation(body) => is_odd(body.definition.id.name()),
        Body::Transfer(body) => body.mosaics.iter().any(|mosaic| is_odd(mosaic.id.name())),
        _ => false,
    }
}

/// Returns whether a description is unusual.
pub fn has_odd_text(transaction: &Transaction) -> bool {
    let Body::MosaicDefinitionCreation(body) = &transaction.body else { return false };
    let text = &body.definition.description;
    !text.is_ascii() || text.len() == MAX_DESCRIPTION
}

/// Returns properties in reverse order, with flags in capital letters, one duplicate, and one unknown.
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
    /// Returns a valid transaction that probably contains a list.
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
            self.oracle.validate(&whole).ok().map(|_| whole)
        })
    }

    /// Returns a signed transaction with a number at its limit.
    fn limit(&mut self) -> Option<(Class, Transaction)> {
        match self.random.below(6) {
            0 => self.wide_sum().map(|one| (Class::WideSum, one)),
            1 => self.wide_product().map(|one| (Class::WideProduct, one)),
            2 => self.wrapped_levy().map(|one| (Class::WrappedLevy, one)),
            _ => self.number_at_limit().map(|one| (Class::Limit, one)),
        }
    }

    fn number_at_limit(&mut self) -> Option<Transaction> {
        let mut draft = self.random_transaction()?;
        let coin = self.random.coin();
        match &mut draft.body {
            Body::Transfer(body) if body.mosaics.is_empty() => {
                body.amount = Amount(if coin { MAX_AMOUNT } else { MAX_AMOUNT - draft.fee.0 });
                draft.version = wire_version(self.oracle.key_ring.network, 1);
            }
            Body::Transfer(body) if coin => body.mosaics[0].quantity = MAX_AMOUNT,
            Body::AggregateModification(body) => {
                draft.version = wire_version(self.oracle.key_ring.network, 2);
                body.min_cosignatories_change = Some(if coin { i32::MIN } else { i32::MAX });
            }
            Body::ProvisionNamespace(body) if coin => body.rental_fee = Amount(MAX_AMOUNT),
            Body::MosaicDefinitionCreation(body) if coin => body.creation_fee = Amount(MAX_AMOUNT),
            Body::MosaicSupplyChange(body) => body.delta = if coin { 9_000_000_000_000_000 } else { 1 },
            _ => draft.fee = Amount(MAX_AMOUNT),
        }
        self.finish(draft)
    }

    /// Everything that a multisig account pays is the maximum that can be written.
    fn wide_sum(&mut self) -> Option<Transaction> {
        let mut inner = self.draft_of_multisig()?;
        inner.fee = Amount(MAX_AMOUNT);
        if let Body::Transfer(body) = &mut inner.body {
            body.amount = Amount(MAX_AMOUNT);
        }
        let mut whole = self.wrap(inner)?;
        whole.fee = Amount(MAX_AMOUNT);
        let is_greatest = self.random.coin();
        if let (Body::Multisig(body), true) = (&mut whole.body, is_greatest) {
            body.cosignatures.iter_mut().for_each(|one| one.fee = Amount(MAX_AMOUNT));
        }
        self.finish(whole)
    }

    /// A quantity and a multiplier, each the maximum that can be written.
    fn wide_product(&mut self) -> Option<Transaction> {
        let id = if self.random.coin() { MosaicId::xem() } else { self.token(|_, token| token.supply > 0)?.0.clone() };
        let (from, to) = (self.random_single_payer(1_000)?, self.random_payee());
        let amount = if self.random.coin() { MAX_AMOUNT } else { MAX_AMOUNT / MICRO * MICRO };
        let quantity = MAX_AMOUNT - self.random.next() % 2;
        let draft = self.transfer_of(from, to, amount, vec![Mosaic { id, quantity }]);
        self.finish(draft)
    }

    /// A quantity whose levy product exceeds 2⁶⁴ slightly; only the excess is paid.
    fn wrapped_levy(&mut self) -> Option<Transaction> {
        let least = |token: &super::model::Token| {
            let levy = token.definition.levy.as_ref().filter(|levy| levy.kind == LevyKind::Percentile)?;
            u64::try_from((1u128 << 64).div_ceil(u128::from(levy.fee))).ok()
        };
        let court = self.oracle;
        let able: Vec<bool> = (0..court.key_ring.len()).map(|who| self.can_act(who)).collect();
        let holders = |token: &super::model::Token, least: u64| {
            let rich = token.balances.iter().filter(|(who, has)| able[**who] && **has >= least);
            rich.map(|(who, _)| *who).collect::<Vec<_>>()
        };
        let is_fit = |id: &MosaicId, token: &super::model::Token| {
            let is_live = court.model.is_active(&id.namespace, court.height, court.terms.year());
            is_live && least(token).is_some_and(|least| !holders(token, least).is_empty())
        };
        let (id, token) = self.token(is_fit)?;
        let least = least(token)?;
        let from = *self.random_element(&holders(token, least))?;
        let quantity = least + self.random.next() % (token.of(from) - least + 1).min(100);
        let to = if token.definition.properties.transferable { self.random_payee() } else { token.creator };
        let draft = self.transfer_of(from, to, MICRO, vec![Mosaic { id: id.clone(), quantity }]);
        self.finish(draft)
    }
}
