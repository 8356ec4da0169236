//! Changes when the settings of a running node are reloaded.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};

use super::key::{DefaultValue as Unset, Key, ReloadEffect};
use super::layers::Layers;
use super::problem::quoted;
use super::settings::{Boot, HttpSettings, Limits, PeerSettings, Settings};
use super::table;

/// Values that were set explicitly, by key, without defaults. Private keys are kept as SHA-256 digests only.
#[derive(Clone, Default)]
pub struct ExplicitSettings(BTreeMap<&'static str, String>);

impl fmt::Debug for ExplicitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings (not shown)", self.0.len())
    }
}

impl From<&Layers> for ExplicitSettings {
    fn from(layers: &Layers) -> ExplicitSettings {
        let given = |key: &Key| {
            let text = layers.get(key.name)?.text.as_str();
            let is_secret = key.kind.is_secret() && !text.is_empty();
            Some((key.name, if is_secret { hex::encode(Sha256::digest(text)) } else { text.to_owned() }))
        };
        ExplicitSettings(table::keys().filter_map(given).collect())
    }
}

impl ExplicitSettings {
    fn text(&self, key: &Key) -> &str {
        match (self.0.get(key.name), key.default) {
            (Some(text), _) => text,
            (None, Unset::Value(text)) => text,
            (None, Unset::Derived(_)) => "",
        }
    }
}

/// A setting whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// Its key.
    pub key: &'static str,
    /// Old and new value, for a person; secrets are not shown.
    pub values: [String; 2],
    /// When the change takes effect.
    pub reload_effect: ReloadEffect,
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingChange { key, values: [was, is], reload_effect: counts } = self;
        match counts {
            ReloadEffect::Immediate => write!(f, "{key} is {is} now; it was {was}"),
            ReloadEffect::RestartRequired => {
                write!(f, "{key} stays {was} until the node restarts; then it will be {is}")
            }
        }
    }
}

impl Settings {
    /// Returns whether the folder of the store is set explicitly and does not depend on the home folder (`%h`).
    pub fn has_explicit_data_folder(&self) -> bool {
        let folder = ["nisd.data", "nem.folder"].iter().find_map(|key| self.explicit.0.get(key));
        folder.is_some_and(|folder| !folder.contains("%h"))
    }

    /// Returns a copy without private keys, so that they are in memory only once.
    pub fn without_secrets(&self) -> Settings {
        let Settings { boot, .. } = self;
        Settings { boot: Boot { key: None, ..boot.clone() }, harvester_keys: Vec::new(), ..self.clone() }
    }

