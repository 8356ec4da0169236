//! The page `/explorer` as a running node serves it. `tests/explorer/run` tests what it shows.

use std::io::Read;

use crate::common::daemon::Node;
use crate::common::http::{Client, Response, get_with};

fn get_compressed(client: &mut Client, path: &str) -> (Response, String) {
    let answer = client.request(get_with(path, "Accept-Encoding: gzip\r\n"));
    assert_eq!((answer.status, answer.header("Content-Encoding")), (200, Some("gzip")), "{path}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).expect("gzip");
    (answer, text)
}

#[test]
fn the_page_and_its_parts_are_compressed_and_cacheable() {
    let node = Node::on_tiny(60, &["--clock", "3240"]);
    let mut client = Client::connect(node.http);
    let (page, text) = get_compressed(&mut client, "/explorer");
    // The ports chosen by the system.
    for (name, address) in [("http-port", node.http), ("websocket-port", node.websocket)] {
        assert!(text.contains(&format!("{name}=\"{}\"", address.port())), "{name}: {text}");
    }
    let parts: Vec<_> = text.split('"').filter(|text| text.starts_with("explorer/")).collect();
    assert!(parts.len() > 2, "{text}");
    for part in parts {
        get_compressed(&mut client, &format!("/{part}"));
    }
    let tag = page.header("ETag").expect("a tag");
    let again = client.request(get_with("/explorer", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n")));
    assert_eq!((again.status, again.body.len(), again.header("Content-Length")), (304, 0, None));
    client.send(get_with("/explorer", "Accept-Encoding: gzip\r\n").replace("GET", "HEAD"));
    let head = client.head();
    let length = page.body.len().to_string();
    assert_eq!((head.status, head.header("Content-Length")), (200, Some(length.as_str())));
}

#[test]
fn the_explorer_changes_no_other_route_and_can_be_disabled() {
    let nodes = ["true", "false"]
        .map(|wanted| Node::on_tiny(60, &["--clock", "3240", "--set", &format!("nisd.explorer={wanted}")]));
    let [mut with, mut without] = nodes.each_ref().map(|node| Client::connect(node.http));
    for path in ["/", "/explorer/unknown.js", "/chain/height"] {
        let answers = [with.get(path), without.get(path)];
        assert_eq!(answers[0].status, answers[1].status, "{path}");
        assert_eq!(answers[0].headers, answers[1].headers, "{path}");
    }
    assert_eq!(with.get("/explorer/unknown.js").status, 404);
    assert_eq!((with.get("/explorer").status, without.get("/explorer").status), (200, 404));
}
