//! The program: reads the command line and the settings, then runs the command.
#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use nisd::clock::System;
use nisd::commands::devnet::Devnet;
use nisd::commands::{self, Command, CommandError, CommandLine, Stop};
use nisd::config::{Settings, load};
use nisd::net::unix_millis;
use nisd::{event_loop, logging};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Returns version, commit, LMDB version and target of this build.
fn long_version() -> String {
    let [version, commit, target] = [env!("CARGO_PKG_VERSION"), env!("NISD_COMMIT"), env!("NISD_TARGET")];
    format!("{version}\ncommit {commit}\nLMDB {}\ntarget {target}", nisd::store::lmdb_version())
}

fn main() -> ExitCode {
    // Handlers that do nothing: a write beyond the limit on file sizes fails, and the error says so; the end of a child
    // process is told only if its signal is not ignored, as a parent may have left it.
    for signal in [SIGXFSZ, SIGCHLD] {
        let _ = flag::register(signal, Stop::default());
    }
    // This variable allows core dumps and debuggers if it is set to anything.
    if std::env::var_os("NISD_CORE_DUMPS").is_none() {
        event_loop::forbid_core_dumps();
    }
    if let Some(code) = event_loop::run_if_helper(std::env::args_os()) {
        return code;
    }
    if let Some(hint) = commands::tilde_hint(std::env::args_os()) {
        commands::print_note(&hint);
    }
    let mut result = match CommandLine::parse(std::env::args_os(), long_version().leak()) {
        Ok(line) => run(line),
        Err(error) => commands::end_parsing(&error),
    };
    // A command that failed knows better what its own failure means.
    if matches!(result, Ok(()) | Err(CommandError::Exit(_))) {
        result = commands::finish_output().and(result);
    }
    if let Err(error) = &result
        && !matches!(error, CommandError::Exit(_))
    {
        logging::eprint_line(&format!("nisd: {error}"));
    }
    logging::finish();
    result.map_or_else(|error| error.exit_code().into(), |()| ExitCode::SUCCESS)
}

/// Runs a command.
fn run(line: CommandLine) -> Result<(), CommandError> {
    let CommandLine { command, config, overrides, data } = &line;
    let data = data.as_deref();
    let home = std::env::home_dir();
    let home = home.as_deref();
    let read = || -> Result<Settings, CommandError> {
        let read = load(config.as_deref(), overrides.clone(), home)?;
        Ok(Settings { data: data.map_or(read.data, Path::to_owned), ..read })
    };
    let settings = || read().map(prepare);
    match command {
        Command::Run(command) => {
            // Checked before a private network is created for them.
            commands::store::check_block_files(&command.import)?;
            if config.is_some() || line.sets("nem.network") {
                return event_loop::run(command, log_notices(settings()?), None, SYSTEM, &|| Ok(read()?));
            }
            let open = |make_with| Devnet::open(overrides.clone(), data, home, make_with);
            let (devnet, made) = open(Some((command.fresh_keys, SYSTEM)))?;
            let reread = || Ok(open(None)?.1);
            event_loop::run(command, log_notices(prepare(made)), Some(devnet), SYSTEM, &reread)
        }
        Command::Import(command) => {
            commands::import::import(command, &log_notices(settings()?), SYSTEM, stop_on_signals()?)
        }
        Command::Dump(command) => commands::store::dump(command, &settings()?, stop_on_signals()?),
        Command::Rollback(command) => commands::reindex::rollback(command, &settings()?, SYSTEM, stop_on_signals()?),
        Command::Check(command) => commands::import::check(command, &settings()?, SYSTEM, stop_on_signals()?),
        Command::Reindex(command) => commands::reindex::reindex(command, &settings()?, SYSTEM, &stop_on_signals()?),
        Command::Backup(command) => commands::backup::backup(command, &settings()?, SYSTEM, stop_on_signals()?),
        Command::Digest(command) => commands::store::digest(command, &settings()?, stop_on_signals()?),
        Command::Export(command) => commands::store::export(command, &settings()?, stop_on_signals()?),
        Command::Settings(command) => commands::config::print_settings(command),
        Command::Config(command) => commands::config::check(command, home, SYSTEM),
        Command::Man(command) => commands::help::write_man_pages(command),
        Command::Completions(command) => commands::help::print_completions(command),
        Command::Service(command) => commands::service::print_unit(command, &settings()?),
        Command::Peers(command) => commands::peers::peers(command, &settings()?),
        Command::Status(command) => commands::status::status(command, &settings()?, SYSTEM, stop_on_signals()?),
        Command::StatusOf(command) => commands::send::status_of(command, SYSTEM),
        Command::Watch(command) => commands::watch::watch(command, SYSTEM, stop_on_signals()?),
        Command::Devnet(command) => {
            let (devnet, settings) = Devnet::open(overrides.clone(), data, home, None)?;
            commands::devnet::devnet(command, &prepare(settings), &devnet)
        }
        Command::Key(command) => commands::keys::key(command, SYSTEM),
        Command::Address(command) => commands::keys::show_address(command),
        Command::Send(command) => commands::send::send(command, SYSTEM, stop_on_signals),
        Command::Apostille(command) => commands::apostille::apostille(command, SYSTEM, stop_on_signals),
        Command::Sign(command) => commands::send::sign(command),
        Command::Announce(command) => commands::send::announce(command, stop_on_signals),
        Command::Help(command) => commands::help::print_help(command),
    }
}

