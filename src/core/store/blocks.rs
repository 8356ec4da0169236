//! Stored blocks.
//!
//! A stored block consists of its fields and data on it, its transactions in their verifiable binary form, and an index of
//! them. What the rest of the chain tells is left out: the height, and the hash of the parent, which is stored with the
//! parent. Everything but the transactions shares a checksum, and each transaction has its own, so that a reader reads and
//! verifies only what it needs of a block of possibly several megabytes.
//!
//! A row holds one or more consecutive blocks; its key is the height of the last one. A new block gets a row of its own.
//! Blocks that no rollback reaches are packed into rows of many blocks: LMDB stores a long row in whole pages, and a row of
//! one block would leave half a page empty.

use super::checksums::checksum;
use super::{Entry, Read, Result, StoreError, Table, Write};
use crate::codec::block::{COUNT_BYTES, EncodedTransactions, HEAD_BYTES};
use crate::codec::transaction::stored_transaction_hash;
use crate::codec::{ByteReader, Context, SigningForm, write_varint};
use crate::crypto::{PublicKey, Signature};
use crate::model::{Address, Amount, Block, BlockKind, Hash256, Height, Timestamp, Transaction};

/// The header of a stored block: data on the block in addition to the block itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredHeader {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
    /// Generation hash of the block.
    pub generation_hash: Hash256,
    /// Time stamp of the block.
    pub timestamp: Timestamp,
    /// Difficulty of the block.
    pub difficulty: u64,
    /// Score of the chain up to and including the block.
    pub score: i128,
    /// Fees of all its transactions.
    pub total_fee: Amount,
    /// The account credited with the block, if that is not its signer.
    pub beneficiary: Option<Address>,
    /// Id of its first transaction, and the first id after its last one.
    pub ids: (u64, u64),
    /// Heights of the last blocks before it that were signed by or credited to its signer, and to its beneficiary; 0 if
    /// there is none.
    pub previous_harvests: [Height; 2],
}

/// Bytes of a chain score: more than any chain needs.
const SCORE_BYTES: usize = 12;
/// Bytes of an index entry: offset of the transaction's length among the transactions, and the transaction's checksum.
const ENTRY_BYTES: usize = 4 + 4;
/// Bytes before all others: the checksum of everything but the transactions. At the end it would make the checksum of the
/// whole row the same for all blocks: that is the nature of a CRC.
const SUM_BYTES: usize = 4;
/// Bytes at the end of a row: the number of its blocks after the first one. Before it are the offsets of these blocks.
const MORE_BYTES: usize = 2;
/// Bytes of the offset of a block in its row.
const OFFSET_BYTES: usize = 4;
/// Bytes of blocks from which on they are packed.
const PACKED_BYTES: usize = 64 << 10;
/// Heights from one attempt to pack blocks to the next.
const PACK_EVERY: u64 = 16;

