//! The node about itself and its life.

use crate::api::actions::BootRequest;
use crate::api::budget::cost;
use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::api::views::{AuditedRequests, ExtendedInfo, NewKey, NoData, NodeClock, NodeDescription, Timers};
use crate::codec::{ReadError, Source, limits};
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Height;
use crate::peer::Peers;
use crate::peer::wire::{CommunicationTimeStamps, Endpoint, List};

/// Who the node is to be, in a request to boot it.
struct PrivateIdentity {
    private_key: PrivateKey,
    name: Option<String>,
}

impl Readable for PrivateIdentity {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let private_key = crate::api::secret::read_key(source, "private-key")?;
        Ok(PrivateIdentity { private_key, name: read_text(source, "name")? })
    }
}

fn read_text<'a, S: Source<'a>>(source: &mut S, label: &'static str) -> Result<Option<String>, ReadError> {
    Ok(source.string(label, limits::TEXT_UNITS)?.map(|text| text.into_owned()))
}

impl Readable for BootRequest {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let PrivateIdentity { private_key, name } = source.need_object("identity", PrivateIdentity::read)?;
        let endpoint = source.need_object("endpoint", Endpoint::read)?;
        let application = source.need_object("metaData", |source| read_text(source, "application"))?;
        Ok(BootRequest { private_key, name, endpoint, application })
    }
}

/// `POST /node/boot`
pub fn boot(call: &mut Call<'_>) -> Result<(), Failure> {
    let request: BootRequest = call.body()?;
    if call.view.is_booted() {
        return Err(Failure::ALREADY_BOOTED);
    }
    call.budget.spend(cost::KEY);
    Ok(call.actions.boot(request)?)
}

/// `GET /shutdown`
pub fn shut_down(call: &mut Call<'_>) -> Result<(), Failure> {
    call.actions.shut_down();
    Ok(())
}

/// `GET /account/generate`
pub fn new_key(call: &mut Call<'_>) -> Result<(), Failure> {
    call.budget.spend(cost::KEY);
    let private_key = call.actions.new_key();
    let public_key = KeyPair::new(&private_key).public();
    let address = call.address_of(&public_key);
    call.send_secret(&NewKey { private_key: &private_key.printed(), public_key, address })
}

/// What the node tells of itself, once it has joined its network.
pub fn description(call: &Call<'_>) -> Result<NodeDescription, Failure> {
    call.need_network()?;
    Ok(call.actions.node().clone())
}

/// `GET /node/info`
pub fn info(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = description(call)?;
    call.send(&node.info)
}

/// `GET /node/extended-info`
pub fn extended_info(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = description(call)?;
    call.send(&ExtendedInfo { node: &node, now: call.now.network })
}

/// `GET /node/clock`, which NIS1 does not have: whether the clock can be believed.
pub fn clock(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&NodeClock { time: call.now.network, state: call.now.clock })
}

/// The clock; the request is answered as soon as it has come.
pub fn time_stamps(call: &Call<'_>) -> CommunicationTimeStamps {
    let millis = call.now.network_millis;
    CommunicationTimeStamps { send: millis, receive: millis }
}

/// `GET /time-sync/network-time`
pub fn network_time(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&time_stamps(call))
}

/// `GET /node/peer-list/all`
pub fn known_nodes(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    let nodes = call.actions.peers().map(Peers::collection).unwrap_or_default();
    call.send(&nodes)
}

/// `GET /node/peer-list/reachable`
pub fn reachable_nodes(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    let nodes = call.actions.peers().map(Peers::active).unwrap_or_default();
    call.send(&nodes)
}

/// `GET /node/peer-list/active`
pub fn partners(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    let nodes = call.actions.partners();
    call.send(&nodes)
}

/// `GET /node/experiences`
pub fn experiences(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    let entries = call.actions.peers().map(Peers::experience_entries).unwrap_or_default();
    call.send(&List(entries))
}

/// Any list of what a node knows that has joined its network, and that this one does not yet.
pub fn nothing_in_network(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    call.send(&NoData)
}

/// `GET /node/active-peers/max-chain-height`: 1 if there is nobody to ask.
pub fn most_height(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    call.send(&Height::NEMESIS)
}

/// `GET /debug/timers`
pub fn timers(call: &mut Call<'_>) -> Result<(), Failure> {
    let timers = call.actions.peers().map(|peers| peers.timers().to_vec()).unwrap_or_default();
    call.send(&Timers(&timers))
}

/// `GET /debug/connections/incoming` and `outgoing`
pub fn connections(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&AuditedRequests)
}
