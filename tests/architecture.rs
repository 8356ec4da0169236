//! Layers: which may use which, and which may touch sockets, clocks and the like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Layers (folders or single files of `src`, `src/core` and `src/net`) and the layers that each may use besides itself. A layer
/// uses only layers above it.
const LAYERS: &[(&str, &str)] = &[
    ("crypto", ""),
    ("model", "crypto"),
    ("clock", "model"),
    ("progress", ""),
    // The work budget of a step, and the costs of work.
    ("budget", ""),
    ("logging", "model"),
    // Counters and their exposition; knows none of the layers that count.
    ("metrics", ""),
    // Networks of IP addresses, for clients and peers.
    ("ip", ""),
    // Who is served next, and who gives way.
    ("quota", "ip"),
    // How files are opened, created and replaced, and what their errors say.
    ("files", ""),
    // The secret of local requests, and its file.
    ("local_cookie", "files"),
    ("codec", "crypto model"),
    ("store", "crypto model codec metrics files"),
    ("state", "crypto model codec store"),
    ("rules", "crypto model codec store state"),
    ("importance", "model state"),
    ("chain", "crypto model codec store state rules importance"),
    ("mempool", "crypto model budget codec store state rules chain"),
    ("net", "metrics ip quota local_cookie files"),
    // It knows the requests of `net` and their results, and none of its sockets.
    ("peer", "crypto model ip quota codec rules chain mempool net"),
    ("api", "crypto model budget ip quota codec store state rules chain mempool peer net metrics local_cookie"),
    ("websocket_api", "model budget quota codec state net peer api metrics"),
    // Some settings have the types of the layers that use them.
    ("config", "crypto model clock ip codec peer api files"),
    ("wallet", "crypto model clock codec store state rules net metrics local_cookie files"),
    // The state machine. It knows the events of `net`, and none of its sockets.
    (
        "node",
        "crypto model clock progress budget ip quota codec store state rules chain mempool peer net api \
         websocket_api config metrics local_cookie",
    ),
    // It prints the documentation of the node's metrics.
    (
        "commands",
        "crypto model clock ip codec store state chain config wallet progress logging metrics node local_cookie files",
    ),
    ("event_loop", "model clock progress logging ip codec store chain net config commands node local_cookie files"),
];

/// Layers and files that may touch sockets, clocks, the system's randomness or other threads.
const OUTSIDE: &[&str] = &["net", "event_loop", "main"];
/// Words that show such a touch.
const OUTSIDE_WORDS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "getrandom",
    "OsRng",
    "thread::spawn",
    "thread::sleep",
    "std::thread",
];

/// Returns every source file by its path below `src`, or below `src/core`. What of `src/net` is a layer of its own is named
/// as if it were beside it.
fn sources() -> BTreeMap<String, String> {
    let of_net = ["net/ip.rs", "net/local_cookie.rs", "net/quota.rs"];
    let without_crate = |file: &str| match file.split_once('/') {
        Some(("core", rest)) if rest != "lib.rs" => rest.to_owned(),
        Some(("net", rest)) if of_net.contains(&file) => rest.to_owned(),
        _ => file.to_owned(),
    };
    sources_of("src").into_iter().map(|(file, text)| (without_crate(&file), text)).collect()
}

/// Returns every source file by its path below a folder of the project.
fn sources_of(folder: &str) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).expect("below the folder").to_str().expect("a name").to_owned();
                found.insert(name, fs::read_to_string(&path).expect("a source file"));
            }
        }
    }
    assert!(found.len() > 20, "{:?}", found.keys());
    found
}

