//! `nisd config check`: what this node does with each line of an operator's files from NIS1.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use log::Level;
use zeroize::Zeroizing;

use super::files::{KnownPeers, peers_file_name};
use super::properties::{self, Property};
use super::reader::Layers;
use super::reader::{Diagnostic, Origin, Problem, redact_key};
use super::settings::Settings;
use super::table;
use crate::codec::Context;
use crate::model::Network;

/// Kind of a file, determined by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Settings of the node, `config-user.properties`.
    Settings,
    /// Known peers, `peers-config_NETWORK.json`.
    Peers,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Settings => "settings",
            FileKind::Peers => "list of peers",
        })
    }
}

/// Returns what the node does with a line of this level, for a person.
pub fn effect(level: Level) -> &'static str {
    match level {
        Level::Error => "WRONG",
        Level::Warn => "no effect",
        _ => "used",
    }
}

/// Returns the key or the peer of a result, for a person.
pub fn subject(finding: &Diagnostic) -> &str {
    finding.key.as_deref().unwrap_or("the file")
}

/// A file and its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Its name.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// The results in the order of the file: information for a line that takes effect, a warning for one without
    /// effect, an error for one with which the node does not start.
    pub findings: Vec<Diagnostic>,
}

/// Remarks on settings that take effect but work differently than in NIS1.
const REMARKS: &[(&str, &str)] = &[
    (
        "nem.folder",
        "the store is created in nisd/NETWORK below it; NIS1's database there is neither read nor changed: the node \
         downloads the chain from peers, or `nisd import` imports it from a file of blocks",
    ),
    ("nis.bootKey", "keep the file readable by the node only: chmod 600"),
    ("nis.additionalHarvesterPrivateKeys", "keep the file readable by the node only: chmod 600"),
];

/// A file: its name, and its content, which may hold private keys.
pub type File = (PathBuf, Zeroizing<Vec<u8>>);

/// Checks all files together: later settings override earlier ones, as in NIS1, and peer lists are checked against the
/// network of the settings. `home` is the user's home folder.
pub fn check(files: &[File], home: Option<&Path>) -> Vec<FileReport> {
    let contents: Vec<_> = files.iter().map(|(_, content)| recognise(content)).collect();
    let mut layers = Layers::default();
    for ((path, _), (kind, content)) in files.iter().zip(&contents) {
        if let (FileKind::Settings, Ok(properties)) = (kind, content) {
            layers.add_file(&Rc::from(path.as_path()), properties.clone());
        }
    }
    let (network, problems) = match Settings::read(&layers, home) {
        Ok(settings) => (Some(settings.network), Vec::new()),
        Err(problems) => (None, problems),
    };
    let report = |((path, bytes), (kind, content)): (&File, &Content)| {
        let findings = match (kind, content) {
            (_, Err(error)) => vec![error.clone()],
            (FileKind::Settings, Ok(properties)) => check_settings(path, properties, &layers, &problems),
            (FileKind::Peers, Ok(_)) => check_peers(path, bytes, network.as_ref()),
        };
        FileReport { path: path.clone(), kind: *kind, findings }
    };
    let mut checked: Vec<FileReport> = files.iter().zip(&contents).map(report).collect();
    let mut settings = checked.iter_mut().filter(|checked| checked.kind == FileKind::Settings);
    if let Some(first) = settings.next() {
        // Missing settings have no line, so they are reported first.
        let missing = problems.iter().filter(|problem| problem.origin == Origin::Default);
        first.findings.splice(0..0, missing.map(|problem| wrong(0, problem)));
        for further in settings {
            let text =
                "this node reads one file of settings (--config): merge the files, later values override earlier ones";
            further.findings.insert(0, Diagnostic::warn(text));
        }
    }
    checked
}

/// What a file is, and its properties.
type Content = (FileKind, Result<Vec<Property>, Diagnostic>);

/// Returns what a file is, and its properties unless it is a list of peers. A file with a syntax error counts as settings.
fn recognise(bytes: &[u8]) -> Content {
    if properties::looks_like_json(bytes) {
        (FileKind::Peers, Ok(Vec::new()))
    } else {
        (FileKind::Settings, properties::parse(bytes))
    }
}

/// Returns the results of a settings file, each key at its line.
fn check_settings(path: &Path, properties: &[Property], layers: &Layers, problems: &[Problem]) -> Vec<Diagnostic> {
    let of_line = |Property { key, line, .. }: &Property| {
        let here = Origin::File { path: Rc::from(path), line: *line };
        if let Some(problem) = problems.iter().find(|problem| problem.origin == here) {
            return wrong(*line, problem);
        }
        let winning = layers.get(key).map(|value| &value.origin).filter(|origin| **origin != here);
        let (level, text) = match (table::find(key), winning) {
            (Some(_), Some(winning)) => (Level::Warn, format!("it is set again at {winning}, which is used")),
            (Some(key), None) if key.is_ignored => (Level::Warn, key.meaning.to_owned()),
            (Some(_), None) => (Level::Info, remark(key).to_owned()),
            (None, _) => (Level::Warn, unknown(key)),
        };
        Diagnostic { level, line: *line, key: Some(redact_key(key)), text }
    };
    properties.iter().map(of_line).collect()
}

fn remark(key: &str) -> &'static str {
    REMARKS.iter().find(|(name, _)| *name == key).map_or("", |(_, text)| text)
}

fn unknown(key: &str) -> String {
    let meant = table::suggest(key).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    format!("there is no such setting; NIS1 does not reject it either{meant}")
}

