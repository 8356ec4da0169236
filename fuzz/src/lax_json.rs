//! Fuzz target: the permissive JSON parser.

use std::fmt::Write;

use nisd::codec::lenient_json::{MAX_DEPTH, MAX_MEMBERS, Value, parse};

/// Maximum depth of the strict parser.
const STRICT_DEPTH: usize = 127;

/// An integer that exceeds 64 bits.
const HUGE: &str = "99999999999999999999";

/// Checks that every parsed value, printed as JSON, is parsed as the same value again: by the permissive parser always,
/// by a strict one if JSON can represent it. What the strict parser accepts means the same to both.
pub fn check(data: &[u8]) -> usize {
    if let Ok(strict) = serde_json::from_slice::<serde_json::Value>(data) {
        match parse(data) {
            Ok(lax) => assert!(agrees(&lax, &strict), "{lax:?} is not {strict:?}"),
            Err(error) => assert!(data.len() > 4 * MAX_MEMBERS, "all JSON is permissive JSON: {error}"),
        }
    }
    let Ok(value) = parse(data) else { return 0 };
    let depth = depth(&value);
    assert!(depth <= MAX_DEPTH);
    let mut text = String::new();
    print(&value, &mut text);
    let again = parse(text.as_bytes()).expect("what is printed is read");
    assert!(same(&value, &again), "{text} was read as {again:?}");
    if depth <= STRICT_DEPTH && is_strict(&value) {
        let strict = serde_json::from_str(&text).expect("what is printed is JSON");
        assert!(agrees(&value, &strict), "{text} is {strict:?} to others");
    }
    1
}

/// Prints a value as JSON; `NaN` and infinities as the permissive parser reads them.
fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => _ = write!(out, "{value}"),
        Value::Integer(value) => _ = write!(out, "{value}"),
        Value::HugeInteger => out.push_str(HUGE),
        Value::Decimal(value) if value.is_nan() => out.push_str("NaN"),
        Value::Decimal(value) if value.is_infinite() => {
            out.push_str(if *value > 0.0 { "1e999" } else { "-1e999" });
        }
        Value::Decimal(value) => _ = write!(out, "{value:e}"),
        Value::String(text) => print_string(text, out),
        Value::Array(values) => {
            out.push('[');
            for (position, value) in values.iter().enumerate() {
                out.push_str(if position > 0 { "," } else { "" });
                print(value, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (position, (key, value)) in members.iter().enumerate() {
                out.push_str(if position > 0 { "," } else { "" });
                print_string(key, out);
                out.push(':');
                print(value, out);
            }
            out.push('}');
        }
    }
}

fn print_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..' ' => _ = write!(out, "\\u{:04x}", u32::from(character)),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Returns the nesting depth of containers.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns whether JSON can represent this value.
fn is_strict(value: &Value) -> bool {
    match value {
        Value::Decimal(number) => number.is_finite(),
        Value::Array(values) => values.iter().all(is_strict),
        Value::Object(members) => members.iter().all(|(_, value)| is_strict(value)),
        _ => true,
    }
}

/// Compares values; `NaN` equals itself, and the two zeros differ.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Decimal(one), Value::Decimal(other)) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.into_iter().all(|(one, other)| one.0 == other.0 && same(&one.1, &other.1))
        }
        (one, other) => one == other,
    }
}

/// Returns whether both parsers agree.
fn agrees(lax: &Value, strict: &serde_json::Value) -> bool {
    use serde_json::Value as Strict;
    match (lax, strict) {
        (Value::Null, Strict::Null) => true,
        (Value::Bool(lax), Strict::Bool(strict)) => lax == strict,
        // The strict parser keeps the sign of `-0`.
        (Value::Integer(lax), Strict::Number(strict)) => {
            strict.as_i64() == Some(*lax) || *lax == 0 && strict.as_f64() == Some(0.0)
        }
        (Value::HugeInteger, Strict::Number(strict)) => strict.as_i64().is_none(),
        (Value::Decimal(lax), Strict::Number(strict)) => strict.is_f64() && strict.as_f64() == Some(*lax),
        (Value::String(lax), Strict::String(strict)) => lax == strict,
        (Value::Array(lax), Strict::Array(strict)) => {
            lax.len() == strict.len() && lax.iter().zip(strict).all(|(lax, strict)| agrees(lax, strict))
        }
        (Value::Object(lax), Strict::Object(strict)) => {
            let has = |(key, value): &(String, Value)| strict.get(key).is_some_and(|strict| agrees(value, strict));
            lax.len() == strict.len() && lax.iter().all(has)
        }
        _ => false,
    }
}
