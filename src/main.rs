//! The program: reads the command line and the settings, then does what it is told.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use nisd::cli::{Cli, Command, EXIT_FAILURE, EXIT_OK, EXIT_USAGE};
use nisd::commands::{self, Clocks, CommandError};
use nisd::config::{self, Settings};
use nisd::devnet::{self, Devnet};
use nisd::logging;
use nisd::wallet::{self, Outside};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Width of the table of settings.
const TABLE_WIDTH: usize = 100;

fn main() -> ExitCode {
    let code = run(Cli::parse());
    logging::finish();
    code
}

fn run(mut cli: Cli) -> ExitCode {
    if let Command::Settings = cli.command {
        // A reader that stops early, such as `head`, is no failure.
        let _ = std::io::stdout().write_all(config::table::print(TABLE_WIDTH).as_bytes());
        return ExitCode::from(EXIT_OK);
    }
    if let Command::Wallet(command) = &cli.command {
        return match wallet::execute(command, OUTSIDE) {
            Ok(()) => ExitCode::from(EXIT_OK),
            Err(error) => fail(&error, error.exit_code()),
        };
    }
    // Before a private network is made for them.
    if let Command::Run(run) = &cli.command
        && let Err(error) = commands::check_block_files(&run.import)
    {
        return fail(&error, EXIT_FAILURE);
    }
    let (devnet, settings) = match read_settings(&mut cli.command) {
        Ok(read) => read,
        Err(error) => return fail(&*error, EXIT_USAGE),
    };
    let _ = logging::init(settings.log_level, unix_millis, std::io::stderr().is_terminal());
    if matches!(cli.command, Command::Run(_) | Command::Import(_)) {
        for notice in &settings.notices {
            log::log!(notice.level, "{notice}");
        }
    }
    match execute(&cli.command, settings, devnet) {
        Ok(()) => ExitCode::from(EXIT_OK),
        Err(error) => match error.downcast_ref() {
            Some(CommandError::Usage(_)) => fail(&*error, EXIT_USAGE),
            _ => fail(&*error, EXIT_FAILURE),
        },
    }
}

type AnyError = Box<dyn std::error::Error>;

/// The settings, and the private network that nisd has made if they are its.
fn read_settings(command: &mut Command) -> Result<(Option<Devnet>, Settings), AnyError> {
    let is_devnet = matches!(command, Command::Run(run) if run.is_devnet());
    let flags = command.take_overrides()?;
    let home = std::env::home_dir();
    let (devnet, settings) = match command {
        Command::Run(run) if is_devnet => Devnet::open_or_make(flags, run.fresh_keys, home.as_deref(), DEVNET_OUTSIDE)?,
        Command::Devnet(_) => Devnet::open(flags, home.as_deref())?,
        _ => return Ok((None, config::load(command.config(), flags, home.as_deref())?)),
    };
    Ok((Some(devnet), settings))
}

fn execute(command: &Command, settings: Settings, devnet: Option<Devnet>) -> Result<(), AnyError> {
    match command {
        Command::Run(run) => nisd::event_loop::run(run, settings, devnet, CLOCKS)?,
        Command::Devnet(command) => commands::devnet(command, &settings, devnet.as_ref())?,
        Command::Import(import) => commands::import(import, &settings, CLOCKS)?,
        Command::Dump(store) => quietly(commands::dump(store, &settings, stop_on_signals()?))?,
        Command::Backup(backup) => commands::backup(backup, &settings, CLOCKS, stop_on_signals()?)?,
        Command::Reindex(store) => commands::reindex(store, &settings, CLOCKS)?,
        Command::Check(store) => commands::check(store, &settings, CLOCKS, stop_on_signals()?)?,
        Command::Digest(store) => commands::digest(store, &settings, stop_on_signals()?)?,
        Command::Rollback(rollback) => commands::rollback(rollback, &settings, CLOCKS)?,
        Command::Export(export) => quietly(commands::export(export, &settings, stop_on_signals()?))?,
        Command::Peers(peers) => quietly(commands::peers(peers, &settings))?,
        Command::Settings | Command::Wallet(_) => {}
    }
    Ok(())
}

/// A flag that is set when the program is told to end.
fn stop_on_signals() -> std::io::Result<commands::Stop> {
    let stop = commands::Stop::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// A reader that stops early, such as `head`, is no failure.
fn quietly(result: Result<(), CommandError>) -> Result<(), CommandError> {
    match result {
        Err(CommandError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    logging::say(&format!("nisd: {error}"));
    ExitCode::from(code)
}

fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

const CLOCKS: Clocks = Clocks { unix_millis, millis };

const DEVNET_OUTSIDE: devnet::Outside = devnet::Outside { unix_millis, random };

const OUTSIDE: Outside = Outside { unix_millis, millis, pause: thread::sleep, random };

fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    Ok(getrandom::fill(bytes)?)
}

/// Milliseconds of a clock that never goes back.
fn millis() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}
