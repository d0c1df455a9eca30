//! Logical sessions: transactions and retryable writes of clients.
//!
//! A session has the number of its last operation. A higher number begins a new transaction or a new write, and the same number
//! continues the transaction or repeats the write.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use odm_engine::{Database, Transaction};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::error::{CommandError, Result, code};

/// The minutes after which an unused session ends, as on MongoDB.
pub(crate) const SESSION_TIMEOUT_MINUTES: u64 = 30;

/// How long a client may leave a session unused, or a cursor with `noCursorTimeout`.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(SESSION_TIMEOUT_MINUTES * 60);

/// How long a transaction may stay open, as on MongoDB.
const TRANSACTION_LIFETIME: Duration = Duration::from_secs(60);

/// The maximum number of sessions. The longest unused session ends first.
const MAX_SESSIONS: usize = 10_000;

/// The maximum length of all stored replies of retryable writes, in bytes. The replies of the longest unused sessions go first.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// The id of a session, which its client has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

/// The sessions of a server.
#[derive(Default)]
pub(crate) struct Sessions {
    entries: Mutex<HashMap<SessionId, SessionEntry>>,
}

struct SessionEntry {
    state: Arc<AsyncMutex<SessionState>>,
    last_use: Instant,
}

/// The state of a session. An operation with a number locks the session until the operation ends.
pub(crate) struct SessionState {
    id: SessionId,
    number: i64,
    progress: Progress,
}

/// The progress of the last transaction or write.
enum Progress {
    Nothing,
    /// The write was not acknowledged, so a repetition runs it again.
    Write,
    /// The reply of the write, for a repetition.
    Written(RawDocumentBuf),
    Open {
        transaction: Arc<Transaction>,
        begun: Instant,
    },
    Committed,
    Aborted,
    /// The file system failed during the commit. A client that runs the transaction again could run it twice.
    Unknown,
}

/// A locked session.
pub(crate) type SessionGuard = OwnedMutexGuard<SessionState>;

impl Sessions {
    /// Locks a session, after the operations of the session that run now. Begins the session if it is new.
    pub(crate) async fn lock(&self, id: SessionId) -> SessionGuard {
        let state = {
            let mut entries = self.entries();
            if !entries.contains_key(&id) && entries.len() >= MAX_SESSIONS {
                end_unused(&mut entries);
            }
            let entry = entries.entry(id).or_insert_with(|| SessionEntry::new(id));
            entry.last_use = Instant::now();
            Arc::clone(&entry.state)
        };
        state.lock_owned().await
    }

    /// Keeps the reply of a write for a repetition. Ends other sessions with stored replies if the replies need too much memory.
    pub(crate) fn keep_reply(&self, session: &mut SessionState, reply: &RawDocumentBuf) {
        session.progress = Progress::Written(reply.clone());
        let mut entries = self.entries();
        // `session` is in use, and a session with an open transaction has no reply: both stay.
        let replies = entries
            .iter()
            .map(|(id, entry)| (entry.last_use, *id, entry.reply_bytes()));
        let mut replies: Vec<_> = replies.filter(|(_, _, bytes)| *bytes > 0).collect();
        let others: usize = replies.iter().map(|(_, _, bytes)| *bytes).sum();
        let mut total = reply.as_bytes().len() + others;
        if total <= MAX_REPLY_BYTES {
            return;
        }
        replies.sort_unstable_by_key(|(last_use, _, _)| *last_use);
        for (_, id, bytes) in replies {
            entries.remove(&id);
            total -= bytes;
            if total <= MAX_REPLY_BYTES {
                return;
            }
        }
    }

    /// Ends sessions on request of their client. An open transaction is aborted.
    pub(crate) fn end(&self, ids: &[SessionId]) {
        let mut entries = self.entries();
        for id in ids {
            entries.remove(id);
        }
    }

    /// Marks sessions as used.
    pub(crate) fn refresh(&self, ids: &[SessionId]) {
        let mut entries = self.entries();
        for id in ids {
            if let Some(entry) = entries.get_mut(id) {
                entry.last_use = Instant::now();
            }
        }
    }

    /// Returns the ids of all sessions, with the time since their last use.
    pub(crate) fn list(&self) -> Vec<(SessionId, Duration)> {
        let entries = self.entries();
        let sessions = entries.iter();
        sessions
            .map(|(id, entry)| (*id, entry.last_use.elapsed()))
            .collect()
    }

