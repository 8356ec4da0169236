//! A slow, failing or logging disk: a library loaded with `LD_PRELOAD` that sets how long `fsync` and `fdatasync` take,
//! lets writes and syncs of a store fail, and logs writes, syncs and renames in order. A sync that fails tells every
//! descriptor of the file that the process has open, once, as Linux does. It is compiled on demand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* A line for each call, and behind that of a write its bytes; of the files in one folder. */
static void tell(const char *call, const char *path, const struct iovec *parts, int count, long length, long place) {
    const char *log = getenv("NISD_TEST_LOG"), *folder = getenv("NISD_TEST_FOLDER");
    if (!log || strncmp(path, folder, strlen(folder)) || length < 0) return;
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char line[PATH_MAX + 64];
    int bytes = snprintf(line, sizeof line, "%s %ld %ld %s\n", call, place, length, path);
    if (syscall(SYS_write, out, line, bytes) != bytes) abort();
    for (int part = 0; part < count && length > 0; part++) {
        long some = (long)parts[part].iov_len < length ? (long)parts[part].iov_len : length;
        if (syscall(SYS_write, out, parts[part].iov_base, some) != some) abort();
        length -= some;
    }
    close(out);
}

static void tell_of(const char *call, int file, const struct iovec *parts, int count, long length, long place) {
    char link[32], path[PATH_MAX] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int error = errno;
    if (getenv("NISD_TEST_LOG") && readlink(link, path, sizeof path - 1) > 0)
        tell(call, path, parts, count, length, place);
    errno = error;
}

/* Whether this write or sync of a store's data file or record is to fail: one of `count` from the `first` on, or one of
   `permille`; of files whose names contain `of`. A file with the numbers may change them at any time. */
static int fails(int file) {
    static unsigned long long random = 88172645463325252ULL;
    static long number = 0;
    const char *path = getenv("NISD_TEST_FAULTS");
    char link[32], name[PATH_MAX] = {0}, text[64] = {0}, of[16] = {0};
    long seed = 0, permille = 0, first = 0, count = 0;
    int error = errno, said = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (said >= 0 && read(said, text, sizeof text - 1) > 0 && readlink(link, name, sizeof name - 1) > 0
        && sscanf(text, "%ld %ld %ld %ld %15s", &seed, &permille, &first, &count, of) == 5
        && (strstr(name, "data.mdb") || strstr(name, "settled")) && (of[0] == '*' || strstr(name, of))) {
        if (number++ == 0) random ^= (unsigned long long)seed * 0x9e3779b97f4a7c15ULL;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if ((number > first && number <= first + count) || (long)(random >> 20) % 1000 < permille)
            permille = -1;
    }
    if (said >= 0) close(said);
    errno = permille < 0 ? (random & 1 ? EIO : ENOSPC) : error;
    return permille < 0;
}

static long put(int file, const struct iovec *parts, int count, long place) {
    long begin = place < 0 ? lseek(file, 0, SEEK_CUR) : place;
    if (fails(file)) {
        /* A part may have been written. */
        int error = errno;
        struct iovec half = {parts->iov_base, parts->iov_len / 2};
        long written = place < 0 ? 0 : syscall(SYS_pwritev, file, &half, 1, place, place >> 32);
        if (written > 0) tell_of("write", file, &half, 1, written, begin);
        errno = error;
        return -1;
    }
    long written = place < 0 ? syscall(SYS_writev, file, parts, count)
                             : syscall(SYS_pwritev, file, parts, count, place, place >> 32);
    tell_of("write", file, parts, count, written, begin);
    return written;
}

ssize_t writev(int file, const struct iovec *parts, int count) { return put(file, parts, count, -1); }
ssize_t write(int file, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    return put(file, &part, 1, -1);
}
ssize_t pwrite(int file, const void *bytes, size_t length, off_t place) {
    struct iovec part = {(void *)bytes, length};
    return put(file, &part, 1, place);
}
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t place) {
    return pwrite(file, bytes, length, place);
}
int rename(const char *from, const char *to) {
    int (*next)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    int result = next(from, to);
    tell("from", from, 0, 0, result, 0);
    tell("to", to, 0, 0, result, 0);
    return result;
}

