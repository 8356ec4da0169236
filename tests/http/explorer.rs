//! The page `/explorer` as a running node serves it. `tests/explorer/run` tests what it shows.

use std::io::Read;

use crate::common::daemon::{Node, run};
use crate::common::http_client::{Client, ClientResponse};
use crate::common::tiny;
use tempfile::TempDir;

/// Starts a node on the smallest chain; returns it with its folder.
fn node(arguments: &[&str]) -> (Node, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, config, blocks) = (folder.path().join("store"), tiny("config.json"), tiny("blocks.bin"));
    let paths = [&config, &data, &blocks].map(|path| path.to_str().expect("a path").to_owned());
    let [config, data, blocks] = paths.each_ref().map(String::as_str);
    run(["import", "--config", config, "--data", data, blocks]).expect_success();
    let own = ["--config", config, "--data", data, "--clock", "3240"];
    (Node::start(&[&own, arguments].concat()), folder)
}

fn request(client: &mut Client, method: &str, path: &str, headers: &str) {
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
}

fn get_compressed(client: &mut Client, path: &str) -> (ClientResponse, String) {
    request(client, "GET", path, "Accept-Encoding: gzip\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("Content-Encoding")), (200, Some("gzip")), "{path}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).expect("gzip");
    (answer, text)
}

#[test]
fn the_page_and_its_parts_are_compressed_and_cacheable() {
    let (node, _folder) = node(&[]);
    let mut client = Client::connect(node.http);
    let (page, text) = get_compressed(&mut client, "/explorer");
    // The ports chosen by the system.
    for told in [format!("http-port=\"{}\"", node.http.port()), format!("websocket-port=\"{}\"", node.websocket.port())]
    {
        assert!(text.contains(&told), "{told}: {text}");
    }
    let parts: Vec<_> = text.split('"').filter(|text| text.starts_with("explorer/")).collect();
    assert!(parts.len() > 2, "{text}");
    for part in parts {
        get_compressed(&mut client, &format!("/{part}"));
    }
    let tag = page.header("ETag").expect("a tag");
    request(&mut client, "GET", "/explorer", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n"));
    let again = client.answer();
    assert_eq!((again.status, again.body.len(), again.header("Content-Length")), (304, 0, None));
    request(&mut client, "HEAD", "/explorer", "Accept-Encoding: gzip\r\n");
    let head = client.head();
    let length = page.body.len().to_string();
    assert_eq!((head.status, head.header("Content-Length")), (200, Some(length.as_str())));
}

#[test]
fn the_explorer_changes_no_other_route_and_can_be_disabled() {
    let (with, _folder) = node(&[]);
    let (without, _other_folder) = node(&["--set", "nisd.explorer=false"]);
    let [mut with, mut without] = [with.http, without.http].map(Client::connect);
    for path in ["/", "/explorer/unknown.js", "/chain/height"] {
        let answers = [with.get(path), without.get(path)];
        assert_eq!(answers[0].status, answers[1].status, "{path}");
        assert_eq!(answers[0].headers, answers[1].headers, "{path}");
    }
    assert_eq!(with.get("/explorer/unknown.js").status, 404);
    assert_eq!((with.get("/explorer").status, without.get("/explorer").status), (200, 404));
}
