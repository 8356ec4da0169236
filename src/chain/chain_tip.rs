//! The tip of a chain, on top of which the next block is processed.

use super::difficulty::DifficultyWindow;
use crate::model::Height;
use crate::store::{Read, StoreError, StoredHeader, stored_header, tip};

/// The tip of a chain, and the values that determine the next difficulty.
pub struct ChainTip {
    /// The last block; `None` for an empty chain.
    pub tip: Option<StoredHeader>,
    /// Difficulties and time stamps of the last blocks.
    pub window: DifficultyWindow,
}

impl ChainTip {
    /// Loads the tip of the chain in a state.
    pub fn load(state: &impl Read) -> Result<ChainTip, StoreError> {
        let tip = tip(state)?;
        let window = DifficultyWindow::load(state, tip.as_ref().map_or(Height(0), |tip| tip.height))?;
        Ok(ChainTip { tip, window })
    }

    /// Loads the tip as if the block at `height` were the last one.
    pub fn load_at(state: &impl Read, height: Height) -> Result<ChainTip, StoreError> {
        let tip = stored_header(state, height)?;
        Ok(ChainTip { tip, window: DifficultyWindow::load(state, height)? })
    }

    /// Returns the height of the tip; 0 if the chain is empty.
    pub fn height(&self) -> Height {
        self.tip.as_ref().map_or(Height(0), |tip| tip.height)
    }

    /// Advances the tip by one block.
    pub fn push(&mut self, block: StoredHeader) {
        self.window.push(block.difficulty, block.timestamp);
        self.tip = Some(block);
    }
}
