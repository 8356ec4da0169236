//! The eight kinds of transactions, and blocks of them.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::address::{Address, NetworkByte};
use super::mosaic::{Mosaic, MosaicDefinition, MosaicId, NameError, NamespaceId};
use super::units::{Amount, Hash256, Height, Timestamp, WireHash};
use crate::crypto::{PublicKey, Signature};

const ENTITY_VERSION_MASK: i32 = 0x00ff_ffff;

/// A transaction: the fields common to all kinds, and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Network byte and entity version, as on the wire.
    pub version: i32,
    /// Time of creation.
    pub timestamp: Timestamp,
    /// Key of the account for which it acts.
    pub signer: PublicKey,
    /// Signature; `None` for the inner transaction of a multisig transaction and for unsigned ones.
    pub signature: Option<Signature>,
    /// Fee; 0 if the signer is the nemesis account.
    pub fee: Amount,
    /// Last time at which it may be included in a block.
    pub deadline: Timestamp,
    /// Body of the kind.
    pub body: Body,
}

/// Declares the kinds of transactions: name, body, and number on the wire.
macro_rules! transaction_kinds {
    ($($(#[$doc:meta])* $kind:ident($body:ty) = $code:literal,)*) => {
        /// Body of a transaction, one variant per kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body { $($(#[$doc])* $kind($body)),* }

        wire_enum! {
            /// Kind of a transaction.
            TransactionKind { $($(#[$doc])* $kind = $code,)* }
        }

        impl Body {
            /// Returns the kind.
            pub fn kind(&self) -> TransactionKind {
                match self { $(Body::$kind(_) => TransactionKind::$kind),* }
            }
        }
    };
}

transaction_kinds! {
    /// Moves currency and mosaics.
    Transfer(Transfer) = 0x0101,
    /// Lends the signer's importance to a remote account, or ends that.
    ImportanceTransfer(ImportanceTransfer) = 0x0801,
    /// Changes the cosignatories of the signer.
    AggregateModification(AggregateModification) = 0x1001,
    /// Cosigns a transaction of a multisig account.
    Cosignature(Cosignature) = 0x1002,
    /// Acts for a multisig account.
    Multisig(Box<Multisig>) = 0x1004,
    /// Rents a namespace.
    ProvisionNamespace(ProvisionNamespace) = 0x2001,
    /// Creates or redefines a mosaic.
    MosaicDefinitionCreation(Box<MosaicDefinitionCreation>) = 0x4001,
    /// Changes the supply of a mosaic.
    MosaicSupplyChange(MosaicSupplyChange) = 0x4002,
}

impl Transaction {
    /// Returns the version without the network byte.
    pub fn entity_version(&self) -> i32 {
        entity_version(self.version)
    }

    /// Returns the address of the signer.
    pub fn signer_address(&self, network: NetworkByte) -> Address {
        Address::from_public_key(&self.signer, network)
    }

    /// Returns the inner transaction of a multisig transaction.
    pub fn inner(&self) -> Option<&Transaction> {
        match &self.body {
            Body::Multisig(multisig) => Some(&multisig.inner),
            _ => None,
        }
    }

    /// Returns the cosignatures of a multisig transaction.
    pub fn cosignatures(&self) -> &[Transaction] {
        match &self.body {
            Body::Multisig(multisig) => &multisig.cosignatures,
            _ => &[],
        }
    }

    /// Returns the direct children: cosignatures, then the inner transaction.
    pub fn children(&self) -> impl Iterator<Item = &Transaction> {
        self.cosignatures().iter().chain(self.inner())
    }

    /// Returns the transaction itself, then its direct children.
    pub fn self_and_children(&self) -> impl Iterator<Item = &Transaction> {
        std::iter::once(self).chain(self.children())
    }

    /// Returns its deadline or that of a direct child, the earliest of them.
    pub fn last_valid(&self) -> Timestamp {
        self.self_and_children().map(|one| one.deadline).fold(self.deadline, Timestamp::min)
    }

    /// Returns whether it and its direct children can be valid at any time: their deadlines are after their time stamps.
    pub fn has_lifetime(&self) -> bool {
        self.self_and_children().all(|one| one.timestamp < one.deadline)
    }

    /// Returns whether its deadline or that of a direct child has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.last_valid() < now
    }

    /// Appends the accounts other than its signer that its body names; none for a multisig transaction or a cosignature.
    pub fn add_recipients(&self, network: NetworkByte, out: &mut Vec<Address>) {
        let address = |key| Address::from_public_key(key, network);
        match &self.body {
            Body::Transfer(body) => out.push(body.recipient),
            Body::ImportanceTransfer(body) => out.push(address(&body.remote)),
            Body::AggregateModification(body) => {
                out.extend(body.modifications.iter().map(|one| address(&one.cosignatory)));
            }
            Body::ProvisionNamespace(body) => out.push(body.rental_fee_sink),
            Body::MosaicDefinitionCreation(body) => {
                let levied = body.definition.levy.as_ref().map(|levy| levy.recipient);
                out.push(body.creation_fee_sink);
                out.extend(levied.filter(|recipient| *recipient != self.signer_address(network)));
            }
            Body::MosaicSupplyChange(_) | Body::Multisig(_) | Body::Cosignature(_) => {}
        }
    }

    /// Returns the sum of its fee and the fees of its inner transaction and cosignatures.
    pub fn total_fee(&self) -> Amount {
        Amount(self.self_and_children().fold(0, |sum, one| sum.wrapping_add(one.fee.0)))
    }
}

/// Hashes of a transaction and of its direct children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Hash of the transaction itself.
    pub own: Hash256,
    /// Hashes of [`Transaction::children`], in that order.
    pub children: Vec<Hash256>,
}

impl Hashes {
    /// Returns all hashes, its own first.
    pub fn all(&self) -> impl Iterator<Item = &Hash256> {
        std::iter::once(&self.own).chain(&self.children)
    }
}

/// Returns the version without the network byte.
pub fn entity_version(version: i32) -> i32 {
    version & ENTITY_VERSION_MASK
}

/// Returns the network byte of a version field.
pub fn wire_network(version: i32) -> NetworkByte {
    NetworkByte((version >> 24) as u8)
}

/// Returns the version field of an entity of a network.
pub fn wire_version(network: NetworkByte, entity_version: i32) -> i32 {
    (i32::from(network.0) << 24) | (entity_version & ENTITY_VERSION_MASK)
}

/// Body of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Recipient.
    pub recipient: Address,
    /// Amount in micro-units; with attached mosaics, a multiplier of their quantities.
    pub amount: Amount,
    /// Message, plain or encrypted; never with an empty payload.
    pub message: Option<Message>,
    /// Attached mosaics, merged by id and in wire order; always empty in version 1.
    pub mosaics: Vec<Mosaic>,
}

impl Transfer {
    /// Returns the length of the message in bytes.
    pub fn message_length(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.payload.len())
    }

    /// Returns the attached mosaics other than `nem:xem`, in wire order, the order of checks and transfers.
    pub fn other_mosaics(&self) -> impl Iterator<Item = &Mosaic> {
        self.mosaics.iter().filter(|mosaic| !mosaic.id.is_xem())
    }
}

/// A message attached to a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Plain or secure.
    pub kind: MessageKind,
    /// Payload of up to 2,048 bytes.
    pub payload: Vec<u8>,
}

