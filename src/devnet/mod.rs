//! A private network of one's own, from nothing.
//!
//! | part | what it is |
//! |---|---|
//! | [`Role`] | who owns what, and the demo keys |
//! | [`nemesis_block`] | the first block |
//! | [`Devnet`] | the folder of such a network: its settings, keys and nemesis block beside the store |
//! | [`Join`] | what another node needs to join |
//!
//! Time and randomness come from outside, as [`Outside`].

mod accounts;
mod error;
mod folder;
mod introduction;
mod join;
mod nemesis;

pub use accounts::{Role, SUPPLY, key_of};
pub use error::DevnetError;
pub use folder::{Account, Devnet, Outside};
pub use introduction::{Ports, introduction};
pub use join::Join;
pub use nemesis::{generation_hash, nemesis_block};