impl StoredHeader {
    /// Returns the row of the block alone.
    pub fn to_bytes(&self, block: &Block, transactions: &EncodedTransactions) -> Vec<u8> {
        let key = block_key(self.height);
        let EncodedTransactions { bytes, starts } = transactions;
        let transactions = &bytes[COUNT_BYTES..];
        let mut out = Vec::with_capacity(256 + transactions.len() + starts.len() * ENTRY_BYTES);
        out.extend_from_slice(&[0; SUM_BYTES]);
        out.extend_from_slice(&self.hash.0);
        out.extend_from_slice(&self.generation_hash.0);
        out.extend_from_slice(&block.signature.as_ref().map_or([0; 64], |signature| signature.0));
        out.extend_from_slice(&block.signer.0);
        out.push(block.kind.code() as u8);
        out.extend_from_slice(&block.version.to_le_bytes());
        out.extend_from_slice(&self.timestamp.0.to_le_bytes());
        out.extend_from_slice(&self.difficulty.to_le_bytes());
        out.extend_from_slice(&self.score.to_le_bytes()[..SCORE_BYTES]);
        write_varint(&mut out, self.total_fee.0);
        write_varint(&mut out, self.ids.0);
        write_varint(&mut out, self.ids.1 - self.ids.0);
        let nis1_transactions = block.transactions.iter().map(|transaction| transaction.self_and_children().count());
        write_varint(&mut out, nis1_transactions.sum::<usize>() as u64);
        write_varint(&mut out, starts.len() as u64);
        // Differences of the heights; 0 if there was no harvest.
        let [of_signer, of_beneficiary] = self.previous_harvests.map(|height| match height {
            Height(0) => 0,
            Height(before) => self.height.0 - before,
        });
        write_varint(&mut out, of_signer);
        match &self.beneficiary {
            // No beneficiary.
            None => out.push(0),
            Some(beneficiary) => {
                write_varint(&mut out, of_beneficiary + 1);
                out.extend_from_slice(&beneficiary.to_raw());
            }
        }
        let (head, index) = (out.len(), out.len() + transactions.len());
        out.extend_from_slice(transactions);
        let ends = starts.iter().skip(1).copied().chain([transactions.len()]);
        for (start, end) in starts.iter().zip(ends) {
            out.extend_from_slice(&(*start as u32).to_le_bytes());
            out.extend_from_slice(&checksum(Table::Blocks, &key, &[&transactions[*start..end]]).to_le_bytes());
        }
        let sum = checksum(Table::Blocks, &key, &[&out[SUM_BYTES..head], &out[index..]]);
        out[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; MORE_BYTES]);
        out
    }
}

/// A stored block. Everything but the transactions is verified when it is opened, each transaction when it is read.
#[derive(Clone, Copy, Debug)]
pub struct BlockRow<'a> {
    /// The header.
    pub header: StoredHeader,
    /// Signature of the block.
    pub signature: Signature,
    signer: PublicKey,
    kind: BlockKind,
    version: i32,
    /// Number of transactions as NIS1 counts them: a multisig transaction counts with its inner transaction and its
    /// cosignatures.
    pub nis1_transaction_count: u64,
    transactions: &'a [u8],
    entries: &'a [[u8; ENTRY_BYTES]],
}

