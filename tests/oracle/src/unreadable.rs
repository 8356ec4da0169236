//! Blocks that cannot be decoded: impossible names, texts, addresses and numbers.

use nisd::codec::SigningForm;
use nisd::model::mosaic::LevyKind;
use nisd::model::transaction::SupplyChangeKind;
use nisd::model::{Address, Amount, Body, Hash256, Levy, Mosaic, MosaicId, NamespaceId, Transaction};

use super::bends::version_1;
use super::block_cases::resign;
use super::figures::Class;
use super::ground::UNREADABLE;
use super::maker::{MICRO, Maker};
use super::odd_bytes::replaced;
use super::people::{AccountIndex, HARVESTERS};
use super::rule::{ExpectedResult, Rule};
use super::{NetworkRun, bytes_of};

/// A name of seven letters that is replaced by others.
const PLACEHOLDER: &str = "qqqqqqq";
/// Invalid mosaic names.
const INVALID_MOSAIC_NAMES: [&str; 9] =
    ["Upperab", "a  bcde", " abcdef", "abcdef ", "'abcdef", "-abcdef", "a.bcdef", "abc:def", "caf\u{e9}ab"];
/// The maximum amount.
const MAX_AMOUNT: u64 = i64::MAX as u64;

/// A replacement in the bytes of a transaction: old and new bytes.
type Change = Option<(Vec<u8>, Vec<u8>)>;

impl NetworkRun {
    /// Offers a block that cannot be decoded.
    pub fn try_unreadable(&mut self, harvesters: [AccountIndex; 2]) {
        let now = self.time_of(harvesters[0]);
        let Some((class, transaction, change)) = self.with_maker(harvesters, |maker| maker.unreadable()) else {
            return;
        };
        let mut block = self.block(harvesters[0], now, vec![transaction.clone()]);
        resign(&mut block, self.test_network.key_ring.keys(harvesters[0]));
        let mut bytes = bytes_of(std::slice::from_ref(&block));
        if let Some((usual, odd)) = change {
            let whole = transaction.to_bytes(SigningForm::Verifiable);
            let Some(place) = whole.windows(usual.len()).rposition(|part| part == usual) else { return };
            let changed = [&whole[..place], &odd, &whole[place + usual.len()..]].concat();
            bytes[0] = replaced(&bytes[0], &whole, &changed);
        }
        self.statistics.offered += 1;
        let (found, _) = self.node.offer_bytes(self.model.height, &bytes, now);
        if matches!(&found, ExpectedResult::Exception(text) if text.starts_with(UNREADABLE)) {
            self.check_refusal(&Rule::Unreadable.into(), self.model.height, &bytes, now, &found);
        } else {
            self.add_difference(format!("{}: {found:?}; {}", class.name(), hex::encode(&bytes[0])));
        }
        self.statistics.count_class(class);
    }
}

