//! Checks the signatures of a block's transactions, one at a time, and computes their hashes.

use crate::codec::SigningForm;
use crate::crypto::hash::keccak256;
use crate::crypto::{PublicKey, Signature, Verifier};
use crate::model::transaction::Hashes;
use crate::model::{Block, Hash256, Height, Network, Transaction};

/// The signature of the transaction with this index in its block, or of one of its cosignatures, is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSignature(pub usize);

/// The check of all transaction signatures of one block.
pub struct SignatureCheck {
    hashes: Vec<Hashes>,
    /// Number of checked cosignatures of the last checked transaction.
    cosignatures: usize,
    /// Whether only hashes are computed.
    trusted: bool,
}

impl SignatureCheck {
    /// Starts with the first transaction. Signatures in the treasury re-issuance block are not checked: its
    /// transactions must be those that the network agreed on.
    pub fn new(block: &Block, network: &Network, trusted: bool) -> SignatureCheck {
        let treasury = block.height > Height::NEMESIS && block.height.0 == network.chain.forks.treasury_reissuance;
        let hashes = Vec::with_capacity(block.transactions.len());
        SignatureCheck { hashes, cosignatures: 0, trusted: trusted || treasury }
    }

    /// Checks one signature. Returns `false` once all are checked.
    pub fn step(&mut self, block: &Block, verifier: &mut Verifier) -> Result<bool, BadSignature> {
        if let Some(cosignature) = self.pending_cosignature(block) {
            let good = self.is_good(cosignature, &cosignature.signed_bytes(), verifier);
            self.cosignatures += 1;
            return good.then_some(true).ok_or(BadSignature(self.hashes.len() - 1));
        }
        let Some(transaction) = block.transactions.get(self.hashes.len()) else { return Ok(false) };
        let signed = transaction.signed_bytes();
        if !self.is_good(transaction, &signed, verifier) {
            return Err(BadSignature(self.hashes.len()));
        }
        let own = Hash256(keccak256(&signed));
        self.hashes.push(Hashes { own, children: transaction.children().map(Transaction::hash).collect() });
        self.cosignatures = 0;
        Ok(true)
    }

    /// Returns the first unchecked cosignature of the last checked transaction.
    fn pending_cosignature<'b>(&self, block: &'b Block) -> Option<&'b Transaction> {
        let last = block.transactions.get(self.hashes.len().checked_sub(1)?)?;
        last.cosignatures().get(self.cosignatures)
    }

    fn is_good(&self, entity: &Transaction, signed: &[u8], verifier: &mut Verifier) -> bool {
        self.trusted || is_good(verifier, &entity.signer, signed, entity.signature.as_ref())
    }

    /// Returns the hashes of all transactions, after all signatures were checked.
    pub fn into_hashes(self) -> Vec<Hashes> {
        self.hashes
    }
}

/// Returns the hash of a block, and whether it is trusted or its signature is valid.
pub fn check_block_signature(block: &Block, trusted: bool, verifier: &mut Verifier) -> (Hash256, bool) {
    let signed = block.to_bytes(SigningForm::NonVerifiable);
    let good = trusted || is_good(verifier, &block.signer, &signed, block.signature.as_ref());
    (Hash256(keccak256(&signed)), good)
}

/// Returns whether a signature is valid. A key that is not a point of the curve counts as an invalid signature.
fn is_good(verifier: &mut Verifier, signer: &PublicKey, signed: &[u8], signature: Option<&Signature>) -> bool {
    signature.is_some_and(|signature| verifier.verify(signer, signed, signature).unwrap_or(false))
}
