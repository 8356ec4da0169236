//! Warnings about settings that are valid.

use super::key::Support;
use super::layers::{Layers, Origin};
use super::networks::{FORK_KEYS, is_after_all_forks, is_known};
use super::problem::{Diagnostic, Problem};
use super::reader::Reader;
use super::settings::Settings;
use super::suggest_key::{PREFIXES, has_prefix, suggest_key};
use super::{table, values};
use crate::model::address::NetworkByte;
use crate::model::network::Network;

/// Maximum number of unknown keys that are reported individually.
const MAX_UNKNOWN: usize = 20;
/// Longest unknown key that is shown; a longer one may be a private key that lost its separator.
const MAX_SHOWN_KEY: usize = 60;
/// Consecutive hex digits that may be part of a private key.
const SECRET_DIGITS: usize = 12;

/// Reports private keys on the command line, and keys that are unknown, repeated, or without effect.
///
/// Unknown keys only cause warnings, as NIS1 does not reject them either. Unknown keys with this node's own prefix or
/// on the command line become problems.
pub(super) fn check_keys(layers: &Layers, problems: &mut Vec<Problem>) -> Vec<Diagnostic> {
    let mut notices = check_exposed_secrets(layers);
    let (mut unknown, mut refused) = (0usize, 0usize);
    let mut never = Vec::new();
    for (name, origin) in layers.keys() {
        match table::find(name).map(|key| key.support) {
            Some(Support::Active) => {}
            Some(Support::Ignored) => never.push(name),
            None if matches!(origin, Origin::Flag(_)) || has_prefix(name, &["nisd."]) => {
                refused += 1;
                if refused <= MAX_UNKNOWN {
                    problems.push(unknown_problem(name, origin));
                }
            }
            None => {
                unknown += 1;
                if unknown <= MAX_UNKNOWN {
                    let (key, hint) = (redact_key(name), hint(name));
                    notices.push(Diagnostic::warn(format!("{origin}: {key} is unknown and has no effect{hint}")));
                }
            }
        }
    }
    if let Some(more @ 1..) = unknown.checked_sub(MAX_UNKNOWN) {
        notices.push(Diagnostic::warn(format!("{more} more keys are unknown and have no effect")));
    }
    for (key, hidden, winning) in &layers.repeated {
        let known = table::find(key).is_some();
        if known {
            notices.push(Diagnostic::warn(format!("{winning}: {key} was already set at {hidden}; this value is used")));
        }
    }
    if !never.is_empty() {
        notices.push(Diagnostic::info(format!("settings without effect in this node: {}", never.join(", "))));
    }
    notices
}

/// Reports private keys that were given with a flag: the system shows the command line of a program to all users.
fn check_exposed_secrets(layers: &Layers) -> Vec<Diagnostic> {
    let is_secret = |name: &str| table::find(name).is_some_and(|key| key.kind.is_secret());
    let exposed = layers.keys().filter(|(name, origin)| matches!(origin, Origin::Flag(_)) && is_secret(name));
    let notice = |(name, origin)| {
        Diagnostic::warn(format!(
            "{name} was given with {origin}, where every user of this host can read it; keep it in the configuration \
             file (--config), readable by you only"
        ))
    };
    exposed.map(notice).collect()
}

/// Returns a key as it may be shown; hides a text that may be a private key.
pub(super) fn redact_key(name: &str) -> String {
    let length = name.chars().count();
    let is_suspicious = |part: &str| part.len() >= SECRET_DIGITS;
    if length > MAX_SHOWN_KEY || name.split(|c: char| !c.is_ascii_hexdigit()).any(is_suspicious) {
        return format!("a key of {length} characters (not shown)");
    }
    name.escape_debug().to_string()
}

fn hint(name: &str) -> String {
    let meant = suggest_key(name).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    let kind = if has_prefix(name, &PREFIXES) { "" } else { " (settings begin with nem., nis. or nisd.)" };
    format!("{kind}{meant}")
}

fn unknown_problem(name: &str, origin: &Origin) -> Problem {
    Problem {
        key: redact_key(name),
        value: "(not shown)".to_owned(),
        origin: origin.clone(),
        why: format!("is not a setting{}", hint(name)),
        allowed: "the keys that `nisd settings` lists".to_owned(),
    }
}

/// Reports settings that are valid but hardly intended for this network.
pub(super) fn check_network(reader: &mut Reader<'_>, network: &Network) -> Vec<Diagnostic> {
    let mut notices = Vec::new();
    let is_after_all_forks = is_after_all_forks(&network.name);
    let forks_are_default = !is_after_all_forks && FORK_KEYS.iter().all(|key| !reader.is_set(key));
    if network.byte == NetworkByte::TESTNET && forks_are_default {
        notices.push(Diagnostic::warn(format!(
            "network byte 152 without any fork height: those of an earlier testnet apply. Most private networks \
             need the value 1 for {}",
            FORK_KEYS.join(", ")
        )));
    }
    const TREASURY: &str = "nis.treasuryReissuanceForkHeight";
    if network.name != "mainnet" && !is_after_all_forks && !reader.is_set(TREASURY) {
        notices.push(Diagnostic::warn(format!(
            "{TREASURY} is not set: at height {} the chain will wait for mainnet's treasury block. Set it to 1, and \
             nis.treasuryReissuanceForkTransactionHashes and \
             nis.treasuryReissuanceForkFallbackTransactionHashes to nothing",
            network.chain.forks.treasury_reissuance
        )));
    }
    if is_known(&network.name) {
        notices.extend(ignored_identity(reader, &network.name));
    } else {
        notices.extend(start_char_mismatch(reader, network));
    }
    notices
}

/// Reports a first letter that does not match the network byte: the letter has no effect, but the byte may be wrong.
fn start_char_mismatch(reader: &mut Reader<'_>, network: &Network) -> Option<Diagnostic> {
    const KEY: &str = "nem.network.addressStartChar";
    let configured = reader.read(KEY, values::name)?.chars().next()?;
    let letter = network.nemesis_signer.as_str().chars().next()?;
    let text = || format!("{KEY} has no effect: with this nem.network.version addresses begin with {letter}");
    (configured != letter).then(|| Diagnostic::warn(text()))
}

fn ignored_identity(reader: &Reader<'_>, name: &str) -> Option<Diagnostic> {
    let keys = [
        "nem.network.version",
        "nem.network.addressStartChar",
        "nem.network.generationHash",
        "nem.network.nemesisSignerAddress",
        "nem.network.totalAmount",
    ];
    let set: Vec<_> = keys.into_iter().filter(|key| reader.is_set(key)).collect();
    let text = || format!("{name} is a known network; these settings have no effect: {}", set.join(", "));
    (!set.is_empty()).then(|| Diagnostic::warn(text()))
}

/// Returns a warning if no block can arrive: the node knows no peers (`is_alone`) and does not harvest from the start.
/// `None` otherwise.
pub fn no_block_source_warning(settings: &Settings, is_alone: bool) -> Option<Diagnostic> {
    let boot = &settings.boot;
    let harvests = boot.auto_harvest && (boot.key.is_some() || !settings.harvester_keys.is_empty());
    let name = &settings.network.name;
    (is_alone && !harvests).then(|| {
        Diagnostic::warn(format!(
            "THE CHAIN OF {name} STANDS STILL: this node knows no peers (peers-config_{name}.json beside the settings, \
             or --peer HOST) and harvests with no key. To add blocks, import them with --import, or harvest here: set \
             nis.bootKey to the key of an account with importance, and nis.shouldAutoHarvestOnBoot to true"
        ))
    })
}
