//! Tests of the page as sent.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use super::super::access::Access;
use super::{Explorer, INDEX, PAGE_FILES, SOURCES, host_name};
use crate::api::tests::{self as scene, Scene, TestRequest, text_of};
use crate::api::{self, Api};
use crate::model::NetworkByte;
use crate::model::network::test_network;
use crate::net::http::{RequestReader, Response};

/// Maximum compressed size in bytes of the page and its parts.
const MAX_BYTES: usize = 100 << 10;

fn explorer() -> Explorer {
    Explorer::new(7890, 7778, &test_network(NetworkByte::MAINNET, scene::address(1)))
}

/// Returns the response to a request of these lines; `None` if it is not for the page.
fn answer(explorer: &Explorer, lines: &str) -> Option<Response> {
    let mut reader = RequestReader::new(0);
    let lines = lines.replace('\n', "\r\n");
    let (first, headers) = lines.split_once("\r\n").unwrap_or((&lines, "Host: localhost:7890"));
    reader.receive(format!("{first} HTTP/1.1\r\n{headers}\r\n\r\n").as_bytes());
    let request = reader.next_request().unwrap().unwrap();
    let mut reply = Response::new();
    explorer.answer(&request, request.path, Access::Public, &mut reply).then_some(reply)
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
}

fn unpacked(response: &Response) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&response.body[..]).read_to_string(&mut text).unwrap();
    text
}

/// Returns the paths in the page, as request paths.
fn named_paths(page: &str) -> Vec<String> {
    let named = page.split('"').filter(|text| text.starts_with("explorer/"));
    named.map(|path| format!("/{path}")).collect()
}

