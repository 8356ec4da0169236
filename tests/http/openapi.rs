//! Checks the OpenAPI document against the routes, NEM's own description, the responses of NIS1, and a node's responses
//! to the examples in the document.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::daemon::{Node, args, new_network, wait_for};
use crate::common::exchange::{Exchange, read_file};
use crate::common::http::{Client, Response, get_with};
use crate::common::private_network::key_pair;
use crate::common::schema::{mismatch, resolve};
use crate::common::{print_notice, recorded, shared};
use nisd::api::routes::{Access, Method, Route};
use nisd::api::{OPENAPI, ROUTES};
use nisd::peer::wire::limits;
use nisd::rules::ValidationResult;
use serde_json::{Map, Value, json};

/// The event stream, whose responses do not end.
const STREAM: &str = "/events";
const JSON: &str = "application/json";

fn document() -> Value {
    serde_json::from_str(&OPENAPI).expect("the document is JSON")
}

/// Iterates over all operations of a document: method, path and description.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

/// Returns the parameters of an operation by name.
fn parameters<'d>(operation: &'d Value, document: &'d Value) -> BTreeMap<&'d str, &'d Value> {
    let listed = operation["parameters"].as_array().into_iter().flatten();
    let parameters = listed.map(|parameter| resolve_reference(parameter, document));
    parameters.map(|parameter| (parameter["name"].as_str().expect("a name"), parameter)).collect()
}

/// Resolves a reference; returns other values unchanged.
fn resolve_reference<'d>(value: &'d Value, document: &'d Value) -> &'d Value {
    value["$ref"].as_str().map_or(value, |path| resolve(path, document))
}

/// Returns the examples of a parameter or of a content type.
fn examples<'d>(of: &'d Value, document: &'d Value) -> Vec<&'d Value> {
    let several = of["examples"].as_object().into_iter().flat_map(|several| several.values());
    of.get("example").into_iter().chain(several.map(|example| &resolve_reference(example, document)["value"])).collect()
}

/// Calls `look` for every part of a value and for the value itself, with its path.
fn for_each_part<'d>(value: &'d Value, path: &str, look: &mut impl FnMut(&str, &'d Value)) {
    look(path, value);
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, part)| for_each_part(part, &format!("{path}/{name}"), look))
        }
        Value::Array(elements) => elements.iter().for_each(|part| for_each_part(part, &format!("{path}/-"), look)),
        _ => {}
    }
}

#[test]
fn every_referenced_part_exists_and_every_part_is_used() {
    let (document, mut used) = (document(), BTreeSet::new());
    for_each_part(&document, "#", &mut |_, part| {
        if let Some(path) = part["$ref"].as_str() {
            assert!(!resolve(path, &document).is_null());
            used.insert(path);
        }
    });
    // Security schemes are used by their names.
    let components = document["components"].as_object().expect("components").iter();
    let components = components.filter(|(kind, _)| *kind != "securitySchemes");
    let names = components.flat_map(|(kind, parts)| {
        let names = parts.as_object().expect("parts by name").keys();
        names.map(move |name| format!("#/components/{kind}/{name}"))
    });
    let names: Vec<String> = names.collect();
    let described: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let unused: Vec<_> = described.difference(&used).collect();
    let missing: Vec<_> = used.difference(&described).collect();
    assert!(unused.is_empty() && missing.is_empty(), "unused: {unused:?}, missing: {missing:?}");
}

#[test]
fn every_operation_has_a_description_and_examples() {
    let (document, mut ids) = (document(), BTreeSet::new());
    let tags = document["tags"].as_array().expect("tags").iter().map(|tag| &tag["name"]);
    let (tags, mut used): (BTreeSet<_>, _) = (tags.map(Value::to_string).collect(), BTreeSet::new());
    for (method, path, operation) in operations(&document) {
        assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().expect("an id")), "{method} {path}");
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{method} {path}");
        used.insert(operation["tags"][0].to_string());
        for (name, parameter) in parameters(operation, &document) {
            assert!(parameter["description"].is_string(), "{name} of {method} {path}");
            assert!(!examples(parameter, &document).is_empty(), "{name} of {method} {path}");
        }
        let responses = operation["responses"].as_object().expect("responses").values();
        let with_content =
            responses.map(|response| resolve_reference(response, &document)).chain([&operation["requestBody"]]);
        for content in with_content.filter_map(|part| part["content"].as_object()) {
            for (kind, content) in content {
                assert!(kind == "text/html" || !examples(content, &document).is_empty(), "{kind} of {method} {path}");
            }
        }
    }
    assert_eq!(used, tags);
}

