//! Handlers of the node itself: boot, shutdown, identity, peers and debugging.

use crate::api::actions::{Actions, BootRequest};
use crate::api::budget::{Budget, cost};
use crate::api::call::{Call, Readable};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::long::{LongView, Sheet};
use crate::api::views::{
    Audit, AuditedRequests, ExtendedInfo, NewKey, NodeClock, NodeDescription, NodeStatus, PeersReport, ReorgsReport,
    TimeSynchronisations, Timers,
};
use crate::chain::Reorgs;
use crate::codec::{ReadError, Source, limits};
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Height;
use crate::net::machine::Taken;
use crate::peer::wire::{CommunicationTimeStamps, Endpoint, List};
use crate::peer::{AuditEntry, Largest, Peers};

/// Identity of the node in a boot request.
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
    if call.view.status != NodeStatus::Running {
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

/// Returns the description of the node; fails unless it has joined its network.
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

/// `GET /node/clock`, which NIS1 does not have: whether the clock is reliable.
pub fn clock(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&NodeClock { time: call.now.network, state: call.now.clock })
}

/// Returns the network time. Both times are equal, as a request is answered when it arrives.
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

/// `GET /node/active-peers/max-chain-height`: waits until the sync peers have reported their heights.
pub fn most_height(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    match call.actions.largest_height() {
        Largest::Known(height) => call.send(&height),
        Largest::Asked(_) => call.send_long(LargestHeight(None)),
    }
}

/// The maximum height of the sync peers, once they have reported.
struct LargestHeight(Option<Height>);

impl LongView for LargestHeight {
    fn look(&mut self, _: &[u8], _: &ChainView<'_>, actions: &mut dyn Actions, _: &mut Budget) -> Result<(), Failure> {
        self.0 = actions.told_height();
        Ok(())
    }

    fn write_on(&mut self, _: &ChainView<'_>, sheet: &mut Sheet<'_>, _: &mut Budget) -> Result<Taken, Failure> {
        let Some(height) = self.0 else { return Ok(Taken::Parked) };
        sheet.write(&height);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        size_of::<LargestHeight>()
    }
}

/// `GET /local/peers`, which NIS1 does not have: the whole peer table, whether or not the node has joined its network.
pub fn peers(call: &mut Call<'_>) -> Result<(), Failure> {
    let (height, score, now) = (call.view.height, call.view.score()?, call.now.running);
    let node = call.actions.node();
    let address = call.address_of(&node.info.identity.key);
    let peers = call.actions.peers();
    let known = peers.map_or(0, |peers| peers.known().len());
    let report = PeersReport { status: call.view.status, node: &node.info, address, height, score, peers, now };
    call.writer.view(&report);
    call.budget.spend(cost::PEER.saturating_mul(u32::try_from(known).unwrap_or(u32::MAX)));
    Ok(())
}

/// `GET /local/reorgs`, which NIS1 does not have: the last reorgs and the blocks that they replaced.
pub fn reorgs(call: &mut Call<'_>) -> Result<(), Failure> {
    let reorgs = call.actions.reorgs();
    let replaced = reorgs.map_or(0, Reorgs::held);
    call.writer.view(&ReorgsReport { reorgs, network: call.view.network.byte });
    call.budget.spend(cost::PEER.saturating_mul(u32::try_from(replaced).unwrap_or(u32::MAX)));
    Ok(())
}

/// `GET /debug/timers`
pub fn timers(call: &mut Call<'_>) -> Result<(), Failure> {
    let timers = call.actions.peers().map(|peers| peers.timers().to_vec()).unwrap_or_default();
    call.send(&Timers(&timers))
}

/// `GET /debug/connections/incoming`
pub fn incoming_requests(call: &mut Call<'_>) -> Result<(), Failure> {
    let (outstanding, latest) = (call.audits.outstanding(), call.audits.latest());
    call.send(&AuditedRequests { outstanding, latest, now: call.now.network })
}

/// `GET /debug/connections/outgoing`
pub fn outgoing_requests(call: &mut Call<'_>) -> Result<(), Failure> {
    let audit = |entry: &AuditEntry| Audit {
        number: entry.number,
        host: entry.host.clone(),
        path: entry.path.to_owned(),
        started: entry.started,
    };
    let peers = call.actions.peers();
    let outstanding = peers.map(|peers| peers.outstanding_calls().into_iter().map(audit).collect());
    let latest = peers.map(|peers| peers.latest_calls().map(audit).collect());
    let (outstanding, latest) = (outstanding.unwrap_or_default(), latest.unwrap_or_default());
    call.send(&AuditedRequests { outstanding, latest, now: call.now.network })
}

/// `GET /debug/time-synchronization`
pub fn time_synchronisation(call: &mut Call<'_>) -> Result<(), Failure> {
    call.need_network()?;
    let rounds = call.actions.peers().map(|peers| peers.time().rounds().copied().collect());
    call.send(&TimeSynchronisations(rounds.unwrap_or_default()))
}
