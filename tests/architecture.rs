//! The rooms of the house: which may use which, and which may touch the world outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms (folders or single files of `src`) and the rooms each may use besides itself. The order is that of
/// the house: a room uses only rooms above it.
const ROOMS: &[(&str, &[&str])] = &[
    ("crypto", &[]),
    ("model", &["crypto"]),
    ("clock", &["model"]),
    ("progress", &[]),
    ("logging", &[]),
    // How things are counted, and nothing of what is.
    ("figures", &[]),
    // Which IP addresses belong together, for clients and peers alike.
    ("ip", &[]),
    ("codec", &["crypto", "model"]),
    ("store", &["model", "codec", "figures"]),
    ("state", &["crypto", "model", "codec", "store"]),
    ("rules", &["crypto", "model", "codec", "store", "state"]),
    ("importance", &["model"]),
    ("chain", &["crypto", "model", "codec", "store", "state", "rules", "importance"]),
    ("pool", &["crypto", "model", "codec", "store", "state", "rules"]),
    ("peer", &["crypto", "model", "ip", "codec", "chain", "pool"]),
    ("net", &["figures", "ip"]),
    ("explorer", &["crypto", "net"]),
    ("api", &["crypto", "model", "codec", "store", "state", "rules", "chain", "pool", "peer", "net", "figures"]),
    ("push", &["model", "codec", "net", "api", "figures"]),
    // It gives some settings the types of the rooms that they are for.
    ("config", &["crypto", "model", "clock", "codec", "peer", "api", "push"]),
    ("cli", &["model", "config"]),
    ("wallet", &["crypto", "model", "codec", "store", "state", "rules", "net", "cli", "logging", "figures"]),
    ("devnet", &["crypto", "model", "clock", "codec", "store", "config", "cli", "wallet"]),
    (
        "commands",
        &[
            "model", "clock", "codec", "store", "state", "chain", "config", "cli", "wallet", "devnet", "progress",
            "logging", "figures",
        ],
    ),
    // The machine. It knows the language of `net`, and none of its sockets.
    (
        "node",
        &[
            "crypto", "model", "clock", "progress", "codec", "store", "state", "rules", "chain", "pool", "peer", "net",
            "explorer", "api", "push", "config", "commands", "figures",
        ],
    ),
    (
        "event_loop",
        &[
            "model", "clock", "progress", "logging", "codec", "store", "chain", "net", "config", "cli", "devnet",
            "commands", "node",
        ],
    ),
];

/// Uses that go against the order, file by file, and why they are borne with.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Rooms and files that touch sockets, clocks, the system's randomness or other threads.
const OUTSIDE: &[&str] = &["net", "event_loop", "main"];
/// What they are known by.
const TOUCHES: &[&str] = &[
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

/// Every source file, by its path below `src`.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).expect("below src").to_str().expect("a name").to_owned();
                found.insert(name, fs::read_to_string(&path).expect("a source file"));
            }
        }
    }
    assert!(found.len() > 20, "{:?}", found.keys());
    found
}