#[test]
fn a_local_client_gets_a_page_that_asks_for_more() {
    let explorer = explorer();
    let mut reader = RequestReader::new(0);
    reader.receive(b"GET /explorer HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let request = reader.next_request().unwrap().unwrap();
    let pages = [Access::Public, Access::Metrics, Access::Local].map(|access| {
        let mut reply = Response::new();
        assert!(explorer.answer(&request, request.path, access, &mut reply));
        (String::from_utf8(reply.body.clone()).unwrap(), header(&reply, "ETag").unwrap().to_owned())
    });
    for (page, access) in pages.iter().zip(["public", "metrics", "local"]) {
        assert!(page.0.contains(&format!("data-access=\"{access}\"")), "{access}");
        assert_eq!(pages.iter().filter(|other| other.1 == page.1).count(), 1, "one is never taken for the other");
    }
}

#[test]
fn only_a_browser_is_redirected_from_the_root_to_the_page() {
    let explorer = explorer();
    let browser = "Host: localhost\nAccept: text/html,application/xhtml+xml,*/*;q=0.8";
    let led = answer(&explorer, &format!("GET /\n{browser}")).unwrap();
    assert_eq!((led.status, header(&led, "Location")), (302, Some("explorer")));
    for lines in ["GET /", "GET /\nHost: localhost\nAccept: */*", "GET /\nHost: localhost\nAccept: application/json"] {
        assert!(answer(&explorer, lines).is_none(), "{lines}");
    }
}

#[test]
fn the_page_is_compressed_for_clients_that_accept_gzip() {
    let explorer = explorer();
    let plain = answer(&explorer, "GET /explorer").unwrap();
    let packed = answer(&explorer, "GET /explorer\nHost: localhost\nAccept-Encoding: gzip").unwrap();
    assert_eq!((plain.status, header(&plain, "Content-Type")), (200, Some("text/html;charset=utf-8")));
    assert_eq!(header(&plain, "Content-Encoding"), None);
    assert_eq!(header(&packed, "Content-Encoding"), Some("gzip"));
    assert_eq!(unpacked(&packed).as_bytes(), plain.body);
    assert!(packed.body.len() < plain.body.len());
    for reply in [&plain, &packed] {
        assert_eq!(header(reply, "Vary"), Some("Accept-Encoding"));
        assert_eq!(header(reply, "X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(header(reply, "Referrer-Policy"), Some("same-origin"));
    }
}

#[test]
fn a_cached_page_is_not_sent_again() {
    let explorer = explorer();
    let page = answer(&explorer, "GET /explorer").unwrap();
    assert_eq!(header(&page, "Cache-Control"), Some("no-cache"));
    let tag = header(&page, "ETag").unwrap();
    for known in [tag, &format!("\"other\", {tag}"), &format!("W/{tag}"), "*"] {
        let again = answer(&explorer, &format!("GET /explorer\nHost: a\nIf-None-Match: {known}")).unwrap();
        assert_eq!((again.status, again.body.len(), header(&again, "ETag")), (304, 0, Some(tag)), "{known}");
        assert!(header(&again, "Content-Security-Policy").is_some());
    }
    let other = answer(&explorer, "GET /explorer\nHost: a\nIf-None-Match: W/\"other\"").unwrap();
    assert_eq!((other.status, other.body), (200, page.body.clone()));
}

#[test]
fn every_part_is_linked_from_the_page_and_cached_for_ever() {
    let explorer = explorer();
    let page = String::from_utf8(answer(&explorer, "GET /explorer").unwrap().body).unwrap();
    let paths = named_paths(&page);
    let names: BTreeSet<_> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
    assert_eq!(names, SOURCES.iter().map(|(name, _, _)| *name).collect());
    for path in &paths {
        let part = answer(&explorer, &format!("GET {path}")).unwrap();
        assert_eq!(header(&part, "Cache-Control"), Some("max-age=31536000, immutable"), "{path}");
        let media_type =
            if path.ends_with(".css") { "text/css;charset=utf-8" } else { "text/javascript;charset=utf-8" };
        assert_eq!(header(&part, "Content-Type"), Some(media_type), "{path}");
        assert!(header(&part, "ETag").is_some() && !part.body.is_empty(), "{path}");
    }
}

#[test]
fn every_file_in_the_folder_is_part_of_the_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/explorer/page");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut known: BTreeSet<_> = SOURCES.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    known.insert("index.html".to_owned());
    assert_eq!(files.collect::<BTreeSet<_>>(), known);
}

#[test]
fn the_compressed_page_and_its_parts_are_small() {
    let explorer = explorer();
    let packed = |path: &str| answer(&explorer, &format!("GET {path}\nHost: a\nAccept-Encoding: gzip")).unwrap();
    let page = packed("/explorer");
    let parts: usize = named_paths(&unpacked(&page)).iter().map(|path| packed(path).body.len()).sum();
    let bytes = page.body.len() + parts;
    assert!(bytes <= MAX_BYTES, "{bytes}");
}

#[test]
fn the_page_contains_all_values_and_no_unfilled_placeholder() {
    let explorer = explorer();
    let page = String::from_utf8(answer(&explorer, "GET /explorer").unwrap().body).unwrap();
    for told in ["http-port=\"7890\"", "websocket-port=\"7778\"", "network-byte=\"104\"", "target-seconds=\"60\""] {
        assert!(page.contains(told), "{told}");
    }
    assert!(INDEX.contains('{') && !page.contains('{'), "{page}");
}

#[test]
fn a_browser_may_load_nothing_from_elsewhere() {
    let explorer = explorer();
    for (host, websocket) in [
        ("node.example.org", "ws://node.example.org:7778;"),
        ("127.0.0.1:7890", "ws://127.0.0.1:7778;"),
        ("[::1]:7890", "ws://*:7778;"),
        ("evil; script-src *", "ws://*:7778;"),
    ] {
        let page = answer(&explorer, &format!("GET /explorer\nHost: {host}")).unwrap();
        let policy = header(&page, "Content-Security-Policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(policy.contains(&format!("connect-src 'self' {websocket}")), "{policy}");
        for rule in ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "trusted-types 'none'"] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(host_name(&"a".repeat(300)), None);
}

#[test]
fn other_paths_are_not_answered_by_the_explorer() {
    let explorer = explorer();
    let folder = &PAGE_FILES.folder;
    for path in [
        "/",
        "/explorers",
        "/explorer/main.js",
        "/explorer/unknown",
        &format!("/explorer/{folder}"),
        &format!("/explorer/{folder}/"),
        &format!("/explorer/{folder}/unknown.js"),
        &format!("/explorer/{folder}/../{folder}/main.js"),
        "/chain/height",
    ] {
        assert!(answer(&explorer, &format!("GET {path}")).is_none(), "{path}");
    }
}

#[test]
fn head_is_answered_like_get_and_a_trailing_slash_is_redirected() {
    let explorer = explorer();
    let [page, head] = ["GET", "HEAD"].map(|method| answer(&explorer, &format!("{method} /explorer")).unwrap());
    // A response to HEAD has the length of the body that is not sent.
    assert_eq!((head.status, head.body, head.headers), (200, page.body, page.headers));
    let slash = answer(&explorer, "GET /explorer/").unwrap();
    assert_eq!((slash.status, header(&slash, "Location")), (308, Some("../explorer")));
}

#[test]
fn the_page_is_a_route_below_the_context_path() {
    let (scene, page) = (Scene::new(), Some(explorer()));
    let mut api = Api::new(api::Settings { context_path: "/nis".to_owned(), explorer: page, ..scene::settings() });
    let status = |line: &str, api: &mut Api| TestRequest::new(line).send_to(api, &scene).status;
    let page = text_of(&TestRequest::new("GET /nis/explorer").send_to(&mut api, &scene));
    for path in named_paths(&page) {
        assert_eq!(status(&format!("GET /nis{path}"), &mut api), 200, "{path}");
    }
    for (line, expected) in [
        ("GET /nis/explorer/", 308),
        ("GET /explorer", 404),
        ("GET /nis/explorer/x.js", 404),
        ("GET /nis/explorer.json", 404),
        ("GET /nis/", 404),
        ("POST /nis/", 404),
        ("POST /nis/explorer/", 500),
        ("OPTIONS /nis/explorer", 200),
    ] {
        assert_eq!(status(line, &mut api), expected, "{line}");
    }
    let browser = TestRequest::new("GET /nis/").with(&[("Accept", "text/html")]).send_to(&mut api, &scene);
    assert_eq!((browser.status, header(&browser, "Location")), (302, Some("explorer")));
    let mut without = Api::new(scene::settings());
    assert_eq!(status("GET /explorer", &mut without), 404);
}
