//! A private network of one's own, created from nothing.
//!
//! | Part | Content |
//! |---|---|
//! | [`Role`] | accounts, balances and demo keys |
//! | [`nemesis_block`] | the first block |
//! | [`Devnet`] | the folder of the network: settings, keys and nemesis block beside the store |
//! | [`JoinFiles`] | the files that another node needs to join |
//!
//! Time and randomness are passed in as [`Services`].

mod accounts;
mod error;
mod folder;
mod introduction;
mod join;
mod nemesis;

pub use accounts::{Role, SUPPLY, key_from_seed};
pub use error::DevnetError;
pub use folder::{Account, Devnet, Services};
pub use introduction::{Ports, introduction};
pub use join::JoinFiles;
pub use nemesis::{generation_hash, nemesis_block};
