//! A network of its own for one test: every node is in its own network namespace.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use crate::common::print_notice;

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
    let output = String::from_utf8_lossy(&ended.stdout);
    print_notice(&output);
    assert!(
        ended.status.success() && output.contains("1 passed"),
        "{test} failed inside, or is not known by that name"
    );
    false
}

/// A machine of the network.
pub struct Machine {
    /// Address at which others reach it.
    pub http: SocketAddr,
    /// Address at which the test reaches it.
    pub test_address: SocketAddr,
    /// Name of its namespace.
    name: String,
}

impl Machine {
    /// Wraps a command so that it runs on the machine.
    pub fn wrap(&self, command: &Command) -> Command {
        let mut outer = Command::new("ip");
        outer.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args());
        outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        outer
    }
}

/// Creates machines on one network. A second network connects the test with each of them.
pub fn machines(count: u8) -> Vec<Machine> {
    ip("link set lo up");
    for bridge in ["wire", "test"] {
        ip(&format!("link add name {bridge} type bridge"));
        ip(&format!("link set {bridge} up"));
    }
    ip(&format!("addr add {}/24 dev test", test_address(254)));
    let machine = |node: u8| {
        ip(&format!("netns add n{node}"));
        ip(&format!("-n n{node} link set lo up"));
        let address = Ipv4Addr::new(10, 0, 0, node);
        for (kind, address) in [("wire", address), ("test", test_address(node))] {
            ip(&format!("link add name {kind}{node} type veth peer name {kind} netns n{node}"));
            ip(&format!("link set {kind}{node} master {kind} up"));
            ip(&format!("-n n{node} addr add {address}/24 dev {kind}"));
            ip(&format!("-n n{node} link set {kind} up"));
        }
        let [http, test_address] = [address, test_address(node)].map(|ip| SocketAddr::new(ip.into(), PORT));
        Machine { http, test_address, name: format!("n{node}") }
    };
    (1..=count).map(machine).collect()
}

/// Returns the address at which the test reaches a node.
fn test_address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, node)
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("there is ip");
    assert!(status.success(), "ip {arguments}");
}
