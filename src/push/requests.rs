//! Requests: what clients SEND to `/w/api/...` (specification 07 §8 and §12).

use std::fmt;

use super::registry::AddressText;
use crate::codec::lax_json::{self, Value};
use crate::codec::text::{cut_units, is_blank, write_json_double, write_json_string};

/// Longest JSON string that is read or written, in UTF-16 code units; longer ones are cut.
const MAX_STRING_UNITS: usize = 128;
/// Where the description of unexpected data stops growing, in bytes; it is cut to
/// [`MAX_STRING_UNITS`] in the end.
const MAX_DESCRIPTION_BYTES: usize = 4 * MAX_STRING_UNITS;

/// What the caller has to publish for a client (§8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiRequest {
    /// The account pair, on `/account/<A>`. The address has been registered already.
    AccountGet(AddressText),
    /// The newest 25 confirmed transactions, on `/recenttransactions/<A>`; then as
    /// [`TransfersUnconfirmed`](Self::TransfersUnconfirmed).
    TransfersAll(AddressText),
    /// The unconfirmed push of the up to 10 newest pool transactions concerning the address.
    TransfersUnconfirmed(AddressText),
    /// One message per mosaic, on `/account/mosaic/owned/<A>`.
    MosaicsOwned(AddressText),
    /// One message per definition, on `/account/mosaic/owned/definition/<A>`.
    MosaicDefinitionsOwned(AddressText),
    /// One message per namespace, on `/account/namespace/owned/<A>`.
    NamespacesOwned(AddressText),
    /// The local node, on `/node/info`.
    NodeInfo,
    /// The block push of the last block.
    LastBlock,
}

/// A well-formed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `account/subscribe`: register the address, publish nothing.
    Subscribe(AddressText),
    /// Everything else is answered outside the broker.
    Api(ApiRequest),
}

/// Why a request fails before it is answered. `Display` gives the `message` of `/errors`, before
/// it is cut (§12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The payload is no JSON object; holds the value it is.
    UnexpectedData(String),
    /// No member `account`, or a null or blank one.
    MissingAccount,
    /// `account` is no string.
    IncompatibleAccount,
    /// `account` is no address of this network.
    InvalidAddress,
    /// The registry has no room for a new address.
    RegistryFull,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedData(value) => return write!(f, "unexpected data: {value}"),
            Self::MissingAccount => "expected value for property account, but none was found",
            Self::IncompatibleAccount => "property account has an incompatible value",
            Self::InvalidAddress => "address must be valid",
            Self::RegistryFull => "the node cannot register further addresses",
        })
    }
}

impl std::error::Error for RequestError {}

/// The request that a SEND to `destination` makes, or `None` if that is no request destination.
/// `is_address` says whether a text is a valid upper-case address of the node's network.
pub fn parse(
    destination: &str,
    payload: &[u8],
    is_address: impl Fn(&str) -> bool,
) -> Option<Result<Request, RequestError>> {
    let path = destination.strip_prefix("/w/api/")?;
    // Clients that join the prefix and a path with a slash of its own are understood.
    let path = path.strip_prefix('/').unwrap_or(path);
    let request: fn(AddressText) -> Request = match path {
        "account/subscribe" => Request::Subscribe,
        "account/get" => |a| Request::Api(ApiRequest::AccountGet(a)),
        "account/transfers/all" => |a| Request::Api(ApiRequest::TransfersAll(a)),
        "account/transfers/unconfirmed" => |a| Request::Api(ApiRequest::TransfersUnconfirmed(a)),
        "account/mosaic/owned" => |a| Request::Api(ApiRequest::MosaicsOwned(a)),
        "account/mosaic/owned/definition" => |a| Request::Api(ApiRequest::MosaicDefinitionsOwned(a)),
        "account/namespace/owned" => |a| Request::Api(ApiRequest::NamespacesOwned(a)),
        "node/info" => return Some(Ok(Request::Api(ApiRequest::NodeInfo))),
        "block/last" => return Some(Ok(Request::Api(ApiRequest::LastBlock))),
        _ => return None,
    };
    let address = account_of(payload)
        .and_then(|account| checked_address(&account, is_address).ok_or(RequestError::InvalidAddress));
    Some(address.map(request))
}

/// `text` as an address, if it is one.
pub fn checked_address(text: &str, is_address: impl Fn(&str) -> bool) -> Option<AddressText> {
    let address = AddressText::try_from(text.as_bytes()).ok()?;
    is_address(text).then_some(address)
}

/// The member `account` of a payload, cut and in upper case, but not yet checked (§8.1).
pub fn account_of(payload: &[u8]) -> Result<String, RequestError> {
    let value = lax_json::parse(payload).unwrap_or(Value::Null);
    let Value::Object(_) = value else {
        return Err(RequestError::UnexpectedData(describe(&value)));
    };
    match value.get("account") {
        None | Some(Value::Null) => Err(RequestError::MissingAccount),
        Some(Value::String(text)) if is_blank(text) => Err(RequestError::MissingAccount),
        Some(Value::String(text)) => Ok(cut_units(text, MAX_STRING_UNITS).to_uppercase()),
        Some(_) => Err(RequestError::IncompatibleAccount),
    }
}

