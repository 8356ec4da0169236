//! Effects of a transaction on the state, in the order in which they are applied, and their application to the store.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::account::{
    Account, AccountId, AccountTotals, LinkRole, RemoteLink, account_with_id, is_cosignatory, is_multisig,
};
use super::account_tx_list::{BlockTxLists, Direction, TxLocation, affected_accounts};
use super::balance::{self, HistoryRange, VestedBalance};
use super::bytes::Stored;
use super::hashes::{self, HashEpoch};
use super::importances::Outlink;
use super::{Exception, StateError, StateResult, mosaics};
use crate::crypto::PublicKey;
use crate::model::transaction::{Hashes, LinkMode, Modification, ModificationKind, SupplyChangeKind, Transfer};
use crate::model::units::MICRO;
use crate::model::{
    Address, Amount, Body, Height, MosaicDefinition, MosaicId, NamespaceId, Network, NetworkByte, Transaction,
};
use crate::store::{Read, Result, StoreError, Table, Write, block_key};

/// One change of the state. Amounts are micro-units, quantities smallest units.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<'t> {
    /// Increments the reference count of an account.
    Reference(Address),
    /// Transfers currency.
    Transfer { from: Address, to: Address, amount: u64 },
    /// Deducts currency, as a fee.
    Debit { from: Address, amount: u64 },
    /// Activates or deactivates an importance link.
    Link { owner: Address, remote: Address, mode: LinkMode },
    /// Adds or deletes a cosignatory.
    Cosignatory { account: Address, modification: &'t Modification },
    /// Changes the number of required signatures.
    MinCosignatories { account: Address, change: i32 },
    /// Rents a namespace.
    Namespace { owner: Address, name: NamespaceId },
    /// Defines a mosaic.
    Definition(&'t MosaicDefinition),
    /// Changes a supply by whole units.
    Supply { supplier: Address, mosaic: &'t MosaicId, delta: u64, kind: SupplyChangeKind },
    /// Transfers a mosaic.
    MosaicTransfer { from: Address, to: Address, mosaic: Cow<'t, MosaicId>, quantity: u64 },
}

/// Appends the effects of a transaction. Levies are read from `state`, which must be the state before the transaction.
pub fn effects<'t>(
    transaction: &'t Transaction,
    state: &impl Read,
    network: NetworkByte,
    out: &mut Vec<Effect<'t>>,
) -> StateResult {
    let signer = transaction.signer_address(network);
    let address = |key| Address::from_public_key(key, network);
    match &transaction.body {
        Body::Transfer(body) => transfer_effects(signer, body, state, out)?,
        Body::ImportanceTransfer(body) => {
            let remote = address(&body.remote);
            out.push(Effect::Reference(remote));
            out.push(Effect::Link { owner: signer, remote, mode: body.mode });
        }
        Body::AggregateModification(body) => {
            for modification in &body.modifications {
                out.push(Effect::Reference(address(&modification.cosignatory)));
                out.push(Effect::Cosignatory { account: signer, modification });
            }
            let change = body.min_cosignatories_change;
            out.extend(change.map(|change| Effect::MinCosignatories { account: signer, change }));
        }
        Body::ProvisionNamespace(body) => {
            let name = body.name().map_err(Exception::argument)?;
            out.push(Effect::Reference(body.rental_fee_sink));
            out.push(Effect::Transfer { from: signer, to: body.rental_fee_sink, amount: body.rental_fee.0 });
            out.push(Effect::Namespace { owner: signer, name });
        }
        Body::MosaicDefinitionCreation(body) => {
            out.push(Effect::Definition(&body.definition));
            out.push(Effect::Transfer { from: signer, to: body.creation_fee_sink, amount: body.creation_fee.0 });
        }
        Body::MosaicSupplyChange(body) => {
            out.push(Effect::Supply { supplier: signer, mosaic: &body.mosaic, delta: body.delta, kind: body.kind });
        }
        Body::Multisig(body) => {
            let account = body.inner.signer_address(network);
            let fees = body.cosignatures.iter().map(|cosignature| cosignature.fee.0);
            out.extend(fees.map(|amount| Effect::Debit { from: account, amount }));
            effects(&body.inner, state, network, out)?;
            out.push(Effect::Debit { from: account, amount: transaction.fee.0 });
            return Ok(());
        }
        Body::Cosignature(body) => {
            out.push(Effect::Debit { from: body.other_account, amount: transaction.fee.0 });
            return Ok(());
        }
    }
    out.push(Effect::Debit { from: signer, amount: transaction.fee.0 });
    Ok(())
}

fn transfer_effects<'t>(
    signer: Address,
    body: &'t Transfer,
    state: &impl Read,
    out: &mut Vec<Effect<'t>>,
) -> StateResult {
    out.push(Effect::Reference(body.recipient));
    let attached = body.mosaics.iter().find(|mosaic| mosaic.id.is_xem());
    let amount = if body.mosaics.is_empty() {
        Some(body.amount.0)
    } else {
        attached.map(|mosaic| scale(body.amount.0, mosaic.quantity)).transpose()?
    };
    out.extend(amount.map(|amount| Effect::Transfer { from: signer, to: body.recipient, amount }));
    for mosaic in body.other_mosaics() {
        let quantity = scale(body.amount.0, mosaic.quantity)?;
        let id = Cow::Borrowed(&mosaic.id);
        out.push(Effect::MosaicTransfer { from: signer, to: body.recipient, mosaic: id, quantity });
        out.extend(levy_effect(signer, &mosaic.id, quantity, state)?);
    }
    Ok(())
}

/// Multiplies a quantity by the amount. If a transfer has mosaics, its amount is a multiplier of their quantities.
fn scale(amount: u64, quantity: u64) -> StateResult<u64> {
    let product = u128::from(amount) * u128::from(quantity) / u128::from(MICRO);
    i64::try_from(product).map(|value| value as u64).map_err(|_| StateError::impossible("BigInteger out of long range"))
}

fn levy_effect(
    signer: Address,
    mosaic: &MosaicId,
    quantity: u64,
    state: &impl Read,
) -> Result<Option<Effect<'static>>, StateError> {
    let Some(levy) = mosaics::mosaic(state, mosaic)?.and_then(|entry| entry.definition.levy) else {
        return Ok(None);
    };
    let amount = levy.amount(quantity);
    let negative = || Exception::argument(format!("quantity ({amount}) must be non-negative"));
    let amount = u64::try_from(amount).map_err(|_| negative())?;
    if amount == 0 {
        return Ok(None);
    }
    let (from, to) = (signer, levy.recipient);
    Ok(Some(if levy.mosaic.is_xem() {
        Effect::Transfer { from, to, amount }
    } else {
        Effect::MosaicTransfer { from, to, mosaic: Cow::Owned(levy.mosaic), quantity: amount }
    }))
}

