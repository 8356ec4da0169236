//! The route table: one line and one small function for each route.

mod account;
mod announce;
mod chain;
mod harvesting;
mod mosaic;
mod namespace;
mod node;
mod peer;
mod status;
mod transaction;
mod transfers;

use super::route::{Route, get, post};

/// All routes.
pub const ROUTES: &[Route] = &[
    get("/chain/height", chain::height),
    get("/chain/last-block", chain::last_block),
    post("/block/at/public", chain::block_at),
    get("/account/get", account::by_address),
    get("/account/get/from-public-key", account::by_public_key),
    get("/account/transfers/incoming", transfers::incoming),
    get("/account/transfers/outgoing", transfers::outgoing),
    get("/account/transfers/all", transfers::all),
    post("/local/account/transfers/incoming", transfers::incoming_of_key).local(),
    post("/local/account/transfers/outgoing", transfers::outgoing_of_key).local(),
    post("/local/account/transfers/all", transfers::all_of_key).local(),
    get("/transaction/get", transaction::by_hash),
    post("/transaction/announce", announce::announce).with_large_bodies().into_the_pool(),
    post("/transaction/prepare-announce", announce::prepare_announce).with_large_bodies().local().into_the_pool(),
    post("/transaction/prepare", announce::prepare).with_large_bodies().local(),
    get("/account/unconfirmedTransactions", announce::unconfirmed),
    post("/account/unlock", harvesting::unlock),
    post("/account/lock", harvesting::lock),
    post("/local/account/isunlocked", harvesting::is_unlocked).local(),
    post("/account/isunlocked", harvesting::is_unlocked_broken),
    post("/account/unlocked/info", harvesting::unlocked_info),
    get("/namespace", namespace::by_name),
    get("/namespace/root/page", namespace::roots),
    get("/namespace/mosaic/definition/page", mosaic::in_namespace),
    get("/account/namespace/page", namespace::by_owner),
    get("/mosaic/definition", mosaic::definition),
    get("/mosaic/definition/last", mosaic::last_definition),
    get("/mosaic/definition/page", mosaic::definitions),
    get("/mosaic/supply", mosaic::supply),
    get("/account/mosaic/definition/page", mosaic::by_creator),
    get("/account/mosaic/owned", mosaic::owned),
    get("/account/mosaic/owned/definition", mosaic::owned_definitions),
    post("/account/mosaic/owned/definition/batch", mosaic::owned_definitions_of_all).with_large_bodies(),
    get("/node/info", node::info),
    get("/node/extended-info", node::extended_info),
    get("/node/clock", node::clock),
    get("/time-sync/network-time", node::network_time),
    get("/heartbeat", status::heartbeat),
    get("/status", status::status),
    get("/openapi.json", status::description),
    post("/chain/height", peer::challenge),
    post("/chain/last-block", peer::challenge),
    post("/node/info", peer::challenge),
    post("/time-sync/network-time", peer::challenge),
];
