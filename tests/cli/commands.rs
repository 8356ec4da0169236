//! Commands that work on a store and end, on the chain that is part of the project.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::daemon::{CommandOutput, Node, args, assert_contains, run};
use crate::common::data_folder::{ChainFiles, DataFolder, text};
use crate::common::http::Client;
use crate::common::{folder_of_a_service, recorded, recorded_chain, skip, tiny};
use nisd::model::Height;
use nisd::state;
use nisd::store::{
    AccessMode, ChainIdentity, EARLIER_SCHEMAS, Options, Read, SCHEMA, Store, Table, Write as _, WriteTxn, stored_block,
};
use serde_json::Value;

const TIP: u64 = 60;
/// Hash of the tip.
const TIP_HASH: &str = "127425dd1f4a8a11a4a09e3042455d72bed2fcc83477563dc0e916ee4f59a7e1";
/// Name of the network in the chain's configuration.
const NETWORK: &str = "golden-tiny";

/// Imports blocks with the configuration of the chain.
#[track_caller]
fn import(place: &DataFolder, blocks: &Path) -> CommandOutput {
    place.import(&tiny("network.properties"), blocks, &[])
}

/// Imports the whole chain.
#[track_caller]
fn import_all(place: &DataFolder, arguments: &[&str]) -> CommandOutput {
    place.import(&tiny("network.properties"), &tiny("blocks.bin"), arguments)
}

/// Writes the chain's configuration with another rewrite limit and maximum number of transactions.
fn write_config(place: &DataFolder, rewrite_limit: u64, max_transactions: u64) -> PathBuf {
    let mut config = fs::read_to_string(tiny("network.properties")).expect("the configuration");
    for (key, value) in [("blockChainRewriteLimit", rewrite_limit), ("maxTransactions", max_transactions)] {
        // The last of several values counts.
        config.push_str(&format!("\nnis.{key} = {value}\n"));
    }
    fs::copy(tiny("nemesis.bin"), place.beside("nemesis.bin")).expect("a copy");
    place.file("network.properties", config)
}

/// Replaces the file of the store.
fn restore(place: &DataFolder, whole: &[u8]) {
    fs::write(place.path().join("data.mdb"), whole).expect("the store");
}

/// Returns a store with the whole chain.
fn full() -> DataFolder {
    DataFolder::full(&ChainFiles::of("tiny"))
}

/// Returns a store with the whole chain and a low rewrite limit, with hash epochs of 2 to the power of `era_bits`
/// transaction numbers. With short epochs most hashes are compacted.
fn with_hash_epochs(era_bits: u8) -> DataFolder {
    let place = DataFolder::new();
    let config = write_config(&place, 10, 1200);
    let loaded = nisd::config::load(Some(&config), Vec::new(), Some(place.0.path())).expect("a configuration");
    let store = Store::open(&place.path(), &ChainIdentity::of(&loaded.network), Options::default()).expect("a store");
    let mut batch = store.begin_write().expect("a batch");
    state::set_epoch_size(&mut batch, era_bits).expect("room");
    batch.commit().expect("room");
    drop(store);
    place.import(&config, &tiny("blocks.bin"), &[]).expect_success();
    place
}

/// Returns the offset of a block in the file of blocks, after its length.
fn block_offset(blocks: &[u8], height: u64) -> usize {
    let mut position = 0;
    for _ in 2..height {
        let length = blocks[position..].first_chunk().expect("a length");
        position += 4 + u32::from_le_bytes(*length) as usize;
    }
    position + 4
}

#[test]
fn an_export_equals_the_import() {
    let place = full();
    let blocks = fs::read(tiny("blocks.bin")).expect("the chain");
    assert!(place.run("export", &[]).expect_success().stdout == blocks);
    assert!(place.run("export", &["--output", "-"]).expect_success().stdout == blocks);
    let output = place.beside("out.bin");
    let written = place.run("export", &["--output", text(&output)]).expect_success();
    assert!(written.stdout.is_empty() && fs::read(&output).expect("the output") == blocks);
    let whole = place.run("export", &["--from", "1"]).expect_success().stdout;
    assert!(whole.ends_with(&blocks) && whole.len() > blocks.len());
    let part = place.run("export", &["--from", "10", "--to", "19"]).expect_success().stdout;
    assert!(part == blocks[block_offset(&blocks, 10) - 4..block_offset(&blocks, 20) - 4]);
    // Missing heights do not result in an empty file.
    place.run("export", &["--to", "61"]).expect_failure(1, &["no block at height 61", "height 60"]);
    place.run("export", &["--from", "62"]).expect_failure(1, &["62", "height 60"]);
    place.run("export", &["--from", "9", "--to", "8"]).expect_failure(2, &["--to 8", "--from 9"]);
    let nowhere = place.beside("no/such/folder");
    let failed = place.run("export", &["--output", text(&nowhere)]);
    failed.expect_failure(1, &["no/such/folder"]);
}

