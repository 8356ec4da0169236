//! Harvested blocks of an account, newest first.
//!
//! An account stores how many blocks it has signed or was credited with, and the height of the last one. Each block
//! stores the heights of the blocks before it in the lists of its signer and its beneficiary. So a block costs a few bytes
//! of its own row, and no row in the middle of an index of all accounts. Every 32nd block of a list has a skip pointer,
//! by which a height is found without a full walk.

use super::account::{AccountId, account_at};
use super::bytes::stored;
use crate::model::{Address, Height};
use crate::store::{Read, Result, StoreError, StoredHeader, Table, Write, block_key, height_of_key, stored_header};

/// Blocks from one skip pointer of a list to the next.
const SKIP_POINTER_EVERY: u32 = 32;

/// The blocks signed by or credited to an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarvestList {
    /// Number of blocks.
    pub length: u32,
    /// Height of the last one; 0 if there is none.
    pub last: u32,
}

stored!(HarvestList { length, last });

impl HarvestList {
    /// Appends the block at a height to the list of an account. Returns the height of the one before it.
    pub(super) fn extend(&mut self, txn: &mut impl Write, account: AccountId, height: Height) -> Result<Height> {
        self.length = self.length.saturating_add(1);
        let previous = std::mem::replace(&mut self.last, height.0 as u32);
        if self.length.is_multiple_of(SKIP_POINTER_EVERY) {
            txn.insert(Table::Harvests, &pointer_key(account, height), &[])?;
        }
        Ok(Height(previous.into()))
    }
}

fn pointer_key(account: AccountId, height: Height) -> Vec<u8> {
    [account.key().as_slice(), &block_key(height)].concat()
}

