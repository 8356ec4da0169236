//! Attacks of a byzantine peer and their expected outcomes.

use std::sync::Arc;

use super::{AttackScene, chain, floods, gossip, transport};
use crate::network::scripted_peer::{HonestPeer, ReceivedRequest, Script, ScriptedResponse};

/// Private memory in MiB that a node may use during an attack.
const MEMORY: f64 = 24.0;

/// The node's final opinion of a byzantine peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOpinion {
    /// A failure is recorded for it.
    Penalized,
    /// It has lied without being penalized, because honest nodes can do the same.
    NotPenalized,
    /// It is in this state.
    InState(&'static str),
}

/// A response to a request of one path.
pub trait Lie: Fn(&ReceivedRequest, &HonestPeer) -> ScriptedResponse + Send + Sync + 'static {}

impl<F: Fn(&ReceivedRequest, &HonestPeer) -> ScriptedResponse + Send + Sync + 'static> Lie for F {}

/// Performs or checks something; returns what is wrong.
pub type Act = Box<dyn Fn(&AttackScene) -> Vec<String> + Send + Sync>;

/// An attack.
pub struct Attack {
    pub name: &'static str,
    pub script: Arc<Script>,
    /// Path of the lie.
    pub path: &'static str,
    pub expected: ExpectedOpinion,
    /// Private memory in MiB that the node may use.
    pub memory: f64,
    /// Number of further peers that do the same, so that the node draws one of them rather than the honest one.
    pub accomplices: u64,
    /// Settings of the node.
    pub settings: &'static [(&'static str, &'static str)],
    /// What the attacker does unprompted.
    pub act: Act,
    /// Additional checks at the end.
    pub final_check: Act,
}

impl Attack {
    /// Creates an attack that answers one path with a lie and all others by the script `around`.
    pub fn new(
        name: &'static str,
        expected: ExpectedOpinion,
        path: &'static str,
        around: fn(&ReceivedRequest, &HonestPeer) -> ScriptedResponse,
        lie: impl Lie,
    ) -> Attack {
        let script = move |request: &ReceivedRequest, honest: &HonestPeer| {
            if request.path == path { lie(request, honest) } else { around(request, honest) }
        };
        let nothing = || -> Act { Box::new(|_| Vec::new()) };
        Attack {
            name,
            script: Arc::new(script),
            path,
            expected,
            memory: MEMORY,
            accomplices: 0,
            settings: &[],
            act: nothing(),
            final_check: nothing(),
        }
    }

    pub fn with_final_check(self, at_last: impl Fn(&AttackScene) -> Vec<String> + Send + Sync + 'static) -> Attack {
        Attack { final_check: Box::new(at_last), ..self }
    }
}

/// A script that repeats the honest node's answers.
pub fn truth(_: &ReceivedRequest, _: &HonestPeer) -> ScriptedResponse {
    ScriptedResponse::Truthful
}

/// Returns all attacks, those that take longest first.
pub fn all() -> Vec<Attack> {
    [transport::attacks(), floods::attacks(), gossip::attacks(), chain::attacks()].into_iter().flatten().collect()
}
