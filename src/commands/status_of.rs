//! `nisd status-of`: what became of a transaction.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::send::MAX_LIFETIME;
use super::{CommandError, DEFAULT_NODE, print};
use crate::clock::System;
use crate::logging;
use crate::model::Hash256;
use crate::wallet::{TransactionStatus, await_end};

/// `nisd status-of`.
#[derive(Args, Debug)]
pub struct StatusOf {
    /// Hash of the transaction, or of its inner transaction: 64 hex digits
    #[arg(value_name = "HASH", value_parser = hash)]
    hash: Hash256,
    /// The node to use
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    node: String,
    /// Wait until the transaction is confirmed or has failed, at most a day
    #[arg(long)]
    wait: bool,
    /// Print JSON, as /transaction/status answers
    #[arg(long)]
    json: bool,
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'s> {
    hash: String,
    #[serde(flatten)]
    status: &'s TransactionStatus,
}

fn hash(text: &str) -> Result<Hash256, &'static str> {
    Hash256::from_hex(text).ok_or("a hash has 64 hex digits")
}

/// Runs `nisd status-of`. Ends with the exit code of the status.
pub fn status_of(command: &StatusOf, system: System) -> Result<(), CommandError> {
    let StatusOf { hash, node, wait, json } = command;
    let client = super::node(node)?;
    let limit = if *wait { MAX_LIFETIME } else { Duration::ZERO };
    let status = await_end(&client, hash, limit, system, |status| logging::eprint_line(&status.to_string()))?;
    let text = if *json {
        serde_json::to_string(&Answer { hash: hash.to_string(), status: &status }).unwrap_or_default()
    } else {
        status.to_string()
    };
    print(&format!("{text}\n"))?;
    Err(CommandError::Exit(status.fate as u8))
}
