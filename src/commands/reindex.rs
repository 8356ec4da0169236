//! Rebuilds a store from its own blocks: `nisd reindex`, and the start on a store of an older version. `nisd rollback`.

use std::path::Path;

use clap::Args;

use super::import::{import_blocks, stored_nemesis};
use super::store::{StoreArguments, open_existing, open_store, stored_network};
use super::{CommandError, Stop, height, in_store, store_options};
use crate::chain::{self, BlockImporter, BlockSource, BrokenChain, ImportOptions};
use crate::clock::{ClockMode, System};
use crate::config::Settings;
use crate::model::{Hash256, Height, Network, Timestamp};
use crate::state::{self, HistoryRange};
use crate::store::{self, AccessMode, ChainIdentity, Read, SCHEMA, Store, StoreError, StoreRebuild, Table};

/// Runs `nisd reindex`.
pub fn reindex(command: &StoreArguments, settings: &Settings, system: System, stop: &Stop) -> Result<(), CommandError> {
    let configured = command.config.is_some().then_some(&settings.network);
    let rebuilt =
        Rebuild::begin(&command.data, configured, settings).and_then(|rebuild| rebuild.run(settings, system, stop));
    let told = rebuilt.and_then(|(store, network)| Ok(log_history(&store, &network)?));
    told.map_err(|error| in_folder(error, &command.data))
}

/// Opens the store of the settings for writing, or creates it. A store of an older version is rebuilt first.
pub fn open_or_rebuild(settings: &Settings, system: System, stop: &Stop) -> Result<Store, CommandError> {
    rebuild_if_outdated(&settings.data, Some(&settings.network), settings, system, stop)?;
    open_current(settings)
}

/// Opens the store of the settings for writing, or creates it. It is not of an older version.
pub fn open_current(settings: &Settings) -> Result<Store, CommandError> {
    let store = open_store(settings, &settings.data)?;
    log_history(&store, &settings.network)?;
    Ok(store)
}

/// Rebuilds the store in a folder if it is of an older version.
fn rebuild_if_outdated(
    folder: &Path,
    configured: Option<&Network>,
    settings: &Settings,
    system: System,
    stop: &Stop,
) -> Result<(), CommandError> {
    let Some(rebuild) = Rebuild::begin_if_outdated(folder, configured, settings)? else { return Ok(()) };
    rebuild.run(settings, system, stop).map(drop).map_err(|error| in_folder(error, folder))
}

fn in_folder(error: CommandError, folder: &Path) -> CommandError {
    match error {
        CommandError::Store(error) => in_store(folder)(error),
        other => other,
    }
}

/// A rebuild: a new store beside the store in a folder, which is built from the blocks of that and then replaces it.
pub struct Rebuild {
    replacement: StoreRebuild,
    network: Network,
    /// Height and hash of the last block, if there is one.
    tip: Option<(Height, Hash256)>,
}

impl Rebuild {
    /// Begins or resumes the rebuild of the store in a folder if it is of an older version.
    pub fn begin_if_outdated(
        folder: &Path,
        configured: Option<&Network>,
        settings: &Settings,
    ) -> Result<Option<Rebuild>, CommandError> {
        match store::older_schema(folder, store_options(settings)) {
            Ok(Some(schema)) => {
                log::warn!(
                    "the store in {} was written by an older version of nisd (schema {schema}, this program has \
                     {SCHEMA})",
                    folder.display()
                );
                Rebuild::begin(folder, configured, settings).map(Some).map_err(|error| in_folder(error, folder))
            }
            // Opening the store reports whatever is wrong with it.
            _ => {
                if store::is_rebuild_pending(folder) {
                    let folder = folder.display();
                    log::info!("`nisd reindex` is incomplete in {folder}; it resumes when it is called again");
                }
                Ok(None)
            }
        }
    }

    /// Begins or resumes the rebuild of the store in a folder.
    fn begin(folder: &Path, configured: Option<&Network>, settings: &Settings) -> Result<Rebuild, CommandError> {
        let network = |remembered: &str| -> Result<Network, StoreError> {
            let network = stored_network(remembered, configured)?;
            // Parameters that a node may change are those of the settings.
            Ok(configured.cloned().unwrap_or(network))
        };
        let identity = |text: &str| Ok(ChainIdentity::of(&network(text)?));
        let replacement = StoreRebuild::open(folder, identity, store_options(settings))?;
        let network = network(&replacement.network)?;
        log_required_space(folder, &replacement)?;
        let tip = store::tip(&replacement.old.snapshot()?)?.map(|block| (block.height, block.hash));
        Ok(Rebuild { replacement, network, tip })
    }

