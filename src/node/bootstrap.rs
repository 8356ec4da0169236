//! Bootstrap of a node without a chain: fetches the nemesis block from peers and imports it.

use super::{HTTP, UNITS_PER_STEP, api_settings, explorer};
use crate::api::Api;
use crate::budget::Budget;
use crate::chain::{BlockError, BlockImporter, ImportError, ImportOptions, ImportProgress};
use crate::clock::NetworkClock;
use crate::config::{LocalAddresses, Settings};
use crate::explorer::Explorer;
use crate::model::{Height, Timestamp};
use crate::net::service::{Effects, Event, Exchange, ListenerId, LoopTime, Progress, Service};
use crate::peer::{NemesisSearch, PreTrustedPeer};
use crate::store::Store;

/// Limit for the body of a request, in bytes. The body is ignored.
const MAX_BODY_BYTES: usize = 8 << 10;

/// The node's state machine until the store holds the nemesis block.
pub struct Bootstrap<'s> {
    store: &'s Store,
    settings: &'s Settings,
    clock: NetworkClock,
    explorer: Option<Explorer>,
    api: Api,
    search: NemesisSearch,
    /// The import of a received block.
    importer: Option<BlockImporter<'s>>,
    /// Result of the bootstrap, once it has ended.
    outcome: Option<Result<(), BlockError>>,
}

impl<'s> Bootstrap<'s> {
    /// Creates the bootstrap of a node with an empty store and these known peers.
    pub fn new(store: &'s Store, settings: &'s Settings, known: &[PreTrustedPeer], now: LoopTime) -> Bootstrap<'s> {
        let endpoint = |peer: &PreTrustedPeer| match peer {
            PreTrustedPeer::Node(node) => node.endpoint.clone(),
            PreTrustedPeer::Endpoint(endpoint) => endpoint.clone(),
        };
        let known = known.iter().map(endpoint).collect();
        Bootstrap {
            store,
            settings,
            clock: NetworkClock::new(settings.node.clock, now.monotonic.as_millis() as u64),
            explorer: explorer(settings),
            api: Api::new(api_settings(settings, settings.http.local.clone())),
            search: NemesisSearch::new(
                settings.network.clone(),
                settings.nemesis_hash,
                known,
                settings.peer_scope(),
                now.monotonic,
            ),
            importer: None,
            outcome: None,
        }
    }

    /// Returns whether the bootstrap has ended: the store holds the nemesis block, or the store has failed.
    pub fn is_finished(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the store's error, if it has failed.
    pub fn outcome(self) -> Result<(), BlockError> {
        self.outcome.unwrap_or(Ok(()))
    }

    /// Applies changed settings and local addresses.
    pub fn reload(&mut self, settings: &Settings, local: LocalAddresses) {
        self.api.change(api_settings(settings, local));
    }

    fn time(&self, now: LoopTime) -> Timestamp {
        self.clock.now(now.unix_millis, now.monotonic.as_millis() as u64)
    }

    /// The explorer page is already served; it shows that the node is starting.
    fn answer(&mut self, exchange: &mut Exchange<'_>, now: LoopTime) {
        let is_explorer = exchange.client.listener == HTTP
            && !exchange.is_rate_limited
            && self.explorer.as_ref().is_some_and(|explorer| {
                let is_local = || self.api.is_local(&exchange.client, exchange.request);
                explorer.answer(exchange.request, is_local, exchange.response)
            });
        if !is_explorer {
            let time = self.time(now);
            self.api.answer_while_loading(exchange, time);
        }
    }

    fn tick(&mut self, budget: u32, now: LoopTime, effects: &mut dyn Effects) {
        self.run_import(Budget::new(budget), now);
        if self.is_finished() {
            self.search.outstanding().for_each(|call| effects.cancel(call));
            return;
        }
        while let Some((id, request)) = self.search.next_request(now.monotonic) {
            effects.fetch(id, request);
        }
        let next = if self.importer.is_some() { Some(now.monotonic) } else { self.search.next_due() };
        next.into_iter().for_each(|due| effects.wake_at(due));
    }

    /// Imports the received block, validated like a block from a file.
    fn run_import(&mut self, mut budget: Budget, now: LoopTime) {
        let time = self.time(now);
        while let Some(importer) = &mut self.importer
            && !budget.is_exhausted()
        {
            budget.charge(UNITS_PER_STEP);
            match importer.step(time) {
                Ok(ImportProgress::Done) => return self.outcome = Some(Ok(())),
                Ok(_) => {}
                Err(ImportError::Block(_, error @ BlockError::Store(_))) => return self.outcome = Some(Err(error)),
                Err(error) => {
                    self.importer = None;
                    self.search.on_block_rejected(&error.to_string(), now.monotonic);
                }
            }
        }
    }

    fn start_import(&mut self, nemesis: Vec<u8>) {
        // The nemesis block only, regardless of which peer sent it.
        let options = ImportOptions { stop_at: Some(Height::NEMESIS), ..ImportOptions::DEFAULT };
        match BlockImporter::new(self.store, &self.settings.network, nemesis, Vec::new(), options) {
            Ok(importer) => self.importer = Some(importer),
            Err(error) => self.outcome = Some(Err(error.into())),
        }
    }
}

impl Service for Bootstrap<'_> {
    fn handle(&mut self, event: Event<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress {
        match event {
            Event::Request(mut exchange) => {
                self.answer(&mut exchange, now);
            }
            Event::FetchCompleted { fetch, result } => {
                if let Some(nemesis) = self.search.on_reply(fetch, result, now.monotonic) {
                    self.start_import(nemesis);
                }
                effects.wake_at(now.monotonic);
            }
            Event::Tick { budget, .. } => self.tick(budget, now, effects),
            // No response upgrades to a websocket, and none stays unfinished.
            Event::WebSocketOpened { .. }
            | Event::WebSocketMessage { .. }
            | Event::WebSocketResumed { .. }
            | Event::Disconnected { .. } => {}
        }
        Progress::Done
    }

    fn body_limit(&self, _: ListenerId, _: &str, _: &str) -> usize {
        MAX_BODY_BYTES
    }
}