/// Returns a text with its length prefix.
fn with_length(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn id_bytes([namespace, name]: [&str; 2]) -> Vec<u8> {
    [with_length(namespace), with_length(name)].concat()
}

impl Maker<'_> {
    /// Returns a signed transaction that cannot be decoded after the change.
    fn unreadable(&mut self) -> Option<(Class, Transaction, Change)> {
        let (class, mut draft, change) = match self.random.below(12) {
            0..3 => self.with_foreign_address()?,
            3 => {
                let name = ["Upper", "with blank", "-first", "a.b", "", "\u{e9}", "_first"][self.random.below(7)];
                let from = self.random_single_payer(100)?;
                (Class::OddName, self.rent(from, None, name), None)
            }
            4 => self.in_odd_namespace()?,
            5 => self.with_odd_mosaic_name()?,
            6 => self.with_overflow()?,
            7 | 8 => (Class::Negative, self.with_negative()?, None),
            _ => (Class::OddText, self.with_odd_text()?, None),
        };
        self.sign(&mut draft);
        Some((class, draft, change))
    }

    /// Returns an address of another network, with a wrong checksum, or with letters that no address has.
    fn with_foreign_address(&mut self) -> Option<(Class, Transaction, Change)> {
        let people = self.oracle.key_ring;
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let id = MosaicId::new(NamespaceId::parse("r0").ok()?, PLACEHOLDER).ok()?;
        let mut definition = self.definition_of(from, id);
        definition.levy = None;
        let (class, draft, address) = match self.random.below(6) {
            0 => {
                let draft = self.transfer_of(from, to, MICRO, Vec::new());
                (Class::ForeignRecipient, version_1(draft), people.address(to))
            }
            1 => {
                let draft = self.rent(from, None, PLACEHOLDER);
                let Body::ProvisionNamespace(body) = &draft.body else { return None };
                let sink = body.rental_fee_sink;
                (Class::ForeignSink, draft, sink)
            }
            2 => {
                let draft = self.define(from, definition);
                let Body::MosaicDefinitionCreation(body) = &draft.body else { return None };
                let sink = body.creation_fee_sink;
                (Class::ForeignSink, draft, sink)
            }
            3 | 4 => {
                let recipient = people.address(HARVESTERS[0]);
                definition.levy = Some(Levy { kind: LevyKind::Absolute, recipient, mosaic: MosaicId::xem(), fee: 1 });
                (Class::ForeignLevy, self.define(from, definition), recipient)
            }
            _ => {
                let inner = self.draft_of_multisig()?;
                let account = people.address(people.of_key(&inner.signer));
                (Class::ForeignCosigned, self.wrap(inner)?, account)
            }
        };
        let key = people.public(people.of_address(&address));
        let text = address.to_string();
        let odd = match self.random.below(4) {
            0 => Address::from_public_key(&key, people.other_network()).to_string(),
            1 => format!("{}{}", &text[..39], if text.ends_with('A') { 'B' } else { 'A' }),
            2 => format!("{}1{}", &text[..4], &text[5..]),
            _ => format!("{}-{}", &text[..6], &text[7..]),
        };
        Some((class, draft, Some((text.into_bytes(), odd.into_bytes()))))
    }

    /// Returns an invalid parent namespace or mosaic namespace.
    fn in_odd_namespace(&mut self) -> Option<(Class, Transaction, Change)> {
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let root = NamespaceId::parse(PLACEHOLDER).ok()?;
        let id = MosaicId::new(root.clone(), "m0").ok()?;
        let draft = match self.random.below(3) {
            0 => self.rent(from, Some(root), "part"),
            1 => self.transfer_of(from, to, MICRO, vec![Mosaic { id, quantity: 1 }]),
            _ => self.change_supply(from, id, SupplyChangeKind::Create, 1),
        };
        let odd = ["Upperab", "_abcdef", "a..bcde", "abcdef.", ".abcdef", "a.b.c.d", "a bcdef", "caf\u{e9}ab"];
        let odd = *self.random_element(&odd)?;
        Some((Class::OddParent, draft, Some((with_length(PLACEHOLDER), with_length(odd)))))
    }

    fn with_odd_mosaic_name(&mut self) -> Option<(Class, Transaction, Change)> {
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let longest = "q".repeat(32);
        let is_long = self.once_in(4);
        let name = if is_long { &longest } else { PLACEHOLDER };
        let id = MosaicId::new(NamespaceId::parse("r0").ok()?, name).ok()?;
        let draft = match self.random.below(3) {
            0 => {
                let definition = self.definition_of(from, id);
                self.define(from, definition)
            }
            1 => self.transfer_of(from, to, MICRO, vec![Mosaic { id, quantity: 1 }]),
            _ => self.change_supply(from, id, SupplyChangeKind::Create, 1),
        };
        // One letter too many for a name; the namespace has one fewer, so that no other length changes.
        let odd = if is_long {
            id_bytes(["r", &"q".repeat(33)])
        } else {
            id_bytes(["r0", *self.random_element(&INVALID_MOSAIC_NAMES)?])
        };
        Some((Class::OddMosaicName, draft, Some((id_bytes(["r0", name]), odd))))
    }

    /// Returns quantities of one mosaic whose sum overflows.
    fn with_overflow(&mut self) -> Option<(Class, Transaction, Change)> {
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let more = self.random.next() % 1_000;
        let (class, quantities) = if self.random.coin() {
            (Class::MosaicOverflow, vec![MAX_AMOUNT - more, 1_000])
        } else {
            (Class::WideOverflow, vec![MAX_AMOUNT, MAX_AMOUNT, 2 + more])
        };
        let mut draft = self.transfer_of(from, to, MICRO, Vec::new());
        let Body::Transfer(body) = &mut draft.body else { return None };
        body.mosaics = quantities.into_iter().map(|quantity| Mosaic { id: MosaicId::xem(), quantity }).collect();
        Some((class, draft, None))
    }

    /// Returns a number that is negative on the wire.
    fn with_negative(&mut self) -> Option<Transaction> {
        let number = [u64::MAX, 1 << 63, u64::MAX - self.random.next() % MICRO][self.random.below(3)];
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let id = MosaicId::new(NamespaceId::parse("r0").ok()?, PLACEHOLDER).ok()?;
        let mut draft = match self.random.below(8) {
            0 => self.transfer_of(from, to, MICRO, vec![Mosaic { id, quantity: number }]),
            1 => version_1(self.transfer_of(from, to, number, Vec::new())),
            2 => self.rent(from, None, PLACEHOLDER),
            3 | 4 => {
                let mut definition = self.definition_of(from, id);
                let mosaic = MosaicId::xem();
                let recipient = self.oracle.key_ring.address(to);
                definition.levy = Some(Levy { kind: LevyKind::Absolute, recipient, mosaic, fee: number });
                self.define(from, definition)
            }
            5 => self.change_supply(from, id, SupplyChangeKind::Create, number),
            _ => version_1(self.transfer_of(from, to, MICRO, Vec::new())),
        };
        let coin = self.random.coin();
        match &mut draft.body {
            Body::ProvisionNamespace(body) => body.rental_fee = Amount(number),
            Body::MosaicDefinitionCreation(body) if coin => {
                body.definition.levy = None;
                body.creation_fee = Amount(number);
            }
            Body::Transfer(body) if body.mosaics.is_empty() && body.amount.0 == MICRO => {
                if coin {
                    draft.fee = Amount(number)
                } else {
                    draft.timestamp.0 = -1 - (number >> 40) as i32
                }
            }
            _ => {}
        }
        Some(draft)
    }

    fn with_odd_text(&mut self) -> Option<Transaction> {
        let (from, to) = (self.random_single_payer(100)?, self.random_payee());
        let id = MosaicId::new(NamespaceId::parse("r0").ok()?, PLACEHOLDER).ok()?;
        match self.random.below(4) {
            0 | 1 => {
                let mut definition = self.definition_of(from, id);
                match self.random.below(5) {
                    0 => definition.description = " \t\n".to_owned(),
                    1 => definition.description.clear(),
                    2 => definition.properties.divisibility = 7,
                    3 => definition.properties.initial_supply = [9_000_000_000_000_001, u64::MAX][self.random.below(2)],
                    _ if to == from => return None,
                    _ => definition.creator = self.oracle.key_ring.public(to),
                }
                Some(self.define(from, definition))
            }
            2 => {
                let delta = if self.random.coin() { 0 } else { 9_000_000_000_000_001 };
                Some(self.change_supply(from, id, SupplyChangeKind::Create, delta))
            }
            _ => {
                let inner = self.draft_of_multisig()?;
                let mut whole = self.wrap(inner)?;
                let Body::Multisig(body) = &mut whole.body else { return None };
                let is_hash = self.random.coin();
                let Body::Cosignature(signed) = &mut body.cosignatures.first_mut()?.body else { return None };
                if is_hash {
                    signed.other_hash = Hash256([7; 32]).into();
                } else {
                    signed.other_account = self.oracle.key_ring.address(from);
                }
                Some(whole)
            }
        }
    }
}
