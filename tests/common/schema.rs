//! Validator for the subset of the OpenAPI schema language that the description of the interface uses.

use std::cell::RefCell;
use std::collections::HashMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// Supported keywords: constraints, and annotations for people or generators.
const KEYWORDS: [&str; 16] = [
    "$ref",
    "oneOf",
    "type",
    "format",
    "enum",
    "nullable",
    "pattern",
    "minimum",
    "maximum",
    "items",
    "properties",
    "required",
    "x-may-be-empty",
    "default",
    "description",
    "x-enum-varnames",
];

/// Returns why a value does not match a schema of a document. A member without a description does not match.
pub fn mismatch(value: &Value, schema: &Value, document: &Value) -> Option<String> {
    for keyword in schema.as_object().expect("a schema").keys() {
        assert!(KEYWORDS.contains(&keyword.as_str()), "{keyword} is not looked at");
    }
    if let Some(path) = schema["$ref"].as_str() {
        return mismatch(value, resolve(path, document), document);
    }
    if value.is_null() && schema["nullable"] == true {
        return None;
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let misfits: Vec<String> = choices.iter().filter_map(|choice| mismatch(value, choice, document)).collect();
        return (misfits.len() + 1 != choices.len()).then(|| format!("not one of them: {}", misfits.join("; ")));
    }
    if let Some(values) = schema["enum"].as_array().filter(|values| !values.contains(value)) {
        return Some(format!("{value} is none of {values:?}"));
    }
    let Some(kind) = schema["type"].as_str() else { panic!("{schema} has no type") };
    let is_of_kind = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => {
            let matches = |text| schema["pattern"].as_str().is_none_or(|pattern| is_match(pattern, text));
            value.as_str().is_some_and(matches)
        }
        "integer" => value.as_i64().is_some_and(|number| {
            (schema["format"] != "int32" || i32::try_from(number).is_ok())
                && schema["minimum"].as_i64().is_none_or(|least| number >= least)
                && schema["maximum"].as_i64().is_none_or(|most| number <= most)
        }),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("a type {other}"),
    };
    if !is_of_kind {
        return Some(format!("{value} is not {schema}"));
    }
    let mut elements = value.as_array().into_iter().flatten();
    let of_element = elements.find_map(|element| mismatch(element, &schema["items"], document));
    of_element.or_else(|| value.as_object().and_then(|object| members(object, schema, document)))
}

/// Returns whether a whole text matches a pattern. Patterns are compiled once, as each is used thousands of times.
fn is_match(pattern: &str, text: &str) -> bool {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        if !compiled.contains_key(pattern) {
            assert!(pattern.starts_with('^') && pattern.ends_with('$'), "{pattern} is no pattern of a whole text");
            compiled.insert(pattern.to_owned(), Regex::new(pattern).expect("a pattern"));
        }
        compiled[pattern].is_match(text)
    })
}

fn members(object: &Map<String, Value>, schema: &Value, document: &Value) -> Option<String> {
    // Anything is allowed if the schema has no constraint.
    let described = schema["properties"].as_object()?;
    if schema["x-may-be-empty"] == true && object.len() != described.len() && !object.is_empty() {
        return Some(format!("{object:?} has some of the members, neither all nor none"));
    }
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| !object.contains_key(*name)) {
        return Some(format!("{missing} is missing in {object:?}"));
    }
    object.iter().find_map(|(name, member)| match described.get(name) {
        Some(schema) => mismatch(member, schema, document).map(|misfit| format!("{name}: {misfit}")),
        None => Some(format!("{name} is not described")),
    })
}

/// Resolves a reference such as `#/components/schemas/Hash`.
pub fn resolve<'d>(path: &str, document: &'d Value) -> &'d Value {
    document.pointer(path.trim_start_matches('#')).unwrap_or_else(|| panic!("{path} leads nowhere"))
}

#[test]
fn the_validator_rejects_invalid_values() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": { "type": "string", "pattern": "^[0-9a-f]{2}$" },
            "b": { "type": "array", "items": { "type": "integer", "format": "int32", "nullable": true } },
            "c": { "type": "object", "x-may-be-empty": true, "properties": {
                "d": { "type": "integer", "enum": [1, 2] }, "e": { "type": "integer", "minimum": 3, "maximum": 4 }
            } },
            "f": { "oneOf": [{ "type": "string", "pattern": "^[0-9]{4}-[0-9]*$" }, { "type": "integer" }] },
        },
    });
    for (value, fits) in [
        (r#"{"a":"0f"}"#, true),
        (r#"{"a":"0F"}"#, false),
        (r#"{"a":"0f0"}"#, false),
        (r#"{"a":null}"#, false),
        ("{}", false),
        ("[]", false),
        (r#"{"a":"00","x":1}"#, false),
        (r#"{"a":"00","b":[1,null]}"#, true),
        (r#"{"a":"00","b":[1,"1"]}"#, false),
        (r#"{"a":"00","b":[3000000000]}"#, false),
        (r#"{"a":"00","c":{}}"#, true),
        (r#"{"a":"00","c":{"d":1}}"#, false),
        (r#"{"a":"00","c":{"d":1,"e":3}}"#, true),
        (r#"{"a":"00","c":{"d":3,"e":3}}"#, false),
        (r#"{"a":"00","c":{"d":1,"e":2}}"#, false),
        (r#"{"a":"00","c":{"d":1,"e":5}}"#, false),
        (r#"{"a":"00","f":7}"#, true),
        (r#"{"a":"00","f":"2026-11"}"#, true),
        (r#"{"a":"00","f":"2026-"}"#, true),
        (r#"{"a":"00","f":"2026"}"#, false),
        (r#"{"a":"00","f":"202-11"}"#, false),
        (r#"{"a":"00","f":"2026-11x"}"#, false),
        (r#"{"a":"00","f":1.5}"#, false),
    ] {
        let value: Value = serde_json::from_str(value).expect("JSON");
        assert_eq!(mismatch(&value, &schema, &Value::Null).is_none(), fits, "{value}");
    }
}
