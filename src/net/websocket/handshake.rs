//! The upgrade request.

use tungstenite::handshake::derive_accept_key;

use crate::net::http::{HttpError, Reply, Request};

/// Data that a reply needs to upgrade its connection to a websocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Value of `Sec-WebSocket-Accept`.
    pub accept: String,
}

/// Why an upgrade request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `Upgrade` is missing or names another protocol.
    NotWebSocket,
    /// `Connection` does not contain `upgrade`.
    NotAnUpgrade,
    /// `Sec-WebSocket-Version` is missing or not 13.
    WrongVersion,
    /// `Sec-WebSocket-Key` is missing.
    NoKey,
}

impl Refusal {
    /// Sets status, body and the headers of the rejection; other headers stay.
    pub fn answer(self, reply: &mut Reply) {
        reply.body.clear();
        match self {
            Self::NotWebSocket => {
                reply.status = 400;
                let text = b"Can \"Upgrade\" only to \"WebSocket\".";
                reply.body.extend_from_slice(text);
            }
            Self::NotAnUpgrade => HttpError::Malformed("Bad Request").answer(reply),
            Self::WrongVersion => {
                reply.status = 426;
                reply.header("Sec-WebSocket-Version", "13");
            }
            Self::NoKey => reply.status = 400,
        }
    }
}

/// Validates an upgrade request whose method is GET.
///
/// As in NIS1, the key need not be base64 and the origin is not checked. Offered extensions are ignored.
pub fn handshake(request: &Request<'_>) -> Result<Upgrade, Refusal> {
    let upgrade = request.header("Upgrade").unwrap_or_default();
    if !upgrade.trim().eq_ignore_ascii_case("websocket") {
        return Err(Refusal::NotWebSocket);
    }
    if !request.header_has_token("Connection", "upgrade") {
        return Err(Refusal::NotAnUpgrade);
    }
    if request.header("Sec-WebSocket-Version") != Some("13") {
        return Err(Refusal::WrongVersion);
    }
    let key = request.header("Sec-WebSocket-Key").ok_or(Refusal::NoKey)?;
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

    fn decide(headers: &str) -> Result<Upgrade, Refusal> {
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
        for (headers, refusal, status, body) in [
            ([CONNECTION, VERSION, KEY].concat(), Refusal::NotWebSocket, 400, 34),
            (["Upgrade: h2c\r\n", CONNECTION, VERSION, KEY].concat(), Refusal::NotWebSocket, 400, 34),
            ([UPGRADE, "Connection: close\r\n", VERSION, KEY].concat(), Refusal::NotAnUpgrade, 400, 54),
            ([UPGRADE, CONNECTION, "Sec-WebSocket-Version: 8\r\n", KEY].concat(), Refusal::WrongVersion, 426, 0),
            ([UPGRADE, CONNECTION, VERSION].concat(), Refusal::NoKey, 400, 0),
        ] {
            assert_eq!(decide(&headers).unwrap_err(), refusal);
            let mut reply = Reply::new();
            refusal.answer(&mut reply);
            assert_eq!((reply.status, reply.body.len()), (status, body));
            assert_eq!(reply.close, refusal == Refusal::NotAnUpgrade);
        }
    }

    #[test]
    fn the_client_s_first_supported_subprotocol_is_chosen_as_spelt() {
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
