use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBson, RawDocument, RawDocumentBuf};

use crate::catalog::Catalog;
use crate::command::{
    Aggregate, Delete, DeleteReport, Find, FindEach, InsertReport, Reading, Update, UpdateReport,
    aggregate, count, delete, distinct, find, find_each, insert, update,
};
use crate::commit::{Begun, Committer};
use crate::cursor::Cursor;
use crate::error::{Error, Result, code};
use crate::overlay::{Outcome, Overlay};
use crate::store::View;

/// Several writes that become visible and durable together.
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
/// use odm_engine::Database;
///
/// let database = Database::memory();
/// let transaction = database.begin()?;
/// transaction.insert("a", vec![rawdoc! { "_id": 1 }])?.all()?;
/// transaction.insert("b", vec![rawdoc! { "_id": 1 }])?.all()?;
/// transaction.commit()?;
/// assert_eq!(database.count("b", &rawdoc! {}, None)?, 1);
/// # Ok::<(), odm_engine::Error>(())
/// ```
pub struct Transaction {
    committer: Arc<Committer>,
    state: Mutex<State>,
}

enum State {
    Open(Box<Open>),
    Committed,
    Aborted,
}

struct Open {
    begun: Begun,
    /// The state that the transaction began with and its writes on top.
    view: View,
    catalog: Catalog,
    written: BTreeSet<String>,
}

impl Transaction {
    pub(crate) fn begin(committer: Arc<Committer>) -> Result<Transaction> {
        let begun = committer.begin()?;
        let open = Open {
            view: begun.state.view.layer(),
            catalog: begun.state.catalog.clone(),
            begun,
            written: BTreeSet::new(),
        };
        Ok(Transaction {
            committer,
            state: Mutex::new(State::Open(Box::new(open))),
        })
    }

    /// Inserts documents in their order.
    ///
    /// # Errors
    /// As [`Database::insert`](crate::Database::insert), write conflict, transaction over. A failure in
    /// the report has aborted the transaction, too.
    pub fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
        let report = self.write(|overlay| insert::run(overlay, collection, documents))?;
        if report.failure.is_some() {
            self.end_aborted();
        }
        Ok(report)
    }

    /// Finds documents. The cursor shows the state of the transaction at this moment, and can be read
    /// after its end.
    ///
    /// # Errors
    /// As [`Database::find`](crate::Database::find), transaction over.
    pub fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
        self.read(|reading| find::run(reading, collection, find))
    }

    /// Runs documents through a pipeline. The cursor shows the state of the transaction at this moment, and
    /// can be read after its end.
    ///
    /// # Errors
    /// As [`Database::aggregate`](crate::Database::aggregate), transaction over.
    pub fn aggregate(&self, collection: &str, aggregate: &Aggregate) -> Result<Cursor> {
        self.read(|reading| aggregate::run(reading, collection, aggregate))
    }

    /// Runs one query for each of several keys.
    ///
    /// # Errors
    /// As [`Database::find_each`](crate::Database::find_each), transaction over.
    pub fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.read(|reading| find_each::run(reading, collection, each))
    }

    /// Counts the documents that match, up to `limit`.
    ///
    /// # Errors
    /// As [`Database::count`](crate::Database::count), transaction over.
    pub fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64> {
        self.read(|reading| count::run(reading, collection, filter, limit))
    }

    /// The values at a dotted path of the documents that match, each once, in ascending order. Of an
    /// array, its elements count.
    ///
    /// # Errors
    /// As [`Database::distinct`](crate::Database::distinct), transaction over.
    pub fn distinct(
        &self,
        collection: &str,
        path: &str,
        filter: &RawDocument,
    ) -> Result<Vec<RawBson>> {
        self.read(|reading| distinct::run(reading, collection, path, filter))
    }

    /// Changes the first document that matches, or all of them.
    ///
    /// # Errors
    /// As [`Database::update`](crate::Database::update), write conflict, transaction over. A failure in
    /// the report has aborted the transaction, too.
    pub fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport> {
        let report = self.write(|overlay| update::run(overlay, collection, update))?;
        if report.failure.is_some() {
            self.end_aborted();
        }
        Ok(report)
    }

    /// Deletes the first document that matches, or all of them.
    ///
    /// # Errors
    /// As [`Database::delete`](crate::Database::delete), write conflict, transaction over.
    pub fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
        self.write(|overlay| delete::run(overlay, collection, delete))
    }

    /// Makes the writes durable and visible to all, and ends the transaction. Committing again does
    /// nothing.
    ///
    /// # Errors
    /// Write conflict: nothing has been written, run the transaction again. Transaction over, if it has
    /// been aborted. I/O.
    pub fn commit(&self) -> Result<()> {
        let open = {
            let mut state = self.state();
            match std::mem::replace(&mut *state, State::Aborted) {
                State::Open(open) => open,
                State::Committed => {
                    *state = State::Committed;
                    return Ok(());
                }
                State::Aborted => return Err(aborted()),
            }
        };
        let outcome = Outcome {
            changes: open.view.changes().clone(),
            written: open.written,
        };
        self.committer.commit(&open.begun, outcome)?;
        *self.state() = State::Committed;
        Ok(())
    }

    /// Forgets the writes and ends the transaction. Aborting again does nothing.
    ///
    /// # Errors
    /// Transaction over, if it has been committed.
    pub fn abort(&self) -> Result<()> {
        if matches!(*self.state(), State::Committed) {
            return Err(committed());
        }
        self.end_aborted();
        Ok(())
    }

    fn read<T>(&self, read: impl FnOnce(Reading<'_>) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        let open = state.open()?;
        let result = read(Reading {
            view: &open.view,
            catalog: &open.catalog,
        });
        if result.is_err() {
            state.abort(&self.committer);
        }
        result
    }

    fn write<T>(&self, write: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        let result = state.open()?.write(&self.committer, write);
        if result.is_err() {
            state.abort(&self.committer);
        }
        result
    }

    fn end_aborted(&self) {
        self.state().abort(&self.committer);
    }

    /// A method that panics has at most lost its own overlay.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn write<T>(
        &mut self,
        committer: &Committer,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
    ) -> Result<T> {
        let mut overlay = committer.overlay(&self.view, self.catalog.clone());
        let result = write(&mut overlay)?;
        let outcome = overlay.finish();
        committer.claim(&self.begun, &outcome.changes)?;
        self.view.apply(&outcome.changes);
        self.catalog.apply(&self.view, &outcome.changes)?;
        self.written.extend(outcome.written);
        Ok(result)
    }
}

impl State {
    fn open(&mut self) -> Result<&mut Open> {
        match self {
            State::Open(open) => Ok(open),
            State::Committed => Err(committed()),
            State::Aborted => Err(aborted()),
        }
    }

    fn abort(&mut self, committer: &Committer) {
        if let State::Open(open) = self {
            committer.abort(&open.begun);
            *self = State::Aborted;
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end_aborted();
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

fn committed() -> Error {
    Error::transaction_over(code::TRANSACTION_COMMITTED, "committed")
}

fn aborted() -> Error {
    Error::transaction_over(code::NO_SUCH_TRANSACTION, "aborted")
}
