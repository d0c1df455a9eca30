use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBson, RawDocument, RawDocumentBuf};

use crate::catalog::Catalog;
use crate::change::Event;
use crate::command::{
    Aggregate, BulkWrite, Count, Delete, DeleteReport, Explain, Find, FindAndModify,
    FindAndModifyReport, FindEach, InsertReport, Reading, Update, UpdateReport, Written, aggregate,
    bulk_write, collections, count, delete, distinct, explain, find, find_and_modify, find_each,
    insert, update,
};
use crate::commit::{Begun, Committer, Haste, State};
use crate::cursor::Cursor;
use crate::error::{Error, Result, code};
use crate::overlay::{Outcome, Overlay};
use crate::store::View;

/// What reads and writes documents: a [`Database`](crate::Database) and a
/// [`Transaction`](crate::Transaction) are both one, by deref.
///
/// Of a database, each method is a unit of its own: a read sees the last durable state, and a write
/// that returned is durable. Each write is atomic: after an error nothing has changed, but for those
/// that report how far they came.
///
/// Of a transaction, each method sees the state at its beginning with its own writes on top. Every
/// error, also one in a report, has aborted the transaction; any method can fail with a write conflict
/// if it writes, and because the transaction is over.
///
/// The changes of one write, and those of one transaction, are held in memory until they are committed. They can take
/// 512 MiB with the entries of indexes; what would take more is an error of kind
/// [`WriteTooLarge`](crate::ErrorKind::WriteTooLarge) and changes nothing. Every method ends when an
/// [`Interrupt`](crate::Interrupt) says so.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Database, Session, Update};
///
/// fn rename(session: &Session, from: &str, to: &str) -> odm_engine::Result<()> {
///     let update = Update {
///         filter: rawdoc! { "name": from },
///         update: rawdoc! { "$set": { "name": to } },
///         ..Update::default()
///     };
///     session.update("people", &update)?;
///     Ok(())
/// }
///
/// let database = Database::memory();
/// rename(&database, "Ada", "Augusta")?;
/// let transaction = database.begin()?;
/// rename(&transaction, "Augusta", "Ada")?;
/// transaction.commit()?;
/// # Ok::<(), odm_engine::Error>(())
/// ```
pub struct Session {
    committer: Arc<Committer>,
    /// Where it stands, if it is a transaction.
    transaction: Option<Arc<Mutex<Standing>>>,
}

/// Where a transaction stands.
enum Standing {
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
    events: Vec<Event>,
    /// How much memory the events take.
    event_bytes: usize,
}