/* The errors that the next sync of a descriptor reports: those of failed syncs of the same file by other ones. */
#define DESCRIPTORS 1024
static int reports[DESCRIPTORS];

/* Lets the other open descriptors of a file report an error. */
static void report_elsewhere(int file, int error) {
    struct stat own, other;
    if (fstat(file, &own) < 0) return;
    for (int one = 0; one < DESCRIPTORS; one++)
        if (one != file && fstat(one, &other) == 0 && other.st_dev == own.st_dev && other.st_ino == own.st_ino)
            reports[one] = error;
    errno = error;
}

int close(int file) {
    if (file >= 0 && file < DESCRIPTORS) reports[file] = 0;
    return syscall(SYS_close, file);
}

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
    int reported = file >= 0 && file < DESCRIPTORS ? reports[file] : 0;
    if (reported) {
        reports[file] = 0;
        errno = reported;
    } else if (fails(file)) {
        report_elsewhere(file, errno);
    } else {
        errno = 0;
    }
    if (errno) {
        tell_of("fail", file, 0, 0, 0, 0);
        return -1;
    }
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = next(file);
    tell_of("sync", file, 0, 0, result, 0);
    return result;
}

int fdatasync(int file) { return disk("fdatasync", file); }
int fsync(int file) { return disk("fsync", file); }
"#;

/// Failures of writes and syncs, as each process counts them.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Seed of the random ones.
    pub seed: u64,
    /// How many of 1,000 fail at random.
    pub permille: u32,
    /// Number of successes before a series of failures, and its length.
    pub first: u32,
    pub count: u32,
    /// Part of the name of the file that fails, or `*`: the data file or the record.
    pub of: &'static str,
}

impl Faults {
    /// No failures.
    pub const NONE: Faults = Faults { seed: 0, permille: 0, first: 0, count: 0, of: "*" };
}

/// A disk whose syncs can be slowed or made to fail.
pub struct SlowDisk {
    folder: TempDir,
}

impl SlowDisk {
    /// Creates a disk without delay; skips the test and returns `None` where there is no compiler.
    pub fn new() -> Option<SlowDisk> {
        let disk = SlowDisk { folder: tempfile::tempdir().expect("a folder") };
        let source = disk.path("disk.c");
        fs::write(&source, LIBRARY).expect("room");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(disk.path("disk.so")).arg(source).arg("-ldl");
        if !cfg!(target_os = "linux") || !compiler.status().is_ok_and(|status| status.success()) {
            super::skip("no slow disk can be made here");
            return None;
        }
        disk.set_millis(0);
        Some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets how long syncing a file takes from now on.
    pub fn set_millis(&self, millis: u32) {
        self.say(&millis.to_string());
    }

    /// Lets every sync fail from now on.
    pub fn fail(&self) {
        self.say("-1");
    }

    fn say(&self, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).expect("room");
        fs::rename(new, self.path("delay")).expect("a file");
    }

    /// Lets writes and syncs of a store fail from now on.
    pub fn set_faults(&self, faults: Faults) {
        let Faults { seed, permille, first, count, of } = faults;
        let new = self.path("new");
        fs::write(&new, format!("{seed} {permille} {first} {count} {of}")).expect("room");
        fs::rename(new, self.path("faults")).expect("a file");
    }

    /// Makes a program and its children use this disk.
    pub fn for_program(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.path("disk.so")).env("NISD_TEST_DISK", self.path("delay"));
        command.env("NISD_TEST_FAULTS", self.path("faults"));
    }

    /// Like [`SlowDisk::for_program`], and appends a log of what happens to the files of a folder to `log`.
    pub fn with_log(&self, command: &mut Command, folder: &Path, log: &Path) {
        self.for_program(command);
        command.env("NISD_TEST_FOLDER", folder).env("NISD_TEST_LOG", log);
    }
}
