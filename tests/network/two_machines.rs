//! A private network of two machines, set up as in the README: one creates it and exports what the other needs.

use std::net::SocketAddr;
use std::path::Path;

use crate::common::daemon::{Node, nisd, run};
use crate::common::http::Client;
use crate::common::members::{NodeLocation, active_peers, wait_for, wrap_command};
use crate::common::namespaces::VirtualLinks;

/// Starts a node on a machine.
fn start(place: &NodeLocation, arguments: &[&str]) -> Node {
    Node::from_command(wrap_command(&place.command_prefix, nisd(["run"].iter().chain(arguments))))
}

#[test]
fn a_node_on_another_machine_joins_with_the_exported_settings() {
    if !crate::common::namespaces::is_inside(
        "network::two_machines::a_node_on_another_machine_joins_with_the_exported_settings",
    ) {
        return;
    }
    let places = VirtualLinks::create(2).places();
    let [first, second] = places.as_slice() else { panic!("two places") };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a text").to_owned();
    let (mine, exported, other) = (path("mine"), path("for-others"), path("other"));

    let _first = start(first, &["--data", &mine, "--fresh-keys"]);
    let host = first.http.ip().to_string();
    let export = ["devnet", "export-config", "--data", &mine, "--host", &host, "--output", &exported];
    let said = run(export).expect_success().stderr;
    assert!(said.contains(&format!("--set nem.host={host}")), "{said}");
    let config = Path::new(&exported).join("config-user.properties");
    let _second = start(second, &["--data", &other, "--config", config.to_str().expect("a text")]);

    let [at_first, at_second] = [first, second].map(|place| SocketAddr::new(place.test_address, place.http.port()));
    let [first, second] = [first, second].map(|place| place.http.ip().to_string());
    wait_for("the first", || (active_peers(at_second, "/endpoint/host") == [first.as_str()]).then_some(()));
    wait_for("the second", || (active_peers(at_first, "/endpoint/host") == [second.as_str()]).then_some(()));
    let height = |at| Client::connect(at).height();
    let block = |at| Client::connect(at).block(2).json();
    wait_for("a block", || (height(at_first) >= 2 && height(at_second) >= 2).then_some(()));
    assert_eq!(block(at_first), block(at_second));
}
