//! Who may send a private key to this node (specification 08 §8.3).

use std::fmt;
use std::net::IpAddr;

use crate::model::Address;
use crate::state::{LinkRole, View};
use crate::store::StoreError;

/// A request that brings a private key.
#[derive(Clone, Copy, Debug)]
pub struct KeySender<'a> {
    /// Where it comes from.
    pub ip: IpAddr,
    /// Whether that counts as local (specification 05 §17).
    pub is_local: bool,
    /// Path of the call.
    pub path: &'a str,
}

/// Why a private key is not taken. Shown in the protocol's own words.
#[derive(Debug)]
pub enum KeyRefusal {
    /// From elsewhere only keys of remote accounts are taken.
    NotRemote {
        /// Where the request comes from.
        ip: IpAddr,
        /// Path of the call.
        path: String,
        /// The key's account.
        address: Address,
    },
    /// `nis.allowedHarvesterAddresses` names others only.
    NotConfigured(Address),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for KeyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyRefusal::NotRemote { ip, path, address } => {
                write!(f, "remote {ip} attempted to call local {path} with non-remote address {address}")
            }
            KeyRefusal::NotConfigured(address) => {
                write!(f, "blocking private key request with non-configured address {address}")
            }
            KeyRefusal::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeyRefusal {}

impl From<StoreError> for KeyRefusal {
    fn from(error: StoreError) -> Self {
        KeyRefusal::Store(error)
    }
}

/// Whether the private key of an account is taken from a sender; `allowed` are the addresses of
/// `nis.allowedHarvesterAddresses`, empty for all.
pub fn may_send_key(
    sender: &KeySender<'_>,
    address: &Address,
    allowed: &[Address],
    state: &impl View,
) -> Result<(), KeyRefusal> {
    let is_remote = || -> Result<bool, StoreError> {
        Ok(state.account(address)?.links.last().is_some_and(|link| link.role == LinkRole::Remote))
    };
    if !sender.is_local && !is_remote()? {
        return Err(KeyRefusal::NotRemote { ip: sender.ip, path: sender.path.to_owned(), address: *address });
    }
    if !allowed.is_empty() && !allowed.contains(address) {
        return Err(KeyRefusal::NotConfigured(*address));
    }
    Ok(())
}