    /// Applies from `new`, which was reloaded, the settings that may change while a node runs. Returns all changes, in
    /// the order of the table of settings.
    pub fn reload(&mut self, new: Settings) -> Vec<SettingChange> {
        let has_hosts = !self.local.hosts().is_empty() || !new.local.hosts().is_empty();
        let changes = table::keys().filter_map(|key| {
            let texts = [&self.explicit, &new.explicit].map(|given| given.text(key));
            let values = texts.map(|text| if key.kind.is_secret() { "(not shown)".to_owned() } else { quoted(text) });
            // Host names would have to be resolved, which blocks.
            let needs_lookup = key.name == "nis.additionalLocalIps" && has_hosts;
            let counts = if needs_lookup { ReloadEffect::RestartRequired } else { key.reload_effect };
            (texts[0] != texts[1]).then_some(SettingChange { key: key.name, values, reload_effect: counts })
        });
        let changes: Vec<SettingChange> = changes.collect();
        for change in changes.iter().filter(|change| change.reload_effect == ReloadEffect::Immediate) {
            match new.explicit.0.get(change.key) {
                Some(text) => self.explicit.0.insert(change.key, text.clone()),
                None => self.explicit.0.remove(change.key),
            };
        }
        let Settings { http, limits, peers, .. } = self;
        *http = HttpSettings { dos_filter: new.http.dos_filter, gzip: new.http.gzip, ..http.clone() };
        *limits = Limits { ipv6_prefix_length: limits.ipv6_prefix_length, ..new.limits };
        let PeerSettings { hosts, unaudited_paths, .. } = new.peers;
        *peers = PeerSettings { hosts, unaudited_paths, ..peers.clone() };
        if !has_hosts {
            self.local = new.local;
        }
        self.log_level = new.log_level;
        self.trusted_proxies = new.trusted_proxies;
        self.host_names = new.host_names;
        self.local_origins = new.local_origins;
        self.allowed_harvesters = new.allowed_harvesters;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn settings(text: &str) -> Settings {
        let text = format!("nem.network = testnet\n{text}");
        config::build(Some((std::path::Path::new("a"), text.as_bytes())), Vec::new(), Some("/home".as_ref())).unwrap()
    }

    /// Returns the settings, the keys that changed, and those of them that take effect immediately.
    fn changed(old: &str, new: &str) -> (Settings, Vec<&'static str>, Vec<&'static str>) {
        let mut settings = settings(old);
        let changes = settings.reload(self::settings(new));
        let at_once = changes.iter().filter(|change| change.reload_effect == ReloadEffect::Immediate);
        let at_once = at_once.map(|change| change.key).collect();
        (settings, changes.iter().map(|change| change.key).collect(), at_once)
    }

    #[test]
    fn a_reload_applies_only_the_reloadable_settings() {
        let new = "nisd.logLevel = debug\nnem.httpPort = 1\nnisd.maxBacklog = 1M\nnisd.gzip = false\n\
                   nis.nodeLimit = 7\nnisd.ipv6PrefixLength = 48\nnisd.trustedProxies = 10.0.0.0/8";
        let (settings, changed, at_once) = changed("", new);
        assert_eq!(at_once, ["nisd.logLevel", "nisd.trustedProxies", "nisd.gzip", "nisd.maxBacklog"]);
        assert_eq!(changed.len(), 7, "{changed:?}");
        assert_eq!((settings.log_level, settings.limits.backlog), (log::LevelFilter::Debug, 1 << 20));
        assert!(settings.trusted_proxies.contains([10, 1, 2, 3].into()) && !settings.http.gzip);
        let kept = (settings.http.port, settings.peers.node_limit, settings.limits.ipv6_prefix_length);
        assert_eq!(kept, (7890, 5, 64));
    }

    #[test]
    fn a_change_that_needs_a_restart_is_reported_at_every_reload() {
        let mut old = settings("nisd.maxBacklog = 1M");
        for times in 0..2 {
            let changes = old.reload(settings("nisd.maxBacklog = 2M\nnem.httpPort = 1"));
            let said: Vec<_> = changes.iter().map(SettingChange::to_string).collect();
            assert_eq!(said[0], "nem.httpPort stays \"7890\" until the node restarts; then it will be \"1\"");
            assert_eq!(said.len(), 2 - times, "{said:?}");
        }
        assert_eq!(old.reload(settings("nisd.maxBacklog = 2M")), []);
    }

    #[test]
    fn an_explicit_default_is_no_change_and_a_private_key_is_not_shown() {
        assert_eq!(changed("", "nisd.maxBacklog = 512K").1, [""; 0]);
        let key = "ab".repeat(32);
        let changes = settings("").reload(settings(&format!("nis.bootKey = {key}")));
        let said = format!("{} {changes:?}", changes[0]);
        assert!(said.contains("nis.bootKey") && said.contains("(not shown)") && !said.contains("abab"), "{said}");
    }

    #[test]
    fn a_reload_does_not_resolve_local_host_names() {
        let (settings, changed, at_once) = changed("", "nis.additionalLocalIps = 10.0.0.1|localhost");
        assert_eq!((changed, at_once), (vec!["nis.additionalLocalIps"], vec![]));
        assert!(!settings.local.contains([10, 0, 0, 1].into()));
    }
}