/// Calls `visit` with the headers of the blocks below `before` that were signed by or credited to an account, last first,
/// until it returns `false`. Reads at most as many blocks before the first one as one skip pointer spans.
pub fn for_each_harvest_before(
    state: &impl Read,
    address: &Address,
    before: Height,
    mut visit: impl FnMut(StoredHeader) -> Result<bool>,
) -> Result<()> {
    let Some(id) = AccountId::of(state, address)? else { return Ok(()) };
    let list = account_at(state, id)?.harvests;
    let mut height = Height(list.last.into());
    if before <= height
        && list.length >= SKIP_POINTER_EVERY
        && let Some((key, _)) = state.first_from(Table::Harvests, &id.key(), &pointer_key(id, before))?
    {
        let (_, pointed) = AccountId::split_key(key)?;
        height = height_of_key(pointed, "the height of a harvested block")?;
    }
    while height.0 > 0 {
        let header = stored_header(state, height)?.ok_or(StoreError::Damaged("a harvested block is missing"))?;
        let [of_signer, of_beneficiary] = header.previous_harvests;
        let previous = if header.beneficiary == Some(*address) { of_beneficiary } else { of_signer };
        if height < before && !visit(header)? {
            break;
        }
        height = previous;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::{PublicKey, Signature};
    use crate::model::transaction::wire_version;
    use crate::model::{Amount, Block, BlockKind, Hash256, NetworkByte, Timestamp};
    use crate::state::{Account, put_account};
    use crate::store::{WriteTxn, test_store};

    const BYTE: NetworkByte = NetworkByte::TESTNET;

    fn address(number: u8) -> Address {
        Address::from_public_key(&PublicKey([number; 32]), BYTE)
    }

    /// Stores a block of a signer and a beneficiary, who may be the same.
    fn store_block(txn: &mut WriteTxn<'_>, height: Height, [signer, beneficiary]: [u8; 2]) {
        let mut add = |number: u8| {
            let address = address(number);
            let mut account = crate::state::account(txn, &address).unwrap();
            let id = put_account(txn, &address, &account).unwrap();
            let previous = account.harvests.extend(txn, id, height).unwrap();
            put_account(txn, &address, &account).unwrap();
            previous
        };
        let is_own = signer == beneficiary;
        let previous_harvests = [add(signer), if is_own { Height(0) } else { add(beneficiary) }];
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(BYTE, 1),
            timestamp: Timestamp(1),
            signer: PublicKey([signer; 32]),
            signature: Some(Signature([1; 64])),
            previous_hash: Hash256::default().into(),
            height,
            transactions: Vec::new(),
        };
        let header = StoredHeader {
            height,
            hash: Hash256::default(),
            generation_hash: Hash256::default(),
            timestamp: block.timestamp,
            difficulty: 1,
            score: 0,
            total_fee: Amount::ZERO,
            beneficiary: (!is_own).then(|| address(beneficiary)),
            ids: (1, 1),
            previous_harvests,
        };
        txn.put_unjournaled(Table::Blocks, &block_key(height), &header.to_bytes(&block, &block.encode_transactions()))
            .unwrap();
    }

    /// Returns the heights of at most `limit` blocks.
    fn harvests(state: &impl Read, account: u8, before: u64, limit: usize) -> Vec<u64> {
        let mut heights = Vec::new();
        for_each_harvest_before(state, &address(account), Height(before), |header| {
            heights.push(header.height.0);
            Ok(heights.len() < limit)
        })
        .unwrap();
        heights
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_harvested_blocks_of_an_account_below_any_height_are_found_newest_first(
            blocks in proptest::collection::vec([0u8..3, 0u8..3], 0..200),
            before in 0u64..220,
            limit in 1usize..60,
        ) {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            for (height, accounts) in (1..).map(Height).zip(&blocks) {
                store_block(&mut batch, height, *accounts);
            }
            for account in 0..4 {
                let numbered = blocks.iter().enumerate().map(|(index, accounts)| (index as u64 + 1, accounts)).rev();
                let own = numbered.filter(|(height, accounts)| *height < before && accounts.contains(&account));
                let expected: Vec<u64> = own.map(|(height, _)| height).take(limit).collect();
                prop_assert_eq!(harvests(&batch, account, before, limit), expected);
            }
        }
    }

    #[test]
    fn a_walk_starts_anywhere_in_a_long_list_after_few_blocks() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (1..=300).map(Height).for_each(|height| store_block(&mut batch, height, [1, 2]));
        // Without the blocks above, the walk fails if it passes them.
        for before in [3, 40, 100, 255] {
            let batch = RemovedAbove { txn: &batch, height: before + u64::from(SKIP_POINTER_EVERY) };
            assert_eq!(harvests(&batch, 2, before, 1), [before - 1]);
        }
    }

    /// A state without the blocks above a height.
    struct RemovedAbove<'a, 'env> {
        txn: &'a WriteTxn<'env>,
        height: u64,
    }

    impl Read for RemovedAbove<'_, '_> {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>> {
            self.txn.get(table, key)
        }

        fn cursor(&self, table: Table) -> Result<crate::store::TableCursor<'_>> {
            self.txn.cursor(table)
        }

        fn block_bytes(&self, height: Height) -> Result<Option<&[u8]>> {
            if height.0 > self.height { Ok(None) } else { self.txn.block_bytes(height) }
        }
    }

    #[test]
    fn an_account_without_harvests_has_none_and_takes_no_more_bytes() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let plain = Account { first_height: 1, ..Account::default() };
        put_account(&mut batch, &address(1), &plain).unwrap();
        assert_eq!(harvests(&batch, 1, u64::MAX, 9), [0; 0]);
        let harvester = Account { harvests: HarvestList { length: 1, last: 7 }, ..plain.clone() };
        assert_eq!(harvester.to_row(&[7; 25]).len(), plain.to_row(&[7; 25]).len() + 8);
        assert_eq!(Account::from_row(&harvester.to_row(&[7; 25])).unwrap(), harvester);
        put_account(&mut batch, &address(1), &harvester).unwrap();
        let missing = for_each_harvest_before(&batch, &address(1), Height(9), |_| Ok(true));
        assert!(matches!(missing, Err(StoreError::Damaged(_))));
    }
}
