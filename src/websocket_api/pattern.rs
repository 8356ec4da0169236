//! Destination patterns: `?` matches one character, `*` any characters within one path segment, `**` any number of
//! segments.

/// Returns whether a subscription destination is a pattern.
pub fn is_pattern(destination: &str) -> bool {
    destination.contains(['*', '?'])
}

/// Returns whether the concrete `topic` matches `pattern`; case-sensitive. A segment `**` also matches no segment, so
/// `/blocks/**` matches `/blocks`.
pub fn matches(pattern: &str, topic: &str) -> bool {
    let any_segments = |segment: &str| segment == "**";
    glob(pattern.split('/'), topic.split('/'), any_segments, matches_segment)
}

fn matches_segment(pattern: &str, segment: &str) -> bool {
    let one = |pattern, character| pattern == '?' || pattern == character;
    glob(pattern.chars(), segment.chars(), |c| c == '*', one)
}

/// Matches `pattern` item by item against all of `text`. Backtracking to the last wildcard suffices: whatever an
/// earlier one could match, the last one can too. The work is at most the product of the two lengths.
fn glob<P: Iterator + Clone, T: Iterator + Clone>(
    mut pattern: P,
    mut text: T,
    is_wildcard: impl Fn(P::Item) -> bool,
    is_match: impl Fn(P::Item, T::Item) -> bool,
) -> bool
where
    P::Item: Copy,
    T::Item: Copy,
{
    let mut last_wildcard: Option<(P, T)> = None;
    loop {
        let (mut next_pattern, mut next_text) = (pattern.clone(), text.clone());
        match (next_pattern.next(), next_text.next()) {
            (None, None) => return true,
            (Some(item), _) if is_wildcard(item) => {
                last_wildcard = Some((next_pattern.clone(), text.clone()));
                pattern = next_pattern;
            }
            (Some(item), Some(other)) if is_match(item, other) => {
                (pattern, text) = (next_pattern, next_text);
            }
            _ => {
                // The last wildcard must match one more item.
                let Some((after, rest)) = &mut last_wildcard else {
                    return false;
                };
                if rest.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), rest.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards_match_path_segments() {
        let cases = [
            ("/transactions/*", "/transactions/TA", true),
            ("/transactions/*", "/transactions", false),
            ("/transactions/*", "/transactions/TA/x", false),
            ("/account/**", "/account/mosaic/owned/TA", true),
            ("/account/**", "/account", true),
            ("/account/**/owned/*", "/account/mosaic/owned/TA", true),
            ("/account/**/owned/*", "/account/mosaic/owned/definition/TA", false),
            ("/account/**/**/TA", "/account/mosaic/owned/definition/TA", true),
            ("/blocks/*", "/blocks/new", true),
            ("/blocks/n?w", "/blocks/new", true),
            ("/blocks/n?w", "/blocks/nw", false),
            ("/blocks/n*w*", "/blocks/new", true),
            ("/blocks/*", "/Blocks/new", false),
            ("/blocks*", "/blocks", true),
            ("/blocks*", "/blocks/new", false),
            ("/**", "/errors", true),
            ("/account/*A*A*B", "/account/AAAAAAAB", true),
            ("/account/*A*A*B", "/account/AAAAAAAC", false),
        ];
        for (pattern, topic, expected) in cases {
            assert_eq!(matches(pattern, topic), expected, "{pattern} {topic}");
        }
    }

    #[test]
    fn a_pattern_is_a_destination_with_wildcards() {
        assert!(is_pattern("/blocks/*") && is_pattern("/block?"));
        assert!(!is_pattern("/blocks/new"));
    }

    /// Reference implementation that tries everything.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|n| slow(rest, &text[n..])),
            [first, rest @ ..] => match text {
                [byte, tail @ ..] => (*first == b'?' || first == byte) && slow(rest, tail),
                [] => false,
            },
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab?*]{0,8}", text in "[ab]{0,8}") {
            let expected = slow(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches_segment(&pattern, &text), expected);
        }
    }
}
