//! Queries: what clients SEND to `/w/api/...`.

use std::fmt;

use crate::codec::lenient_json::{self, Value};
use crate::codec::text::{is_blank, truncate_utf16, write_json_double, write_json_string};
use crate::model::{Address, NetworkByte};

/// Maximum length of a JSON string that is read or written, in UTF-16 code units; longer ones are cut.
const MAX_STRING_UNITS: usize = 128;
/// Length in bytes at which the description of unexpected data stops growing; the error message is finally cut to
/// [`MAX_STRING_UNITS`].
const MAX_DESCRIPTION_BYTES: usize = 4 * MAX_STRING_UNITS;
/// Maximum length of a payload, in bytes. Wallets send 54.
const MAX_PAYLOAD_BYTES: usize = 4 * 1024;

/// A query of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The account, on `/account/<A>`. Registers the address.
    Account(Address),
    /// The newest 25 confirmed transactions, on `/recenttransactions/<A>`; then as
    /// [`UnconfirmedTransfers`](Self::UnconfirmedTransfers).
    Transfers(Address),
    /// Up to 10 of the newest unconfirmed transactions that affect the address, on the topics on which they were
    /// published when they arrived.
    UnconfirmedTransfers(Address),
    /// One message for each mosaic, on `/account/mosaic/owned/<A>`.
    Mosaics(Address),
    /// One message for each definition, on `/account/mosaic/owned/definition/<A>`.
    MosaicDefinitions(Address),
    /// One message for each namespace, on `/account/namespace/owned/<A>`.
    Namespaces(Address),
    /// The local node, on `/node/info`.
    NodeInfo,
    /// Everything that is published for the last block, except its height.
    LastBlock,
}

/// The command of a SEND to `/w/api/...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// `account/subscribe`: registers the address.
    Register(Address),
    /// Any other: a query that is answered by messages.
    Query(Query),
}

/// Why a query fails before it is answered. `Display` gives the `message` on `/errors`, before it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The payload is not a JSON object; holds a description of its value.
    UnexpectedData(String),
    /// The member `account` is missing, null or blank.
    MissingAccount,
    /// `account` is not a string.
    IncompatibleAccount,
    /// `account` is not an address of this network.
    InvalidAddress,
    /// The payload has more than `MAX_PAYLOAD_BYTES` bytes.
    LongPayload,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedData(value) => return write!(f, "unexpected data: {value}"),
            Self::MissingAccount => "expected value for property account, but none was found",
            Self::IncompatibleAccount => "property account has an incompatible value",
            Self::InvalidAddress => "address must be valid",
            Self::LongPayload => return write!(f, "the payload must not be longer than {MAX_PAYLOAD_BYTES} bytes"),
        })
    }
}

impl std::error::Error for QueryError {}

/// Parses a SEND to `destination`. Returns `None` if the destination is not a command.
pub fn parse(destination: &str, payload: &[u8], network: NetworkByte) -> Option<Result<ClientCommand, QueryError>> {
    let path = destination.strip_prefix("/w/api/")?;
    // Some clients join the prefix and a path that starts with a slash.
    let path = path.strip_prefix('/').unwrap_or(path);
    let command: fn(Address) -> ClientCommand = match path {
        "account/subscribe" => ClientCommand::Register,
        "account/get" => |address| ClientCommand::Query(Query::Account(address)),
        "account/transfers/all" => |address| ClientCommand::Query(Query::Transfers(address)),
        "account/transfers/unconfirmed" => |address| ClientCommand::Query(Query::UnconfirmedTransfers(address)),
        "account/mosaic/owned" => |address| ClientCommand::Query(Query::Mosaics(address)),
        "account/mosaic/owned/definition" => |address| ClientCommand::Query(Query::MosaicDefinitions(address)),
        "account/namespace/owned" => |address| ClientCommand::Query(Query::Namespaces(address)),
        "node/info" => return Some(Ok(ClientCommand::Query(Query::NodeInfo))),
        "block/last" => return Some(Ok(ClientCommand::Query(Query::LastBlock))),
        _ => return None,
    };
    let address =
        account_of(payload).and_then(|account| Address::parse(&account, network).ok_or(QueryError::InvalidAddress));
    Some(address.map(command))
}

/// Returns the member `account` of a payload, cut and in upper case, but not yet validated.
pub fn account_of(payload: &[u8]) -> Result<String, QueryError> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(QueryError::LongPayload);
    }
    let value = lenient_json::parse(payload).unwrap_or(Value::Null);
    let Value::Object(_) = value else {
        return Err(QueryError::UnexpectedData(describe(&value)));
    };
    match value.get("account") {
        None | Some(Value::Null) => Err(QueryError::MissingAccount),
        Some(Value::String(text)) if is_blank(text) => Err(QueryError::MissingAccount),
        Some(Value::String(text)) => Ok(truncate_utf16(text, MAX_STRING_UNITS).to_uppercase()),
        Some(_) => Err(QueryError::IncompatibleAccount),
    }
}

/// Describes a payload that is not an object: a string as it is, any other value as JSON.
fn describe(value: &Value) -> String {
    if let Value::String(text) = value {
        return truncate_utf16(text, MAX_STRING_UNITS).into_owned();
    }
    let mut json = Vec::new();
    write_value(&mut json, value);
    String::from_utf8_lossy(&json).into_owned()
}

