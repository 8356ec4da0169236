//! The node about itself.

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::views::{ExtendedInfo, NetworkTime, NodeClock};

/// `GET /node/info`
pub fn info(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    call.send(&call.settings.node)
}

/// `GET /node/extended-info`
pub fn extended_info(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    call.send(&ExtendedInfo { node: &call.settings.node, now: call.now.network })
}

/// `GET /node/clock`, which NIS1 does not have: whether the clock can be believed.
pub fn clock(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&NodeClock { time: call.now.network, state: call.now.clock })
}

/// `GET /time-sync/network-time`
pub fn network_time(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&NetworkTime { millis: call.now.network_millis })
}
