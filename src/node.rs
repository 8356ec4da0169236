//! stub
use crate::{cli, config::Settings};
/// stub
pub fn run(_: &cli::Run, _: Settings) -> Result<(), std::io::Error> { Ok(()) }
