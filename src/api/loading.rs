//! The interface of a node that has no chain yet.

use super::error::ApiError;
use super::media::Accept;
use super::response_writer::ResponseWriter;
use super::settings;
use super::settings::Settings;
use super::views::{RequestResult, ResultKind};
use crate::codec::json::JsonEncoder;
use crate::model::Timestamp;
use crate::net::http::Request;
use crate::net::service::{Client, Exchange};

/// Status code of a node that loads its chain.
const LOADING: i32 = 8;

/// The interface of a node without a chain: `/status` is answered, every other path fails with 503.
pub struct LoadingApi {
    settings: Settings,
    json: JsonEncoder,
}

impl LoadingApi {
    /// Creates the interface.
    pub fn new(settings: Settings) -> LoadingApi {
        LoadingApi { settings, json: JsonEncoder::default() }
    }

    /// Replaces the settings, from the next request on.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Returns whether a request has local access.
    pub fn is_local(&self, client: &Client, request: &Request<'_>) -> bool {
        settings::is_local(client, request, &self.settings)
    }

    /// Answers a request of any listener.
    pub fn answer(&mut self, exchange: &mut Exchange<'_>, now: Timestamp) {
        let request = exchange.request;
        let wanted = Accept::by_accept(request.header("Accept"));
        let mut writer = ResponseWriter { response: exchange.response, json: &mut self.json, accept: wanted, now };
        writer.response.reset();
        if exchange.is_rate_limited {
            return writer.too_many_requests();
        }
        if self.settings.inner_path(request.path) == "/status" {
            writer.common_headers();
            writer.view(&RequestResult { kind: ResultKind::Status, code: LOADING, message: "status" });
        } else {
            writer.failure(&ApiError::LOADING_CHAIN);
        }
    }
}
