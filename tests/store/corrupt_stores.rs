//! Damaged stores give no wrong answers, whatever the disk did to them: bits are flipped, pages swapped, duplicated,
//! replaced by those of earlier commits, and zeroed; then everything is read. Only a page of an earlier commit may be
//! believed, until the verification in the background has found it.
//!
//! LMDB trusts the pointers in its pages, so a damaged one may end the process with a signal. The stores are therefore
//! checked in separate processes; where one ends, the next continues after that store.
//!
//! `MUTATIONS=5000 cargo test --test all corrupt_stores -- --include-ignored` checks that many stores and prints how they ended.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::recorded_chain::{Chain, import_list};
use crate::common::simulated_node::ReplayedNode;
use crate::common::{Random, from_environment, http, load_settings, print_notice, tiny};
use nisd::codec::network_from_text;
use nisd::config::Settings;
use nisd::state;
use nisd::store::{AccessMode, ChainIdentity, Options, Read, Store, Table, VerifyPosition, tip};
use tempfile::TempDir;

const PAGE: usize = 4096;
const OPTIONS: Options = Options { map_size: 64 << 20 };
/// Default number of stores to check.
const MUTATIONS: u64 = 120;
/// Set for a checking process, to the first and the end of its store numbers.
const WORKER: &str = "NISD_MUTATED_STORES";
/// Unix time of the requests in milliseconds: an hour into the chain.
const NOW: i64 = 1_427_587_585_000 + 3_600_000;
/// Number of accounts that everything is requested for.
const ACCOUNTS: usize = 6;

/// A store with the project's chain, and the requests to it.
struct Original {
    folder: TempDir,
    settings: Settings,
    /// The data file, and the durable meta record.
    data: Vec<u8>,
    durable_meta: Vec<u8>,
    requests: Vec<Vec<u8>>,
}

/// The answers of a store: bodies of responses with status 200, and its dump.
type Answers = (Vec<Option<Vec<u8>>>, Option<Vec<u8>>);

impl Original {
    fn new() -> Original {
        let folder = tempfile::tempdir().expect("a folder");
        let features = [("nis.optionalFeatures", "HISTORICAL_ACCOUNT_DATA")];
        let settings = load_settings(Some(&tiny("network.properties")), &features);
        let chain = Chain::tiny();
        let store = Store::open(folder.path(), &ChainIdentity::of(&settings.network), OPTIONS).expect("a store");
        let blocks = chain.blocks();
        // Several commits, so that pages of earlier ones exist.
        for part in blocks.chunks(10) {
            import_list(&store, &settings.network, &chain.nemesis, part);
        }
        store.durability().sync().expect("a disk");
        let requests = requests(&store);
        drop(store);
        let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
        Original { data: read("data.mdb"), durable_meta: read("settled"), settings, requests, folder }
    }

    /// Writes a data file into the folder.
    fn write_data(&self, data: &[u8]) {
        fs::write(self.folder.path().join("data.mdb"), data).expect("room");
        fs::write(self.folder.path().join("settled"), &self.durable_meta).expect("room");
    }

    /// Returns the responses of a node on the store, and its dump; `is_verified` lets a verification of the whole store,
    /// as a node makes it in the background, come first.
    fn answers(&self, is_verified: bool) -> Answers {
        let mut bodies = vec![None; self.requests.len()];
        let identity = ChainIdentity::of(&self.settings.network);
        let store = Store::open(self.folder.path(), &identity, OPTIONS).ok();
        if let Some(store) = store.as_ref().filter(|_| is_verified) {
            let (snapshot, mut position) = (store.snapshot().expect("a snapshot"), VerifyPosition::default());
            while !matches!(snapshot.verify_next(&mut position), Ok(None)) {}
        }
        if let Some(store) = &store
            && let Ok(mut node) = ReplayedNode::start(store, &self.settings, NOW, Duration::ZERO)
        {
            for (request, body) in self.requests.iter().zip(&mut bodies) {
                let response = node.request(request, &mut |_, _| None);
                *body = Some(response.body).filter(|_| response.status == 200);
            }
        }
        drop(store);
        (bodies, self.dump())
    }

