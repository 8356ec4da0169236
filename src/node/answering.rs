//! Requests, handed to the interfaces.

use super::{Desk, FAREWELL, HTTP, Node, UNITS_PER_SHARE};
use crate::api::{Budget, ChainView, Now};
use crate::net::machine::{ConnectionId, Effects, Exchange, Moment, Taken};

impl Node<'_> {
    /// Answers a request, or begins to.
    pub(super) fn request(&mut self, exchange: Exchange<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        if exchange.caller.listener == HTTP {
            return self.answer_http(exchange, now, effects);
        }
        let (present, entropy) = (self.present(now), self.next_entropy());
        self.broker.request(exchange, present, entropy, effects)
    }

    fn answer_http(&mut self, mut exchange: Exchange<'_>, now: Moment, effects: &mut dyn Effects) -> Taken {
        let connection = exchange.connection;
        let network_millis = self.clock.millis(now.unix_millis, now.running.as_millis() as u64);
        let (clock, running) = (self.clock_state(now), now.running);
        let moment = Now { network: self.time(now), network_millis, clock, running };
        // A transaction is judged on all that are in the pool: while these are taken over, it waits, and nobody else.
        if !self.may_announce()
            && !exchange.is_refused
            && self.api.fills_pool(exchange.request.method, exchange.request.path)
        {
            self.waiting.push(connection);
            return Taken::Parked;
        }
        let status = self.status();
        let present = self.peer_now(now);
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
            reading,
            ..
        } = self;
        let snapshot = match reader.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                reading.note(&error, now.running);
                api.fail(moment, exchange.reply);
                return Taken::Done;
            }
        };
        let view = ChainView { snapshot, network, height: *height, status };
        let time = moment.network;
        let mut desk = Desk {
            unconfirmed,
            harvester,
            judge,
            identity,
            randomness,
            partners,
            effects: Some(effects),
            now: present,
            connection: Some(connection),
            meeting: None,
            inquiry: None,
            is_to_end: false,
            view,
            time,
        };
        let mut budget = Budget::new(UNITS_PER_SHARE);
        let taken = api.answer(&mut exchange, &view, &mut desk, moment, &mut budget);
        let Desk { meeting, inquiry, is_to_end, .. } = desk;
        if taken == Taken::Parked {
            meeting.into_iter().for_each(|meeting| self.partners.wait(meeting, connection));
            inquiry.into_iter().for_each(|inquiry| self.partners.wait_for_height(inquiry, connection));
        }
        if is_to_end && self.ends_at.is_none() {
            log::info!("told to end by a request");
            self.ends_at = Some(now.running + FAREWELL);
        }
        self.join_if_told(now, effects);
        // One that has just joined its network, or is to end, looks anew when it has something to do.
        if (self.status(), self.ends_at.is_some()) != (status, false) {
            effects.wake_at(now.running);
        }
        effects.charge(connection, budget.used());
        taken
    }

    /// A connection is gone.
    pub(super) fn gone(&mut self, connection: ConnectionId, now: Moment, effects: &mut dyn Effects) {
        self.waiting.retain(|waiting| *waiting != connection);
        self.api.gone(connection);
        self.partners.gone(connection);
        self.broker.gone(connection, now.running, effects);
    }

    /// A number that clients cannot foresee well: it only keeps them from using an answer twice.
    fn next_entropy(&mut self) -> i32 {
        // The finalizer of the splitmix generator.
        self.entropy = self.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.entropy ^ self.entropy >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as i32
    }
}
