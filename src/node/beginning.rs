//! Bootstrap of a node without a chain: fetches the nemesis block from peers and imports it.

use std::time::Duration;

use super::import::BATCH;
use super::partners::{fetch_of, reply_of};
use super::{HTTP, UNITS_PER_STEP, api_settings, explorer};
use crate::api::{Budget, LoadingApi};
use crate::chain::{BlockError, Intake, IntakeError, IntakeOptions, IntakeProgress};
use crate::clock::NetworkClock;
use crate::config::{LocalAddresses, Settings};
use crate::explorer::Explorer;
use crate::model::{Height, Timestamp};
use crate::net::fetch::FetchId;
use crate::net::machine::{Effects, Event, Exchange, ListenerId, Machine, Moment, Taken};
use crate::peer::nemesis_search::FORMAT;
use crate::peer::outside::CallId;
use crate::peer::{KnownPeer, NemesisSearch};
use crate::store::Store;

/// Timeouts for a whole response and for a pause within it.
const TIME: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(10);
/// Limit for the body of a request, in bytes. The body is ignored.
const MOST_BODY_BYTES: usize = 8 << 10;
/// Imports the nemesis block only, regardless of which peer sent it.
const ONE_BLOCK: IntakeOptions = IntakeOptions { stop_at: Some(Height::NEMESIS), ..BATCH };

/// The node's state machine until the store holds the nemesis block.
pub struct Beginning<'s> {
    store: &'s Store,
    settings: &'s Settings,
    clock: NetworkClock,
    explorer: Option<Explorer>,
    api: LoadingApi,
    search: NemesisSearch,
    /// The import of a received block.
    intake: Option<Intake<'s>>,
    /// Result of the bootstrap, once it has ended.
    outcome: Option<Result<(), BlockError>>,
}

impl<'s> Beginning<'s> {
    /// Creates the bootstrap of a node with an empty store and these known peers.
    pub fn new(store: &'s Store, settings: &'s Settings, known: &[KnownPeer], now: Moment) -> Beginning<'s> {
        let endpoint = |peer: &KnownPeer| match peer {
            KnownPeer::Node(node) => node.endpoint.clone(),
            KnownPeer::Endpoint(endpoint) => endpoint.clone(),
        };
        let known = known.iter().map(endpoint).collect();
        Beginning {
            store,
            settings,
            clock: NetworkClock::new(settings.clock, now.running.as_millis() as u64),
            explorer: explorer(settings),
            api: LoadingApi::new(api_settings(settings, settings.local.clone())),
            search: NemesisSearch::new(settings.network.clone(), settings.nemesis_hash, known, now.running),
            intake: None,
            outcome: None,
        }
    }

    /// Returns whether the bootstrap has ended: the store holds the nemesis block, or the store has failed.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the store's error, if it has failed.
    pub fn outcome(self) -> Result<(), BlockError> {
        self.outcome.unwrap_or(Ok(()))
    }

    /// Applies changed settings and local addresses.
    pub fn change(&mut self, settings: &Settings, local: LocalAddresses) {
        self.api.change(api_settings(settings, local));
    }

    fn time(&self, now: Moment) -> Timestamp {
        self.clock.now(now.unix_millis, now.running.as_millis() as u64)
    }

    /// The explorer page is already served; it shows that the node is starting.
    fn answer(&mut self, exchange: &mut Exchange<'_>, now: Moment) {
        let is_page = exchange.caller.listener == HTTP
            && !exchange.is_refused
            && self.explorer.as_ref().is_some_and(|explorer| {
                let is_local = || self.api.is_local(&exchange.caller, exchange.request);
                explorer.answer(exchange.request, is_local, exchange.reply)
            });
        if !is_page {
            let time = self.time(now);
            self.api.answer(exchange, time);
        }
    }

    fn turn(&mut self, budget: u32, now: Moment, effects: &mut dyn Effects) {
        self.take_in(Budget::new(budget), now);
        if self.is_over() {
            self.search.outstanding().for_each(|call| effects.cancel(FetchId(call.0)));
            return;
        }
        self.search
            .turn(now.running, |node, request| CallId(effects.fetch(fetch_of(node, request, FORMAT, TIME, SILENCE)).0));
        let next = if self.intake.is_some() { Some(now.running) } else { self.search.next_due() };
        next.into_iter().for_each(|due| effects.wake_at(due));
    }

    /// Imports the received block, validated like a block from a file.
    fn take_in(&mut self, mut budget: Budget, now: Moment) {
        let time = self.time(now);
        while let Some(intake) = &mut self.intake
            && !budget.is_spent()
        {
            budget.spend(UNITS_PER_STEP);
            match intake.step(time) {
                Ok(IntakeProgress::Done) => return self.outcome = Some(Ok(())),
                Ok(_) => {}
                Err(IntakeError::Block(_, error @ BlockError::Store(_))) => return self.outcome = Some(Err(error)),
                Err(error) => {
                    self.intake = None;
                    self.search.refused(&error.to_string(), now.running);
                }
            }
        }
    }

    fn begin_to_take_in(&mut self, nemesis: Vec<u8>) {
        match Intake::new(self.store, &self.settings.network, nemesis, Vec::new(), ONE_BLOCK) {
            Ok(intake) => self.intake = Some(intake),
            Err(error) => self.outcome = Some(Err(error.into())),
        }
    }
}

impl Machine for Beginning<'_> {
    fn handle(&mut self, event: Event<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        match event {
            Event::Request(mut exchange) => {
                self.answer(&mut exchange, now);
            }
            Event::Fetched { fetch, result } => {
                if let Some(nemesis) = self.search.ended(CallId(fetch.0), reply_of(result), now.running) {
                    self.begin_to_take_in(nemesis);
                }
                effects.wake_at(now.running);
            }
            Event::Turn { budget, .. } => self.turn(budget, now, effects),
            // No response upgrades to a websocket, and none stays unfinished.
            Event::Opened { .. } | Event::Heard { .. } | Event::Resumed { .. } | Event::Gone { .. } => {}
        }
        Taken::Done
    }

    fn body_limit(&self, _: ListenerId, _: &str, _: &str) -> usize {
        MOST_BODY_BYTES
    }
}
