//! Building a store anew from its own blocks: `nisd reindex`, and a start on a store of an older version.

use std::path::Path;

use super::{Clocks, CommandError, Watch, take_in};
use crate::chain::{BrokenChain, Intake, IntakeOptions, StoredBlocks};
use crate::cli;
use crate::clock::{ClockMode, NetworkClock};
use crate::codec::network_from_text;
use crate::config::Settings;
use crate::model::{Hash256, Height, Network, Timestamp};
use crate::store::{self, OldBlocks, Options, Replacement, SCHEMA, Store, StoreError, StoredBlock};

/// The blocks were verified when they came in, and the clock need not be right for them.
const REBUILD: IntakeOptions = IntakeOptions { trusted_below: Height(u64::MAX), ..super::IMPORT };
const END_OF_TIME: ClockMode = ClockMode::Still(Timestamp(i32::MAX));

/// `nisd reindex`.
pub fn reindex(command: &cli::Store, settings: &Settings, clocks: Clocks) -> Result<(), CommandError> {
    let configured = command.config.is_some().then_some(&settings.network);
    let rebuilt = rebuild(&command.data, configured, Options { map_size: settings.map_size }, clocks);
    rebuilt.map(drop).map_err(|error| in_folder(error, &command.data))
}

/// Opens the store of the settings to change it, or creates it. One of an older version is built anew first.
pub fn open_up_to_date(settings: &Settings, clocks: Clocks) -> Result<Store, CommandError> {
    bring_up_to_date(&settings.data, Some(&settings.network), settings, clocks)?;
    super::open_store(settings, &settings.data)
}

/// Builds the store in a folder anew if it is of an older version.
pub fn bring_up_to_date(
    folder: &Path,
    configured: Option<&Network>,
    settings: &Settings,
    clocks: Clocks,
) -> Result<(), CommandError> {
    let options = Options { map_size: settings.map_size };
    match store::older_schema(folder, options) {
        Ok(Some(schema)) => {
            log::warn!(
                "the store in {} was written by an older version of nisd (schema {schema}, this program has {SCHEMA})",
                folder.display()
            );
            rebuild(folder, configured, options, clocks).map(drop).map_err(|error| in_folder(error, folder))
        }
        // Whoever opens the store finds what is wrong with it, and says so.
        _ => {
            if store::is_begun(folder) {
                log::info!("`nisd reindex` was begun in {}, and goes on when it is called again", folder.display());
            }
            Ok(())
        }
    }
}

fn in_folder(error: CommandError, folder: &Path) -> CommandError {
    match error {
        CommandError::Store(error) => CommandError::Open(folder.to_owned(), error),
        other => other,
    }
}

/// Builds a new store from the blocks of the one in a folder, and puts it in place.
fn rebuild(
    folder: &Path,
    configured: Option<&Network>,
    options: Options,
    clocks: Clocks,
) -> Result<Store, CommandError> {
    let name = |text: &str| network_from_text(text).map(|network| network.name).unwrap_or_default();
    let replacement = Replacement::open(folder, name, options)?;
    let network = network_from_text(replacement.old.network());
    let network = network.ok_or(StoreError::Damaged("the description of the network"))?;
    super::refuse_other_network(&network, configured)?;
    tell_what_is_needed(folder, &replacement)?;
    let tip = replacement.old.blocks()?.tip()?;
    if let Some((height, hash)) = tip {
        take_blocks(&replacement, &network, (height, hash), clocks)?;
    }
    let store = replacement.put_in_place()?;
    log::info!("the store is built anew, the chain is at height {}", tip.map_or(0, |(height, _)| height.0));
    Ok(store)
}

fn tell_what_is_needed(folder: &Path, replacement: &Replacement) -> Result<(), StoreError> {
    let reached = store::tip(&replacement.new.snapshot()?)?.map(|block| block.height);
    let room = replacement.room()?;
    let free = room.free.map(|free| format!(" ({} MiB are free there)", free >> 20)).unwrap_or_default();
    let from = reached.map(|height| format!(", from height {height} on")).unwrap_or_default();
    log::info!(
        "building state and indexes anew from the store's own blocks{from}: needs about {} MiB in {}{free}; may be \
         interrupted at any moment, and goes on when it is called again",
        room.needed.div_ceil(1 << 20),
        folder.display()
    );
    Ok(())
}

/// Takes all blocks of the old store into the new one, from where that ends.
fn take_blocks(
    replacement: &Replacement,
    network: &Network,
    (last, hash): (Height, Hash256),
    clocks: Clocks,
) -> Result<(), CommandError> {
    let blocks = replacement.old.blocks()?;
    let reached = store::tip(&replacement.new.snapshot()?)?.map_or(Height::NEMESIS, |block| block.height);
    let (_, nemesis) = blocks.at(Height::NEMESIS)?.ok_or(BrokenChain::Missing(Height::NEMESIS))?;
    let source = StoredBlocks::new(reached.next(), |height| Ok(blocks.at(height)?.map(|(_, block)| block)));
    let options = IntakeOptions { stop_at: Some(last), ..REBUILD };
    let intake = Intake::of(&replacement.new, network, nemesis.to_vec(), Box::new(source), options)?;
    let clock = NetworkClock::new(END_OF_TIME, (clocks.millis)());
    let reached = take_in(intake, &clock, clocks, Some(last), &mut SameHashes(&blocks))?;
    let reached_hash = store::tip(&replacement.new.snapshot()?)?.map(|block| block.hash);
    match (reached, reached_hash) == (last, Some(hash)) {
        true => Ok(()),
        false => Err(BrokenChain::Missing(reached.next()).into()),
    }
}

/// Holds the blocks that are taken in against the hashes that the old store knows.
struct SameHashes<'a>(&'a OldBlocks<'a>);

impl Watch for SameHashes<'_> {
    fn taken(&mut self, block: &StoredBlock) -> Result<(), CommandError> {
        match self.0.at(block.height)? {
            Some((hash, _)) if hash == block.hash => Ok(()),
            _ => Err(BrokenChain::OtherBlock(block.height).into()),
        }
    }
}
