//! A lenient JSON reader for HTTP bodies and websocket payloads.
//!
//! NIS1's own parser accepts far more than JSON, and wallets rely on it: some send single-quoted text. The grammar is
//! that of RFC 8259, plus:
//!
//! - strings in `'…'` or `"…"`, with the escapes `\'` and `\xHH`; unknown escapes are dropped;
//! - unquoted keys, up to the `:`, and unquoted values, up to the `,` or the bracket that ends the container, both
//!   trimmed; a value that is neither a literal nor a number is a string;
//! - leading zeros, `NaN`, and superfluous commas;
//! - anything after the first complete value, which is ignored;
//! - duplicate keys, of which the last one counts.
//!
//! It takes linear time (times the logarithm of the number of keys of one object, which is limited) and linear memory. The
//! caller limits the length of the text.

use std::borrow::Cow;
use std::cmp::Ordering;

use zeroize::Zeroize;

use super::text::repair_utf8;
use super::wipe::{Wipe, Wiped};

/// Maximum nesting depth of containers; deeper text is rejected.
pub const MAX_DEPTH: usize = 400;

/// Maximum number of members of one object, repeated keys included. What closes an object, sorts its keys and drops it is
/// one step, so that it must be short.
pub const MAX_MEMBERS: usize = 1_024;

/// Maximum number of values in a text that a [`Parser`] reads in steps: its value is dropped in one step.
pub const MAX_VALUES: usize = 16_384;

/// A JSON value. It may hold a secret: the owner must wipe it after use.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer literal that fits 64 bits.
    Integer(i64),
    /// An integer literal beyond 64 bits. Nothing accepts one, so its digits are not kept.
    HugeInteger,
    /// A number with a point or an exponent, or `NaN`; infinite if beyond the range of a double.
    Decimal(f64),
    /// A string, quoted or unquoted. An unpaired surrogate is replaced by `?`.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object with each key once, in the order of first appearance.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Returns the member `key` of an object; `None` if there is none or this is not an object.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

impl Wipe for Value {
    /// Erases all texts and numbers, including keys.
    fn wipe(&mut self) {
        match self {
            Self::Null | Self::Bool(_) | Self::HugeInteger => {}
            Self::Integer(number) => number.zeroize(),
            Self::Decimal(number) => number.zeroize(),
            Self::String(text) => text.wipe(),
            Self::Array(values) => values.iter_mut().for_each(Wipe::wipe),
            Self::Object(members) => {
                for (key, value) in members {
                    key.wipe();
                    value.wipe();
                }
            }
        }
    }
}

/// Why a text is not lenient JSON. Offsets are in bytes of the text after UTF-8 repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LenientJsonError(Cow<'static, str>);

/// The text ends before the first value does, or holds none.
const UNEXPECTED_END: LenientJsonError = LenientJsonError(Cow::Borrowed("the JSON text ends too early"));

/// Parses the first value in `text`, which is decoded as UTF-8 with malformed sequences repaired.
///
/// No copy of a part of the text stays in freed memory: everything that does not become part of the result is erased.
pub fn parse(text: &[u8]) -> Result<Value, LenientJsonError> {
    let mut parser = Parser::new(text)?;
    parser.max_values = usize::MAX;
    parser.advance(usize::MAX)?.ok_or(UNEXPECTED_END)
}

/// Like [`parse`], but returns `None` if anything but white space follows the value.
pub fn parse_alone(text: &[u8]) -> Result<Option<Value>, LenientJsonError> {
    let mut parser = Parser::new(text)?;
    let value = parser.advance(usize::MAX)?.ok_or(UNEXPECTED_END)?;
    let is_alone = parser.text.get(parser.position..).is_some_and(|rest| rest.trim_ascii().is_empty());
    Ok(is_alone.then_some(value))
}

/// A parser that can pause after any value or bracket.
pub struct Parser {
    text: Wiped<String>,
    position: usize,
    containers: Containers,
    max_values: usize,
}

