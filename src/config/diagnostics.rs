//! Errors and warnings about settings.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::kind::NAME;
use super::network::{FORK_KEYS, is_after_all_forks, is_known};
use super::reader::{Layers, Origin, Reader};
use super::settings::Settings;
use super::table;
use crate::model::address::NetworkByte;
use crate::model::network::Network;

/// The settings are invalid. `Display` describes everything for a person, on several lines.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The file is neither properties nor the `config.json` of a recorded chain.
    #[error("cannot parse the configuration file {}: {error}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The syntax error.
        #[source]
        error: Diagnostic,
    },
    /// All wrong values.
    #[error("{}", list(.0))]
    Wrong(Vec<Problem>),
}

/// Describes all problems.
fn list(problems: &[Problem]) -> String {
    let mut text = match problems.len() {
        1 => "a setting is wrong:".to_owned(),
        count => format!("{count} settings are wrong:"),
    };
    problems.iter().for_each(|problem| text.push_str(&format!("\n\n{problem}")));
    text + "\n\n`nisd settings` describes every setting."
}

/// A wrong, missing or unknown setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The value as it may be shown: in quotes, or a remark that it is hidden or not set.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
    /// A clause that describes the error: "is too small".
    pub why: String,
    /// The allowed values.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {} {}", self.key, self.why)?;
        writeln!(f, "    value:   {}", self.value)?;
        writeln!(f, "    from:    {}", self.origin)?;
        write!(f, "    allowed: {}", self.allowed)
    }
}

/// A message about settings or about a file of them. Never contains a private key. `Display` omits the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error: the node does not start with it. Warning: it has no effect, or hardly the intended one. Information
    /// otherwise.
    pub level: log::Level,
    /// The line of the file, or the number of the entry in a peer list, from 1; 0 for the whole.
    pub line: usize,
    /// The key or the peer; `None` for the whole.
    pub key: Option<String>,
    /// What is the case, why, and what to do instead; may be empty.
    pub text: String,
}

impl Diagnostic {
    pub(super) fn error(line: usize, text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: log::Level::Error, line, key: None, text: text.into() }
    }

    pub(super) fn warn(text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: log::Level::Warn, ..Diagnostic::error(0, text) }
    }

    pub(super) fn info(text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: log::Level::Info, ..Diagnostic::error(0, text) }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// Formats a value for an error: in quotes, escaped, and shortened.
pub(super) fn quoted(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    let mut short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

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
        match table::find(name) {
            Some(key) if key.is_ignored => never.push(name),
            Some(_) => {}
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
    let configured = reader.read(KEY, &NAME)?.chars().next()?;
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
    let peers = &settings.peers;
    let harvests = peers.auto_harvest && (settings.node.boot_key.is_some() || !peers.harvester_keys.is_empty());
    let name = &settings.network.name;
    (is_alone && !harvests).then(|| {
        Diagnostic::warn(format!(
            "THE CHAIN OF {name} STANDS STILL: this node knows no peers (peers-config_{name}.json beside the settings, \
             or --peer HOST) and harvests with no key. To add blocks, import them with --import, or harvest here: set \
             nis.bootKey to the key of an account with importance, and nis.shouldAutoHarvestOnBoot to true"
        ))
    })
}

/// Longest unknown key for which a suggestion is searched; no setting has a longer one.
const MAX_KEY: usize = 64;

/// Prefixes of this node's settings.
pub(super) const PREFIXES: [&str; 3] = ["nem.", "nis.", "nisd."];

/// Returns whether a key starts with one of these prefixes, in any case.
pub(super) fn has_prefix(name: &str, prefixes: &[&str]) -> bool {
    let start = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    prefixes.iter().any(|prefix| start(prefix))
}

/// Returns the setting that `unknown` most likely means: one within a small edit distance, else one that differs only
/// in its prefix.
pub(super) fn suggest_key(unknown: &str) -> Option<&'static str> {
    if unknown.len() > MAX_KEY {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let edit_distance = |name: &str| strsim::levenshtein(&unknown, &name.to_lowercase());
    let (distance, name) = table::keys().map(|key| (edit_distance(key.name), key.name)).min()?;
    if distance <= 2.max(name.len() / 5) {
        return Some(name);
    }
    let behind = unknown.split_once('.').map_or(unknown.as_str(), |(_, rest)| rest);
    let is_same = |name: &str| name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(behind));
    table::keys().map(|key| key.name).find(|name| is_same(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_values_are_escaped_and_short() {
        assert_eq!(quoted("a\n\u{1b}[2J"), r#""a\n\u{1b}[2J""#);
        assert!(quoted(&"ä".repeat(1000)).chars().count() < 100);
    }

    #[test]
    fn a_mistyped_key_suggests_the_intended_one() {
        for (unknown, meant) in [
            ("nis.blockChainRewritLimit", Some("nis.blockChainRewriteLimit")),
            ("nis.bootkey", Some("nis.bootKey")),
            ("nem.http.Port", Some("nem.httpPort")),
            ("nsi.bootKey", Some("nis.bootKey")),
            ("bootKey", Some("nis.bootKey")),
            ("node.httpport", Some("nem.httpPort")),
            ("nis.trustedProxies", Some("nisd.trustedProxies")),
            ("nis.somethingElseEntirely", None),
            ("java.util.logging.level", None),
            ("", None),
        ] {
            assert_eq!(suggest_key(unknown), meant, "{unknown}");
        }
        assert_eq!(suggest_key(&"x".repeat(1_000_000)), None);
    }
}