    fn dump(&self) -> Option<Vec<u8>> {
        let (store, network) = Store::open_existing(self.folder.path(), AccessMode::Shared, OPTIONS).ok()?;
        let network = network_from_text(&network)?;
        let (snapshot, mut text) = (store.snapshot().ok()?, Vec::new());
        let tip = tip(&snapshot).ok()??;
        state::dump(&snapshot, &network, &tip, &mut text).ok()?;
        Some(text)
    }
}

/// Returns requests for everything whose wrong answer would matter: the chain, known and unknown accounts, names,
/// mosaics, transactions.
fn requests(store: &Store) -> Vec<Vec<u8>> {
    let snapshot = store.snapshot().expect("a snapshot");
    let mut accounts = Vec::new();
    state::for_each_account_after(&snapshot, None, |_, address, _| {
        accounts.push(address.to_string());
        Ok(true)
    })
    .expect("accounts");
    let step = accounts.len().div_ceil(ACCOUNTS);
    let mut paths: Vec<String> =
        ["/chain/height", "/chain/score", "/chain/last-block", "/namespace/root/page"].map(str::to_owned).to_vec();
    for address in accounts.iter().step_by(step).map(String::as_str).chain(["TALICELCD3XPH4FFI5STGGNSNSWPOTG5E4DS2TOS"])
    {
        for path in ["get", "transfers/all", "harvests", "mosaic/owned", "namespace/page", "mosaic/definition/page"] {
            paths.push(format!("/account/{path}?address={address}"));
        }
        paths.push(format!("/account/historical/get?address={address}&startHeight=1&endHeight=60&increment=20"));
    }
    let names = snapshot.keys_with_prefix(Table::Namespaces, &[]).expect("names");
    let names = names.iter().map(|name| String::from_utf8_lossy(name)).take(3);
    for name in names.chain(["nothing".into()]) {
        paths.push(format!("/namespace?namespace={name}"));
        paths.push(format!("/namespace/mosaic/definition/page?namespace={name}"));
    }
    let gets = paths.iter().map(|path| http::get(path));
    let posts = (1..=60).step_by(7).map(|height| http::post("/block/at/public", &format!("{{\"height\":{height}}}")));
    gets.chain(posts).map(String::into_bytes).collect()
}

/// Applies damage that a disk may cause; the same number causes the same damage.
fn mutate(data: &mut [u8], number: u64) -> String {
    let mut random = Random(number);
    let pages = data.len() / PAGE;
    let (a, b) = (random.below(pages), random.below(pages));
    let bytes = |page: usize| page * PAGE..(page + 1) * PAGE;
    match number % 5 {
        0 => {
            let bit = random.below(PAGE * 8);
            data[a * PAGE + bit / 8] ^= 1 << (bit % 8);
            format!("bit {bit} of page {a} flipped")
        }
        1 => {
            let (first, second) = (data[bytes(a)].to_vec(), data[bytes(b)].to_vec());
            data[bytes(a)].copy_from_slice(&second);
            data[bytes(b)].copy_from_slice(&first);
            format!("pages {a} and {b} swapped")
        }
        2 => {
            data.copy_within(bytes(b), a * PAGE);
            format!("page {b} copied over page {a}")
        }
        3 => {
            data[bytes(a)].fill(0);
            format!("page {a} zeroed")
        }
        _ => {
            // Several flips in the area of keys and values.
            for _ in 0..4 {
                let bit = random.below(PAGE * 8);
                data[a * PAGE + bit / 8] ^= 1 << (bit % 8);
            }
            format!("4 bits of page {a} flipped")
        }
    }
}

