//! Snapshot reads: several reads of one state, outside of a transaction. The client names the state by a time, which the reply of the
//! first read has.

use std::collections::BTreeMap;
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
    /// Returns the state with a time, or the current state with a new time.
    ///
    /// # Errors
    /// The state is no longer readable; errors of the engine.
    pub(crate) fn open(
        &self,
        at: Option<Timestamp>,
        database: &Database,
    ) -> Result<(Timestamp, Arc<Transaction>)> {
        let mut table = self.table();
        if let Some(time) = at {
            let known = table.by_time.get(&time);
            let known = known.filter(|known| known.begun.elapsed() <= SNAPSHOT_LIFETIME);
            let transaction = known.map(|known| Arc::clone(&known.transaction));
            return Ok((time, transaction.ok_or_else(snapshot_too_old)?));
        }
        let transaction = Arc::new(database.begin()?);
        let mut time = database.cluster_time();
        if let Some(last) = table.last.filter(|last| *last >= time) {
            time = Timestamp {
                time: last.time,
                increment: last.increment.saturating_add(1),
            };
        }
        table.last = Some(time);
        let snapshot = Snapshot {
            transaction: Arc::clone(&transaction),
            begun: Instant::now(),
        };
        table.by_time.insert(time, snapshot);
        if table.by_time.len() > MAX_SNAPSHOTS {
            table.by_time.pop_first();
        }
        Ok((time, transaction))
    }

    /// Forgets states that are too old.
    pub(crate) fn expire(&self, now: Instant) {
        self.table().by_time.retain(|_, snapshot| {
            now.saturating_duration_since(snapshot.begun) <= SNAPSHOT_LIFETIME
        });
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

    #[test]
    fn each_state_has_its_own_time() {
        let (snapshots, database) = (Snapshots::default(), Database::memory());
        let (first, _) = snapshots.open(None, &database).unwrap();
        let inserted = database.insert("c", vec![rawdoc! { "_id": 1 }]).unwrap();
        inserted.into_result().unwrap();
        let (second, _) = snapshots.open(None, &database).unwrap();
        assert!(first < second);
        for (time, documents) in [(first, 0), (second, 1), (first, 0)] {
            let (_, state) = snapshots.open(Some(time), &database).unwrap();
            assert_eq!(state.count("c", &Count::default()).unwrap(), documents);
        }
    }

    #[test]
    fn old_states_end() {
        let (snapshots, database) = (Snapshots::default(), Database::memory());
        let (first, _) = snapshots.open(None, &database).unwrap();
        for _ in 0..MAX_SNAPSHOTS {
            snapshots.open(None, &database).unwrap();
        }
        let error = snapshots.open(Some(first), &database).unwrap_err();
        assert_eq!(error.code(), code::SNAPSHOT_TOO_OLD);
        let (last, _) = snapshots.open(None, &database).unwrap();
        snapshots.expire(Instant::now() + 2 * SNAPSHOT_LIFETIME);
        assert!(snapshots.open(Some(last), &database).is_err());
    }
}
