//! A network of its own for one test: every node is in its own network namespace, and the network can be partitioned.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use super::members::NodeLocation;
use super::print_notice;

/// Set when the test runs inside the namespaces.
const INSIDE: &str = "NISD_IN_NAMESPACES";
/// Runs a program with its own users, network and mounts, with all rights inside and none outside.
const UNSHARE: [&str; 5] = ["unshare", "--user", "--map-root-user", "--net", "--mount"];
/// Port of all nodes.
const PORT: u16 = 7890;

/// Returns whether the test of this name runs inside. Otherwise it has now been run there, or this machine does not
/// allow namespaces, which is printed.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let [program, options @ ..] = UNSHARE;
    let unshare = || {
        let mut command = Command::new(program);
        command.args(options).args(["sh", "-c"]).stdin(Stdio::null());
        command
    };
    // Named networks are files in `/run`.
    let mount = "mount -t tmpfs none /run && ip netns add probe";
    let probed = unshare().arg(mount).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !probed.is_ok_and(|status| status.success()) {
        print_notice(&format!("SKIPPED: {test}: this machine allows no network of its own to a test"));
        return false;
    }
    let myself = std::env::current_exe().expect("the program of the test");
    let mut again = unshare();
    again.arg(format!("{mount} && exec \"$0\" \"$@\"")).arg(myself).args(["--exact", test, "--nocapture"]);
    let ended = again.env(INSIDE, "1").stderr(Stdio::inherit()).output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    print_notice(&said);
    assert!(ended.status.success() && said.contains("1 passed"), "{test} failed inside, or is not known by that name");
    false
}

/// The virtual links between the nodes. All nodes are on the network `east` unless it is cut. A second link, which is
/// never cut, connects the test with each node.
pub struct VirtualLinks {
    nodes: u8,
}

impl VirtualLinks {
    /// Creates the links for this many nodes.
    pub fn create(nodes: u8) -> VirtualLinks {
        ip("link set lo up");
        for bridge in ["east", "west", "desk"] {
            ip(&format!("link add name {bridge} type bridge"));
            ip(&format!("link set {bridge} up"));
        }
        ip(&format!("addr add {}/24 dev desk", test_address(254)));
        for node in 1..=nodes {
            ip(&format!("netns add n{node}"));
            ip(&format!("-n n{node} link set lo up"));
            let ends = [("wire", "east", format!("10.0.0.{node}")), ("desk", "desk", test_address(node).to_string())];
            for (kind, bridge, address) in ends {
                ip(&format!("link add name {kind}{node} type veth peer name {kind} netns n{node}"));
                ip(&format!("link set {kind}{node} master {bridge} up"));
                ip(&format!("-n n{node} addr add {address}/24 dev {kind}"));
                ip(&format!("-n n{node} link set {kind} up"));
            }
        }
        VirtualLinks { nodes }
    }

    /// Returns where the nodes run.
    pub fn places(&self) -> Vec<NodeLocation> {
        let place = |node| NodeLocation {
            http: SocketAddr::new(Ipv4Addr::new(10, 0, 0, node).into(), PORT),
            bind: Some("0.0.0.0"),
            test_address: test_address(node),
            command_prefix: ["ip", "netns", "exec", &format!("n{node}")].map(str::to_owned).to_vec(),
        };
        (1..=self.nodes).map(place).collect()
    }

    /// Partitions the network: packets between the first `first` nodes and the rest are lost.
    pub fn partition(&self, first: u8) {
        (first + 1..=self.nodes).for_each(|node| ip(&format!("link set wire{node} master west")));
    }

    /// Ends the partition.
    pub fn heal(&self) {
        (1..=self.nodes).for_each(|node| ip(&format!("link set wire{node} master east")));
    }
}

/// Returns the address at which the test reaches a node.
fn test_address(node: u8) -> IpAddr {
    Ipv4Addr::new(10, 1, 0, node).into()
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("there is ip");
    assert!(status.success(), "ip {arguments}");
}