wire_enum! {
    /// Whether a message is encrypted.
    MessageKind {
        /// Readable by anyone.
        Plain = 1,
        /// Readable by sender and recipient.
        Secure = 2,
    }
}

/// Body of an importance transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportanceTransfer {
    /// Lend or take back.
    pub mode: LinkMode,
    /// Key of the remote account.
    pub remote: PublicKey,
}

wire_enum! {
    /// Direction of an importance transfer.
    LinkMode {
        /// Lend importance.
        Activate = 1,
        /// End the lending.
        Deactivate = 2,
    }
}

/// Body of a multisig aggregate modification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateModification {
    /// Changes of the cosignatories, sorted by kind and address.
    pub modifications: Vec<Modification>,
    /// Change of the number of required signatures. Absence differs from a change of 0. Always absent in version 1.
    pub min_cosignatories_change: Option<i32>,
}

/// One change of the cosignatories of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modification {
    /// Add or delete.
    pub kind: ModificationKind,
    /// Key of the cosignatory.
    pub cosignatory: PublicKey,
}

wire_enum! {
    /// Kind of a cosignatory change, ordered as on the wire.
    ModificationKind {
        /// Add.
        Add = 1,
        /// Delete.
        Delete = 2,
        /// Readable, but never valid.
        Unknown = 3,
    }
}