/// Appends `value` as JSON, until the description is too long.
fn write_value(out: &mut Vec<u8>, value: &Value) {
    if out.len() > MAX_DESCRIPTION_BYTES {
        return;
    }
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::HugeInteger => out.extend_from_slice(b"an integer beyond 64 bits"),
        Value::Decimal(value) => write_json_double(out, *value),
        Value::String(text) => write_json_string(out, &truncate_utf16(text, MAX_STRING_UNITS)),
        Value::Array(items) => {
            out.push(b'[');
            write_separated(out, items, write_value);
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            write_separated(out, members, |out, (key, value)| {
                write_json_string(out, &truncate_utf16(key, MAX_STRING_UNITS));
                out.push(b':');
                write_value(out, value);
            });
            out.push(b'}');
        }
    }
}

fn write_separated<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    for (index, item) in items.iter().enumerate() {
        if out.len() > MAX_DESCRIPTION_BYTES {
            return;
        }
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A1: &str = "TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR";

    fn address() -> Address {
        Address::parse(A1, NetworkByte::TESTNET).unwrap()
    }

    fn ask(destination: &str, payload: &str) -> Option<Result<ClientCommand, QueryError>> {
        parse(destination, payload.as_bytes(), NetworkByte::TESTNET)
    }

    #[test]
    fn each_destination_makes_its_query() {
        let a = address();
        let cases = [
            ("account/subscribe", ClientCommand::Register(a)),
            ("account/get", ClientCommand::Query(Query::Account(a))),
            ("account/transfers/all", ClientCommand::Query(Query::Transfers(a))),
            ("account/transfers/unconfirmed", ClientCommand::Query(Query::UnconfirmedTransfers(a))),
            ("account/mosaic/owned", ClientCommand::Query(Query::Mosaics(a))),
            ("account/mosaic/owned/definition", ClientCommand::Query(Query::MosaicDefinitions(a))),
            ("account/namespace/owned", ClientCommand::Query(Query::Namespaces(a))),
            ("node/info", ClientCommand::Query(Query::NodeInfo)),
            ("block/last", ClientCommand::Query(Query::LastBlock)),
        ];
        let payload = format!("{{'account':'{A1}'}}");
        for (path, asked) in cases {
            for prefix in ["/w/api/", "/w/api//"] {
                let found = ask(&format!("{prefix}{path}"), &payload);
                assert_eq!(found, Some(Ok(asked)), "{prefix}{path}");
            }
        }
    }

    #[test]
    fn other_destinations_are_no_queries() {
        for destination in [
            "/account/transfers/unconfirmed",
            "/w/api/account/get/",
            "/w/api/account/get?x",
            "/w/api/Account/get",
            "/w/api///account/get",
            "/w/apiaccount/get",
            "/w/api/",
            "/blocks/new",
            "",
        ] {
            assert_eq!(ask(destination, "{}"), None, "{destination}");
        }
    }

    #[test]
    fn the_payload_is_read_leniently() {
        for payload in [
            format!("{{'account':'{A1}'}}"),
            format!("{{\"account\":\"{A1}\"}}"),
            format!("{{account:{A1}}}"),
            format!(" {{ 'account' : '{}', 'more': [1,{{}}] }} tail", A1.to_lowercase()),
            format!("{{'account':1,'account':'{A1}'}}"),
        ] {
            let asked = ask("/w/api/account/subscribe", &payload);
            assert_eq!(asked, Some(Ok(ClientCommand::Register(address()))), "{payload}");
        }
    }

    #[test]
    fn payload_errors_have_the_texts_of_nis1() {
        let missing = "expected value for property account, but none was found";
        let incompatible = "property account has an incompatible value";
        let invalid = "address must be valid";
        let hyphens = "{'account':'TCOBFU-4E56PB-UI23AU-HTPKMZ-HX7FPG-X67DJP-WROR'}";
        let cases = [
            ("null", "unexpected data: null"),
            ("{", "unexpected data: null"),
            ("{'account':'TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR'", "unexpected data: null"),
            ("", "unexpected data: null"),
            ("[]", "unexpected data: []"),
            ("[1, 'a', {b:null}]", "unexpected data: [1,\"a\",{\"b\":null}]"),
            ("\"x\"", "unexpected data: x"),
            ("xyz", "unexpected data: xyz"),
            ("17", "unexpected data: 17"),
            ("true", "unexpected data: true"),
            ("{}", missing),
            ("{\"Account\":\"x\"}", missing),
            ("{'account':null}", missing),
            ("{'account':''}", missing),
            ("{'account':'  '}", missing),
            ("{'account':7}", incompatible),
            ("{'account':true}", incompatible),
            ("{'account':[]}", incompatible),
            ("{'account':{}}", incompatible),
            ("{'account':'TALICE'}", invalid),
            (hyphens, invalid),
            ("{'account':' TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR'}", invalid),
        ];
        for (payload, text) in cases {
            let error = ask("/w/api/account/get", payload).unwrap().unwrap_err();
            assert_eq!(error.to_string(), text, "{payload}");
        }
    }

    #[test]
    fn a_large_unexpected_value_has_a_short_description() {
        let payload = format!("[{}", "['aaaaaaaa',1],".repeat(280) + "]");
        let error = account_of(payload.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 2 * MAX_DESCRIPTION_BYTES);
    }

    #[test]
    fn a_long_payload_is_rejected_unread() {
        let payload = format!("{{'account':'{A1}'}}{}", " ".repeat(MAX_PAYLOAD_BYTES));
        assert_eq!(account_of(payload.as_bytes()), Err(QueryError::LongPayload));
    }
}