impl Parser {
    /// Creates a parser of the first value in `text`.
    pub fn new(text: &[u8]) -> Result<Parser, LenientJsonError> {
        let text = Wiped(repair_utf8(text).into_owned());
        if text.starts_with('\u{feff}') {
            return Err(LenientJsonError("the JSON text must not start with a byte order mark".into()));
        }
        Ok(Parser { text, position: 0, containers: Containers::default(), max_values: MAX_VALUES })
    }

    /// Parses about `bytes` bytes more. Returns the value once it is complete; then, and after an error, it must not be
    /// called again.
    pub fn advance(&mut self, bytes: usize) -> Result<Option<Value>, LenientJsonError> {
        let Parser { text, position, containers, max_values } = self;
        let mut tokens = Tokens { text, position: *position };
        let end = position.saturating_add(bytes);
        loop {
            let value = containers.read_next(&mut tokens)?;
            *position = tokens.position;
            if containers.read_values > *max_values {
                return Err(LenientJsonError(format!("JSON has more than {max_values} values").into()));
            }
            if value.is_some() || *position >= end {
                return Ok(value);
            }
        }
    }

    /// Returns the bytes that were parsed.
    pub fn parsed(&self) -> usize {
        self.position
    }

    /// Returns the approximate memory in bytes that is held.
    pub fn held_bytes(&self) -> usize {
        let values = self.containers.values.capacity() * size_of::<Value>();
        values + self.containers.keys.capacity() * size_of::<String>() + self.text.len() + self.position
    }
}

/// A container that is not closed yet.
struct OpenContainer {
    closing: u8,
    first_value: usize,
    first_key: usize,
}

/// The members of all open containers are on two shared stacks, and a container that closes takes its own from the top, so
/// that every vector in the result has its exact size.
#[derive(Default)]
struct Containers {
    open: Vec<OpenContainer>,
    /// Number of scalars and of opening brackets so far.
    read_values: usize,
    values: Vec<Value>,
    keys: Vec<String>,
}

impl Containers {
    /// Reads the next scalar, opening or closing bracket. Returns the outermost value if it is complete.
    fn read_next(&mut self, tokens: &mut Tokens<'_>) -> Result<Option<Value>, LenientJsonError> {
        let closing = self.open.last().map(|container| container.closing);
        if let Some(closing) = closing {
            tokens.skip(b" \r\n\t,");
            if tokens.peek()? == closing {
                tokens.position += 1;
                return self.close(tokens);
            }
            if closing == b'}' {
                self.read_key(tokens)?;
            }
        }
        self.read_values += 1;
        tokens.skip(b" \r\n\t");
        let value = match tokens.peek()? {
            b'{' => return self.open(b'}', tokens),
            b'[' => return self.open(b']', tokens),
            b'}' | b']' | b':' | b',' => return Err(tokens.unexpected()),
            quote @ (b'"' | b'\'') => Value::String(tokens.quoted(quote)?),
            _ => classify(match closing {
                Some(closing) => tokens.unquoted(&[b',', closing]),
                None => tokens.unquoted(b""),
            }),
        };
        self.add(value, tokens)
    }

    /// Reads the next key of the innermost container, with the colon.
    fn read_key(&mut self, tokens: &mut Tokens<'_>) -> Result<(), LenientJsonError> {
        let first = self.open.last().map_or(0, |container| container.first_key);
        if self.keys.len() - first == MAX_MEMBERS {
            let text = format!("an object in JSON has more than {MAX_MEMBERS} members at byte {}", tokens.position);
            return Err(LenientJsonError(text.into()));
        }
        self.keys.push(match tokens.peek()? {
            b':' | b'[' | b'{' | b']' => return Err(tokens.unexpected()),
            quote @ (b'"' | b'\'') => tokens.quoted(quote)?,
            _ => tokens.unquoted(b":").to_owned(),
        });
        tokens.skip(b" \r\n\t");
        if tokens.peek()? != b':' {
            return Err(tokens.unexpected());
        }
        tokens.position += 1;
        Ok(())
    }

