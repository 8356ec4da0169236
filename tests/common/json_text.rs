//! JSON values that keep numbers as written, so that `0.0` differs from `0`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Json {
    /// `null`, `true`, `false`, or a number as written.
    Literal(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; its members are sorted by name because their order has no meaning.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text of one value and white space.
    pub fn parse(text: &str) -> Result<Json, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns a member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Builds an object from its members.
    pub fn object(mut members: Vec<(String, Json)>) -> Json {
        members.sort();
        Json::Object(members)
    }

    /// Calls `change` with every value at a path such as `/data/*/meta`, where `*` matches every element or member;
    /// returns their number.
    pub fn at_path(&mut self, path: &str, change: &mut impl FnMut(&mut Json)) -> usize {
        let Some(rest) = path.strip_prefix('/') else {
            change(self);
            return 1;
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        match self {
            Json::Array(values) => {
                let wanted = |index: &usize| name == "*" || name == index.to_string();
                let found = values.iter_mut().enumerate().filter(|(index, _)| wanted(index));
                found.map(|(_, value)| value.at_path(rest, change)).sum()
            }
            Json::Object(members) => {
                let found = members.iter_mut().filter(|(key, _)| name == "*" || name == key);
                found.map(|(_, value)| value.at_path(rest, change)).sum()
            }
            _ => 0,
        }
    }

    /// Calls `change` with every member of this name at any depth.
    pub fn at_name(&mut self, name: &str, change: &mut impl FnMut(&mut Json)) {
        match self {
            Json::Array(values) => values.iter_mut().for_each(|value| value.at_name(name, change)),
            Json::Object(members) => {
                for (key, value) in members {
                    if key == name { change(value) } else { value.at_name(name, change) }
                }
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Literal(word) => f.write_str(word),
            Json::String(text) => text.fmt(f),
            Json::Array(values) => f.debug_list().entries(values).finish(),
            Json::Object(members) => f.debug_map().entries(members.iter().map(|(key, value)| (key, value))).finish(),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let read = match text.as_bytes()[0] {
            b'{' => serde_json::from_str(text).map(|Members(members)| Json::object(members)),
            b'[' => serde_json::from_str(text).map(Json::Array),
            b'"' => serde_json::from_str(text).map(Json::String),
            _ => Ok(Json::Literal(text.to_owned())),
        };
        read.map_err(D::Error::custom)
    }
}

/// All members of an object, also those of the same name.
struct Members(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(Members(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Members, A::Error> {
        while let Some(member) = map.next_entry()? {
            self.0.push(member);
        }
        Ok(self)
    }
}
