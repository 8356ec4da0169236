//! URLs: query parameters, forms of a path, and percent encoding.

use std::borrow::Cow;

use super::ApiError;
use crate::codec::text::repair_utf8;

/// Returns a query parameter; several values are joined with commas. The case of the name's first letter is ignored.
pub fn parameter<'a>(query: Option<&'a str>, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
    let mut value: Option<Cow<'a, str>> = None;
    for pair in query.unwrap_or_default().split('&') {
        let (key, text) = pair.split_once('=').unwrap_or((pair, ""));
        // A malformed escape fails the request, even in a parameter that is not used.
        let (key, text) = (decode(key)?, decode(text)?);
        if !is_same_name(&key, name) {
            continue;
        }
        match &mut value {
            None => value = Some(text),
            Some(earlier) => {
                let earlier = earlier.to_mut();
                earlier.push(',');
                earlier.push_str(&text);
            }
        }
    }
    Ok(value)
}

fn is_same_name(sent: &str, name: &str) -> bool {
    match (sent.split_at_checked(1), name.split_at_checked(1)) {
        (Some((first, rest)), Some((wanted_first, wanted_rest))) => {
            first.eq_ignore_ascii_case(wanted_first) && rest == wanted_rest
        }
        _ => false,
    }
}

/// Decodes a part of a query.
fn decode(text: &str) -> Result<Cow<'_, str>, ApiError> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = percent_decode(text, true).ok_or(ApiError::internal("400: Unable to parse URI query"))?;
    Ok(Cow::Owned(repair_utf8(&bytes).into_owned()))
}

/// A path that the web container rejects.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedPath;

/// Strips one trailing slash, which any path may have.
pub fn without_trailing_slash(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter,
    }
}

/// Collapses slashes, decodes escapes, strips path parameters and splits off the extension, which is returned without its
/// dot. Returns `None` if the path has none of these.
pub fn normalise(raw: &str) -> Result<Option<(String, Option<String>)>, MalformedPath> {
    if !raw.bytes().any(|byte| matches!(byte, b'%' | b';' | b'.')) && !raw.contains("//") {
        return Ok(None);
    }
    let decoded = decode_path(raw).filter(|decoded| !escapes_root(decoded)).ok_or(MalformedPath)?;
    let mut path = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        path.push_str(segment);
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = path[name..].rfind('.').map(|dot| name + dot);
    let extension = dot.map(|dot| path[dot + 1..].to_owned());
    path.truncate(dot.unwrap_or(path.len()));
    Ok(Some((path, extension)))
}

/// Decodes escapes and strips path parameters, which end with their segment.
fn decode_path(raw: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(raw.len());
    for (index, segment) in raw.split('/').enumerate() {
        if index > 0 {
            decoded.push(b'/');
        }
        let plain = segment.split(';').next().unwrap_or_default();
        // Escapes in parameters must be well-formed too.
        percent_decode(segment, false)?;
        decoded.extend(percent_decode(plain, false)?);
    }
    String::from_utf8(decoded).ok().filter(|path| !path.contains('\0'))
}

fn escapes_root(path: &str) -> bool {
    let mut depth = 0usize;
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// Decodes a percent-encoded text; `None` if an escape lacks its two digits.
fn percent_decode(text: &str, plus_is_blank: bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex_digit(bytes.next()?)? << 4 | hex_digit(bytes.next()?)?,
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_decoded_and_joined() {
        for (query, value) in [
            (None, None),
            (Some(""), None),
            (Some("address"), Some("")),
            (Some("address="), Some("")),
            (Some("address=T"), Some("T")),
            (Some("x=1&Address=T&y"), Some("T")),
            (Some("ADDRESS=T"), None),
            (Some("address=A&address=B"), Some("A,B")),
            (Some("address=%20a+b%C3%A9=c"), Some(" a bé=c")),
            (Some("%61ddress=%ff"), Some("\u{fffd}")),
        ] {
            assert_eq!(parameter(query, "address").unwrap().as_deref(), value, "{query:?}");
        }
    }

    #[test]
    fn a_malformed_escape_anywhere_fails() {
        for query in ["address=%", "address=%z1", "address=T&x=%1", "%=1"] {
            let failure = parameter(Some(query), "address").unwrap_err();
            assert_eq!(failure, ApiError::internal("400: Unable to parse URI query"), "{query}");
        }
    }
}

#[cfg(test)]
mod path_tests {
    use super::*;

    #[test]
    fn unusual_path_spellings_are_normalised() {
        for (raw, extension) in [
            ("//chain//height", None),
            ("/chain/height;a=b", None),
            ("/chain;x/height", None),
            ("/chain%2Fheight", None),
            ("/%63hain/height", None),
            ("/chain/height.json", Some("json")),
            ("/chain/height.foo", Some("foo")),
            ("//chain/height/", None),
        ] {
            let (path, found) = normalise(raw).unwrap().expect(raw);
            assert_eq!((path.as_str(), found.as_deref()), ("/chain/height", extension));
        }
        assert_eq!(normalise("/chain/height"), Ok(None));
        assert_eq!(without_trailing_slash("/chain/height/"), "/chain/height");
        assert_eq!(without_trailing_slash("/"), "/");
    }

    #[test]
    fn dots_are_not_resolved() {
        for raw in ["/chain/./height", "/chain/../chain/height", "/chain/height%20"] {
            let (path, _) = normalise(raw).unwrap().expect(raw);
            assert_ne!(path, "/chain/height", "{raw}");
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for raw in ["/../x", "/chain/%00", "/chain/height%", "/%ff", "/a/../../b", "/a;%zz"] {
            assert_eq!(normalise(raw), Err(MalformedPath), "{raw}");
        }
    }
}
