//! A maintained LMDB for `lmdb-rkv`, whose own C sources are of 2019 (0.9.24): each write transaction that spilled pages
//! before its commit lost the list of them (ITS#9155, fixed in 0.9.25), 128 KB of memory for 20,000 pages.
//!
//! `lmdb-rkv` asks for the package `lmdb-rkv-sys`. This one has its name and version, and `[patch.crates-io]` puts it in the
//! other's place. It holds nothing but the bindings of `lmdb-master-sys`, which have the same names. `cargo tree -i
//! lmdb-rkv-sys` shows whether it is used: cargo leaves a patch out without an error if the lock file holds another version.
//!
//! What was tried with `lmdb-master-sys` 0.2.6 before it was taken: it builds as it is; the tests of the store pass, those of
//! torn pages included; each of the two libraries reads the store that the other has written of a recorded chain, with the
//! same digest; and 640,000 transactions are imported in the same 81 s. Since then: 2,000 batches of 12,000 pages each leave
//! the process with the 34,164 KiB of its own that it had after the sixth (`tests/write_memory.rs`).
#![no_std]
#![forbid(unsafe_code)]

pub use lmdb_master_sys::*;