/// Accounts written in one step.
const ACCOUNTS_PER_STEP: usize = 48;

/// State of a [`Ledger`] while one block is applied.
#[derive(Default)]
pub struct BlockContext {
    /// Height of the block.
    pub height: Height,
    accounts: BTreeMap<Address, LoadedAccount>,
    /// Accounts that are staged for writing.
    changed: BTreeMap<AccountId, StagedAccount>,
    /// Accounts with a stake before the block or after it, as far as they are staged.
    pub changed_stakes: Vec<AccountId>,
    /// Totals before the block and now; read when first needed.
    totals: Option<(AccountTotals, AccountTotals)>,
    /// Heights known to the balance history with this block; read when first needed.
    history: Option<HistoryRange>,
    /// Stored form of the outlinks.
    outlinks: Vec<u8>,
    tx_lists: BlockTxLists,
    /// Entries in the log of expired mosaics.
    pub(super) log_entries: u32,
}

/// An account that the block has read.
struct LoadedAccount {
    /// Its id, if it has one.
    id: Option<AccountId>,
    account: Account,
    /// The account before the block.
    before: Account,
}

/// A changed account that is written next.
struct StagedAccount {
    row: Vec<u8>,
    /// The balance before the block, if there was one and it has changed.
    replaced: Option<VestedBalance>,
}

