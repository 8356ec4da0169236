//! A request as a service sees it.

/// A complete request, borrowed from the receive buffer. Nothing is decoded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method as sent, case preserved.
    pub method: &'a str,
    /// Path as sent: percent-encoded, without the query; `/` if the target had none.
    pub path: &'a str,
    /// The part after the first `?`, as sent.
    pub query: Option<&'a str>,
    /// Body without its transfer coding.
    pub body: &'a [u8],
    /// The client wants the connection to stay open.
    pub keep_alive: bool,
    /// HTTP/1.0 rather than HTTP/1.1.
    pub is_http_10: bool,
    pub(in crate::net) header_lines: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns the first value of header `name` that is UTF-8; the case of the name does not matter.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.header_values(name).next()
    }

    /// Returns all values of header `name` in order; values that are not UTF-8 are skipped.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers()
            .filter(move |(header, _)| header.eq_ignore_ascii_case(name.as_bytes()))
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// Returns all headers in the order received: name as sent, value trimmed.
    pub fn headers(&self) -> Headers<'a> {
        Headers { lines: self.header_lines }
    }

    /// Returns whether a header `name` contains `token` in its comma-separated list, ignoring case.
    pub fn header_has_token(&self, name: &str, token: &str) -> bool {
        self.header_values(name).flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
    }
}

/// Iterator over the headers of a request.
///
/// The lines were validated with the head. Splitting them on demand is cheaper than a table that most requests do not
/// use.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    lines: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.lines.is_empty() {
                return None;
            }
            let end = self.lines.iter().position(|byte| *byte == b'\n');
            let (line, rest) = match end {
                Some(end) => (&self.lines[..end], &self.lines[end + 1..]),
                None => (self.lines, &[][..]),
            };
            self.lines = rest;
            if let Some(colon) = line.iter().position(|byte| *byte == b':') {
                return Some((&line[..colon], line[colon + 1..].trim_ascii()));
            }
        }
    }
}
