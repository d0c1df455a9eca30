//! The lease on pending work.

use std::time::{Duration, SystemTime};

use bson::DateTime;

/// The lease on pending work. Until the lease ends, other processes leave the work to the process that recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    duration: Duration,
}

impl Lease {
    /// Creates a lease. A duration below one second counts as one second.
    pub(crate) fn new(duration: Duration) -> Self {
        Self {
            duration: duration.clamp(Duration::from_secs(1), MAX_LEASE_DURATION),
        }
    }

    pub(crate) fn duration(self) -> Duration {
        self.duration
    }

    /// Returns the end of a lease that starts now.
    pub(crate) fn new_end(self) -> DateTime {
        DateTime::from_system_time(SystemTime::now() + self.duration)
    }

    /// Returns the end of a lease on the chunks of an insert that starts now. A large insert may take minutes, and no other write
    /// waits for the chunks.
    pub(crate) fn new_insert_end(self) -> DateTime {
        DateTime::from_system_time(SystemTime::now() + self.duration * 60)
    }

    /// Returns the age at which the holder renews the lease.
    pub(crate) fn renewal_age(self) -> Duration {
        self.duration / 4
    }

    /// Whether the holder of a lease with this end should renew the lease.
    pub(crate) fn needs_renewal(self, lease_end: DateTime) -> bool {
        let remaining = lease_end.to_system_time().duration_since(SystemTime::now());
        remaining.unwrap_or_default() + self.renewal_age() < self.duration
    }
}

/// The default duration of a [`Lease`].
pub(crate) const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(5);

/// The maximum duration of a [`Lease`].
const MAX_LEASE_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
