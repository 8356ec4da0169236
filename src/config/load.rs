//! Loads settings from a file and flags.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zeroize::Zeroizing;

use super::config_json;
use super::layers::{Layers, Override};
use super::problem::ConfigError;
use super::properties::{self, MAX_FILE_BYTES};
use super::settings::{NemesisFile, Settings};

/// Largest nemesis block in bytes; a larger file is rejected. Mainnet's has 279,786.
pub const MAX_NEMESIS_BYTES: usize = 16 << 20;

/// Loads settings: the file overrides defaults, flags override the file.
///
/// `home` is the user's home folder, if known; it replaces `%h` in paths.
pub fn load(file: Option<&Path>, flags: Vec<Override>, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let content = match file {
        Some(path) => Some((path, read_file(path)?)),
        None => None,
    };
    build(content.as_ref().map(|(path, bytes)| (*path, bytes.as_slice())), flags, home)
}

/// Loads settings from a file whose content was read already.
pub fn build(file: Option<(&Path, &[u8])>, flags: Vec<Override>, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let mut layers = Layers::default();
    if let Some((path, bytes)) = file {
        let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
            || config_json::looks_like_json(bytes);
        let read = if json { config_json::parse(bytes) } else { properties::parse(bytes) };
        let properties = read.map_err(|error| ConfigError::Syntax { path: path.to_owned(), error })?;
        layers.add_file(&Rc::from(path), properties);
    }
    layers.add_flags(flags);
    Settings::read(&layers, home).map_err(ConfigError::Wrong)
}

/// Reads the configuration file, at most one byte more than allowed, so that the parser can tell that it is too large.
fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
    // With the full capacity the content never moves, so wiping it leaves no copy.
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES + 2));
    let read = |content: &mut Vec<u8>| File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(content);
    match read(&mut content) {
        Ok(_) => Ok(content),
        Err(error) => Err(ConfigError::Unreadable { path: path.to_owned(), error }),
    }
}

impl NemesisFile {
    /// Reads the block in verifiable binary form, without parsing it.
    pub fn read(&self) -> Result<Vec<u8>, NemesisError> {
        let failed = |error| NemesisError { path: self.absolute(), error };
        let mut bytes = Vec::new();
        let file = File::open(&self.0).map_err(failed)?;
        file.take(MAX_NEMESIS_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_NEMESIS_BYTES {
            let limit = format!("it has more than {MAX_NEMESIS_BYTES} bytes");
            return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, limit)));
        }
        Ok(bytes)
    }

    /// Reads the block; `None` if there is no such file.
    pub fn read_if_there(&self) -> Result<Option<Vec<u8>>, NemesisError> {
        match self.read() {
            Err(NemesisError { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns the error for a missing file.
    pub fn missing(&self) -> NemesisError {
        NemesisError { path: self.absolute(), error: io::ErrorKind::NotFound.into() }
    }

    /// Returns the absolute path, so that messages show in which folder the file is expected.
    pub fn absolute(&self) -> PathBuf {
        std::path::absolute(&self.0).unwrap_or_else(|_| self.0.clone())
    }
}

/// The nemesis block cannot be read.
#[derive(Debug)]
pub struct NemesisError {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

impl fmt::Display for NemesisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, error) = (self.path.display(), &self.error);
        write!(
            f,
            "cannot read the nemesis block {path}: {error}; set nem.network.nemesisFilePath to another file, or name a \
             peer that sends the block with `nisd run --peer HOST`"
        )
    }
}

impl std::error::Error for NemesisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