#[test]
fn every_example_matches_its_schema() {
    let (document, mut count) = (document(), 0);
    for_each_part(&document, "#", &mut |path, part| {
        // The examples of shared parts are checked where they are used.
        if part["schema"].is_object() {
            for example in examples(part, &document) {
                assert_eq!(mismatch(example, &part["schema"], &document), None, "{path}");
                count += 1;
            }
        }
    });
    assert!(count > 150, "{count} examples");
}

#[test]
fn every_schema_and_member_is_described_and_closed_sets_are_enums() {
    let document = document();
    for_each_part(&document["components"]["schemas"], "schemas", &mut |path, part| {
        let is_schema = path.split('/').nth_back(1).is_some_and(|above| above == "schemas" || above == "properties");
        let is_explained = part["description"].is_string() || part["$ref"].is_string();
        // An array, or a member with a list of values, needs no description of its own.
        let speaks = part["type"] == "array" || part["enum"].is_array();
        assert!(!is_schema || !part.is_object() || is_explained || speaks, "{path} has no description");
        if let Some(values) = part.get("enum").filter(|_| part["type"] == "integer") {
            let names = part["x-enum-varnames"].as_array().map(Vec::len);
            assert_eq!(values.as_array().map(Vec::len), names, "{path}");
        }
    });
    for word in ["\"anyOf\"", "\"const\""] {
        assert!(!OPENAPI.contains(word), "generators do not understand {word}");
    }
}

#[test]
fn the_document_describes_exactly_the_existing_routes() {
    let document = document();
    let mut described: BTreeMap<_, _> =
        operations(&document).map(|(method, path, operation)| ((method, path), operation)).collect();
    for route in ROUTES.iter() {
        let method = match route.method {
            Method::Get => "get",
            Method::Post => "post",
        };
        let operation = described.remove(&(method, route.path));
        let operation = operation.unwrap_or_else(|| {
            panic!("describe {method} {}:\n{:#}", route.path, skeleton(route, &json!({}), &node_on_tiny(), &document))
        });
        let access = if route.access == Access::Public { "public" } else { "local" };
        assert_eq!(operation["x-access"], access, "{method} {}", route.path);
        // An empty requirement: the secret is needed for a part of what the route does, or by some clients.
        let security = match (route.access, route.path) {
            (Access::Local, _) => json!([{"localCookie": []}]),
            (Access::Metrics, _) | (_, "/account/unlock" | "/account/lock") => json!([{"localCookie": []}, {}]),
            (Access::Public, _) => json!(null),
        };
        assert_eq!(operation["security"], security, "{method} {}", route.path);
        let body = &operation["requestBody"];
        // NIS1 has it as a POST without a body.
        let has_body = method == "post" && route.path != "/account/unlocked/info";
        assert_eq!(body.is_object(), has_body, "{method} {}", route.path);
        let most_bytes = json!(route.body_limit.bytes(limits::PUSHED));
        assert!(!has_body || body["x-most-bytes"] == most_bytes, "{method} {} takes {most_bytes} bytes", route.path);
    }
    let scheme = &document["components"]["securitySchemes"]["localCookie"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&json!("http"), &json!("bearer")));
    assert_eq!(described.keys().collect::<Vec<_>>(), Vec::<&(&str, &str)>::new(), "no such routes");
}

