//! `nisd config check`: what this node does with each line of an operator's files from NIS1.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};

use log::Level;
use zeroize::Zeroizing;

use super::network::{KnownPeers, MAX_PEERS_BYTES, PEERS_FILE_END, PEERS_FILE_START, peers_file_name};
use super::properties;
use super::reader::{Diagnostic, Layers, Origin, Override, Problem, redact_key};
use super::settings::{
    Settings, address_space_warning, exposed_keys_warning, incomplete_key_warnings, ineffective, network_warnings,
    no_block_source_warning,
};
use super::table::{self, Key};
use crate::codec::Context;
use crate::files::folder_of;
use crate::model::Network;

/// A file and its results. `Display` writes lines for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Its name.
    pub path: PathBuf,
    /// What it holds.
    pub kind: FileKind,
    /// The results in the order of the file: information for a line that takes effect, a warning for one without
    /// effect, an error for one with which the node does not start.
    pub findings: Vec<Diagnostic>,
    /// What else the node warns of when it starts with these files.
    pub warnings: Vec<Diagnostic>,
}

/// What a file holds. `Display` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum FileKind {
    /// Settings of the node, as `config-user.properties`, or something that cannot be read as settings.
    #[display("settings")]
    Settings,
    /// Known peers, as `peers-config_NETWORK.json`.
    #[display("list of peers")]
    Peers,
    /// Settings of something else, as `db.properties` of NIS1, or no settings.
    #[display("nothing of a node")]
    Foreign,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUBJECT_WIDTH: usize = 40;
        writeln!(f, "{}: {}", self.path.display(), self.kind)?;
        let mut line = |finding: &Diagnostic, subject, effect| {
            let place = if finding.line == 0 { String::new() } else { finding.line.to_string() };
            let why = &finding.text;
            writeln!(f, "{}", format!("{place:>5}  {subject:SUBJECT_WIDTH$}  {effect:9}  {why}").trim_end())
        };
        for finding in &self.findings {
            line(finding, subject(finding), effect(finding.level))?;
        }
        for warning in &self.warnings {
            line(warning, "the node", "warning")?;
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

/// A file.
pub struct File {
    /// Its name.
    pub path: PathBuf,
    /// Its content, which may hold private keys.
    pub content: Zeroizing<Vec<u8>>,
    /// Its permissions.
    pub mode: u32,
}

/// Checks all files together: later settings override earlier ones, as in NIS1, and peer lists are checked against the
/// network of the settings. What the node reads with these settings is checked too: data folder and nemesis block, whose
/// error `check_start` returns, and the list of peers beside the first settings, whose report comes first. `home` is the
/// user's home folder.
pub fn check(
    files: &[File],
    home: Option<&Path>,
    check_start: &dyn Fn(&Settings) -> Result<(), String>,
) -> Vec<FileReport> {
    let parse =
        |File { path, content, .. }: &File| (!is_list(path, content)).then(|| properties::parse_lines(path, content));
    let contents: Vec<_> = files.iter().map(parse).collect();
    let kinds = kinds(&contents);
    let mut layers = Layers::default();
    for properties in contents.iter().flatten().flatten() {
        layers.add(properties.clone());
    }
    let first = kinds.iter().position(|kind| *kind == FileKind::Settings);
    layers.file = first.map(|first| files[first].path.clone());
    let read = Settings::read(&layers, home);
    let problems = read.as_ref().err().map_or(&[][..], Vec::as_slice);
    // Lists alone are those of whichever networks their names say.
    let settings = read.as_ref().ok().filter(|_| first.is_some());
    let network = settings.map(|settings| &settings.network);
    let mut checked = Vec::new();
    let without_list = settings.filter(|settings| given_lists(files, settings).next().is_none());
    checked.extend(without_list.and_then(check_list_beside));
    for ((File { path, content: bytes, mode }, content), kind) in files.iter().zip(&contents).zip(kinds) {
        let mut warnings = Vec::new();
        let findings = match content {
            Some(Ok(properties)) => {
                let keys = properties.iter().map(|property| property.key.as_str());
                warnings.extend(exposed_keys_warning(path, *mode, keys));
                let rejected = properties::rejection(properties).filter(|_| kind == FileKind::Settings);
                rejected.into_iter().chain(check_settings(properties, &layers, problems, network)).collect()
            }
            Some(Err(error)) => vec![error.clone()],
            None => check_peers(path, bytes, settings),
        };
        checked.push(FileReport { path: path.clone(), kind, findings, warnings });
    }
    let mut of_settings = checked.iter_mut().filter(|checked| checked.kind == FileKind::Settings);
    if let Some(first) = of_settings.next() {
        // What has no line is reported first.
        let missing = problems.iter().filter(|problem| problem.origin == Origin::Default);
        let wrong_start = settings.and_then(|settings| check_start(settings).err());
        let wrong_start = wrong_start.map(|error| Diagnostic::error(0, error));
        first.findings.splice(0..0, missing.map(|problem| wrong(0, problem)).chain(wrong_start));
        first.warnings.extend(settings.into_iter().flat_map(|settings| warnings_at_start(files, settings, &layers)));
        for further in of_settings {
            let text =
                "this node reads one file of settings (--config): merge the files, later values override earlier ones";
            further.findings.insert(0, Diagnostic::warn(text));
        }
    }
    checked
}

/// The settings in a file, or its defect; `None` for a list of peers.
type Content = Option<Result<Vec<Override>, Diagnostic>>;

/// Returns what each file holds. The settings of other software, and an empty file, have no effect beside those of the node;
/// alone, the node rejects them.
fn kinds(contents: &[Content]) -> Vec<FileKind> {
    let is_foreign = |properties: &[Override]| properties::rejection(properties).is_some();
    let has_own = contents.iter().flatten().flatten().any(|properties| !is_foreign(properties));
    let kind = |content: &Content| match content {
        None => FileKind::Peers,
        Some(Ok(properties)) if has_own && is_foreign(properties) => FileKind::Foreign,
        Some(_) => FileKind::Settings,
    };
    contents.iter().map(kind).collect()
}

/// Returns those of the files that have the name of the list of peers that the node reads.
fn given_lists<'a>(files: &'a [File], settings: &'a Settings) -> impl Iterator<Item = &'a File> {
    files.iter().filter(|file| file.path.file_name() == settings.peers_file.file_name())
}

/// Returns what the node warns of when it starts with these settings, besides what concerns one line.
fn warnings_at_start(files: &[File], settings: &Settings, layers: &Layers) -> Vec<Diagnostic> {
    let context = Context::of(&settings.network);
    // A list in another folder is about to be moved beside the settings.
    let lists = given_lists(files, settings).map(|list| KnownPeers::parse(&list.content, context));
    let has_peers = lists.chain([settings.listed_peers()]).flatten().any(|list| !list.nodes.is_empty());
    let is_alone = settings.peers.hosts.is_empty() && !has_peers;
    let mut warnings: Vec<_> = incomplete_key_warnings(layers).collect();
    warnings.extend(network_warnings(layers, &settings.network));
    warnings.extend(no_block_source_warning(settings, is_alone));
    warnings.extend(address_space_warning(&settings.network, usize::BITS));
    warnings
}

/// Returns whether a file is a list of peers: by its name, or because it is JSON.
fn is_list(path: &Path, bytes: &[u8]) -> bool {
    network_in_name(path).is_some() || properties::looks_like_json(bytes)
}

/// Returns the network whose list of peers a file of this name holds.
fn network_in_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix(PEERS_FILE_START)?.strip_suffix(PEERS_FILE_END)
}

