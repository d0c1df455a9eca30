//! Brief operations: short work on a thread that must not wait.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Calls `operations` on a thread that must not wait, such as a thread of an async runtime.
///
/// A database operation of the call fails with an error of kind [`WouldBlock`](crate::ErrorKind::WouldBlock) if the operation takes
/// longer than `limit`, waits for another thread, or makes a commit that takes long: a large commit, or any commit on a slow disk.
/// The operation has changed no data then, and its transaction stays open. Call the operation again on a thread that may wait.
///
/// A commit to a file begins only if the average time of the last commits is at most 300 microseconds, and ends within `limit`.
///
/// The limit does not apply to cursors that are read after the call.
///
/// ```
/// use std::time::Duration;
/// use bson::rawdoc;
/// use odm_engine::{Database, Find, run_briefly};
///
/// let database = Database::memory();
/// let documents = (0..20_000).map(|n| rawdoc! { "_id": n, "n": n }).collect();
/// database.insert("numbers", documents)?.into_result()?;
///
/// let limit = Duration::from_micros(50);
/// let read = |filter| run_briefly(limit, || {
///     let find = Find { filter, ..Find::default() };
///     database.find("numbers", &find)?.collect::<odm_engine::Result<Vec<_>>>()
/// });
/// let error = read(rawdoc! { "n": { "$gt": 7 } }).unwrap_err();
/// assert!(error.is_would_block());
/// # Ok::<(), odm_engine::Error>(())
/// ```
pub fn run_briefly<T>(limit: Duration, operations: impl FnOnce() -> T) -> T {
    let deadline = Instant::now().checked_add(limit);
    let _scope = BriefScope(DEADLINE.replace(deadline));
    operations()
}

/// Returns the remaining time of [`run_briefly`] on the current thread. Returns `None` outside of such a call.
///
/// A reader of a cursor can stop before the time ends, and continue on a thread that may wait. Otherwise all documents must be
/// read again.
pub fn brief_time_left() -> Option<Duration> {
    let deadline = DEADLINE.get()?;
    Some(deadline.saturating_duration_since(Instant::now()))
}

/// Whether the current thread must not wait.
pub(crate) fn is_active() -> bool {
    DEADLINE.get().is_some()
}

/// Returns an error if the current thread must not wait.
///
/// # Errors
/// Would block.
pub(crate) fn ensure_may_wait() -> Result<()> {
    if is_active() {
        return Err(Error::would_block());
    }
    Ok(())
}

/// Returns an error if the brief operations of the current thread take too long.
///
/// # Errors
/// Would block.
pub(crate) fn check_deadline() -> Result<()> {
    match DEADLINE.get() {
        Some(deadline) if Instant::now() >= deadline => Err(Error::would_block()),
        _ => Ok(()),
    }
}

/// Locks a mutex. The data is consistent after a panic of the thread that held the lock.
///
/// # Errors
/// Would block.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    if !is_active() {
        return Ok(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Error::would_block()),
    }
}

/// A guard that restores the previous deadline.
struct BriefScope(Option<Instant>);

impl Drop for BriefScope {
    fn drop(&mut self) {
        DEADLINE.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::{Count, Database, Delete, Direction, Find, Index, Session};

    const LONG: Duration = Duration::from_secs(60);

    fn insert(session: &Session, document: RawDocumentBuf) -> Result<()> {
        session
            .insert("c", vec![document])?
            .into_result()
            .map(|_| ())
    }

    fn thousand_documents() -> Database {
        let database = Database::memory();
        let documents = (0..1000).map(|n| rawdoc! { "_id": n }).collect();
        let inserted = database.insert("c", documents).unwrap();
        assert_eq!(inserted.into_result().unwrap(), 1000);
        database
    }

    #[test]
    fn short_operations_in_memory_run() {
        let database = Database::memory();
        run_briefly(LONG, || {
            insert(&database, rawdoc! { "_id": 1 }).unwrap();
            let transaction = database.begin().unwrap();
            insert(&transaction, rawdoc! { "_id": 2 }).unwrap();
            transaction.commit().unwrap();
            assert_eq!(database.count("c", &Count::default()).unwrap(), 2);
        });
    }

    #[test]
    fn long_operations_change_nothing() {
        let database = thousand_documents();
        let all = Delete {
            multi: true,
            ..Delete::default()
        };
        let deleted = run_briefly(Duration::ZERO, || database.delete("c", &all));
        assert!(deleted.unwrap_err().is_would_block());
        let index = Index::new([("n", Direction::Ascending)]);
        let created = run_briefly(LONG, || database.create_indexes("c", &[index]));
        assert!(created.unwrap_err().is_would_block());
        assert_eq!(database.list_indexes("c").unwrap().len(), 1);
        assert_eq!(database.count("c", &Count::default()).unwrap(), 1000);

        let transaction = database.begin().unwrap();
        let deleted = run_briefly(Duration::ZERO, || transaction.delete("c", &all));
        assert!(deleted.unwrap_err().is_would_block());
        let found = run_briefly(Duration::ZERO, || {
            transaction
                .find("c", &Find::default())?
                .collect::<Result<Vec<_>>>()
        });
        assert!(found.unwrap_err().is_would_block());
        assert_eq!(transaction.delete("c", &all).unwrap().deleted, 1000);
        transaction.commit().unwrap();
    }

    /// The cursor of a brief read has no limit afterwards.
    #[test]
    fn a_cursor_outlives_the_limit() {
        let database = thousand_documents();
        let cursor = run_briefly(LONG, || database.find("c", &Find::default())).unwrap();
        assert_eq!(cursor.map(Result::unwrap).count(), 1000);
    }

    #[test]
    fn writes_to_a_file_may_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path().join("file")).unwrap();
        let inserted = run_briefly(LONG, || insert(&database, rawdoc! { "_id": 1 }));
        assert!(inserted.unwrap_err().is_would_block());
        // A transaction writes to the file only at its commit. The refused commit leaves the transaction open.
        let transaction = run_briefly(LONG, || {
            let transaction = database.begin().unwrap();
            insert(&transaction, rawdoc! { "_id": 1 }).unwrap();
            assert!(transaction.commit().unwrap_err().is_would_block());
            transaction
        });
        transaction.commit().unwrap();
        assert_eq!(database.count("c", &Count::default()).unwrap(), 1);
    }

    /// A brief operation does not wait for the write of another thread.
    #[test]
    fn operations_do_not_wait_for_locks() {
        let database = Database::memory();
        let transaction = database.begin().unwrap();
        let (begun, ends) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let written = database.write(|_| {
                    begun.wait();
                    ends.wait();
                    Ok(())
                });
                written.unwrap();
            });
            begun.wait();
            run_briefly(LONG, || {
                let inserted = insert(&database, rawdoc! { "_id": 1 });
                assert!(inserted.unwrap_err().is_would_block());
                assert!(database.begin().unwrap_err().is_would_block());
                assert!(transaction.commit().unwrap_err().is_would_block());
                assert_eq!(database.count("c", &Count::default()).unwrap(), 0);
            });
            ends.wait();
        });
        transaction.commit().unwrap();
    }
}
