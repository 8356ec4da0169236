//! Media types: the format that a client accepts, and the format that it sends.

use std::borrow::Cow;

pub use crate::codec::Format;

impl Format {
    fn of(kind: &str, subtype: &str) -> Option<Format> {
        if !kind.eq_ignore_ascii_case("application") {
            return None;
        }
        [Format::Json, Format::Binary].into_iter().find(|format| subtype.eq_ignore_ascii_case(format.subtype()))
    }

    fn subtype(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Binary => "binary",
        }
    }
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept<'a> {
    /// `None` if the client accepts neither format.
    pub format: Option<Format>,
    /// Charset that the client named; the response repeats it.
    pub charset: Option<&'a str>,
    /// `Content-Disposition` of the response, for a path with an unknown extension.
    pub disposition: Option<&'static str>,
}

impl<'a> Accept<'a> {
    /// JSON, the default.
    pub const JSON: Accept<'static> = Accept { format: Some(Format::Json), charset: None, disposition: None };
    const NONE: Accept<'static> = Accept { format: None, charset: None, disposition: None };

    /// Selects the format from an `Accept` header: highest quality first, then the most specific range, then order.
    pub fn by_accept(accept: Option<&'a str>) -> Accept<'a> {
        let accept = accept.unwrap_or_default();
        if accept.trim().is_empty() {
            return Accept::JSON;
        }
        let mut best: Option<(Range<'a>, Format)> = None;
        for text in accept.split(',') {
            let Some(range) = Range::parse(text) else { return Accept::NONE };
            let Some(format) = range.format else { continue };
            if best.is_none_or(|(best, _)| range.is_preferred_to(&best)) {
                best = Some((range, format));
            }
        }
        match best {
            Some((range, format)) => Accept { format: Some(format), charset: range.charset, disposition: None },
            None => Accept::NONE,
        }
    }

    /// Selects the format from the extension of a path, which replaces `Accept`.
    pub fn by_extension(extension: &str) -> Accept<'static> {
        const KNOWN: [&str; 21] = [
            "xml", "html", "htm", "txt", "css", "js", "csv", "png", "gif", "jpg", "jpeg", "svg", "ico", "bmp", "pdf",
            "zip", "gz", "tar", "bin", "mp3", "mp4",
        ];
        if extension == "json" {
            Accept::JSON
        } else if KNOWN.contains(&extension) {
            Accept::NONE
        } else {
            Accept { disposition: Some("inline;filename=f.txt"), ..Accept::JSON }
        }
    }

    /// Returns the `Content-Type` of the response.
    pub fn content_type(&self, format: Format) -> Cow<'static, str> {
        match self.charset {
            Some(charset) => format!("{};charset={}", format.media_type(), charset.to_ascii_lowercase()).into(),
            None => format.media_type().into(),
        }
    }
}

/// One element of an `Accept` header.
#[derive(Clone, Copy)]
struct Range<'a> {
    /// The first format that the range includes.
    format: Option<Format>,
    /// 2 for `type/subtype`, 1 for `type/*`, 0 for `*/*`.
    specificity: u8,
    /// From 0 to 1.
    quality: f64,
    charset: Option<&'a str>,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Range<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = match parts.next()? {
            "*" => ("*", "*"),
            name => name.split_once('/')?,
        };
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let (format, exactness) = match (kind, subtype) {
            ("*", "*") => (Some(Format::Json), 0),
            ("*", _) => return None,
            (kind, "*") => (kind.eq_ignore_ascii_case("application").then_some(Format::Json), 1),
            (kind, subtype) => (Format::of(kind, subtype), 2),
        };
        let mut range = Range { format, specificity: exactness, quality: 1.0, charset: None };
        for parameter in parts.filter(|part| !part.is_empty()) {
            range.parameter(parameter)?;
        }
        Some(range)
    }

    fn parameter(&mut self, text: &'a str) -> Option<()> {
        let Some((name, value)) = text.split_once('=') else { return Some(()) };
        if name.eq_ignore_ascii_case("q") {
            self.quality = value.parse().ok().filter(|quality| (0.0..=1.0).contains(quality))?;
        } else if name.eq_ignore_ascii_case("charset") {
            let charset = unquoted(value);
            self.charset = Some(is_charset(charset).then_some(charset)?);
        }
        Some(())
    }

    fn is_preferred_to(&self, other: &Range<'_>) -> bool {
        (self.quality, self.specificity) > (other.quality, other.specificity)
    }
}

