//! Versions that increase with the clock.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Returns a version for a new document, higher than the version of any earlier document with the same `_id`.
///
/// The upper bits hold the clock time in milliseconds, the lower 20 bits the nanoseconds. No document changes often enough for
/// the version to overtake the clock. Versions of the same process increase, also if the clock is set back.
pub(super) fn first_version() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX >> 20);
    let clock = (millis << 20) + i64::from(now.subsec_nanos() % 1_000_000);
    higher_version(&LAST, clock)
}

/// Returns the version of the clock, or the lowest version above `last` if the clock was set back.
fn higher_version(last: &AtomicI64, clock: i64) -> i64 {
    let higher = |last: i64| clock.max(last + 1);
    let (Ok(last) | Err(last)) = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(higher(last))
    });
    higher(last)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::higher_version;

    #[test]
    fn versions_increase_when_the_clock_is_set_back() {
        let last = AtomicI64::new(0);
        let versions = [100, 50, 100, 101, 200].map(|clock| higher_version(&last, clock));
        assert_eq!(versions, [100, 101, 102, 103, 200]);
    }
}
