//! The program: reads the command line and the settings, then runs the command.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{CommandFactory, FromArgMatches};
use nisd::cli::{self, Cli, Command, ConfigCommand, EXIT_FAILURE, EXIT_OK, EXIT_USAGE, Help};
use nisd::commands::service::{DATA, Installation, unit};
use nisd::commands::{self, Clocks, CommandError};
use nisd::config::{self, Settings};
use nisd::devnet::{self, Devnet};
use nisd::logging;
use nisd::store;
use nisd::wallet::{self, Services};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Width of the table of settings, in characters.
const TABLE_WIDTH: usize = 100;

/// Returns version, commit, LMDB version and target of this build.
fn long_version() -> String {
    let [version, commit, target] = [env!("CARGO_PKG_VERSION"), env!("NISD_COMMIT"), env!("NISD_TARGET")];
    format!("{version}\ncommit {commit}\nLMDB {}\ntarget {target}", store::lmdb_version())
}

/// Environment variable that allows core dumps and debuggers if it is set to anything.
const ALLOW_CORE_DUMPS: &str = "NISD_CORE_DUMPS";

fn main() -> ExitCode {
    if std::env::var_os(ALLOW_CORE_DUMPS).is_none() {
        nisd::event_loop::forbid_core_dumps();
    }
    if let Some(code) = nisd::event_loop::run_if_helper(std::env::args_os()) {
        return code;
    }
    let matches = Cli::command().long_version(&*long_version().leak()).get_matches();
    let code = match Cli::from_arg_matches(&matches) {
        Ok(cli) => run(cli),
        Err(error) => error.exit(),
    };
    logging::finish();
    code
}

fn run(mut cli: Cli) -> ExitCode {
    if let Command::Settings(settings) = &cli.command {
        let text = if settings.file { config::table::file() } else { config::table::print(TABLE_WIDTH) };
        // A reader that closes early, such as `head`, is not an error.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return ExitCode::from(EXIT_OK);
    }
    if let Command::Help(help) = &cli.command {
        return show_help(help);
    }
    if let Command::Config(ConfigCommand::Check(check)) = &cli.command {
        return match commands::check_config(check, std::env::home_dir().as_deref()) {
            Ok(()) => ExitCode::from(EXIT_OK),
            Err(error @ CommandError::Usage(_)) => fail(&error, EXIT_USAGE),
            Err(error) => fail(&error, EXIT_FAILURE),
        };
    }
    let written = match &cli.command {
        Command::Man(man) => Some(commands::manual::write_man_pages(&man.folder)),
        Command::Completions(completions) => {
            Some(ignore_broken_pipe(commands::manual::print_completions(completions.shell)))
        }
        _ => None,
    };
    if let Some(written) = written {
        return match written {
            Ok(()) => ExitCode::from(EXIT_OK),
            Err(error) => fail(&error, EXIT_FAILURE),
        };
    }
    if let Command::Wallet(command) = &cli.command {
        return match wallet::execute(command, WALLET_SERVICES) {
            Ok(()) => ExitCode::from(EXIT_OK),
            Err(error) => fail(&error, error.exit_code()),
        };
    }
    // Checked before a private network is created for them.
    if let Command::Run(run) = &cli.command
        && let Err(error) = commands::check_block_files(&run.import)
    {
        return fail(&error, EXIT_FAILURE);
    }
    let (devnet, settings, reread) = match read_settings(&mut cli.command) {
        Ok(read) => read,
        Err(error) => return fail(&*error, EXIT_USAGE),
    };
    let _ = logging::init(settings.node.log_level, unix_millis, log_style(&settings));
    if matches!(cli.command, Command::Run(_) | Command::Import(_)) {
        for notice in &settings.diagnostics {
            log::log!(notice.level, "{notice}");
        }
    }
    match execute(&cli.command, settings, devnet, &*reread) {
        Ok(()) => ExitCode::from(EXIT_OK),
        Err(error) => match error.downcast_ref() {
            Some(CommandError::Usage(_)) => fail(&*error, EXIT_USAGE),
            _ => fail(&*error, EXIT_FAILURE),
        },
    }
}

fn show_help(help: &Help) -> ExitCode {
    match help.text() {
        Ok(text) => {
            // A reader that closes early, such as `head`, is not an error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(EXIT_OK)
        }
        Err(error) => fail(&error, EXIT_USAGE),
    }
}

