//! Accounts and their remote links.

use super::account_tx_list::AccountTxList;
use super::bytes::{ByteReader, ByteWriter};
use super::vesting::VestedBalance;
use crate::model::transaction::LinkMode;
use crate::model::units::MIN_STAKE;
use crate::model::{Address, Height};
use crate::store::StoreError;

/// Number of links that an account stores; another one replaces the oldest.
pub const MAX_LINKS: usize = 2;

/// State of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Whether its public key is recorded ([`super::AccountId::public_key`]).
    pub has_key: bool,
    /// Its balance.
    pub balance: VestedBalance,
    /// Blocks credited to it.
    pub harvested_blocks: u64,
    /// Reference count: how often transactions referenced it.
    pub references: u64,
    /// Height of the first reference; 0 if there was none.
    pub first_height: u64,
    /// Signatures that its transactions need if it is a multisig account; 0 means those of all cosignatories.
    pub min_cosignatories: u32,
    /// The last importance links, oldest first.
    pub links: Vec<RemoteLink>,
    /// List of the transactions that it sent.
    pub sent: AccountTxList,
    /// List of the transactions that it received.
    pub received: AccountTxList,
}

/// Role of an account in an importance link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRole {
    /// It delegates its importance to the other account.
    Owner,
    /// It harvests with the importance of the other account.
    Remote,
}

/// An importance link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLink {
    /// Role of this account.
    pub role: LinkRole,
    /// The other account.
    pub linked_address: Address,
    /// Height of the block with the importance transfer.
    pub height: Height,
    /// Whether the link was activated or deactivated.
    pub mode: LinkMode,
}

/// Status of an account as owner or remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStatus {
    /// No link.
    NotSet,
    /// As owner.
    Owner(LinkPhase),
    /// As remote.
    Remote(LinkPhase),
}

/// Phase of an importance link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPhase {
    /// Activated, not in effect yet.
    Activating,
    /// In effect.
    Active,
    /// Deactivated, still in effect.
    Deactivating,
    /// Deactivated, no longer in effect.
    Inactive,
}

impl Account {
    /// Returns whether the account was ever referenced.
    pub fn is_known(&self) -> bool {
        self.first_height > 0
    }

    /// Increments the reference count.
    pub fn add_reference(&mut self, height: Height) {
        self.references += 1;
        if self.first_height == 0 {
            self.first_height = height.0;
        }
    }

    /// Appends a link, dropping the oldest if there are more than `MAX_LINKS`.
    pub fn push_link(&mut self, link: RemoteLink) {
        if self.links.len() == MAX_LINKS {
            self.links.remove(0);
        }
        self.links.push(link);
    }

    /// Returns the newest link made at or below a height.
    pub fn active_link(&self, height: Height) -> Option<&RemoteLink> {
        self.links.iter().rev().find(|link| link.height <= height)
    }

    /// Returns the status at a height.
    pub fn remote_status(&self, height: Height, rewrite_limit: u64) -> RemoteStatus {
        let Some(link) = self.active_link(height) else { return RemoteStatus::NotSet };
        let recent = height.0 - link.height.0 < rewrite_limit;
        let phase = match (link.mode, recent) {
            (LinkMode::Activate, true) => LinkPhase::Activating,
            (LinkMode::Activate, false) => LinkPhase::Active,
            (LinkMode::Deactivate, true) => LinkPhase::Deactivating,
            (LinkMode::Deactivate, false) => LinkPhase::Inactive,
        };
        match link.role {
            LinkRole::Owner => RemoteStatus::Owner(phase),
            LinkRole::Remote => RemoteStatus::Remote(phase),
        }
    }

    /// Returns the account for which this one harvests at a height; `None` if it harvests for itself.
    pub fn forwarded(&self, height: Height, rewrite_limit: u64) -> Option<Address> {
        match self.remote_status(height, rewrite_limit) {
            RemoteStatus::Remote(LinkPhase::Active | LinkPhase::Deactivating) => {
                self.active_link(height).map(|link| link.linked_address)
            }
            _ => None,
        }
    }

    /// Returns whether it could be eligible for the importance calculation once its whole balance is vested.
    pub fn has_stake(&self) -> bool {
        self.is_known() && self.balance.total() >= MIN_STAKE.0
    }

