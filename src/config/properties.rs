//! Parser of configuration files: Java properties, compatible with NIS1.

use std::path::Path;
use std::rc::Rc;
use std::str::Chars;

use zeroize::Zeroizing;

use super::reader::{Diagnostic, Origin, Override, redact_key};
use super::table;
use crate::codec::text::{text_of_file, without_byte_order_mark};

/// Largest configuration file in bytes; a larger one is not read.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Java's white space within a line.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Parses a file of settings: properties in UTF-8. An error if it sets nothing that this program or NIS1 knows: otherwise a
/// node with an empty file, a damaged one or that of another program would run on mainnet.
///
/// Returns its values in the order of the file, repeated keys included: escapes are resolved, white space at the end is kept.
/// `path` is the file for messages.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Override>, Diagnostic> {
    if looks_like_json(bytes) {
        let text = "this is JSON; a configuration file has a line KEY = VALUE for each setting";
        return Err(Diagnostic::error(1, text));
    }
    let properties = parse_lines(path, bytes)?;
    rejection(&properties).map_or(Ok(properties), Err)
}

/// Returns the error of a file that sets nothing, or nothing that is known.
pub(super) fn rejection(properties: &[Override]) -> Option<Diagnostic> {
    let Some(first) = properties.first() else {
        // As an editor leaves it for a moment, or a full disk for longer.
        return Some(Diagnostic::error(0, "it sets nothing; for mainnet write nem.network = mainnet"));
    };
    if properties.iter().any(|property| table::is_known(&property.key)) {
        return None;
    }
    let meant = table::suggest(&first.key).map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
    let key = redact_key(&first.key);
    let text = format!("{key}{meant} is not a setting, nor is any other key of this file; `nisd settings` lists all");
    Some(Diagnostic::error(first.origin.order().1, text))
}

/// Parses properties with any keys.
pub(super) fn parse_lines(path: &Path, bytes: &[u8]) -> Result<Vec<Override>, Diagnostic> {
    let text = text_of_file(bytes).map_err(|error| Diagnostic::error(0, error.to_string()))?;
    let path = Rc::from(path);
    // Lines end with LF, CR or CR LF; the LF after a CR stays in front of the next line.
    let mut before = '\0';
    let pieces = text.split(|c: char| {
        let ends = c == '\r' || c == '\n' && before != '\r';
        before = c;
        ends
    });
    let mut lines = (1..).zip(pieces.map(|line| line.strip_prefix('\n').unwrap_or(line)));
    let mut properties = Vec::new();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let logical = join_continued(line, &mut lines);
        if !logical.is_empty() {
            properties.push(split(&path, &logical, number)?);
        }
    }
    Ok(properties)
}

/// Appends the following lines while the line ends with an odd number of backslashes.
fn join_continued<'a>(first: &'a str, lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Zeroizing<String> {
    let mut pieces = vec![first];
    while let Some(last) = pieces.last_mut()
        && (last.len() - last.trim_end_matches('\\').len()) % 2 == 1
    {
        *last = &last[..last.len() - 1];
        pieces.extend(lines.next().map(|(_, line)| line.trim_start_matches(BLANKS)));
    }
    // It may hold a secret: it is not moved to grow, which would leave a copy in memory.
    Zeroizing::new(pieces.concat())
}

fn split(path: &Rc<Path>, logical: &str, line: usize) -> Result<Override, Diagnostic> {
    let mut escaped = false;
    let end_of_key = logical.find(|c: char| {
        let ends = !escaped && (c == '=' || c == ':' || BLANKS.contains(&c));
        escaped = !escaped && c == '\\';
        ends
    });
    let (key, rest) = logical.split_at(end_of_key.unwrap_or(logical.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(BLANKS);
    let at_line = |what| Diagnostic::error(line, what);
    let origin = Origin::File { path: path.clone(), line };
    Ok(Override { key: unescape(key).map_err(at_line)?.to_string(), value: unescape(value).map_err(at_line)?, origin })
}

fn unescape(text: &str) -> Result<Zeroizing<String>, &'static str> {
    let mut plain = Zeroizing::new(String::with_capacity(text.len()));
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        plain.push(match character {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => unicode(&mut rest)?,
                Some(other) => other,
                None => break,
            },
            other => other,
        });
    }
    Ok(plain)
}