    fn open(&mut self, closing: u8, tokens: &mut Tokens<'_>) -> Result<Option<Value>, LenientJsonError> {
        if self.open.len() == MAX_DEPTH {
            let text = format!("JSON is nested deeper than {MAX_DEPTH} at byte {}", tokens.position);
            return Err(LenientJsonError(text.into()));
        }
        tokens.position += 1;
        self.open.push(OpenContainer { closing, first_value: self.values.len(), first_key: self.keys.len() });
        Ok(None)
    }

    /// Ends the innermost container, whose closing bracket was read.
    fn close(&mut self, tokens: &mut Tokens<'_>) -> Result<Option<Value>, LenientJsonError> {
        let Some(OpenContainer { closing, first_value, first_key }) = self.open.pop() else { return Ok(None) };
        let values = split_off(&mut self.values, first_value);
        let value = match closing {
            b'}' => Value::Object(last_of_each_key(split_off(&mut self.keys, first_key), values)),
            _ => Value::Array(values),
        };
        self.add(value, tokens)
    }

    /// Adds a value to the innermost container; returns it if there is none.
    fn add(&mut self, value: Value, tokens: &mut Tokens<'_>) -> Result<Option<Value>, LenientJsonError> {
        let Some(OpenContainer { closing, .. }) = self.open.last() else { return Ok(Some(value)) };
        self.values.push(value);
        tokens.skip(b" \r\n\t");
        if [b',', *closing].contains(&tokens.peek()?) { Ok(None) } else { Err(tokens.unexpected()) }
    }
}

impl Drop for Containers {
    /// Erases what was read before an error. Otherwise nothing is left.
    fn drop(&mut self) {
        self.keys.iter_mut().for_each(Wipe::wipe);
        self.values.iter_mut().for_each(Wipe::wipe);
    }
}

/// Reads the parts of a text.
struct Tokens<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Tokens<'a> {
    fn remaining(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Result<u8, LenientJsonError> {
        self.text.as_bytes().get(self.position).copied().ok_or(UNEXPECTED_END)
    }

    /// Skips any number of the ASCII characters in `these`.
    fn skip(&mut self, these: &[u8]) {
        self.position += self.remaining().bytes().take_while(|byte| these.contains(byte)).count();
    }

    fn unexpected(&self) -> LenientJsonError {
        self.remaining().chars().next().map_or(UNEXPECTED_END, |character| {
            LenientJsonError(format!("unexpected {character:?} in JSON at byte {}", self.position).into())
        })
    }

    /// Reads the text up to one of the ASCII characters in `ends` or to the end, trimmed.
    fn unquoted(&mut self, ends: &[u8]) -> &'a str {
        let rest = self.remaining();
        let length = rest.bytes().position(|byte| ends.contains(&byte));
        let token = length.and_then(|length| rest.get(..length)).unwrap_or(rest);
        self.position += token.len();
        token.trim_matches(|character| character <= ' ')
    }

    /// Reads the string that starts here and ends at the next unescaped `quote`.
    fn quoted(&mut self, quote: u8) -> Result<String, LenientJsonError> {
        self.position += 1;
        let mut run = self.text_to(quote)?;
        if self.peek()? == quote {
            self.position += 1;
            return Ok(run.to_owned());
        }
        let mut text = Utf16Builder::with_capacity(run.len() + quoted_length(self.remaining(), quote));
        loop {
            text.push_str(run);
            let is_end = self.peek()? == quote;
            self.position += 1;
            if is_end {
                return Ok(text.finish());
            }
            self.escape(&mut text)?;
            run = self.text_to(quote)?;
        }
    }

    /// Reads the text up to the next `quote` or backslash.
    fn text_to(&mut self, quote: u8) -> Result<&'a str, LenientJsonError> {
        let rest = self.remaining();
        let stop = rest.bytes().position(|byte| byte == quote || byte == b'\\');
        let run = stop.and_then(|stop| rest.get(..stop)).ok_or(UNEXPECTED_END)?;
        self.position += run.len();
        Ok(run)
    }

    /// Reads an escape after its backslash.
    fn escape(&mut self, text: &mut Utf16Builder) -> Result<(), LenientJsonError> {
        let mut rest = self.remaining().chars();
        let character = rest.next().ok_or(UNEXPECTED_END)?;
        self.position += character.len_utf8();
        match character {
            't' => text.push_str("\t"),
            'n' => text.push_str("\n"),
            'r' => text.push_str("\r"),
            'f' => text.push_str("\u{c}"),
            'b' => text.push_str("\u{8}"),
            '\\' | '/' | '\'' | '"' => text.push_str(character.encode_utf8(&mut [0; 4])),
            'u' => text.push_unit(self.hex_digits(4)?),
            'x' => text.push_unit(self.hex_digits(2)?),
            _ => {}
        }
        Ok(())
    }

    /// Reads a number of `count` hex digits, at most four.
    fn hex_digits(&mut self, count: usize) -> Result<u16, LenientJsonError> {
        let digits = self.remaining().get(..count);
        // The parser of the standard library would also accept a sign.
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let wrong = || LenientJsonError(format!("an escape in JSON lacks hex digits at byte {}", self.position).into());
        let unit = unit.ok_or_else(wrong)?;
        self.position += count;
        Ok(unit)
    }
}

