//! Checking the signatures of a block, one at a time.

use super::error::BlockError;
use crate::codec::{Context, Form};
use crate::crypto::hash::keccak256;
use crate::crypto::{PublicKey, Signature, Verifier};
use crate::model::{Block, Hash256, Height, Network, Transaction};

/// Hashes of a transaction and of those nested in it.
#[derive(Clone, Debug, Default)]
pub struct Hashes {
    /// Its own.
    pub own: Hash256,
    /// Those of its cosignatures, in their order.
    pub cosignatures: Vec<Hash256>,
    /// That of its inner transaction.
    pub inner: Option<Hash256>,
}

/// A block all of whose signatures are good.
pub struct Verified {
    /// The block.
    pub block: Block,
    /// Its hash.
    pub hash: Hash256,
    /// Hashes of its transactions, in their order.
    pub transactions: Vec<Hashes>,
}

/// A block whose signatures are being checked.
pub struct Unverified {
    block: Block,
    hash: Hash256,
    signed: Vec<u8>,
    transactions: Vec<Hashes>,
    begun: bool,
    /// The block in which the hashes of the transactions stand for their signatures.
    treasury: bool,
}

impl Unverified {
    /// Reads a block in its verifiable binary form.
    pub fn read(bytes: &[u8], network: &Network) -> Result<Unverified, BlockError> {
        let block = Block::from_bytes(bytes, Context::of(network))?;
        let signed = block.to_bytes(Form::NonVerifiable);
        let hash = Hash256(keccak256(&signed));
        let transactions = Vec::with_capacity(block.transactions.len());
        let treasury = is_treasury(&block, network);
        Ok(Unverified { block, hash, signed, transactions, begun: false, treasury })
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Its hash.
    pub fn hash(&self) -> Hash256 {
        self.hash
    }

    /// Checks one signature; `false` once all are checked.
    pub fn step(&mut self, verifier: &mut Verifier) -> Result<bool, BlockError> {
        if !self.begun {
            self.begun = true;
            let good = is_good(verifier, &self.block.signer, &self.signed, self.block.signature.as_ref());
            return good.then_some(true).ok_or(BlockError::Signature);
        }
        let pending = self.pending_cosignature();
        let nested = pending.is_some();
        let index = self.transactions.len() - usize::from(nested);
        let Some(entity) = pending.or_else(|| self.block.transactions.get(index)) else { return Ok(false) };
        let signed = entity.signed_bytes();
        if !self.treasury && !is_good(verifier, &entity.signer, &signed, entity.signature.as_ref()) {
            return Err(BlockError::TransactionSignature(index));
        }
        let hash = Hash256(keccak256(&signed));
        let inner = entity.inner().map(Transaction::hash);
        match self.transactions.last_mut().filter(|_| nested) {
            Some(hashes) => hashes.cosignatures.push(hash),
            None => self.transactions.push(Hashes { own: hash, cosignatures: Vec::new(), inner }),
        }
        Ok(true)
    }

    /// The first cosignature not yet checked of the transaction that was checked last.
    fn pending_cosignature(&self) -> Option<&Transaction> {
        let hashes = self.transactions.last()?;
        let transaction = self.block.transactions.get(self.transactions.len() - 1)?;
        transaction.cosignatures().get(hashes.cosignatures.len())
    }

    /// The block, once all its signatures were checked.
    pub fn into_verified(self, network: &Network) -> Result<Verified, BlockError> {
        debug_assert_eq!(self.transactions.len(), self.block.transactions.len());
        if self.treasury && !has_treasury_transactions(&self.transactions, network) {
            return Err(BlockError::Treasury);
        }
        Ok(Verified { block: self.block, hash: self.hash, transactions: self.transactions })
    }
}

/// Whether this is the block of the treasury re-issuance. The signatures of its transactions are not checked;
/// instead they must be exactly those that the network agreed on (specification 02 §20.2).
fn is_treasury(block: &Block, network: &Network) -> bool {
    block.height > Height::NEMESIS && block.height.0 == network.chain.forks.treasury_reissuance
}

fn has_treasury_transactions(transactions: &[Hashes], network: &Network) -> bool {
    let forks = &network.chain.forks;
    let are = |list: &[Hash256]| transactions.iter().map(|hashes| &hashes.own).eq(list);
    are(&forks.treasury_hashes) || are(&forks.treasury_fallback_hashes)
}

/// Whether a signature is good. A key that is no point of the curve is as bad as a wrong signature.
fn is_good(verifier: &mut Verifier, signer: &PublicKey, signed: &[u8], signature: Option<&Signature>) -> bool {
    signature.is_some_and(|signature| verifier.verify(signer, signed, signature).unwrap_or(false))
}