impl<'a> BlockRow<'a> {
    /// Opens the block at a height from its bytes.
    pub(super) fn open(height: Height, bytes: &'a [u8]) -> Result<BlockRow<'a>> {
        BlockRow::parse(height, bytes).ok_or_else(|| corrupt(height))
    }

    /// Splits a stored block, and compares everything but the transactions with its checksum.
    fn parse(height: Height, bytes: &'a [u8]) -> Option<BlockRow<'a>> {
        let (sum, rest) = bytes.split_first_chunk::<SUM_BYTES>()?;
        let mut input = ByteReader(rest);
        let (hash, generation_hash) = (Hash256(input.array()?), Hash256(input.array()?));
        let (signature, signer) = (Signature(input.array()?), PublicKey(input.array()?));
        let [kind] = input.array()?;
        let version = i32::from_le_bytes(input.array()?);
        let timestamp = Timestamp(i32::from_le_bytes(input.array()?));
        let difficulty = u64::from_le_bytes(input.array()?);
        let score = read_score(input.array()?);
        let total_fee = Amount(input.varint()?);
        let first_id = input.varint()?;
        let ids = (first_id, first_id.checked_add(input.varint()?)?);
        let (nis1_transaction_count, count) = (input.varint()?, usize::try_from(input.varint()?).ok()?);
        let before = |back: u64| if back == 0 { Some(Height(0)) } else { height.0.checked_sub(back).map(Height) };
        let of_signer = before(input.varint()?)?;
        let (of_beneficiary, beneficiary) = match input.varint()? {
            0 => (Height(0), None),
            back => (before(back - 1)?, Some(Address::from_raw(&input.array()?))),
        };
        let (transactions, entries) =
            input.0.split_at_checked(input.0.len().checked_sub(count.checked_mul(ENTRY_BYTES)?)?)?;
        let head = &rest[..rest.len() - input.0.len()];
        let is_valid = checksum(Table::Blocks, &block_key(height), &[head, entries]) == u32::from_le_bytes(*sum);
        is_valid.then_some(())?;
        let previous_harvests = [of_signer, of_beneficiary];
        let header = StoredHeader {
            height,
            hash,
            generation_hash,
            timestamp,
            difficulty,
            score,
            total_fee,
            beneficiary,
            ids,
            previous_harvests,
        };
        let kind = BlockKind::from_code((kind as i8).into())?;
        let entries = entries.as_chunks().0;
        Some(BlockRow { header, signature, signer, kind, version, nis1_transaction_count, transactions, entries })
    }

    /// Returns the number of transactions.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the block without its transactions; `parent` is the hash of the block before it.
    pub fn block_head(&self, parent: Hash256) -> Block {
        Block {
            kind: self.kind,
            version: self.version,
            timestamp: self.header.timestamp,
            signer: self.signer,
            signature: Some(self.signature),
            previous_hash: parent.into(),
            height: self.header.height,
            transactions: Vec::new(),
        }
    }

    /// Returns the length of the block's verifiable binary form in bytes.
    pub fn bytes(&self) -> usize {
        HEAD_BYTES + self.transactions.len()
    }

    /// Returns the length of the transactions in their verifiable binary form, with their lengths, in bytes.
    pub fn transaction_bytes(&self) -> usize {
        self.transactions.len()
    }

    /// Returns the transaction with an index; `None` if there is none.
    pub fn transaction(&self, index: usize) -> Result<Option<StoredTransaction<'a>>> {
        let Some(entry) = self.entries.get(index) else { return Ok(None) };
        let [_, _, _, _, sum @ ..] = *entry;
        let bytes = self.transactions.get(self.start(index)..self.start(index + 1));
        let height = self.header.height;
        let key = block_key(height);
        let bytes = bytes.filter(|bytes| checksum(Table::Blocks, &key, &[bytes]) == u32::from_le_bytes(sum));
        let (_, bytes) = bytes.and_then(|bytes| bytes.split_first_chunk::<4>()).ok_or_else(|| corrupt(height))?;
        Ok(Some(StoredTransaction { bytes }))
    }

    /// Returns the transactions.
    pub fn transactions(self) -> impl Iterator<Item = Result<StoredTransaction<'a>>> {
        (0..self.count()).filter_map(move |index| self.transaction(index).transpose())
    }

    /// Appends the block in its verifiable binary form, after verifying all its transactions; `parent` is the hash of the
    /// block before it.
    pub(super) fn append_bytes(&self, parent: Hash256, out: &mut Vec<u8>) -> Result<()> {
        self.transactions().try_for_each(|transaction| transaction.map(drop))?;
        self.block_head(parent).append_bytes((self.count(), self.transactions), out);
        Ok(())
    }

    /// Returns the offset of a transaction, or the end of the last one.
    fn start(&self, index: usize) -> usize {
        let start = |entry: &[u8; ENTRY_BYTES]| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
        self.entries.get(index).map_or(self.transactions.len(), start)
    }
}

fn read_score(bytes: [u8; SCORE_BYTES]) -> i128 {
    let mut wide = [if bytes[SCORE_BYTES - 1] & 0x80 == 0 { 0 } else { 0xFF }; 16];
    wide[..SCORE_BYTES].copy_from_slice(&bytes);
    i128::from_le_bytes(wide)
}

/// A transaction of a stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTransaction<'a> {
    /// Its verifiable binary form.
    pub bytes: &'a [u8],
}