/// Body of a multisig signature transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosignature {
    /// Hash of the inner transaction of the multisig transaction.
    pub other_hash: WireHash,
    /// The multisig account.
    pub other_account: Address,
}

/// Body of a multisig transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multisig {
    /// The multisig account's transaction, without a signature of its own.
    pub inner: Transaction,
    /// Cosignatures, each a [`Body::Cosignature`], ordered by signer address, one per signer.
    pub cosignatures: Vec<Transaction>,
}

impl Multisig {
    /// Returns which of the account's cosignatories count, and how many of these must sign. One that the transaction
    /// deletes does not count.
    pub fn counting_signers(
        &self,
        cosignatories: BTreeSet<Address>,
        min_cosignatories: u32,
        network: NetworkByte,
    ) -> (BTreeSet<Address>, usize) {
        let (total, mut counting) = (cosignatories.len(), cosignatories);
        if let Body::AggregateModification(body) = &self.inner.body {
            for deleted in body.modifications.iter().filter(|one| one.kind == ModificationKind::Delete) {
                counting.remove(&Address::from_public_key(&deleted.cosignatory, network));
            }
        }
        let required = match min_cosignatories as usize {
            needed if needed == 0 || needed == total => counting.len(),
            needed => needed,
        };
        (counting, required)
    }
}

/// Body of a namespace provision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionNamespace {
    /// Recipient of the rental fee.
    pub rental_fee_sink: Address,
    /// Rental fee.
    pub rental_fee: Amount,
    /// Last part of the name.
    pub new_part: String,
    /// Parent namespace; `None` for a root.
    pub parent: Option<NamespaceId>,
}

impl ProvisionNamespace {
    /// Returns the full name of the rented namespace.
    pub fn name(&self) -> Result<NamespaceId, NameError> {
        match &self.parent {
            Some(parent) => parent.child(&self.new_part),
            None => NamespaceId::parse(&self.new_part),
        }
    }
}

/// Body of a mosaic definition creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicDefinitionCreation {
    /// The definition; its creator is the signer.
    pub definition: MosaicDefinition,
    /// Recipient of the creation fee.
    pub creation_fee_sink: Address,
    /// Creation fee.
    pub creation_fee: Amount,
}

/// Body of a mosaic supply change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicSupplyChange {
    /// Id of the mosaic.
    pub mosaic: MosaicId,
    /// Increase or decrease.
    pub kind: SupplyChangeKind,
    /// Change in whole units: 1 to 9·10¹⁵.
    pub delta: u64,
}

wire_enum! {
    /// Direction of a supply change.
    SupplyChangeKind {
        /// Increase.
        Create = 1,
        /// Decrease.
        Delete = 2,
    }
}

wire_enum! {
    /// Kind of a block.
    BlockKind {
        /// The first block of a chain.
        Nemesis = -1,
        /// Any other block.
        Regular = 1,
    }
}

/// A block of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Nemesis or regular.
    pub kind: BlockKind,
    /// Network byte and entity version, as on the wire.
    pub version: i32,
    /// Time of creation.
    pub timestamp: Timestamp,
    /// Key of the harvester.
    pub signer: PublicKey,
    /// The harvester's signature; `None` in a block under construction or read in its non-verifiable form.
    pub signature: Option<Signature>,
    /// Hash of the parent.
    pub previous_hash: WireHash,
    /// Height of the block.
    pub height: Height,
    /// The transactions, in order.
    pub transactions: Vec<Transaction>,
}

impl Block {
    /// Returns the fees of all transactions, including nested ones. Wraps at 64 bits as in NIS1.
    pub fn total_fee(&self) -> Amount {
        let fees = self.transactions.iter().map(|transaction| transaction.total_fee().0);
        Amount(fees.fold(0, u64::wrapping_add))
    }
}

/// A block by height and hash, such as one that the operator trusts: `HEIGHT:HASH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
}

impl FromStr for Checkpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parse = || {
            let (height, hash) = text.split_once(':')?;
            let height = height.parse().ok().filter(|height| (2..=i64::MAX as u64).contains(height))?;
            Some(Checkpoint { height: Height(height), hash: Hash256::from_hex(hash)? })
        };
        parse().ok_or("write HEIGHT:HASH, a height of at least 2 and the 64 hex digits of its block's hash")
    }
}