/// Returns the schema of a value; its descriptions are to be written.
fn schema_of(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let properties: Map<_, _> =
                members.iter().map(|(name, member)| (name.clone(), schema_of(member))).collect();
            json!({ "type": "object", "description": "", "required": members.keys().collect::<Vec<_>>(), "properties": properties })
        }
        Value::Array(elements) => json!({ "type": "array", "items": elements.first().map(schema_of) }),
        Value::Number(_) => json!({ "type": "integer", "description": "" }),
        Value::Bool(_) => json!({ "type": "boolean", "description": "" }),
        Value::String(_) | Value::Null => json!({ "type": "string", "description": "", "nullable": value.is_null() }),
    }
}

/// Returns the operation of a route, as the route and a response of its show it; its descriptions are to be written. Its
/// parameters are those that have an effect, with the examples of the document.
fn skeleton(route: &Route, body: &Value, node: &Node, document: &Value) -> Value {
    let mut client = Client::connect(node.http);
    let mut ask = |query: &str| match route.method {
        Method::Get => client.get(&format!("{}?{query}", route.path)),
        Method::Post => client.post(route.path, &body.to_string()),
    };
    let known = document["components"]["parameters"].as_object().expect("parameters").iter();
    let known: Vec<_> = known.filter(|(_, parameter)| parameter["in"] == "query").collect();
    let examples = known.iter().map(|(_, it)| (it["name"].as_str().expect("a name"), examples(it, document)[0]));
    let examples: BTreeMap<_, _> = examples.collect();
    let without = |left_out: &str| query(examples.iter().filter(|(name, _)| **name != left_out).map(|(n, v)| (*n, *v)));
    let answer = ask(&without(""));
    let is_read = |name: &str, ask: &mut dyn FnMut(&str) -> Response| {
        let status = ask(&format!("{}&{name}=!", without(name))).status;
        status != answer.status || ask(&without(name)).status != answer.status
    };
    let read: BTreeSet<_> = examples.keys().filter(|name| is_read(name, &mut ask)).collect();
    let parameters = known.iter().filter(|(_, it)| read.contains(&it["name"].as_str().expect("a name")));
    let parameters = parameters.map(|(id, _)| json!({ "$ref": format!("#/components/parameters/{id}") }));
    let body = json!({ "x-most-bytes": route.body_limit.bytes(limits::PUSHED), "content": { JSON: { "schema": schema_of(body) } } });
    json!({
        "summary": "",
        "x-access": if route.access == Access::Public { "public" } else { "local" },
        "parameters": parameters.collect::<Vec<_>>(),
        "requestBody": if route.method == Method::Post { body } else { Value::Null },
        "responses": { answer.status.to_string(): { "content": { JSON: { "schema": schema_of(&answer.json()) } } } },
    })
}

/// A new route is described by its skeleton, in which only descriptions are missing.
#[test]
fn the_skeleton_of_an_operation_has_its_parameters_and_members() {
    let (document, node) = (document(), node_on_tiny());
    let route = ROUTES.iter().find(|route| route.path == "/account/get").expect("the route");
    let skeleton = skeleton(route, &Value::Null, &node, &document);
    let described = &document["paths"][route.path]["get"];
    let names = |operation: &Value| parameters(operation, &document).into_keys().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&skeleton), names(described));
    let members = |operation: &Value| {
        let schema = &operation["responses"]["200"]["content"][JSON]["schema"];
        resolve_reference(schema, &document)["properties"].as_object().map(|it| it.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(members(&skeleton), members(described), "{skeleton:#}");
}

#[test]
fn result_codes_and_messages_match_the_rules() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let names: Vec<_> = ValidationResult::ALL.iter().map(|result| result.name()).collect();
    let codes: Vec<_> = ValidationResult::ALL.iter().map(|result| result.code()).collect();
    assert_eq!(schemas["ResultMessage"]["enum"], json!(names));
    assert_eq!(schemas["ResultCode"]["enum"], json!(codes));
    assert_eq!(schemas["ResultCode"]["x-enum-varnames"], json!(names));
}

/// Parameters that neither NIS1 nor NEM's description has.
const OWN_PARAMETERS: [(&str, &str); 3] = [
    ("/transaction/get", "nested"),
    ("/account/unconfirmedTransactions", "hashes"),
    ("/account/unconfirmedTransactions", "pageSize"),
];