/// Returns the bytes up to the closing quote, or to the end. The string is never longer, as an escape is longer than
/// the character that it encodes.
fn quoted_length(text: &str, quote: u8) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == quote && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

/// Elements for which a container may have spare memory.
const SMALL_CONTAINER: usize = 8;

/// Removes the elements of a stack from an index on and returns them.
fn split_off<T>(stack: &mut Vec<T>, place: usize) -> Vec<T> {
    if place > 0 {
        return stack.drain(place..).collect();
    }
    let mut all = std::mem::take(stack);
    all.shrink_to(SMALL_CONTAINER);
    all
}

/// Orders keys so that equal ones are adjacent. Two empty keys are equal without comparing bytes: a vectorised comparison
/// reads at their dangling pointers, and the fault that it suppresses takes some processors hundreds of cycles.
fn compare_keys(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| if left.is_empty() { Ordering::Equal } else { left.cmp(right) })
}

/// Pairs keys with values. Each key occurs once, with its last value at its first position.
fn last_of_each_key(keys: Vec<String>, mut values: Vec<Value>) -> Vec<(String, Value)> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    // A stable sort: indices ascend within a run of equal keys.
    order.sort_by(|left, right| compare_keys(&keys[*left], &keys[*right]));
    let mut is_repeat = vec![false; keys.len()];
    for (first, second) in order.iter().zip(order.iter().skip(1)).rev() {
        if compare_keys(&keys[*first], &keys[*second]).is_eq() {
            values.swap(*first, *second);
            is_repeat[*second] = true;
        }
    }
    let mut members = Vec::with_capacity(is_repeat.iter().filter(|is_repeat| !**is_repeat).count());
    for (member, is_repeat) in keys.into_iter().zip(values).zip(is_repeat) {
        if is_repeat {
            drop((Wiped(member.0), Wiped(member.1)));
        } else {
            members.push(member);
        }
    }
    members
}

/// A string built from text and single UTF-16 units. The halves of a surrogate pair arrive one by one; an unpaired one
/// becomes `?`.
struct Utf16Builder {
    text: Wiped<String>,
    high: Option<u16>,
}

impl Utf16Builder {
    /// Creates an empty string with a capacity of `bytes`, so that it need not be reallocated.
    fn with_capacity(bytes: usize) -> Utf16Builder {
        Utf16Builder { text: Wiped(String::with_capacity(bytes)), high: None }
    }

    fn push_str(&mut self, text: &str) {
        if !text.is_empty() {
            self.flush_unpaired();
            self.text.push_str(text);
        }
    }

    fn push_unit(&mut self, unit: u16) {
        let is_high = (0xd800..0xdc00).contains(&unit);
        let units = self.high.take().into_iter().chain(Some(unit).filter(|_| !is_high));
        self.text.extend(char::decode_utf16(units).map(|character| character.unwrap_or('?')));
        self.high = Some(unit).filter(|_| is_high);
    }

