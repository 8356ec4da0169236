//! JSON values that keep numbers as written, so that `0.0` differs from `0`.

use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        let mut parser = Parser { text, at: 0 };
        let value = parser.value()?;
        parser.skip_whitespace();
        if parser.at < text.len() { Err(parser.unexpected()) } else { Ok(value) }
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
            Json::Object(members) => members.iter_mut().for_each(|(key, value)| match key == name {
                true => change(value),
                false => value.at_name(name, change),
            }),
            _ => {}
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Literal(word) => f.write_str(word),
            Json::String(text) => write!(f, "{text:?}"),
            Json::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (index, (key, value)) in members.iter().enumerate() {
                    write!(f, "{}{key:?}:{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> String {
        format!("not JSON at byte {}", self.at)
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), String> {
        self.skip_whitespace();
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self) -> Result<Json, String> {
        self.skip_whitespace();
        match self.peek() {
            Some(b'{') => {
                let members = self.list(b'{', b'}', |parser| {
                    let key = parser.string()?;
                    parser.expect_byte(b':')?;
                    Ok((key, parser.value()?))
                })?;
                Ok(Json::object(members))
            }
            Some(b'[') => self.list(b'[', b']', Parser::value).map(Json::Array),
            Some(b'"') => self.string().map(Json::String),
            _ => self.word(),
        }
    }

    fn list<T>(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.expect_byte(open)?;
        let mut items = Vec::new();
        if self.expect_byte(close).is_ok() {
            return Ok(items);
        }
        loop {
            self.skip_whitespace();
            items.push(item(self)?);
            if self.expect_byte(close).is_ok() {
                return Ok(items);
            }
            self.expect_byte(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        self.expect_byte(b'"')?;
        while self.peek().ok_or_else(|| self.unexpected())? != b'"' {
            self.at += if self.peek() == Some(b'\\') { 2 } else { 1 };
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at).ok_or_else(|| self.unexpected())?;
        serde_json::from_str(quoted).map_err(|error| error.to_string())
    }

    fn word(&mut self) -> Result<Json, String> {
        let rest = &self.text[self.at..];
        let end = rest.find([' ', '\t', '\r', '\n', ',', ']', '}']).unwrap_or(rest.len());
        // Checks the form of the number or keyword.
        serde_json::from_str::<serde_json::Value>(&rest[..end]).map_err(|error| error.to_string())?;
        self.at += end;
        Ok(Json::Literal(rest[..end].to_owned()))
    }
}
