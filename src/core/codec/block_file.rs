//! Block files: for each block the length of its verifiable binary form as four little-endian bytes, then these bytes.
//! The whole file may be gzip-compressed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use crate::crypto::hash::keccak256_parts;
use crate::model::{Hash256, Height};

/// Maximum bytes of one block. The largest valid block of the default configuration takes less than a tenth of it.
pub const MAX_BLOCK_BYTES: usize = 16 << 20;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why a block file cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum BlockFileError {
    /// Reading or decompressing failed.
    #[error("{0}")]
    Io(io::Error),
    /// A length is not positive or exceeds [`MAX_BLOCK_BYTES`].
    #[error("{0} is not the length of a block; is this a file of blocks?")]
    Length(i32),
    /// The file ends inside a block, or inside its compressed form.
    #[error("the file ends inside a block; was it copied completely?")]
    Truncated,
    /// Why the file with this name cannot be read further.
    #[error("{0}: {1}")]
    Named(String, Box<BlockFileError>),
}

impl From<io::Error> for BlockFileError {
    fn from(error: io::Error) -> BlockFileError {
        if error.kind() == io::ErrorKind::UnexpectedEof { BlockFileError::Truncated } else { BlockFileError::Io(error) }
    }
}

/// Reads the blocks of one file.
pub struct BlockFile<'a> {
    /// Its name, for errors.
    name: Option<String>,
    input: Box<dyn Read + 'a>,
    consumed: Rc<Cell<u64>>,
    size: Option<u64>,
}

/// Counts the bytes read.
struct CountingReader<R> {
    input: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

impl<'a> BlockFile<'a> {
    /// Creates a reader of `input` from its start. The input may be compressed.
    pub fn new(input: impl Read + 'a) -> io::Result<BlockFile<'a>> {
        let consumed = Rc::default();
        let mut input = CountingReader { input, count: Rc::clone(&consumed) };
        // A pipe may deliver the first bytes one by one.
        let mut start = Vec::new();
        input.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start)?;
        let compressed = start == GZIP_MAGIC;
        let input = BufReader::new(io::Cursor::new(start).chain(input));
        let input: Box<dyn Read + 'a> =
            if compressed { Box::new(BufReader::new(MultiGzDecoder::new(input))) } else { Box::new(input) };
        Ok(BlockFile { name: None, input, consumed, size: None })
    }

    /// Sets the name of the file, which errors of [`BlockFiles`] show.
    pub fn with_name(self, name: String) -> BlockFile<'a> {
        BlockFile { name: Some(name), ..self }
    }

    /// Sets the size of the file in bytes, for [`BlockFile::progress`].
    pub fn with_size(self, bytes: u64) -> BlockFile<'a> {
        BlockFile { size: Some(bytes), ..self }
    }

    /// Returns the bytes of the file that were read, and its size if known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.consumed.get(), self.size)
    }

    /// Reads the bytes of the next block into `block`. Returns `false` at the end of the file.
    pub fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, BlockFileError> {
        block.clear();
        self.input.by_ref().take(4).read_to_end(block)?;
        let length = match (block.as_slice(), block.first_chunk()) {
            ([], _) => return Ok(false),
            (_, Some(length)) => i32::from_le_bytes(*length),
            _ => return Err(BlockFileError::Truncated),
        };
        let wanted = usize::try_from(length).ok().filter(|n| (1..=MAX_BLOCK_BYTES).contains(n));
        let wanted = wanted.ok_or(BlockFileError::Length(length))?;
        block.clear();
        // The buffer grows with the bytes present, not with the length claimed.
        self.input.by_ref().take(wanted as u64).read_to_end(block)?;
        if block.len() < wanted { Err(BlockFileError::Truncated) } else { Ok(true) }
    }
}

/// Reads the blocks of several files, one after another.
pub struct BlockFiles<'a> {
    /// The present file, and those after it.
    files: VecDeque<BlockFile<'a>>,
    /// Total size of all files, and the bytes of those already read to the end.
    size: Option<u64>,
    finished: u64,
}

impl<'a> BlockFiles<'a> {
    /// Creates a reader of the files in their order.
    pub fn new(files: Vec<BlockFile<'a>>) -> BlockFiles<'a> {
        let size = files.iter().map(|file| file.progress().1).sum();
        BlockFiles { files: files.into(), size, finished: 0 }
    }

    /// Returns the bytes read, and the total size if the size of every file is known.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let current = self.files.front().map_or(0, |file| file.progress().0);
        self.size.map(|size| (self.finished + current, size))
    }

    /// Reads the bytes of the next block into `block`. Returns `false` at the end of the last file.
    pub fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, BlockFileError> {
        while let Some(file) = self.files.front_mut() {
            let has_block = file.next(block).map_err(|error| match &file.name {
                Some(name) => BlockFileError::Named(name.clone(), Box::new(error)),
                None => error,
            })?;
            if has_block {
                return Ok(true);
            }
            self.finished += file.progress().0;
            self.files.pop_front();
        }
        Ok(false)
    }
}

