//! Views of accounts.

use super::View;
use crate::codec::Encoder;
use crate::crypto::PublicKey;
use crate::model::{Address, Amount};

/// An account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountInfo {
    /// Address.
    pub address: Address,
    /// Public key, if the chain has it.
    pub public_key: Option<PublicKey>,
    /// Confirmed balance.
    pub balance: Amount,
    /// Vested part of the balance at the tip.
    pub vested_balance: Amount,
    /// Number of blocks harvested.
    pub harvested_blocks: u64,
    /// Last importance, 0 if there is none.
    pub importance: f64,
    /// Set if it has cosignatories.
    pub multisig: Option<MultisigInfo>,
}

/// Multisig parameters of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultisigInfo {
    /// Number of cosignatories.
    pub cosignatories: u32,
    /// Signatures needed, as stored: 0 means all. NIS1 shows this value too, not the effective number.
    pub min_cosignatories: u32,
}

/// Metadata of an account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountMeta {
    /// Whether it harvests on this node.
    pub unlocked: bool,
    /// State of remote harvesting.
    pub remote_status: RemoteStatus,
    /// Multisig accounts that it cosigns.
    pub cosignatory_of: Vec<AccountInfo>,
    /// Its cosignatories.
    pub cosignatories: Vec<AccountInfo>,
}

/// State of remote harvesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStatus {
    /// Off.
    Inactive,
    /// Delegated, not yet in effect.
    Activating,
    /// Delegated.
    Active,
    /// Revoked, still in effect.
    Deactivating,
    /// This is the remote account.
    Remote,
}

impl RemoteStatus {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            RemoteStatus::Inactive => "INACTIVE",
            RemoteStatus::Activating => "ACTIVATING",
            RemoteStatus::Active => "ACTIVE",
            RemoteStatus::Deactivating => "DEACTIVATING",
            RemoteStatus::Remote => "REMOTE",
        }
    }
}

impl View for AccountInfo {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.bytes("publicKey", self.public_key.as_ref().map(|key| key.0.as_slice()));
        sink.u64("balance", self.balance.0);
        sink.u64("vestedBalance", self.vested_balance.0);
        sink.u64("harvestedBlocks", self.harvested_blocks);
        sink.string("label", None);
        sink.f64("importance", self.importance);
        sink.optional("multisigInfo", self.multisig, |sink, multisig| {
            sink.i32("cosignatoriesCount", multisig.cosignatories as i32);
            sink.i32("minCosignatories", multisig.min_cosignatories as i32);
        });
    }
}

impl View for AccountMeta {
    fn write(&self, sink: &mut impl Encoder) {
        self.write_with(sink, |sink| {
            sink.list("cosignatoryOf", &self.cosignatory_of, |sink, account| account.write(sink));
        });
    }
}

impl AccountMeta {
    fn write_with<S: Encoder>(&self, sink: &mut S, cosignatory_of: impl FnOnce(&mut S)) {
        sink.string("status", Some(if self.unlocked { "UNLOCKED" } else { "LOCKED" }));
        sink.string("remoteStatus", Some(self.remote_status.name()));
        cosignatory_of(sink);
        sink.list("cosignatories", &self.cosignatories, |sink, account| account.write(sink));
    }
}

/// An account with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct AccountPair<'a> {
    /// The account.
    pub account: &'a AccountInfo,
    /// The metadata.
    pub meta: &'a AccountMeta,
}

impl View for AccountPair<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("account", |sink| self.account.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

/// An account with its metadata, and a [`Encoder::spliced_list`] for the multisig accounts that it cosigns.
#[derive(Clone, Copy, Debug)]
pub struct AccountPairHead<'a>(pub AccountPair<'a>);

impl View for AccountPairHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let AccountPair { account, meta } = self.0;
        sink.object("account", |sink| account.write(sink));
        sink.object("meta", |sink| meta.write_with(sink, |sink| sink.spliced_list("cosignatoryOf")));
    }
}

/// The metadata of an account, and a [`Encoder::spliced_list`] for the multisig accounts that it cosigns.
#[derive(Clone, Copy, Debug)]
pub struct AccountMetaHead<'a>(pub &'a AccountMeta);

impl View for AccountMetaHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        self.0.write_with(sink, |sink| sink.spliced_list("cosignatoryOf"));
    }
}

/// Number of accounts that harvest on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockedInfo {
    /// Limit; no limit if negative.
    pub max: i32,
    /// Current number.
    pub count: i32,
}

impl View for UnlockedInfo {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i32("num-unlocked", self.count);
        sink.i32("max-unlocked", self.max);
    }
}
