//! Snapshot reads: several reads of one state, outside of a transaction. The client names the state by a time, which the reply of the
//! first read has.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::Timestamp;
use odm_engine::{Database, Transaction};

use crate::error::{CommandError, Result, code};

/// How long a state stays readable. The file cannot reuse the pages of the state before.
const SNAPSHOT_LIFETIME: Duration = Duration::from_secs(60);

/// The maximum number of states. The oldest state goes first.
const MAX_SNAPSHOTS: usize = 100;

/// The states that clients can read again.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<SnapshotTable>);

#[derive(Default)]
struct SnapshotTable {
    by_time: BTreeMap<Timestamp, Snapshot>,
    /// The time of the last state. Each state has a time of its own.
    last: Option<Timestamp>,
}

struct Snapshot {
    transaction: Arc<Transaction>,
    begun: Instant,
}

impl Snapshots {
    /// Reads the state with a time, or the current state, which gets a new time. Returns the time and the result.
    ///
    /// # Errors
    /// The state is no longer readable; the errors of `read`. An error of a read ends the state.
    pub(crate) fn read<T>(
        &self,
        at: Option<Timestamp>,
        database: &Database,
        read: impl FnOnce(Arc<Transaction>) -> Result<T>,
    ) -> Result<(Timestamp, T)> {
        let Some(time) = at else {
            let transaction = Arc::new(database.begin()?);
            let begun = Instant::now();
            let time = self.new_time(database);
            let result = read(Arc::clone(&transaction))?;
            self.insert(time, Snapshot { transaction, begun });
            return Ok((time, result));
        };
        let transaction = self.transaction(time).ok_or_else(snapshot_too_old)?;
        match read(transaction) {
            Ok(result) => Ok((time, result)),
            Err(error) => {
                let ended = self.table().by_time.remove(&time);
                drop(ended);
                // A cursor of the state can have failed before.
                match error.code() {
                    code::NO_SUCH_TRANSACTION => Err(snapshot_too_old()),
                    _ => Err(error),
                }
            }
        }
    }

    /// Returns the state with a time, if it is still readable.
    fn transaction(&self, time: Timestamp) -> Option<Arc<Transaction>> {
        let table = self.table();
        let known = table.by_time.get(&time);
        let known = known.filter(|known| known.begun.elapsed() <= SNAPSHOT_LIFETIME)?;
        Some(Arc::clone(&known.transaction))
    }

    /// Returns a time after the times of all earlier states.
    fn new_time(&self, database: &Database) -> Timestamp {
        let mut time = database.cluster_time();
        let mut table = self.table();
        if let Some(last) = table.last.filter(|last| *last >= time) {
            time = Timestamp {
                time: last.time,
                increment: last.increment.saturating_add(1),
            };
        }
        table.last = Some(time);
        time
    }

    fn insert(&self, time: Timestamp, snapshot: Snapshot) {
        let mut table = self.table();
        table.by_time.insert(time, snapshot);
        let oldest = match table.by_time.len() > MAX_SNAPSHOTS {
            true => table.by_time.pop_first(),
            false => None,
        };
        // The end of a transaction takes locks of the engine.
        drop(table);
        drop(oldest);
    }

    /// Forgets states that are too old.
    pub(crate) fn expire(&self, now: Instant) {
        let is_old =
            |snapshot: &Snapshot| now.saturating_duration_since(snapshot.begun) > SNAPSHOT_LIFETIME;
        let mut table = self.table();
        let by_time = mem::take(&mut table.by_time);
        let (old, readable) = by_time
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, snapshot)| is_old(snapshot));
        table.by_time = readable;
        drop(table);
        drop(old);
    }

    fn table(&self) -> MutexGuard<'_, SnapshotTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn snapshot_too_old() -> CommandError {
    let message = format!(
        "the snapshot is no longer readable: a snapshot ends after {} seconds, after an error of a read, and with the server; begin a new session",
        SNAPSHOT_LIFETIME.as_secs()
    );
    CommandError::new(code::SNAPSHOT_TOO_OLD, message)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use odm_engine::Count;

    use super::*;

    fn begin(snapshots: &Snapshots, database: &Database) -> Timestamp {
        let begun = snapshots.read(None, database, |_| Ok(()));
        begun.unwrap().0
    }

    fn count(snapshots: &Snapshots, database: &Database, time: Timestamp) -> Result<u64> {
        let count = |state: Arc<Transaction>| Ok(state.count("c", &Count::default())?);
        Ok(snapshots.read(Some(time), database, count)?.1)
    }

    #[test]
    fn each_state_has_its_own_time() {
        let (snapshots, database) = (Snapshots::default(), Database::memory());
        let first = begin(&snapshots, &database);
        let inserted = database.insert("c", vec![rawdoc! { "_id": 1 }]).unwrap();
        inserted.into_result().unwrap();
        let second = begin(&snapshots, &database);
        assert!(first < second);
        for (time, documents) in [(first, 0), (second, 1), (first, 0)] {
            assert_eq!(count(&snapshots, &database, time).unwrap(), documents);
        }
    }

    #[test]
    fn old_states_end() {
        let (snapshots, database) = (Snapshots::default(), Database::memory());
        let first = begin(&snapshots, &database);
        for _ in 0..MAX_SNAPSHOTS {
            begin(&snapshots, &database);
        }
        let error = count(&snapshots, &database, first).unwrap_err();
        assert_eq!(error.code(), code::SNAPSHOT_TOO_OLD);
        let last = begin(&snapshots, &database);
        snapshots.expire(Instant::now() + 2 * SNAPSHOT_LIFETIME);
        assert!(count(&snapshots, &database, last).is_err());
    }

    #[test]
    fn an_error_ends_the_state() {
        let (snapshots, database) = (Snapshots::default(), Database::memory());
        let invalid = Count {
            filter: rawdoc! { "$frob": 1 },
            ..Count::default()
        };
        let fail = |state: Arc<Transaction>| Ok(state.count("c", &invalid)?);
        assert!(snapshots.read(None, &database, fail).is_err());
        assert!(snapshots.table().by_time.is_empty());
        let time = begin(&snapshots, &database);
        let error = snapshots.read(Some(time), &database, fail).unwrap_err();
        assert_ne!(error.code(), code::SNAPSHOT_TOO_OLD);
        // The error of a cursor aborts the transaction too.
        let aborted = begin(&snapshots, &database);
        let state = snapshots.transaction(aborted).unwrap();
        assert!(state.count("c", &invalid).is_err());
        for time in [time, aborted, aborted] {
            let error = count(&snapshots, &database, time).unwrap_err();
            assert_eq!(error.code(), code::SNAPSHOT_TOO_OLD);
        }
    }
}
