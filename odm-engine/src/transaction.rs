use std::ops::Deref;
use std::sync::Arc;

use crate::commit::{CommitUrgency, Committer};
use crate::durability::Durability;
use crate::error::Result;
use crate::session::Session;

/// Several writes that become visible and durable together. The methods for reading and writing documents are those of
/// [`Session`].
///
/// A transaction reads the state of the database at its beginning, with its own writes on top. The first transaction to change a
/// document wins. A later transaction gets a [write conflict](crate::Error::is_write_conflict), at the write or at the commit,
/// and should be run again from its beginning.
///
/// As on MongoDB, an error of any method except [`abort`](Transaction::abort) aborts the transaction. Dropping the transaction
/// also aborts it.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Count, Database};
///
/// let database = Database::memory();
/// let transaction = database.begin()?;
/// transaction.insert("a", vec![rawdoc! { "_id": 1 }])?.into_result()?;
/// transaction.insert("b", vec![rawdoc! { "_id": 1 }])?.into_result()?;
/// transaction.commit()?;
/// assert_eq!(database.count("b", &Count::default())?, 1);
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    session: Session,
}

impl Transaction {
    pub(crate) fn begin(committer: Arc<Committer>, durability: Durability) -> Result<Transaction> {
        let session = Session::begin(committer, durability)?;
        Ok(Transaction { session })
    }

    /// Makes the writes durable and visible, and ends the transaction. Committing a committed transaction does nothing.
    ///
    /// # Errors
    /// Write conflict: no data has been written, run the transaction again. Transaction over, if the transaction was aborted.
    /// I/O.
    pub fn commit(&self) -> Result<()> {
        self.session.commit(CommitUrgency::Immediate)
    }

    /// Commits like [`commit`](Transaction::commit), but yields to other writers. Meant for background work that no caller waits
    /// for.
    ///
    /// As long as other threads write, the transaction becomes durable together with one of their commits. It does not start a
    /// commit that other threads would wait for. The call waits at most 5 milliseconds for a commit of another thread.
    ///
    /// # Errors
    /// See [`commit`](Transaction::commit).
    pub fn commit_low_priority(&self) -> Result<()> {
        self.session.commit(CommitUrgency::Deferred)
    }

    /// Drops the writes and ends the transaction. Aborting an aborted transaction does nothing.
    ///
    /// # Errors
    /// Transaction over, if the transaction was committed.
    pub fn abort(&self) -> Result<()> {
        self.session.abort()
    }
}

impl Deref for Transaction {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // An error means that the transaction was committed, and needs no abort.
        let _committed = self.session.abort();
    }
}
