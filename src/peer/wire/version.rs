//! Versions of the programs of nodes.

use std::fmt;
use std::str::FromStr;

use crate::codec::ReadError;

/// Version, written `MAJOR.MINOR.BUILD` or `MAJOR.MINOR.BUILD-TAG`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// First number, below 2³¹ like the others.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; irrelevant for compatibility, except in 0.0.0.
    pub build: u32,
    /// Text after the first hyphen; irrelevant for compatibility.
    pub tag: Option<String>,
}

/// Invalid version text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadVersion(String);

impl fmt::Display for BadVersion {
    /// NIS1's message, which other nodes see.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pattern '{}' could not be parsed", self.0)
    }
}

impl std::error::Error for BadVersion {}

impl From<BadVersion> for ReadError {
    fn from(error: BadVersion) -> ReadError {
        ReadError::Argument(error.to_string())
    }
}

impl Version {
    /// NIS1 version that this node reports.
    pub const OWN: Version = Version { major: 0, minor: 6, build: 102, tag: None };

    /// Returns whether nodes of these versions work together: equal major and minor numbers, 0.6 with 0.7, and the
    /// unknown version 0.0.0 with all.
    pub fn is_compatible(&self, other: &Version) -> bool {
        let is_older_pair = |a: &Version, b: &Version| (a.major, a.minor, b.major, b.minor) == (0, 6, 0, 7);
        self.is_unknown()
            || other.is_unknown()
            || (self.major, self.minor) == (other.major, other.minor)
            || is_older_pair(self, other)
            || is_older_pair(other, self)
    }

    fn is_unknown(&self) -> bool {
        (self.major, self.minor, self.build) == (0, 0, 0)
    }
}

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Version, BadVersion> {
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|number: &i32| is_number && *number >= 0).map(i32::unsigned_abs)
        };
        let parse = || {
            let (numbers, tag) = match text.split_once('-') {
                Some((numbers, tag)) => (numbers, Some(tag)),
                None => (text, None),
            };
            let is_line_end = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
            if tag.is_some_and(|tag| tag.contains(is_line_end)) {
                return None;
            }
            let mut parts = numbers.split('.');
            let (major, minor, build) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() {
                return None;
            }
            let tag = tag.map(str::to_owned);
            Some(Version { major: number(major)?, minor: number(minor)?, build: number(build)?, tag })
        };
        parse().ok_or_else(|| BadVersion(text.to_owned()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.build)?;
        match &self.tag {
            Some(tag) => write!(f, "-{tag}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_is_written_as_it_was_read() {
        for text in ["0.6.102", "0.0.0", "2147483647.0.1", "0.6.102-BETA", "1.2.3-a-b.c", "1.2.3-"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("00.06.0102").to_string(), "0.6.102");
        assert_eq!(version("0.6.102"), Version::OWN);
    }

    #[test]
    fn a_version_is_three_numbers_before_an_optional_hyphen() {
        for text in [
            "",
            "0.6",
            "0.6.102.1",
            "a.b.c",
            "0.6.x",
            "2147483648.0.0",
            "0.6.+1",
            "-0.6.1",
            " 0.6.1",
            "1.2.3-a\nb",
            "..",
            "٣.1.1",
        ] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error.to_string(), format!("pattern '{text}' could not be parsed"));
        }
    }

    #[test]
    fn versions_are_compatible_by_major_and_minor_number_or_if_one_is_unknown() {
        for (other, goes) in [
            ("0.6.1", true),
            ("0.6.102-X", true),
            ("0.7.1", true),
            ("0.0.0", true),
            ("0.0.0-X", true),
            ("0.0.1", false),
            ("0.5.9", false),
            ("0.8.0", false),
            ("1.6.1", false),
            ("1.7.0", false),
        ] {
            assert_eq!(Version::OWN.is_compatible(&version(other)), goes, "{other}");
            assert_eq!(version(other).is_compatible(&Version::OWN), goes, "{other}");
        }
        assert!(!version("1.6.0").is_compatible(&version("1.7.0")));
    }
}