impl StoredTransaction<'_> {
    /// Decodes the transaction.
    pub fn read(&self) -> Result<Transaction> {
        // Not `map_err`, which would copy the long transaction once more.
        match Transaction::from_bytes(self.bytes, SigningForm::Verifiable, Context::trusted_store()) {
            Ok(transaction) => Ok(transaction),
            Err(_) => Err(StoreError::Damaged("a block")),
        }
    }

    /// Returns the hash of `transaction`, which was decoded from these bytes.
    pub fn hash(&self, transaction: &Transaction) -> Hash256 {
        stored_transaction_hash(self.bytes).unwrap_or_else(|| transaction.hash())
    }
}

fn corrupt(height: Height) -> StoreError {
    StoreError::Corrupt { table: Table::Blocks, key: block_key(height).to_vec() }
}

/// Returns the key of a block.
pub fn block_key(height: Height) -> [u8; 8] {
    height.0.to_be_bytes()
}

/// Returns the bytes of the block at a height from a row with its key; `None` if the block is not in that row.
pub(super) fn block_in<'a>(key: &[u8], row: &'a [u8], height: Height) -> Result<Option<&'a [u8]>> {
    let Some(back) = last_of(key)?.0.checked_sub(height.0) else { return Ok(None) };
    let (rest, more) = row.split_last_chunk::<MORE_BYTES>().ok_or_else(|| corrupt(height))?;
    let more = usize::from(u16::from_le_bytes(*more));
    let Some(index) = usize::try_from(back).ok().and_then(|back| more.checked_sub(back)) else { return Ok(None) };
    let find = || {
        let (blocks, offsets) = rest.split_at_checked(rest.len().checked_sub(more * OFFSET_BYTES)?)?;
        let (offsets, _) = offsets.as_chunks::<OFFSET_BYTES>();
        let offset = |index: usize| offsets.get(index).map(|offset| u32::from_le_bytes(*offset) as usize);
        let start = if index == 0 { 0 } else { offset(index - 1)? };
        blocks.get(start..offset(index).unwrap_or(blocks.len()))
    };
    find().map(Some).ok_or_else(|| corrupt(height))
}

/// Returns the height that a key consists of. Any other key is [`StoreError::Damaged`] with `what`.
pub fn height_of_key(key: &[u8], what: &'static str) -> Result<Height> {
    key.try_into().map(|height| Height(u64::from_be_bytes(height))).map_err(|_| StoreError::Damaged(what))
}

/// Returns the height of the last block of a row.
fn last_of(key: &[u8]) -> Result<Height> {
    height_of_key(key, "a block's key")
}

/// Returns the block at a height as it is stored.
pub fn block_row(state: &(impl Read + ?Sized), height: Height) -> Result<Option<BlockRow<'_>>> {
    state.block_bytes(height)?.map(|bytes| BlockRow::open(height, bytes)).transpose()
}

/// Returns the key of the first of the rows that end with the block at `last` and are still to be packed, and the bytes of
/// these rows. What was there at the last attempt, `PACK_EVERY` heights ago, was packed but for a few short blocks at its
/// end. So a long row of that time ends the walk, which is short however many such rows there are.
fn unpacked_rows(state: &impl Read, last: Height) -> Result<(Option<Vec<u8>>, usize)> {
    let (mut cursor, mut first, mut bytes) = (state.cursor(Table::Blocks)?, None, 0);
    let seen = block_key(Height(last.0.saturating_sub(PACK_EVERY)));
    let is_unpacked = |(key, value): &Entry<'_>| {
        value.ends_with(&[0; MORE_BYTES]) && (value.len() < PACKED_BYTES || *key > seen.as_slice())
    };
    let mut row = cursor.seek(&block_key(last))?;
    while let Some((key, value)) = row.filter(is_unpacked) {
        (first, bytes) = (Some(key.to_vec()), bytes + value.len());
        row = cursor.previous()?;
    }
    Ok((first, bytes))
}

