//! Recorded HTTP exchanges: reads them, sends the request again, and compares the response with the recorded one.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use nisd::codec::binary::BinaryDecoder;
use nisd::codec::{Context, Decoder, ReadError};
use nisd::crypto::PublicKey;
use nisd::model::{Address, NetworkByte};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::http::{Client, Response};
use super::json_text::Json;
use super::open_maybe_compressed;

/// Size of the chunks of a chunked request.
const CHUNK_BYTES: usize = 50;

/// How a response is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// As JSON values.
    Json,
    /// Byte for byte.
    Bytes,
    /// Status and headers only.
    Status,
}

/// A request and the response of NIS1.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: String,
    pub variant: Option<String>,
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub source: Option<IpAddr>,
    pub expected: Response,
    pub compare: Compare,
    pub mask: Vec<String>,
    pub mask_ranges: Vec<(i64, usize)>,
    pub unordered: Vec<String>,
    pub is_optional: bool,
}

/// Reads all exchanges of a file, which may be compressed.
pub fn read_file(path: &Path) -> Vec<Exchange> {
    let lines = BufReader::new(open_maybe_compressed(path)).lines();
    lines.map(|line| Exchange::parse(&line.expect("the recording is text"))).collect()
}

impl Exchange {
    /// Reads a line of a recording.
    pub fn parse(line: &str) -> Exchange {
        let row: Value = serde_json::from_str(line).expect("a line is JSON");
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        let body = |body: &str, encoding: &str| {
            row[body].as_str().map(|text| match row[encoding].as_str() {
                Some("base64") => decode_base64(text).unwrap_or_else(|| panic!("{line}: bad base64")),
                _ => text.as_bytes().to_vec(),
            })
        };
        Exchange {
            id: text("id").expect("an id"),
            variant: text("variant"),
            method: text("method").expect("a method"),
            path: text("path").expect("a path"),
            query: text("query"),
            headers: list(&row["headers"]),
            body: body("body", "bodyEncoding"),
            source: text("source").map(|source| source.parse().expect("an address")),
            expected: Response {
                status: row["status"].as_u64().and_then(|status| status.try_into().ok()).expect("a status"),
                headers: list(&row["responseHeaders"]),
                body: body("responseBody", "responseEncoding").unwrap_or_default(),
            },
            compare: match row["compare"].as_str() {
                Some("json") => Compare::Json,
                Some("bytes") => Compare::Bytes,
                Some("status") => Compare::Status,
                other => panic!("{line}: compare {other:?}"),
            },
            mask: list(&row["mask"]),
            mask_ranges: list(&row["maskRanges"]),
            unordered: list(&row["unordered"]),
            is_optional: row["optional"] == true,
        }
    }

    /// Returns the method and the target.
    pub fn line(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{} {}{query}", self.method, self.path)
    }

    /// Sends the request to a port of this machine, on a connection of its own.
    pub fn send(&self, port: u16) -> io::Result<Response> {
        let from = self.source.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut client = Client::connect_from(from, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        // A node may answer and close before it has read a request that is too long.
        let sent = client.try_send(self.request(port));
        let mut bytes = Vec::new();
        let received = client.stream().read_to_end(&mut bytes);
        if let Some(response) = Response::parse(&bytes) {
            return Ok(response);
        }
        sent.and(received)?;
        let shown = String::from_utf8_lossy(&bytes);
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("not a response: {shown:?}")))
    }

    /// Returns the bytes of the request: `Host`, `Connection: close`, the recorded headers and the framing.
    pub fn request(&self, port: u16) -> Vec<u8> {
        let mut head = format!("{} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n", self.line());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = self.body.as_deref().unwrap_or_default();
        if self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Transfer-Encoding")) {
            let mut bytes = (head + "\r\n").into_bytes();
            for chunk in body.chunks(CHUNK_BYTES) {
                bytes.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            }
            return [&bytes, b"0\r\n\r\n".as_slice()].concat();
        }
        if self.body.is_some() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }

    /// Returns the differences between the recorded response and `got`; empty if they agree.
    pub fn differences(&self, got: &Response) -> Vec<String> {
        let mut found = Vec::new();
        if got.status != self.expected.status {
            found.push(format!("status: expected {}, got {}", self.expected.status, got.status));
        }
        found.extend(self.header_differences(got));
        let problem = match self.compare {
            Compare::Status => None,
            Compare::Json => self.json_difference(got),
            Compare::Bytes => self.bytes_difference(got),
        };
        found.extend(problem);
        found
    }

    fn header_differences(&self, got: &Response) -> Vec<String> {
        let mut found = Vec::new();
        for name in ["Content-Type", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers"] {
            let (expected, got) = (self.expected.header_values(name), got.header_values(name));
            if expected != got {
                found.push(format!("header {name}: expected {expected:?}, got {got:?}"));
            }
        }
        if self.method == "OPTIONS" {
            let (expected, got) = (second_allow(&self.expected), second_allow(got));
            if expected != got {
                found.push(format!("second header Allow: expected {expected:?}, got {got:?}"));
            }
        }
        found
    }

    fn json_difference(&self, got: &Response) -> Option<String> {
        let read = |body: &[u8]| Json::parse(std::str::from_utf8(body).map_err(|error| error.to_string())?);
        let expected = read(&self.expected.body).unwrap_or_else(|error| panic!("{}: {error}", self.id));
        match read(&got.body) {
            Ok(got) => self.value_difference(expected, got),
            Err(error) => {
                let shown = String::from_utf8_lossy(&got.body);
                Some(format!("body: expected {expected}, got {shown:?} ({error})"))
            }
        }
    }

    fn value_difference(&self, mut expected: Json, mut got: Json) -> Option<String> {
        let masked = |value: &mut Json| *value = Json::Literal("masked".to_owned());
        for path in &self.mask {
            // A masked member that only one side has remains a difference.
            expected.at_path(path, &mut { masked });
            got.at_path(path, &mut { masked });
        }
        for path in &self.unordered {
            let mut sort = |value: &mut Json| {
                if let Json::Array(values) = value {
                    values.sort();
                }
            };
            expected.at_path(path, &mut sort);
            got.at_path(path, &mut sort);
        }
        (!is_same(&expected, &got)).then(|| format!("body: expected {expected}\n      got      {got}"))
    }

    fn bytes_difference(&self, got: &Response) -> Option<String> {
        let (mut expected, mut bytes) = (self.expected.body.clone(), got.body.clone());
        let is_account = self.path.starts_with("/account/get") && self.expected.status == 200;
        if is_account {
            // Members of a binary object cannot be found by name, so the object is parsed first.
            return match (account_pair(&expected), account_pair(&bytes)) {
                (Ok(ours), Ok(theirs)) if expected.len() == bytes.len() => self.value_difference(ours, theirs),
                _ if expected == bytes => None,
                _ => Some(format!("body: expected {}, got {}", hex::encode(expected), hex::encode(bytes))),
            };
        }
        for (start, length) in &self.mask_ranges {
            zero_range(&mut expected, *start, *length);
            zero_range(&mut bytes, *start, *length);
        }
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let differs = expected != bytes;
        differs.then(|| format!("body: expected {:?}\n      got      {:?}", shown(&expected), shown(&bytes)))
    }
}