/// Clients generated from NEM's own description of 2026 find the same names here.
#[test]
fn operations_described_by_nem_have_its_ids_tags_and_parameters() {
    let Some(path) = shared("data/official/operations.json") else { return };
    let official: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    let document = document();
    let official = official.as_array().expect("a list");
    for theirs in official {
        let (path, method) = (theirs["path"].as_str().expect("a path"), theirs["method"].as_str().expect("a method"));
        let ours = &document["paths"][path][method.to_ascii_lowercase()];
        assert_eq!((&ours["operationId"], &ours["tags"]), (&theirs["operationId"], &theirs["tags"]), "{path}");
        let shape = |parameter: &Value, schema: &Value| {
            let of_schema = ["type", "pattern", "minimum", "maximum", "default"].map(|name| schema[name].clone());
            (["in", "required"].map(|name| parameter[name].clone()), of_schema)
        };
        let ours = parameters(ours, &document).into_iter();
        let ours = ours.filter(|(name, _)| !OWN_PARAMETERS.contains(&(path, *name)));
        let ours: BTreeMap<_, _> = ours.map(|(name, it)| (name, shape(it, &it["schema"]))).collect();
        let theirs = theirs["parameters"].as_array().expect("a list").iter();
        let theirs = theirs.map(|it| (it["name"].as_str().expect("a name"), shape(it, it)));
        assert_eq!(ours, theirs.collect(), "{path}");
    }
    print_notice(&format!("{} operations are as NEM describes them", official.len()));
}

/// Checks a response of NIS1 against the document; returns the route if the response is JSON.
fn compare(exchange: &Exchange, document: &Value) -> Option<String> {
    let path = exchange.path.trim_end_matches('/');
    let operation = &document["paths"].get(path)?.get(exchange.method.to_ascii_lowercase())?;
    // Requests rejected before routing have no JSON body.
    let body: Value = serde_json::from_slice(&exchange.expected.body).ok()?;
    let status = exchange.expected.status.to_string();
    let response = resolve_reference(&operation["responses"][&status], document);
    assert!(response.is_object(), "{path} has an answer {status} that is not described: {body}");
    let misfit = mismatch(&body, &response["content"][JSON]["schema"], document);
    assert_eq!(misfit, None, "{} {path} in {}", exchange.method, exchange.id);
    Some(format!("{} {path} {status}", exchange.method))
}

#[test]
fn every_recorded_response_matches_the_document() {
    let document = document();
    let mut described: BTreeMap<String, usize> = BTreeMap::new();
    for file in ["tiny.jsonl.gz", "all-forks.jsonl.gz", "one-year.jsonl.gz", "tiny-variants.jsonl.gz"] {
        for exchange in read_file(&recorded("http").join(file)) {
            compare(&exchange, &document).into_iter().for_each(|route| *described.entry(route).or_default() += 1);
        }
    }
    let successes: BTreeSet<_> = described.keys().filter(|route| route.ends_with(" 200")).collect();
    print_notice(&format!(
        "{} answers of {} routes are as described",
        described.values().sum::<usize>(),
        successes.len()
    ));
    assert!(successes.len() > 50, "{successes:?}");
}

/// Starts a booted node on the smallest chain with all optional features, so that the examples of the document hold.
fn node_on_tiny() -> Node {
    let settings = [
        "nis.optionalFeatures=TRANSACTION_HASH_LOOKUP|HISTORICAL_ACCOUNT_DATA|TRACK_EXPIRED_MOSAICS",
        "nis.bootKey=3b960ae4c8a29981e5ed8e801260f821095f8c6db72ab78f0463df2ff23af3ad",
        "nis.ipDetectionMode=Disabled",
    ];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let node = Node::on_tiny(60, &["--clock", "3240"].into_iter().chain(settings).collect::<Vec<_>>());
    let info = || Client::connect(node.http).get("/node/info").status;
    wait_for("the boot", || (info() == 200).then_some(()));
    node
}

