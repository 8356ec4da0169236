//! Compression of responses.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Shorter responses are not compressed: they fill one packet either way.
pub const GZIP_MIN_BYTES: usize = 1024;

/// Longer responses are not compressed: it would delay all other connections by several milliseconds.
pub const GZIP_MAX_BYTES: usize = 1024 * 1024;

/// Member header of RFC 1952: deflate, no name, no time, fastest level, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// Returns whether the `Accept-Encoding` headers with these values prefer gzip to plain (RFC 9110 §12.5.3). A malformed
/// quality counts as zero.
pub fn accepts_gzip<'a>(values: impl Iterator<Item = &'a str>) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for item in values.flat_map(|value| value.split(',')) {
        let mut parts = item.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let quality = parts.find_map(quality).unwrap_or(1.0);
        match coding {
            "*" => any = Some(quality),
            _ if coding.eq_ignore_ascii_case("gzip") => gzip = Some(quality),
            _ if coding.eq_ignore_ascii_case("x-gzip") => gzip = gzip.or(Some(quality)),
            _ if coding.eq_ignore_ascii_case("identity") => identity = Some(quality),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && gzip >= identity.unwrap_or(0.0)
}

/// Returns the value of a parameter `q=…`; `None` for another parameter.
fn quality(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let quality = value.trim().parse().unwrap_or(0.0_f32);
    Some(if (0.0..=1.0).contains(&quality) { quality } else { 0.0 })
}

/// A compressor reused for all responses.
#[derive(Default)]
pub struct Gzip {
    /// Some 300 KB, so created with the first response that needs it.
    deflate: Option<Box<Compress>>,
    output: Vec<u8>,
}

impl Gzip {
    /// Returns `body` as a gzip member, or `None` if that is not shorter.
    pub fn compress(&mut self, body: &[u8]) -> Option<&[u8]> {
        let fast = || Box::new(Compress::new(Compression::fast(), false));
        let deflate = self.deflate.get_or_insert_with(fast);
        deflate.reset();
        self.output.clear();
        self.output.reserve(body.len());
        self.output.extend_from_slice(&HEADER);
        // One call only: a result longer than the body is of no use.
        let status = deflate.compress_vec(body, &mut self.output, FlushCompress::Finish);
        if !matches!(status, Ok(Status::StreamEnd)) {
            return None;
        }
        let mut crc = Crc::new();
        crc.update(body);
        self.output.extend_from_slice(&crc.sum().to_le_bytes());
        self.output.extend_from_slice(&crc.amount().to_le_bytes());
        (self.output.len() < body.len()).then_some(&self.output)
    }
}

impl std::fmt::Debug for Gzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gzip").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_client_s_preference_is_followed() {
        for (values, expected) in [
            (&["gzip"][..], true),
            (&["deflate, GZip;q=0.5"], true),
            (&["deflate", "x-gzip"], true),
            (&["*"], true),
            (&["*;q=0.1"], true),
            (&["gzip;q=0, *"], false),
            (&["gzip; q=0.0"], false),
            (&["*;q=0"], false),
            (&["gzip;q=0.5, identity"], false),
            (&["gzip;q=0.5, identity;q=0.5"], true),
            (&["identity"], false),
            (&["br"], false),
            (&["gzip;q=banana"], false),
            (&["gzip;q=7"], false),
            (&["gzipped"], false),
            (&[""], false),
            (&[], false),
        ] {
            assert_eq!(accepts_gzip(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn one_compressor_serves_many_responses() {
        let mut gzip = Gzip::default();
        for size in [20_usize, 5_000, 300, 70_000] {
            let body: Vec<u8> = (0..size).map(|at| b'a' + (at % 7) as u8).collect();
            let Some(packed) = gzip.compress(&body) else {
                assert_eq!(size, 20);
                continue;
            };
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(packed);
            decoder.read_to_end(&mut plain).unwrap();
            assert_eq!(plain, body);
        }
    }

    #[test]
    fn a_body_that_does_not_shrink_is_not_compressed() {
        let mut state = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(4_000)
        .collect();
        assert!(Gzip::default().compress(&noise).is_none());
    }
}
