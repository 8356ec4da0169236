//! Dispatches requests to the HTTP API, the websocket API and the explorer, and carries out what handlers leave to the node.

use super::peers::carry_out_actions;
use super::read_ahead::request_bytes;
use super::{Node, SHUTDOWN_GRACE, UNITS_PER_SLICE, WEBSOCKET};
use crate::api::routes::{self, Access};
use crate::api::{Api, ApiError, BootRequest, Command, NodeContext, NodeStatus};
use crate::budget::Budget;
use crate::model::Block;
use crate::net::service::{ConnectionId, Effects, Exchange, Progress};
use crate::peer::Pusher;
use crate::peer::io::Now;
use crate::quota::Owner;
use crate::rules::Rejection;
use crate::store::StoreError;
use crate::websocket_api::Broker;

impl Node<'_> {
    /// Answers a request, or starts to.
    pub(super) fn request(&mut self, mut exchange: Exchange<'_>, now: Now, effects: &mut dyn Effects) -> Progress {
        let Exchange { connection, client, request, .. } = exchange;
        if client.listener == WEBSOCKET {
            if let NodeStatus::Loading(target) = self.status() {
                self.api.fail(&mut exchange, &ApiError::loading(self.chain.height, target), now.network);
            } else {
                // It only keeps clients from using an answer twice.
                let entropy = self.randomness.next_u64() as i32;
                self.broker.request(exchange, now.network, entropy);
            }
            return Progress::Done;
        }
        if self.read_ahead.has_given_way(connection) {
            self.api.fail(&mut exchange, &ApiError::TOO_MUCH_TO_READ, now.network);
            return Progress::Done;
        }
        // What will be rejected does not wait.
        let route = routes::by_id(request.route).filter(|_| self.rebuild_target.is_none() && !exchange.is_rate_limited);
        if !exchange.is_resumed
            && route.is_some_and(|route| route.reads_store && (route.access == Access::Public || client.is_local))
            && self.read_ahead.is_cold(now.monotonic)
            && self.read_ahead.parks(connection, Owner::of(&client), request_bytes(request), now.monotonic)
        {
            return Progress::Queued;
        }
        // A transaction is validated against the whole mempool, and one of a replaced block may be on its way back into
        // it. While the mempool is updated after a chain change, only requests about these wait.
        if !self.can_accept_announcements() && route.is_some_and(|route| route.needs_mempool) {
            self.waiting_for_mempool.insert(connection);
            return Progress::Suspended;
        }
        let status = self.status();
        let budget = self.budget(UNITS_PER_SLICE);
        let answer = self.with_context(budget, now, |api, _, node| api.answer(&mut exchange, node));
        let progress = match answer {
            Ok(answer) => {
                let done = answer.command.map_or(Ok(0), |command| self.carry_out(command, &mut exchange, now, effects));
                let units = done.unwrap_or_else(|error| {
                    self.api.fail(&mut exchange, &error, now.network);
                    0
                });
                effects.charge(connection, answer.used_units + units);
                if let Some(peers) = &mut self.peers {
                    carry_out_actions(peers, effects);
                    if answer.progress != Progress::Suspended {
                        peers.forget_client(connection);
                    }
                }
                self.resume_due(now, effects);
                answer.progress
            }
            Err(error) => {
                self.read_backoff.record_failure(&error, now.monotonic);
                self.api.fail_unhandled(exchange.response, now.network);
                Progress::Done
            }
        };
        self.start_joining(now, effects);
        // If the node has just joined its network or is shutting down, tick at once to recompute the timers.
        if (self.status(), self.shutdown_at.is_some()) != (status, false) {
            effects.wake_at(now.monotonic);
        }
        progress
    }

    /// Carries out what a handler left to the node; returns the work units spent.
    fn carry_out(
        &mut self,
        command: Command,
        exchange: &mut Exchange<'_>,
        now: Now,
        effects: &mut dyn Effects,
    ) -> Result<u32, ApiError> {
        match command {
            Command::Boot(request) => self.boot(request, now)?,
            Command::PushBlock(block, pusher) => self.push_block(*block, &pusher, now)?,
            Command::SendMetrics => return Ok(self.api.send_metrics(exchange.response, &self.metrics(now, effects))),
            Command::ShutDown if self.shutdown_at.is_none() => {
                log::info!("shutdown requested by a client");
                self.shutdown_at = Some(now.monotonic + SHUTDOWN_GRACE);
            }
            Command::ShutDown => {}
        }
        Ok(0)
    }

    fn boot(&mut self, request: BootRequest, now: Now) -> Result<(), StoreError> {
        self.harvester.unlock_configured(Some(&request.private_key), &self.chain.at(now.network)?)?;
        self.identity.boot(request);
        log::info!("joined the network as {}", self.identity.info.identity.key);
        Ok(())
    }

    /// Submits a block that a peer pushed. Fails if this node has not joined its network.
    fn push_block(&mut self, block: Block, pusher: &Pusher, now: Now) -> Result<(), ApiError> {
        if !self.has_joined() {
            let is_new = self.block_processor.push_before_join(&block, now.monotonic);
            return if is_new { Err(ApiError::NOT_BOOTED) } else { Ok(()) };
        }
        let pushed = self.block_processor.push(block, *pusher, self.chain.reader.snapshot()?, now);
        match (pushed, &mut self.peers) {
            (Err(Rejection::Store(error)), _) => return Err(error.into()),
            (Err(rejection), Some(peers)) => peers.record_pushed_block(pusher, &Err(rejection), now),
            (Err(_) | Ok(_), _) => {}
        }
        Ok(())
    }

    /// Resumes the requests whose turn has come.
    pub(super) fn resume_due(&mut self, now: Now, effects: &mut dyn Effects) {
        for connection in self.api.take_resumable(now.monotonic) {
            effects.resume(connection);
        }
    }

    /// Calls `run` with both APIs and the parts of the node that they use, on the last commit. Fails if the store cannot be
    /// read.
    pub(super) fn with_context<T>(
        &mut self,
        budget: Budget,
        now: Now,
        run: impl FnOnce(&mut Api, &mut Broker, NodeContext<'_>) -> T,
    ) -> Result<T, StoreError> {
        let context = NodeContext {
            status: self.status(),
            clock: self.clock_state(now),
            chain: self.chain.at(now.network)?,
            now,
            forgets_hashes: self.settings.node.forgets_hashes,
            mempool: &mut self.mempool,
            unlocked: &mut self.harvester.unlocked,
            peers: self.peers.as_mut(),
            info: &self.identity.info,
            started: self.identity.started,
            keys: &self.identity.keys,
            reorgs: &self.reorgs,
            events: &mut self.events,
            randomness: &mut self.randomness,
            budget,
        };
        Ok(run(&mut self.api, &mut self.broker, context))
    }

    /// Handles a closed connection.
    pub(super) fn on_disconnect(&mut self, connection: ConnectionId, now: Now, effects: &mut dyn Effects) {
        self.waiting_for_mempool.remove(&connection);
        self.read_ahead.remove(connection, now.monotonic);
        self.api.on_disconnect(connection, now.monotonic);
        self.events.remove(connection);
        self.resume_due(now, effects);
        if let Some(peers) = &mut self.peers {
            peers.forget_client(connection);
        }
        self.broker.on_disconnect(connection, now.monotonic);
    }
}
