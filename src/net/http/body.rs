//! The body of a message, found behind its head, and decoded in place if it has the chunked transfer coding (RFC 9112
//! §7.1).
//!
//! Lines of chunks must end in CR LF: accepting a bare LF inside a chunked body allows request smuggling.

use super::HttpError;

/// Bytes of one chunk-size line with its extensions; more is a 400.
const SIZE_LINE_LIMIT: usize = 256;

/// Bytes of the extensions of all chunks of a body, which are ignored; more is a 400.
const EXTENSIONS_LIMIT: usize = 16 * 1024;

/// Bytes of all trailer lines together, which are ignored; more is a 431.
const TRAILER_LIMIT: usize = 4096;

const BAD_CHUNK: HttpError = HttpError::Malformed("Bad Chunk");

/// How the end of a body is found.
#[derive(Clone, Debug)]
pub(in crate::net) enum Body {
    /// It has this many bytes.
    Sized(usize),
    Chunked(ChunkedBody),
    /// It ends with the connection.
    UntilClosed,
}

/// How much of a body has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Extent {
    /// Bytes of the body so far, from the first one on.
    pub length: usize,
    /// Bytes used. Those from `length` on are garbage, which must be removed before the next call.
    pub used: usize,
    pub is_complete: bool,
}

impl Body {
    /// Decodes as much as possible of `bytes`: the body so far, followed by new bytes.
    pub fn advance(&mut self, bytes: &mut [u8], limit: usize) -> Result<Extent, HttpError> {
        let plain = |length| Extent { length, used: length, is_complete: false };
        match self {
            Body::Sized(length) if bytes.len() >= *length => Ok(Extent { is_complete: true, ..plain(*length) }),
            Body::Sized(_) => Ok(plain(bytes.len())),
            Body::Chunked(chunked) => chunked.advance(bytes, limit),
            Body::UntilClosed if bytes.len() > limit => Err(HttpError::BodyTooLarge),
            Body::UntilClosed => Ok(plain(bytes.len())),
        }
    }

    /// Takes the bytes of the body that have arrived out of `bytes`, which holds them and then undecoded ones. A body
    /// that is read piece by piece may be longer than the limit.
    pub fn take_decoded(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        match self {
            Body::Sized(left) => *left = left.saturating_sub(bytes.len()),
            Body::Chunked(chunked) => {
                let undecoded = bytes.split_off(std::mem::take(&mut chunked.decoded).min(bytes.len()));
                return std::mem::replace(bytes, undecoded);
            }
            Body::UntilClosed => {}
        }
        std::mem::take(bytes)
    }

    /// Returns the number of chunks read since the last call.
    pub fn take_chunks(&mut self) -> u32 {
        match self {
            Body::Chunked(chunked) => std::mem::take(&mut chunked.chunks),
            Body::Sized(_) | Body::UntilClosed => 0,
        }
    }
}

/// State of the decoder of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    SizeLine,
    Data {
        left: usize,
    },
    DataEnd,
    Trailers {
        seen: usize,
    },
    Done,
}

/// A chunked body being decoded.
#[derive(Clone, Debug, Default)]
pub(in crate::net) struct ChunkedBody {
    decoded: usize,
    /// Chunks since the last count.
    chunks: u32,
    /// Bytes of extensions so far.
    extensions: usize,
    phase: Phase,
}

impl ChunkedBody {
    fn advance(&mut self, bytes: &mut [u8], limit: usize) -> Result<Extent, HttpError> {
        let mut at = self.decoded;
        while let Some(next) = self.step(bytes, at, limit)? {
            at = next;
        }
        Ok(Extent { length: self.decoded, used: at, is_complete: self.phase == Phase::Done })
    }