impl Session {
    /// Finds documents. A collection that does not exist is empty.
    ///
    /// The cursor shows the state at this moment, and in a transaction can be read after its end. An
    /// error that it gives before that aborts the transaction.
    ///
    /// # Errors
    /// A filter, projection or sort that is not valid or not supported; a sort that needs too much
    /// memory; I/O.
    pub fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
        let cursor = self.read(|reading| find::run(reading, collection, find))?;
        Ok(self.aborting(cursor))
    }

    /// Runs a query and says how it found its documents.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn explain(&self, collection: &str, find: &Find) -> Result<Explain> {
        self.read(|reading| explain::run(reading, collection, find))
    }

    /// Runs documents through a pipeline. A collection that does not exist is empty.
    ///
    /// The cursor shows the state at this moment, and in a transaction can be read after its end. An
    /// error that it gives before that aborts the transaction.
    ///
    /// # Errors
    /// A pipeline that is not valid or not supported; documents that its expressions do not fit; a stage
    /// that needs too much memory; I/O.
    pub fn aggregate(&self, collection: &str, aggregate: &Aggregate) -> Result<Cursor> {
        let cursor = self.read(|reading| aggregate::run(reading, collection, aggregate))?;
        Ok(self.aborting(cursor))
    }

    /// Runs one query for each of several keys, all on one state of the database, and returns the
    /// documents of each key in the order of the keys.
    ///
    /// # Errors
    /// As [`find`](Session::find).
    pub fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.read(|reading| find_each::run(reading, collection, each))
    }

    /// Runs several queries, each on the collection beside it, all on one state of the database, and
    /// returns the documents of each.
    ///
    /// # Errors
    /// As [`find`](Session::find), of the first that fails.
    pub fn find_several(&self, finds: &[(String, Find)]) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.read(|reading| {
            let finds = finds.iter();
            let found = finds.map(|(name, find)| find::run(reading, name, find)?.collect());
            found.collect()
        })
    }

    /// Counts the documents that match.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; I/O.
    pub fn count(&self, collection: &str, count: &Count) -> Result<u64> {
        self.read(|reading| count::run(reading, collection, count))
    }

    /// The values at a dotted path of the documents that match, each once, in ascending order. Of an
    /// array, its elements count.
    ///
    /// # Errors
    /// As [`count`](Session::count).
    pub fn distinct(
        &self,
        collection: &str,
        path: &str,
        filter: &RawDocument,
    ) -> Result<Vec<RawBson>> {
        self.read(|reading| distinct::run(reading, collection, path, filter))
    }

    /// Inserts documents in their order, in one durable commit.
    ///
    /// A document without an `_id` gets an ObjectId. The first document that cannot be inserted ends
    /// the insertion; those before it are kept, and the report says both.
    ///
    /// # Errors
    /// An invalid name of a collection, I/O. Nothing has been inserted then.
    pub fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
        let report = self.write(|overlay| insert::run(overlay, collection, documents, true))?;
        self.abort_if(!report.failures.is_empty());
        Ok(report)
    }

    /// Inserts every document that can be inserted, in one durable commit, and reports the others.
    ///
    /// In a transaction the first failure ends the insertion, because it ends the transaction.
    ///
    /// ```
    /// use bson::rawdoc;
    ///
    /// let database = odm_engine::Database::memory();
    /// let ids = [1, 1, 2].map(|id| rawdoc! { "_id": id }).to_vec();
    /// let report = database.insert_unordered("people", ids)?;
    /// assert_eq!(report.inserted, 2);
    /// assert_eq!(report.failures[0].position, 1);
    /// assert!(report.failures[0].error.is_duplicate_key());
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Session::insert).
    pub fn insert_unordered(
        &self,
        collection: &str,
        documents: Vec<RawDocumentBuf>,
    ) -> Result<InsertReport> {
        let ordered = self.transaction.is_some();
        let report = self.write(|overlay| insert::run(overlay, collection, documents, ordered))?;
        self.abort_if(!report.failures.is_empty());
        Ok(report)
    }

    /// Changes the first document that matches, or all of them, in one durable commit.
    ///
    /// The first document that cannot be changed ends the update; those before it stay changed, and the
    /// report says both.
    ///
    /// # Errors
    /// A filter or an update that is not valid, not supported or does not fit a document; duplicate
    /// key; I/O. No document has changed then.
    pub fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport> {
        let report = self.write(|overlay| update::run(overlay, collection, update))?;
        self.abort_if(report.failure.is_some());
        Ok(report)
    }

    /// Deletes the first document that matches, or all of them.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; I/O. No document has been deleted then.
    pub fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
        self.write(|overlay| delete::run(overlay, collection, delete))
    }

    /// Changes, replaces or deletes the first document that matches, and returns it as it was before
    /// or as it is now.
    ///
    /// # Errors
    /// As [`update`](Session::update); a projection or a sort that is not valid or not supported.
    pub fn find_and_modify(
        &self,
        collection: &str,
        find_and_modify: &FindAndModify,
    ) -> Result<FindAndModifyReport> {
        self.write(|overlay| find_and_modify::run(overlay, collection, find_and_modify))
    }

    /// Carries out several writes, to one collection or to several, in one durable commit, and reports what became of each.
    ///
    /// In order, the first that fails ends them, and the report ends with it; else all are carried out that can be. In a
    /// transaction they go in order.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{BulkWrite, Delete, Write};
    ///
    /// let database = odm_engine::Database::memory();
    /// let on_people = |write| BulkWrite {
    ///     collection: "people".into(),
    ///     write,
    ///     stops_if_unmatched: false,
    /// };
    /// let writes = [
    ///     on_people(Write::Insert(rawdoc! { "_id": 1 })),
    ///     on_people(Write::Insert(rawdoc! { "_id": 1 })),
    ///     on_people(Write::Delete(Delete { filter: rawdoc! { "_id": 1 }, ..Delete::default() })),
    /// ];
    /// let report = database.bulk_write(&writes, false)?;
    /// assert!(report[1].as_ref().is_err_and(|error| error.is_duplicate_key()));
    /// assert!(report[2].is_ok());
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O. Nothing has been written then.
    pub fn bulk_write(&self, writes: &[BulkWrite], ordered: bool) -> Result<Vec<Result<Written>>> {
        let ordered = ordered || self.transaction.is_some();
        let report = self.write(|overlay| bulk_write::run(overlay, writes, ordered))?;
        self.abort_if(report.iter().any(Result::is_err));
        Ok(report)
    }

    /// Creates a collection without documents. Inserting a document creates one too.
    ///
    /// # Errors
    /// There is one with this name; an invalid name; I/O.
    pub fn create_collection(&self, name: &str) -> Result<()> {
        self.write(|overlay| collections::create(overlay, name))
    }
}

impl Session {
    /// The database itself.
    pub(crate) fn direct(committer: Arc<Committer>) -> Session {
        Session {
            committer,
            transaction: None,
        }
    }

    /// A transaction that sees the last durable state.
    pub(crate) fn begin(committer: Arc<Committer>) -> Result<Session> {
        let begun = committer.begin()?;
        let open = Open {
            view: begun.state.view.layer(),
            catalog: begun.state.catalog.clone(),
            begun,
            written: BTreeSet::new(),
            events: Vec::new(),
            event_bytes: 0,
        };
        Ok(Session {
            committer,
            transaction: Some(Arc::new(Mutex::new(Standing::Open(Box::new(open))))),
        })
    }

