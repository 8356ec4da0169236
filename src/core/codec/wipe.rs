//! Erases copies of possible secrets. All code erases through this module, so that tests can see what was erased.

use derive_more::{Deref, DerefMut};
use zeroize::Zeroize;

/// A value that [`Wiped`] can erase.
pub trait Wipe {
    /// Overwrites the value, with all of its capacity.
    fn wipe(&mut self);
}

impl Wipe for String {
    fn wipe(&mut self) {
        #[cfg(any(test, feature = "testing"))]
        erased_log::note(self.as_bytes());
        self.zeroize();
    }
}

impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        #[cfg(any(test, feature = "testing"))]
        erased_log::note(self);
        self.zeroize();
    }
}

/// A value that is erased when it is dropped.
#[derive(Deref, DerefMut)]
pub struct Wiped<T: Wipe>(pub T);

impl<T: Wipe> Drop for Wiped<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// A record of what is erased while a test looks. The program that other tests start is built with it, and must not keep
/// what it erases.
#[cfg(any(test, feature = "testing"))]
pub mod erased_log {
    use std::cell::RefCell;

    thread_local! {
        static ERASED: RefCell<Option<Vec<Vec<u8>>>> = const { RefCell::new(None) };
    }

    pub(super) fn note(bytes: &[u8]) {
        ERASED.with_borrow_mut(|erased| {
            if let Some(erased) = erased {
                erased.push(bytes.to_vec());
            }
        });
    }

    /// Returns what a call returns, and what was erased in it.
    pub fn during<T>(call: impl FnOnce() -> T) -> (T, Vec<Vec<u8>>) {
        ERASED.set(Some(Vec::new()));
        let returned = call();
        (returned, ERASED.take().unwrap_or_default())
    }
}