/// Parses the character after the first `\u`; a character outside the basic plane is written as two units.
fn unicode(rest: &mut Chars<'_>) -> Result<char, &'static str> {
    const HALF: &str = "\\u names half of a surrogate pair without the other half";
    let mut units = vec![hex_unit(rest)?];
    if (0xd800..0xdc00).contains(&units[0]) && rest.next() == Some('\\') && rest.next() == Some('u') {
        units.push(hex_unit(rest)?);
    }
    char::decode_utf16(units).next().and_then(Result::ok).ok_or(HALF)
}

fn hex_unit(rest: &mut Chars<'_>) -> Result<u16, &'static str> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = rest.next().and_then(|c| c.to_digit(16));
        unit = unit << 4 | digit.ok_or("\\u must be followed by four hex digits")? as u16;
    }
    Ok(unit)
}

/// Returns whether a file is JSON rather than properties: its first character is a brace.
pub(super) fn looks_like_json(bytes: &[u8]) -> bool {
    without_byte_order_mark(bytes).trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Vec<Override>, Diagnostic> {
        super::parse_lines(Path::new("a"), bytes)
    }

    fn line(property: &Override) -> usize {
        property.origin.order().1
    }

    fn pairs(text: &[u8]) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().map(|p| (p.key, p.value.to_string())).collect()
    }

    fn one(text: &str) -> (String, String) {
        let mut all = pairs(text.as_bytes());
        assert_eq!(all.len(), 1, "{text}");
        all.remove(0)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn every_separator_works_and_only_the_first_counts() {
        for text in ["a=b", "a = b", "a:b", "a : b", "a b", " \t\u{c}a\tb", "a= b", "a   =   b"] {
            assert_eq!(one(text), pair("a", "b"), "{text}");
        }
        assert_eq!(one("a = = b"), pair("a", "= b"));
        assert_eq!(one("a b = c"), pair("a", "b = c"));
        assert_eq!(one("a"), pair("a", ""));
        assert_eq!(one("a ="), pair("a", ""));
        assert_eq!(one("= b"), pair("", "b"));
    }

    #[test]
    fn white_space_at_the_end_of_a_value_is_kept() {
        assert_eq!(one("a = 5 \t"), pair("a", "5 \t"));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_but_counted() {
        let read = parse(b"# one\n  ! two\n\n \t\r\na = 1\r# three\rb = 2 # no comment").unwrap();
        let lines: Vec<_> = read.iter().map(|p| (p.key.as_str(), p.value.as_str(), line(p))).collect();
        assert_eq!(lines, [("a", "1", 5), ("b", "2 # no comment", 7)]);
    }

    #[test]
    fn a_backslash_at_the_end_of_a_line_continues_it() {
        assert_eq!(one("a = x|\\\n    y|\\\r\n\tz"), pair("a", "x|y|z"));
        assert_eq!(one("a = x\\\\"), pair("a", "x\\"));
        assert_eq!(pairs(b"a = x\\\\\nb = y"), [pair("a", "x\\"), pair("b", "y")]);
        assert_eq!(one("a = x\\\n# y"), pair("a", "x# y"));
        assert_eq!(one("a = x\\"), pair("a", "x"));
        assert_eq!(pairs(b"\\\n\nb = y"), [pair("b", "y")]);
        assert_eq!(line(&parse(b"a = x\\\ny\nb = z").unwrap()[1]), 3);
    }

    #[test]
    fn escapes_are_resolved_in_keys_and_values() {
        assert_eq!(one(r"a\ b\:c\=d = \t\n\r\f\\\q"), pair("a b:c=d", "\t\n\r\u{c}\\q"));
        assert_eq!(one(r"a = \u00e4\u20AC"), pair("a", "ä€"));
        assert_eq!(one(r"a = \ud83d\ude00!"), pair("a", "😀!"));
        assert_eq!(one(r"a = \  b"), pair("a", "  b"));
    }

    #[test]
    fn a_broken_escape_is_named_with_its_line() {
        for text in [r"a = \u12", r"a = \u12g4", r"a = \u", r"\u+123 = a", r"a = \uuu0041"] {
            let error = parse(format!("# comment\n{text}").as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "line 2: \\u must be followed by four hex digits", "{text}");
        }
        for text in [r"a = \ud83d", r"a = \ud83dx", r"a = \ude00", r"a = \ud83d\u0041"] {
            assert!(parse(text.as_bytes()).unwrap_err().to_string().contains("surrogate"), "{text}");
        }
    }

    #[test]
    fn only_utf8_is_read() {
        assert_eq!(pairs("a = ä".as_bytes()), [pair("a", "ä")]);
        assert_eq!(pairs(b"\xef\xbb\xbfa = b"), [pair("a", "b")]);
        let error = parse(b"a = b\nc = \xe4").unwrap_err();
        assert_eq!(error.to_string(), "line 2 is not UTF-8 text; save the file as UTF-8");
        let utf16: Vec<u8> = "\u{feff}nem.network = testnet".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(parse(&utf16).unwrap_err().to_string().contains("UTF-16"));
    }

    #[test]
    fn a_file_that_sets_nothing_or_nothing_known_is_rejected() {
        let read = |text: &str| super::parse(Path::new("a"), text.as_bytes());
        for text in ["a = 1\nnem.network = testnet", "a = 1\nnem.maxThreads = 7"] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in ["", "\u{feff}", " \n\n", "# only a comment\n! nem.network = testnet\n", "\\\n\n"] {
            assert_eq!(
                read(text).unwrap_err().text,
                "it sets nothing; for mainnet write nem.network = mainnet",
                "{text:?}"
            );
        }
        let error = read("# x\nnem.netwrok = testnet\nb = 1").unwrap_err().to_string();
        assert!(error.starts_with("line 2: nem.netwrok (did you mean nem.network?) is not a setting"), "{error}");
        assert!(!read(&"c0ffee".repeat(9)).unwrap_err().to_string().contains("c0ffee"));
        assert!(read("[{\"endpoint\": 1}]").is_err());
    }

    #[test]
    fn debug_output_does_not_show_values() {
        let shown = format!("{:?}", parse(b"nis.bootKey = c0ffee").unwrap());
        assert!(shown.contains("nis.bootKey") && !shown.contains("c0ffee"), "{shown}");
    }

    fn escape(text: &str) -> String {
        let unit = |c: char| {
            let mut buffer = [0; 2];
            c.encode_utf16(&mut buffer).iter().map(|u| format!("\\u{u:04x}")).collect::<String>()
        };
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { unit(c) }).collect()
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_give_no_more_properties_than_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(properties) = parse(&bytes) {
                prop_assert!(properties.len() <= bytes.len());
            }
        }

        #[test]
        fn special_characters_do_not_panic_the_parser(text in r"[a\\u0d8=: \n\r#!\t]{0,60}") {
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn an_escaped_pair_is_read_back(key in any::<String>(), value in any::<String>()) {
            let text = format!("k{} = {}", escape(&key), escape(&value));
            prop_assert_eq!(one(&text), (format!("k{key}"), value));
        }
    }

    #[test]
    fn json_is_recognised_by_its_first_character() {
        assert!(looks_like_json(b"\xef\xbb\xbf \r\n{"));
        assert!(!looks_like_json(b"# {"));
        assert!(!looks_like_json(b""));
        let json = super::parse(Path::new("a"), b"{\"nem.network\": \"mainnet\"}");
        assert!(json.unwrap_err().text.contains("KEY = VALUE"));
    }
}
