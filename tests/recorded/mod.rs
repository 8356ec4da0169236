//! Chains and conversations recorded from NIS1.

/// Makes a module of tests, one for each recorded chain. The check gets the name of the chain.
macro_rules! for_each_chain {
    ($name:ident, $check:ident) => {
        mod $name {
            #[test]
            fn tiny() {
                super::$check("tiny");
            }

            #[test]
            #[ignore = "slow: a whole recorded chain"]
            fn all_forks() {
                super::$check("all-forks");
            }

            #[test]
            #[ignore = "slow: a whole recorded chain"]
            fn one_year() {
                super::$check("one-year");
            }
        }
    };
}

mod account_history;
mod announced_transactions;
mod chains;
mod forks;
mod golden_chain;
mod history;
mod mempool_events;
mod peer_answers;
mod peer_messages;
mod peer_recording;
mod peer_requests;
mod rejected_blocks;
