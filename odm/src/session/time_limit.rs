//! Time limits of reads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bson::RawDocumentBuf;

use crate::{
    Error, Result,
    backend::{BoxFuture, Cursor},
    error,
};

/// The time limit for all reads of one typed operation.
///
/// Only the time in reads counts, and not the time between the reads of a stream.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    operation: &'static str,
    max_time: Duration,
    /// The time that the reads have taken so far, in nanoseconds.
    spent: AtomicU64,
}

impl TimeLimit {
    pub(crate) fn new(operation: &'static str, max_time: Duration) -> Self {
        Self {
            operation,
            max_time,
            spent: AtomicU64::new(0),
        }
    }

    /// Returns the same limit for another operation, with the full time left.
    pub(crate) fn for_operation(&self, operation: &'static str) -> Self {
        Self::new(operation, self.max_time)
    }

    /// Returns the remaining time for the next read.
    ///
    /// # Errors
    ///
    /// [`Timeout`](crate::ErrorKind::Timeout) if no time is left. A limit of zero must not reach a backend: zero means no limit
    /// there.
    pub(crate) fn remaining_time(&self) -> Result<Duration> {
        let spent_time = Duration::from_nanos(self.spent.load(Ordering::Relaxed));
        match self.max_time.saturating_sub(spent_time) {
            Duration::ZERO => Err(self.with_context(error::read_timed_out())),
            remaining => Ok(remaining),
        }
    }

    /// Awaits a read, and subtracts its duration from the remaining time.
    pub(crate) async fn run_timed<R>(&self, read: impl Future<Output = Result<R>>) -> Result<R> {
        let started = Instant::now();
        let result = read.await;
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanos, Ordering::Relaxed);
        result.map_err(|error| self.with_context(error))
    }

    /// Adds the operation and the limit to the error of a read that timed out.
    fn with_context(&self, error: Error) -> Error {
        match error.is_timeout() {
            true => error.with_limit(self.operation, self.max_time),
            false => error,
        }
    }
}

/// A cursor with a time limit: every batch counts as a read of the operation.
pub(crate) struct LimitedCursor {
    pub(crate) cursor: Box<dyn Cursor>,
    pub(crate) limit: Arc<TimeLimit>,
}

impl Cursor for LimitedCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(self.limit.run_timed(self.cursor.next_batch()))
    }
}