/// Returns what is wrong with a response according to the operation's description.
fn response_mismatch(answer: &Response, operation: &Value, document: &Value) -> Option<String> {
    let response = resolve_reference(&operation["responses"][answer.status.to_string()], document);
    if !response.is_object() {
        return Some(format!("{} is not described", answer.status));
    }
    let Some(content) = response["content"].as_object() else {
        return (!answer.body.is_empty()).then(|| "it is not empty".to_owned());
    };
    let (kind, content) = content.iter().next().expect("one kind of content");
    let sent = answer.header("Content-Type").unwrap_or_default();
    // Plain text is labelled with the type that the client accepts.
    if !sent.starts_with(kind.as_str()) && (!sent.starts_with(JSON) || kind != "text/plain") {
        return Some(format!("it is {sent} and not {kind}"));
    }
    let value = if kind == JSON { answer.json() } else { json!(answer.text()) };
    mismatch(&value, &content["schema"], document)
}

/// Builds the query string of these parameters.
fn query<'p>(parameters: impl Iterator<Item = (&'p str, &'p Value)>) -> String {
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let pairs: Vec<_> = parameters.map(|(name, value)| format!("{name}={}", text(value))).collect();
    pairs.join("&")
}

/// Operations whose examples a node on the smallest chain answers differently, and with which status: it has already
/// joined its network, and the block of the example is unsigned.
const DEVIATING_EXAMPLES: [(&str, u16); 2] = [("bootNode", 503), ("pushBlock", 500)];

#[test]
fn responses_to_the_examples_match_the_document() {
    let (document, node) = (document(), node_on_tiny());
    let mut operations: Vec<_> = operations(&document).filter(|(_, path, _)| *path != STREAM).collect();
    operations.sort_by_key(|(_, path, _)| *path == "/shutdown");
    for (method, path, operation) in operations {
        let parameters = parameters(operation, &document).into_iter();
        let query = query(parameters.map(|(name, parameter)| (name, examples(parameter, &document)[0])));
        let mut client = Client::connect(node.http);
        let answer = match method {
            "get" => client.get(&format!("{path}?{query}")),
            _ => {
                let content = &operation["requestBody"]["content"][JSON];
                client.post(path, &content.get("example").unwrap_or(&json!({})).to_string())
            }
        };
        let not_done = DEVIATING_EXAMPLES.iter().find(|(id, _)| operation["operationId"] == *id);
        assert_eq!(answer.status, not_done.map_or(200, |(_, status)| *status), "{method} {path}: {}", answer.text());
        assert_eq!(response_mismatch(&answer, operation, &document), None, "{method} {path}");
    }
}

/// Members that responses always have and requests may omit.
const OPTIONAL_IN_REQUESTS: [(&str, &str); 1] = [("announceNode", "metaData")];