/// The room of a file: its first folder, or its own name.
fn room(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// A file without comments and without what is only compiled for tests, which may use anything.
///
/// By the project's habit the latter is the end of a file, or a file of its own.
fn code(file: &str, text: &str) -> String {
    if file.ends_with("/tests.rs") {
        return String::new();
    }
    let text = text.split_once("#[cfg(test)]\nmod ").map_or(text, |(code, _)| code);
    let without_comment = |line: &str| match line.find("//") {
        Some(start) => line[..start].to_owned(),
        None => line.to_owned(),
    };
    text.lines().map(|line| without_comment(line) + "\n").collect()
}

/// The rooms that code names: `crate::room` and the lists `crate::{room, …}`.
fn uses(code: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first_name = |text: &str| text.trim_start().split(|c| !is_name(c)).next().unwrap_or_default().to_owned();
    let mut found = BTreeSet::new();
    for (position, _) in code.match_indices("crate::") {
        // Not another crate's, as in `my_crate::`.
        if code[..position].ends_with(is_name) {
            continue;
        }
        let rest = &code[position + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => drop(found.insert(first_name(rest))),
            Some(list) => found.extend(items(list).into_iter().map(first_name)),
        }
    }
    found
}

/// The items of a list up to its closing brace, those of inner lists left in one piece.
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
fn arrows_point_up_the_table_of_rooms_only() {
    for (index, (room, allowed)) in ROOMS.iter().enumerate() {
        for above in *allowed {
            let place = ROOMS.iter().position(|(name, _)| name == above);
            assert!(place.is_some_and(|place| place < index), "{room} may use {above}, which is not above it");
        }
    }
}

#[test]
fn every_room_uses_only_what_it_may() {
    let rooms: BTreeMap<_, _> = ROOMS.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut needless: Vec<_> = EXCEPTIONS.iter().map(|(file, used, _)| (*file, *used)).collect();
    for (file, text) in sources() {
        let room = room(&file);
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(allowed) = rooms.get(room) else {
            wrong.push(format!("{file}: the room {room} is not in the table"));
            continue;
        };
        for used in uses(&code(&file, &text)) {
            let excepted = needless.iter().position(|exception| *exception == (file.as_str(), used.as_str()));
            if let Some(index) = excepted {
                needless.swap_remove(index);
            } else if used != room && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{file}: {room} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(needless.is_empty(), "exceptions that nothing needs any more: {needless:?}");
}

#[test]
fn only_the_loop_touches_sockets_clocks_randomness_and_threads() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if OUTSIDE.contains(&room(&file)) {
            continue;
        }
        let code = code(&file, &text);
        wrong.extend(TOUCHES.iter().filter(|what| code.contains(**what)).map(|what| format!("{file}: {what}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_parts_of_the_network_room_that_are_called_pure_touch_nothing() {
    const WITH_SOCKETS: [&str; 4] = ["net/client.rs", "net/listeners.rs", "net/reactor.rs", "net/fetch/sockets.rs"];
    for (file, text) in sources() {
        if room(&file) != "net" || WITH_SOCKETS.contains(&file.as_str()) {
            continue;
        }
        let code = code(&file, &text);
        for what in TOUCHES.iter().filter(|what| code.contains(**what)) {
            // The one place that says what a socket of the system is.
            assert!(file == "net/socket.rs" && *what == "TcpStream", "{file}: {what}");
        }
    }
}

#[test]
fn the_machine_names_no_socket_of_the_network_room() {
    for (file, text) in sources() {
        if ["node", "api", "push"].contains(&room(&file)) {
            let code = code(&file, &text);
            for what in ["Reactor", "net::client", "net::Server", "mio::"] {
                assert!(!code.contains(what), "{file}: {what}");
            }
        }
    }
}

#[test]
fn the_program_is_one_thread_and_forbids_unsafe_code() {
    let sources = sources();
    for file in ["lib.rs", "main.rs"] {
        assert!(sources[file].contains("#![forbid(unsafe_code)]"), "{file}");
    }
    for (file, text) in &sources {
        let code = code(file, text);
        for what in ["thread::spawn", "thread::scope", "Mutex", "RwLock", "async fn", "async move", ".await"] {
            assert!(!code.contains(what), "{file}: {what}");
        }
    }
}

#[test]
fn the_network_room_knows_nothing_of_the_chain() {
    for (file, text) in sources() {
        if room(&file) != "net" {
            continue;
        }
        let code = code(&file, &text).to_lowercase();
        for word in ["nemesis", "harvest", "mosaic", "stomp", "transaction"] {
            // A name that only holds the word, such as the supported subprotocols, is given from outside.
            assert!(!code.contains(word), "{file} speaks of {word}");
        }
        let mut words = code.split(|c: char| !c.is_ascii_alphanumeric());
        assert!(!words.any(|word| word == "xem"), "{file} speaks of xem");
    }
}

#[test]
fn the_reader_of_this_test_sees_every_form_of_use() {
    let text = "use crate::model::{Address, Height};\nuse crate::{api::{self, Failure}, codec, store::Read};\n\
                // crate::comment\nfn f() { crate::state::digest(); my_crate::other() }\n\
                #[cfg(test)]\nmod tests { use crate::net::Reactor; }\n";
    let found: Vec<_> = uses(&code("push/x.rs", text)).into_iter().collect();
    assert_eq!(found, ["api", "codec", "model", "state", "store"]);
    assert_eq!(room("push/stomp/decoder.rs"), "push");
    assert_eq!(room("clock.rs"), "clock");
    assert_eq!(code("api/tests.rs", text), "");
}
