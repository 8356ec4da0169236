//! The program as its users call it.

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod devnet;
mod operator;
mod service;
mod settings;
mod terminal;
mod wallet;
