//! Query parameters.

use std::borrow::Cow;

use super::error::ApiError;
use super::percent;
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
    let bytes = percent::decode(text, true).ok_or(ApiError::internal("400: Unable to parse URI query"))?;
    Ok(Cow::Owned(repair_utf8(&bytes).into_owned()))
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
