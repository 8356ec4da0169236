//! Addresses as people write them: in any case, with or without dashes, of any network.

use crate::cli::values::network_name;
use crate::model::address::ADDRESS_LENGTH;
use crate::model::{Address, NetworkByte};

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
pub fn parse(text: &str) -> Result<(Address, NetworkByte), AddressError> {
    let plain: String = text.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_uppercase()).collect();
    if let Some(wrong) = plain.chars().find(|c| base32_digit(*c).is_none()) {
        return Err(AddressError::Character(wrong));
    }
    let mut digits = plain.chars().filter_map(base32_digit);
    let (Some(first), Some(second), ADDRESS_LENGTH) = (digits.next(), digits.next(), plain.len()) else {
        return Err(AddressError::Length(plain.len()));
    };
    // The network byte is the first eight bits; each character has five.
    let network = NetworkByte(first << 3 | second >> 2);
    Address::parse(&plain, network).map(|address| (address, network)).ok_or(AddressError::Checksum)
}

/// Parses an address of one network.
pub fn parse_on(text: &str, wanted: NetworkByte) -> Result<Address, AddressError> {
    match parse(text)? {
        (address, found) if found == wanted => Ok(address),
        (_, found) => Err(AddressError::Network { found, wanted }),
    }
}

fn base32_digit(character: char) -> Option<u8> {
    match character {
        'A'..='Z' => Some(character as u8 - b'A'),
        '2'..='7' => Some(character as u8 - b'2' + 26),
        _ => None,
    }
}

/// Returns whether a text is meant as an address, valid or not, rather than as the name of a file.
pub fn looks_like_address(text: &str) -> bool {
    let plain = text.trim().chars().filter(|c| *c != '-');
    plain.clone().count().abs_diff(ADDRESS_LENGTH) <= 1 && plain.clone().all(|c| c.is_ascii_alphanumeric())
}

/// Formats an address with a dash after every six characters.
pub fn dashed(address: &Address) -> String {
    let mut text = String::with_capacity(ADDRESS_LENGTH + ADDRESS_LENGTH / GROUP);
    for (place, character) in address.as_str().chars().enumerate() {
        if place > 0 && place % GROUP == 0 {
            text.push('-');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOB: &str = "TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";
    const DASHED: &str = "TDHLS7-3IXYZF-FBPZWJ-FK3DVG-UUQ2BB-IGVUPE-6BMZ";

    #[test]
    fn addresses_are_read_in_common_spellings() {
        for text in [BOB, DASHED, &BOB.to_lowercase(), &format!(" {DASHED}\n")] {
            let (address, network) = parse(text).unwrap();
            assert_eq!((address.as_str(), network), (BOB, NetworkByte::TESTNET), "{text}");
        }
        assert_eq!(dashed(&parse(BOB).unwrap().0), DASHED);
    }

    #[test]
    fn the_network_of_an_address_follows_from_it() {
        let key = crate::crypto::PublicKey([7; 32]);
        for network in (0..=255).map(NetworkByte) {
            let address = Address::from_public_key(&key, network);
            assert_eq!(parse(address.as_str()), Ok((address, network)));
        }
        let found = parse_on(BOB, NetworkByte::MAINNET);
        assert_eq!(found, Err(AddressError::Network { found: NetworkByte::TESTNET, wanted: NetworkByte::MAINNET }));
    }

    #[test]
    fn invalid_addresses_have_distinct_errors() {
        assert_eq!(parse(&BOB[1..]), Err(AddressError::Length(39)));
        assert_eq!(parse(""), Err(AddressError::Length(0)));
        assert_eq!(parse(&BOB.replace('7', "1")), Err(AddressError::Character('1')));
        assert_eq!(parse(&BOB.replace('T', "é")), Err(AddressError::Character('é')));
        assert_eq!(parse(&BOB.replace("7", "6")), Err(AddressError::Checksum));
        assert_eq!(parse(&BOB.replacen('T', "N", 1)), Err(AddressError::Checksum));
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