impl BlockContext {
    /// Returns the current state of an account, if the block has read it.
    pub fn loaded_account(&self, address: &Address) -> Option<&Account> {
        self.accounts.get(address).map(|open| &open.account)
    }

    /// Starts a block.
    pub fn new(height: Height) -> BlockContext {
        BlockContext { height, ..BlockContext::default() }
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
    pub fn account(&mut self, address: &Address) -> StateResult<&mut Account> {
        Ok(&mut self.load(address)?.account)
    }

    fn load(&mut self, address: &Address) -> StateResult<&mut LoadedAccount> {
        match self.block.accounts.entry(*address) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => {
                let (id, before) = account_with_id(self.txn, address)?;
                Ok(place.insert(LoadedAccount { id, account: before.clone(), before }))
            }
        }
    }

    /// Returns the id of an account that the block changes, allocating the next one if it has none.
    pub(super) fn account_id(&mut self, address: &Address) -> StateResult<AccountId> {
        if let Some(id) = self.load(address)?.id {
            return Ok(id);
        }
        let id = self.totals(|totals, txn| totals.allocate_id(txn, address))?;
        self.load(address)?.id = Some(id);
        Ok(id)
    }

    /// Changes the totals over all accounts.
    fn totals<T>(&mut self, change: impl FnOnce(&mut AccountTotals, &mut W) -> Result<T>) -> Result<T> {
        let before =
            self.block.totals.map_or_else(|| AccountTotals::of(self.txn).map(|totals| (totals, totals)), Ok)?;
        let (_, now) = self.block.totals.insert(before);
        change(now, self.txn)
    }

    /// Records the public key of an account.
    pub fn record_public_key(&mut self, key: &PublicKey) -> StateResult {
        let address = Address::from_public_key(key, self.network.byte);
        if std::mem::replace(&mut self.account(&address)?.has_key, true) {
            return Ok(());
        }
        let id = self.account_id(&address)?;
        Ok(self.txn.insert(Table::PublicKeys, &id.key(), &key.0)?)
    }

    /// Credits the total supply to the nemesis account, before the nemesis block is applied.
    pub fn seed(&mut self) -> StateResult {
        let (height, network) = (self.block.height, self.network);
        let nemesis = self.account(&network.nemesis_signer)?;
        nemesis.first_height = height.0;
        nemesis.balance.receive(height, network.total_amount.0, &network.chain)
    }