    /// Decodes one element at offset `at`. Returns the offset behind it, or `None` for lack of bytes.
    fn step(&mut self, bytes: &mut [u8], at: usize, body_limit: usize) -> Result<Option<usize>, HttpError> {
        match self.phase {
            Phase::SizeLine => {
                let Some(line) = line_at(bytes, at, SIZE_LINE_LIMIT, BAD_CHUNK)? else {
                    return Ok(None);
                };
                let (size, extension) = chunk_size(line).ok_or(BAD_CHUNK)?;
                let next = at + line.len() + 2;
                self.chunks = self.chunks.saturating_add(1);
                self.extensions += extension;
                if self.extensions > EXTENSIONS_LIMIT {
                    return Err(BAD_CHUNK);
                }
                if size > body_limit.saturating_sub(self.decoded) {
                    return Err(HttpError::BodyTooLarge);
                }
                self.phase = match size {
                    0 => Phase::Trailers { seen: 0 },
                    left => Phase::Data { left },
                };
                Ok(Some(next))
            }
            Phase::Data { left } => {
                let taken = left.min(bytes.len() - at);
                if taken == 0 {
                    return Ok(None);
                }
                bytes.copy_within(at..at + taken, self.decoded);
                self.decoded += taken;
                self.phase = match left - taken {
                    0 => Phase::DataEnd,
                    left => Phase::Data { left },
                };
                Ok(Some(at + taken))
            }
            Phase::DataEnd => match &bytes[at..] {
                [b'\r', b'\n', ..] => {
                    self.phase = Phase::SizeLine;
                    Ok(Some(at + 2))
                }
                [] | [b'\r'] => Ok(None),
                _ => Err(BAD_CHUNK),
            },
            Phase::Trailers { seen } => {
                let limit = TRAILER_LIMIT.saturating_sub(seen);
                let Some(line) = line_at(bytes, at, limit, HttpError::HeadersTooLarge)? else {
                    return Ok(None);
                };
                self.phase = match line {
                    [] => Phase::Done,
                    [b' ' | b'\t', ..] => return Err(BAD_CHUNK),
                    line if !line.contains(&b':') => return Err(BAD_CHUNK),
                    line => Phase::Trailers { seen: seen + line.len() + 2 },
                };
                Ok(Some(at + line.len() + 2))
            }
            Phase::Done => Ok(None),
        }
    }
}

/// Returns the line at offset `at` without its CR LF; `None` if it is incomplete.
fn line_at(bytes: &[u8], at: usize, limit: usize, too_long: HttpError) -> Result<Option<&[u8]>, HttpError> {
    let rest = &bytes[at..];
    let window = &rest[..rest.len().min(limit.saturating_add(2))];
    match window.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > 0 && window[end - 1] == b'\r' => {
            let line = &window[..end - 1];
            if line.contains(&b'\r') {
                return Err(BAD_CHUNK);
            }
            Ok(Some(line))
        }
        Some(_) => Err(BAD_CHUNK),
        None if window.len() < limit.saturating_add(2) => Ok(None),
        None => Err(too_long),
    }
}

/// Parses a chunk-size line: hex digits, then nothing or an extension. Returns the size and the bytes of the extension.
fn chunk_size(line: &[u8]) -> Option<(usize, usize)> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = &line[..digits.count()];
    let extension = line[digits.len()..].trim_ascii_start();
    if !(extension.is_empty() || extension[0] == b';') {
        return None;
    }
    let text = std::str::from_utf8(digits).ok()?;
    if text.is_empty() {
        return None;
    }
    // A number that does not fit exceeds any limit.
    Some((usize::from_str_radix(text, 16).unwrap_or(usize::MAX), line.len() - digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str, limit: usize) -> Result<(String, usize, bool), HttpError> {
        let mut bytes = text.as_bytes().to_vec();
        let Extent { length, used, is_complete } = Body::Chunked(ChunkedBody::default()).advance(&mut bytes, limit)?;
        let decoded = String::from_utf8(bytes[..length].to_vec()).unwrap();
        Ok((decoded, used, is_complete))
    }

    #[test]
    fn chunks_with_extensions_and_trailers_give_the_body() {
        let text = "3;a=b\r\nabc\r\n00002 ;x=\"y\"\r\nde\r\n0;last\r\nX-Sum: 1\r\n\r\nNEXT";
        let (body, used, done) = decode(text, 10).unwrap();
        assert_eq!((body.as_str(), done), ("abcde", true));
        assert_eq!(&text[used..], "NEXT");
    }

    #[test]
    fn invalid_chunked_coding_is_rejected() {
        for text in [
            "3\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            "3 4\r\n",
            "3;a\rb\r\n",
            "0\r\n X: folded\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(decode(text, 10).unwrap_err().status(), 400, "{text:?}");
        }
    }

    #[test]
    fn chunked_bodies_keep_every_limit() {
        assert_eq!(decode("b\r\n", 10).unwrap_err(), HttpError::BodyTooLarge, "before the data");
        assert_eq!(decode("6\r\nabcdef\r\n5\r\n", 10).unwrap_err(), HttpError::BodyTooLarge);
        assert_eq!(decode("fffffffffffffffffffff\r\n", 10).unwrap_err(), HttpError::BodyTooLarge);
        let long = format!("1;{}", "x".repeat(SIZE_LINE_LIMIT + 10));
        assert_eq!(decode(&long, 10).unwrap_err(), BAD_CHUNK);
        let chunks = |count| format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "x".repeat(127)).repeat(count));
        assert!(decode(&chunks(EXTENSIONS_LIMIT / 128), 1000).is_ok());
        assert_eq!(decode(&chunks(EXTENSIONS_LIMIT / 128 + 1), 1000).unwrap_err(), BAD_CHUNK);
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(TRAILER_LIMIT));
        assert_eq!(decode(&trailers, 10).unwrap_err(), HttpError::HeadersTooLarge);
    }
}
