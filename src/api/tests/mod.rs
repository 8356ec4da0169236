//! Tests of the interface as a whole, on a small chain in a store.

mod acting;
mod form;
mod long;
mod objects;
mod others;
mod scene;
mod secrets;
mod transfers;
mod wide;
