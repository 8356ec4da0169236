//! Suggests the key that an unknown key was meant to be.

use super::table;

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
