//! A private network of two machines, set up as in the README: one creates it and exports what the other needs.

use crate::common::daemon::{Node, nisd, run, wait_for};
use crate::common::data_folder::{DataFolder, text};
use crate::common::http::Client;
use crate::common::node_network::active_peers;
use crate::network::namespaces::{Machine, is_inside, machines};

/// Starts a node on a machine.
fn start(machine: &Machine, arguments: &[&str]) -> Node {
    Node::from_command(machine.wrap(&nisd(["run"].iter().chain(arguments))))
}

#[test]
fn a_node_on_another_machine_joins_with_the_exported_settings() {
    if !is_inside("network::two_machines::a_node_on_another_machine_joins_with_the_exported_settings") {
        return;
    }
    let machines = machines(2);
    let [first, second] = machines.as_slice() else { panic!("two machines") };
    let folder = DataFolder::new();
    let [mine, exported, other] = ["mine", "for-others", "other"].map(|name| folder.beside(name));

    let _first = start(first, &["--data", text(&mine), "--fresh-keys"]);
    let host = first.http.ip().to_string();
    let export = ["devnet", "export-config", "--data", text(&mine), "--host", &host, "--output", text(&exported)];
    let log = run(export).expect_success().stderr;
    assert!(log.contains(&format!("--set nem.host={host}")), "{log}");
    let config = exported.join("config-user.properties");
    let _second = start(second, &["--data", text(&other), "--config", text(&config)]);

    for (machine, peer) in [(first, second), (second, first)] {
        let peer = peer.http.ip().to_string();
        let is_active = || (active_peers(machine.test_address, "/endpoint/host") == [peer.as_str()]).then_some(());
        wait_for("the other machine", is_active);
        wait_for("a block", || (Client::connect(machine.test_address).height() >= 2).then_some(()));
    }
    let [one, two] = [first, second].map(|machine| Client::connect(machine.test_address).block(2).json());
    assert_eq!(one, two);
}