    /// Encodes the account. Fields that blocks change often have fixed lengths and offsets.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter(Vec::with_capacity(80));
        out.u8(u8::from(self.has_key));
        out.u64(self.balance.unvested);
        out.u64(self.balance.vested);
        // Heights, and counts that heights bound, fit 32 bits for longer than any chain lasts.
        for number in [self.balance.height, self.harvested_blocks, self.references, self.first_height] {
            out.u32(u32::try_from(number).unwrap_or(u32::MAX));
        }
        self.sent.write(&mut out);
        self.received.write(&mut out);
        if self.min_cosignatories != 0 || !self.links.is_empty() {
            out.u32(self.min_cosignatories);
        }
        for link in &self.links {
            out.u8(u8::from(link.role == LinkRole::Remote));
            out.u8(link.mode.code() as u8);
            out.u64(link.height.0);
            out.array(&link.linked_address.to_raw());
        }
        out.0
    }

    /// Decodes the account.
    pub fn from_bytes(bytes: &[u8]) -> Result<Account, StoreError> {
        let mut input = ByteReader::new(bytes, "an account");
        let has_key = input.u8()? != 0;
        let (unvested, vested, height) = (input.u64()?, input.u64()?, u64::from(input.u32()?));
        let balance = VestedBalance { height, unvested, vested };
        let mut account = Account {
            has_key,
            balance: Some(balance).filter(VestedBalance::is_valid).ok_or(StoreError::Damaged("a balance"))?,
            harvested_blocks: u64::from(input.u32()?),
            references: u64::from(input.u32()?),
            first_height: u64::from(input.u32()?),
            sent: AccountTxList::read(&mut input)?,
            received: AccountTxList::read(&mut input)?,
            min_cosignatories: if input.is_empty() { 0 } else { input.u32()? },
            links: Vec::new(),
        };
        while !input.is_empty() {
            account.links.push(RemoteLink {
                role: if input.u8()? == 0 { LinkRole::Owner } else { LinkRole::Remote },
                mode: LinkMode::from_code(i32::from(input.u8()?)).ok_or(StoreError::Damaged("a remote link"))?,
                height: Height(input.u64()?),
                linked_address: Address::from_raw(&input.array()?),
            });
        }
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::vesting::MAX_BALANCE;

    fn linked(role: LinkRole, links: &[(u64, LinkMode)]) -> Account {
        let other = Address::from_stored([b'T'; 40]);
        let links = links.iter().map(|(height, mode)| RemoteLink {
            role,
            linked_address: other,
            height: Height(*height),
            mode: *mode,
        });
        Account { links: links.collect(), ..Account::default() }
    }

    #[test]
    fn a_remote_harvests_for_its_owner_within_the_rewrite_limit_of_both_changes() {
        let remote = linked(LinkRole::Remote, &[(60, LinkMode::Activate), (500, LinkMode::Deactivate)]);
        let forwards = |height| remote.forwarded(Height(height), 360).is_some();
        assert!(!forwards(419));
        assert!(forwards(420));
        assert!(forwards(859));
        assert!(!forwards(860));
    }

    #[test]
    fn an_account_round_trips() {
        let mut account = linked(LinkRole::Owner, &[(7, LinkMode::Activate)]);
        account.has_key = true;
        account.balance = VestedBalance { height: 9, unvested: 1, vested: 2 };
        account.add_reference(Height(4));
        assert_eq!(Account::from_bytes(&account.to_bytes()).unwrap(), account);
    }

    #[test]
    fn an_impossible_balance_is_corruption() {
        let with = |unvested, vested| {
            let balance = VestedBalance { height: 1, unvested, vested };
            Account::from_bytes(&Account { balance, ..Account::default() }.to_bytes())
        };
        assert!(with(MAX_BALANCE - 1, 1).is_ok());
        for (unvested, vested) in [(MAX_BALANCE, 1), (u64::MAX, u64::MAX)] {
            assert!(matches!(with(unvested, vested), Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn a_third_link_replaces_the_oldest() {
        let mut account = linked(LinkRole::Owner, &[(1, LinkMode::Activate), (2, LinkMode::Deactivate)]);
        let newest = RemoteLink { height: Height(3), ..account.links[0] };
        let newer = account.links[1];
        account.push_link(newest);
        assert_eq!(account.links, [newer, newest]);
    }
}
