//! Reload of the settings of a running node.

use std::error::Error;

use super::{known_peers, listening};
use crate::config::{LocalAddresses, ReloadEffect, SettingChange, Settings};
use crate::logging;
use crate::net::Reactor;
use crate::node::PreTrustedPeer;

/// Reads the settings again from their original sources.
pub type SettingsReader<'a> = &'a dyn Fn() -> Result<Settings, Box<dyn Error>>;

/// The settings in effect, without private keys, and values derived from them.
pub struct ActiveSettings<'a> {
    reader: SettingsReader<'a>,
    pub settings: Settings,
    /// Clients that count as local, with host names resolved.
    pub local: LocalAddresses,
    /// The operator's list of peers.
    pub known: Vec<PreTrustedPeer>,
}

impl<'a> ActiveSettings<'a> {
    /// Creates it from the settings at startup.
    pub fn new(settings: &Settings, known: Vec<PreTrustedPeer>, reread: SettingsReader<'a>) -> ActiveSettings<'a> {
        ActiveSettings {
            reader: reread,
            settings: settings.without_secrets(),
            local: listening::resolve_local(settings),
            known,
        }
    }

    /// Reloads the settings, applies what may change of log and limits, and logs the changes. Returns the peers that
    /// are new on the operator's list; `None` if the reload failed, which changes nothing.
    pub fn reload(&mut self, reactor: &mut Reactor) -> Option<Vec<PreTrustedPeer>> {
        let (changes, known) = match self.read() {
            Ok(read) => read,
            Err(error) => {
                log::error!("no setting is changed: {error}");
                return None;
            }
        };
        // Logged before the log level may change.
        log::info!("the settings are reloaded: {} changes", changes.len());
        for change in changes {
            log::log!(
                if change.reload_effect == ReloadEffect::Immediate { log::Level::Info } else { log::Level::Warn },
                "{change}"
            );
        }
        if self.settings.http.local.hosts().is_empty() {
            self.local = self.settings.http.local.clone();
        }
        logging::set_level(self.settings.node.log_level);
        listening::apply_limits(reactor, &self.settings);
        Some(self.compare_lists(known))
    }

    /// Returns the changes and the operator's list of peers. On an error nothing has changed.
    fn read(&mut self) -> Result<(Vec<SettingChange>, Vec<PreTrustedPeer>), Box<dyn Error>> {
        let mut settings = self.settings.clone();
        let changes = settings.reload((self.reader)()?);
        let known = known_peers(&settings)?;
        self.settings = settings;
        Ok((changes, known))
    }

    /// Returns the peers that are new on the operator's list.
    fn compare_lists(&mut self, known: Vec<PreTrustedPeer>) -> Vec<PreTrustedPeer> {
        let new: Vec<_> = known.iter().filter(|peer| !self.known.contains(peer)).cloned().collect();
        let gone = self.known.iter().filter(|peer| !known.contains(peer)).count();
        if !new.is_empty() {
            log::info!("new peers on the operator's list: {}", new.len());
        }
        if gone > 0 {
            log::warn!("peers removed from the operator's list: {gone}; they stay listed until the next start");
        }
        self.known.extend(new.iter().cloned());
        new
    }
}