    fn flush_unpaired(&mut self) {
        if self.high.take().is_some() {
            self.text.push('?');
        }
    }

    fn finish(mut self) -> String {
        self.flush_unpaired();
        std::mem::take(&mut *self.text)
    }
}

/// Returns the value of an unquoted token.
fn classify(token: &str) -> Value {
    match token {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "NaN" => Value::Decimal(f64::NAN),
        _ => number(token).unwrap_or_else(|| Value::String(token.to_owned())),
    }
}

/// Parses `token` as a number: as in RFC 8259, but leading zeros are allowed.
fn number(token: &str) -> Option<Value> {
    let mut rest = after_digits(token.strip_prefix('-').unwrap_or(token))?;
    if rest.is_empty() {
        return Some(token.parse().map_or(Value::HugeInteger, Value::Integer));
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = after_digits(fraction)?;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        rest = after_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))?;
    }
    if rest.is_empty() { token.parse().ok().map(Value::Decimal) } else { None }
}

/// Returns the text after the digits at the start of `text`; `None` if there are none.
fn after_digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|character: char| character.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Value {
        parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn string(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    fn array<const N: usize>(values: [Value; N]) -> Value {
        Value::Array(values.into())
    }

    fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
        let owned = members.map(|(key, value)| (key.to_owned(), value));
        Value::Object(owned.into())
    }

    fn unexpected(character: char, offset: usize) -> LenientJsonError {
        LenientJsonError(format!("unexpected {character:?} in JSON at byte {offset}").into())
    }

    #[test]
    fn plain_json_is_read() {
        assert_eq!(
            read(r#" {"a": [1, -2, 3.5, 1e2, true, false, null, "x"], "b": {}, "c": []} "#),
            object([
                (
                    "a",
                    array([
                        Value::Integer(1),
                        Value::Integer(-2),
                        Value::Decimal(3.5),
                        Value::Decimal(100.0),
                        Value::Bool(true),
                        Value::Bool(false),
                        Value::Null,
                        string("x"),
                    ])
                ),
                ("b", object([])),
                ("c", array([])),
            ])
        );
    }

    #[test]
    fn single_quotes_and_no_quotes_are_read() {
        let account = object([("account", string("TALICE"))]);
        assert_eq!(read("{'account':'TALICE'}"), account);
        assert_eq!(read("{account:TALICE}"), account);
        assert_eq!(read("{ account : TALICE \r\n}"), account);
        assert_eq!(read(r#"'it\'s "it"'"#), string("it's \"it\""));
        assert_eq!(read("{a b:c d}"), object([("a b", string("c d"))]));
        assert_eq!(read("{a:x]y}"), object([("a", string("x]y"))]));
        assert_eq!(read("[a}b]"), array([string("a}b")]));
        assert_eq!(read(" abc, def "), string("abc, def"));
    }

    #[test]
    fn superfluous_commas_and_trailing_input_are_ignored() {
        assert_eq!(read("[,1,,2,]"), array([Value::Integer(1), Value::Integer(2)]));
        assert_eq!(read("{,a:1,, b:2 , }").get("b"), Some(&Value::Integer(2)));
        assert_eq!(read("{} trailing"), object([]));
        assert_eq!(read("{}{\"a\":1}"), object([]));
        assert_eq!(read("\"x\"]"), string("x"));
    }

    #[test]
    fn the_last_of_duplicate_keys_wins_at_the_position_of_the_first() {
        assert_eq!(
            read("{a:1,b:2,'a':3,c:4,\"a\":5,b:6}"),
            object([("a", Value::Integer(5)), ("b", Value::Integer(6)), ("c", Value::Integer(4)),])
        );
    }

    #[test]
    fn escapes_are_read_and_unknown_ones_dropped() {
        assert_eq!(read(r#""\t\n\r\f\b\\\/\'\"\u00e9\x41\q\😀.""#), string("\t\n\r\u{c}\u{8}\\/'\"éA."));
        assert_eq!(read(r#""\ud83d\ude00""#), string("😀"));
        for short in [r#""\u12""#, r#""\x1""#, r#""\u+123""#, r#""\u00é""#] {
            let error = parse(short.as_bytes());
            assert_eq!(error.unwrap_err().to_string(), "an escape in JSON lacks hex digits at byte 3");
        }
    }

    #[test]
    fn malformed_utf8_is_repaired() {
        assert_eq!(parse(b"'a\xffb\xed\xa0\x80'"), Ok(string("a\u{fffd}b\u{fffd}")));
    }

    #[test]
    fn an_incomplete_value_is_rejected() {
        for cut in ["", " ", "{", "[", "{\"a", "{a", "{a:", "{\"a\":1", "[1", "[1,", "'a", "'\\"] {
            assert_eq!(parse(cut.as_bytes()), Err(UNEXPECTED_END), "{cut}");
        }
        for (text, character, offset) in [
            ("}", '}', 0),
            ("]", ']', 0),
            (":", ':', 0),
            ("{\"a\" 1}", '1', 5),
            ("{a:}", '}', 3),
            ("{a:,b:1}", ',', 3),
            ("{:1}", ':', 1),
            ("{a:'b' 'c'}", '\'', 7),
            ("['a'😀]", '😀', 4),
            ("[1}", '}', 2),
        ] {
            // An unquoted `1}` is a string, so the array has no end.
            let expected = match text {
                "[1}" => UNEXPECTED_END,
                _ => unexpected(character, offset),
            };
            assert_eq!(parse(text.as_bytes()), Err(expected), "{text}");
        }
        let marked = parse("\u{feff}{}".as_bytes());
        assert_eq!(marked.unwrap_err().to_string(), "the JSON text must not start with a byte order mark");
    }

    #[test]
    fn nesting_is_read_up_to_the_limit_and_rejected_beyond() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        let too_deep = parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err().to_string();
        assert_eq!(too_deep, "JSON is nested deeper than 400 at byte 400");
        assert!(parse("{a:".repeat(1 << 18).as_bytes()).is_err());
    }

    #[test]
    fn an_object_has_at_most_1024_members_and_a_megabyte_of_such_objects_is_read_without_quadratic_time() {
        let distinct = |count| (0..count).map(|number| format!("{number}:{number},")).collect::<String>();
        let [most, more] = [MAX_MEMBERS, MAX_MEMBERS + 1].map(|count| format!("{{{}}}", distinct(count)));
        let Value::Array(objects) = read(&format!("[{}]", format!("{most},").repeat(90))) else {
            panic!("an array was written");
        };
        assert!(objects.iter().all(|one| matches!(one, Value::Object(members) if members.len() == MAX_MEMBERS)));
        assert_eq!(objects.len(), 90);
        let equal = "a:1,".repeat(MAX_MEMBERS - 1);
        assert_eq!(read(&format!("{{{equal}a:2}}")), object([("a", Value::Integer(2))]));
        let place = more.rfind("1024:1024").unwrap();
        for (text, place) in [(more, place), (format!("{{{equal}a:2,a:3}}"), equal.len() + 5)] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("an object in JSON has more than 1024 members at byte {place}"));
        }
    }

    #[test]
    fn a_text_read_in_steps_has_at_most_16384_values() {
        let read = |count: usize| {
            let text = format!("[{}]", "{a:1},".repeat(count / 2));
            Parser::new(text.as_bytes()).unwrap().advance(usize::MAX)
        };
        assert!(matches!(read(MAX_VALUES - 2), Ok(Some(Value::Array(all))) if all.len() == MAX_VALUES / 2 - 1));
        assert_eq!(read(MAX_VALUES).unwrap_err().to_string(), "JSON has more than 16384 values");
    }

    /// Returns the value that a strict reader would give.
    fn from_strict(value: &serde_json::Value) -> Value {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(bool) => Value::Bool(*bool),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Value::Integer(integer),
                (None, Some(decimal)) if number.is_f64() => Value::Decimal(decimal),
                _ => Value::HugeInteger,
            },
            serde_json::Value::String(text) => string(text),
            serde_json::Value::Array(values) => Value::Array(values.iter().map(from_strict).collect()),
            serde_json::Value::Object(members) => {
                let members = members.iter();
                Value::Object(members.map(|(key, value)| (key.clone(), from_strict(value))).collect())
            }
        }
    }

    fn strict_json() -> impl Strategy<Value = serde_json::Value> {
        let scalar = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            (-1e15..1e15).prop_map(Into::into),
            "\\PC*|[\\x00-\\x{ff}]*".prop_map(Into::into),
        ];
        scalar.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map("\\PC{0,4}", inner, 0..6).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn strict_json_means_the_same_as_to_a_strict_reader(value in strict_json()) {
            // A top-level number or word extends to the end, as intended.
            let compact = value.to_string();
            prop_assert_eq!(parse(compact.as_bytes()), Ok(from_strict(&value)));
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(parse(pretty.as_bytes()), Ok(from_strict(&value)));
        }

        #[test]
        fn a_value_read_in_steps_is_the_one_read_at_once(
            text in "[\\[\\]{}:,'\"\\\\ux01a.e \\t-]{0,60}", steps in prop::collection::vec(0..5usize, 1..10)
        ) {
            let in_steps = Parser::new(text.as_bytes()).and_then(|mut parser| {
                let mut steps = steps.iter().cycle();
                loop {
                    let value = parser.advance(*steps.next().unwrap())?;
                    if let Some(value) = value {
                        return Ok(value);
                    }
                }
            });
            prop_assert_eq!(format!("{in_steps:?}"), format!("{:?}", parse(text.as_bytes())));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic_the_parser(text in "[\\[\\]{}:,'\"\\\\ux01a.e \\t-]{0,60}", bytes: Vec<u8>) {
            let _ = parse(text.as_bytes());
            let _ = parse(&bytes);
        }
    }

    fn unquoted(text: &str) -> Value {
        match parse(format!("[ {text} ]").as_bytes()) {
            Ok(Value::Array(mut values)) if values.len() == 1 => values.remove(0),
            other => panic!("{text} gave {other:?}"),
        }
    }

    fn quoted(text: &str) -> String {
        match parse(format!("\"{text}\"").as_bytes()) {
            Ok(Value::String(string)) => string,
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn unquoted_words_and_numbers_keep_their_meaning() {
        for (text, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("005", Value::Integer(5)),
            ("-0", Value::Integer(0)),
            ("9223372036854775807", Value::Integer(i64::MAX)),
            ("-9223372036854775808", Value::Integer(i64::MIN)),
            ("9223372036854775808", Value::HugeInteger),
            ("-9223372036854775809", Value::HugeInteger),
            ("5.0", Value::Decimal(5.0)),
            ("-00.25e1", Value::Decimal(-2.5)),
            ("1E+2", Value::Decimal(100.0)),
            ("1e-2", Value::Decimal(0.01)),
            ("1e999", Value::Decimal(f64::INFINITY)),
        ] {
            assert_eq!(unquoted(text), value, "{text}");
        }
        assert!(matches!(unquoted("NaN"), Value::Decimal(number) if number.is_nan()));
    }

    #[test]
    fn any_other_unquoted_text_is_a_string() {
        for text in [
            "+1", "0x10", ".5", "1.", "-", "1e", "1e+", "1.e5", "--1", "5/*c*/", "nul", "True", "1 2", "inf", "nan",
            "-NaN",
        ] {
            assert_eq!(unquoted(text), Value::String(text.to_owned()));
        }
    }

    #[test]
    fn half_of_a_surrogate_pair_becomes_a_question_mark() {
        for (text, string) in [
            (r"\ud83d\ude00", "😀"),
            (r"\ud83d", "?"),
            (r"\ude00", "?"),
            (r"\ud83dx\ude00", "?x?"),
            (r"\ud83d\ud83d\ude00", "?😀"),
            (r"\ude00\ud83d\u0041", "??A"),
        ] {
            assert_eq!(quoted(text), string, "{text}");
        }
    }
}
