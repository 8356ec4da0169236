//! Values as people write them: exact amounts, networks, attached mosaics, and addresses in any case, with or without
//! dashes, of any network.

use crate::model::address::ADDRESS_LENGTH;
use crate::model::{Address, Amount, Mosaic, MosaicId, NetworkByte};
use data_encoding::BASE32;

/// Decimal places of the native currency.
const CURRENCY_PLACES: u8 = 6;

/// A text that is not an amount of the native currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAmount {
    /// Starts with a minus sign.
    #[error("an amount cannot be negative")]
    Negative,
    /// Has characters other than digits and one point, or no digits on one side of the point.
    #[error("an amount has digits and at most one point between them, such as 12 or 0.05")]
    Malformed,
    /// Has more than six decimal places.
    #[error("an amount has at most 6 decimal places: one micro-XEM is 0.000001")]
    TooPrecise,
    /// Is more than `i64::MAX` micro-XEM.
    #[error("an amount is at most 9223372036854.775807 XEM")]
    TooLarge,
}

/// Parses whole units with up to six decimal places, exactly.
pub fn amount(text: &str) -> Result<Amount, InvalidAmount> {
    if text.starts_with('-') {
        return Err(InvalidAmount::Negative);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(InvalidAmount::Malformed);
    }
    if fraction.len() > usize::from(CURRENCY_PLACES) {
        return Err(InvalidAmount::TooPrecise);
    }
    let micro = format!("{whole}{fraction:0<width$}", width = usize::from(CURRENCY_PLACES));
    micro.parse::<i64>().ok().and_then(|micro| u64::try_from(micro).ok()).map(Amount).ok_or(InvalidAmount::TooLarge)
}

/// Formats smallest units as whole units, without superfluous zeros.
pub fn decimal(smallest: u64, places: u8) -> String {
    let digits = format!("{smallest:0>width$}", width = usize::from(places) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(places));
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

/// Formats an amount of the native currency, with its unit.
pub fn currency(amount: Amount) -> String {
    format!("{} XEM", decimal(amount.0, CURRENCY_PLACES))
}

/// Parses the name of a network or its byte: `152`, `-104` and `0x98` mean the same.
pub fn network(text: &str) -> Result<NetworkByte, &'static str> {
    let byte = match (text, text.strip_prefix("0x")) {
        ("mainnet", _) => return Ok(NetworkByte::MAINNET),
        ("testnet", _) => return Ok(NetworkByte::TESTNET),
        ("mijinnet", _) => return Ok(NetworkByte::MIJINNET),
        (_, Some(hex)) => u8::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 2),
        _ => text.parse().or_else(|_| text.parse().map(|signed: i8| signed as u8)).ok(),
    };
    byte.map(NetworkByte).ok_or("a network is mainnet, testnet, mijinnet or its byte, such as -104, 152 or 0x98")
}

/// Returns the name of a network.
pub fn network_name(network: NetworkByte) -> String {
    match network {
        NetworkByte::MAINNET => "mainnet".to_owned(),
        NetworkByte::TESTNET => "testnet".to_owned(),
        NetworkByte::MIJINNET => "mijinnet".to_owned(),
        NetworkByte(byte) => format!("network 0x{byte:02x}"),
    }
}

/// Parses `namespace:name=QUANTITY`, the quantity in smallest units.
pub fn mosaic(text: &str) -> Result<Mosaic, String> {
    let form = "a mosaic is written as namespace:name=QUANTITY, where the quantity is a whole number of smallest units";
    let (id, quantity) = text.rsplit_once('=').ok_or(form)?;
    let id = MosaicId::parse(id).map_err(|error| format!("{error}; {form}"))?;
    if id.is_xem() {
        return Err("nem:xem is sent with --amount".to_owned());
    }
    let quantity = quantity.parse::<i64>().ok().filter(|quantity| *quantity > 0);
    Ok(Mosaic { id, quantity: quantity.ok_or(form)?.unsigned_abs() })
}

