//! The recorded chain `tiny`, compiled in: what `nisd run` serves when nothing is configured.

/// The chain's parameters, in the form of any recorded chain's `config.json`.
pub const CONFIG: &str = include_str!("../../tests/data/tiny/config.json");

/// The nemesis block in verifiable binary form.
pub const NEMESIS: &[u8] = include_bytes!("../../tests/data/tiny/nemesis.bin");

/// The blocks from height 2 on, each behind its length in four little-endian bytes.
pub const BLOCKS: &[u8] = include_bytes!("../../tests/data/tiny/blocks.bin");
