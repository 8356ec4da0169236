//! `nisd config check`: what this node does with each line of an operator's files from NIS1.

use std::fmt;
use std::path::{Path, PathBuf};

use log::Level;
use zeroize::Zeroizing;

use super::files::{KnownPeers, peers_file_name};
use super::properties;
use super::reader::{Diagnostic, Layers, Origin, Override, Problem, redact_key};
use super::settings::Settings;
use super::table::{self, Key};
use crate::codec::Context;
use crate::model::Network;

/// A file and its results. `Display` writes lines for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Its name.
    pub path: PathBuf,
    /// Whether it holds settings of the node, as `config-user.properties` does, rather than known peers, as
    /// `peers-config_NETWORK.json` does. A file with a syntax error counts as settings.
    pub is_settings: bool,
    /// The results in the order of the file: information for a line that takes effect, a warning for one without
    /// effect, an error for one with which the node does not start.
    pub findings: Vec<Diagnostic>,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUBJECT_WIDTH: usize = 40;
        let kind = if self.is_settings { "settings" } else { "list of peers" };
        writeln!(f, "{}: {kind}", self.path.display())?;
        for finding in &self.findings {
            let place = if finding.line == 0 { String::new() } else { finding.line.to_string() };
            let (subject, effect, why) = (subject(finding), effect(finding.level), &finding.text);
            writeln!(f, "{}", format!("{place:>5}  {subject:SUBJECT_WIDTH$}  {effect:9}  {why}").trim_end())?;
        }
        Ok(())
    }
}

/// Returns what the node does with a line of this level, for a person.
fn effect(level: Level) -> &'static str {
    match level {
        Level::Error => "WRONG",
        Level::Warn => "no effect",
        _ => "used",
    }
}

/// Returns the key or the peer of a result, for a person.
fn subject(finding: &Diagnostic) -> &str {
    finding.key.as_deref().unwrap_or("the file")
}

/// A file: its name, and its content, which may hold private keys.
pub type File = (PathBuf, Zeroizing<Vec<u8>>);

/// Checks all files together: later settings override earlier ones, as in NIS1, and peer lists are checked against the
/// network of the settings. `home` is the user's home folder.
pub fn check(files: &[File], home: Option<&Path>) -> Vec<FileReport> {
    let parse = |(path, bytes): &File| (!properties::looks_like_json(bytes)).then(|| properties::parse(path, bytes));
    let contents: Vec<_> = files.iter().map(parse).collect();
    let mut layers = Layers::default();
    for properties in contents.iter().flatten().flatten() {
        layers.add(properties.clone());
    }
    let (network, problems) = match Settings::read(&layers, home) {
        Ok(settings) => (Some(settings.network), Vec::new()),
        Err(problems) => (None, problems),
    };
    let mut checked = Vec::new();
    for ((path, bytes), content) in files.iter().zip(&contents) {
        let findings = match content {
            Some(Ok(properties)) => check_settings(properties, &layers, &problems),
            Some(Err(error)) => vec![error.clone()],
            None => check_peers(path, bytes, network.as_ref()),
        };
        checked.push(FileReport { path: path.clone(), is_settings: content.is_some(), findings });
    }
    let mut settings = checked.iter_mut().filter(|checked| checked.is_settings);
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

/// Returns the results of a settings file, each key at its line.
fn check_settings(properties: &[Override], layers: &Layers, problems: &[Problem]) -> Vec<Diagnostic> {
    let of_line = |Override { key, origin, .. }: &Override| {
        let (_, line) = origin.order();
        if let Some(problem) = problems.iter().find(|problem| problem.origin == *origin) {
            return wrong(line, problem);
        }
        let winning = layers.get(key).map(|set| &set.origin).filter(|winning| *winning != origin);
        let (level, text) = match (table::find(key), winning) {
            (Some(_), Some(winning)) => (Level::Warn, format!("it is set again at {winning}, which is used")),
            (Some(known), None) => (Level::Info, remark(known).to_owned()),
            (None, _) => (Level::Warn, table::ignored(key).map_or_else(|| unknown(key), str::to_owned)),
        };
        Diagnostic { level, line, key: Some(redact_key(key)), text }
    };
    properties.iter().map(of_line).collect()
}

/// Returns a remark on a setting that takes effect but works differently than in NIS1, or that must be kept secret.
fn remark(key: &Key) -> &'static str {
    match key.name {
        "nem.folder" => {
            "the store is created in nisd/NETWORK below it; NIS1's database there is neither read nor changed: the node \
             downloads the chain from peers, or `nisd import` imports it from a file of blocks"
        }
        _ if key.is_secret => "keep the file readable by the node only: chmod 600",
        _ => "",
    }
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
        assert!(checked.is_settings);
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
        assert_eq!((good.is_settings, said(&good)), (false, vec!["1 http://10.0.0.1:7890: used".to_owned()]));
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