/// Networks whose addresses are shown by default.
pub const NETWORKS: [NetworkByte; 3] = [NetworkByte::MAINNET, NetworkByte::TESTNET, NetworkByte::MIJINNET];
/// Characters between two dashes.
const GROUP: usize = 6;

/// An invalid address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has this number of characters, without dashes.
    #[error("the address has {0} characters instead of {ADDRESS_LENGTH}; copy it again")]
    Length(usize),
    /// It has a character that is not base32.
    #[error("the address has the character {0:?}; it may only have A to Z and 2 to 7")]
    Character(char),
    /// Its checksum is wrong.
    #[error("the checksum of the address is wrong: it was mistyped; copy it again")]
    Checksum,
    /// It belongs to another network.
    #[error("the address belongs to {}, but {} is required; a transfer to it would not arrive", network_name(*.found),
                network_name(*.wanted))]
    Network { found: NetworkByte, wanted: NetworkByte },
}

/// Parses an address of any network; ignores dashes and surrounding white space.
pub fn address(text: &str) -> Result<(Address, NetworkByte), AddressError> {
    let plain: String = text.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_uppercase()).collect();
    if let Some(wrong) = plain.chars().find(|c| !matches!(c, 'A'..='Z' | '2'..='7')) {
        return Err(AddressError::Character(wrong));
    }
    let decoded = BASE32.decode(plain.as_bytes()).ok().filter(|_| plain.len() == ADDRESS_LENGTH);
    let first = decoded.and_then(|bytes| bytes.first().copied());
    let network = NetworkByte(first.ok_or(AddressError::Length(plain.len()))?);
    Address::parse(&plain, network).map(|address| (address, network)).ok_or(AddressError::Checksum)
}

/// Parses an address of one network.
pub fn address_on(text: &str, wanted: NetworkByte) -> Result<Address, AddressError> {
    match address(text)? {
        (address, found) if found == wanted => Ok(address),
        (_, found) => Err(AddressError::Network { found, wanted }),
    }
}

/// Returns whether a text is meant as an address, valid or not, rather than as the name of a file.
pub fn looks_like_address(text: &str) -> bool {
    let plain = text.trim().chars().filter(|c| *c != '-');
    plain.clone().count().abs_diff(ADDRESS_LENGTH) <= 1 && plain.clone().all(|c| c.is_ascii_alphanumeric())
}