#[test]
fn an_import_stops_at_the_given_height_and_continues_later() {
    let (place, whole) = (DataFolder::new(), full());
    for (stop, height) in [("1", 1), ("23", 23), ("10", 23), ("24", 24), ("1000", TIP), ("1000", TIP)] {
        let import = import_all(&place, &["--stop-at", stop]);
        let log = import.expect_success().stderr;
        assert!(log.contains(&format!("height {height}")), "{log}");
        assert_eq!(place.digest().0, height, "--stop-at {stop}");
    }
    assert_eq!(place.digest(), whole.digest());
    let refused = import_all(&place, &["--stop-at", "0"]);
    refused.expect_failure(2, &["--stop-at", "at least 1"]);
}

#[test]
fn rolled_back_blocks_can_be_imported_again() {
    let place = full();
    let whole = place.digest();
    let reference = DataFolder::new();
    for (height, stop) in [(59, "59"), (31, "31"), (2, "2"), (1, "1")] {
        place.run("rollback", &["--to", stop]).expect_success();
        let _ = fs::remove_dir_all(reference.path());
        let import = import_all(&reference, &["--stop-at", stop]);
        import.expect_success();
        assert_eq!(place.digest(), reference.digest(), "rolled back to {height}");
        assert_eq!(place.digest().0, height);
    }
    import(&place, &tiny("blocks.bin")).expect_success();
    assert_eq!(place.digest(), whole);
}

#[test]
fn a_rollback_that_is_impossible_changes_nothing() {
    let place = full();
    let whole = place.digest();
    for to in ["60", "61", "1000000"] {
        place.run("rollback", &["--to", to]).expect_failure(1, &["at height 60", "below"]);
    }
    place.run("rollback", &["--to", "0"]).expect_failure(2, &["--to", "at least 1"]);
    place.run("rollback", &[]).expect_failure(2, &["--to"]);
    assert_eq!(place.digest(), whole);
}

#[test]
fn a_rollback_beyond_the_kept_journals_is_rejected() {
    let place = DataFolder::new();
    // No more transactions than fit into as many blocks.
    place.import(&write_config(&place, 20, 2400), &tiny("blocks.bin"), &[]).expect_success();
    let whole = place.digest();
    place.run("rollback", &["--to", "39"]).expect_failure(1, &["down to height 40"]);
    assert_eq!(place.digest(), whole);
    place.run("rollback", &["--to", "40"]).expect_success();
    assert_eq!(place.digest().0, 40);
}

#[test]
fn the_dump_is_one_line_of_json() {
    let place = full();
    let dump = place.run("dump", &[]).expect_success();
    let text = dump.text();
    assert!(text.ends_with('\n') && text.lines().count() == 1 && dump.stderr.is_empty(), "{}", dump.stderr);
    let state: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(state["height"], TIP);
    assert_eq!(state["blockHash"], TIP_HASH);
    assert_eq!(state["chainScore"], "11231750704387638");
    assert!(state["accounts"].as_array().is_some_and(|accounts| accounts.len() > 30), "{text}");
}

#[test]
fn a_compressed_file_is_read_like_a_plain_one() {
    let place = DataFolder::new();
    let blocks = fs::read(tiny("blocks.bin")).expect("the chain");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(&blocks).expect("memory");
    let packed = packer.finish().expect("memory");
    // The content decides, not the name.
    import(&place, &place.file("first.bin", &packed)).expect_success();
    assert_eq!(place.digest(), full().digest());

    let torn = DataFolder::new();
    import(&torn, &torn.file("torn.bin.gz", &packed[..packed.len() / 2])).expect_failure(1, &["after height"]);
    let (height, _) = torn.digest();
    assert!((2..TIP).contains(&height), "{height}");
    import(&torn, &place.beside("first.bin")).expect_success();
    assert_eq!(torn.digest(), place.digest());
}

#[test]
fn several_files_are_imported_in_order() {
    let place = DataFolder::new();
    let blocks = fs::read(tiny("blocks.bin")).expect("the chain");
    let cut = block_offset(&blocks, 30) - 4;
    let (low, high) = (place.file("low", &blocks[..cut]), place.file("high", &blocks[cut..]));
    import(&place, &high).expect_failure(1, &["height 2 is rejected", "30"]);
    let (low, high) = (text(&low), high);
    place.import(&tiny("network.properties"), &high, &[low]).expect_success();
    assert_eq!(place.digest(), full().digest());
}