fn wrong(line: usize, problem: &Problem) -> Diagnostic {
    let Problem { key, value, why, allowed, .. } = problem;
    let text = format!("{value} {why}; allowed: {allowed}");
    Diagnostic { key: Some(key.clone()), ..Diagnostic::error(line, text) }
}

/// Returns the results of a peer list. Without a valid network in the settings, the file's name is not checked.
fn check_peers(path: &Path, bytes: &[u8], network: Option<&Network>) -> Vec<Diagnostic> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Nothing in the list depends on the network.
    let context = network.map_or_else(Context::trusted_store, Context::of);
    let mut findings = Vec::new();
    let expected_name = network.map(|network| peers_file_name(&network.name)).filter(|wanted| *wanted != name);
    if let Some(wanted) = expected_name {
        let text = format!("the list is read only from a file {wanted} beside the settings: rename it");
        findings.push(Diagnostic::warn(text));
    }
    match KnownPeers::parse(bytes, context) {
        Err(defect) => findings.push(Diagnostic::error(0, defect)),
        Ok(peers) => {
            let taken = peers.numbers.iter().zip(&peers.nodes).map(|(&line, node)| {
                let key = Some(node.endpoint.to_string());
                Diagnostic { level: Level::Info, line, key, text: String::new() }
            });
            findings.extend(taken);
            findings.extend(peers.diagnostics);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> File {
        (name.into(), Zeroizing::new(content.as_bytes().to_vec()))
    }

    fn checked(files: &[File]) -> Vec<FileReport> {
        check(files, Some(Path::new("/home/operator")))
    }

    /// Formats `place subject: verdict` of each finding.
    fn said(checked: &FileReport) -> Vec<String> {
        let line = |one: &Diagnostic| format!("{} {}: {}", one.line, subject(one), effect(one.level));
        checked.findings.iter().map(line).collect()
    }

    #[test]
    fn each_setting_is_reported_with_its_line_and_no_private_key() {
        let key = "a".repeat(64);
        let text = format!(
            "# mine\nnem.network = mainnet\nnis.bootKey = {key}\nnem.maxThreads = 7\nnis.unlokedLimit = 2\n\
             nem.httpPort = many\nnem.folder = %h/nem\nnis.bootKey = {key}1\n"
        );
        let [checked] = &checked(&[file("config-user.properties", &text)])[..] else { panic!("one file") };
        assert_eq!(checked.kind, FileKind::Settings);
        let expected = [
            "2 nem.network: used",
            "3 nis.bootKey: no effect",
            "4 nem.maxThreads: no effect",
            "5 nis.unlokedLimit: no effect",
            "6 nem.httpPort: WRONG",
            "7 nem.folder: used",
            "8 nis.bootKey: WRONG",
        ];
        assert_eq!(said(checked), expected);
        let texts: String = checked.findings.iter().map(|one| one.text.as_str()).collect();
        for words in
            ["did you mean nis.unlockedLimit", "\"many\"", "config-user.properties:8, which is used", "database"]
        {
            assert!(texts.contains(words), "{words} is missing in {texts}");
        }
        assert!(!texts.contains(&key[..12]), "{texts}");
    }

    #[test]
    fn missing_settings_and_a_surplus_file_are_reported() {
        let private = file("config.properties", "nem.network = mine\n");
        let further = file("config-user.properties", "nem.network.version = 152\n");
        let [first, second] = &checked(&[private, further])[..] else { panic!("two files") };
        assert!(said(first).contains(&"0 nem.network.generationHash: WRONG".to_owned()), "{first:?}");
        assert!(said(first).contains(&"1 nem.network: used".to_owned()), "{first:?}");
        assert_eq!(said(second), ["0 the file: no effect", "1 nem.network.version: used"]);
    }

    #[test]
    fn known_peers_are_reported_one_by_one_for_the_configured_network() {
        let node = |host: &str| {
            format!(
                "{{\"endpoint\":{{\"protocol\":\"http\",\"port\":7890,\"host\":\"{host}\"}},\"identity\":\
                 {{\"public-key\":\"cd94cdcfde6878e093bc70e35b575dbe68095c69f73112e67559f71c1fb64c6e\"}}}}"
            )
        };
        let list = |nodes: &str| format!("{{\"knownPeers\":[{nodes}]}}");
        let settings = || file("config-user.properties", "nem.network = testnet\n");
        let peers = |name: &str, nodes: &str| checked(&[settings(), file(name, &list(nodes))]).swap_remove(1);
        let good = peers("etc/peers-config_testnet.json", &node("10.0.0.1"));
        assert_eq!((good.kind, said(&good)), (FileKind::Peers, vec!["1 http://10.0.0.1:7890: used".to_owned()]));
        let elsewhere = peers("peers-config_mainnet.json", &node("10.0.0.1"));
        assert!(elsewhere.findings[0].text.contains("peers-config_testnet.json"), "{elsewhere:?}");
        let second = format!("{},{}", node("a b"), node("10.0.0.2"));
        let after_another = said(&peers("peers-config_testnet.json", &second));
        assert_eq!(
            after_another,
            ["2 http://10.0.0.2:7890: used", "0 the file: no effect"],
            "entries keep their numbers"
        );
        let broken = peers("peers-config_testnet.json", "7");
        assert_eq!(said(&broken), ["0 the file: WRONG"]);
    }

    #[test]
    fn a_syntax_error_is_reported_with_its_line() {
        let [checked] = &checked(&[file("a", "nem.network = main\\u00zz\n")])[..] else { panic!("one file") };
        assert_eq!(said(checked), ["1 the file: WRONG"]);
    }
}