    /// Aborts transactions that are open for too long, and ends unused sessions. Returns the sessions of the aborted transactions.
    pub(crate) fn expire(&self, now: Instant) -> Vec<(SessionId, i64)> {
        let mut aborted = Vec::new();
        self.entries().retain(|_, entry| {
            // An operation in progress keeps its session.
            let Ok(mut state) = entry.state.try_lock() else {
                return true;
            };
            if let Progress::Open { begun, .. } = state.progress
                && now.saturating_duration_since(begun) > TRANSACTION_LIFETIME
            {
                aborted.push((state.id, state.number));
                state.abort_open();
            }
            let unused = now.saturating_duration_since(entry.last_use);
            unused < SESSION_TIMEOUT
        });
        aborted
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, SessionEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the longest unused session.
fn end_unused(entries: &mut HashMap<SessionId, SessionEntry>) {
    let unused = entries.iter().filter(|(_, entry)| !entry.is_in_use());
    let oldest = unused.min_by_key(|(_, entry)| entry.last_use);
    if let Some(id) = oldest.map(|(id, _)| *id) {
        entries.remove(&id);
    }
}

impl SessionEntry {
    fn new(id: SessionId) -> SessionEntry {
        SessionEntry {
            state: Arc::new(AsyncMutex::new(SessionState {
                id,
                number: -1,
                progress: Progress::Nothing,
            })),
            last_use: Instant::now(),
        }
    }

    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.state) > 1 || self.state.try_lock().is_err()
    }

    /// Returns the length of the stored reply, or 0 if an operation uses the session.
    fn reply_bytes(&self) -> usize {
        if Arc::strong_count(&self.state) > 1 {
            return 0;
        }
        match self.state.try_lock().as_deref() {
            Ok(SessionState {
                progress: Progress::Written(reply),
                ..
            }) => reply.as_bytes().len(),
            _ => 0,
        }
    }
}

impl SessionState {
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Begins a retryable write. Returns the reply of the write if it is a repetition.
    ///
    /// # Errors
    /// A later operation of the session has begun.
    pub(crate) fn begin_write(&mut self, number: i64) -> Result<Option<RawDocumentBuf>> {
        self.check_number(number)?;
        if number == self.number {
            return match &self.progress {
                Progress::Written(reply) => Ok(Some(reply.clone())),
                Progress::Nothing | Progress::Write => Ok(None),
                Progress::Open { .. }
                | Progress::Committed
                | Progress::Aborted
                | Progress::Unknown => {
                    let message = format!("the number {number} belongs to a transaction");
                    Err(CommandError::new(code::TRANSACTION_TOO_OLD, message))
                }
            };
        }
        self.abort_open();
        self.number = number;
        self.progress = Progress::Write;
        Ok(None)
    }

    /// Begins a transaction. An open transaction of the session with a lower number is aborted.
    ///
    /// # Errors
    /// A transaction with this number or a later operation has begun; errors of the engine.
    pub(crate) fn begin(&mut self, number: i64, database: &Database) -> Result<Arc<Transaction>> {
        self.check_number(number)?;
        if number == self.number {
            let message = format!("the transaction {number} has already begun");
            return Err(CommandError::new(
                code::CONFLICTING_OPERATION_IN_PROGRESS,
                message,
            ));
        }
        self.abort_open();
        self.number = number;
        self.progress = Progress::Aborted;
        let transaction = Arc::new(database.begin()?);
        self.progress = Progress::Open {
            transaction: Arc::clone(&transaction),
            begun: Instant::now(),
        };
        Ok(transaction)
    }

    /// Returns the open transaction with this number.
    ///
    /// # Errors
    /// The transaction is not open.
    pub(crate) fn transaction(&self, number: i64) -> Result<Arc<Transaction>> {
        self.check_number(number)?;
        match &self.progress {
            Progress::Open { transaction, .. } if number == self.number => {
                Ok(Arc::clone(transaction))
            }
            Progress::Committed if number == self.number => Err(CommandError::new(
                code::TRANSACTION_COMMITTED,
                format!("the transaction {number} has been committed"),
            )),
            Progress::Unknown if number == self.number => Err(CommandError::new(
                code::INTERNAL_ERROR,
                format!(
                    "the outcome of the commit of transaction {number} is unknown, because the file system failed; read the documents"
                ),
            )),
            Progress::Aborted if number == self.number => Err(CommandError::no_such_transaction(
                format!("Transaction with {{ txnNumber: {number} }} has been aborted."),
            )),
            _ => Err(CommandError::no_such_transaction(format!(
                "Given transaction number {number} does not match any in-progress transactions."
            ))),
        }
    }

    /// Commits the transaction with this number. A repetition does nothing.
    ///
    /// # Errors
    /// The transaction is not open; a write conflict; errors of the engine.
    pub(crate) fn commit(&mut self, number: i64) -> Result<()> {
        if number == self.number && matches!(self.progress, Progress::Committed) {
            return Ok(());
        }
        let transaction = self.transaction(number)?;
        let committed = transaction.commit();
        self.progress = match &committed {
            Ok(()) => Progress::Committed,
            Err(error) if error.is_io() || error.is_storage_full() => Progress::Unknown,
            Err(_) => Progress::Aborted,
        };
        Ok(committed?)
    }

    /// Aborts the transaction with this number.
    ///
    /// # Errors
    /// The transaction is not open.
    pub(crate) fn abort(&mut self, number: i64) -> Result<()> {
        self.transaction(number)?;
        self.abort_open();
        Ok(())
    }