#[test]
fn an_invalid_file_is_rejected_and_earlier_blocks_stay() {
    let blocks = fs::read(tiny("blocks.bin")).expect("the chain");
    let cut = block_offset(&blocks, 30) + 100;
    let place = DataFolder::new();
    let torn = import(&place, &place.file("torn", &blocks[..cut]));
    torn.expect_failure(1, &["after height 29", "ends inside a block"]);
    assert_eq!(place.digest().0, 29);
    import(&place, &tiny("blocks.bin")).expect_success();
    assert_eq!(place.digest(), full().digest());

    for (name, bytes, word) in [
        ("text", &b"hello, this is no chain\n"[..], "not the length of a block"),
        ("short", &[7, 0], "ends inside a block"),
        ("zero", &[0; 64], "not the length of a block"),
        ("huge", &[0xff, 0xff, 0xff, 0x7f, 1], "not the length of a block"),
        ("long", &[0, 0, 0xff, 0, 1], "ends inside a block"),
        ("noise", &[8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], "height 2 is rejected"),
    ] {
        let place = DataFolder::new();
        import(&place, &place.file(name, bytes)).expect_failure(1, &[word]);
    }
}

#[test]
fn a_tampered_block_is_rejected() {
    let blocks = fs::read(tiny("blocks.bin")).expect("the chain");
    let start = block_offset(&blocks, 30);
    let mut tampered = blocks.clone();
    tampered[start + 9] ^= 1;
    // Where the true block is already known, another one at its height does not pass for it.
    for (place, words, height) in
        [(DataFolder::new(), "height 30 is rejected", 29), (full(), "another block at height 30", TIP)]
    {
        import(&place, &place.file("tampered", &tampered)).expect_failure(1, &[words]);
        assert_eq!(place.digest().0, height);
    }
}

#[test]
fn blocks_of_another_chain_are_rejected() {
    let other = recorded("chains/all-forks");
    let place = DataFolder::new();
    import(&place, &other.join("blocks.bin.gz")).expect_failure(1, &["height 2 is rejected", "does not follow"]);
    assert_eq!(place.digest().0, 1);
    import(&full(), &other.join("blocks.bin.gz")).expect_failure(1, &["another block at height 2"]);
}

#[test]
fn a_store_of_another_network_is_not_changed() {
    let place = full();
    let whole = place.digest();
    let config = fs::read_to_string(tiny("network.properties")).expect("the configuration");
    let other = place.file("other.json", config.replace(NETWORK, "somewhere-else"));
    fs::copy(tiny("nemesis.bin"), place.beside("nemesis.bin")).expect("a copy");
    let words = ["the chain of golden-tiny", "somewhere-else"];
    place.import(&other, &tiny("blocks.bin"), &[]).expect_failure(2, &words);
    let config = text(&other);
    let ports = ["--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0", "--config", config];
    place.run("run", &ports).expect_failure(2, &words);
    for command in ["digest", "dump", "export"] {
        place.run(command, &["--config", config]).expect_failure(2, &words);
    }
    place.run("rollback", &["--config", config, "--to", "5"]).expect_failure(2, &words);
    assert_eq!(place.digest(), whole);
}