/// Returns the results of the list of peers that the node reads beside its settings, if there is one.
fn check_list_beside(settings: &Settings) -> Option<FileReport> {
    let path = &settings.peers_file;
    let findings = match crate::files::read(path, MAX_PEERS_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => vec![Diagnostic::error(0, crate::files::explain(&error, Some(path)))],
        Ok(bytes) => check_peers(path, &bytes, Some(settings)),
    };
    Some(FileReport { path: path.clone(), kind: FileKind::Peers, findings, warnings: Vec::new() })
}

/// Returns the results of a settings file, each key at its line.
fn check_settings(
    properties: &[Override],
    layers: &Layers,
    problems: &[Problem],
    network: Option<&Network>,
) -> Vec<Diagnostic> {
    let ineffective = network.and_then(|network| ineffective(layers, network));
    let why_ineffective =
        |key: &Key| ineffective.as_ref().filter(|(keys, _)| keys.contains(&key.name)).map(|(_, why)| why.clone());
    let of_line = |Override { key, origin, .. }: &Override| {
        let (_, line) = origin.order();
        if let Some(problem) = problems.iter().find(|problem| problem.origin == *origin) {
            return wrong(line, problem);
        }
        let winning = layers.get(key).map(|set| &set.origin).filter(|winning| *winning != origin);
        let (level, text) = match (table::find(key), winning) {
            (Some(_), Some(winning)) => (Level::Warn, format!("it is set again at {winning}, which is used")),
            (Some(known), None) => match why_ineffective(known) {
                Some(why) => (Level::Warn, why),
                None => (Level::Info, remark(known).to_owned()),
            },
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

/// Returns whether two paths of files with the same name lead to the same folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let folder = |path: &Path| fs::canonicalize(folder_of(path)).or_else(|_| absolute(folder_of(path))).ok();
    folder(one) == folder(other)
}

/// Returns the results of a peer list. Its name must have the network of the settings, beside which it lies; any, without
/// valid settings.
fn check_peers(path: &Path, bytes: &[u8], settings: Option<&Settings>) -> Vec<Diagnostic> {
    let network = settings.map(|settings| &settings.network);
    // Nothing in the list depends on the network.
    let context = network.map_or_else(Context::trusted_store, Context::of);
    let mut findings = Vec::new();
    let named = network_in_name(path);
    if named.is_none() || network.is_some_and(|network| named != Some(&network.name)) {
        let wanted = peers_file_name(network.map_or("NETWORK", |network| &network.name));
        let text = format!("the list is read only from a file {wanted} beside the settings: rename it");
        findings.push(Diagnostic::warn(text));
    } else if let Some(place) = settings.map(|settings| &settings.peers_file).filter(|place| !is_same(path, place)) {
        findings.push(Diagnostic::warn(format!("the list is read only as {}: move it there", place.display())));
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
        of_bytes(name.as_ref(), content.as_bytes())
    }

    fn of_bytes(path: &Path, content: &[u8]) -> File {
        File { path: path.to_owned(), content: Zeroizing::new(content.to_vec()), mode: 0o600 }
    }

    fn checked(files: &[File]) -> Vec<FileReport> {
        let check_start = |settings: &Settings| settings.nemesis.read().map(drop).map_err(|error| error.to_string());
        check(files, Some(Path::new("/home/operator")), &check_start)
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
        let good = peers("peers-config_testnet.json", &node("10.0.0.1"));
        assert_eq!((good.kind, said(&good)), (FileKind::Peers, vec!["1 http://10.0.0.1:7890: used".to_owned()]));
        let elsewhere = peers("etc/peers-config_testnet.json", &node("10.0.0.1"));
        assert!(
            elsewhere.findings[0].text.ends_with("only as peers-config_testnet.json: move it there"),
            "{elsewhere:?}"
        );
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
    fn a_list_alone_belongs_to_the_network_in_its_name() {
        let alone = |name: &str| said(&checked(&[file(name, "{\"knownPeers\":[]}")])[0]);
        assert_eq!(alone("etc/peers-config_testnet.json"), [""; 0]);
        assert_eq!(alone("peers-config_mine.json"), [""; 0]);
        let [other] = &checked(&[file("peers.json", "{}")])[..] else { panic!("one file") };
        assert!(other.findings[0].text.contains("peers-config_NETWORK.json"), "{other:?}");
    }

    #[test]
    fn a_file_that_the_node_would_reject_is_wrong() {
        let settings = || file("config.properties", "nem.network = testnet\n");
        let is_wrong = |checked: &FileReport| checked.findings.iter().any(|one| one.level == Level::Error);
        for (text, words) in [("[{}]", "a list knownPeers"), ("[", "ends too early"), ("", "ends too early")] {
            for name in ["peers-config_testnet.json", "etc/peers-config_other.json"] {
                let list = checked(&[settings(), file(name, text)]).swap_remove(1);
                let texts: Vec<_> = list.findings.iter().map(|one| one.text.as_str()).collect();
                assert!(list.kind == FileKind::Peers && is_wrong(&list), "{list:?}");
                assert!(texts.iter().any(|text| text.contains(words)), "{texts:?}");
            }
        }
        let marked = checked(&[settings(), file("peers-config_testnet.json", "\u{feff}{}")]).swap_remove(1);
        assert!(!is_wrong(&marked), "{marked:?}");
        let utf16: Vec<u8> = "\u{feff}nem.network = testnet".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for text in [&utf16, b"some = thing".as_slice(), b"[{}]", b"", b"# nem.network = testnet\n"] {
            let found = checked(&[of_bytes("config.properties".as_ref(), text)]).swap_remove(0);
            assert!(found.kind == FileKind::Settings && is_wrong(&found), "{found:?}");
        }
    }

    #[test]
    fn settings_of_other_software_and_empty_files_have_no_effect_beside_those_of_the_node() {
        let foreign = || file("a-db.properties", "jdbc.url = x\n");
        let [other, own] = &checked(&[foreign(), file("config.properties", "nem.network = testnet\n")])[..] else {
            panic!("two files")
        };
        assert_eq!((other.kind, said(other)), (FileKind::Foreign, vec!["1 jdbc.url: no effect".to_owned()]));
        assert_eq!((own.kind, said(own)), (FileKind::Settings, vec!["1 nem.network: used".to_owned()]));
        let [alone] = &checked(&[foreign()])[..] else { panic!("one file") };
        assert_eq!(said(alone)[0], "1 the file: WRONG");
        let empty = || file("config-user.properties", "# nothing\n");
        let [_, empty_one] = &checked(&[file("config.properties", "nem.network = testnet\n"), empty()])[..] else {
            panic!("two files")
        };
        assert_eq!((empty_one.kind, empty_one.findings.len()), (FileKind::Foreign, 0));
        let [alone] = &checked(&[empty()])[..] else { panic!("one file") };
        assert_eq!(said(alone), ["0 the file: WRONG"]);
    }

    #[test]
    fn the_files_beside_the_settings_are_checked_as_the_node_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let settings = |text: &str| checked(&[of_bytes(&folder.path().join("config.properties"), text.as_bytes())]);
        assert_eq!(settings("nem.network = testnet").len(), 1);
        std::fs::write(folder.path().join("peers-config_testnet.json"), "[]").unwrap();
        let [list, _] = &settings("nem.network = testnet")[..] else { panic!("two files") };
        assert_eq!((list.kind, said(list)), (FileKind::Peers, vec!["0 the file: WRONG".to_owned()]));
        let hash = "0".repeat(64);
        let text = format!(
            "nem.network = mine\nnem.network.version = 152\nnem.network.generationHash = {hash}\n\
             nem.network.nemesisSignerAddress = TALICELCD3XPH4FFI5STGGNSNSWPOTG5E4DS2TOS\n\
             nem.network.totalAmount = 1\nnem.network.nemesisFilePath = missing.bin\n"
        );
        let [mine] = &settings(&text)[..] else { panic!("one file") };
        let missing = folder.path().join("missing.bin");
        assert!(mine.findings.iter().any(|one| one.text.contains(&*missing.to_string_lossy())), "{mine}");
    }

    /// Returns the texts of the warnings that the node logs at its start.
    fn warnings(checked: &FileReport) -> Vec<&str> {
        checked.warnings.iter().map(|one| one.text.as_str()).collect()
    }

    #[test]
    fn what_the_node_warns_of_at_its_start_is_reported() {
        let of = |text: &str| checked(&[file("node.properties", text)]).swap_remove(0);
        let known = of("nem.network = testnet\nnem.network.nemesisFilePath = /x\nnem.network.version = 152\n");
        let lines =
            ["1 nem.network: used", "2 nem.network.nemesisFilePath: no effect", "3 nem.network.version: no effect"];
        assert_eq!((said(&known), warnings(&known)), (lines.map(str::to_owned).to_vec(), vec![]));
        assert_eq!(known.findings[1].text, "testnet is a known network");

        let private = |letter: &str, more: &str| {
            of(&format!(
                "nem.network = mine\nnem.network.version = 152\nnem.network.addressStartChar = {letter}\n\
                 nem.network.generationHash = {}\nnem.network.totalAmount = 1\nnem.network.nemesisFilePath = missing.bin\n\
                 nem.network.nemesisSignerAddress = TALICELCD3XPH4FFI5STGGNSNSWPOTG5E4DS2TOS\n{more}",
                "0".repeat(64)
            ))
        };
        let without_forks = private("T", "");
        let expected = ["network byte 152 without any fork height", "nis.treasuryReissuanceForkHeight", "STANDS STILL"];
        assert_eq!(warnings(&without_forks).len(), expected.len(), "{without_forks}");
        for (warning, words) in warnings(&without_forks).iter().zip(expected) {
            assert!(warning.contains(words), "{warning}");
        }
        assert!(
            without_forks.to_string().contains("the node                                  warning    network byte")
        );
        assert!(said(&without_forks).contains(&"3 nem.network.addressStartChar: used".to_owned()));
        let more = "nis.treasuryReissuanceForkHeight = 1\nnis.mosaicsForkHeight = 1\nnisd.peers = a.example\n";
        let other = private("N", more);
        assert!(warnings(&other).is_empty(), "{other}");
        assert!(said(&other).contains(&"3 nem.network.addressStartChar: no effect".to_owned()), "{other}");
    }

    #[test]
    fn a_list_for_another_folder_counts_as_peers_and_an_exposed_key_is_reported() {
        let key = "a".repeat(64);
        let text = format!(
            "nem.network = mijinnet\nnis.treasuryReissuanceForkHeight = 1\nnis.bootKey = {key}\n\
                            nis.shouldAutoHarvestOnBoot = false\n"
        );
        let settings = |mode| File { mode, ..file("node.properties", &text) };
        assert!(warnings(&checked(&[settings(0o640)])[0])[0].contains("STANDS STILL"));
        let node = "{\"knownPeers\":[{\"endpoint\":{\"protocol\":\"http\",\"port\":7890,\"host\":\"10.0.0.1\"},\"identity\":\
                    {\"public-key\":\"cd94cdcfde6878e093bc70e35b575dbe68095c69f73112e67559f71c1fb64c6e\"}}]}";
        let empty = checked(&[settings(0o640), file("etc/peers-config_mijinnet.json", "{}")]);
        assert!(warnings(&empty[0])[0].contains("STANDS STILL"));
        let both = checked(&[settings(0o644), file("etc/peers-config_mijinnet.json", node)]);
        let [warning] = warnings(&both[0])[..] else { panic!("one warning: {both:?}") };
        assert!(warning.contains("mode 0644") && warning.contains("chmod o="), "{warning}");
        let text = text.replace(&key, &key[1..]);
        let odd = checked(&[file("node.properties", &text), file("etc/peers-config_mijinnet.json", node)]);
        assert!(warnings(&odd[0]).iter().any(|warning| warning.contains("nis.bootKey holds a private key of 63")));
    }

    #[test]
    fn a_syntax_error_is_reported_with_its_line() {
        let [checked] = &checked(&[file("a", "nem.network = main\\u00zz\n")])[..] else { panic!("one file") };
        assert_eq!(said(checked), ["1 the file: WRONG"]);
    }
}