    /// Builds the new store and installs it. If it must stop, the next rebuild continues from there.
    fn run(self, settings: &Settings, system: System, stop: &Stop) -> Result<(Store, Network), CommandError> {
        self.with_importer(settings, |importer, _| {
            // The clock does not matter to blocks that were verified before.
            let clock = ClockMode::Still(Timestamp::MAX);
            let last = importer.rebuild_target();
            import_blocks(importer, clock, system, stop, last, None).map(drop)
        })?;
        self.install()
    }

    /// Calls `import` with what imports the blocks of the old store into the new one, and with the new store; not if there
    /// is no block.
    pub fn with_importer<T>(
        &self,
        settings: &Settings,
        import: impl for<'s> FnOnce(BlockImporter<'s>, &'s Store) -> Result<T, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let Rebuild { replacement, network, tip } = self;
        let Some((last, _)) = *tip else { return Ok(None) };
        let blocks = replacement.old.snapshot()?;
        let reached = store::tip(&replacement.new.snapshot()?)?.map_or(Height::NEMESIS, |block| block.height);
        let source = BlockSource::Store(reached.next(), &blocks);
        // The blocks were verified before: signatures and proofs are not checked again.
        let (write_cache, trusted_below) = (settings.write_cache, Height(u64::MAX));
        let options = ImportOptions { write_cache, stop_at: Some(last), trusted_below, ..ImportOptions::DEFAULT };
        let importer = BlockImporter::new(&replacement.new, network, stored_nemesis(&blocks)?, source, options)?;
        import(importer, &replacement.new).map(Some)
    }

    /// Replaces the old store by the new one, if that has all blocks. Each names its parent by its hash, so the last one
    /// stands for all.
    pub fn install(self) -> Result<(Store, Network), CommandError> {
        let Rebuild { replacement, network, tip } = self;
        let reached = store::tip(&replacement.new.snapshot()?)?.map(|block| (block.height, block.hash));
        if reached != tip {
            let [reached, last] = [reached, tip].map(|tip| tip.map_or(Height(0), |(height, _)| height));
            let is_short = reached < last;
            return Err(
                if is_short { BrokenChain::Missing(reached.next()) } else { BrokenChain::WrongBlock(last) }.into()
            );
        }
        let store = replacement.install()?;
        log::info!("the store is rebuilt; the chain is at height {}", tip.map_or(0, |(height, _)| height.0));
        Ok((store, network))
    }
}

fn log_required_space(folder: &Path, replacement: &StoreRebuild) -> Result<(), StoreError> {
    let reached = store::tip(&replacement.new.snapshot()?)?.map(|block| block.height);
    let space = replacement.disk_space()?;
    let free = space.free.map(|free| format!(" ({} MiB are free there)", free >> 20)).unwrap_or_default();
    let from = reached.map(|height| format!(", from height {height} on")).unwrap_or_default();
    log::info!(
        "rebuilding state and indexes from the store's own blocks{from}: needs about {} MiB in {}{free}; can be \
         interrupted at any time and resumes when it is called again",
        space.needed.div_ceil(1 << 20),
        folder.display()
    );
    Ok(())
}

/// `nisd rollback`.
#[derive(Args, Debug)]
pub struct Rollback {
    /// The store.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Height to roll back to
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub to: Height,
}

/// `nisd rollback`.
pub fn rollback(command: &Rollback, settings: &Settings, system: System, stop: Stop) -> Result<(), CommandError> {
    let configured = command.store.config.is_some().then_some(&settings.network);
    rebuild_if_outdated(&command.store.data, configured, settings, system, &stop)?;
    let (store, _) = open_existing(&command.store, settings, AccessMode::Exclusive, stop)?;
    let mut batch = store.begin_write()?;
    chain::rollback(&mut batch, command.to)?;
    batch.commit()?;
    log::info!("the chain is at height {}", command.to);
    Ok(())
}