/// Derives the settings that depend on this machine, and starts the log.
fn prepare(mut settings: Settings) -> Settings {
    settings.set_memory(event_loop::memory_limit().unwrap_or(0));
    // The log is started once; it fails only then.
    let _ = logging::init(settings.node.log_level, SYSTEM.unix_millis, log_style(&settings));
    settings
}

/// Logs the warnings about settings, before a command that depends on all of them.
fn log_notices(settings: Settings) -> Settings {
    for notice in &settings.diagnostics {
        logging::log_always(notice.level, notice);
    }
    settings
}

/// Returns the log format that fits the target of standard error.
fn log_style(settings: &Settings) -> logging::Style {
    let error = std::io::stderr();
    if settings.node.logs_json {
        logging::Style::Json
    } else if logging::is_screen(&error) {
        logging::Style::Terminal
    } else if is_journal(&error) {
        logging::Style::Journal
    } else {
        logging::Style::Plain
    }
}

/// Returns whether a stream leads to systemd's journal, according to `JOURNAL_STREAM`.
fn is_journal(stream: &impl AsFd) -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(stream).is_ok_and(|found| named == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Exit status of a process that a signal has ended, less the number of the signal.
const EXIT_BY_SIGNAL: i32 = 128;

/// Returns a flag that the signals set which end a command: SIGINT, SIGTERM, and SIGHUP of a closed terminal. The second of
/// them ends the process, whatever the command waits for.
fn stop_on_signals() -> Result<Stop, CommandError> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGHUP || !ignores_hangup() {
            let register = || {
                flag::register_conditional_shutdown(signal, EXIT_BY_SIGNAL + signal, stop.clone())?;
                flag::register(signal, stop.clone())
            };
            register().map_err(CommandError::System)?;
        }
    }
    Ok(stop)
}

/// Returns whether this process was started to ignore SIGHUP, as by `nohup`; unknown except on Linux.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    ignored.is_some_and(|signals| signals & (1 << (SIGHUP - 1)) != 0)
}

/// The services of this machine.
const SYSTEM: System = System { unix_millis, millis, sleep: thread::sleep, random };

/// Milliseconds of a monotonic clock.
fn millis() -> u64 {
    event_loop::uptime().as_millis() as u64
}

fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    Ok(getrandom::fill(bytes)?)
}
