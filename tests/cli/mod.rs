//! The program as its users call it.

mod commands;
mod devnet;
mod files;
mod operator;
mod secrets_in_memory;
mod service;
mod settings;
mod terminal;
mod wallet;
mod watch;