/// Checks stores in this process and prints how each ended.
fn check_stores(numbers: std::ops::Range<u64>) {
    let original = Original::new();
    original.write_data(&original.data);
    let expected = original.answers(false);
    assert!(expected.1.is_some(), "the store as it was has a dump");
    let answered = expected.0.iter().filter(|body| body.is_some()).count();
    assert!(answered * 10 > expected.0.len() * 7, "{answered} of {}", expected.0.len());
    for number in numbers {
        let mut data = original.data.clone();
        let damage = mutate(&mut data, number);
        println!("store {number} {damage}");
        original.write_data(&data);
        let wrong_in = |(bodies, dump): &Answers| {
            let differs = |(body, expected): (&Option<Vec<u8>>, &_)| body.is_some() && body != expected;
            let requests = original.requests.iter().zip(bodies.iter().zip(&expected.0));
            let wrong = requests.filter(|(_, bodies)| differs(*bodies)).map(|(request, _)| request.as_slice());
            let first_lines =
                wrong.map(|request| String::from_utf8_lossy(request).lines().next().unwrap_or("").to_owned());
            let dump = (dump.is_some() && *dump != expected.1).then(|| "dump".to_owned());
            first_lines.chain(dump).collect::<Vec<_>>()
        };
        let found = original.answers(false);
        let mut wrong = wrong_in(&found);
        let is_outdated = !wrong.is_empty();
        if is_outdated {
            wrong = wrong_in(&original.answers(true));
        }
        let (bodies, dump) = found;
        let refused =
            bodies.iter().zip(&expected.0).filter(|(got, expected)| got.is_none() && expected.is_some()).count();
        match (wrong.is_empty(), refused, dump.is_some()) {
            (false, ..) => println!("end wrong {number}: {damage}: {}", wrong.join(", ")),
            _ if is_outdated => println!("end outdated"),
            (true, 0, true) => println!("end unharmed"),
            (true, _, _) if refused == answered => println!("end refused"),
            _ => println!("end partly"),
        }
    }
}

/// Entry point of the checking process that the test below starts.
#[test]
fn worker() {
    let Ok(numbers) = std::env::var(WORKER) else { return };
    let (first, end) = numbers.split_once(' ').expect("two numbers");
    check_stores(first.parse().expect("a number")..end.parse().expect("a number"));
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_corrupt_store_gives_no_wrong_answer_and_no_wrong_dump() {
    let count = from_environment("MUTATIONS").unwrap_or(MUTATIONS);
    let first: u64 = from_environment("FIRST_MUTATION").unwrap_or(0);
    let (mut next, mut ends, mut wrong) = (first, BTreeMap::<String, u64>::new(), Vec::new());
    while next < first + count {
        let mut worker = Command::new(std::env::current_exe().expect("this program"))
            .args(["store::corrupt_stores::worker", "--exact", "--nocapture", "--test-threads=1"])
            .env(WORKER, format!("{next} {}", first + count))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(worker.stdout.take().expect("its output")).lines();
        let mut current = None;
        for line in lines {
            let line = line.expect("text");
            // The harness prints the name of the test on the same line as the first of these outputs.
            if let Some((_, end)) = line.split_once("end ") {
                let (kind, _) = end.split_once(' ').unwrap_or((end, ""));
                *ends.entry(kind.to_owned()).or_default() += 1;
                wrong.extend((kind == "wrong").then(|| end.to_owned()));
                current = None;
                next += 1;
            } else if let Some((_, damage)) = line.split_once("store ") {
                current = Some(damage.to_owned());
            }
        }
        let status = worker.wait().expect("its end");
        let Some(damage) = current else {
            assert!(status.success() && next == first + count, "{status} at {next}");
            break;
        };
        // A signal, or a failed assertion of LMDB; a panic is a bug of this program.
        assert!(std::os::unix::process::ExitStatusExt::signal(&status).is_some(), "{damage}: {status}");
        *ends.entry("crashed".to_owned()).or_default() += 1;
        if from_environment::<u8>("SHOW_CRASHES").is_some() {
            print_notice(&format!("{damage}: {status}"));
        }
        next += 1;
    }
    print_notice(&format!("{count} damaged stores: {ends:?}"));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ends.get("outdated").is_none_or(|outdated| outdated * 100 < count), "pages of earlier commits are rare");
    assert!(ends.get("unharmed").is_some_and(|unharmed| unharmed * 10 < count * 9), "damage that shows");
}