#[test]
fn missing_files_folders_and_arguments_are_named() {
    let place = DataFolder::new();
    let nowhere = place.beside("nowhere.bin");
    import(&place, &nowhere).expect_failure(1, &["nowhere.bin"]);
    place.import(&place.beside("no.json"), &tiny("blocks.bin"), &[]).expect_failure(2, &["no.json"]);
    // Nor is a private network created.
    place.run("run", &["--import", text(&nowhere)]).expect_failure(1, &["nowhere.bin"]);
    assert!(!place.path().exists(), "nothing is begun before everything is there");
    for command in ["digest", "dump", "export"] {
        place.run(command, &[]).expect_failure(1, &["no chain in the data folder"]);
    }
    let folder = place.path();
    let words = [text(&folder), "no chain in the data folder"];
    place.run("rollback", &["--to", "5"]).expect_failure(1, &words);
    assert!(!place.path().exists(), "looking creates nothing");
    // A file in the place of the folder.
    fs::write(place.path(), "").expect("a file");
    import(&place, &tiny("blocks.bin")).expect_failure(1, &["data folder", "it is a file"]);
    place.run("dump", &[]).expect_failure(1, &["data folder", "it is a file"]);
    place.run("run", &[]).expect_failure(1, &["data folder", "it is a file"]);
    run(["import"]).expect_failure(2, &["--config"]);
    run(["frobnicate"]).expect_failure(2, &["frobnicate"]);
    // A file that is not a store.
    let folder = DataFolder::new();
    fs::create_dir(folder.path()).expect("a folder");
    fs::write(folder.path().join("data.mdb"), "this is not a store".repeat(1000)).expect("a file");
    let ended = folder.run("digest", &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("nisd: ") && !ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn a_mistyped_argument_gets_a_suggestion() {
    run(["run", "--network", "mainet"]).expect_failure(2, &["\"mainet\"", "did you mean mainnet?"]);
    run(["run", "--port", "7890"]).expect_failure(2, &["--http-port", "--websocket-port"]);
    let short = "0123456789abcdef".repeat(4);
    run(["address", &short[1..]]).expect_failure(2, &["64 hex digits", "has 63"]);
    for node in ["http://[::]:7890", "0.0.0.0"] {
        run(["status", "--node", node]).expect_failure(2, &[node, "127.0.0.1"]);
    }
}

/// Marks a store as written with another schema.
fn set_schema(place: &DataFolder, schema: &str) {
    place.change(|batch| batch.put_unjournaled(Table::Meta, b"schema", schema.as_bytes()).expect("room"));
}

#[test]
fn a_store_of_an_older_version_is_rebuilt_to_the_current_state() {
    let place = DataFolder::new();
    import_all(&place, &["--stop-at", "5"]).expect_success();
    let expected = place.run("digest", &[]).expect_success().text();
    set_schema(&place, EARLIER_SCHEMAS[0]);
    let words = [&format!("schema {}, this program has {SCHEMA}", EARLIER_SCHEMAS[0]), "`nisd reindex` rebuilds it"];
    place.run("digest", &[]).expect_failure(1, &words);
    place.run("reindex", &[]).expect_success();
    assert_eq!(place.run("digest", &[]).expect_success().text(), expected);
    assert_eq!(place.run("check", &[]).expect_success().text(), expected);
}

#[test]
fn a_store_of_a_development_version_is_rejected_with_the_migration_commands() {
    let place = DataFolder::new();
    import_all(&place, &["--stop-at", "5"]).expect_success();
    set_schema(&place, "9");
    let folder = place.path();
    let export = format!("`nisd export --data {} --output blocks.bin`", folder.display());
    let words = ["schema 9", &export, "`nisd import --config SETTINGS --data NEW-FOLDER blocks.bin`"];
    for command in ["reindex", "digest"] {
        place.run(command, &[]).expect_failure(1, &words);
    }
    import(&place, &tiny("blocks.bin")).expect_failure(1, &words);
}

#[test]
fn a_missing_permission_for_a_port_is_reported_with_a_remedy() {
    let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let address = "127.0.0.1:80".parse().expect("an address");
    let said = nisd::commands::CommandError::Listen { setting: "nem.httpPort", address, error }.to_string();
    assert_contains(
        &said,
        &["cannot listen on 127.0.0.1:80", "ports below 1024", "CAP_NET_BIND_SERVICE", "--http-port"],
    );
}

#[test]
fn a_port_that_another_program_has_for_ipv6_only_is_in_use() {
    let place = DataFolder::new();
    let (config, data) = (tiny("network.properties"), place.path());
    for (bind, host) in [("*", "::"), ("localhost", "::1")] {
        let other = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None);
        let address: std::net::SocketAddr = (host.parse::<std::net::Ipv6Addr>().expect("an address"), 0).into();
        let listen = |other: socket2::Socket| {
            other.set_only_v6(true)?;
            other.bind(&address.into())?;
            other.listen(1)?;
            Ok::<_, std::io::Error>(std::net::TcpListener::from(other))
        };
        let Ok(other) = other.and_then(listen) else { return skip("this machine has no IPv6") };
        let port = other.local_addr().expect("an address").port().to_string();
        let run = run(args![
            "run",
            "--config",
            &config,
            "--data",
            &data,
            "--bind",
            bind,
            "--http-port",
            &port,
            "--websocket-port",
            "0"
        ]);
        run.expect_failure(1, &[&format!("cannot listen on [{host}]:{port}"), "another node"]);
    }
}

#[test]
fn a_data_path_may_end_with_a_dot_even_if_it_does_not_exist() {
    let place = DataFolder::new();
    let folder = place.beside("deep/store/.");
    let folder = text(&folder);
    run(args![
        "import",
        "--config",
        tiny("network.properties"),
        "--data",
        folder,
        "--stop-at",
        "3",
        tiny("blocks.bin")
    ])
    .expect_success();
    let digest = run(["digest", "--data", folder]).expect_success().text();
    assert!(digest.starts_with("3 "), "{digest}");
    let copy = place.beside("copies/one/.");
    let copied = run(["backup", "--data", folder, text(&copy)]).expect_success().text();
    assert_eq!((copied, place.beside("copies/one/data.mdb").exists()), (digest, true));
    for name in ["reindex", "check-1", "unfinished"] {
        let copy = Path::new(folder).join(name);
        run(["backup", "--data", folder, text(&copy)]).expect_failure(2, &[name, "name another folder"]);
        run(["backup", "--data", folder, text(&copy), "--keep", "2"]).expect_failure(2, &["name another folder"]);
    }
}

#[test]
fn a_service_without_a_configured_folder_uses_the_state_directory() {
    let unit = |arguments: &[&str]| run([&["service"], arguments].concat()).expect_success().text();
    let of_network = unit(&["--network", "mainnet"]);
    assert!(of_network.contains(" run --network mainnet --data /var/lib/nisd\n"), "{of_network}");
    assert!(of_network.contains("StateDirectory=nisd\n") && of_network.contains("ProtectHome=yes\n"), "{of_network}");
    let folder = folder_of_a_service();
    let place = DataFolder(folder);
    for (setting, has_right) in [
        ("nem.httpPort = 80", true),
        ("nem.websocketPort = 80", true),
        ("nisd.metricsBind = 127.0.0.1:80", true),
        ("nisd.metricsBind = 127.0.0.1:1024", false),
    ] {
        let file = place.file("port.properties", format!("nem.network = mainnet\n{setting}\n"));
        let unit = unit(&["--config", text(&file), "--data", "/srv/n"]);
        assert_eq!(unit.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"), has_right, "{setting}: {unit}");
    }
    let file = place.file("many.properties", "nem.network = mainnet\nnisd.maxConnections = 50000\n");
    assert!(
        unit(&["--config", text(&file)]).contains("LimitNOFILE=100000\n") && of_network.contains("LimitNOFILE=20000\n")
    );
    let file = place.file("node.properties", "nem.network = mainnet\nnem.folder = /srv/nem\n");
    let named = unit(&["--config", text(&file)]);
    assert!(!named.contains("--data") && named.contains("ReadWritePaths=/srv/nem/nisd/mainnet\n"), "{named}");
    // As in NIS1's own file, without saying whose home is meant.
    for home in ["nem.folder = %h/nem", "nem.folder = /srv/nem\nnisd.data = %h/nisd"] {
        let file = place.file("home.properties", format!("nem.network = mainnet\n{home}\n"));
        let unit = unit(&["--config", text(&file)]);
        assert!(unit.contains("--data /var/lib/nisd\n") && unit.contains("StateDirectory=nisd\n"), "{unit}");
    }
}

#[test]
fn man_pages_and_completions_are_generated() {
    let place = DataFolder::new();
    let folder = place.beside("man/man1");
    fs::create_dir_all(&folder).expect("a folder");
    let victim = place.file("victim", "precious");
    std::os::unix::fs::symlink(&victim, folder.join("nisd.1")).expect("a link");
    run(["man", text(&folder)]).expect_success();
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    let is_page = |entry: fs::DirEntry| entry.file_type().expect("a kind").is_file();
    assert!(fs::read_dir(&folder).expect("a folder").all(|entry| is_page(entry.expect("an entry"))));
    for (page, text) in [("nisd-backup.1", "keep"), ("nisd.1", "nisd"), ("nisd-operating.7", ".TH NISD\\-OPERATING 7")]
    {
        let content = fs::read_to_string(folder.join(page)).expect("a page");
        assert!(content.contains(text), "{page}: {content}");
    }
    let file = place.file("file", "");
    let expected = format!("{}: it is a file, or lies below one; name a folder", file.display());
    for folder in [&file, &file.join("man1")] {
        run(["man", text(folder)]).expect_failure(1, &[&expected]);
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(["completions", shell]).expect_success().text();
        assert!(script.contains("reindex") && script.contains("http-port"), "{shell}");
        assert!(!script.contains("--port") && !script.contains("does not exist"), "{shell} offers an invalid flag");
    }
    run(["completions", "nosh"]).expect_failure(2, &["nosh", "bash"]);
}

#[test]
fn a_missing_nemesis_block_is_named_relative_to_the_configuration() {
    let place = DataFolder::new();
    let expected = place.beside("nemesis.bin");
    let config = place.file("network.properties", fs::read(tiny("network.properties")).expect("the configuration"));
    let words = ["cannot read the nemesis block", text(&expected), "nem.network.nemesisFilePath", "--nemesis"];
    place.import(&config, &tiny("blocks.bin"), &[]).expect_failure(2, &words);
    // A path on the command line is relative to the current folder, and the message says so.
    let here = std::env::current_dir().expect("a folder").join("none.bin");
    let set = ["--set", "nem.network.nemesisFilePath=none.bin"];
    let words = [text(&here)];
    place.import(&config, &tiny("blocks.bin"), &set).expect_failure(2, &words);
}

#[test]
fn a_public_network_needs_no_files() {
    for network in ["mainnet", "testnet", "mijinnet"] {
        let place = DataFolder::new();
        // Nobody listens on the port of the only known peer.
        let node = Node::start(args!["--network", network, "--peer", "127.0.0.1:9", "--data", place.path()]);
        assert_eq!(Client::connect(node.http).block(1).json()["type"], -1, "{network}");
        node.stop();
        // The second start finds the block in the store.
        place.run("digest", &["--set", &format!("nem.network={network}")]).expect_success();
    }
}

#[test]
fn a_bad_peer_list_is_reported_with_the_wrong_entry() {
    let place = DataFolder::new();
    let name = format!("peers-config_{NETWORK}.json");
    let config =
        place.file("network.properties", fs::read(tiny("network.properties")).expect("the chain's configuration"));
    let list = |key: &str| {
        format!(
            r#"{{"knownPeers":[{{"identity":{{"name":"left out","public-key":"{key}"}},
            "endpoint":{{"protocol":"gopher","host":"a","port":7890}}}},{{"identity":{{"name":"wrong"}}}}]}}"#
        )
    };
    let path = place.file(&name, list(&"07".repeat(32)));
    let run = || place.run("run", &["--config", text(&config)]);
    run().expect_failure(2, &[text(&path), "entry 2 (\"wrong\")", "public-key"]);
    place.file(&name, "nonsense {");
    run().expect_failure(2, &[&name, "list of peers"]);
    assert!(!place.path().exists(), "no store was made");
}