/// Formats an address with a dash after every six characters.
pub fn dashed(address: &Address) -> String {
    let groups: Vec<_> = address.as_str().as_bytes().chunks(GROUP).map(String::from_utf8_lossy).collect();
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, micro) in [
            ("0", 0),
            ("1", 1_000_000),
            ("0.05", 50_000),
            ("25000.5", 25_000_500_000),
            ("19999.999999", 19_999_999_999),
            ("007.100000", 7_100_000),
            ("8999999999", 8_999_999_999_000_000),
            ("9223372036854.775807", i64::MAX as u64),
        ] {
            assert_eq!(amount(text), Ok(Amount(micro)), "{text}");
        }
    }

    #[test]
    fn invalid_amounts_have_distinct_errors() {
        for text in ["", ".", "1.", ".5", "+1", "1e3", "1,5", "1.2.3", " 1", "0x1", "１"] {
            assert_eq!(amount(text), Err(InvalidAmount::Malformed), "{text}");
        }
        assert_eq!(amount("-1"), Err(InvalidAmount::Negative));
        assert_eq!(amount("0.0000001"), Err(InvalidAmount::TooPrecise));
        assert_eq!(amount("1.0000000"), Err(InvalidAmount::TooPrecise));
        assert_eq!(amount("9223372036854.775808"), Err(InvalidAmount::TooLarge));
        assert_eq!(amount(&"9".repeat(400)), Err(InvalidAmount::TooLarge));
    }

    #[test]
    fn numbers_are_written_without_superfluous_zeros() {
        for (smallest, places, text) in [
            (0, 6, "0"),
            (1, 6, "0.000001"),
            (50_000, 6, "0.05"),
            (25_000_500_000, 6, "25000.5"),
            (5000, 3, "5"),
            (5001, 3, "5.001"),
            (100, 0, "100"),
            (u64::MAX, 6, "18446744073709.551615"),
        ] {
            assert_eq!(decimal(smallest, places), text);
        }
        assert_eq!(currency(Amount(150_000)), "0.15 XEM");
    }

    #[test]
    fn networks_have_names_and_bytes() {
        for text in ["testnet", "152", "-104", "0x98"] {
            assert_eq!(network(text), Ok(NetworkByte::TESTNET), "{text}");
        }
        assert_eq!(network("mainnet"), network("104"));
        assert_eq!(network("mijinnet"), network("0x60"));
        for text in ["", "Testnet", "256", "-129", "0x", "0x198", "98h"] {
            assert!(network(text).is_err(), "{text}");
        }
        assert_eq!(network_name(NetworkByte(0x42)), "network 0x42");
    }

    #[test]
    fn mosaics_are_attached_by_name_and_quantity() {
        let attached = mosaic("a.b:gift vouchers=12").unwrap();
        assert_eq!((attached.id.to_string().as_str(), attached.quantity), ("a.b:gift vouchers", 12));
        for text in
            ["a:b", "a=1", "a:b=", "a:b=0", "a:b=-1", "a:b=1.5", "A:b=1", "nem:xem=1", "a:b=9223372036854775808"]
        {
            assert!(mosaic(text).is_err(), "{text}");
        }
    }

    const BOB: &str = "TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";
    const DASHED: &str = "TDHLS7-3IXYZF-FBPZWJ-FK3DVG-UUQ2BB-IGVUPE-6BMZ";

    #[test]
    fn addresses_are_read_in_common_spellings() {
        for text in [BOB, DASHED, &BOB.to_lowercase(), &format!(" {DASHED}\n")] {
            let (found, network) = address(text).unwrap();
            assert_eq!((found.as_str(), network), (BOB, NetworkByte::TESTNET), "{text}");
        }
        assert_eq!(dashed(&address(BOB).unwrap().0), DASHED);
    }

    #[test]
    fn the_network_of_an_address_follows_from_it() {
        let key = crate::crypto::PublicKey([7; 32]);
        for network in (0..=255).map(NetworkByte) {
            let own = Address::from_public_key(&key, network);
            assert_eq!(address(own.as_str()), Ok((own, network)));
        }
        let found = address_on(BOB, NetworkByte::MAINNET);
        assert_eq!(found, Err(AddressError::Network { found: NetworkByte::TESTNET, wanted: NetworkByte::MAINNET }));
    }

    #[test]
    fn invalid_addresses_have_distinct_errors() {
        assert_eq!(address(&BOB[1..]), Err(AddressError::Length(39)));
        assert_eq!(address(""), Err(AddressError::Length(0)));
        assert_eq!(address(&BOB.replace('7', "1")), Err(AddressError::Character('1')));
        assert_eq!(address(&BOB.replace('T', "é")), Err(AddressError::Character('é')));
        assert_eq!(address(&BOB.replace("7", "6")), Err(AddressError::Checksum));
        assert_eq!(address(&BOB.replacen('T', "N", 1)), Err(AddressError::Checksum));
    }

    #[test]
    fn a_mistyped_address_is_not_treated_as_a_file() {
        for text in [BOB, DASHED, &BOB[1..], &BOB.replace('7', "1")] {
            assert!(looks_like_address(text), "{text}");
        }
        for text in ["alice.key", "", "./TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ"] {
            assert!(!looks_like_address(text), "{text}");
        }
    }
}
