//! What a local client alone may do wants the secret of the file `local-cookie`: with and without proxies in front.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::daemon::{Node, Process, args, closed_port, new_network, nisd, program, run, wait_for};
use crate::common::http::{
    Client, Response, authorization, cookie_file, get_with, post_with, receive_request, response,
};
use crate::common::private_network::private_key;
use crate::common::skip;
use crate::common::websocket::upgrade_request;
use nisd::api::ROUTES;
use nisd::api::routes::{Access, Method, Route};
use nisd::local_cookie::{LocalCookie, SECRET_BYTES};
use nisd::net::blocking_client::BlockingClient;
use nisd::net::fetch::Endpoint;
use tempfile::TempDir;

/// Height of the recorded chain.
const TIP: u64 = 3;
/// The key of an account that harvests for nobody.
const KEY: &str = "{\"value\":\"5be1cafe0ddba11f8badf00d1ceb00dafacade5ca1ab1e7ab1ade5eed0b5e55e\"}";
/// Maximum wait for an answer.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// A secret of the right form.
const WRONG: &str = "Authorization: Bearer 7890.0000000000000000000000000000000000000000000000000000000000000000\r\n";

fn node(settings: &[&str]) -> Node {
    let settings: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    Node::on_tiny(TIP, &[&["--clock", "3240"], &settings[..]].concat())
}

/// Sends a request for a route on a connection of its own.
#[track_caller]
fn ask(server: SocketAddr, route: &Route, headers: &str) -> Response {
    Client::connect(server).request(match route.method {
        Method::Get => get_with(route.path, headers),
        Method::Post => post_with(route.path, KEY, headers),
    })
}

fn local_routes() -> impl Iterator<Item = &'static Route> {
    // The last one ends the node.
    let (shutdown, others): (Vec<_>, Vec<_>) =
        ROUTES.iter().filter(|route| route.access == Access::Local).partition(|route| route.path == "/shutdown");
    assert!(others.len() > 10 && shutdown.len() == 1);
    others.into_iter().chain(shutdown)
}

/// Checks that no local route does anything through a server, whatever is sent.
#[track_caller]
fn assert_closed(node: &Node, server: SocketAddr, headers: &str) {
    for route in local_routes() {
        let answer = ask(server, route, headers);
        assert_eq!(answer.status, 401, "{} {headers:?}: {answer:?}", route.path);
        assert_eq!(answer.header("WWW-Authenticate"), Some("Bearer"), "{}", route.path);
        let body = answer.json();
        assert_eq!((&body["error"], &body["status"]), (&"Unauthorized".into(), &401.into()), "{body}");
    }
    for line in ["HEAD /shutdown", "GET /shutdown/", "GET /shutdown.json", "GET /%73hutdown", "GET //shutdown"] {
        let mut client = Client::connect(server);
        client.send(get_with("/", headers).replacen("GET /", line, 1));
        let answer = client.head();
        assert!([400, 401, 404].contains(&answer.status), "{line} {headers:?}: {answer:?}");
    }
    for path in ["/account/unlock", "/account/lock"] {
        let answer = Client::connect(server).request(post_with(path, KEY, headers));
        assert_eq!(answer.status, 401, "{path} {headers:?}: {answer:?}");
    }
    assert_eq!(Client::connect(node.http).height(), TIP, "the node goes on");
    assert!(!node.process.log().contains("shutdown requested"));
}