type AnyError = Box<dyn std::error::Error>;

/// Reads the settings again.
type SettingsReader = Box<dyn Fn() -> Result<Settings, AnyError>>;

/// Returns the private network of nisd if the command is about one, the settings, and a function that reads them again.
fn read_settings(command: &mut Command) -> Result<(Option<Devnet>, Settings, SettingsReader), AnyError> {
    let is_devnet = matches!(command, Command::Run(run) if run.is_devnet());
    let flags = command.take_overrides()?;
    let home = std::env::home_dir();
    let (devnet, settings) = match command {
        Command::Run(run) if is_devnet => {
            Devnet::open_or_make(flags.clone(), run.fresh_keys, home.as_deref(), DEVNET_SERVICES)?
        }
        Command::Devnet(_) => Devnet::open(flags.clone(), home.as_deref())?,
        _ => {
            let file = command.config().map(Path::to_owned);
            let read = move || Ok(config::load(file.as_deref(), flags.clone(), home.as_deref())?);
            return Ok((None, read()?, Box::new(read)));
        }
    };
    let reread = move || Ok(Devnet::open(flags.clone(), home.as_deref())?.1);
    Ok((Some(devnet), settings, Box::new(reread)))
}

fn execute(
    command: &Command,
    settings: Settings,
    devnet: Option<Devnet>,
    reread: &dyn Fn() -> Result<Settings, AnyError>,
) -> Result<(), AnyError> {
    match command {
        Command::Run(run) => nisd::event_loop::run(run, settings, devnet, CLOCKS, reread)?,
        Command::Devnet(command) => commands::devnet(command, &settings, devnet.as_ref())?,
        Command::Import(import) => commands::import(import, &settings, CLOCKS)?,
        Command::Dump(store) => ignore_broken_pipe(commands::dump(store, &settings, stop_on_signals()?))?,
        Command::Backup(backup) => commands::backup(backup, &settings, CLOCKS, stop_on_signals()?)?,
        Command::Reindex(store) => commands::reindex(store, &settings, CLOCKS)?,
        Command::Check(store) => commands::check(store, &settings, CLOCKS, stop_on_signals()?)?,
        Command::Digest(store) => commands::digest(store, &settings, stop_on_signals()?)?,
        Command::Rollback(rollback) => commands::rollback(rollback, &settings, CLOCKS)?,
        Command::Export(export) => ignore_broken_pipe(commands::export(export, &settings, stop_on_signals()?))?,
        Command::Peers(peers) => ignore_broken_pipe(commands::peers(peers, &settings))?,
        Command::Service(service) => print_unit(service, &settings)?,
        Command::Status(status) => ignore_broken_pipe(commands::status(status, &settings, CLOCKS, stop_on_signals()?))?,
        Command::Settings(_)
        | Command::Config(_)
        | Command::Wallet(_)
        | Command::Man(_)
        | Command::Completions(_)
        | Command::Help(_) => {}
    }
    Ok(())
}

/// Prints the systemd unit that runs this program.
fn print_unit(service: &cli::Service, settings: &Settings) -> Result<(), AnyError> {
    // The default folder of the settings lies in the home folder of the user who prints the unit, not of the service.
    let data = match &service.data {
        None if !settings.has_explicit_data_folder() => Some(Path::new(DATA)),
        data => data.as_deref(),
    };
    let installation = Installation {
        program: std::env::current_exe()?,
        arguments: service.arguments(data),
        config: service.config.as_deref().map(std::path::absolute).transpose()?,
        data: std::path::absolute(data.unwrap_or(&settings.data))?,
        user: service.user.clone(),
    };
    let _ = std::io::stdout().write_all(unit(&installation).as_bytes());
    Ok(())
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

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    logging::eprint_line(&format!("nisd: {error}"));
    ExitCode::from(code)
}

fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

const CLOCKS: Clocks = Clocks { unix_millis, millis };

const DEVNET_SERVICES: devnet::Services = devnet::Services { unix_millis, random };

const WALLET_SERVICES: Services = Services { unix_millis, millis, sleep: thread::sleep, random };

fn random(bytes: &mut [u8]) -> std::io::Result<()> {
    Ok(getrandom::fill(bytes)?)
}

/// Milliseconds of a monotonic clock.
fn millis() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}