    pub(crate) fn committer(&self) -> &Arc<Committer> {
        &self.committer
    }

    /// Runs a read on the state that the session sees.
    pub(crate) fn read<T>(&self, read: impl FnOnce(Reading<'_>) -> Result<T>) -> Result<T> {
        self.committer.check_open()?;
        let Some(mut standing) = self.standing() else {
            return read(self.committer.state().reading());
        };
        let result = standing.open().and_then(|open| {
            read(Reading {
                view: &open.view,
                catalog: &open.catalog,
            })
        });
        if result.as_ref().is_err_and(ends_transaction) {
            standing.abort(&self.committer);
        }
        result
    }

    /// Runs a write on top of the state that the session sees.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let Some(mut standing) = self.standing() else {
            return self.committer.write(write);
        };
        let result = standing
            .open()
            .and_then(|open| open.write(&self.committer, write));
        if result.is_err() {
            standing.abort(&self.committer);
        }
        result
    }

    /// See [`Transaction::commit`](crate::Transaction::commit), and the same
    /// [behind others](crate::Transaction::commit_behind_others).
    pub(crate) fn commit(&self, haste: Haste) -> Result<()> {
        let Some(mut standing) = self.standing() else {
            return Ok(());
        };
        let open = match std::mem::replace(&mut *standing, Standing::Aborted) {
            Standing::Open(open) => open,
            Standing::Committed => {
                *standing = Standing::Committed;
                return Ok(());
            }
            Standing::Aborted => return Err(aborted()),
        };
        drop(standing);
        let outcome = Outcome {
            changes: open.view.changes().clone(),
            written: open.written,
            events: open.events,
            event_bytes: open.event_bytes,
        };
        self.committer.commit(&open.begun, outcome, haste)?;
        if let Some(mut standing) = self.standing() {
            *standing = Standing::Committed;
        }
        Ok(())
    }

    /// See [`Transaction::abort`](crate::Transaction::abort).
    pub(crate) fn abort(&self) -> Result<()> {
        let Some(mut standing) = self.standing() else {
            return Ok(());
        };
        if matches!(*standing, Standing::Committed) {
            return Err(committed());
        }
        standing.abort(&self.committer);
        Ok(())
    }

    /// Ends a transaction whose operation has failed in part.
    fn abort_if(&self, failed: bool) {
        if failed && let Some(mut standing) = self.standing() {
            standing.abort(&self.committer);
        }
    }

    /// A cursor whose errors end the transaction, as those of any other method do.
    fn aborting(&self, cursor: Cursor) -> Cursor {
        let Some(transaction) = &self.transaction else {
            return cursor;
        };
        let (transaction, committer) = (Arc::downgrade(transaction), Arc::clone(&self.committer));
        Cursor::new(cursor.inspect(move |document| {
            if document.as_ref().is_err_and(ends_transaction)
                && let Some(transaction) = transaction.upgrade()
            {
                locked(&transaction).abort(&committer);
            }
        }))
    }

    fn standing(&self) -> Option<MutexGuard<'_, Standing>> {
        self.transaction.as_deref().map(locked)
    }
}

impl Open {
    fn write<T>(
        &mut self,
        committer: &Arc<Committer>,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
    ) -> Result<T> {
        let log = &self.begun.state.log;
        let overlay = committer.overlay(&self.view, self.catalog.clone(), log);
        let overlay = overlay.contending(committer.contend(&self.begun));
        let mut overlay = overlay.beside(self.view.change_bytes() + self.event_bytes);
        let result = write(&mut overlay)?;
        let outcome = overlay.finish();
        committer.claim(&self.begun, &outcome.changes)?;
        self.view.apply(&outcome.changes);
        self.catalog.apply(&self.view, &outcome.changes)?;
        self.written.extend(outcome.written);
        self.events.extend(outcome.events);
        self.event_bytes += outcome.event_bytes;
        Ok(result)
    }
}

impl Standing {
    fn open(&mut self) -> Result<&mut Open> {
        match self {
            Standing::Open(open) => Ok(open),
            Standing::Committed => Err(committed()),
            Standing::Aborted => Err(aborted()),
        }
    }

    fn abort(&mut self, committer: &Committer) {
        if let Standing::Open(open) = self {
            committer.abort(&open.begun);
            *self = Standing::Aborted;
        }
    }
}

impl State {
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading {
            view: &self.view,
            catalog: &self.catalog,
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Whether an error of a read ends a transaction. One that its caller has cancelled has shown nothing.
fn ends_transaction(error: &Error) -> bool {
    !error.is_cancelled()
}

/// A method that panics has at most lost its own overlay.
fn locked(transaction: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    transaction.lock().unwrap_or_else(PoisonError::into_inner)
}

fn committed() -> Error {
    Error::transaction_over(code::TRANSACTION_COMMITTED, "committed")
}

fn aborted() -> Error {
    Error::transaction_over(code::NO_SUCH_TRANSACTION, "aborted")
}
