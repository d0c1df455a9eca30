//! Expiry: a background thread deletes the documents that TTL indexes have expired.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bson::{DateTime, RawArrayBuf, RawDocumentBuf, rawdoc};

use crate::command::delete;
use crate::commit::Committer;
use crate::document::append_field;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::index::Index;
use crate::plan::IndexHint;

/// The default interval between deletions, as on MongoDB.
const DEFAULT_EXPIRY_PERIOD: Duration = Duration::from_secs(60);

/// The number of documents deleted in one commit. Other writers can commit between two batches.
const BATCH_DOCUMENTS: u64 = 1_000;

/// A background thread that regularly deletes expired documents. Dropping this value stops the thread. An idle thread does not
/// keep the database open.
pub(crate) struct ExpiryWorker {
    committer: Weak<Committer>,
    timer: Arc<ExpiryTimer>,
}

#[derive(Default)]
struct ExpiryTimer {
    state: Mutex<TimerState>,
    changed: Condvar,
}

#[derive(Default)]
struct TimerState {
    is_running: bool,
    is_over: bool,
    /// Whether the thread is deleting documents. It keeps the database open meanwhile.
    is_deleting: bool,
    period: Option<Duration>,
}

impl ExpiryWorker {
    pub(crate) fn new(committer: &Arc<Committer>) -> ExpiryWorker {
        ExpiryWorker {
            committer: Arc::downgrade(committer),
            timer: Arc::default(),
        }
    }

    /// Starts the thread if it is not running.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(&self) -> Result<()> {
        let mut state = self.timer.lock_state();
        if state.is_running {
            return Ok(());
        }
        let (committer, timer) = (Weak::clone(&self.committer), Arc::clone(&self.timer));
        let run = move || {
            while timer.wait_for_period() {
                let _deleting = DeletionGuard(&timer);
                if let Some(committer) = committer.upgrade() {
                    // Ignore the error: the application's next write gets the same error, and the next period retries.
                    let _ =
                        delete_expired_while(&committer, DateTime::now(), || timer.keeps_running());
                }
            }
        };
        let thread = thread::Builder::new().name("odm-engine expiry".into());
        thread
            .spawn(run)
            .map_err(|error| Error::io("cannot start", "a thread for expired documents", error))?;
        state.is_running = true;
        Ok(())
    }

    pub(crate) fn set_period(&self, period: Duration) {
        self.timer.lock_state().period = Some(period);
        self.timer.changed.notify_all();
    }
}

impl ExpiryWorker {
    /// Stops the thread. Waits until the thread no longer keeps the database open, for one batch at most.
    pub(crate) fn stop(&self) {
        let mut state = self.timer.lock_state();
        state.is_over = true;
        self.timer.changed.notify_all();
        while state.is_deleting {
            let waited = self.timer.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ExpiryWorker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A guard that marks the thread as deleting. Its drop wakes a waiting [`stop`](ExpiryWorker::stop).
struct DeletionGuard<'t>(&'t ExpiryTimer);

impl Drop for DeletionGuard<'_> {
    fn drop(&mut self) {
        self.0.lock_state().is_deleting = false;
        self.0.changed.notify_all();
    }
}

impl ExpiryTimer {
    /// Waits for one period. Returns `false` if the thread must stop.
    fn wait_for_period(&self) -> bool {
        let started = Instant::now();
        let mut state = self.lock_state();
        while !state.is_over {
            let period = state.period.unwrap_or(DEFAULT_EXPIRY_PERIOD);
            let Some(remaining) = period.checked_sub(started.elapsed()) else {
                state.is_deleting = true;
                return true;
            };
            let waited = self.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn keeps_running(&self) -> bool {
        !self.lock_state().is_over
    }

    fn lock_state(&self) -> MutexGuard<'_, TimerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether any collection has an index with expiry.
pub(crate) fn is_needed(committer: &Committer) -> bool {
    if committer.is_read_only() {
        return false;
    }
    let state = committer.state();
    let mut indexes = state
        .catalog
        .collections()
        .flat_map(|collection| &collection.indexes);
    indexes.any(|state| state.index.expire_after.is_some())
}

/// Deletes the documents that have expired by `now`, in batches. Returns the number of deleted documents.
pub(crate) fn delete_expired(committer: &Committer, now: DateTime) -> Result<u64> {
    delete_expired_while(committer, now, || true)
}

/// Deletes expired documents in batches, as long as `may_continue` returns `true` after a batch.
fn delete_expired_while(
    committer: &Committer,
    now: DateTime,
    may_continue: impl Fn() -> bool,
) -> Result<u64> {
    committer.check_open()?;
    committer.ensure_writable()?;
    let state = committer.state();
    let mut deleted = 0;
    for collection in state.catalog.collections() {
        for index in &collection.indexes {
            let Some(filter) = expired_filter(&index.index, now) else {
                continue;
            };
            // A hint by number also accepts a hidden index, and works where collection scans are forbidden.
            let hint = IndexHint::Number(index.id);
            loop {
                let batch = committer.write(Durability::Full, |overlay| {
                    // The collection or index may have been dropped or replaced meanwhile.
                    let current = overlay.collection(&collection.name);
                    let exists = current.is_some_and(|current| {
                        current.id == collection.id
                            && current.indexes.iter().any(|state| state.id == index.id)
                    });
                    if !exists {
                        return Ok(0);
                    }
                    let filter = Filter::parse(&filter)?;
                    delete::delete_matching(
                        overlay,
                        &collection.name,
                        filter,
                        Some(BATCH_DOCUMENTS),
                        Some(&hint),
                    )
                })?;
                deleted += batch;
                if !may_continue() {
                    return Ok(deleted);
                }
                if batch < BATCH_DOCUMENTS {
                    break;
                }
            }
        }
    }
    Ok(deleted)
}

/// Returns a filter for the expired documents of an index. A document with several dates expires by its earliest date.
///
/// As on MongoDB, a hashed index expires no documents, because its entries do not contain dates.
fn expired_filter(index: &Index, now: DateTime) -> Option<RawDocumentBuf> {
    if index.hashed.is_some() {
        return None;
    }
    let (path, _) = index.keys.first()?;
    let age = i64::try_from(index.expire_after?.as_millis()).ok()?;
    let latest = DateTime::from_millis(now.timestamp_millis().checked_sub(age)?);
    let mut by_date = RawDocumentBuf::new();
    append_field(&mut by_date, path, rawdoc! { "$lte": latest });
    // A partial index has only documents that match its filter. The filter is left out under a collation, where it would compare
    // strings byte by byte.
    let partial = index.partial.iter().filter(|_| index.collation.is_none());
    let both: RawArrayBuf = partial.cloned().chain([by_date]).collect();
    Some(rawdoc! { "$and": both })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_expires_by_a_hashed_index() {
        let index = Index::new([("at", crate::direction::Direction::Ascending)])
            .hashed("at")
            .expire_after(Duration::from_secs(2));
        assert_eq!(expired_filter(&index, DateTime::from_millis(5_000)), None);
    }

    #[test]
    fn the_age_is_subtracted_and_the_partial_filter_kept() {
        let index = Index::new([("at", crate::direction::Direction::Ascending)])
            .partial(rawdoc! { "a": 1 })
            .expire_after(Duration::from_secs(2));
        let filter = expired_filter(&index, DateTime::from_millis(5_000)).unwrap();
        let latest = DateTime::from_millis(3_000);
        let expected = rawdoc! { "$and": [{ "a": 1 }, { "at": { "$lte": latest } }] };
        assert_eq!(filter, expected);
    }
}
