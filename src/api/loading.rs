//! The interface of a node that has no chain yet.

use super::failure::Failure;
use super::media::Wanted;
use super::reply::Writer;
use super::rights;
use super::settings::Settings;
use super::views::{RequestResult, ResultKind};
use crate::codec::json::JsonSink;
use crate::model::Timestamp;
use crate::net::http::Request;
use crate::net::machine::{Caller, Exchange};

/// Status code of a node that loads its chain.
const LOADING: i32 = 8;

/// The interface of a node without a chain: `/status` is answered, every other path fails with 503.
pub struct LoadingApi {
    settings: Settings,
    json: JsonSink,
}

impl LoadingApi {
    /// Creates the interface.
    pub fn new(settings: Settings) -> LoadingApi {
        LoadingApi { settings, json: JsonSink::default() }
    }

    /// Replaces the settings, from the next request on.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Returns whether a request has local access.
    pub fn is_local(&self, caller: &Caller, request: &Request<'_>) -> bool {
        rights::is_local(caller, request, &self.settings)
    }

    /// Answers a request of any listener.
    pub fn answer(&mut self, exchange: &mut Exchange<'_>, now: Timestamp) {
        let request = exchange.request;
        let wanted = Wanted::by_accept(request.header("Accept"));
        let mut writer = Writer { reply: exchange.reply, json: &mut self.json, wanted, now };
        writer.reply.reset();
        if exchange.is_refused {
            return writer.too_many_requests();
        }
        if self.settings.inner_path(request.path) == "/status" {
            writer.common_headers();
            writer.view(&RequestResult { kind: ResultKind::Status, code: LOADING, message: "status" });
        } else {
            writer.failure(&Failure::LOADING_CHAIN);
        }
    }
}
