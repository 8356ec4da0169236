//! The upgrade request.

use tungstenite::handshake::derive_accept_key;

use crate::net::http::{HttpError, Request, Response};

/// Data that a reply needs to upgrade its connection to a websocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Value of `Sec-WebSocket-Accept`.
    pub accept: String,
}

/// Why an upgrade request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeError {
    /// `Upgrade` is missing or names another protocol.
    NotWebSocket,
    /// `Connection` does not contain `upgrade`.
    NotAnUpgrade,
    /// `Sec-WebSocket-Version` is missing or not 13.
    WrongVersion,
    /// `Sec-WebSocket-Key` is missing.
    NoKey,
}

impl UpgradeError {
    /// Sets status, body and the headers of the rejection; other headers stay.
    pub fn fill_response(self, response: &mut Response) {
        response.body.clear();
        match self {
            Self::NotWebSocket => {
                response.status = 400;
                let text = b"Can \"Upgrade\" only to \"WebSocket\".";
                response.body.extend_from_slice(text);
            }
            Self::NotAnUpgrade => HttpError::Malformed("Bad Request").fill_response(response),
            Self::WrongVersion => {
                response.status = 426;
                response.header("Sec-WebSocket-Version", "13");
            }
            Self::NoKey => response.status = 400,
        }
    }
}

/// Validates an upgrade request whose method is GET.
///
/// As in NIS1, the key need not be base64 and the origin is not checked. Offered extensions are ignored.
pub fn handshake(request: &Request<'_>) -> Result<Upgrade, UpgradeError> {
    let upgrade = request.header("Upgrade").unwrap_or_default();
    if !upgrade.trim().eq_ignore_ascii_case("websocket") {
        return Err(UpgradeError::NotWebSocket);
    }
    if !request.header_has_token("Connection", "upgrade") {
        return Err(UpgradeError::NotAnUpgrade);
    }
    if request.header("Sec-WebSocket-Version") != Some("13") {
        return Err(UpgradeError::WrongVersion);
    }
    let key = request.header("Sec-WebSocket-Key").ok_or(UpgradeError::NoKey)?;
    Ok(Upgrade { accept: derive_accept_key(key.as_bytes()) })
}

/// Returns the first protocol in the client's `Sec-WebSocket-Protocol` headers that is `supported` (ignoring case),
/// spelt as the client did.
pub fn negotiate_subprotocol<'a>(offers: impl Iterator<Item = &'a str>, supported: &[&str]) -> Option<&'a str> {
    offers
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|offer| supported.iter().any(|name| name.eq_ignore_ascii_case(offer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::RequestReader;

    fn decide(headers: &str) -> Result<Upgrade, UpgradeError> {
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        handshake(&reader.next_request().unwrap().unwrap())
    }

    const UPGRADE: &str = "upgrade: WebSocket\r\n";
    const CONNECTION: &str = "Connection: keep-alive, Upgrade\r\n";
    const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";
    const KEY: &str = "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";

    #[test]
    fn the_worked_key_gives_the_worked_accept_value() {
        let upgrade = decide(&[UPGRADE, CONNECTION, VERSION, KEY].concat()).unwrap();
        assert_eq!(upgrade.accept, "BACScCJPNqyz+UBoqMH89VmURoA=");
        assert!(decide(&[UPGRADE, CONNECTION, VERSION, "Sec-WebSocket-Key: x\r\n"].concat()).is_ok());
    }

    #[test]
    fn each_missing_header_has_its_own_answer() {
        for (headers, rejection, status, body) in [
            ([CONNECTION, VERSION, KEY].concat(), UpgradeError::NotWebSocket, 400, 34),
            (["Upgrade: h2c\r\n", CONNECTION, VERSION, KEY].concat(), UpgradeError::NotWebSocket, 400, 34),
            ([UPGRADE, "Connection: close\r\n", VERSION, KEY].concat(), UpgradeError::NotAnUpgrade, 400, 54),
            ([UPGRADE, CONNECTION, "Sec-WebSocket-Version: 8\r\n", KEY].concat(), UpgradeError::WrongVersion, 426, 0),
            ([UPGRADE, CONNECTION, VERSION].concat(), UpgradeError::NoKey, 400, 0),
        ] {
            assert_eq!(decide(&headers).unwrap_err(), rejection);
            let mut reply = Response::new();
            rejection.fill_response(&mut reply);
            assert_eq!((reply.status, reply.body.len()), (status, body));
            assert_eq!(reply.close, rejection == UpgradeError::NotAnUpgrade);
        }
    }

    #[test]
    fn the_first_supported_subprotocol_of_the_client_is_chosen_as_spelt() {
        let supported = ["v10.stomp", "v11.stomp", "v12.stomp"];
        for (offers, expected) in [
            (&["foo, V12.STOMP, v10.stomp"][..], Some("V12.STOMP")),
            (&["foo", " v11.stomp "], Some("v11.stomp")),
            (&["foo"], None),
            (&[], None),
        ] {
            let offers = offers.iter().copied();
            assert_eq!(negotiate_subprotocol(offers, &supported), expected);
        }
    }
}