/// Packs blocks up to `last`, which no rollback reaches, once there are enough of them. Rows become at least
/// `PACKED_BYTES` long and less than twice as long, unless a block is longer.
pub fn pack_blocks(txn: &mut impl Write, last: Height) -> Result<()> {
    if !last.0.is_multiple_of(PACK_EVERY) {
        return Ok(());
    }
    let (first, bytes) = unpacked_rows(txn, last)?;
    let Some(first) = first.filter(|_| bytes >= PACKED_BYTES) else { return Ok(()) };
    let mut cursor = txn.cursor(Table::Blocks)?;
    let mut packed = Vec::new();
    let mut row = cursor.seek(&first)?;
    while let Some((key, value)) = row.filter(|(key, _)| *key <= block_key(last).as_slice()) {
        packed.push((last_of(key)?, value[..value.len() - MORE_BYTES].to_vec()));
        row = cursor.next()?;
    }
    drop(cursor);
    let mut blocks = packed.into_iter();
    while let Some((first, mut row)) = blocks.next() {
        let (mut offsets, mut end) = (Vec::new(), first);
        while row.len() < PACKED_BYTES
            && let Some((height, block)) = blocks.next()
        {
            offsets.push(row.len() as u32);
            row.extend_from_slice(&block);
            end = height;
        }
        if row.len() < PACKED_BYTES || offsets.is_empty() {
            continue;
        }
        offsets.iter().for_each(|offset| row.extend_from_slice(&offset.to_le_bytes()));
        row.extend_from_slice(&(offsets.len() as u16).to_le_bytes());
        txn.delete_range_unjournaled(Table::Blocks, &block_key(first), &block_key(Height(end.0 - 1)))?;
        txn.put_unjournaled(Table::Blocks, &block_key(end), &row)?;
    }
    Ok(())
}

/// Returns the header of the block at a height.
pub fn stored_header(state: &impl Read, height: Height) -> Result<Option<StoredHeader>> {
    Ok(block_row(state, height)?.map(|row| row.header))
}

/// Returns the hash of the parent of the block at a height; that of the nemesis block is zero.
pub fn parent_hash(state: &impl Read, height: Height) -> Result<Hash256> {
    if height <= Height::NEMESIS {
        return Ok(Hash256::default());
    }
    let parent = block_row(state, Height(height.0 - 1))?;
    parent.map(|parent| parent.header.hash).ok_or(StoreError::Damaged("the parent of a block is missing"))
}

/// Replaces `out` by the verifiable binary form of the block at a height. Returns whether there is one.
pub fn read_block_bytes(state: &impl Read, height: Height, out: &mut Vec<u8>) -> Result<bool> {
    out.clear();
    let Some(row) = block_row(state, height)? else { return Ok(false) };
    row.append_bytes(parent_hash(state, height)?, out)?;
    Ok(true)
}

/// Returns header and block at a height.
pub fn stored_block(state: &impl Read, height: Height) -> Result<Option<(StoredHeader, Block)>> {
    let Some(row) = block_row(state, height)? else { return Ok(None) };
    let mut block = row.block_head(parent_hash(state, height)?);
    block.transactions.reserve_exact(row.count());
    for transaction in row.transactions() {
        block.transactions.push(transaction?.read()?);
    }
    Ok(Some((row.header, block)))
}