#[test]
fn wrong_settings_are_reported_with_key_value_and_allowed_values() {
    let place = DataFolder::new();
    let file = place.file("node.properties", "nem.network = mainnet\nnem.httpPort = 99999\nnis.ignoreFees = perhaps\n");
    let file = text(&file);
    run(["run", "--config", file]).expect_failure(
        2,
        &[
            "nem.httpPort",
            "\"99999\"",
            "0 to 65535",
            "nis.ignoreFees",
            "\"perhaps\"",
            "true or false",
            "node.properties",
        ],
    );
    for (arguments, words) in [
        (["--clock", "noon"].as_slice(), ["nisd.clock", "\"noon\"", "--clock", "allowed"].as_slice()),
        (&["--set", "nem.websocketPort=x"], &["nem.websocketPort", "\"x\"", "allowed"]),
        (&["--log", "loud"], &["nisd.logLevel", "\"loud\"", "debug"]),
        (&["--bind", "here"], &["nisd.bindAddress", "\"here\"", "allowed"]),
        (&["--set", "nisd.noSuchKey=1"], &["nisd.noSuchKey", "`nisd settings`"]),
        (&["--peer", "a.example", "--peer", "b:0"], &["nisd.peers", "\"b:0\"", "1 to 65535"]),
        (&["--set", "novalue"], &["KEY=VALUE"]),
    ] {
        run(["run"].iter().chain(arguments)).expect_failure(2, words);
    }
}

