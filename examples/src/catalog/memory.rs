//! The memory use of the program.

use std::fs;

/// Returns the peak memory of the process in MB, if the system reports the peak.
#[must_use]
pub fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024 / 1_000_000)
}
