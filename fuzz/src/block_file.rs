//! Fuzz target: block files.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use nisd::codec::block_file::{BlockFile, BlockFileError, MAX_BLOCK_BYTES, write_block};

use crate::pieces::Pieces;

/// Bytes of blocks after which reading stops; a small compressed file may hold any number of them.
const ENOUGH_BYTES: usize = 2 * MAX_BLOCK_BYTES;

/// How reading a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    OfFile,
    Truncated,
    BadLength(i32),
    Damaged,
    Enough,
}

/// Checks for any file, compressed or not: the reader never holds more than one block of the allowed size. The blocks
/// are the same however reads are split, and whether the file is compressed; only a damaged compressed file may yield a
/// different number of them. A truncated file yields the first of its blocks. Writing the blocks reproduces the file.
pub fn check(data: &[u8]) -> usize {
    let pieces = Pieces::of(data);
    let file = pieces.bytes;
    let (blocks, end) = read_all(file);
    let (cut_blocks, cut_end) = read_all(Trickle::new(pieces));
    if end == End::Damaged || cut_end == End::Damaged {
        assert!(blocks.starts_with(&cut_blocks) || cut_blocks.starts_with(&blocks));
        assert!(end != End::OfFile && cut_end != End::OfFile, "damage is noticed");
    } else {
        assert_eq!((cut_blocks, cut_end), (blocks.clone(), end), "the sizes of reads must not matter");
    }

    let mut written = Vec::new();
    for block in &blocks {
        write_block(&mut written, block).expect("a vector takes everything");
    }
    assert_eq!(read_all(written.as_slice()).0, blocks);

    let is_plain = !file.starts_with(&[0x1f, 0x8b]);
    if is_plain {
        assert!(file.starts_with(&written));
        assert_eq!(end == End::OfFile, written == file);
        let compressed = compress(file);
        assert_eq!(read_all(compressed.as_slice()), (blocks.clone(), end));
        let cut = compressed.len() * usize::from(data.first().copied().unwrap_or_default()) / 256;
        let (first, _) = read_all(compressed.get(..cut).unwrap_or_default());
        assert!(blocks.starts_with(&first));
    }
    blocks.len()
}

fn read_all(input: impl Read) -> (Vec<Vec<u8>>, End) {
    let (mut blocks, mut block, mut total) = (Vec::new(), Vec::new(), 0);
    let Ok(mut file) = BlockFile::new(input) else { return (blocks, End::Damaged) };
    while total < ENOUGH_BYTES {
        let end = match file.next(&mut block) {
            Ok(true) => {
                assert!((1..=MAX_BLOCK_BYTES).contains(&block.len()));
                total += block.len();
                blocks.push(block.clone());
                None
            }
            Ok(false) => Some(End::OfFile),
            Err(BlockFileError::Truncated) => Some(End::Truncated),
            Err(BlockFileError::Length(length)) => Some(End::BadLength(length)),
            Err(BlockFileError::Io(_) | BlockFileError::Named(..)) => Some(End::Damaged),
        };
        assert!(block.capacity() <= 2 * MAX_BLOCK_BYTES, "{} bytes are held", block.capacity());
        if let Some(end) = end {
            return (blocks, end);
        }
    }
    (blocks, End::Enough)
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes everything")
}

/// A stream in pieces, like a pipe.
struct Trickle<'a> {
    pieces: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    piece: &'a [u8],
}

impl<'a> Trickle<'a> {
    fn new(pieces: Pieces<'a>) -> Trickle<'a> {
        Trickle { pieces: Box::new(pieces.iter()), piece: &[] }
    }
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.pieces.next().unwrap_or_default();
        }
        self.piece.read(buffer)
    }
}
