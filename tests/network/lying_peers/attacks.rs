//! What a liar does, and what becomes of it.

use std::sync::Arc;

use crate::lying_peers::Scene;
use crate::scripted_peer::{Asked, Honest, Says, Script};

/// MiB of its own memory that a node may take while it is attacked.
const MEMORY: f64 = 24.0;

/// What the node thinks of a liar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// It has a failure among its experiences.
    Blamed,
    /// It has lied, and nothing is held against it: this happens to honest nodes too.
    Unblamed,
    /// It is in this state.
    InState(&'static str),
}

/// Does or looks at something; what is wrong with what comes of it.
pub type Act = Box<dyn Fn(&Scene) -> Vec<String> + Send + Sync>;

/// An attack.
pub struct Attack {
    pub name: &'static str,
    pub script: Arc<Script>,
    /// Where it lies.
    pub path: &'static str,
    pub becomes: Becomes,
    /// MiB of its own memory that the node may take.
    pub memory: f64,
    /// Further nodes that do the same, so that it is rather one of them that is drawn than the honest one.
    pub fellows: u64,
    /// What the node is set to.
    pub settings: &'static [(&'static str, &'static str)],
    /// What it does of its own accord.
    pub act: Act,
    /// Looks whether what else has to be so in the end is so.
    pub at_last: Act,
}

impl Attack {
    /// One that answers a path as a lie says and all others by the script around it.
    pub fn new(
        name: &'static str,
        becomes: Becomes,
        path: &'static str,
        around: fn(&Asked, &Honest) -> Says,
        lie: impl Fn(&Asked, &Honest) -> Says + Send + Sync + 'static,
    ) -> Attack {
        let script = move |asked: &Asked, honest: &Honest| {
            if asked.path == path { lie(asked, honest) } else { around(asked, honest) }
        };
        let nothing = || -> Act { Box::new(|_| Vec::new()) };
        Attack {
            name,
            script: Arc::new(script),
            path,
            becomes,
            memory: MEMORY,
            fellows: 0,
            settings: &[],
            act: nothing(),
            at_last: nothing(),
        }
    }

    pub fn with_memory(self, memory: f64) -> Attack {
        Attack { memory, ..self }
    }

    pub fn with_fellows(self, fellows: u64) -> Attack {
        Attack { fellows, ..self }
    }

    pub fn acting(self, act: impl Fn(&Scene) -> Vec<String> + Send + Sync + 'static) -> Attack {
        Attack { act: Box::new(act), ..self }
    }

    pub fn checked(self, at_last: impl Fn(&Scene) -> Vec<String> + Send + Sync + 'static) -> Attack {
        Attack { at_last: Box::new(at_last), ..self }
    }
}

/// The script of one that says what the honest node says.
pub fn truth(_: &Asked, _: &Honest) -> Says {
    Says::Truth
}

/// All attacks; those that take longest come first.
pub fn all() -> Vec<Attack> {
    let mut all = crate::lying_peers::transport::attacks();
    all.extend(crate::lying_peers::floods::attacks());
    all.extend(crate::lying_peers::gossip::attacks());
    all.extend(crate::lying_peers::chain::attacks());
    all
}