/// A route reads exactly the documented parameters and members: the required ones must be present, and of all names in
/// the document only those of the route have an effect.
#[test]
fn routes_read_exactly_the_documented_parameters() {
    let (document, node) = (document(), node_on_tiny());
    let mut client = Client::connect(node.http);
    let all = document["components"]["parameters"].as_object().expect("parameters").values();
    let all: BTreeSet<_> = all.map(|parameter| parameter["name"].as_str().expect("a name")).collect();
    let (mut tried, mut wrong) = (0, Vec::new());
    for (method, path, operation) in operations(&document).filter(|(_, path, _)| !["/shutdown", STREAM].contains(path))
    {
        let mut judge = |answer: Response, must_fail: bool, what: &str| {
            let misfit = response_mismatch(&answer, operation, &document);
            if (answer.status != 200) != must_fail || misfit.is_some() {
                wrong.push(format!("{method} {path} {what}: {} {:?}", answer.status, misfit));
            }
            tried += 1;
        };
        let own = parameters(operation, &document);
        let usual: BTreeMap<_, _> = own.iter().map(|(name, it)| (*name, examples(it, &document)[0].clone())).collect();
        let bad = json!("!");
        for name in all.iter().filter(|_| method == "get") {
            let others = || usual.iter().filter(|(other, _)| *other != name).map(|(other, value)| (*other, value));
            let answer = client.get(&format!("{path}?{}", query(others().chain([(*name, &bad)]))));
            judge(answer, own.contains_key(name), &format!("with a bad {name}"));
            let answer = client.get(&format!("{path}?{}", query(others())));
            let is_required = own.get(name).is_some_and(|parameter| parameter["required"] == true);
            judge(answer, is_required, &format!("without {name}"));
        }
        let content = &operation["requestBody"]["content"][JSON];
        let required = resolve_reference(&content["schema"], &document)["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            let mut sent = content["example"].clone();
            sent.as_object_mut().expect("an object").remove(name);
            let id = operation["operationId"].as_str().expect("an id");
            let must_fail = !OPTIONAL_IN_REQUESTS.contains(&(id, name));
            judge(client.post(path, &sent.to_string()), must_fail, &format!("without {name}"));
        }
        if let Some(most_bytes) = operation["requestBody"]["x-most-bytes"].as_u64() {
            let (mut client, too_many) = (Client::connect(node.http), most_bytes + 1);
            client.send(format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {too_many}\r\n\r\n"));
            let answer = client.answer();
            assert_eq!(answer.status, 413, "{path} with {too_many} bytes");
            judge(answer, true, "with too many bytes");
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "{} of {tried}", wrong.len());
    assert!(tried > 1000, "{tried}");
}

#[test]
fn the_document_is_served_unchanged_and_cacheable() {
    let node = node_on_tiny();
    let mut client = Client::connect(node.http);
    let mut ask = |headers: &str| client.request(get_with("/openapi.json", headers));
    let plain = ask("");
    assert_eq!((plain.status, plain.header("Content-Type"), plain.text()), (200, Some(JSON), OPENAPI.as_str()));
    assert_eq!(plain.header("Access-Control-Allow-Origin"), Some("*"));
    let packed = ask("Accept-Encoding: gzip\r\n");
    assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(&packed.body[..]);
    std::io::Read::read_to_string(&mut unpacked, &mut text).expect("gzip");
    assert_eq!(text, *OPENAPI);
    assert!(packed.body.len() < 50_000, "{}", packed.body.len());
    let tag = plain.header("ETag").expect("a tag");
    assert!(tag.starts_with('"') && Some(tag) != packed.header("ETag"), "{tag}");
    let known = ask(&format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.body.len(), known.header("ETag")), (304, 0, Some(tag)));
    assert_eq!(ask("If-None-Match: \"other\"\r\n").status, 200);
    assert_eq!(ask("Accept: application/binary\r\n").status, 406);
}

/// NIS1 has no such route: a node that knows two peers, both unreachable, lists them.
#[test]
fn the_local_peers_response_matches_the_document() {
    let (document, folder) = (document(), tempfile::tempdir().expect("a folder"));
    let genesis = new_network();
    let config = genesis.write(folder.path(), &[("nis.ipDetectionMode", "Disabled")]);
    let known = json!({
        "identity": { "public-key": key_pair(7).public().to_string(), "name": "gone" },
        "endpoint": { "protocol": "http", "host": "127.0.0.1", "port": 9 },
    });
    let list = json!({ "knownPeers": [known] }).to_string();
    std::fs::write(folder.path().join("peers-config_synthetic.json"), list).expect("room");
    let node = Node::start(args!["--config", config, "--peer", "127.0.0.1:10"]);
    let told = wait_for("the state of both peers", || {
        let told = Client::connect(node.http).get("/local/peers").json();
        let is_known = told["peers"][0]["state"] == "inactive";
        (is_known && told["unidentified"][0]["lastFailure"]["reason"].is_string()).then_some(told)
    });
    let operation = &document["paths"]["/local/peers"]["get"];
    let schema = &operation["responses"]["200"]["content"][JSON]["schema"];
    assert_eq!(mismatch(&told, schema, &document), None, "{told}");
    assert!(told["peers"][0]["askedAgain"]["inSeconds"].as_u64().is_some_and(|seconds| seconds <= 60), "{told}");
}
