//! The description of the interface that it serves itself, in the form of OpenAPI 3.1.
//!
//! It is made of the route table, a line about each route, and the shapes of the objects.

mod operations;
mod shapes;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use self::operations::{OPERATIONS, Operation};
use self::shapes::{SHAPES, schema};
use super::route::{Access, Method, Route};
use crate::peer::wire::limits;

/// The description of the interface with these routes.
pub fn text(routes: &'static [Route]) -> String {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[name(route.method).to_ascii_lowercase()] = operation(route);
    }
    let schemas: Map<_, _> = SHAPES.iter().map(|(name, shape)| ((*name).to_owned(), schema(shape))).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nisd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The HTTP interface of a NEM (NIS1) node. Amounts are in micro XEM, times in seconds since \
                the network began. Every answer can be had as application/binary as well. x-access tells who may call: \
                anyone, or callers from the node's own machine only.",
        },
        "paths": paths,
        "components": { "schemas": schemas },
    });
    document.to_string()
}

/// The description of this interface.
pub fn of_all_routes() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| text(super::ROUTES));
    &TEXT
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Post => "POST",
    }
}

/// What is said of a route; a test holds that something is said of each.
fn line_about(route: &Route) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| (operation.method, operation.path) == (name(route.method), route.path))
}

fn operation(route: &Route) -> Value {
    let Some(line) = line_about(route) else { return json!({}) };
    let mut operation = json!({
        "summary": line.summary,
        "operationId": format!("{}{}", name(route.method).to_ascii_lowercase(), route.path.replace(['/', '.'], "_")),
        "tags": [route.path.split('/').find(|part| !part.is_empty() && *part != "local").unwrap_or_default()],
        "x-access": if route.access == Access::Public { "public" } else { "local" },
        "parameters": line.parameters.split_whitespace().map(parameter).collect::<Vec<_>>(),
        "responses": responses(line.answer),
    });
    if !line.body.is_empty() {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": schema(line.body) } },
            "x-most-bytes": route.body_limit.bytes(limits::PUSHED),
        });
    }
    operation
}

/// A parameter of a query; one with a `?` behind its name may be missing.
fn parameter(text: &str) -> Value {
    let name = text.trim_end_matches('?');
    let (kind, about) = match name {
        "address" => (json!({ "type": "string" }), "an address of this network: 40 characters without hyphens"),
        "publicKey" => (json!({ "type": "string" }), "64 hexadecimal digits"),
        "hash" if text == name => (json!({ "type": "string" }), "64 hexadecimal digits"),
        "hash" => {
            (json!({ "type": "string" }), "the page begins below this transaction; not looked at if there is an id")
        }
        "id" => (json!({ "type": "integer", "format": "int64" }), "the page begins below this number"),
        "pageSize" => {
            let kind =
                json!({ "type": "integer", "format": "int32", "minimum": -32768, "maximum": 32767, "default": 25 });
            (kind, "entries; fewer than 5 are 5, more than 100 are 100")
        }
        "namespace" => (json!({ "type": "string" }), "such as nem or alice.vouchers"),
        "parent" => (json!({ "type": "string" }), "the namespace directly above"),
        "mosaicId" => (json!({ "type": "string" }), "such as nem:xem"),
        "height" => (json!({ "type": "integer", "format": "int64", "minimum": 1 }), "the last block if it is missing"),
        "increment" => {
            (json!({ "type": "integer", "format": "int64", "minimum": 1 }), "heights from one entry to the next")
        }
        _ => (json!({ "type": "integer", "format": "int64", "minimum": 1 }), "a height"),
    };
    json!({ "name": name, "in": "query", "required": text == name, "schema": kind, "description": about })
}

/// What may be answered: what is asked for, or an error.
fn responses(answer: &str) -> Value {
    let success = match answer {
        "" => json!({ "description": "done; there is nothing to tell" }),
        "text" => json!({
            "description": "a word",
            "content": { "application/json": { "schema": {} }, "text/plain": { "schema": { "type": "string" } } },
        }),
        shape => json!({
            "description": "what was asked for",
            "content": { "application/json": { "schema": schema(shape) } },
        }),
    };
    let error = |about: &str| {
        json!({
            "description": about,
            "content": { "application/json": { "schema": schema("Error") } },
        })
    };
    json!({
        "200": success,
        "400": error("an argument is wrong"),
        "401": error("the caller may not do this"),
        "404": error("there is no such thing"),
        "406": error("neither JSON nor the binary format is accepted"),
        "429": error("too many requests"),
        "500": error("a parameter is missing or of the wrong type, or something is switched off"),
        "503": error("the node cannot answer this now"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::ROUTES;

    #[test]
    fn each_route_has_its_line_and_each_line_its_route() {
        let routes: BTreeSet<_> = ROUTES.iter().map(|route| (name(route.method), route.path)).collect();
        let lines: BTreeSet<_> = OPERATIONS.iter().map(|line| (line.method, line.path)).collect();
        assert_eq!(routes, lines);
        assert_eq!(lines.len(), OPERATIONS.len(), "a route has two lines");
    }

    /// All that a document refers to.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member) {
                        ("$ref", Value::String(path)) => drop(found.insert(path.clone())),
                        _ => references(member, found),
                    }
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
            _ => {}
        }
    }

    #[test]
    fn every_shape_that_is_named_is_there_and_none_is_there_for_nothing() {
        let document: Value = serde_json::from_str(of_all_routes()).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        let named: BTreeSet<_> = SHAPES.iter().map(|(name, _)| format!("#/components/schemas/{name}")).collect();
        assert_eq!(found, named);
    }

    #[test]
    fn the_description_tells_who_may_call_and_what_is_sent() {
        let document: Value = serde_json::from_str(of_all_routes()).unwrap();
        let announce = &document["paths"]["/transaction/announce"]["post"];
        assert_eq!(announce["x-access"], "public");
        assert_eq!(announce["requestBody"]["x-most-bytes"], 64 << 10);
        assert_eq!(document["paths"]["/transaction/prepare"]["post"]["x-access"], "local");
        assert_eq!(document["paths"]["/account/get"]["get"]["parameters"][0]["required"], true);
    }
}
