//! A disk that takes its time, or fails: a library that is loaded before the system's (`LD_PRELOAD`) and says how long
//! `fsync` and `fdatasync` take. It is compiled when it is needed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int disk(const char *name, int file) {
    const char *path = getenv("NISD_TEST_DISK");
    char text[16] = {0};
    int said = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (said >= 0) {
        if (read(said, text, sizeof text - 1) < 0) text[0] = 0;
        close(said);
    }
    long millis = atol(text);
    if (millis < 0) {
        errno = EIO;
        return -1;
    }
    struct timespec time = {millis / 1000, millis % 1000 * 1000000};
    while (nanosleep(&time, &time) < 0 && errno == EINTR) {}
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return next(file);
}

int fdatasync(int file) { return disk("fdatasync", file); }
int fsync(int file) { return disk("fsync", file); }
"#;

/// Such a disk.
pub struct SlowDisk {
    folder: TempDir,
}

impl SlowDisk {
    /// One that takes no longer than it must; `None`, said aloud, where there is no compiler.
    pub fn new() -> Option<SlowDisk> {
        let disk = SlowDisk { folder: tempfile::tempdir().expect("a folder") };
        let source = disk.path("disk.c");
        fs::write(&source, LIBRARY).expect("room");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(disk.path("disk.so")).arg(source).arg("-ldl");
        if !cfg!(target_os = "linux") || !compiler.status().is_ok_and(|status| status.success()) {
            super::loudly("SKIPPED: no slow disk can be made here");
            return None;
        }
        disk.set_millis(0);
        Some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// From now on synchronising a file takes so long.
    pub fn set_millis(&self, millis: u32) {
        self.say(&millis.to_string());
    }

    /// From now on it fails.
    pub fn fail(&self) {
        self.say("-1");
    }

    fn say(&self, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).expect("room");
        fs::rename(new, self.path("delay")).expect("a file");
    }

    /// Has a program and those that it starts use this disk.
    pub fn for_program(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.path("disk.so")).env("NISD_TEST_DISK", self.path("delay"));
    }
}
