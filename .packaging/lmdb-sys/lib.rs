//! A maintained LMDB for `lmdb-rkv`, whose own C sources are of 2019 (0.9.24): each write transaction that spilled pages
//! before its commit lost the list of them (ITS#9155, fixed in 0.9.25), 128 KB of memory for 20,000 pages.
//!
//! `lmdb-rkv` asks for the package `lmdb-rkv-sys`. This one has its name and version, and `[patch.crates-io]` puts it in the
//! other's place. It holds nothing but the bindings of `lmdb-master-sys`, which have the same names. `cargo tree -i
//! lmdb-rkv-sys` shows whether it is used: cargo leaves a patch out without an error if the lock file holds another version.
#![no_std]
#![forbid(unsafe_code)]

pub use lmdb_master_sys::*;
