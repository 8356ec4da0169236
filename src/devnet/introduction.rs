//! The text shown at the start of a private network.

use std::fmt::Write;

use super::Role;
use super::folder::{Account, Devnet};
use crate::config::{Bind, Settings};
use crate::model::network::ImportanceScheme;
use crate::wallet::values::currency;

/// Returns the accounts, and commands to copy. `program` is how nisd was called.
pub fn introduction(devnet: &Devnet, settings: &Settings, program: &str) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{}\n\n{}", summary(devnet, settings), accounts(devnet));
    let _ = writeln!(text, "In another terminal:\n\n{}", commands(devnet, settings, program));
    text
}

fn summary(devnet: &Devnet, settings: &Settings) -> String {
    let chain = &settings.network.chain;
    let consensus = match chain.importance {
        ImportanceScheme::ProofOfImportance => "importance",
        ImportanceScheme::ProofOfStake => "stake",
    };
    let folder = devnet.folder.display();
    let time = chain.target_time;
    let mut text = format!("A private network of your own: a block every {time} s, proof of {consensus}.\n");
    text.push_str(&format!("It is stored in {folder}; every later start continues it.\n"));
    text.push_str(match devnet.accounts.iter().any(|account| account.is_demo) {
        true => "THE KEYS ARE PUBLICLY KNOWN DEMO KEYS: WORTHLESS. For your own keys: --fresh-keys --data DIR",
        false => "Its keys are your own; keep the key files.",
    });
    text.push('\n');
    text.push_str(&reach(devnet, settings.http.bind));
    text
}

/// Describes which machines can reach the node.
fn reach(devnet: &Devnet, bind: Bind) -> String {
    let has_demo_keys = devnet.accounts.iter().any(|account| account.is_demo);
    let place = match bind {
        Bind::All => "all addresses of this machine".to_owned(),
        Bind::Loopback => "127.0.0.1 and ::1".to_owned(),
        Bind::One(address) => address.to_string(),
    };
    let remark = match (bind.is_loopback(), has_demo_keys) {
        (true, _) => ": other machines cannot reach it. --bind '*' allows them",
        (false, true) => ", SO OTHER MACHINES CAN REACH IT AND ITS PUBLICLY KNOWN KEYS. --bind localhost prevents this",
        (false, false) => ": other machines can reach it. --bind localhost prevents this",
    };
    format!("It listens on {place}{remark}.")
}

fn accounts(devnet: &Devnet) -> String {
    let line = |account: &Account| {
        let Account { role, address, balance, key_file, .. } = account;
        let (name, balance, file) = (role.name(), currency(*balance), key_file.display());
        let remark = if *role == Role::Harvester { "  (harvests the blocks; must not send)" } else { "" };
        format!("  {name:<9}  {address}  {balance:>14}  {file}{remark}\n")
    };
    devnet.accounts.iter().map(line).collect()
}

fn commands(devnet: &Devnet, settings: &Settings, program: &str) -> String {
    /// Default port of `nisd send`.
    const USUAL_PORT: u16 = 7890;
    let (http, websocket) = (settings.http.port, settings.websocket.port);
    let url = format!("http://127.0.0.1:{http}");
    let mut text = String::new();
    if settings.http.explorer {
        let _ = writeln!(text, "  {url}/explorer in a browser");
    }
    let at = if http == USUAL_PORT { String::new() } else { format!(" --node {url}") };
    let _ = writeln!(text, "  {program} status{at}");
    let _ = writeln!(text, "  curl {url}/chain/height");
    let (Some(alice), Some(bob)) = (devnet.account(Role::Alice), devnet.account(Role::Bob)) else { return text };
    let (key_file, bob) = (alice.key_file.display(), &bob.address);
    let _ = writeln!(
        text,
        "  {program} send --from-key-file {key_file} --to {bob} --amount 12.5 --message hello{at} --wait"
    );
    let _ = writeln!(text, "  curl '{url}/account/get?address={bob}'");
    let _ = writeln!(
        text,
        "\nMessages, STOMP at ws://127.0.0.1:{websocket}/w/messages/websocket: /blocks/new, /unconfirmed/{bob},\n\
         /transactions/{bob}"
    );
    text
}
