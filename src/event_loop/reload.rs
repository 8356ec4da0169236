//! Reload of the settings of a running node.

use std::error::Error;

use super::{known_peers, listening};
use crate::config::{Change, Counts, LocalAddresses, Settings};
use crate::logging;
use crate::net::Reactor;
use crate::node::KnownPeer;

/// Reads the settings again from their original sources.
pub type Reread<'a> = &'a dyn Fn() -> Result<Settings, Box<dyn Error>>;

/// The settings in effect, without private keys, and values derived from them.
pub struct Current<'a> {
    reread: Reread<'a>,
    pub settings: Settings,
    /// Clients that count as local, with host names resolved.
    pub local: LocalAddresses,
    /// The operator's list of peers.
    pub known: Vec<KnownPeer>,
}

impl<'a> Current<'a> {
    /// Creates it from the settings at startup.
    pub fn new(settings: &Settings, known: Vec<KnownPeer>, reread: Reread<'a>) -> Current<'a> {
        Current { reread, settings: settings.without_secrets(), local: listening::resolve_local(settings), known }
    }

    /// Reloads the settings, applies what may change of log and limits, and logs the changes. Returns the peers that
    /// are new on the operator's list; `None` if the reload failed, which changes nothing.
    pub fn read_anew(&mut self, reactor: &mut Reactor) -> Option<Vec<KnownPeer>> {
        let (changes, known) = match self.read() {
            Ok(read) => read,
            Err(error) => {
                log::error!("the settings stay as they are: {error}");
                return None;
            }
        };
        // Logged before the log level may change.
        log::info!("the settings are read anew: {} changes", changes.len());
        for change in changes {
            log::log!(if change.counts == Counts::AtOnce { log::Level::Info } else { log::Level::Warn }, "{change}");
        }
        if self.settings.local.hosts().is_empty() {
            self.local = self.settings.local.clone();
        }
        logging::set_level(self.settings.log_level);
        listening::change(reactor, &self.settings);
        Some(self.compare_lists(known))
    }

    /// Returns the changes and the operator's list of peers. On an error nothing has changed.
    fn read(&mut self) -> Result<(Vec<Change>, Vec<KnownPeer>), Box<dyn Error>> {
        let mut settings = self.settings.clone();
        let changes = settings.take_over((self.reread)()?);
        let known = known_peers(&settings)?;
        self.settings = settings;
        Ok((changes, known))
    }

    /// Returns the peers that are new on the operator's list.
    fn compare_lists(&mut self, known: Vec<KnownPeer>) -> Vec<KnownPeer> {
        let new: Vec<_> = known.iter().filter(|peer| !self.known.contains(peer)).cloned().collect();
        let gone = self.known.iter().filter(|peer| !known.contains(peer)).count();
        if !new.is_empty() {
            log::info!("nodes that are new on the list of known nodes: {}", new.len());
        }
        if gone > 0 {
            log::warn!(
                "nodes that are on the list of known nodes no more: {gone}; until the next start they count as before"
            );
        }
        self.known.extend(new.iter().cloned());
        new
    }
}