/// Returns the layer of a file: its first folder, or its own name.
fn layer(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Returns the text of a file without comments and test modules, which may use anything. A test module is the end of a file,
/// or a file of its own.
fn code(file: &str, text: &str) -> String {
    if file.ends_with("/tests.rs") {
        return String::new();
    }
    let heads = ["#[cfg(test)]\nmod ", "#[cfg(test)]\npub(super) mod "];
    let starts =
        heads.iter().flat_map(|head| text.match_indices(head).map(|(start, head)| (start, start + head.len())));
    // A test module in another file is declared without a brace, and other code follows.
    let mut tests = starts.filter(|(_, name)| text[*name..].lines().next().is_some_and(|line| line.contains('{')));
    let text = tests.next().map_or(text, |(start, _)| &text[..start]);
    let without_comment = |line: &str| match line.find("//") {
        Some(start) => line[..start].to_owned(),
        None => line.to_owned(),
    };
    text.lines().map(|line| without_comment(line) + "\n").collect()
}

/// Returns the layers that code names: `crate::layer`, `nisd_core::layer` and the lists `crate::{layer, …}`.
fn uses(code: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first_name = |text: &str| text.trim_start().split(|c| !is_name(c)).next().unwrap_or_default().to_owned();
    let mut found = BTreeSet::new();
    let paths = ["crate::", "nisd_core::"].into_iter().flat_map(|path| code.match_indices(path));
    for (position, path) in paths {
        // Not another crate's, as in `my_crate::`.
        if code[..position].ends_with(is_name) {
            continue;
        }
        let rest = &code[position + path.len()..];
        match rest.strip_prefix('{') {
            None => drop(found.insert(first_name(rest))),
            Some(list) => found.extend(items(list).into_iter().map(first_name)),
        }
    }
    // Constants of a crate belong to no layer.
    found.retain(|name| !name.starts_with(char::is_uppercase));
    found
}

/// Returns the items of a list up to its closing brace. An inner list is one item.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (position, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.push(&list[start..position]);
                start = position + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found.retain(|item| !item.trim().is_empty());
    found
}

#[test]
fn a_layer_may_only_use_layers_above_it() {
    for (index, (layer, allowed)) in LAYERS.iter().enumerate() {
        for above in allowed.split(' ').filter(|name| !name.is_empty()) {
            let place = LAYERS.iter().position(|(name, _)| *name == above);
            assert!(place.is_some_and(|place| place < index), "{layer} may use {above}, which is not above it");
        }
    }
}

