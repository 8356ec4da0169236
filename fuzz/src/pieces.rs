//! A byte stream, and how it is split.

/// Maximum bytes of one piece.
pub const MAX_PIECE: usize = 8192;

/// Maximum number of sizes in an input.
const MAX_SIZES: usize = 15;

/// A stream whose piece sizes are at the end of the fuzz input: the low half of the last byte is the number of size
/// bytes before it. The sizes are used in turn until the stream ends.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    /// The stream itself.
    pub bytes: &'a [u8],
    sizes: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// Splits a fuzz input.
    pub fn of(data: &'a [u8]) -> Pieces<'a> {
        let Some((last, rest)) = data.split_last() else {
            return Pieces { bytes: &[], sizes: &[] };
        };
        let count = usize::from(*last) & MAX_SIZES;
        let (bytes, sizes) = rest.split_at(rest.len().saturating_sub(count));
        Pieces { bytes, sizes }
    }

    /// Returns the pieces in order; without sizes, a single one.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        let mut sizes = self.sizes.iter().cycle();
        std::iter::from_fn(move || {
            let size = sizes.next().map_or(rest.len(), |size| piece_size(*size));
            let (piece, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// Returns a piece size: small ones individually, large ones in steps of 64.
fn piece_size(size: u8) -> usize {
    match size {
        0..128 => usize::from(size) + 1,
        128.. => (usize::from(size) - 127) * 64,
    }
}

/// Returns the fuzz input for `bytes` split into pieces of these sizes, each 1 to 128, in turn.
pub fn with_sizes(bytes: &[u8], sizes: &[u8]) -> Vec<u8> {
    assert!(sizes.len() <= MAX_SIZES && sizes.iter().all(|size| (1..=128).contains(size)));
    let sizes_as_read = sizes.iter().map(|size| size - 1);
    bytes.iter().copied().chain(sizes_as_read).chain([sizes.len() as u8]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_given_sizes_and_join_to_the_whole_stream() {
        let data = with_sizes(b"abcdefg", &[1, 3]);
        let pieces: Vec<_> = Pieces::of(&data).iter().collect();
        assert_eq!(pieces, [&b"a"[..], b"bcd", b"e", b"fg"]);
        assert_eq!(Pieces::of(b"abc\0").iter().collect::<Vec<_>>(), [b"abc"]);
        assert_eq!(Pieces::of(b"").iter().count() + Pieces::of(b"\x0f").iter().count(), 0);
        assert_eq!((piece_size(127), piece_size(128), piece_size(255)), (128, 64, MAX_PIECE));
    }
}
