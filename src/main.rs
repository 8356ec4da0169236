//! The program: reads the command line and the settings, then runs the command.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{CommandFactory, FromArgMatches};
use nisd::clock::System;
use nisd::commands::{self, Cli, Command, CommandError, ConfigCommand};
use nisd::config::{self, Settings};
use nisd::devnet::Devnet;
use nisd::wallet::{self, WalletError};
use nisd::{event_loop, logging, store};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code: success.
const EXIT_OK: u8 = 0;
/// Exit code: a failure of a store, a block, a port or the like.
const EXIT_FAILURE: u8 = 1;
/// Exit code: wrong command line or settings. clap uses the same code.
const EXIT_USAGE: u8 = 2;

/// Returns version, commit, LMDB version and target of this build.
fn long_version() -> String {
    let [version, commit, target] = [env!("CARGO_PKG_VERSION"), env!("NISD_COMMIT"), env!("NISD_TARGET")];
    format!("{version}\ncommit {commit}\nLMDB {}\ntarget {target}", store::lmdb_version())
}

/// Environment variable that allows core dumps and debuggers if it is set to anything.
const ALLOW_CORE_DUMPS: &str = "NISD_CORE_DUMPS";

fn main() -> ExitCode {
    if std::env::var_os(ALLOW_CORE_DUMPS).is_none() {
        event_loop::forbid_core_dumps();
    }
    if let Some(code) = event_loop::run_if_helper(std::env::args_os()) {
        return code;
    }
    let matches = Cli::command().long_version(&*long_version().leak()).get_matches();
    let code = match Cli::from_arg_matches(&matches).map(|cli| run(cli.command)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            logging::eprint_line(&format!("nisd: {error}"));
            if is_usage(&*error) { EXIT_USAGE } else { EXIT_FAILURE }
        }
        Err(error) => error.exit(),
    };
    logging::finish();
    ExitCode::from(code)
}

type AnyError = Box<dyn std::error::Error>;

/// Reads the settings again.
type SettingsReader = Box<dyn Fn() -> Result<Settings, AnyError>>;

/// Returns whether a command failed because of its command line or its settings.
fn is_usage(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(CommandError::Usage(_)))
        || error.downcast_ref().is_some_and(WalletError::is_usage)
}

/// Runs a command. Returns its exit code.
fn run(mut command: Command) -> Result<u8, AnyError> {
    match &command {
        Command::Settings(command) => commands::print_settings(command),
        Command::Help(help) => commands::print_help(help)?,
        Command::Config(ConfigCommand::Check { files }) => {
            commands::check_config(files, std::env::home_dir().as_deref())?
        }
        Command::Man(man) => commands::write_man_pages(&man.folder)?,
        Command::Completions(completions) => ignore_broken_pipe(commands::print_completions(completions.shell))?,
        Command::Watch(command) => ignore_broken_pipe(commands::watch(command, SYSTEM, stop_on_signals()?))?,
        Command::Wallet(command) => wallet::execute(command, SYSTEM)?,
        Command::StatusOf(command) => return Ok(commands::status_of(command, SYSTEM)?),
        _ => run_with_settings(&mut command)?,
    }
    Ok(EXIT_OK)
}

/// Runs a command that needs settings.
fn run_with_settings(command: &mut Command) -> Result<(), AnyError> {
    if let Command::Run(run) = command {
        // Checked before a private network is created for them.
        commands::check_block_files(&run.import)?;
    }
    let (devnet, mut settings, reread) =
        read_settings(command).map_err(|error| CommandError::Usage(error.to_string()))?;
    settings.set_memory(event_loop::memory_limit());
    let _ = logging::init(settings.node.log_level, SYSTEM.unix_millis, log_style(&settings));
    if matches!(command, Command::Run(_) | Command::Import(_)) {
        for notice in &settings.diagnostics {
            log::log!(notice.level, "{notice}");
        }
    }
    match command {
        Command::Run(run) => event_loop::run(run, settings, devnet, SYSTEM, &*reread)?,
        Command::Devnet(command) => commands::devnet(command, &settings, devnet.as_ref())?,
        Command::Import(import) => commands::import(import, &settings, SYSTEM, stop_on_signals()?)?,
        Command::Dump(store) => ignore_broken_pipe(commands::dump(store, &settings, stop_on_signals()?))?,
        Command::Backup(backup) => commands::backup(backup, &settings, SYSTEM, stop_on_signals()?)?,
        Command::Reindex(store) => commands::reindex(store, &settings, SYSTEM)?,
        Command::Check(store) => commands::check(store, &settings, SYSTEM, stop_on_signals()?)?,
        Command::Digest(store) => commands::digest(store, &settings, stop_on_signals()?)?,
        Command::Rollback(rollback) => commands::rollback(rollback, &settings, SYSTEM)?,
        Command::Export(export) => ignore_broken_pipe(commands::export(export, &settings, stop_on_signals()?))?,
        Command::Peers(peers) => ignore_broken_pipe(commands::peers(peers, &settings))?,
        Command::Service(service) => commands::print_unit(service, &settings)?,
        Command::Status(status) => ignore_broken_pipe(commands::status(status, &settings, SYSTEM, stop_on_signals()?))?,
        _ => {}
    }
    Ok(())
}

/// Returns the private network of nisd if the command is about one, the settings, and a function that reads them again.
fn read_settings(command: &mut Command) -> Result<(Option<Devnet>, Settings, SettingsReader), AnyError> {
    let is_devnet = matches!(command, Command::Run(run) if run.is_devnet());
    let (file, flags) = command.take_settings()?;
    let home = std::env::home_dir();
    let (devnet, settings) = match command {
        Command::Run(run) if is_devnet => Devnet::open_or_make(flags.clone(), run.fresh_keys, home.as_deref(), SYSTEM)?,
        Command::Devnet(_) => Devnet::open(flags.clone(), home.as_deref())?,
        _ => {
            let read = move || Ok(config::load(file.as_deref(), flags.clone(), home.as_deref())?);
            return Ok((None, read()?, Box::new(read)));
        }
    };
    let reread = move || Ok(Devnet::open(flags.clone(), home.as_deref())?.1);
    Ok((Some(devnet), settings, Box::new(reread)))
}

/// Returns the log format that fits the target of standard error.
fn log_style(settings: &Settings) -> logging::Style {
    let error = std::io::stderr();
    match settings.node.logs_json {
        true => logging::Style::Json,
        false if error.is_terminal() => logging::Style::Terminal,
        false if is_journal(&error) => logging::Style::Journal,
        false => logging::Style::Plain,
    }
}

/// Returns whether a stream leads to systemd's journal, according to `JOURNAL_STREAM`.
fn is_journal(stream: &impl AsFd) -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(stream).is_ok_and(|found| named == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Returns a flag that SIGINT and SIGTERM set.
fn stop_on_signals() -> std::io::Result<commands::Stop> {
    let stop = commands::Stop::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Ignores a broken pipe: a reader that closes early, such as `head`, is not an error.
fn ignore_broken_pipe(result: Result<(), CommandError>) -> Result<(), CommandError> {
    match result {
        Err(CommandError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

const SYSTEM: System = System { unix_millis, millis, sleep: thread::sleep, random };

fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    Ok(getrandom::fill(bytes)?)
}

/// Milliseconds of a monotonic clock.
fn millis() -> u64 {
    event_loop::uptime().as_millis() as u64
}