#[test]
fn every_layer_uses_only_its_allowed_layers() {
    let layers: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let layer = layer(&file);
        if ["lib.rs", "main.rs", "core/lib.rs"].contains(&file.as_str()) {
            continue;
        }
        let Some(allowed) = layers.get(layer) else {
            wrong.push(format!("{file}: the layer {layer} is not in the table"));
            continue;
        };
        for used in uses(&code(&file, &text)) {
            // A crate names its own modules like layers.
            let is_module = layer == "net" && !layers.contains_key(used.as_str());
            if used != layer && !is_module && !allowed.split(' ').any(|name| name == used) {
                wrong.push(format!("{file}: {layer} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Returns whether code contains a word, and not only a longer one that begins with it.
fn has_word(code: &str, word: &str) -> bool {
    let goes_on = |c: char| word.ends_with(char::is_alphanumeric) && (c.is_alphanumeric() || c == '_');
    code.match_indices(word).any(|(at, _)| !code[at + word.len()..].starts_with(goes_on))
}

/// Returns which of these words the code of some files contains.
fn found(words: &[&str], is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in sources().iter().filter(|(file, _)| is_meant(file)) {
        let code = code(file, text);
        found.extend(words.iter().filter(|word| has_word(&code, word)).map(|word| format!("{file}: {word}")));
    }
    found
}

const NONE: [&str; 0] = [];

#[test]
fn sockets_clocks_randomness_and_threads_are_used_only_by_the_outer_layers() {
    assert_eq!(found(OUTSIDE_WORDS, |file| !OUTSIDE.contains(&layer(file))), NONE);
}

#[test]
fn net_uses_sockets_and_clocks_only_in_its_socket_files() {
    const WITH_SOCKETS: [&str; 3] = ["net/blocking_client.rs", "net/reactor.rs", "net/fetch/fetcher.rs"];
    let found = found(OUTSIDE_WORDS, |file| layer(file) == "net" && !WITH_SOCKETS.contains(&file));
    assert_eq!(found, ["net/socket.rs: TcpStream"], "the trait of sockets is implemented there");
}

#[test]
fn the_peer_node_and_api_layers_use_no_sockets_of_net() {
    let words = ["Reactor", "net::blocking_client", "net::Server", "mio::"];
    assert_eq!(found(&words, |file| ["peer", "node", "api", "websocket_api"].contains(&layer(file))), NONE);
}

#[test]
fn the_program_is_one_thread_and_forbids_unsafe_code() {
    let sources = sources();
    for file in ["lib.rs", "main.rs", "core/lib.rs", "net/lib.rs"] {
        assert!(sources[file].contains("#![forbid(unsafe_code)]"), "{file}");
    }
    let words = ["thread::spawn", "thread::scope", "Mutex", "RwLock", "async fn", "async move", ".await"];
    assert_eq!(found(&words, |_| true), NONE);
}

#[test]
fn net_does_not_depend_on_nem() {
    for (file, text) in sources() {
        if layer(&file) != "net" {
            continue;
        }
        let code = code(&file, &text).to_lowercase();
        for word in ["nemesis", "harvest", "mosaic", "stomp", "transaction"] {
            // Names of subprotocols are arguments.
            assert!(!code.contains(word), "{file} names {word}");
        }
        let mut words = code.split(|c: char| !c.is_ascii_alphanumeric());
        assert!(!words.any(|word| word == "xem"), "{file} names xem");
    }
}

/// Unit tests are at the end of the file that they test, or in the file `tests.rs` of its module; everything else is in
/// the folder `tests`.
#[test]
fn unit_tests_are_inline_or_in_a_file_called_tests() {
    let is_elsewhere = |file: &&String| file.contains("/tests/") || file.contains("testing");
    assert_eq!(sources().keys().filter(is_elsewhere).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// `cargo test` leaves a test out only because of what it costs.
#[test]
fn every_ignored_test_says_why_it_is_slow() {
    for folder in ["src", "tests"] {
        for (file, text) in sources_of(folder) {
            // This file speaks of it.
            if file == "architecture.rs" {
                continue;
            }
            for (_, reason) in text.match_indices("#[ignore").map(|(at, head)| text[at..].split_at(head.len())) {
                assert!(reason.starts_with(" = \"slow: "), "{file}: {:.40}", reason);
            }
        }
    }
}

/// Returns the pages for people, by their paths: the README and the topics and notes of `nisd help`.
fn pages() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src/help", "src/help/commands"].map(|folder| fs::read_dir(root.join(folder)).expect("a folder"));
    let files = folders.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md" || extension == "txt");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        (name, fs::read_to_string(path).expect("a page"))
    };
    files.filter(is_page).chain([root.join("README.md")]).map(read).collect()
}

/// Returns the length of the mark of a list's item, such as `- ` or `2. `, with what is before it; `None` for another line.
fn item_indent(line: &str) -> Option<usize> {
    let rest = line.trim_start();
    let mark = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_item = rest.starts_with("- ") || mark.len() < rest.len() && mark.starts_with(". ");
    is_item.then(|| line.len() - mark.len() + 2)
}

/// Wraps a paragraph. Its further lines are indented like the text of its first one.
fn wrap(paragraph: &[&str], width: usize) -> String {
    let begin = paragraph[0].len() - paragraph[0].trim_start().len();
    let indent = item_indent(paragraph[0]).unwrap_or(begin);
    let mut words = paragraph.iter().flat_map(|line| line.split_whitespace());
    let mut lines = vec![" ".repeat(begin) + words.next().unwrap_or_default()];
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => *line += &format!(" {word}"),
            _ => lines.push(" ".repeat(indent) + word),
        }
    }
    lines.join("\n")
}

#[test]
fn lines_of_pages_are_wrapped_except_in_tables_and_code() {
    const WIDTH: usize = 120;
    /// A word more does no harm: a small edit need not wrap a whole paragraph again.
    const MAX_WIDTH: usize = 130;
    let mut wide = Vec::new();
    for (name, text) in pages() {
        let (mut paragraph, mut is_code): (Vec<&str>, _) = (Vec::new(), false);
        for line in text.lines().chain([""]) {
            is_code ^= line.trim_start().starts_with("```");
            let is_prose = !is_code && !line.trim_start().starts_with(['|', '#', '`']) && !line.starts_with("    ");
            let is_prose = is_prose || !paragraph.is_empty() && line.starts_with('`');
            if !is_prose || line.trim().is_empty() || item_indent(line).is_some() {
                if paragraph.iter().any(|line| line.chars().count() > MAX_WIDTH) {
                    wide.push(format!("{name}: write\n{}", wrap(&paragraph, WIDTH)));
                }
                paragraph.clear();
            }
            paragraph.extend((is_prose && !line.trim().is_empty()).then_some(line));
        }
    }
    assert!(wide.is_empty(), "\n{}", wide.join("\n"));
    for (paragraph, expected) in [
        (["- one two", "  three four"], "- one two\n  three four"),
        (["12. one", "    two three"], "12. one two\n    three"),
        (["  one two", "  three"], "  one two\n  three"),
    ] {
        assert_eq!(wrap(&paragraph, 13), expected);
    }
}

#[test]
fn notes_of_commands_fit_the_width_to_which_the_program_wraps_its_help() {
    /// Commands to copy stay in one line.
    const BEFORE_COMMANDS: &str = "  nisd ";
    const WIDTH: usize = 100;
    for (name, text) in pages().iter().filter(|(name, _)| name.starts_with("src/help/commands/")) {
        let is_wide = |line: &&str| line.chars().count() > WIDTH && !line.starts_with(BEFORE_COMMANDS);
        assert_eq!(text.lines().find(is_wide), None, "{name} has this line of more than {WIDTH} characters");
    }
}

#[test]
fn pages_name_existing_files_of_the_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut missing, mut count) = (Vec::new(), 0);
    for (name, text) in pages() {
        for path in text.split('`').filter(|word| !word.contains([' ', '\n'])) {
            // A package has no folder of the fuzzer.
            let is_in = |folder: &&str| path.starts_with(*folder) && root.join(folder).exists();
            if ["src/", "tests/", "fuzz/", ".ci/"].iter().any(is_in) {
                count += 1;
                missing.extend((!root.join(path).exists()).then(|| format!("{name}: {path} does not exist")));
            }
        }
    }
    assert!(count > 40, "{count}");
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn the_newest_changes_are_those_of_the_version_of_the_program() {
    let pages = pages();
    let versions = pages["src/help/changes.md"].lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(versions.collect::<Vec<_>>()[0], env!("CARGO_PKG_VERSION"));
}

/// The drawings of the help topic `architecture`: what happens, and the files that take part, in order.
#[test]
fn the_drawings_of_the_architecture_name_existing_files_and_are_short() {
    let files: BTreeSet<_> = sources().into_keys().collect();
    let topic = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/help/architecture.md")).expect("it");
    let drawings: Vec<_> = topic.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!drawings.is_empty());
    for drawing in drawings {
        assert!(drawing.lines().count() <= 20, "at most twenty lines:\n{drawing}");
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_/.".contains(c);
        let words = drawing.split(|c| !is_part(c)).map(|word| word.trim_end_matches('.'));
        let named: Vec<_> = words.filter(|word| word.ends_with(".rs")).collect();
        assert!(named.len() > 3, "it names the files:\n{drawing}");
        for name in named {
            assert!(files.contains(name), "{name} does not exist:\n{drawing}");
        }
    }
}

#[test]
fn the_parser_of_this_test_finds_every_form_of_use() {
    let text = "use crate::model::{Address, Height};\nuse crate::{api::{self, Failure}, codec, store::Read};\n\
                // crate::comment\nfn f() { crate::state::digest(); my_crate::other() }\n\
                #[cfg(test)]\nmod tests { use crate::net::Reactor; }\n";
    let found: Vec<_> = uses(&code("websocket_api/x.rs", text)).into_iter().collect();
    assert_eq!(found, ["api", "codec", "model", "state", "store"]);
    assert_eq!(layer("websocket_api/stomp/decoder.rs"), "websocket_api");
    assert_eq!(layer("clock.rs"), "clock");
    assert_eq!(code("api/tests.rs", text), "");
    let declared = "#[cfg(test)]\nmod tests;\nuse crate::store::Read;\n";
    assert!(uses(&code("api/mod.rs", declared)).contains("store"));
}
