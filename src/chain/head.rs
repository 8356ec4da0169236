//! The end of a chain, onto which the next block goes.

use super::difficulty::Window;
use crate::model::Height;
use crate::store::{Read, StoreError, StoredBlock, stored_header, tip};

/// The last block of a chain, and what decides on the next one's difficulty.
pub struct ChainHead {
    /// The last block; `None` for an empty chain.
    pub tip: Option<StoredBlock>,
    /// Difficulties and time stamps of the last blocks.
    pub window: Window,
}

impl ChainHead {
    /// The end of the chain in a state.
    pub fn load(state: &impl Read) -> Result<ChainHead, StoreError> {
        let tip = tip(state)?;
        let window = Window::load(state, tip.as_ref().map_or(Height(0), |tip| tip.height))?;
        Ok(ChainHead { tip, window })
    }

    /// The end of the chain as it was when a lower block was the last.
    pub fn load_at(state: &impl Read, height: Height) -> Result<ChainHead, StoreError> {
        let tip = stored_header(state, height)?;
        Ok(ChainHead { tip, window: Window::load(state, height)? })
    }

    /// Height of the last block; 0 if there is none.
    pub fn height(&self) -> Height {
        self.tip.as_ref().map_or(Height(0), |tip| tip.height)
    }

    /// Moves on by a block.
    pub fn push(&mut self, block: StoredBlock) {
        self.window.push(block.difficulty, block.timestamp);
        self.tip = Some(block);
    }
}