/// Returns the format of a request body, or the error text for the client.
pub fn body_format(content_type: Option<&str>) -> Result<Format, Cow<'static, str>> {
    let content_type = match content_type {
        None | Some("") => return Err("Content type 'application/octet-stream' not supported".into()),
        Some("application/json") => return Ok(Format::Json),
        Some(other) => other,
    };
    let invalid = |problem: &str| Err(format!("Invalid mime type \"{content_type}\": {problem}").into());
    let mut parts = content_type.split(';').map(str::trim);
    let full = parts.next().unwrap_or_default();
    let Some((kind, subtype)) = full.split_once('/') else { return invalid("does not contain '/'") };
    if subtype.is_empty() {
        return invalid("does not contain subtype after '/'");
    }
    for parameter in parts {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        let charset = unquoted(value);
        if name.eq_ignore_ascii_case("charset") && !is_charset(charset) {
            return invalid(&format!("unsupported charset '{charset}'"));
        }
    }
    Format::of(kind, subtype).ok_or_else(|| format!("Content type '{content_type}' not supported").into())
}

/// Returns the media type of a bare text response: the one that the client accepts first, whatever it is.
pub fn text_type(accept: Option<&str>) -> Cow<'static, str> {
    match Accept::by_accept(accept.filter(|accept| accept.contains("application/"))) {
        Accept { format: Some(Format::Json), .. } if accept.is_some_and(|accept| accept.contains("json")) => {
            "application/json;charset=iso-8859-1".into()
        }
        Accept { format: Some(Format::Binary), .. } => "application/binary;charset=ISO-8859-1".into(),
        _ => "text/plain;charset=iso-8859-1".into(),
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Returns whether this names a common charset. Bodies are UTF-8 whatever the charset.
fn is_charset(name: &str) -> bool {
    const NAMES: &str = "utf-8 utf8 us-ascii ascii iso-8859-1 iso8859-1 iso-8859-15 latin1 utf-16 utf-16be utf-16le utf-32 \
         windows-1250 windows-1251 windows-1252 koi8-r gbk gb2312 gb18030 big5 shift_jis euc-jp";
    NAMES.split(' ').any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gets_the_format_it_prefers() {
        use Format::{Binary, Json};
        for (accept, format) in [
            ("", Some(Json)),
            ("*/*", Some(Json)),
            ("*", Some(Json)),
            ("application/*", Some(Json)),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(Json)),
            ("application/json, application/binary", Some(Json)),
            ("application/binary, application/json", Some(Binary)),
            ("application/json;q=0.5, application/binary", Some(Binary)),
            ("application/binary;q=0.5, application/json", Some(Json)),
            ("*/*, application/binary", Some(Binary)),
            ("Application/Binary", Some(Binary)),
            ("application/json;q=0", Some(Json)),
            ("text/html, application/json", Some(Json)),
            ("text/plain", None),
            ("image/*", None),
            ("garbage", None),
            ("application/json, garbage", None),
            ("*/json", None),
            ("application/json;q=2", None),
            ("application/json;charset=foo", None),
        ] {
            assert_eq!(Accept::by_accept(Some(accept)).format, format, "{accept}");
        }
        assert_eq!(Accept::by_accept(None), Accept::JSON);
    }

    #[test]
    fn a_charset_is_repeated_in_lower_case() {
        let wanted = Accept::by_accept(Some("application/json; charset=\"UTF-8\""));
        assert_eq!(wanted.content_type(Format::Json), "application/json;charset=utf-8");
    }

    #[test]
    fn an_unsupported_body_type_is_rejected_with_the_specified_text() {
        for (content_type, text) in [
            ("text/plain", "Content type 'text/plain' not supported"),
            ("garbage", "Invalid mime type \"garbage\": does not contain '/'"),
            (
                "application/json;charset=foo",
                "Invalid mime type \"application/json;charset=foo\": unsupported charset 'foo'",
            ),
        ] {
            assert_eq!(body_format(Some(content_type)), Err(text.into()));
        }
        assert_eq!(body_format(None), Err("Content type 'application/octet-stream' not supported".into()));
        for json in ["application/json", "APPLICATION/JSON", "application/json;charset=iso-8859-1"] {
            assert_eq!(body_format(Some(json)), Ok(Format::Json));
        }
        assert_eq!(body_format(Some("application/binary")), Ok(Format::Binary));
    }

    #[test]
    fn a_plain_text_response_has_the_accepted_media_type() {
        for (accept, expected) in [
            (None, "text/plain;charset=iso-8859-1"),
            (Some("*/*"), "text/plain;charset=iso-8859-1"),
            (Some("application/json"), "application/json;charset=iso-8859-1"),
            (Some("application/binary"), "application/binary;charset=ISO-8859-1"),
        ] {
            assert_eq!(text_type(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn a_path_extension_replaces_the_accept_header() {
        assert_eq!(Accept::by_extension("json"), Accept::JSON);
        assert_eq!(Accept::by_extension("xml").format, None);
        assert!(Accept::by_extension("foo").disposition.is_some());
    }
}
