//! The dictionaries of the fuzzer name every setting and every route, and none that does not exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nisd::api::ROUTES;
use nisd::config::table;

/// Checks that those entries of a dictionary that satisfy `is_meant` are the expected ones.
#[track_caller]
fn assert_entries(name: &str, is_meant: impl Fn(&str) -> bool, expected: impl IntoIterator<Item = String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("dictionaries").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries = text.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    let found: BTreeSet<_> = entries.filter(|entry| is_meant(entry)).map(str::to_owned).collect();
    let expected: BTreeSet<_> = expected.into_iter().collect();
    let lines = |entries: Vec<&String>| entries.iter().map(|entry| format!("\"{entry}\"\n")).collect::<String>();
    let (missing, surplus) = (expected.difference(&found).collect(), found.difference(&expected).collect());
    let (missing, surplus) = (lines(missing), lines(surplus));
    assert!(found == expected, "{}: add\n{missing}and remove\n{surplus}", path.display());
}

#[test]
fn the_dictionary_of_the_configuration_names_every_setting() {
    let is_key = |entry: &str| ["nem.", "nis.", "nisd."].iter().any(|prefix| entry.starts_with(prefix));
    assert_entries("configuration.dict", is_key, table::keys().map(|key| format!("{}=", key.name)));
}

#[test]
fn the_dictionary_of_the_interface_names_every_route() {
    assert_entries("interface.dict", |entry| entry.starts_with('/'), ROUTES.iter().map(|route| route.path.to_owned()));
}
