use std::ops::Deref;
use std::sync::Arc;

use crate::commit::{Committer, Haste};
use crate::error::Result;
use crate::session::Session;

/// Several writes that become visible and durable together; reading and writing is that of a
/// [`Session`].
///
/// A transaction reads the state of the database at its beginning with its own writes on top. The first
/// to change a document wins: a transaction that comes second gets a [write
/// conflict](crate::Error::is_write_conflict), at the write or at the commit, and should be run again
/// from its beginning.
///
/// An error from any method but [`abort`](Transaction::abort) has aborted the transaction, as on
/// MongoDB; so does dropping it.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Count, Database};
///
/// let database = Database::memory();
/// let transaction = database.begin()?;
/// transaction.insert("a", vec![rawdoc! { "_id": 1 }])?.all()?;
/// transaction.insert("b", vec![rawdoc! { "_id": 1 }])?.all()?;
/// transaction.commit()?;
/// assert_eq!(database.count("b", &Count::default())?, 1);
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    session: Session,
}

impl Transaction {
    pub(crate) fn begin(committer: Arc<Committer>) -> Result<Transaction> {
        let session = Session::begin(committer)?;
        Ok(Transaction { session })
    }

    /// Makes the writes durable and visible to all, and ends the transaction. Committing again does
    /// nothing.
    ///
    /// # Errors
    /// Write conflict: nothing has been written, run the transaction again. Transaction over, if it has
    /// been aborted. I/O.
    pub fn commit(&self) -> Result<()> {
        self.session.commit(Haste::Now)
    }

    /// The same for what nobody is waiting for: while others write, it is made durable together with what one of them writes, and
    /// begins no commit of its own that they would have to wait for. It waits for that for five milliseconds at most.
    ///
    /// # Errors
    /// As [`commit`](Transaction::commit).
    pub fn commit_behind_others(&self) -> Result<()> {
        self.session.commit(Haste::BehindOthers)
    }

    /// Forgets the writes and ends the transaction. Aborting again does nothing.
    ///
    /// # Errors
    /// Transaction over, if it has been committed.
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
        // It fails if the transaction was committed, which stays.
        let _committed = self.session.abort();
    }
}
