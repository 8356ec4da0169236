//! Dispatches requests to the HTTP API, the websocket API and the explorer.

use std::net::IpAddr;

use super::metrics::{EXPLORER_ROUTE_ID, MetricsSources, WEBSOCKET_ROUTE_ID};
use super::{ApiContext, HTTP, Node, SHUTDOWN_GRACE, UNITS_PER_SLICE, WEBSOCKET};
use crate::api::budget::cost;
use crate::api::{Api, Budget, ChainSnapshot, NodeHandle, Now};
use crate::net::service::{ConnectionId, Effects, Exchange, LoopTime, Progress};
use crate::store::StoreError;

impl Node<'_> {
    /// Answers a request, or starts to.
    pub(super) fn request(&mut self, mut exchange: Exchange<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress {
        let listener = exchange.client.listener;
        match listener {
            HTTP if self.serve_explorer(&mut exchange, effects) => Progress::Done,
            WEBSOCKET => self.answer_websocket(exchange, now, effects),
            _ => self.answer_http(exchange, now, effects),
        }
    }

    fn answer_websocket(&mut self, exchange: Exchange<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress {
        exchange.response.route_id = WEBSOCKET_ROUTE_ID;
        let (present, entropy) = (self.broker_time(now), self.next_entropy());
        self.broker.request(exchange, present, entropy, effects)
    }

    /// Serves the explorer page or one of its assets. Returns whether the request was for the explorer.
    fn serve_explorer(&self, exchange: &mut Exchange<'_>, effects: &mut dyn Effects) -> bool {
        let Some(explorer) = self.explorer.as_ref().filter(|_| !exchange.is_rate_limited) else { return false };
        let is_local = || self.api.is_local(&exchange.client, exchange.request);
        let is_served = explorer.answer(exchange.request, is_local, exchange.response);
        if is_served {
            exchange.response.route_id = EXPLORER_ROUTE_ID;
            effects.charge(exchange.connection, cost::REQUEST + cost::bytes(exchange.response.body.len()));
        }
        is_served
    }

    fn answer_http(&mut self, exchange: Exchange<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress {
        // A transaction is validated against the whole mempool. While the mempool is updated after a chain change, only
        // announcements wait.
        if !self.can_accept_announcements()
            && !exchange.is_rate_limited
            && self.api.writes_mempool(exchange.request.method, exchange.request.path)
        {
            self.waiting_announcements.insert(exchange.connection);
            return Progress::Suspended;
        }
        let status = self.status();
        let taken = self.call_api(exchange, now, effects);
        self.start_joining(now, effects);
        // If the node has just joined its network or is shutting down, tick at once to recompute the timers.
        if (self.status(), self.shutdown_at.is_some()) != (status, false) {
            effects.wake_at(now.monotonic);
        }
        taken
    }

    fn call_api(&mut self, mut exchange: Exchange<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress {
        let (connection, from) = (exchange.connection, exchange.client.address);
        let mut budget = Budget::new(UNITS_PER_SLICE);
        let answer = |api: &mut Api, context: &mut ApiContext<'_, '_>, moment| {
            let view = context.view;
            let taken = api.answer(&mut exchange, &view, context, moment, &mut budget);
            (taken, context.shutdown_requested)
        };
        let Ok((taken, is_to_end)) = self.with_api_context(Some((connection, from)), now, effects, answer) else {
            let moment = self.api_now(now);
            self.api.fail(moment, exchange.response);
            return Progress::Done;
        };
        if taken != Progress::Suspended {
            self.peers.iter_mut().for_each(|peers| peers.forget_client(connection));
        }
        if is_to_end && self.shutdown_at.is_none() {
            log::info!("shutdown requested by a client");
            self.shutdown_at = Some(now.monotonic + SHUTDOWN_GRACE);
        }
        effects.charge(connection, budget.used());
        self.resume_due(effects);
        taken
    }

    /// Resumes the requests whose turn has come.
    fn resume_due(&mut self, effects: &mut dyn Effects) {
        self.api.take_resumable().into_iter().for_each(|connection| effects.resume(connection));
    }

    /// The current time as the API reports it.
    fn api_now(&self, now: LoopTime) -> Now {
        let network_millis = self.clock.millis(now.unix_millis, now.monotonic.as_millis() as u64);
        Now { network: self.time(now), network_millis, clock: self.clock_state(now), uptime: now.monotonic }
    }

    /// Calls `run` with the API and its context, on the last commit. Fails if the store cannot be read; the failure
    /// starts the read backoff.
    fn with_api_context<T>(
        &mut self,
        requester: Option<(ConnectionId, IpAddr)>,
        now: LoopTime,
        effects: &mut dyn Effects,
        run: impl FnOnce(&mut Api, &mut ApiContext<'_, '_>, Now) -> T,
    ) -> Result<T, StoreError> {
        let (moment, present, status) = (self.api_now(now), self.peer_now(now), self.status());
        let is_store_failing = self.read_backoff.is_failing() || self.write_backoff.is_failing();
        let Node {
            reader,
            network,
            height,
            api,
            mempool: unconfirmed,
            harvester,
            block_processor: processor,
            peers,
            identity,
            randomness,
            reorgs,
            read_backoff: reading,
            broker,
            memory,
            verification,
            ..
        } = self;
        let (connection, from) = requester.unzip();
        let snapshot = reader.snapshot().inspect_err(|error| reading.record_failure(error, now.monotonic))?;
        let view = ChainSnapshot { snapshot, network, height: *height, status };
        let (store, clock, memory) = (reader.store(), moment.clock, *memory);
        let sources = MetricsSources { store, verification, broker, clock, is_store_failing, memory };
        let mut context = ApiContext {
            mempool: unconfirmed,
            harvester,
            block_processor: processor,
            identity,
            randomness,
            peers,
            reorgs,
            effects: Some(effects),
            now: present,
            connection,
            client_address: from,
            shutdown_requested: false,
            metrics_sources: Some(sources),
            view,
            time: moment.network,
        };
        Ok(run(api, &mut context, moment))
    }

    /// Writes all metrics to the log, if this was requested.
    pub(super) fn log_metrics(&mut self, now: LoopTime, effects: &mut dyn Effects) {
        if std::mem::take(&mut self.must_log_metrics)
            && let Ok(page) = self.with_api_context(None, now, effects, |_, api, _| api.metrics())
        {
            log::info!("figures\n{}", page.to_lines());
        }
    }

    /// Handles a closed connection.
    pub(super) fn on_disconnect(&mut self, connection: ConnectionId, now: LoopTime, effects: &mut dyn Effects) {
        self.waiting_announcements.remove(&connection);
        self.api.on_disconnect(connection);
        self.resume_due(effects);
        self.peers.iter_mut().for_each(|peers| peers.forget_client(connection));
        self.broker.on_disconnect(connection, now.monotonic, effects);
    }

    /// Returns a number that clients cannot easily predict; it only keeps them from using an answer twice.
    fn next_entropy(&mut self) -> i32 {
        // Finalizer of the SplitMix64 generator.
        self.entropy = self.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.entropy ^ self.entropy >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as i32
    }
}
