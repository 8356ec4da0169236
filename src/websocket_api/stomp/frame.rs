//! A received STOMP frame: a view into the decoder's buffer.

use std::borrow::Cow;

/// A STOMP command; the names are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the word of the same name
pub enum Command {
    Stomp,
    Connect,
    Disconnect,
    Subscribe,
    Unsubscribe,
    Send,
    Ack,
    Nack,
    Begin,
    Commit,
    Abort,
    Connected,
    Receipt,
    Message,
    Error,
}

impl Command {
    const ALL: [(&'static str, Command); 15] = [
        ("STOMP", Command::Stomp),
        ("CONNECT", Command::Connect),
        ("DISCONNECT", Command::Disconnect),
        ("SUBSCRIBE", Command::Subscribe),
        ("UNSUBSCRIBE", Command::Unsubscribe),
        ("SEND", Command::Send),
        ("ACK", Command::Ack),
        ("NACK", Command::Nack),
        ("BEGIN", Command::Begin),
        ("COMMIT", Command::Commit),
        ("ABORT", Command::Abort),
        ("CONNECTED", Command::Connected),
        ("RECEIPT", Command::Receipt),
        ("MESSAGE", Command::Message),
        ("ERROR", Command::Error),
    ];

    /// Returns the command that a whole command line spells, if it is one.
    pub fn from_line(line: &[u8]) -> Option<Command> {
        let found = Self::ALL.iter().find(|(name, _)| name.as_bytes() == line);
        found.map(|&(_, command)| command)
    }

    /// The command's name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|&&(_, command)| command == self);
        found.map_or("", |&(name, _)| name)
    }

    /// Returns whether a frame with this command may have a non-empty body.
    pub fn allows_body(self) -> bool {
        matches!(self, Command::Send | Command::Message | Command::Error)
    }
}

/// One complete inbound frame. Headers are stored as received and unescaped on access, so that a frame needs no
/// allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub(super) command: Command,
    /// The header lines with their line ends, already checked by the decoder.
    pub(super) head: &'a [u8],
    pub(super) body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The command.
    pub fn command(&self) -> Command {
        self.command
    }

    /// The body without the closing NUL; empty for commands without a body.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Returns all headers in order, unescaped, repeated ones included. Bytes that are not UTF-8 become U+FFFD.
    pub fn headers(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        self.lines().map(|(name, value)| (unescape(name), unescape(value)))
    }

    /// Returns the first value of the header `name`, unescaped. `name` must not contain characters that are escaped on
    /// the wire; no STOMP header name does.
    pub fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        self.lines().find(|&(raw, _)| raw == name.as_bytes()).map(|(_, value)| unescape(value))
    }

    /// Returns the first values of several headers, in one pass.
    pub fn pick<const N: usize>(&self, names: [&str; N]) -> [Option<Cow<'a, str>>; N] {
        let mut found = [None; N];
        for (raw, value) in self.lines() {
            for (name, place) in names.iter().zip(&mut found) {
                if place.is_none() && raw == name.as_bytes() {
                    *place = Some(value);
                }
            }
        }
        found.map(|value| value.map(unescape))
    }

    /// Bytes of headers and body.
    pub fn size(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn lines(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.head.split(|&byte| byte == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            split_header(line)
        })
    }
}

/// Splits a header line at its first `:`; `None` without one or with an empty name.
pub(super) fn split_header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, rest) = line.split_at_checked(colon)?;
    match rest {
        [b':', value @ ..] if !name.is_empty() => Some((name, value)),
        _ => None,
    }
}

/// Returns the position of the first backslash that does not start a known escape.
pub(super) fn first_bad_escape(text: &[u8]) -> Option<usize> {
    let mut bytes = text.iter().enumerate();
    while let Some((index, &byte)) = bytes.next() {
        if byte == b'\\' && !matches!(bytes.next(), Some((_, b'n' | b'r' | b'c' | b'\\'))) {
            return Some(index);
        }
    }
    None
}

/// Replaces `\n`, `\r`, `\c` and `\\`; the decoder has already rejected every other escape.
fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(raw);
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('c') => ':',
                _ => '\\',
            },
            other => other,
        });
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_round_trips_through_its_name() {
        for (name, command) in Command::ALL {
            assert_eq!(Command::from_line(name.as_bytes()), Some(command));
            assert_eq!(command.name(), name);
        }
        for line in ["send", "SEND ", " SEND", "", "SENDX"] {
            assert_eq!(Command::from_line(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn the_first_value_of_a_repeated_header_wins() {
        let frame = Frame { command: Command::Send, head: b"a:1\r\nb:x\\cy\\nz\\r\\\\\na:2\n", body: b"" };
        assert_eq!(frame.header("a").as_deref(), Some("1"));
        assert_eq!(frame.header("b").as_deref(), Some("x:y\nz\r\\"));
        assert_eq!(frame.header("c"), None);
        let picked = frame.pick(["b", "c", "a"]).map(|value| value.map(Cow::into_owned));
        assert_eq!(picked, [Some("x:y\nz\r\\".to_owned()), None, Some("1".to_owned())]);
        assert_eq!(frame.headers().count(), 3);
    }

    #[test]
    fn the_value_keeps_its_blanks_and_further_colons() {
        assert_eq!(split_header(b"a: b:c "), Some((&b"a"[..], &b" b:c "[..])));
        assert_eq!(split_header(b":x"), None);
        assert_eq!(split_header(b"x"), None);
        assert_eq!(split_header(b"x:"), Some((&b"x"[..], &b""[..])));
    }

    #[test]
    fn a_bad_or_trailing_escape_is_found_at_its_backslash() {
        assert_eq!(first_bad_escape(b"\\n\\r\\c\\\\"), None);
        assert_eq!(first_bad_escape(b"ab\\x"), Some(2));
        assert_eq!(first_bad_escape(b"\\\\\\"), Some(2));
        assert_eq!(first_bad_escape(b"\\"), Some(0));
    }

    #[test]
    fn bytes_that_are_not_utf8_become_replacement_characters() {
        assert_eq!(unescape(b"a\xffb\\c"), "a\u{fffd}b:");
    }
}
