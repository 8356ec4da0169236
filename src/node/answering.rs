//! Dispatches requests to the HTTP API, the websocket API and the explorer.

use std::net::IpAddr;

use super::figures::{EXPLORER_KIND, Sources, WEBSOCKET_KIND};
use super::{Desk, FAREWELL, HTTP, Node, UNITS_PER_SHARE, WEBSOCKET};
use crate::api::budget::cost;
use crate::api::{Actions, Api, Budget, ChainView, Now};
use crate::net::machine::{ConnectionId, Effects, Exchange, Moment, Taken};
use crate::store::StoreError;

impl Node<'_> {
    /// Answers a request, or starts to.
    pub(super) fn request(&mut self, mut exchange: Exchange<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        let listener = exchange.caller.listener;
        match listener {
            HTTP if self.send_page(&mut exchange, effects) => Taken::Done,
            WEBSOCKET => self.answer_websocket(exchange, now, effects),
            _ => self.answer_http(exchange, now, effects),
        }
    }

    fn answer_websocket(&mut self, exchange: Exchange<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        exchange.reply.kind = WEBSOCKET_KIND;
        let (present, entropy) = (self.present(now), self.next_entropy());
        self.broker.request(exchange, present, entropy, effects)
    }

    /// Serves the explorer page or one of its assets. Returns whether the request was for the explorer.
    fn send_page(&self, exchange: &mut Exchange<'_>, effects: &mut dyn Effects) -> bool {
        let Some(explorer) = self.explorer.as_ref().filter(|_| !exchange.is_refused) else { return false };
        let is_local = || self.api.is_local(&exchange.caller, exchange.request);
        let is_sent = explorer.answer(exchange.request, is_local, exchange.reply);
        if is_sent {
            exchange.reply.kind = EXPLORER_KIND;
            effects.charge(exchange.connection, cost::REQUEST + cost::bytes(exchange.reply.body.len()));
        }
        is_sent
    }

    fn answer_http(&mut self, exchange: Exchange<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        // A transaction is validated against the whole mempool. While the mempool is updated after a chain change, only
        // announcements wait.
        if !self.may_announce()
            && !exchange.is_refused
            && self.api.fills_pool(exchange.request.method, exchange.request.path)
        {
            self.waiting.insert(exchange.connection);
            return Taken::Parked;
        }
        let status = self.status();
        let taken = self.ask_interface(exchange, now, effects);
        self.join_if_told(now, effects);
        // If the node has just joined its network or is shutting down, tick at once to recompute the timers.
        if (self.status(), self.ends_at.is_some()) != (status, false) {
            effects.wake_at(now.running);
        }
        taken
    }

    fn ask_interface(&mut self, mut exchange: Exchange<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        let (connection, from) = (exchange.connection, exchange.caller.address);
        let mut budget = Budget::new(UNITS_PER_SHARE);
        let answer = |api: &mut Api, desk: &mut Desk<'_, '_>, moment| {
            let view = desk.view;
            let taken = api.answer(&mut exchange, &view, desk, moment, &mut budget);
            (taken, desk.meeting, desk.inquiry, desk.is_to_end)
        };
        let Ok((taken, meeting, inquiry, is_to_end)) = self.at_desk(Some((connection, from)), now, effects, answer)
        else {
            let moment = self.api_now(now);
            self.api.fail(moment, exchange.reply);
            return Taken::Done;
        };
        if taken == Taken::Parked {
            meeting.into_iter().for_each(|meeting| self.partners.wait(meeting, connection));
            inquiry.into_iter().for_each(|inquiry| self.partners.wait_for_height(inquiry, connection));
        }
        if is_to_end && self.ends_at.is_none() {
            log::info!("told to end by a request");
            self.ends_at = Some(now.running + FAREWELL);
        }
        effects.charge(connection, budget.used());
        self.resume_due(effects);
        taken
    }

    /// Resumes the requests whose turn has come.
    fn resume_due(&mut self, effects: &mut dyn Effects) {
        self.api.take_due().into_iter().for_each(|connection| effects.resume(connection));
    }

    /// The current time as the API reports it.
    fn api_now(&self, now: Moment) -> Now {
        let network_millis = self.clock.millis(now.unix_millis, now.running.as_millis() as u64);
        Now { network: self.time(now), network_millis, clock: self.clock_state(now), running: now.running }
    }

    /// Calls `act` with the API and its context, on the last commit. Fails if the store cannot be read; the failure
    /// starts the read backoff.
    fn at_desk<T>(
        &mut self,
        asked_by: Option<(ConnectionId, IpAddr)>,
        now: Moment,
        effects: &mut dyn Effects,
        act: impl FnOnce(&mut Api, &mut Desk<'_, '_>, Now) -> T,
    ) -> Result<T, StoreError> {
        let (moment, present, status) = (self.api_now(now), self.peer_now(now), self.status());
        let is_in_trouble = self.reading.is_on() || self.writing.is_on();
        let Node {
            reader,
            network,
            height,
            api,
            unconfirmed,
            harvester,
            judge,
            partners,
            identity,
            randomness,
            reorgs,
            reading,
            broker,
            memory,
            verification,
            ..
        } = self;
        let (connection, from) = asked_by.unzip();
        let snapshot = reader.snapshot().inspect_err(|error| reading.note(error, now.running))?;
        let view = ChainView { snapshot, network, height: *height, status };
        let (store, clock, memory) = (reader.store(), moment.clock, *memory);
        let sources = Sources { store, verification, broker, clock, is_in_trouble, memory };
        let mut desk = Desk {
            unconfirmed,
            harvester,
            judge,
            identity,
            randomness,
            partners,
            reorgs,
            effects: Some(effects),
            now: present,
            connection,
            from,
            meeting: None,
            inquiry: None,
            is_to_end: false,
            sources: Some(sources),
            view,
            time: moment.network,
        };
        Ok(act(api, &mut desk, moment))
    }

    /// Writes all metrics to the log, if this was requested.
    pub(super) fn log_figures(&mut self, now: Moment, effects: &mut dyn Effects) {
        if std::mem::take(&mut self.is_to_log_figures)
            && let Ok(page) = self.at_desk(None, now, effects, |_, desk, _| desk.figures())
        {
            log::info!("figures\n{}", page.to_lines());
        }
    }

    /// Handles a closed connection.
    pub(super) fn gone(&mut self, connection: ConnectionId, now: Moment, effects: &mut dyn Effects) {
        self.waiting.remove(&connection);
        self.api.gone(connection);
        self.resume_due(effects);
        self.partners.gone(connection);
        self.broker.gone(connection, now.running, effects);
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