/// Offsets of fields in the verifiable binary form of a block. Type, version, time stamp and signer come before the
/// signature and its length; the hash has two lengths before it.
const SIGNATURE: usize = 4 + 4 + 4 + (4 + 32);
const PREVIOUS_HASH: usize = SIGNATURE + (4 + 64);
const HEIGHT: usize = PREVIOUS_HASH + (4 + 4 + 32);

/// Returns the height of a block in its verifiable binary form, or `None` if there are too few bytes.
pub fn block_height(bytes: &[u8]) -> Option<Height> {
    let height = bytes.get(HEIGHT..)?.first_chunk()?;
    Some(Height(u64::from_le_bytes(*height)))
}

/// The fields that link a block to its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLinks {
    /// Hash of the block.
    pub hash: Hash256,
    /// Hash of its parent, as the block names it.
    pub previous_hash: Hash256,
    /// Height of the block.
    pub height: Height,
}

/// Returns the links of a block from its verifiable binary form as this program writes it, without reading its
/// transactions; `None` if the bytes do not have that form. The hash covers all bytes but the signature.
pub fn block_links(bytes: &[u8]) -> Option<BlockLinks> {
    let height = block_height(bytes)?;
    let length = |place: usize| bytes.get(place..)?.first_chunk().map(|length| u32::from_le_bytes(*length));
    if (length(SIGNATURE)?, length(PREVIOUS_HASH)?, length(PREVIOUS_HASH + 4)?) != (64, 36, 32) {
        return None;
    }
    let previous_hash = Hash256(*bytes.get(PREVIOUS_HASH + 8..)?.first_chunk()?);
    let hash = keccak256_parts(&[&bytes[..SIGNATURE], &bytes[PREVIOUS_HASH..]]);
    Some(BlockLinks { hash: Hash256(hash), previous_hash, height })
}

/// Appends a block to a block file.
pub fn write_block(out: &mut impl Write, block: &[u8]) -> io::Result<()> {
    out.write_all(&(block.len() as u32).to_le_bytes())?;
    out.write_all(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<Vec<u8>>, BlockFileError> {
        let mut file = BlockFile::new(bytes)?;
        let (mut blocks, mut block) = (Vec::new(), Vec::new());
        while file.next(&mut block)? {
            blocks.push(block.clone());
        }
        Ok(blocks)
    }

    #[test]
    fn blocks_round_trip_compressed_and_uncompressed() {
        let mut plain = Vec::new();
        write_block(&mut plain, b"first").unwrap();
        write_block(&mut plain, b"second").unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let expected = vec![b"first".to_vec(), b"second".to_vec()];
        assert_eq!(read_all(&plain).unwrap(), expected);
        assert_eq!(read_all(&gzip.finish().unwrap()).unwrap(), expected);
        assert!(read_all(b"").unwrap().is_empty());
    }

    /// Delivers one byte at a time.
    struct OneByteReader<'a>(&'a [u8]);

    impl Read for OneByteReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn a_compressed_file_that_comes_byte_by_byte_is_recognised() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        write_block(&mut gzip, b"block").unwrap();
        let gzip = gzip.finish().unwrap();
        let (mut file, mut block) = (BlockFile::new(OneByteReader(&gzip)).unwrap(), Vec::new());
        assert!(file.next(&mut block).unwrap());
        assert_eq!(block, b"block");
        assert!(!file.next(&mut block).unwrap());
    }

    #[test]
    fn a_cut_file_and_a_false_length_are_errors() {
        assert!(matches!(read_all(&[5, 0, 0, 0, 1]), Err(BlockFileError::Truncated)));
        assert!(matches!(read_all(&[5, 0]), Err(BlockFileError::Truncated)));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        write_block(&mut gzip, b"block").unwrap();
        let gzip = gzip.finish().unwrap();
        for length in 3..gzip.len() {
            assert!(matches!(read_all(&gzip[..length]), Err(BlockFileError::Truncated)), "{length}");
        }
        assert!(matches!(read_all(&[0xff; 8]), Err(BlockFileError::Length(-1))));
        assert!(matches!(read_all(&[0; 8]), Err(BlockFileError::Length(0))));
    }

    #[test]
    fn of_several_files_the_one_that_is_wrong_is_named() {
        let file = |name: &str, bytes| BlockFile::new(bytes).unwrap().with_name(name.to_owned());
        let mut files = BlockFiles::new(vec![file("a", &[1, 0, 0, 0, 7][..]), file("b", &[5, 0, 0, 0, 1])]);
        let mut block = Vec::new();
        assert!(files.next(&mut block).unwrap());
        let error = files.next(&mut block).unwrap_err().to_string();
        assert_eq!(error, "b: the file ends inside a block; was it copied completely?");
    }
}