    /// Applies one effect.
    pub fn apply(&mut self, effect: &Effect<'_>) -> StateResult {
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

    fn transfer(&mut self, from: &Address, to: &Address, amount: u64) -> StateResult {
        if self.account(from)?.balance.total() < amount {
            return Err(StateError::impossible(format!("{from} has less than {amount}")));
        }
        self.credit(to, amount)?;
        self.debit(from, amount)?;
        if from != to && !self.network.chain.proof_of_stake {
            // For the importance calculation, after the sender has paid.
            let height = self.block.height;
            let left = self.account(from)?.balance.at(height, &self.network.chain);
            let (sender, recipient) = (self.account_id(from)?, self.account_id(to)?);
            let (weight, recipient_hash) = (Outlink::weigh(amount, &left), to.java_hash());
            Outlink { sender, recipient, weight, recipient_hash }.write(&mut self.block.outlinks);
        }
        Ok(())
    }

    fn credit(&mut self, to: &Address, amount: u64) -> StateResult {
        if amount == 0 {
            return Ok(());
        }
        let (height, network) = (self.block.height, self.network);
        let account = self.account(to)?;
        let fresh = account.balance.height == 0;
        account.balance.receive(height, amount, &network.chain)?;
        if !network.chain.immediate_vesting && height == Height::NEMESIS && *to != network.nemesis_signer {
            if !fresh {
                return Err(StateError::impossible(format!("{to} is paid twice in the nemesis block")));
            }
            account.balance.vest_all();
        }
        Ok(())
    }

    fn debit(&mut self, from: &Address, amount: u64) -> StateResult {
        if amount == 0 {
            return Ok(());
        }
        let (height, network) = (self.block.height, self.network);
        self.account(from)?.balance.send(height, amount, &network.chain)
    }

    fn link(&mut self, owner: &Address, remote: &Address, mode: LinkMode) -> StateResult {
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

    fn cosignatory(&mut self, account: &Address, cosignatory: &Address, kind: ModificationKind) -> StateResult {
        let pairs = [(Table::Cosignatories, account, cosignatory), (Table::CosignatoryOf, cosignatory, account)];
        let is_added = kind == ModificationKind::Add;
        if is_added
            && (account == cosignatory || is_cosignatory(self.txn, account)? || is_multisig(self.txn, cosignatory)?)
        {
            return Err(StateError::impossible("a multisig account cannot be a cosignatory"));
        }
        for (table, one, other) in pairs {
            let key = [one.as_bytes().as_slice(), other.as_bytes()].concat();
            self.txn.set(table, &key, is_added.then_some(&[]))?;
        }
        Ok(())
    }

    fn min_cosignatories(&mut self, account: &Address, change: i32) -> StateResult {
        let state = self.account(account)?;
        let sum = i64::from(state.min_cosignatories) + i64::from(change);
        state.min_cosignatories =
            u32::try_from(sum).map_err(|_| StateError::impossible(format!("{account} would need {sum} signatures")))?;
        Ok(())
    }

    /// Credits the fees of the block to the account for which its signer harvests, and adds the block to the harvested
    /// blocks of both. Returns that account, and the heights of the blocks before it that the signer and that account
    /// harvested (0 if there is none, or if both are the same account). The caller then ends leases ([`super::Expiry`]) and prunes
    /// ([`super::Pruning`]).
    pub fn harvest(&mut self, signer: &Address, fees: Amount) -> StateResult<(Address, [Height; 2])> {
        let (height, limit) = (self.block.height, self.network.chain.rewrite_limit);
        let beneficiary = self.account(signer)?.harvests_for(height, limit).unwrap_or(*signer);
        self.credit(&beneficiary, fees.0)?;
        self.account(&beneficiary)?.harvested_blocks += 1;
        let of_signer = self.add_harvest(signer)?;
        let of_beneficiary = if beneficiary == *signer { Height(0) } else { self.add_harvest(&beneficiary)? };
        Ok((beneficiary, [of_signer, of_beneficiary]))
    }

    /// Appends the block to the harvested blocks of an account. Returns the height of the one before it.
    fn add_harvest(&mut self, address: &Address) -> StateResult<Height> {
        let (id, height) = (self.account_id(address)?, self.block.height);
        let mut harvests = self.account(address)?.harvests;
        let previous = harvests.extend(self.txn, id, height)?;
        self.account(address)?.harvests = harvests;
        Ok(previous)
    }

    /// Indexes a top-level transaction of the block by hash and by affected accounts, in the order of ids and after the
    /// whole block was applied. `epoch` is that of the block's hashes.
    pub fn index_transaction(
        &mut self,
        transaction: &Transaction,
        hashes: &Hashes,
        index: u32,
        (id, epoch): (u64, HashEpoch),
    ) -> StateResult {
        let height = self.block.height;
        hashes::insert_hashes(self.txn, epoch, height, index, hashes.all())?;
        let parties = affected_accounts(self.txn, transaction, self.network.byte)?;
        let place = (TxLocation { height, index }, id);
        self.block.tx_lists.begin(place, parties.len());
        for (address, direction) in parties {
            let id = self.account_id(&address)?;
            let BlockContext { accounts, tx_lists, .. } = &mut *self.block;
            let open = accounts.get_mut(&address).ok_or(StoreError::Damaged("an account of a block"))?;
            let list = match direction {
                Direction::Outgoing => &mut open.account.sent,
                Direction::Incoming => &mut open.account.received,
            };
            tx_lists.extend(self.txn, place, (id, direction), list)?;
        }
        Ok(())
    }

    /// Writes some of the changed accounts in the order of their ids, and finally the collected data of the block.
    /// Returns whether work remains.
    pub fn flush_step(&mut self) -> StateResult<bool> {
        for _ in 0..ACCOUNTS_PER_STEP {
            if let Some((address, open)) = self.block.accounts.pop_first() {
                self.stage_write(&address, open)?;
            } else if let Some((id, changed)) = self.block.changed.pop_first() {
                self.txn.put(Table::Accounts, &id.key(), &changed.row)?;
                if let Some(replaced) = changed.replaced
                    && self.history()?.is_some_and(|history| history.from < history.to)
                {
                    balance::store_replaced(self.txn, id, &replaced)?;
                }
            } else {
                self.flush_block()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes everything that is left.
    pub fn flush(&mut self) -> StateResult {
        while self.flush_step()? {}
        Ok(())
    }

    /// Stages an account for writing if it has changed, allocating an id if it has none.
    fn stage_write(&mut self, address: &Address, loaded: LoadedAccount) -> StateResult {
        let LoadedAccount { id, account, before } = loaded;
        if account == before {
            return Ok(());
        }
        let row = account.to_row(&address.to_raw());
        let height = self.block.height;
        let stakes = (before.has_stake(), account.has_stake());
        let id = self.totals(|totals, txn| {
            let id = id.map_or_else(|| totals.allocate_id(txn, address), Ok)?;
            if account.is_known() && !before.is_known() {
                totals.count_new(height);
            }
            match stakes {
                (false, true) => {
                    totals.eligible += 1;
                    txn.insert(Table::EligibleAccounts, &id.key(), &[])?;
                }
                (true, false) => {
                    totals.eligible = totals.eligible.saturating_sub(1);
                    txn.delete(Table::EligibleAccounts, &id.key())?;
                }
                _ => {}
            }
            Ok(id)
        })?;
        if stakes != (false, false) {
            self.block.changed_stakes.push(id);
        }
        let replaced = Some(before.balance).filter(|balance| balance.height > 0 && *balance != account.balance);
        self.block.changed.insert(id, StagedAccount { row, replaced });
        Ok(())
    }

    /// Returns the heights known to the balance history with this block; `None` if the block stores no history. The first
    /// block of the range need not store the balances that it replaces.
    fn history(&mut self) -> StateResult<Option<HistoryRange>> {
        let height = self.block.height;
        if self.network.chain.history_from.is_none_or(|from| height < from) {
            return Ok(None);
        }
        if self.block.history.is_none() {
            self.block.history = Some(HistoryRange::with_block(self.txn, height)?);
        }
        Ok(self.block.history)
    }

    fn flush_block(&mut self) -> StateResult {
        let height = self.block.height;
        let outlinks = std::mem::take(&mut self.block.outlinks);
        if !outlinks.is_empty() {
            self.txn.insert(Table::Outlinks, &block_key(height), &outlinks)?;
        }
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
    use crate::model::network::test_network;
    use crate::store::{WriteTxn, test_store};

    /// Returns the balance of an account to which the nemesis account pays 5 and then 7 in the nemesis block.
    fn paid_twice(immediate_vesting: bool) -> Result<u64, String> {
        let [nemesis, account] = [b'A', b'B'].map(|letter| Address::from_stored([letter; 40]));
        let mut network = test_network(NetworkByte::TESTNET, nemesis);
        network.chain.immediate_vesting = immediate_vesting;
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let mut block = BlockContext::new(Height::NEMESIS);
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
        assert_eq!(paid_twice(true), Ok(12));
        assert!(paid_twice(false).unwrap_err().contains("paid twice in the nemesis block"));
    }

    fn address(number: u8) -> Address {
        Address::from_public_key(&PublicKey([number; 32]), NetworkByte::TESTNET)
    }

    fn network() -> Network {
        test_network(NetworkByte::TESTNET, address(99))
    }

    /// Changes the state as one block does.
    fn in_block<T>(
        txn: &mut WriteTxn<'_>,
        network: &Network,
        height: u64,
        act: impl FnOnce(&mut Ledger<'_, WriteTxn<'_>>) -> StateResult<T>,
    ) -> T {
        let mut block = BlockContext::new(Height(height));
        let mut ledger = Ledger { txn, block: &mut block, network };
        let result = act(&mut ledger).unwrap();
        ledger.flush().unwrap();
        result
    }

    /// Gives an account enough for the importance calculation.
    fn fund(ledger: &mut Ledger<'_, WriteTxn<'_>>, who: u8) -> StateResult {
        ledger.credit(&address(who), Amount::whole(20_000).0)
    }

    #[test]
    fn a_block_writes_only_what_it_changes() {
        let (store, _folder) = test_store();
        let (mut batch, network) = (store.begin_write().unwrap(), network());
        in_block(&mut batch, &network, 5, |ledger| ledger.account(&address(1)).map(drop));
        assert!(batch.take_journal().is_empty());
        in_block(&mut batch, &network, 6, |ledger| ledger.apply(&Effect::Reference(address(1))));
        assert!(!batch.take_journal().is_empty());
        in_block(&mut batch, &network, 7, |ledger| ledger.account(&address(1)).map(drop));
        assert!(batch.take_journal().is_empty());
        let rows = batch.rows();
        in_block(&mut batch, &network, 8, |ledger| ledger.apply(&Effect::Reference(address(1))));
        assert_eq!(batch.rows() - rows, 1, "the totals stay the same");
    }

    #[test]
    fn accounts_are_counted_when_they_become_known_and_while_they_have_a_stake() {
        let (store, _folder) = test_store();
        let (mut batch, network) = (store.begin_write().unwrap(), network());
        for (height, who) in [(5, 1), (6, 1), (7, 2)] {
            in_block(&mut batch, &network, height, |ledger| {
                ledger.apply(&Effect::Reference(address(who)))?;
                fund(ledger, who)
            });
        }
        let totals = AccountTotals { allocated: 2, known: 2, eligible: 2, last_new: (Height(7), 1) };
        assert_eq!(AccountTotals::of(&batch).unwrap(), totals);
        in_block(&mut batch, &network, 8, |ledger| ledger.debit(&address(2), Amount::whole(15_000).0));
        assert_eq!(AccountTotals::of(&batch).unwrap(), AccountTotals { eligible: 1, ..totals });
    }

    #[test]
    fn the_balance_history_holds_replaced_balances_but_not_the_absence_of_one() {
        let (store, _folder) = test_store();
        let (mut batch, mut network) = (store.begin_write().unwrap(), network());
        network.chain.history_from = Some(Height(1));
        let rows = [4, 5, 6, 7].map(|height| {
            in_block(&mut batch, &network, height, |ledger| match height {
                4 => Ok(()),
                _ => fund(ledger, 1),
            });
            batch.keys_with_prefix(Table::BalanceHistory, &[]).unwrap().len()
        });
        assert_eq!(rows, [1, 1, 2, 3], "the range of heights and the replaced balances");
    }

    #[test]
    fn a_deactivation_ends_the_link_to_the_named_remote_before_the_fork_and_to_the_linked_one_after() {
        let (store, _folder) = test_store();
        let (mut batch, mut network) = (store.begin_write().unwrap(), network());
        network.chain.forks.mosaic_redefinition = 10;
        let [owner, linked, named] = [1, 2, 3].map(address);
        in_block(&mut batch, &network, 5, |ledger| ledger.link(&owner, &linked, LinkMode::Activate));
        let mut ended = |height| {
            let mut block = BlockContext::new(Height(height));
            let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &network };
            ledger.link(&owner, &named, LinkMode::Deactivate).unwrap();
            let remotes = [linked, named].map(|remote| ledger.account(&remote).unwrap().links.pop());
            let ended = remotes.map(|link| link.is_some_and(|link| link.mode == LinkMode::Deactivate));
            let last = ledger.account(&owner).unwrap().links.pop().unwrap();
            (ended, last.linked_address == named)
        };
        assert_eq!(ended(9), ([false, true], true));
        assert_eq!(ended(10), ([true, false], false));
        let mut block = BlockContext::new(Height(10));
        let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &network };
        assert!(ledger.link(&named, &linked, LinkMode::Deactivate).is_err(), "there is no link");
        assert!(ledger.link(&named, &linked, LinkMode::Activate).is_ok());
    }

    #[test]
    fn no_account_becomes_both_a_multisig_account_and_a_cosignatory() {
        let (store, _folder) = test_store();
        let (mut batch, network) = (store.begin_write().unwrap(), network());
        let mut block = BlockContext::new(Height(5));
        let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &network };
        let mut is_possible =
            |account, cosignatory, kind| ledger.cosignatory(&address(account), &address(cosignatory), kind).is_ok();
        let (add, delete) = (ModificationKind::Add, ModificationKind::Delete);
        assert!(is_possible(1, 2, add));
        assert!(is_possible(1, 3, add));
        assert!(!is_possible(4, 4, add), "the account itself");
        assert!(!is_possible(2, 4, add), "a cosignatory");
        assert!(!is_possible(4, 1, add), "a multisig account");
        assert!(is_possible(1, 2, delete));
        assert!(is_possible(2, 4, add), "no longer a cosignatory");
    }
}

#[cfg(test)]
mod effect_tests {
    use super::*;
    use crate::codec::{Context, SigningForm};
    use crate::model::transaction::wire_version;
    use crate::model::{Mosaic, Timestamp};
    use crate::store::test_store;

    /// A space sorts before the colon that follows the name, so a longer name can sort before its own prefix.
    #[test]
    fn attached_mosaics_are_transferred_in_their_order() {
        let recipient = Address::from_public_key(&PublicKey([1; 32]), NetworkByte::TESTNET);
        let names = ["foo:b", "nem:xem", "foo:b a", "foo.a:c", "foo:b 1"];
        let attached = names.map(|name| Mosaic { id: MosaicId::parse(name).unwrap(), quantity: 1 });
        let body = Transfer { recipient, amount: Amount::whole(1), message: None, mosaics: attached.to_vec() };
        let transaction = Transaction {
            version: wire_version(NetworkByte::TESTNET, 2),
            timestamp: Timestamp(1),
            signer: PublicKey([2; 32]),
            signature: None,
            fee: Amount::ZERO,
            deadline: Timestamp(2),
            body: Body::Transfer(body),
        };
        let context = Context { network: NetworkByte::TESTNET, nemesis_signer: recipient, trusted: false };
        let read = Transaction::from_bytes(&transaction.signed_bytes(), SigningForm::NonVerifiable, context).unwrap();
        let (store, _folder) = test_store();
        let mut list = Vec::new();
        effects(&read, &store.snapshot().unwrap(), NetworkByte::TESTNET, &mut list).unwrap();
        let moved: Vec<String> = list.iter().filter_map(moved_mosaic).collect();
        assert_eq!(moved, ["foo.a:c", "foo:b 1", "foo:b", "foo:b a"]);
        let Body::Transfer(Transfer { mosaics, .. }) = &read.body else { panic!("another kind") };
        let written: Vec<String> = mosaics.iter().map(|mosaic| mosaic.id.to_string()).collect();
        assert_eq!(written, ["foo.a:c", "foo:b 1", "foo:b", "foo:b a", "nem:xem"]);
    }

    fn moved_mosaic(effect: &Effect<'_>) -> Option<String> {
        match effect {
            Effect::MosaicTransfer { mosaic, .. } => Some(mosaic.to_string()),
            _ => None,
        }
    }
}
