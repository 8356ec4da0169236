//! A recording and the chains of its nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nisd::codec::{Context, Readable};
use nisd::config::Settings;
use nisd::model::units::EPOCH_UNIX_MILLIS;
use nisd::model::{Block, Hash256};
use nisd::peer::wire::{AuthenticatedResponse, CommunicationTimeStamps, List, SecureEntity};
use nisd::store::{ChainIdentity, Options, Store};

use crate::common::load_settings;
use crate::common::recorded_chain::import_list;
use crate::recorded::peer_recording::{Call, Recording, read};

/// The recordings of each network; those with faulty blocks last.
const NETWORKS: [&[&str]; 2] = [&["bootstrap"], &["steady", "fork", "join", "misbehave"]];
/// The second from which a fake client sends requests to the node under test, which has its chain by then.
const FAULTS_BEGIN: f64 = 127.8;
/// The second at which the new node has the whole chain.
const CHAIN_COMPLETE: f64 = 58.0;
/// A recording and the blocks of its network.
pub struct Source {
    pub name: &'static str,
    folder: PathBuf,
    pub recording: Recording,
    /// All blocks except the nemesis block, by hash.
    blocks: BTreeMap<Hash256, Block>,
}

impl Source {
    /// Reads the recording and all others of its network.
    pub fn read(folder: &Path, name: &'static str) -> Source {
        let mut blocks = BTreeMap::new();
        let network = NETWORKS.iter().find(|network| network.contains(&name)).expect("a recording");
        for name in *network {
            let recording = read(folder, name);
            let all = recording.calls.iter().flat_map(|call| blocks_of(call, Context::of(&recording.network)));
            for block in all.filter(|block| block.height.0 > 1) {
                blocks.entry(block.hash()).or_insert(block);
            }
        }
        Source { name, folder: folder.to_owned(), recording: read(folder, name), blocks }
    }

    /// Returns the context in which bodies are decoded.
    pub fn context(&self) -> Context {
        Context::of(&self.recording.network)
    }

    /// Returns the folder with the configuration of its nodes.
    fn configs(&self) -> PathBuf {
        self.folder.join(format!("{}-config", self.name))
    }

    /// Returns the blocks up to `tip` without the nemesis block.
    fn chain(&self, tip: Hash256) -> Vec<Block> {
        let mut chain = Vec::new();
        let mut next = self.blocks.get(&tip);
        while let Some(block) = next {
            chain.push(block.clone());
            next = self.blocks.get(&parent(block));
        }
        chain.reverse();
        assert!(chain.first().is_none_or(|block| block.height.0 == 2), "the chain of {} is not known", self.name);
        chain
    }

    /// Returns the chain that a node starts with, and the second from which that is known.
    pub fn initial_chain(&self, node: &str) -> (Vec<Block>, f64) {
        let mut pushed = self.recording.calls.iter().filter(|call| call.path == "/push/block");
        match (self.name, node) {
            ("bootstrap", node) => {
                let tip = self.blocks.values().max_by_key(|block| block.height).expect("a block");
                (self.chain(tip.hash()), if node == "C" { CHAIN_COMPLETE } else { 0.0 })
            }
            ("misbehave", _) => {
                // Starts with its own last block.
                let first = pushed.find(|call| call.to == node).expect("a push");
                let tip = blocks_of(first, self.context()).pop().expect("a block");
                (self.chain(tip.hash()), FAULTS_BEGIN)
            }
            _ => {
                let first = pushed.find(|call| call.from == node || call.to == node);
                let block = first.and_then(|call| blocks_of(call, self.context()).pop());
                (block.map_or(Vec::new(), |block| self.chain(parent(&block))), 0.0)
            }
        }
    }

    /// Builds a chain in a folder.
    pub fn build_chain(&self, blocks: &[Block], folder: &Path, settings: &Settings) {
        let store = Store::open(folder, &ChainIdentity::of(&settings.network), Options::default()).expect("a store");
        let nemesis = std::fs::read(self.configs().join("nemesis.bin")).expect("the nemesis block");
        import_list(&store, &settings.network, &nemesis, blocks);
    }

    /// Returns the Unix time of the start in milliseconds, computed from a node's recorded network time.
    pub fn started_at(&self) -> i64 {
        let asked =
            |call: &&Call| call.path == "/time-sync/network-time" && call.status == Some(200) && call.method == "POST";
        let call = self.recording.calls.iter().find(asked).expect("somebody has asked for the time");
        let read = call.response_format().read(&call.response, self.context());
        let answer: AuthenticatedResponse<CommunicationTimeStamps> = read.expect("a time");
        EPOCH_UNIX_MILLIS + answer.entity.receive - (call.at * 1_000.0) as i64
    }

    /// Returns the settings of a node, changed so that it makes no blocks, asks nobody for its address and does not
    /// adjust its clock.
    pub fn settings(&self, node: &str) -> Settings {
        let changed = [
            ("nis.shouldAutoHarvestOnBoot", "false"),
            ("nis.ipDetectionMode", "Disabled"),
            ("nis.useNetworkTime", "false"),
        ];
        load_settings(Some(&self.configs().join(node).join("config-user.properties")), &changed)
    }
}

/// Returns the hash of the previous block.
fn parent(block: &Block) -> Hash256 {
    Hash256(block.previous_hash.0.as_slice().try_into().expect("a whole hash"))
}

/// Returns the blocks in a call that can be decoded.
pub fn blocks_of(call: &Call, context: Context) -> Vec<Block> {
    fn read<T: Readable>(call: &Call, context: Context) -> Option<T> {
        let format = call.response_format();
        let answered = || format.read::<AuthenticatedResponse<T>>(&call.response, context).ok();
        if call.method == "POST" { answered().map(|answer| answer.entity) } else { None }
    }
    match call.path.as_str() {
        "/push/block" => {
            let pushed = call.request_format().read::<SecureEntity<Block>>(&call.request, context);
            pushed.into_iter().map(|pushed| pushed.entity).collect()
        }
        "/chain/last-block" | "/block/at" if call.status == Some(200) => read(call, context).into_iter().collect(),
        "/chain/blocks-after" if call.status == Some(200) => {
            read::<List<Block>>(call, context).map_or(Vec::new(), |blocks| blocks.0)
        }
        _ => Vec::new(),
    }
}
