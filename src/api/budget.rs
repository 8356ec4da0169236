//! What is paid for: work in units of about a microsecond.

/// Units that may be spent at a time, and those that were. A piece of work is begun as long as something is left, and
/// then done as a whole, so that a little more may be spent in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    units: u32,
    used: u32,
}

impl Budget {
    /// So many units.
    pub fn new(units: u32) -> Budget {
        Budget { units, used: 0 }
    }

    /// Notes that units are spent.
    pub fn spend(&mut self, units: u32) {
        self.used = self.used.saturating_add(units);
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.used >= self.units
    }

    /// Units spent, to be charged to whoever caused the work.
    pub fn used(&self) -> u32 {
        self.used
    }
}

/// What work costs: a little more than was measured, so that a step ends in time on slower machines too.
pub mod cost {
    /// Finding the route of a request, and an answer of a few fields.
    pub const REQUEST: u32 = 4;
    /// An account, read and written.
    pub const ACCOUNT: u32 = 5;
    /// Checking the text of an address.
    pub const ADDRESS: u32 = 2;
    /// What is known of a block, its transactions aside.
    pub const HEADER: u32 = 2;
    /// An account in the list of importances.
    pub const IMPORTANCE: u32 = 2;
    /// What an account had at a height.
    pub const HISTORY: u32 = 4;
    /// What an account had of a mosaic that expired.
    pub const BALANCE: u32 = 2;
    /// Hashing a transaction.
    pub const HASH: u32 = 2;
    /// What is known of another node.
    pub const PEER: u32 = 8;
    /// Signing an answer for another node.
    pub const SIGNATURE: u32 = 30;
    /// Reading a transaction of a block, or writing one; to which [`bytes`] of its form are added.
    pub const TRANSACTION: u32 = 2;
    /// Passing a transaction that is not looked at, or an entry of a list.
    pub const STEP: u32 = 1;
    /// Looking for the mosaics of an account.
    pub const HOLDINGS: u32 = 2;
    /// What an account has of a mosaic.
    pub const MOSAIC: u32 = 4;
    /// The definition of a mosaic.
    pub const DEFINITION: u32 = 4;
    /// A namespace; sub-namespaces of its root make it dearer.
    pub const NAMESPACE: u32 = 4;
    /// Finding a place among the transactions of an account.
    pub const TRAIL: u32 = 8;
    /// What belongs to a private key.
    pub const KEY: u32 = 30;
    /// What two keys share.
    pub const SHARED_KEY: u32 = 100;
    /// Checking a signature, by which another node pushes something.
    pub const VERIFICATION: u32 = 80;
    /// Judging a transaction by the state.
    pub const JUDGEMENT: u32 = 20;
    /// Judging a transaction, its signature included.
    pub const ANNOUNCEMENT: u32 = 100;

    /// Passing so many transactions of the pool.
    pub fn passed(count: usize) -> u32 {
        u32::try_from(count / 10).unwrap_or(u32::MAX)
    }

    /// Passing a transaction on as it is stored, of so many bytes. To send them takes longer than to copy them, and many
    /// nodes may want them at once.
    pub fn copied(count: usize) -> u32 {
        1 + bytes(count)
    }

    /// Reading bytes, or writing them.
    pub fn bytes(count: usize) -> u32 {
        u32::try_from(count / 100).unwrap_or(u32::MAX)
    }

    /// Reading that many bytes of JSON, of the kind that takes longest.
    pub fn json(count: usize) -> u32 {
        u32::try_from(count / 40).unwrap_or(u32::MAX)
    }
}
