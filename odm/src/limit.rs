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

/// The time limit of all reads of one typed operation.
///
/// Only the time in reads counts. The time that a caller spends on the documents of a stream does not.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    operation: &'static str,
    max_time: Duration,
    /// The nanoseconds that its reads have taken.
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

    /// The same limit for another operation.
    pub(crate) fn of(&self, operation: &'static str) -> Self {
        Self::new(operation, self.max_time)
    }

    /// The time that is left for the next read.
    ///
    /// # Errors
    ///
    /// [`Timeout`](crate::ErrorKind::Timeout) if none is left: backends take a limit of zero for none.
    pub(crate) fn left(&self) -> Result<Duration> {
        let spent = Duration::from_nanos(self.spent.load(Ordering::Relaxed));
        match self.max_time.saturating_sub(spent) {
            Duration::ZERO => Err(self.named(error::timed_out())),
            left => Ok(left),
        }
    }

    /// Awaits a read, and subtracts its time from the remaining time.
    pub(crate) async fn spend<R>(&self, read: impl Future<Output = Result<R>>) -> Result<R> {
        let begun = Instant::now();
        let done = read.await;
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanos, Ordering::Relaxed);
        done.map_err(|error| self.named(error))
    }

    /// Names the operation and the limit in the error of a read that took too long.
    fn named(&self, error: Error) -> Error {
        match error.is_timeout() {
            true => error.with_limit(self.operation, self.max_time),
            false => error,
        }
    }
}

/// A cursor whose batches are reads of an operation with a time limit.
pub(crate) struct LimitedCursor {
    pub(crate) cursor: Box<dyn Cursor>,
    pub(crate) limit: Arc<TimeLimit>,
}

impl Cursor for LimitedCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(self.limit.spend(self.cursor.next_batch()))
    }
}
