//! Tells the program of what it is built: the commit and the target, for `nisd --version`.

use std::env;
use std::path::Path;
use std::process::Command;

/// Digits of a commit's hash.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=.packaging/build.rs");
    println!("cargo::rerun-if-env-changed=NISD_COMMIT");
    println!("cargo::rustc-env=NISD_TARGET={}", env::var("TARGET").unwrap_or_default());
    let is_released = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = match env::var("NISD_COMMIT") {
        // For those who build from sources without their history.
        Ok(commit) => commit,
        Err(_) if is_released => commit().unwrap_or_else(|| "unknown".to_owned()),
        // Else all would be built anew at each commit.
        Err(_) => "unknown (not a release build)".to_owned(),
    };
    println!("cargo::rustc-env=NISD_COMMIT={commit}");
}

/// The commit of the sources, with a mark if they were changed since.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-changed=src");
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        // What is not there would be looked for each time.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["describe", "--always", "--dirty", "--exclude=*", &format!("--abbrev={DIGITS}")])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
