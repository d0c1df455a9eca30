//! The deletion of documents whose time is over, as TTL indexes ask for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bson::{DateTime, RawArrayBuf, RawDocumentBuf, rawdoc};

use crate::command::delete;
use crate::commit::Committer;
use crate::document::append;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::index::Index;
use crate::plan::Hint;

/// How often expired documents are looked for, as on MongoDB.
const PERIOD: Duration = Duration::from_secs(60);

/// How many documents are deleted in one commit: other writers get their turn between two.
const BATCH: u64 = 1_000;

/// A thread that deletes expired documents from time to time. It ends with this value, and keeps no
/// database open.
pub(crate) struct Expiry {
    committer: Weak<Committer>,
    timer: Arc<Timer>,
}

#[derive(Default)]
struct Timer {
    state: Mutex<TimerState>,
    changed: Condvar,
}

#[derive(Default)]
struct TimerState {
    is_running: bool,
    is_over: bool,
    /// Whether the thread deletes documents, and so keeps the database open.
    is_deleting: bool,
    period: Option<Duration>,
}

impl Expiry {
    pub(crate) fn new(committer: &Arc<Committer>) -> Expiry {
        Expiry {
            committer: Arc::downgrade(committer),
            timer: Arc::default(),
        }
    }

    /// Starts the thread unless it runs already.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn start(&self) -> Result<()> {
        let mut state = self.timer.state();
        if state.is_running {
            return Ok(());
        }
        let (committer, timer) = (Weak::clone(&self.committer), Arc::clone(&self.timer));
        let run = move || {
            while timer.wait() {
                let _deleting = Deleting(&timer);
                if let Some(committer) = committer.upgrade() {
                    // A store that fails tells the application at its next write; until then, try again.
                    let _ = delete_expired_while(&committer, DateTime::now(), || timer.goes_on());
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
        self.timer.state().period = Some(period);
        self.timer.changed.notify_all();
    }
}

impl Expiry {
    /// Ends the thread, and returns once it keeps the database open no more: after one batch at most.
    pub(crate) fn end(&self) {
        let mut state = self.timer.state();
        state.is_over = true;
        self.timer.changed.notify_all();
        while state.is_deleting {
            let waited = self.timer.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Expiry {
    fn drop(&mut self) {
        self.end();
    }
}

/// While this lives, the thread keeps the database open.
struct Deleting<'t>(&'t Timer);

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.0.state().is_deleting = false;
        self.0.changed.notify_all();
    }
}

impl Timer {
    /// Waits for one period; the answer is whether to go on.
    fn wait(&self) -> bool {
        let began = Instant::now();
        let mut state = self.state();
        while !state.is_over {
            let period = state.period.unwrap_or(PERIOD);
            let Some(left) = period.checked_sub(began.elapsed()) else {
                state.is_deleting = true;
                return true;
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn goes_on(&self) -> bool {
        !self.state().is_over
    }

    fn state(&self) -> MutexGuard<'_, TimerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether any collection has an index that lets documents expire.
pub(crate) fn is_needed(committer: &Committer) -> bool {
    let state = committer.state();
    let mut indexes = state
        .catalog
        .collections()
        .flat_map(|collection| &collection.indexes);
    indexes.any(|state| state.index.expire_after.is_some())
}

/// Deletes the documents that have expired by `now`, in batches, and returns their number.
pub(crate) fn delete_expired(committer: &Committer, now: DateTime) -> Result<u64> {
    delete_expired_while(committer, now, || true)
}

/// The same, up to a batch after which it is not to go on.
fn delete_expired_while(
    committer: &Committer,
    now: DateTime,
    goes_on: impl Fn() -> bool,
) -> Result<u64> {
    committer.check_open()?;
    let state = committer.state();
    let mut deleted = 0;
    for collection in state.catalog.collections() {
        for index in &collection.indexes {
            let Some(filter) = expired(&index.index, now) else {
                continue;
            };
            // Also by a hidden index, and where scans are forbidden.
            let hint = Hint::Number(index.id);
            loop {
                let batch = committer.write(|overlay| {
                    // The collection or the index may be gone by now, and another in its place.
                    let now = overlay.collection(&collection.name);
                    let is_there = now.is_some_and(|now| {
                        now.id == collection.id
                            && now.indexes.iter().any(|state| state.id == index.id)
                    });
                    if !is_there {
                        return Ok(0);
                    }
                    let filter = Filter::parse(&filter)?;
                    delete::matching(overlay, &collection.name, filter, Some(BATCH), Some(&hint))
                })?;
                deleted += batch;
                if !goes_on() {
                    return Ok(deleted);
                }
                if batch < BATCH {
                    break;
                }
            }
        }
    }
    Ok(deleted)
}

/// A filter for the documents of an index that have expired; of several dates the first counts. As on
/// MongoDB, nothing expires by a hashed index, whose entries have no dates.
fn expired(index: &Index, now: DateTime) -> Option<RawDocumentBuf> {
    if index.hashed.is_some() {
        return None;
    }
    let (path, _) = index.keys.first()?;
    let age = i64::try_from(index.expire_after?.as_millis()).ok()?;
    let latest = DateTime::from_millis(now.timestamp_millis().checked_sub(age)?);
    let mut by_date = RawDocumentBuf::new();
    append(&mut by_date, path, rawdoc! { "$lte": latest });
    // The index has no other documents; and its filter, under a collation, is not what it looks like.
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
        assert_eq!(expired(&index, DateTime::from_millis(5_000)), None);
    }

    #[test]
    fn the_age_is_subtracted_and_the_partial_filter_kept() {
        let index = Index::new([("at", crate::direction::Direction::Ascending)])
            .partial(rawdoc! { "a": 1 })
            .expire_after(Duration::from_secs(2));
        let filter = expired(&index, DateTime::from_millis(5_000)).unwrap();
        let latest = DateTime::from_millis(3_000);
        let expected = rawdoc! { "$and": [{ "a": 1 }, { "at": { "$lte": latest } }] };
        assert_eq!(filter, expected);
    }
}
