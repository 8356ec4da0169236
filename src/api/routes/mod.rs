//! The route table (specification 06, appendix A): one line and one small function for each route.

mod account;
mod chain;
mod peer;
mod status;
mod transaction;

use super::route::{Route, get, post};

/// All routes.
pub const ROUTES: &[Route] = &[
    get("/chain/height", chain::height),
    get("/chain/last-block", chain::last_block),
    post("/block/at/public", chain::block_at),
    get("/account/get", account::by_address),
    get("/account/get/from-public-key", account::by_public_key),
    get("/transaction/get", transaction::by_hash),
    get("/heartbeat", status::heartbeat),
    get("/status", status::status),
    post("/chain/height", peer::challenge),
    post("/chain/last-block", peer::challenge),
];