#[test]
fn every_setting_is_described() {
    let text = run(["settings"]).expect_success().text();
    for key in ["nem.httpPort", "nem.websocketPort", "nem.network", "nisd.clock", "nisd.data"] {
        let described = text.split_once(&format!("\n  {key}\n")).map(|(_, rest)| rest);
        let described = described.unwrap_or_else(|| panic!("{key} is missing"));
        let end = described.find("\n\n").unwrap_or(described.len());
        assert!(described[..end].contains("Allowed:") && described[..end].contains("Default:"), "{key}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100));
    let help = run(["--help"]).expect_success().text();
    for command in ["run", "import", "dump", "rollback", "check", "reindex", "digest", "export", "settings"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        assert!(!run([command, "--help"]).expect_success().stdout.is_empty());
    }
}

/// Returns the chain with one bit of the signature of block 30 changed, which the block hash does not cover.
fn with_a_wrong_signature() -> Vec<u8> {
    const SIGNATURE: usize = 4 + 4 + 4 + (4 + 32) + 4;
    let mut blocks = fs::read(tiny("blocks.bin")).expect("the chain");
    let start = block_offset(&blocks, 30);
    blocks[start + SIGNATURE] ^= 1;
    blocks
}

#[test]
fn an_import_trusts_only_blocks_below_the_checkpoint() {
    let place = DataFolder::new();
    let blocks = place.file("blocks.bin", with_a_wrong_signature());
    let trusting =
        |checkpoint: &str| place.import(&tiny("network.properties"), &blocks, &["--trust-below", checkpoint]);
    let other = TIP_HASH.replace("127425", "127426");
    trusting(&format!("{TIP}:{other}")).expect_failure(1, &["the hash 127425", "not 127426", "nothing was imported"]);
    trusting(&format!("61:{TIP_HASH}")).expect_failure(1, &["end at height 60", "nothing was imported"]);
    place.run("digest", &[]).expect_failure(1, &["no chain"]);
    for wrong in ["60", "1:00", &format!("60:{}", &TIP_HASH[2..]), &format!("1:{TIP_HASH}"), &format!("x:{TIP_HASH}")] {
        trusting(wrong).expect_failure(2, &["HEIGHT:HASH"]);
    }
    trusting(&format!("{TIP}:{TIP_HASH}")).expect_success();
    assert_eq!(place.digest(), full().digest());
    // Existing blocks are compared, too.
    trusting(&format!("{TIP}:{TIP_HASH}")).expect_success();
    trusting(&format!("{TIP}:{other}")).expect_failure(1, &["not 127426"]);
}

#[test]
fn a_check_prints_the_digest() {
    let place = full();
    let checked = place.run("check", &[]).expect_success().text();
    let (height, digest) = place.digest();
    assert_eq!(checked, format!("{height} {digest}\n"));
    // The check leaves no files behind.
    let left = fs::read_dir(place.path()).expect("the store").map(|file| file.expect("a file").file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("check")));
    DataFolder::new().run("check", &[]).expect_failure(1, &["no chain"]);
}

#[test]
fn a_check_finds_another_generation_hash() {
    let place = full();
    place.change(|batch| {
        let key = batch.cursor(Table::Blocks).unwrap().last().unwrap().expect("an entry").0.to_vec();
        let (mut header, block) = stored_block(batch, Height(TIP)).unwrap().expect("a block");
        header.generation_hash.0[1] ^= 1;
        batch
            .put_unjournaled(Table::Blocks, &key, &header.to_bytes(&block, &block.encode_transactions()))
            .expect("room");
    });
    place.run("check", &[]).expect_failure(1, &["the generation hash of the block at height 60"]);
}

/// Returns the rows of a table: key and value.
fn rows(place: &DataFolder, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    recorded_chain::rows(&place.open(AccessMode::Shared).snapshot().expect("a snapshot"), table, &[])
}

/// Flips one bit of a row: of its value, or of its key if the value is empty.
fn flip(place: &DataFolder, table: Table, (key, value): &(Vec<u8>, Vec<u8>), at: usize) {
    place.change(|batch| {
        let (mut key, mut value) = (key.clone(), value.clone());
        batch.delete_unjournaled(table, &key).expect("a row");
        let bytes = if value.is_empty() { &mut key } else { &mut value };
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 1;
        batch.put_unjournaled(table, &key, &value).expect("room");
    });
}

/// Flips bits of the first, the middle and the last row of each table, all of which a check must find; returns the
/// names of empty tables.
fn empty_or_checked(place: &DataFolder, tables: impl Iterator<Item = Table>) -> Vec<&'static str> {
    let whole = place.data_file();
    let mut empty = Vec::new();
    for table in tables {
        let mut rows = rows(place, table);
        // The hash totals depend on a setting that may change, so they cannot be compared.
        rows.retain(|(key, _)| table != Table::Totals || key != state::HASH_TOTALS_KEY);
        // If a history claims to be shorter, only that much of it is compared.
        rows.retain(|(key, _)| table != Table::BalanceHistory || state::history_height(key).is_some());
        if rows.is_empty() {
            empty.push(table.name());
        }
        let last = rows.len().saturating_sub(1);
        for (row, at) in [(0, 0), (last / 2, 17), (last, usize::MAX)] {
            let Some(row) = rows.get(row) else { continue };
            flip(place, table, row, at);
            let ended = place.run("check", &[]);
            let word = match table {
                Table::Blocks => "height".to_owned(),
                // A wrong checksum is reported as damage of the data it covers.
                Table::Checksums => "the store is damaged".to_owned(),
                table => format!("table {}", table.name()),
            };
            assert_eq!(ended.code, Some(1), "{} at {}, byte {at}", table.name(), row.0.escape_ascii());
            ended.expect_failure(1, &[&word]);
            restore(place, &whole);
        }
    }
    place.run("check", &[]).expect_success();
    empty
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_check_finds_a_flipped_bit_in_every_table() {
    let tables = Table::ALL.into_iter().filter(|table| *table != Table::Meta);
    let place = DataFolder::new();
    let history = ["--set", "nis.optionalFeatures=HISTORICAL_ACCOUNT_DATA"];
    import_all(&place, &history).expect_success();
    let empty = empty_or_checked(&place, tables);
    let untouched = ["hash-runs", "expired-mosaics", "skip-pointers", "harvests"];
    assert_eq!(empty, untouched, "tables that the chain does not touch");
}

#[test]
fn requests_for_a_damaged_row_do_not_fill_the_log() {
    let (place, tiny) = (DataFolder::new(), ChainFiles::of("tiny"));
    import_all(&place, &[]).expect_success();
    let (name, _) = rows(&place, Table::Namespaces).swap_remove(0);
    place.change(|batch| batch.put_unjournaled(Table::Namespaces, &name, &[1]).expect("room"));
    let node = Node::start(args!["--config", tiny.config, "--data", place.path()]);
    let (mut client, name) = (Client::connect(node.http), String::from_utf8(name).expect("a name"));
    for _ in 0..30 {
        assert_eq!(client.get(&format!("/namespace?namespace={name}")).status, 500);
    }
    let written = node.process.log().lines().filter(|line| line.contains(" ERROR ")).count();
    assert!((1..=12).contains(&written), "{}", node.process.log());
}

#[test]
fn a_check_finds_flipped_bits_missing_and_surplus_rows_in_compacted_hashes() {
    let place = with_hash_epochs(2);
    const TABLES: [Table; 2] = [Table::Hashes, Table::HashRuns];
    assert!(empty_or_checked(&place, TABLES.into_iter()).is_empty());
    let whole = place.data_file();
    for table in TABLES {
        let rows = rows(&place, table);
        let (key, value) = &rows[rows.len() / 2];
        let change = |change: &dyn Fn(&mut WriteTxn<'_>)| {
            place.change(change);
            place.run("check", &[]).expect_failure(1, &[&format!("table {}", table.name())]);
            restore(&place, &whole);
        };
        change(&|batch| batch.delete_unjournaled(table, key).expect("a row"));
        // The same in an epoch of its own.
        let other = [&[key[0]], &[0x40][..], &key[2..]].concat();
        change(&|batch| batch.put_unjournaled(table, &other, value).expect("room"));
    }
    place.run("check", &[]).expect_success();
}

#[test]
fn compacted_hashes_do_not_change_the_digest_or_the_dump() {
    let (packed, plain) = (with_hash_epochs(1), with_hash_epochs(13));
    let levels: BTreeSet<u8> = rows(&packed, Table::HashRuns).iter().map(|(key, _)| key[0]).collect();
    assert!(levels.len() > 1, "{levels:?}");
    assert!(rows(&packed, Table::Hashes).len() * 4 < rows(&plain, Table::Hashes).len());
    let looks = |place: &DataFolder| (place.digest(), place.run("dump", &[]).expect_success().text());
    assert!(looks(&packed) == looks(&plain));
    // Back, forward, and rebuilt.
    for to in ["55", "51"] {
        packed.run("rollback", &["--to", to]).expect_success();
        packed.run("check", &[]).expect_success();
    }
    packed.import(&packed.beside("network.properties"), &tiny("blocks.bin"), &[]).expect_success();
    assert!(looks(&packed) == looks(&plain));
    packed.run("check", &[]).expect_success();
    packed.run("reindex", &[]).expect_success();
    assert!(looks(&packed) == looks(&plain));
    packed.run("check", &[]).expect_success();
}

#[test]
fn a_check_may_trust_blocks_below_a_checkpoint() {
    let place = full();
    let checkpoint = format!("{TIP}:{TIP_HASH}");
    let plain = place.run("check", &[]).expect_success().text();
    assert_eq!(place.run("check", &["--trust-below", &checkpoint]).expect_success().text(), plain);
    let other = format!("{TIP}:{}", TIP_HASH.replace("127425", "127426"));
    place.run("check", &["--trust-below", &other]).expect_failure(1, &["the hash 127425", "not 127426"]);
    let higher = format!("{}:{TIP_HASH}", TIP + 1);
    place.run("check", &["--trust-below", &higher]).expect_failure(1, &["no block at height 61"]);
    // A wrong signature below it is trusted, too, as in an import.
    let place = DataFolder::new();
    let blocks = place.file("blocks.bin", with_a_wrong_signature());
    place.import(&tiny("network.properties"), &blocks, &["--trust-below", &checkpoint]).expect_success();
    place.run("check", &["--trust-below", &checkpoint]).expect_success();
    place.run("check", &["--no-signatures"]).expect_success();
    place.run("check", &[]).expect_failure(1, &["height 30 is rejected", "its signature is wrong"]);
}

#[test]
fn a_corrupt_block_is_never_exported() {
    let place = full();
    let whole = place.data_file();
    let blocks = rows(&place, Table::Blocks);
    for (height, (key, value)) in (1..).zip(&blocks).skip(1).step_by(7) {
        for at in (0..value.len()).step_by(value.len() / 7) {
            flip(&place, Table::Blocks, &(key.clone(), value.clone()), at);
            let words = [&format!("height {height}"), "damaged"];
            place.run("export", &["--from", &height.to_string()]).expect_failure(1, &words);
            restore(&place, &whole);
        }
    }
    // A missing block.
    place.change(|batch| batch.delete_unjournaled(Table::Blocks, &blocks[29].0).expect("a row"));
    place.run("export", &[]).expect_failure(1, &["block at height 30 is missing"]);
    place.run("check", &[]).expect_failure(1, &["block at height 30 is missing"]);
    place.run("reindex", &[]).expect_failure(1, &["block at height 30 is missing"]);
}