/// Returns the header of the last block; `None` if there is none.
pub fn tip(state: &impl Read) -> Result<Option<StoredHeader>> {
    let Some((key, row)) = state.cursor(Table::Blocks)?.last()? else { return Ok(None) };
    let last = last_of(key)?;
    let bytes = block_in(key, row, last)?.ok_or_else(|| corrupt(last))?;
    Ok(Some(BlockRow::open(last, bytes)?.header))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::network::NAMESPACE_SINK;
    use crate::model::transaction::{Transfer, wire_version};
    use crate::model::{Body, NetworkByte};
    use crate::store::{ChainIdentity, Options, Store, WriteTxn, test_store};

    const BYTE: NetworkByte = NetworkByte::TESTNET;
    /// Hash of the parent of a block of these tests.
    const PARENT: Hash256 = Hash256([7; 32]);

    fn transfer(amount: u64) -> Transaction {
        let recipient = Address::from_public_key(&NAMESPACE_SINK, BYTE);
        Transaction {
            version: wire_version(BYTE, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([3; 32]),
            signature: Some(Signature([4; 64])),
            fee: Amount(1),
            deadline: Timestamp(2),
            body: Body::Transfer(Transfer { recipient, amount: Amount(amount), message: None, mosaics: Vec::new() }),
        }
    }

    /// Returns a block at a height with transactions, and its header.
    pub fn block(height: Height, transactions: usize) -> (StoredHeader, Block) {
        let header = StoredHeader {
            height,
            hash: Hash256([1; 32]),
            generation_hash: Hash256([2; 32]),
            timestamp: Timestamp(5),
            difficulty: 6,
            score: 7,
            total_fee: Amount(8),
            beneficiary: None,
            ids: (1, 1 + transactions as u64),
            previous_harvests: [Height(0); 2],
        };
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(BYTE, 1),
            timestamp: Timestamp(5),
            signer: PublicKey([9; 32]),
            signature: Some(Signature([8; 64])),
            previous_hash: PARENT.into(),
            height,
            transactions: (0..transactions as u64).map(transfer).collect(),
        };
        (header, block)
    }

    /// Opens the block at a height in a row of one block.
    fn open(height: Height, row: &[u8]) -> Result<BlockRow<'_>, StoreError> {
        block_in(&block_key(height), row, height)?.map_or(Err(corrupt(height)), |bytes| BlockRow::open(height, bytes))
    }

    /// Stores a block of a height with its parent. Returns its row.
    fn stored(txn: &mut crate::store::WriteTxn<'_>, header: &StoredHeader, block: &Block) -> Vec<u8> {
        let parent = Height(header.height.0 - 1);
        let (mut before, empty) = self::block(parent, 0);
        before.hash = PARENT;
        txn.put_unjournaled(Table::Blocks, &block_key(parent), &before.to_bytes(&empty, &empty.encode_transactions()))
            .unwrap();
        let row = header.to_bytes(block, &block.encode_transactions());
        txn.put_unjournaled(Table::Blocks, &block_key(header.height), &row).unwrap();
        row
    }

    #[test]
    fn a_block_row_returns_the_block_its_transactions_and_its_header() {
        let (store, _folder) = test_store();
        for count in [0, 1, 5] {
            let (header, block) = block(Height(7), count);
            let mut batch = store.begin_write().unwrap();
            let bytes = stored(&mut batch, &header, &block);
            let row = open(header.height, &bytes).unwrap();
            assert_eq!(row.header, header);
            let (mut read, whole) = (Vec::new(), block.to_bytes(SigningForm::Verifiable));
            assert!(read_block_bytes(&batch, header.height, &mut read).unwrap());
            assert_eq!((&read, row.bytes()), (&whole, whole.len()));
            assert_eq!(row.transaction_bytes(), whole.len() - HEAD_BYTES);
            let read = stored_block(&batch, header.height).unwrap();
            assert_eq!(read, Some((header, block.clone())));
            assert_eq!((row.count(), row.nis1_transaction_count), (count, count as u64));
            for (index, transaction) in block.transactions.iter().enumerate() {
                let stored = row.transaction(index).unwrap().expect("a transaction");
                assert_eq!(stored.bytes, transaction.to_bytes(SigningForm::Verifiable));
            }
            assert_eq!(row.transaction(count).unwrap(), None);
            assert_eq!(row.transactions().count(), count);
            assert!(open(Height(8), &bytes).is_err());
        }
    }

    #[test]
    fn different_blocks_at_a_height_have_different_checksums() {
        let row_checksum = |hash: u8| {
            let (mut header, block) = block(Height(7), 0);
            header.hash = Hash256([hash; 32]);
            checksum(Table::Blocks, &block_key(Height(7)), &[&header.to_bytes(&block, &block.encode_transactions())])
        };
        let different: std::collections::BTreeSet<u32> = (0..=255).map(row_checksum).collect();
        assert_eq!(different.len(), 256);
    }

    #[test]
    fn an_empty_block_of_a_delegated_harvester_takes_few_bytes() {
        let (mut header, block) = block(Height(5_600_000), 0);
        header.beneficiary = Some(Address::from_public_key(&NAMESPACE_SINK, BYTE));
        header.previous_harvests = [Height(5_599_000); 2];
        header.ids = (30_000_000, 30_000_000);
        header.score = 1 << 72;
        assert!(
            header.to_bytes(&block, &block.encode_transactions()).len() <= 235,
            "{}",
            header.to_bytes(&block, &block.encode_transactions()).len()
        );
    }

    #[test]
    fn blocks_are_found_and_counted_alike_before_and_after_they_are_packed() {
        const LAST: u64 = 1_000;
        let folder = tempfile::tempdir().unwrap();
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let store = Store::open(folder.path(), &identity, Options { map_size: 1 << 26 }).unwrap();
        let mut batch = store.begin_write().unwrap();
        let stored = |height: u64| {
            // Some are longer than a packed row, most are empty.
            let (mut header, block) = block(Height(height), [0, 0, 3, 0, 40, 0, 0, 400][height as usize * 7 % 97 % 8]);
            header.hash = Hash256([height as u8; 32]);
            (header, block)
        };
        let pack_at = |batch: &mut WriteTxn<'_>, height: u64| pack_blocks(batch, Height(height)).unwrap();
        for height in 1..=LAST {
            let (header, block) = stored(height);
            batch
                .put_unjournaled(
                    Table::Blocks,
                    &block_key(header.height),
                    &header.to_bytes(&block, &block.encode_transactions()),
                )
                .unwrap();
            pack_at(&mut batch, height.saturating_sub(100));
        }
        let rows = batch.keys_with_prefix(Table::Blocks, &[]).unwrap();
        assert!(rows.len() < 300, "{}", rows.len());
        for height in LAST - 99..=LAST {
            assert!(rows.contains(&block_key(Height(height)).to_vec()), "{height} can be undone");
        }
        batch.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        let mut before = Hash256::default();
        for height in 1..=LAST {
            let (header, mut block) = stored(height);
            block.previous_hash = before.into();
            before = header.hash;
            let found = stored_block(&snapshot, header.height).unwrap();
            assert_eq!(found, Some((header, block)), "{height}");
        }
        assert_eq!(tip(&snapshot).unwrap().map(|tip| tip.height), Some(Height(LAST)));
        assert!(block_row(&snapshot, Height(0)).unwrap().is_none());
        assert!(block_row(&snapshot, Height(LAST + 1)).unwrap().is_none());
        snapshot.verify_all().unwrap();
        // Packing again changes nothing.
        drop(snapshot);
        let mut batch = store.begin_write().unwrap();
        (0..LAST - 100).for_each(|height| pack_at(&mut batch, height));
        assert_eq!(batch.keys_with_prefix(Table::Blocks, &[]).unwrap(), rows);
    }

    #[test]
    fn many_long_blocks_are_not_walked_again_and_short_ones_behind_them_are_packed() {
        let folder = tempfile::tempdir().unwrap();
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let store = Store::open(folder.path(), &identity, Options { map_size: 1 << 26 }).unwrap();
        let mut batch = store.begin_write().unwrap();
        let (long, short, mut longest) = (64, 320, 0);
        for height in 1..=long + short {
            let (header, block) = block(Height(height), if height <= long { 400 } else { 1 });
            let row = header.to_bytes(&block, &block.encode_transactions());
            assert_eq!(row.len() >= PACKED_BYTES, height <= long);
            batch.put_unjournaled(Table::Blocks, &block_key(header.height), &row).unwrap();
            let (_, bytes) = unpacked_rows(&batch, header.height).unwrap();
            // The rows since the last attempt, and a few short ones before.
            longest = row.len().max(longest);
            assert!(bytes < PACKED_BYTES + PACK_EVERY as usize * longest, "{height}: {bytes}");
            pack_blocks(&mut batch, header.height).unwrap();
        }
        let rows = batch.keys_with_prefix(Table::Blocks, &[]).unwrap().len() as u64;
        assert!(rows < long + short, "{rows}");
        assert!((1..=long + short).all(|height| block_row(&batch, Height(height)).unwrap().is_some()));
    }

    #[test]
    fn a_block_whose_parent_is_missing_is_not_returned() {
        let (store, _folder) = test_store();
        let (header, block) = block(Height(7), 1);
        let mut batch = store.begin_write().unwrap();
        batch
            .put_unjournaled(
                Table::Blocks,
                &block_key(header.height),
                &header.to_bytes(&block, &block.encode_transactions()),
            )
            .unwrap();
        let read = read_block_bytes(&batch, header.height, &mut Vec::new());
        assert!(matches!(read, Err(StoreError::Damaged(_))));
        assert!(!read_block_bytes(&batch, Height(8), &mut Vec::new()).unwrap());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_header_is_returned_as_it_was_stored(
            numbers in any::<(u64, u64, u32, i32)>(),
            score in -(1i128 << 95)..1 << 95,
            previous in any::<[bool; 2]>(),
            has_beneficiary: bool,
        ) {
            let (mut header, block) = block(Height(1_000), 2);
            let (difficulty, fee, first, time) = numbers;
            (header.difficulty, header.total_fee, header.timestamp) = (difficulty, Amount(fee), Timestamp(time));
            header.ids = (first.into(), u64::from(first) + 5);
            header.score = score;
            header.previous_harvests = [Height(if previous[0] { 999 } else { 0 }), Height(0)];
            if has_beneficiary {
                header.beneficiary = Some(Address::from_public_key(&PublicKey([5; 32]), BYTE));
                header.previous_harvests[1] = Height(if previous[1] { 1 } else { 0 });
            }
            let bytes = header.to_bytes(&block, &block.encode_transactions());
            prop_assert_eq!(open(header.height, &bytes).unwrap().header, header);
        }

        #[test]
        fn a_flipped_bit_is_detected_when_its_part_is_read(count in 0usize..4, place: prop::sample::Index) {
            let (header, block) = block(Height(7), count);
            let mut bytes = header.to_bytes(&block, &block.encode_transactions());
            let EncodedTransactions { bytes: transactions, starts } = block.encode_transactions();
            let transactions = transactions.len() - COUNT_BYTES;
            let bit = place.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let first = bytes.len() - MORE_BYTES - count * ENTRY_BYTES - transactions;
            let in_transactions = (bit / 8).checked_sub(first).filter(|at| *at < transactions);
            let changed = in_transactions.and_then(|at| starts.iter().rposition(|start| *start <= at));
            match (open(header.height, &bytes), changed) {
                (Err(_), None) => {}
                (Ok(row), Some(changed)) => {
                    prop_assert!(row.append_bytes(PARENT, &mut Vec::new()).is_err());
                    for index in 0..count {
                        prop_assert_eq!(row.transaction(index).is_err(), index == changed);
                    }
                }
                (opened, _) => prop_assert!(false, "{opened:?} {changed:?}"),
            }
        }

        #[test]
        fn arbitrary_bytes_are_rejected_as_a_block_row(start in prop::sample::select(vec![0usize, 193]), bytes: Vec<u8>) {
            let row = [&vec![0; start], bytes.as_slice()].concat();
            prop_assert!(open(Height(1), &row).is_err());
        }
    }
}
