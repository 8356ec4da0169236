//! Applies effects to the store.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::account::{Account, LinkRole, RemoteLink};
use super::account_ids::{AccountId, AccountTotals};
use super::account_tx_list::{BlockTxLists, Direction, TxLocation};
use super::balance_history::{self, HistoryRange};
use super::effects::Effect;
use super::error::StateError;
use super::expiry::Expiry;
use super::expiry_log::ExpiryLog;
use super::hashes::{self, HashEpoch};
use super::namespaces::{self, Lease};
use super::outlinks::{BlockOutlinks, Outlink};
use super::pruning::Pruning;
use super::transaction_ids;
use super::vesting::VestedBalance;
use crate::crypto::PublicKey;
use crate::model::network::{ImportanceScheme, Vesting};
use crate::model::transaction::{Hashes, LinkMode, ModificationKind};
use crate::model::{Address, Amount, Height, NamespaceId, Network, Timestamp, Transaction};
use crate::store::{StoreError, Table, Write, block_key};

/// Accounts written in one step.
const ACCOUNTS_PER_STEP: usize = 48;

/// State of a [`Ledger`] while one block is applied.
pub struct BlockContext {
    /// Height of the block.
    pub height: Height,
    /// Time stamp of the block.
    pub timestamp: Timestamp,
    accounts: BTreeMap<Address, LoadedAccount>,
    /// Accounts that are staged for writing.
    changed: BTreeMap<AccountId, ChangedAccount>,
    /// Totals before the block and now; read when first needed.
    totals: Option<(AccountTotals, AccountTotals)>,
    /// Heights known to the balance history with this block; read when first needed.
    history: Option<HistoryRange>,
    outlinks: BlockOutlinks,
    tx_lists: BlockTxLists,
    pub(super) log: ExpiryLog,
}

/// An account that the block has read.
struct LoadedAccount {
    /// Its id, if one is assigned.
    id: Option<AccountId>,
    account: Account,
    /// Its stored form before the block.
    before: Option<Vec<u8>>,
    balance_before: VestedBalance,
    /// Whether it was known, and had enough balance to be listed in [`Table::EligibleAccounts`], before the block.
    was_known: bool,
    had_stake: bool,
}

/// Stored forms of an account before and after the block.
struct ChangedAccount {
    before: Option<Vec<u8>>,
    after: Vec<u8>,
    /// The balance before the block, if it goes to the balance history.
    replaced_balance: Option<VestedBalance>,
}

impl LoadedAccount {
    fn read(txn: &impl Write, address: &Address) -> Result<LoadedAccount, StoreError> {
        let number = AccountId::of(txn, address)?;
        let before = match number {
            Some(number) => txn.get(Table::Accounts, &number.key())?.map(<[u8]>::to_vec),
            None => None,
        };
        let account = before.as_deref().map_or(Ok(Account::default()), Account::from_bytes)?;
        let (was_known, had_stake, balance_before) = (account.is_known(), account.has_stake(), account.balance);
        Ok(LoadedAccount { id: number, account, before, balance_before, was_known, had_stake })
    }
}

impl BlockContext {
    /// Returns the current state of an account, if the block has read it.
    pub fn loaded_account(&self, address: &Address) -> Option<&Account> {
        self.accounts.get(address).map(|open| &open.account)
    }

    /// Starts a block.
    pub fn new(height: Height, timestamp: Timestamp) -> BlockContext {
        BlockContext {
            height,
            timestamp,
            accounts: BTreeMap::new(),
            changed: BTreeMap::new(),
            totals: None,
            history: None,
            outlinks: BlockOutlinks::default(),
            tx_lists: BlockTxLists::default(),
            log: ExpiryLog::new(height),
        }
    }
}

/// Applies the changes of one block to a write transaction, or to an in-memory overlay on a snapshot.
pub struct Ledger<'a, W> {
    /// Target of the changes.
    pub txn: &'a mut W,
    /// State of the block.
    pub block: &'a mut BlockContext,
    /// The network.
    pub network: &'a Network,
}