    /// Aborts the open transaction, if there is one.
    pub(crate) fn abort_open(&mut self) {
        if let Progress::Open { transaction, .. } = &self.progress {
            // Only a committed transaction is an error, and an open transaction is not committed.
            let _ = transaction.abort();
            self.progress = Progress::Aborted;
        }
    }

    fn check_number(&self, number: i64) -> Result<()> {
        if number >= self.number {
            return Ok(());
        }
        let message = format!(
            "the session has begun the operation {}, which ends the operation {number}",
            self.number
        );
        Err(CommandError::new(code::TRANSACTION_TOO_OLD, message))
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.abort_open();
    }
}

impl fmt::Debug for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionState")
            .field("id", &self.id)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use odm_engine::Count;

    use super::*;

    const ID: SessionId = SessionId([1; 16]);

    #[tokio::test]
    async fn a_repeated_write_gets_its_first_reply() {
        let sessions = Sessions::default();
        let mut session = sessions.lock(ID).await;
        assert_eq!(session.begin_write(4).unwrap(), None);
        // Not acknowledged: the write runs again.
        assert_eq!(session.begin_write(4).unwrap(), None);
        let reply = rawdoc! { "n": 1 };
        sessions.keep_reply(&mut session, &reply);
        assert_eq!(session.begin_write(4).unwrap(), Some(reply));
        assert_eq!(session.begin_write(5).unwrap(), None);
        let error = session.begin_write(4).unwrap_err();
        assert_eq!(error.code(), code::TRANSACTION_TOO_OLD);
    }

    #[tokio::test]
    async fn a_transaction_ends_once() {
        let (sessions, database) = (Sessions::default(), Database::memory());
        let mut session = sessions.lock(ID).await;
        let code_of = |result: Result<()>| result.unwrap_err().code();
        assert_eq!(code_of(session.commit(0)), code::NO_SUCH_TRANSACTION);
        let transaction = session.begin(1, &database).unwrap();
        transaction
            .insert("c", vec![rawdoc! {}])
            .unwrap()
            .into_result()
            .unwrap();
        session.commit(1).unwrap();
        session.commit(1).unwrap();
        assert_eq!(code_of(session.abort(1)), code::TRANSACTION_COMMITTED);
        assert_eq!(database.count("c", &Count::default()).unwrap(), 1);
        session.begin(2, &database).unwrap();
        assert!(session.begin(2, &database).is_err());
        session.abort(2).unwrap();
        assert_eq!(code_of(session.commit(2)), code::NO_SUCH_TRANSACTION);
        let third = session.begin(3, &database).unwrap();
        // A higher number aborts the open transaction.
        session.begin_write(4).unwrap();
        assert!(third.commit().is_err());
    }

    #[tokio::test]
    async fn old_transactions_are_aborted_and_unused_sessions_end() {
        let (sessions, database) = (Sessions::default(), Database::memory());
        let transaction = sessions.lock(ID).await.begin(1, &database).unwrap();
        let later = Instant::now() + TRANSACTION_LIFETIME + Duration::from_secs(1);
        let locked = sessions.lock(ID).await;
        assert_eq!(sessions.expire(later), []);
        drop(locked);
        assert_eq!(sessions.expire(later), [(ID, 1)]);
        assert!(transaction.commit().is_err());
        sessions.expire(later + SESSION_TIMEOUT);
        assert!(sessions.entries().is_empty());
    }

    #[tokio::test]
    async fn stored_replies_of_others_do_not_end_an_open_transaction() {
        let (sessions, database) = (Sessions::default(), Database::memory());
        let reply = rawdoc! { "value": "x".repeat(1 << 20) };
        let mut session = sessions.lock(ID).await;
        session.begin_write(1).unwrap();
        sessions.keep_reply(&mut session, &reply);
        session.begin(2, &database).unwrap();
        drop(session);
        for number in 100..200_u8 {
            let mut session = sessions.lock(SessionId([number; 16])).await;
            session.begin_write(1).unwrap();
            sessions.keep_reply(&mut session, &reply);
        }
        assert!(sessions.entries().len() < 100);
        sessions.lock(ID).await.commit(2).unwrap();
    }

    #[tokio::test]
    async fn stored_replies_and_sessions_are_bounded() {
        let sessions = Sessions::default();
        let reply = rawdoc! { "value": "x".repeat(1 << 20) };
        for number in 0..100_u8 {
            let mut session = sessions.lock(SessionId([number; 16])).await;
            session.begin_write(1).unwrap();
            sessions.keep_reply(&mut session, &reply);
        }
        let kept: usize = sessions
            .entries()
            .values()
            .map(SessionEntry::reply_bytes)
            .sum();
        assert!(
            kept <= MAX_REPLY_BYTES && kept > MAX_REPLY_BYTES / 2,
            "{kept}"
        );
        for number in 0..MAX_SESSIONS + 10 {
            let mut id = [9; 16];
            id[..8].copy_from_slice(&(number as u64).to_le_bytes());
            drop(sessions.lock(SessionId(id)).await);
        }
        assert_eq!(sessions.entries().len(), MAX_SESSIONS);
    }
}
