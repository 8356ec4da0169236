//! Values as people write them: exact amounts, networks, attached mosaics, and addresses in any case, with or without
//! dashes, of any network.

use crate::model::address::ADDRESS_LENGTH;
use crate::model::{Address, Amount, Mosaic, MosaicId, NetworkByte};

/// The public networks, whose addresses are shown by default.
pub const NETWORKS: [(&str, NetworkByte); 3] =
    [("mainnet", NetworkByte::MAINNET), ("testnet", NetworkByte::TESTNET), ("mijinnet", NetworkByte::MIJINNET)];

/// Decimal places of the native currency.
const CURRENCY_PLACES: u8 = 6;

/// Parses whole units with up to six decimal places, exactly.
pub fn amount(text: &str) -> Result<Amount, &'static str> {
    if text.starts_with('-') {
        return Err("an amount cannot be negative");
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err("an amount has digits and at most one point between them, such as 12 or 0.05");
    }
    if fraction.len() > usize::from(CURRENCY_PLACES) {
        return Err("an amount has at most 6 decimal places: one micro-XEM is 0.000001");
    }
    let micro = format!("{whole}{fraction:0<width$}", width = usize::from(CURRENCY_PLACES));
    let micro = micro.parse::<i64>().map_err(|_| "an amount is at most 9223372036854.775807 XEM")?;
    Ok(Amount(micro.unsigned_abs()))
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
    if let Some((_, network)) = NETWORKS.iter().find(|(name, _)| *name == text) {
        return Ok(*network);
    }
    let byte = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 2),
        None => text.parse().or_else(|_| text.parse().map(|signed: i8| signed as u8)).ok(),
    };
    byte.map(NetworkByte).ok_or("a network is mainnet, testnet, mijinnet or its byte, such as -104, 152 or 0x98")
}

/// Returns the name of a network.
pub fn network_name(network: NetworkByte) -> String {
    let known = NETWORKS.iter().find(|(_, known)| *known == network);
    known.map_or_else(|| format!("network 0x{:02x}", network.0), |(name, _)| (*name).to_owned())
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

/// Characters between two dashes.
const GROUP: usize = 6;

/// Parses an address of any network; ignores dashes and surrounding white space.
pub fn address(text: &str) -> Result<(Address, NetworkByte), String> {
    let plain: String = text.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_uppercase()).collect();
    if let Some(wrong) = plain.chars().find(|c| !matches!(c, 'A'..='Z' | '2'..='7')) {
        return Err(format!("the address has the character {wrong:?}; it may only have A to Z and 2 to 7"));
    }
    let length = plain.len();
    if length != ADDRESS_LENGTH {
        return Err(format!("the address has {length} characters instead of {ADDRESS_LENGTH}; copy it again"));
    }
    let address = Address::try_from(plain);
    let address = address.map_err(|_| "the checksum of the address is wrong: it was mistyped; copy it again")?;
    Ok((address, NetworkByte(address.to_raw()[0])))
}

/// Parses an address of one network.
pub fn address_on(text: &str, wanted: NetworkByte) -> Result<Address, String> {
    let (address, found) = address(text)?;
    if found != wanted {
        let (found, wanted) = (network_name(found), network_name(wanted));
        return Err(format!(
            "the address belongs to {found}, but {wanted} is required; a transfer to it would not arrive"
        ));
    }
    Ok(address)
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
            assert_eq!(
                amount(text),
                Err("an amount has digits and at most one point between them, such as 12 or 0.05"),
                "{text}"
            );
        }
        let error = |text: &str| amount(text).unwrap_err();
        assert!(error("-1").contains("negative"));
        assert!(error("0.0000001").contains("6 decimal places"));
        assert!(error("1.0000000").contains("6 decimal places"));
        assert!(error("9223372036854.775808").contains("at most 9223372036854.775807"));
        assert!(error(&"9".repeat(400)).contains("at most 9223372036854.775807"));
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
        let error = address_on(BOB, NetworkByte::MAINNET).unwrap_err();
        assert!(error.contains("testnet, but mainnet is required"), "{error}");
    }

    #[test]
    fn invalid_addresses_have_distinct_errors() {
        for (text, words) in [
            (BOB[1..].to_owned(), "39 characters"),
            (String::new(), "0 characters"),
            (BOB.replace('7', "1"), "the character '1'"),
            (BOB.replace('T', "é"), "the character 'é'"),
            (BOB.replace("7", "6"), "checksum"),
            (BOB.replacen('T', "N", 1), "checksum"),
        ] {
            let error = address(&text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
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
