//! Fuzz target: query parameters of list routes.

use serde_json::Value;

use crate::interface;

/// Separates the records of an input: each is a byte that selects a list, and the parameters as text.
pub const SEPARATOR: u8 = 0xff;

/// An account of the chain with transactions, namespaces and mosaics.
const OWNER: &str = "TDJBL52U7T7OFQM7ZVVOZNDULZORAV672XP43BBM";
/// List routes, and whether they are paged.
const LISTS: [(&str, bool); 10] = [
    ("/account/transfers/all", true),
    ("/account/transfers/incoming", true),
    ("/account/transfers/outgoing", true),
    ("/namespace/root/page", true),
    ("/namespace/mosaic/definition/page", true),
    ("/mosaic/definition/page", true),
    ("/account/mosaic/definition/page", true),
    ("/account/namespace/page", true),
    ("/account/mosaic/owned", false),
    ("/account/mosaic/owned/definition", false),
];
/// Maximum entries of a page.
const MAX_PAGE: usize = 100;

/// Checks for any parameters: the response, which is the same for any size of the steps, is a client error or a list. A
/// list has at most the entries of a page, ids in descending order, and only ids below the given one.
pub fn check(data: &[u8]) -> usize {
    let records = data.split(|byte| *byte == SEPARATOR).filter_map(|record| record.split_first());
    records.filter(|(list, parameters)| is_listed(**list, parameters)).count()
}

/// Returns whether the response is a list.
fn is_listed(list: u8, parameters: &[u8]) -> bool {
    let (path, is_paged) = LISTS[usize::from(list) % LISTS.len()];
    let mut query = encoded(parameters);
    if !query.contains("address=") {
        query += &format!("&address={OWNER}");
    }
    let Some((status, body)) = interface::get(&format!("{path}?{query}")) else { return false };
    assert!(matches!(status, 200 | 400 | 404 | 500), "{status} for {path}?{query}");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    if status != 200 {
        assert_eq!(body["status"], status);
        return false;
    }
    let entries = body["data"].as_array().expect("a list");
    assert!(!is_paged || entries.len() <= MAX_PAGE, "{} entries for {path}?{query}", entries.len());
    let numbers: Vec<i64> = entries.iter().filter_map(|entry| entry["meta"]["id"].as_i64()).collect();
    assert!(numbers.is_sorted_by(|one, next| one > next), "{numbers:?} for {path}?{query}");
    if let (Some(first), Some(below)) = (numbers.first(), only_id(&query)) {
        assert!(*first < below, "{first} for {path}?{query}");
    }
    true
}

/// Escapes parameters as a client does.
fn encoded(parameters: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'=' | b'&' | b'.' | b'-' | b'_' | b':' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    parameters.iter().map(escape).collect()
}

/// Returns the parameter `id`, also spelled `Id`, if it is given once and is a number.
fn only_id(query: &str) -> Option<i64> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut given = pairs.filter(|(name, _)| matches!(*name, "id" | "Id"));
    let (first, second) = (given.next(), given.next());
    first.filter(|_| second.is_none()).and_then(|(_, text)| text.parse().ok())
}