#[test]
fn every_local_route_wants_the_secret_and_nothing_else() {
    let node = node(&["nem.useDosFilter=false"]);
    let own = authorization(node.http);
    let forwarded = ["X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "Via: 1.1 a", "X-Real-IP: 127.0.0.1"];
    for headers in ["", WRONG, "Authorization: Bearer \r\n", "Authorization: Basic dXNlcjpwYXNz\r\n"] {
        assert_closed(&node, node.http, headers);
    }
    for header in forwarded {
        assert_closed(&node, node.http, &format!("{own}{header}\r\n"));
    }
    // The response says what to send.
    let told = |headers: &str| {
        let answer = Client::connect(node.http).request(get_with("/local/peers", headers));
        answer.json()["message"].as_str().expect("a reason").to_owned()
    };
    for (headers, words) in [("", "header Authorization: Bearer CONTENT"), (WRONG, "it is new at each start")] {
        let message = told(headers);
        assert!(message.contains(words) && message.contains("local-cookie in the node's data folder"), "{message}");
        assert!(!message.contains('/'), "the path is nobody's business: {message}");
    }
    // A page of another origin may not send the secret, even if it knew it.
    let page = "Origin: http://a.example\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization\r\n";
    let preflight = Client::connect(node.http).request(get_with("/local/peers", page).replace("GET /", "OPTIONS /"));
    assert_eq!(preflight.header_values("Access-Control-Allow-Headers"), ["Content-Type"]);
    assert_eq!(told(&format!("{own}Via: 1.1 a\r\n")), "remote 127.0.0.1 attempted to call local /local/peers");
    for route in local_routes() {
        assert_ne!(ask(node.http, route, &own).status, 401, "{}", route.path);
    }
    node.process.wait_with_timeout(Duration::from_secs(5)).expect_success();
}

#[test]
fn the_metrics_are_for_the_machine_itself_but_not_for_a_proxy() {
    let is_told = |node: &Node, headers: &str| {
        let answer = Client::connect(node.http).request(get_with("/metrics", headers));
        assert!([200, 401].contains(&answer.status), "{answer:?}");
        answer.status == 200
    };
    let direct = node(&[]);
    assert!(is_told(&direct, "") && is_told(&direct, WRONG));
    assert!(!is_told(&direct, "X-Forwarded-For: 192.0.2.7\r\n") && !is_told(&direct, "Origin: http://a.example\r\n"));
    // From a trusted proxy that names no client, nothing is local, unless the request carries the secret.
    let proxied = node(&["nisd.trustedProxies=127.0.0.1"]);
    let own = authorization(proxied.http);
    assert!(!is_told(&proxied, "") && !is_told(&proxied, "X-Forwarded-For: 127.0.0.1\r\n"));
    assert!(is_told(&proxied, &own) && !is_told(&proxied, &format!("{own}X-Forwarded-For: 127.0.0.1\r\n")));
    assert_closed(&proxied, proxied.http, "");
    let of_command = run(["status", "--once", "--node", &format!("http://{}", proxied.http)]);
    of_command.expect_failure(1, &["only with the secret of the file local-cookie in its data folder"]);
    let data = cookie_file(proxied.http).expect("a node with a file");
    let data = data.parent().expect("its folder");
    run(args!["peers", "--node", format!("http://{}", proxied.http), "--data", data]).expect_success();
}

/// A proxy in front of a node.
struct Proxy {
    name: String,
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Proxy {
    /// Starts a program with a configuration. LISTEN, PORT, NODE, FOLDER and CONFIGURATION in its arguments and in the
    /// configuration are replaced. Returns `None` if the program is not installed.
    fn start(name: &str, arguments: &[&str], configuration: &str, node: SocketAddr) -> Option<Proxy> {
        let paths = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"].map(Path::new);
        let Some(path) = paths.into_iter().map(|folder| folder.join(name)).find(|path| path.exists()) else {
            skip(&format!("{name} is not installed"));
            return None;
        };
        let (folder, address) = (tempfile::tempdir().expect("a folder"), closed_port());
        let file = folder.path().join("configuration");
        let values = [
            ("LISTEN", address.to_string()),
            ("PORT", address.port().to_string()),
            ("NODE", node.to_string()),
            ("FOLDER", folder.path().display().to_string()),
            ("CONFIGURATION", file.display().to_string()),
        ];
        let filled = |text: &str| values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
        fs::write(&file, filled(configuration)).expect("room");
        let mut command = program(path, arguments.iter().map(|argument| filled(argument)));
        command.env("HOME", folder.path());
        let process = Process::start(command);
        wait_for(name, || TcpStream::connect(address).ok());
        Some(Proxy { name: name.to_owned(), address, _process: process, _folder: folder })
    }

    /// Starts the proxy with a complete configuration in `nisd help operating`, found by its first line.
    fn documented(name: &str, arguments: &[&str], first: &str, node: &Node) -> Option<Proxy> {
        let help = include_str!("../../src/help/operating.md").lines();
        let lines = help.skip_while(|line| *line != format!("    {first}"));
        let block: Vec<_> = lines.map_while(|line| line.strip_prefix("    ")).collect();
        assert!(block.len() > 5, "{first} is not in the help");
        let text = block.join("\n") + "\n";
        let text = text.replace("127.0.0.1:7890", "NODE").replace("127.0.0.1:7778", &node.websocket.to_string());
        let text = ["listen 80;", "bind :80", "node.example.org {"]
            .iter()
            .zip(["listen LISTEN;", "bind LISTEN", "{\nadmin off\n}\nhttp://node.example.org:PORT {\nbind 127.0.0.1"])
            .fold(text, |text, (documented, here)| text.replace(documented, here));
        Proxy::start(name, arguments, &text, node.http)
    }

    fn nginx(location: &str, node: SocketAddr) -> Option<Proxy> {
        let http = format!("access_log off; server {{ listen LISTEN; location / {{ {location} }} }}");
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path FOLDER/{name};"))
            .concat();
        let main = "daemon off; master_process off; pid FOLDER/pid; error_log stderr; events {}";
        let text = format!("{main} http {{ {temporary} {http} }}");
        Proxy::start("nginx", &["-p", "FOLDER", "-e", "stderr", "-c", "CONFIGURATION"], &text, node)
    }

    fn haproxy(mode: &str, node: SocketAddr) -> Option<Proxy> {
        let text = format!(
            "defaults\n mode {mode}\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             frontend clients\n bind LISTEN\n default_backend node\nbackend node\n server nisd NODE\n"
        );
        Proxy::start("haproxy", &["-db", "-f", "CONFIGURATION"], &text, node)
    }
}

/// The simplest form of each proxy, which makes every client 127.0.0.1, and names none.
fn proxies(node: SocketAddr) -> impl Iterator<Item = Proxy> {
    const TO_NODE: &str = "proxy_pass http://NODE;";
    let named = format!("{TO_NODE} proxy_set_header Host $host;");
    let nginx = [TO_NODE, &named].map(|location| Proxy::nginx(location, node));
    nginx.into_iter().chain(["http", "tcp"].map(|mode| Proxy::haproxy(mode, node))).flatten()
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_proxy_in_its_simplest_form_opens_no_local_route() {
    let plain = node(&["nem.useDosFilter=false"]);
    let trusted = node(&["nem.useDosFilter=false", "nisd.trustedProxies=127.0.0.1"]);
    let public = node(&["nem.useDosFilter=false", "nem.host=localhost"]);
    for node in [plain, trusted, public] {
        for proxy in proxies(node.http) {
            for headers in ["", WRONG, "X-Forwarded-For: 127.0.0.1\r\n"] {
                assert_closed(&node, proxy.address, headers);
            }
            assert_eq!(Client::connect(proxy.address).request(get_with("/chain/height", "")).status, 200);
        }
    }
}

#[test]
fn the_documented_proxies_name_their_clients_and_pass_websockets_on() {
    let node = node(&["nem.useDosFilter=false", "nisd.trustedProxies=127.0.0.1"]);
    let global = "daemon off; master_process off; pid FOLDER/pid; error_log stderr;";
    let nginx = ["-p", "FOLDER", "-e", "stderr", "-c", "CONFIGURATION", "-g", global];
    let caddy = ["run", "--adapter", "caddyfile", "--config", "CONFIGURATION"];
    let proxies = [
        Proxy::documented("nginx", &nginx, "events {}", &node),
        Proxy::documented("haproxy", &["-db", "-f", "CONFIGURATION"], "defaults", &node),
        Proxy::documented("caddy", &caddy, "node.example.org {", &node),
    ];
    for proxy in proxies.into_iter().flatten() {
        let get = |path: &str, headers: &str| {
            let request = get_with(path, headers).replace("Host: localhost", "Host: node.example.org");
            Client::connect(proxy.address).request(request)
        };
        wait_for("the check of the proxy", || (get("/chain/height", "").status == 200).then_some(()));
        for headers in ["", &authorization(node.http)] {
            let rejected = get("/local/peers", headers);
            assert_eq!(rejected.status, 401, "{}: {rejected:?}", proxy.name);
            assert_eq!(rejected.json()["message"], "remote 127.0.0.1 attempted to call local /local/peers");
            assert_eq!(get("/metrics", headers).status, 401, "{}", proxy.name);
        }
        let mut client = Client::connect(proxy.address);
        client.send(upgrade_request().replace("Host: localhost", "Host: node.example.org"));
        assert_eq!(client.head().status, 101, "{}", proxy.name);
    }
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn clients_of_a_proxy_in_its_simplest_form_have_one_rate_together_and_the_operator_another() {
    let node = node(&[]);
    for proxy in proxies(node.http) {
        // Until all of them are banned.
        let mut statuses = Vec::new();
        for _ in 0..700 {
            let mut client = Client::connect(proxy.address);
            if client.try_send(get_with("/chain/height", "")).is_ok() {
                statuses.extend(client.try_answer().map(|answer| answer.status));
            }
        }
        assert!(statuses.contains(&429), "{statuses:?}");
        let check = Client::connect(proxy.address).get("/heartbeat");
        assert_eq!(check.status, 200, "the proxy still finds the node");
        for _ in 0..60 {
            assert_eq!(Client::connect(node.http).get("/chain/height").status, 200, "the operator is not kept out");
        }
    }
}

#[test]
fn nis1_s_rule_gives_local_access_by_the_address_and_says_so() {
    let node = node(&["nisd.localAccess=address"]);
    assert!(node.process.log().contains("WARN  nisd.localAccess = address"), "{}", node.process.log());
    assert_eq!(Client::connect(node.http).request(get_with("/local/peers", "")).status, 200);
    let rejected = Client::connect(node.http).request(get_with("/local/peers", "Via: 1.1 a\r\n"));
    assert_eq!((rejected.status, rejected.header("WWW-Authenticate")), (401, None), "as in NIS1");
}

#[test]
fn the_file_is_new_at_each_start_and_removed_at_a_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("devnet");
    let start = || Node::start(args!["--data", data]);
    let file = data.join("local-cookie");
    let text = || fs::read_to_string(&file).expect("the file");
    let mut first = start();
    assert_eq!(fs::metadata(&file).expect("the file").mode() & 0o7777, 0o600);
    let (secret, headers) = (text(), authorization(first.http));
    assert!(!first.process.log().contains(&secret), "it is never logged");
    let (port, digits) = secret.split_once('.').expect("a port and digits");
    assert_eq!((port, digits.len()), (first.http.port().to_string().as_str(), 64));
    first.process.kill();
    assert_eq!(text(), secret, "a killed node leaves it");
    let second = start();
    assert_ne!(text(), secret);
    let stale = Client::connect(second.http).request(get_with("/local/peers", &headers));
    assert_eq!(stale.status, 401);
    assert_eq!(Client::connect(second.http).get("/local/peers").status, 200);
    second.stop();
    assert!(!file.exists());
    // A node that cannot write it runs without local access.
    fs::create_dir_all(file.join("occupied")).expect("a folder");
    let third = start();
    assert!(third.process.log().contains("cannot be written, so nobody has local access"), "{}", third.process.log());
    assert!(Client::connect(third.http).height() >= 1);
}

#[test]
fn commands_find_the_secret_of_their_node_and_say_why_if_not() {
    let home = tempfile::tempdir().expect("a folder");
    let run_in = |home: &Path, arguments: &[&str]| {
        let mut command = nisd(arguments);
        command.env("HOME", home);
        Process::start(command).wait_with_timeout(Duration::from_secs(60))
    };
    let command = |arguments: &[&str]| run_in(home.path(), arguments);
    // Two nodes of one machine.
    let folders = ["devnet", "other"].map(|name| home.path().join("nem/nisd").join(name));
    let nodes = folders.each_ref().map(|data| Node::start(args!["--data", data]));
    for node in &nodes {
        let url = format!("http://{}", node.http);
        command(&["peers", "--node", &url]).expect_success();
        command(&["status", "--once", "--node", &url]).expect_success();
    }
    // The secret of a folder is sent to its own node only.
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let data = folders[0].to_str().expect("text");
    let received = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("the command");
        let request = receive_request(&mut stream, &mut Vec::new()).expect("a request").expect("a request");
        std::io::Write::write_all(&mut stream, &response("401 Unauthorized", b"{}")).expect("the command reads");
        request.head
    });
    command(&["peers", "--node", &url, "--data", data]).expect_failure(1, &["is of a node with another port"]);
    assert!(!received.join().expect("a request").contains("Authorization"));

    let elsewhere = tempfile::tempdir().expect("a folder");
    let absent = elsewhere.path().join("store");
    let absent = absent.to_str().expect("text");
    let url = format!("http://{}", nodes[0].http);
    let peers = |data: &str| run_in(elsewhere.path(), &["peers", "--node", &url, "--data", data]);
    peers(absent)
        .expect_failure(1, &["/local/peers only with the secret of the file local-cookie", "no node runs on this"]);
    fs::create_dir(absent).expect("a folder");
    let stale = format!("{}.{}", nodes[0].http.port(), "0".repeat(64));
    fs::write(Path::new(absent).join("local-cookie"), stale).expect("room");
    peers(absent).expect_failure(1, &["not of the node that listens there", "new at each start"]);
    fs::write(Path::new(absent).join("local-cookie"), "nonsense").expect("room");
    peers(absent).expect_failure(1, &["cannot be read"]);
    peers(data).expect_success();
}

/// Returns an address of this machine that other machines reach; `None` if it has none.
fn outer_address() -> Option<IpAddr> {
    // Nothing is sent: the system only chooses the address.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.7:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[test]
fn a_node_at_an_address_of_its_machine_is_local_to_clients_at_the_same_address_only() {
    let own = IpAddr::from([127, 0, 0, 2]);
    for address in [Some(own), outer_address()].into_iter().flatten() {
        let place = tempfile::tempdir().expect("a folder");
        let data = place.path().join("devnet");
        let ports = ["--http-port", "0", "--websocket-port", "0", "--bind", &address.to_string()].map(OsString::from);
        let node = Node::from_command(nisd(args!["run", "--data", data].into_iter().chain(ports)));
        let secret = authorization(node.http);
        let status = |from: IpAddr, path: &str, headers: &str| {
            let headers = format!("Host: {}\r\n{headers}", node.http);
            let request = get_with(path, &headers).replace("Host: localhost\r\n", "");
            Client::connect_from(from, node.http).map(|mut client| client.request(request).status).ok()
        };
        let local = |from: IpAddr, headers: &str| status(from, "/local/peers", headers);
        assert_eq!([local(address, &secret), local(address, ""), local(address, WRONG)], [200, 401, 401].map(Some));
        assert_eq!(local(address, &format!("{secret}Via: 1.1 a\r\n")), Some(401));
        assert_eq!(status(address, "/metrics", ""), Some(200));
        assert_eq!(status(address, "/metrics", "Origin: http://a.example\r\n"), Some(401));
        // Another address of the network is that of another machine, for all that the node knows.
        if address == own {
            let other = IpAddr::from([127, 0, 0, 3]);
            assert_eq!([local(other, &secret), status(other, "/metrics", "")], [Some(401), Some(401)]);
        }
        let url = format!("http://{}", node.http);
        run(args!["peers", "--data", data]).expect_success();
        run(args!["status", "--once", "--data", data]).expect_success();
        run(args!["peers", "--node", url, "--data", data]).expect_success();
    }
}

#[test]
fn a_command_reaches_a_node_at_an_address_of_its_machine_from_that_address() {
    let listener = TcpListener::bind("127.0.0.2:0").expect("a port");
    let server = listener.local_addr().expect("an address");
    let source_with = |url: &str| {
        let mut client = BlockingClient::new(Endpoint { host: server.ip().to_string(), port: server.port() }, MAX_WAIT);
        client.cookie = Some(LocalCookie::new(url, &[7; SECRET_BYTES]));
        let client = thread::spawn(move || client.get("/"));
        let (stream, from) = listener.accept().expect("the client");
        drop(stream);
        assert!(client.join().expect("no panic").is_err());
        from.ip()
    };
    assert_eq!(source_with(&format!("http://{server}/api")), server.ip());
    for other in ["http://127.0.0.3:7890", "http://127.0.0.1:7890"] {
        assert_eq!(source_with(other), IpAddr::from([127, 0, 0, 1]), "the system's choice");
    }
}

#[test]
fn the_rule_can_be_changed_by_a_reload() {
    let genesis = new_network();
    let node = Node::on_fast_network(&genesis, 1, &[], &[]);
    let status = || Client::connect(node.http).request(get_with("/local/peers", "")).status;
    for (rule, expected) in [("address", 200), ("cookie", 401)] {
        let key = private_key(1).printed();
        let folder = node.folder.as_ref().expect("a folder").path();
        genesis.write_hasty(folder, &key, &[("nisd.localAccess", rule)]);
        node.process.signal("HUP");
        wait_for(rule, || (status() == expected).then_some(()));
    }
    assert_eq!(Client::connect(node.http).get("/local/peers").status, 200);
}