impl<W: Write> Ledger<'_, W> {
    /// Returns the account of an address for modification. [`Ledger::flush_step`] writes it.
    pub fn account(&mut self, address: &Address) -> Result<&mut Account, StateError> {
        Ok(&mut self.load(address)?.account)
    }

    fn load(&mut self, address: &Address) -> Result<&mut LoadedAccount, StateError> {
        match self.block.accounts.entry(*address) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(LoadedAccount::read(self.txn, address)?)),
        }
    }

    /// Returns the id of an account that the block changes, allocating the next one if it has none.
    pub(super) fn account_id(&mut self, address: &Address) -> Result<AccountId, StateError> {
        if let Some(number) = self.load(address)?.id {
            return Ok(number);
        }
        let number = self.allocate_id(address)?;
        self.load(address)?.id = Some(number);
        Ok(number)
    }

    fn allocate_id(&mut self, address: &Address) -> Result<AccountId, StateError> {
        let totals = self.totals()?;
        let number = AccountId(totals.allocated);
        totals.allocated = totals.allocated.checked_add(1).ok_or(StoreError::Damaged("the number of accounts"))?;
        number.assign(self.txn, address)?;
        Ok(number)
    }

    fn totals(&mut self) -> Result<&mut AccountTotals, StateError> {
        if self.block.totals.is_none() {
            let before = AccountTotals::of(self.txn)?;
            self.block.totals = Some((before, before));
        }
        let totals = self.block.totals.as_mut().map(|(_, now)| now);
        Ok(totals.ok_or(StoreError::Damaged("the number of accounts"))?)
    }

    /// Records the public key of an account.
    pub fn record_public_key(&mut self, key: &PublicKey) -> Result<(), StateError> {
        let address = Address::from_public_key(key, self.network.byte);
        if std::mem::replace(&mut self.account(&address)?.has_key, true) {
            return Ok(());
        }
        Ok(self.account_id(&address)?.record_public_key(self.txn, &address, key)?)
    }

    /// Credits the total supply to the nemesis account, before the nemesis block is applied.
    pub fn seed(&mut self) -> Result<(), StateError> {
        let (height, network) = (self.block.height, self.network);
        let nemesis = self.account(&network.nemesis_signer)?;
        nemesis.first_height = height.0;
        nemesis.balance.receive(height, network.total_amount.0, &network.chain)
    }

    /// Applies one effect.
    pub fn apply(&mut self, effect: &Effect<'_>) -> Result<(), StateError> {
        let network = self.network.byte;
        match effect {
            Effect::Reference(address) => {
                let height = self.block.height;
                self.account(address)?.add_reference(height);
                Ok(())
            }
            Effect::Transfer { from, to, amount } => self.transfer(from, to, *amount),
            Effect::Debit { from, amount } => self.debit(from, *amount),
            Effect::Link { owner, remote, mode } => self.link(owner, remote, *mode),
            Effect::Cosignatory { account, modification } => {
                let cosignatory = Address::from_public_key(&modification.cosignatory, network);
                self.cosignatory(account, &cosignatory, modification.kind)
            }
            Effect::MinCosignatories { account, change } => self.min_cosignatories(account, *change),
            Effect::Namespace { owner, name } => self.provision(*owner, name),
            Effect::Definition(definition) => self.define(definition),
            Effect::Supply { supplier, mosaic, delta, kind } => self.change_supply(supplier, mosaic, *delta, *kind),
            Effect::MosaicTransfer { from, to, mosaic, quantity } => self.transfer_mosaic(mosaic, from, to, *quantity),
        }
    }

    fn transfer(&mut self, from: &Address, to: &Address, amount: u64) -> Result<(), StateError> {
        if self.account(from)?.balance.total() < amount {
            return Err(StateError::impossible(format!("{from} has less than {amount}")));
        }
        self.credit(to, amount)?;
        self.debit(from, amount)?;
        if from != to && self.network.chain.importance == ImportanceScheme::ProofOfImportance {
            self.add_outlink(from, to, amount)?;
        }
        Ok(())
    }

    fn credit(&mut self, to: &Address, amount: u64) -> Result<(), StateError> {
        if amount == 0 {
            return Ok(());
        }
        let (height, network) = (self.block.height, self.network);
        let account = self.account(to)?;
        let fresh = account.balance.height == 0;
        account.balance.receive(height, amount, &network.chain)?;
        let vests_later = network.chain.vesting == Vesting::TimeBased;
        if vests_later && height == Height::NEMESIS && *to != network.nemesis_signer {
            if !fresh {
                return Err(StateError::impossible(format!("{to} is paid twice in the nemesis block")));
            }
            account.balance.vest_all();
        }
        Ok(())
    }

    fn debit(&mut self, from: &Address, amount: u64) -> Result<(), StateError> {
        if amount == 0 {
            return Ok(());
        }
        let (height, network) = (self.block.height, self.network);
        self.account(from)?.balance.send(height, amount, &network.chain)
    }

    /// Records a currency transfer for the importance calculation, after the sender has paid.
    fn add_outlink(&mut self, from: &Address, to: &Address, amount: u64) -> Result<(), StateError> {
        let height = self.block.height;
        let left = self.account(from)?.balance.at(height, &self.network.chain);
        let weight = Outlink::weigh(amount, &left);
        let (sender, recipient) = (self.account_id(from)?, self.account_id(to)?);
        self.block.outlinks.add(Outlink { sender, recipient, weight });
        Ok(())
    }

    fn link(&mut self, owner: &Address, remote: &Address, mode: LinkMode) -> Result<(), StateError> {
        let height = self.block.height;
        let after_fork = height.0 >= self.network.chain.forks.mosaic_redefinition;
        // After the fork, a deactivation ends the existing link whatever remote it names.
        let remote = match mode {
            LinkMode::Deactivate if after_fork => {
                let linked = self.account(owner)?.links.last().map(|link| link.linked_address);
                linked.ok_or_else(|| StateError::impossible(format!("{owner} has no remote account")))?
            }
            _ => *remote,
        };
        self.account(owner)?.push_link(RemoteLink { role: LinkRole::Owner, linked_address: remote, height, mode });
        self.account(&remote)?.push_link(RemoteLink { role: LinkRole::Remote, linked_address: *owner, height, mode });
        Ok(())
    }

    fn cosignatory(
        &mut self,
        account: &Address,
        cosignatory: &Address,
        kind: ModificationKind,
    ) -> Result<(), StateError> {
        let pair = |a: &Address, b: &Address| [a.as_bytes().as_slice(), b.as_bytes()].concat();
        let (down, up) = (pair(account, cosignatory), pair(cosignatory, account));
        match kind {
            ModificationKind::Add => {
                self.reject_nested_multisig(account, cosignatory)?;
                self.txn.put(Table::Cosignatories, &down, &[])?;
                self.txn.put(Table::CosignatoryOf, &up, &[])?;
            }
            ModificationKind::Delete | ModificationKind::Unknown => {
                self.txn.delete(Table::Cosignatories, &down)?;
                self.txn.delete(Table::CosignatoryOf, &up)?;
            }
        }
        Ok(())
    }

    /// Fails if an account would become both a multisig account and a cosignatory.
    fn reject_nested_multisig(&self, account: &Address, cosignatory: &Address) -> Result<(), StateError> {
        let has = |table, address: &Address| self.txn.has_prefix(table, address.as_bytes());
        if has(Table::CosignatoryOf, account)? || has(Table::Cosignatories, cosignatory)? || account == cosignatory {
            return Err(StateError::impossible("a multisig account cannot be a cosignatory"));
        }
        Ok(())
    }

    fn min_cosignatories(&mut self, account: &Address, change: i32) -> Result<(), StateError> {
        let state = self.account(account)?;
        let sum = i64::from(state.min_cosignatories) + i64::from(change);
        state.min_cosignatories =
            u32::try_from(sum).map_err(|_| StateError::impossible(format!("{account} would need {sum} signatures")))?;
        Ok(())
    }

    fn provision(&mut self, owner: Address, name: &NamespaceId) -> Result<(), StateError> {
        let term = self.network.chain.blocks_per_year();
        let BlockContext { height, log, .. } = &mut *self.block;
        namespaces::provision(self.txn, owner, name, *height, term, log)
    }

    /// Returns the last lease of a namespace's root; fails if the namespace does not exist in it.
    pub(super) fn require_namespace(&self, name: &NamespaceId) -> Result<Lease, StateError> {
        let lease = namespaces::leases(self.txn, name.root())?.pop();
        if let Some(lease) = lease
            && namespaces::is_in_lease(self.txn, &lease, name)?
        {
            return Ok(lease);
        }
        Err(StateError::impossible(format!("there is no namespace {name}")))
    }

    /// Returns the account that gets the fees of a block of `signer`.
    pub fn beneficiary(&mut self, signer: &Address) -> Result<Address, StateError> {
        let (height, limit) = (self.block.height, self.network.chain.rewrite_limit);
        Ok(self.account(signer)?.forwarded(height, limit).unwrap_or(*signer))
    }

    /// Credits the fees of the block. The caller then ends leases ([`super::Expiry`]) and prunes ([`super::Pruning`]).
    pub fn harvest(&mut self, beneficiary: &Address, fees: Amount) -> Result<(), StateError> {
        self.credit(beneficiary, fees.0)?;
        self.account(beneficiary)?.harvested_blocks += 1;
        Ok(())
    }

    /// Returns the leases that end with the block.
    pub fn expiry(&self) -> Result<Expiry, StoreError> {
        Expiry::due(self.txn, self.block.height, &self.network.chain)
    }

    /// Returns the pruning that is due with the block, if any.
    pub fn pruning(&self) -> Option<Pruning> {
        Pruning::due(self.block.height, self.block.timestamp, &self.network.chain)
    }

    /// Adds the block to the harvest indexes of its signer and of its beneficiary.
    pub fn index_harvest(&mut self, signer: &Address, beneficiary: &Address) -> Result<(), StateError> {
        let numbers = BTreeSet::from([self.account_id(signer)?, self.account_id(beneficiary)?]);
        numbers.into_iter().try_for_each(|number| {
            let key = [number.key().as_slice(), &block_key(self.block.height)].concat();
            Ok(self.txn.insert(Table::Harvests, &key, &[])?)
        })
    }

    /// Indexes a top-level transaction of the block by hash and by affected accounts, in the order of ids and after the
    /// whole block was applied. `era` is the epoch of the block's hashes.
    pub fn index_transaction(
        &mut self,
        transaction: &Transaction,
        hashes: &Hashes,
        index: u32,
        (id, epoch): (u64, HashEpoch),
    ) -> Result<(), StateError> {
        let height = self.block.height;
        hashes::insert_hashes(self.txn, epoch, height, index, hashes.all())?;
        let parties = transaction_ids::affected_accounts(self.txn, transaction, self.network.byte)?;
        let place = TxLocation { height, index };
        self.block.tx_lists.begin(place, id, parties.len());
        for (address, direction) in parties {
            let number = self.account_id(&address)?;
            let BlockContext { accounts, tx_lists: trails, .. } = &mut *self.block;
            let open = accounts.get_mut(&address).ok_or(StoreError::Damaged("an account of a block"))?;
            let list = match direction {
                Direction::Outgoing => &mut open.account.sent,
                Direction::Incoming => &mut open.account.received,
            };
            trails.extend(self.txn, (place, id), (number, direction), list)?;
        }
        Ok(())
    }

    /// Writes some of the changed accounts in the order of their ids, and finally the collected data of the block.
    /// Returns whether work remains.
    pub fn flush_step(&mut self) -> Result<bool, StateError> {
        for _ in 0..ACCOUNTS_PER_STEP {
            if let Some((address, open)) = self.block.accounts.pop_first() {
                self.stage_write(&address, open)?;
            } else if let Some((number, changed)) = self.block.changed.pop_first() {
                self.txn.replace(Table::Accounts, &number.key(), changed.before.as_deref(), &changed.after)?;
                if let Some(kept) = &changed.replaced_balance {
                    balance_history::store_replaced(self.txn, number, kept)?;
                }
            } else {
                self.flush_block()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes everything that is left.
    pub fn flush(&mut self) -> Result<(), StateError> {
        while self.flush_step()? {}
        Ok(())
    }

    /// Stages an account for writing if it has changed, allocating an id if it has none.
    fn stage_write(&mut self, address: &Address, open: LoadedAccount) -> Result<(), StateError> {
        let LoadedAccount { id: number, account, before, balance_before, was_known, had_stake } = open;
        let after = account.to_bytes();
        let is_untouched = before.is_none() && account == Account::default();
        if is_untouched || before.as_ref() == Some(&after) {
            return Ok(());
        }
        let number = match number {
            Some(number) => number,
            None => self.allocate_id(address)?,
        };
        if account.is_known() && !was_known {
            let height = self.block.height;
            self.totals()?.count_new(height);
        }
        if account.has_stake() != had_stake {
            self.set_stake(number, account.has_stake())?;
        }
        let is_over = balance_before.height > 0 && balance_before != account.balance;
        let keeps = is_over && self.history()?.is_some_and(|history| history.records_changes());
        let kept = keeps.then_some(balance_before);
        self.block.changed.insert(number, ChangedAccount { before, after, replaced_balance: kept });
        Ok(())
    }

    /// Returns the heights known to the balance history with this block; `None` if the block stores no history.
    fn history(&mut self) -> Result<Option<HistoryRange>, StateError> {
        let height = self.block.height;
        if self.network.chain.history_from.is_none_or(|from| height < from) {
            return Ok(None);
        }
        if self.block.history.is_none() {
            self.block.history = Some(HistoryRange::with_block(self.txn, height)?);
        }
        Ok(self.block.history)
    }

    fn set_stake(&mut self, id: AccountId, has_stake: bool) -> Result<(), StateError> {
        let stakes = &mut self.totals()?.stakes;
        match has_stake {
            true => {
                *stakes += 1;
                Ok(self.txn.insert(Table::EligibleAccounts, &id.key(), &[])?)
            }
            false => {
                *stakes = stakes.saturating_sub(1);
                Ok(self.txn.delete(Table::EligibleAccounts, &id.key())?)
            }
        }
    }

    fn flush_block(&mut self) -> Result<(), StateError> {
        let height = self.block.height;
        std::mem::take(&mut self.block.outlinks).store(self.txn, height)?;
        std::mem::take(&mut self.block.tx_lists).store(self.txn, height)?;
        if let Some(history) = self.history()? {
            history.put(self.txn)?;
        }
        match self.block.totals.take() {
            Some((before, now)) if before != now => Ok(now.put(self.txn)?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NetworkByte;
    use crate::model::network::test_network;
    use crate::store::test_store;

    /// Returns the balance of an account to which the nemesis account pays 5 and then 7 in the nemesis block.
    fn paid_twice(vesting: Vesting) -> Result<u64, String> {
        let [nemesis, account] = [b'A', b'B'].map(|letter| Address::from_stored([letter; 40]));
        let mut network = test_network(NetworkByte::TESTNET, nemesis);
        network.chain.vesting = vesting;
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let mut block = BlockContext::new(Height::NEMESIS, Timestamp(0));
        let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &network };
        ledger.seed().unwrap();
        for amount in [5, 7] {
            let payment = Effect::Transfer { from: nemesis, to: account, amount };
            ledger.apply(&payment).map_err(|error| error.to_string())?;
        }
        Ok(ledger.account(&account).unwrap().balance.vested)
    }

    #[test]
    fn a_second_nemesis_payment_is_rejected_only_with_time_based_vesting() {
        assert_eq!(paid_twice(Vesting::Immediate), Ok(12));
        assert!(paid_twice(Vesting::TimeBased).unwrap_err().contains("paid twice in the nemesis block"));
    }
}
