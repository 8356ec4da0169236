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

use super::route::{Route, get, post};

/// All routes.
pub const ROUTES: &[Route] = &[
    get("/chain/height", chain::height),
    get("/chain/score", chain::score),
    get("/chain/last-block", chain::last_block),
    post("/block/at/public", chain::block_at),
    get("/account/get", account::by_address),
    get("/account/get/from-public-key", account::by_public_key),
    get("/account/get/forwarded", account::forwarded),
    get("/account/get/forwarded/from-public-key", account::forwarded_by_public_key),
    post("/account/get/batch", account::batch).with_large_bodies(),
    get("/account/status", account::status),
    get("/account/harvests", account::harvests),
    get("/account/importances", account::importances),
    get("/account/historical/get", account::history),
    post("/account/historical/get/batch", account::histories).with_large_bodies(),
    get("/account/generate", node::new_key).local(),
    post("/local/block/at", chain::explorer_block).local(),
    post("/local/chain/blocks-after", chain::explorer_blocks).local(),
    get("/transaction/get", transaction::by_hash),
    post("/transaction/announce", announce::announce).with_large_bodies().into_the_pool(),
    post("/transaction/prepare-announce", announce::prepare_announce).with_large_bodies().local().into_the_pool(),
    post("/transaction/prepare", announce::prepare).with_large_bodies().local(),
    get("/account/unconfirmedTransactions", announce::unconfirmed),
    post("/account/unlock", harvesting::unlock),
    post("/account/lock", harvesting::lock),
    post("/local/account/isunlocked", harvesting::is_unlocked).local(),
    post("/account/isunlocked", harvesting::is_address_unlocked),
    post("/account/unlocked/info", harvesting::unlocked_info),
    get("/namespace", namespace::by_name),
    get("/namespace/root/page", namespace::roots),
    get("/namespace/mosaic/definition/page", mosaic::in_namespace),
    get("/account/namespace/page", namespace::by_owner),
    get("/mosaic/definition", mosaic::definition),
    get("/mosaic/definition/last", mosaic::last_definition),
    get("/mosaic/definition/page", mosaic::definitions),
    get("/mosaic/supply", mosaic::supply),
    post("/mosaic/supply/batch", mosaic::supplies).with_large_bodies(),
    get("/local/mosaic/definition/supply", mosaic::supply_at).local(),
    get("/local/mosaics/expired", mosaic::expired).local(),
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
    post("/node/boot", node::boot).local(),
    get("/shutdown", node::shut_down).local(),
    get("/node/peer-list/all", node::known_nodes),
    get("/node/peer-list/reachable", node::nothing_in_network),
    get("/node/peer-list/active", node::nothing_in_network),
    get("/node/experiences", node::nothing_in_network),
    get("/node/active-peers/max-chain-height", node::most_height),
    get("/debug/timers", node::timers),
    get("/debug/connections/incoming", node::connections),
    get("/debug/connections/outgoing", node::connections),
    get("/debug/time-synchronization", node::nothing_in_network),
    post("/chain/height", peer::height),
    post("/chain/score", peer::score),
    post("/chain/last-block", peer::last_block),
    post("/block/at", peer::block_at),
    post("/node/info", peer::info),
    post("/node/peer-list/active", peer::active_nodes),
    post("/node/experiences", peer::experiences),
    post("/node/cysm", peer::can_you_see_me),
    post("/time-sync/network-time", peer::network_time),
];