/// Returns the methods of the second `Allow` header, sorted; none if there is only one.
fn second_allow(response: &Response) -> Vec<&str> {
    let values = response.header_values("Allow");
    let second = values.get(1).copied().unwrap_or_default();
    let mut methods: Vec<_> = second.split(',').map(str::trim).filter(|method| !method.is_empty()).collect();
    methods.sort_unstable();
    methods
}

/// Members that nodes of the network compute with slightly different results, and their relative tolerance.
const DOUBLES: [&str; 4] = ["importance", "score", "ev", "pageRank"];
const TOLERANCE: f64 = 1e-14;

/// Returns whether two values are equal except for the last digits of importances.
fn is_same(expected: &Json, got: &Json) -> bool {
    let is_close = |a: &Json, b: &Json| {
        let number = |value: &Json| if let Json::Literal(word) = value { word.parse::<f64>().ok() } else { None };
        number(a).zip(number(b)).is_some_and(|(a, b)| (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()))
    };
    match (expected, got) {
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            let is_same_member = |((a, expected), (b, got)): (&(String, Json), &(String, Json))| {
                a == b && (is_same(expected, got) || DOUBLES.contains(&a.as_str()) && is_close(expected, got))
            };
            a.len() == b.len() && a.iter().zip(b).all(is_same_member)
        }
        _ => expected == got,
    }
}

/// Reads a list, which may be absent.
fn list<T: DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value::<Option<_>>(value.clone()).expect("a list").unwrap_or_default()
}

/// Zeroes a range; a negative start counts from the end.
fn zero_range(bytes: &mut [u8], start: i64, length: usize) {
    let start = if start < 0 { start + bytes.len() as i64 } else { start };
    let start = usize::try_from(start).unwrap_or(0).min(bytes.len());
    let end = (start + length).min(bytes.len());
    bytes[start..end].fill(0);
}

/// Decodes standard base64.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    data_encoding::BASE64.decode(text.as_bytes()).ok()
}

/// Converts a binary account pair to a form like its JSON; fails if it is not an account pair.
fn account_pair(bytes: &[u8]) -> Result<Json, ReadError> {
    let (network, key) = (NetworkByte::TESTNET, PublicKey([0; 32]));
    let nemesis_signer = Address::from_public_key(&key, network);
    let mut source = BinaryDecoder::new(bytes, Context { network, nemesis_signer, trusted: false });
    let account_of_pair = source.need_object("account", account)?;
    let meta = source.need_object("meta", |meta| {
        let mut members = Vec::new();
        for name in ["status", "remoteStatus"] {
            members.push((name.to_owned(), Json::String(hex::encode(meta.need_bytes(name)?))));
        }
        for name in ["cosignatoryOf", "cosignatories"] {
            members.push((name.to_owned(), Json::Array(meta.need_list(name, account)?)));
        }
        Ok(Json::object(members))
    })?;
    Ok(Json::object(vec![("account".to_owned(), account_of_pair), ("meta".to_owned(), meta)]))
}

fn account(source: &mut BinaryDecoder<'_>) -> Result<Json, ReadError> {
    const MEMBERS: [&str; 8] =
        ["address", "publicKey", "balance", "vestedBalance", "harvestedBlocks", "label", "importance", "multisigInfo"];
    let mut members = Vec::new();
    for name in MEMBERS {
        let value = match name {
            "balance" | "vestedBalance" | "harvestedBlocks" => Json::Literal(source.need_i64(name)?.to_string()),
            "importance" => Json::Literal(f64::from_bits(source.need_i64(name)? as u64).to_string()),
            _ => Json::String(source.bytes(name)?.map_or("null".to_owned(), hex::encode)),
        };
        members.push((name.to_owned(), value));
    }
    Ok(Json::object(members))
}