/// Logs from which height historical account data is known, if it is or was kept.
pub fn log_history(store: &Store, network: &Network) -> Result<(), StoreError> {
    let snapshot = store.snapshot()?;
    let last = store::tip(&snapshot)?.map_or(Height(0), |block| block.height);
    let text = match network.chain.history_from {
        Some(from) => describe_kept(from, last, state::history_from(&snapshot, last)?),
        None => describe_dropped(HistoryRange::of(&snapshot)?, snapshot.has_prefix(Table::BalanceHistory, &[])?),
    };
    if let Some(said) = text {
        log::info!("historical account data {said}");
    }
    Ok(())
}

/// Describes a store that keeps the data from height `from` on and knows it from height `known` on.
fn describe_kept(from: Height, last: Height, known: Option<Height>) -> Option<String> {
    match known {
        Some(known) if known <= from => Some(format!("is known from height {known} on")),
        Some(known) => Some(format!("is known from height {known} on; `nisd reindex` adds the earlier ones")),
        // The chain has not reached that height.
        None if last < from => None,
        None => {
            Some(format!("is known from height {} on, the next one; `nisd reindex` adds the earlier ones", last.next()))
        }
    }
}

/// Describes a store that does not keep the data.
fn describe_dropped(range: Option<HistoryRange>, is_there: bool) -> Option<String> {
    let text = |to| format!("is no longer kept and no longer returned{to}; `nisd reindex` removes it");
    is_there.then(|| text(range.map(|range| format!(" (it ends at height {})", range.to)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use tempfile::TempDir;

    use super::*;
    use crate::commands::{Command, CommandLine};
    use crate::config;
    use crate::store::{EARLIER_SCHEMAS, Write as _};

    const SYSTEM: System =
        System { unix_millis: || 1_800_000_000_000, millis: || 0, sleep: |_| {}, random: |_| Ok(()) };

    fn tiny(name: &str) -> OsString {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recorded/chains/tiny").join(name).into()
    }

    /// Parses a command line for the store in a folder, and loads its settings.
    fn read(folder: &Path, command: &str, arguments: &[OsString]) -> (Command, Settings) {
        let start = ["nisd", command, "--data"].map(OsString::from).into_iter().chain([folder.into()]);
        let line = CommandLine::parse(start.chain(arguments.iter().cloned()), "").unwrap();
        let home = Some(OsStr::new("unused").as_ref());
        let settings = config::load(line.config.as_deref(), line.overrides, home).unwrap();
        (line.command, settings)
    }

    fn import(folder: &Path, stop_at: &str) -> Result<(), CommandError> {
        let arguments =
            ["--config".into(), tiny("network.properties"), "--stop-at".into(), stop_at.into(), tiny("blocks.bin")];
        let (Command::Import(command), settings) = read(folder, "import", &arguments) else { unreachable!() };
        crate::commands::import::import(&command, &settings, SYSTEM, Stop::default())
    }

    /// Creates a store up to a height that is marked as written by an older version, and has nothing but its blocks.
    fn old_store(stop_at: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        import(folder.path(), stop_at).unwrap();
        let (store, _) = open(folder.path()).unwrap();
        let mut batch = store.begin_write().unwrap();
        batch.put_unjournaled(Table::Meta, b"schema", EARLIER_SCHEMAS[0].as_bytes()).unwrap();
        Table::state().chain([Table::Undo, Table::Importances]).for_each(|table| batch.clear(table).unwrap());
        batch.commit().unwrap();
        folder
    }

    fn open(folder: &Path) -> Result<(Store, String), StoreError> {
        Store::open_existing(folder, AccessMode::Exclusive, store::Options { map_size: 1 << 26 })
    }

    fn digest(folder: &Path) -> Hash256 {
        state::digest(&open(folder).unwrap().0.snapshot().unwrap()).unwrap()
    }

    fn whole(stop_at: &str) -> Hash256 {
        let folder = tempfile::tempdir().unwrap();
        import(folder.path(), stop_at).unwrap();
        digest(folder.path())
    }

    #[test]
    fn read_commands_name_reindex_for_a_store_of_an_older_version() {
        let folder = old_store("20");
        let before = std::fs::read(folder.path().join("data.mdb")).unwrap();
        let (Command::Digest(command), settings) = read(folder.path(), "digest", &[]) else { unreachable!() };
        let said = crate::commands::store::digest(&command, &settings, Stop::default()).unwrap_err().to_string();
        assert!(said.contains("schema 0") && said.contains("`nisd reindex`"), "{said}");
        assert!(std::fs::read(folder.path().join("data.mdb")).unwrap() == before);
    }

    #[test]
    fn write_commands_rebuild_a_store_of_an_older_version_first() {
        let folder = old_store("20");
        import(folder.path(), "60").unwrap();
        assert_eq!(digest(folder.path()), whole("60"));

        let folder = old_store("20");
        let (Command::Rollback(command), settings) = read(folder.path(), "rollback", &["--to".into(), "7".into()])
        else {
            unreachable!()
        };
        rollback(&command, &settings, SYSTEM, Stop::default()).unwrap();
        assert_eq!(digest(folder.path()), whole("7"));

        // A start of the node does the same.
        let folder = old_store("20");
        let (_, settings) = read(folder.path(), "run", &["--config".into(), tiny("network.properties")]);
        let store = open_or_rebuild(&settings, SYSTEM, &Stop::default()).unwrap();
        assert_eq!(state::digest(&store.snapshot().unwrap()).unwrap(), whole("20"));
        drop(store);
        assert!(!folder.path().join("reindex").exists());

        let folder = old_store("20");
        let (Command::Reindex(command), settings) = read(folder.path(), "reindex", &[]) else { unreachable!() };
        reindex(&command, &settings, SYSTEM, &Stop::default()).unwrap();
        assert_eq!(digest(folder.path()), whole("20"));
    }

    #[test]
    fn a_rebuild_that_is_stopped_leaves_the_store_and_continues_with_the_same_command() {
        let folder = old_store("20");
        let (Command::Reindex(command), settings) = read(folder.path(), "reindex", &[]) else { unreachable!() };
        let said = reindex(&command, &settings, SYSTEM, &Stop::new(true.into())).unwrap_err().to_string();
        assert!(said.contains("stopped after height 0; the same command continues"), "{said}");
        assert!(matches!(open(folder.path()), Err(StoreError::OlderSchema { .. })));
        assert!(folder.path().join("reindex").exists());
        reindex(&command, &settings, SYSTEM, &Stop::default()).unwrap();
        assert_eq!(digest(folder.path()), whole("20"));
    }

    #[test]
    fn a_corrupt_block_of_an_older_store_is_not_imported() {
        let folder = old_store("20");
        let (store, data) = (open(folder.path()), folder.path().join("data.mdb"));
        drop(store);
        let file = std::fs::read(tiny("blocks.bin")).unwrap();
        // The signature, which no hash covers, follows length, type, version, time stamp and the length-prefixed
        // signer.
        let signature = &file[4 + 48 + 4..][..64];
        let mut bytes = std::fs::read(&data).unwrap();
        let places: Vec<usize> = (0..bytes.len() - 64).filter(|at| &bytes[*at..*at + 64] == signature).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|at| bytes[*at] ^= 1);
        std::fs::write(&data, bytes).unwrap();
        let (Command::Reindex(command), settings) = read(folder.path(), "reindex", &[]) else { unreachable!() };
        let said = reindex(&command, &settings, SYSTEM, &Stop::default()).unwrap_err().to_string();
        assert!(said.contains("height 2"), "{said}");
    }

    #[test]
    fn an_older_store_of_another_network_is_rejected_before_the_rebuild() {
        let folder = old_store("20");
        let (_, mut settings) = read(folder.path(), "run", &["--config".into(), tiny("network.properties")]);
        settings.network.chain.target_time += 1;
        let said = open_or_rebuild(&settings, SYSTEM, &Stop::default())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(said.contains("nis.blockGenerationTargetTime"), "{said}");
        assert!(matches!(open(folder.path()), Err(StoreError::OlderSchema { .. })));
    }

    #[test]
    fn an_incomplete_history_is_reported_with_the_command_that_completes_it() {
        let said = |from, last, known: Option<u64>| describe_kept(Height(from), Height(last), known.map(Height));
        assert_eq!(said(1, 0, None), None);
        assert_eq!(said(500, 60, None), None);
        assert_eq!(said(1, 60, Some(1)).unwrap(), "is known from height 1 on");
        assert!(said(1, 60, Some(41)).unwrap().starts_with("is known from height 41 on; `nisd reindex`"));
        assert!(said(1, 60, None).unwrap().starts_with("is known from height 61 on, the next one; `nisd reindex`"));
        assert_eq!(describe_dropped(None, false), None);
        let ended = describe_dropped(Some(HistoryRange { from: Height(1), to: Height(40) }), true).unwrap();
        assert!(ended.contains("no longer kept") && ended.contains("height 40"), "{ended}");
    }
}
