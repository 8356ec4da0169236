//! Response objects, written as JSON or binary. `push` uses them for its messages too.

mod account;
mod explorer;
mod history;
mod mosaic;
mod node;
mod peers;
mod reorgs;
mod transaction;

pub use account::{
    AccountInfo, AccountMeta, AccountMetaHead, AccountPair, AccountPairHead, MultisigInfo, RemoteStatus, UnlockedInfo,
};
pub use explorer::{ExplorerBlockHead, ExplorerEntry};
pub use history::{HarvestInfo, HistoryPoint, ImportanceEntry};
pub use mosaic::{
    DefinitionAndSupply, ExpiredMosaicHead, ExpiringDefinition, MosaicBalance, MosaicSupply, Namespace, Numbered,
};
pub use node::{
    ClockState, ExtendedInfo, NodeClock, NodeDescription, NodeStatus, RequestRecord, RequestRecords,
    TimeSynchronisations, Timers, date_and_time,
};
pub use peers::PeersReport;
pub use reorgs::ReorgsReport;
pub use transaction::{AnnounceResult, BlockHead, TransactionMeta, TransactionPair, Unconfirmed};

use crate::codec::Encoder;
use crate::crypto::PublicKey;
use crate::model::Address;

/// An object of the interface.
pub use crate::codec::Writable as View;

/// Result of a check or an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// Kind.
    pub kind: ResultKind,
    /// Code, with a meaning that depends on the kind.
    pub code: i32,
    /// Human-readable text.
    pub message: &'static str,
}

/// Kinds of [`RequestResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// 1: validation result.
    Validation,
    /// 2: heartbeat.
    Heartbeat,
    /// 4: status of the node.
    Status,
}

impl View for RequestResult {
    fn write(&self, sink: &mut impl Encoder) {
        let kind = match self.kind {
            ResultKind::Validation => 1,
            ResultKind::Heartbeat => 2,
            ResultKind::Status => 4,
        };
        sink.i32("type", kind);
        sink.i32("code", self.code);
        sink.string("message", Some(self.message));
    }
}

/// `{"data": hex}`.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a>(pub &'a [u8]);

impl View for Data<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("data", Some(self.0));
    }
}

/// A new key pair.
pub struct NewKey<'a> {
    /// Private key as NIS1 prints it.
    pub private_key: &'a str,
    /// Its public key.
    pub public_key: PublicKey,
    /// Its address.
    pub address: Address,
}

impl View for NewKey<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("privateKey", Some(self.private_key));
        sink.string("publicKey", Some(&self.public_key.to_string()));
        sink.string("address", Some(self.address.as_str()));
    }
}

/// `{"data": [...]}`, with a [`Encoder::spliced_list`] for the list.
#[derive(Clone, Copy, Debug)]
pub struct DataListHead;

impl View for DataListHead {
    fn write(&self, sink: &mut impl Encoder) {
        sink.spliced_list("data");
    }
}