/// The JSON text of a message on `/errors`, without CR LF (§9.13). `network_time` is in seconds.
pub fn error_body(message: Option<&str>, network_time: i32) -> Vec<u8> {
    let mut body = format!("{{\"timeStamp\":{network_time},\"error\":\"Bad Request\",\"message\":");
    body.reserve(MAX_STRING_UNITS);
    let mut body = body.into_bytes();
    match message {
        Some(message) => write_json_string(&mut body, &cut_units(message, MAX_STRING_UNITS)),
        None => body.extend_from_slice(b"null"),
    }
    body.extend_from_slice(b",\"status\":400}");
    body
}

/// What the payload is instead of an object: a string as it is, anything else as JSON.
fn describe(value: &Value) -> String {
    if let Value::String(text) = value {
        return cut_units(text, MAX_STRING_UNITS).into_owned();
    }
    let mut json = Vec::new();
    write_value(&mut json, value);
    String::from_utf8_lossy(&json).into_owned()
}

/// Appends `value` as JSON, as far as there is room for a description.
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
        Value::String(text) => write_json_string(out, &cut_units(text, MAX_STRING_UNITS)),
        Value::Array(items) => {
            out.push(b'[');
            write_separated(out, items, write_value);
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            write_separated(out, members, |out, (key, value)| {
                write_json_string(out, &cut_units(key, MAX_STRING_UNITS));
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

    fn address() -> AddressText {
        A1.as_bytes().try_into().unwrap()
    }

    fn ask(destination: &str, payload: &str) -> Option<Result<Request, RequestError>> {
        parse(destination, payload.as_bytes(), |text| text == A1)
    }

    #[test]
    fn each_destination_makes_its_request() {
        let a = address();
        let cases = [
            ("account/subscribe", Request::Subscribe(a)),
            ("account/get", Request::Api(ApiRequest::AccountGet(a))),
            ("account/transfers/all", Request::Api(ApiRequest::TransfersAll(a))),
            ("account/transfers/unconfirmed", Request::Api(ApiRequest::TransfersUnconfirmed(a))),
            ("account/mosaic/owned", Request::Api(ApiRequest::MosaicsOwned(a))),
            ("account/mosaic/owned/definition", Request::Api(ApiRequest::MosaicDefinitionsOwned(a))),
            ("account/namespace/owned", Request::Api(ApiRequest::NamespacesOwned(a))),
            ("node/info", Request::Api(ApiRequest::NodeInfo)),
            ("block/last", Request::Api(ApiRequest::LastBlock)),
        ];
        let payload = format!("{{'account':'{A1}'}}");
        for (path, request) in cases {
            for prefix in ["/w/api/", "/w/api//"] {
                let found = ask(&format!("{prefix}{path}"), &payload);
                assert_eq!(found, Some(Ok(request)), "{prefix}{path}");
            }
        }
    }

    #[test]
    fn other_destinations_are_no_requests() {
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
    fn the_payload_is_read_as_laxly_as_wallets_write_it() {
        for payload in [
            format!("{{'account':'{A1}'}}"),
            format!("{{\"account\":\"{A1}\"}}"),
            format!("{{account:{A1}}}"),
            format!(" {{ 'account' : '{}', 'more': [1,{{}}] }} tail", A1.to_lowercase()),
            format!("{{'account':1,'account':'{A1}'}}"),
        ] {
            let request = ask("/w/api/account/subscribe", &payload);
            assert_eq!(request, Some(Ok(Request::Subscribe(address()))), "{payload}");
        }
    }

    #[test]
    fn the_payload_matrix_gives_the_texts_of_nis1() {
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
    fn a_large_unexpected_value_is_described_in_little_room() {
        let payload = format!("[{}", "['aaaaaaaa',1],".repeat(4_000) + "]");
        let error = account_of(payload.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 2 * MAX_DESCRIPTION_BYTES);
    }

    #[test]
    fn the_error_body_is_that_of_the_example() {
        let body = error_body(Some("address must be valid"), 367_575_434);
        let text = "{\"timeStamp\":367575434,\"error\":\"Bad Request\",\
                    \"message\":\"address must be valid\",\"status\":400}";
        assert_eq!(String::from_utf8(body).unwrap(), text);
        assert_eq!(text.len() + 2, 94);
    }

    #[test]
    fn the_error_message_may_be_absent_and_is_cut_to_128_characters() {
        assert_eq!(
            error_body(None, -1),
            b"{\"timeStamp\":-1,\"error\":\"Bad Request\",\"message\":null,\"status\":400}"
        );
        let body = String::from_utf8(error_body(Some(&"x/".repeat(99)), 0)).unwrap();
        assert!(body.contains(&format!("\"{}\"", "x\\/".repeat(64))));
    }
}
