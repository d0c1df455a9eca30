use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBson, RawDocument, RawDocumentBuf};

use crate::brief;
use crate::catalog::Catalog;
use crate::change::ChangeEvent;
use crate::command::{
    Aggregate, CollectionWrite, Count, Delete, DeleteReport, Distinct, Explain, Find,
    FindAndModify, FindAndModifyReport, FindEach, InsertReport, ReadState, Update, UpdateReport,
    WriteReport, aggregate, bulk_write, collections, count, delete, distinct, explain, find,
    find_and_modify, find_each, insert, update,
};
use crate::commit::{
    CommitOptions, CommitUrgency, Committer, DatabaseState, LogState, TransactionId,
};
use crate::cursor::Cursor;
use crate::durability::Durability;
use crate::error::{Error, Result, code};
use crate::overlay::{OverlayOutcome, WriteOverlay};
use crate::store::StoreView;

/// Operations on documents. A [`Database`](crate::Database) and a [`Transaction`](crate::Transaction) both dereference to a
/// session.
///
/// On a database, each call stands alone: a read sees the last committed state, and a write is committed with the
/// [durability](crate::Durability) of the handle when the call returns. Each write is atomic. After an error no data has changed. An insert of several documents and a bulk write report which writes were applied.
///
/// A write that takes long does not stop concurrent writes: it runs like a transaction, and runs again if another write changes the
/// same documents.
///
/// In a transaction, each call sees the state at the beginning of the transaction, with the transaction's own writes on top.
/// Every error aborts the transaction, even an error inside of a report. Any method can fail because the transaction is over, and
/// any write can fail with a write conflict.
///
/// The changes of one write or transaction are held in memory until the commit. With index entries they can take up to 512 MiB. A
/// larger write is an error of kind [`WriteTooLarge`](crate::ErrorKind::WriteTooLarge) and changes no data. An
/// [`Interrupt`](crate::Interrupt) can end every method.
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
    durability: Durability,
    /// The state of the transaction; `None` for a database.
    transaction: Option<Arc<Mutex<TransactionState>>>,
}

/// The state of a transaction.
enum TransactionState {
    Open(Box<ActiveTransaction>),
    Committed,
    Aborted,
}

struct ActiveTransaction {
    id: TransactionId,
    /// The change log at the beginning of the transaction.
    log: LogState,
    /// The state at the beginning of the transaction, with the transaction's writes on top.
    view: StoreView,
    catalog: Catalog,
    written: BTreeSet<String>,
    events: Vec<ChangeEvent>,
    /// The memory of the events, in bytes.
    event_bytes: usize,
}

impl Session {
    /// Finds documents. A collection that does not exist is empty.
    ///
    /// The cursor shows the current state. In a transaction, the cursor stays readable after the transaction ends. An error of
    /// the cursor before that aborts the transaction.
    ///
    /// # Errors
    /// A filter, projection or sort that is not valid or not supported; a sort that needs too much memory; I/O.
    pub fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
        let cursor = self.read(|reading| find::run_find(reading, collection, find))?;
        Ok(self.abort_on_error(cursor))
    }

    /// Runs a query and reports how the query found its documents.
    ///
    /// # Errors
    /// See [`find`](Self::find).
    pub fn explain(&self, collection: &str, find: &Find) -> Result<Explain> {
        self.read(|reading| explain::run_explain(reading, collection, find))
    }

    /// Runs an aggregation pipeline. A collection that does not exist is empty.
    ///
    /// A pipeline that ends with `$out` or `$merge` writes its documents into a collection, and returns an empty cursor. `$out`
    /// replaces the content of the collection and keeps its indexes. Both stages are one durable, atomic write: after an error,
    /// nothing has changed. They see the state before the write. A transaction cannot have them.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Aggregate, Database, Find};
    ///
    /// let database = Database::memory();
    /// let orders = [("Ada", 3), ("Bob", 4), ("Ada", 5)];
    /// let orders = orders.map(|(buyer, total)| rawdoc! { "buyer": buyer, "total": total });
    /// database.insert("orders", orders.to_vec())?.into_result()?;
    /// let pipeline = vec![
    ///     rawdoc! { "$group": { "_id": "$buyer", "spent": { "$sum": "$total" } } },
    ///     rawdoc! { "$merge": { "into": "buyers", "whenMatched": "replace" } },
    /// ];
    /// database.aggregate("orders", &Aggregate { pipeline, ..Aggregate::default() })?;
    /// let ada = Find { filter: rawdoc! { "_id": "Ada" }, ..Find::default() };
    /// let found: Vec<_> = database.find("buyers", &ada)?.collect::<Result<_, _>>()?;
    /// assert_eq!(found, [rawdoc! { "_id": "Ada", "spent": 8 }]);
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// The cursor shows the current state. In a transaction, the cursor stays readable after the transaction ends. An error of
    /// the cursor before that aborts the transaction.
    ///
    /// # Errors
    /// A pipeline that is not valid or not supported; documents that do not fit its expressions; a stage that needs too much
    /// memory; I/O. With `$out` or `$merge` also the errors of a write.
    pub fn aggregate(&self, collection: &str, aggregate: &Aggregate) -> Result<Cursor> {
        if aggregate.is_write() {
            self.run_output(collection, aggregate)?;
            return Ok(Cursor::new(std::iter::empty()));
        }
        let cursor =
            self.read(|reading| aggregate::run_aggregate(reading, collection, aggregate))?;
        Ok(self.abort_on_error(cursor))
    }

    /// Runs one query for each of several keys, all on the same state of the database. Returns the documents of each key in the
    /// order of the keys.
    ///
    /// # Errors
    /// See [`find`](Session::find).
    pub fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.read(|reading| find_each::run_find_each(reading, collection, each))
    }

    /// Runs several queries, each on its own collection, all on the same state of the database. Returns the documents of each
    /// query.
    ///
    /// # Errors
    /// See [`find`](Session::find). The first error is returned.
    pub fn find_several(&self, finds: &[(String, Find)]) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.read(|reading| {
            let finds = finds.iter();
            let results = finds.map(|(name, find)| find::run_find(reading, name, find)?.collect());
            results.collect()
        })
    }

    /// Counts the matching documents.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; I/O.
    pub fn count(&self, collection: &str, count: &Count) -> Result<u64> {
        self.read(|reading| count::run_count(reading, collection, count))
    }

    /// Returns the distinct values at a dotted path of the matching documents, in ascending order. An array contributes its
    /// elements.
    ///
    /// # Errors
    /// See [`count`](Session::count).
    pub fn distinct(
        &self,
        collection: &str,
        path: &str,
        filter: &RawDocument,
    ) -> Result<Vec<RawBson>> {
        let distinct = Distinct {
            path: path.to_owned(),
            filter: filter.to_owned(),
            collation: None,
        };
        self.distinct_values(collection, &distinct)
    }

    /// Returns distinct values as [`distinct`](Session::distinct) does, also with a collation.
    ///
    /// ```
    /// # #[cfg(feature = "collation")] {
    /// use bson::rawdoc;
    /// use odm_engine::{Collation, Database, Distinct};
    ///
    /// let database = Database::memory();
    /// let cities = ["Oslo", "Bergen", "OSLO"].map(|city| rawdoc! { "city": city });
    /// database.insert("people", cities.to_vec())?.into_result()?;
    /// let distinct = Distinct {
    ///     path: "city".into(),
    ///     collation: Collation::from_document(&rawdoc! { "locale": "nb", "strength": 2 })?,
    ///     ..Distinct::default()
    /// };
    /// assert_eq!(database.distinct_values("people", &distinct)?, ["Bergen".into(), "Oslo".into()]);
    /// # }
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`count`](Session::count).
    pub fn distinct_values(&self, collection: &str, distinct: &Distinct) -> Result<Vec<RawBson>> {
        self.read(|reading| distinct::run_distinct(reading, collection, distinct))
    }

    /// Inserts documents in order, in one durable commit.
    ///
    /// A document without an `_id` gets an ObjectId. The first failure ends the insertion. Documents inserted before the failure
    /// are kept. The report has both the number of inserted documents and the failure.
    ///
    /// # Errors
    /// An invalid collection name, I/O. No document has been inserted then.
    pub fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
        let report = self.insert_all(collection, &documents, true)?;
        self.abort_if(!report.failures.is_empty());
        Ok(report)
    }

    /// Inserts every document that can be inserted, in one durable commit, and reports the failures.
    ///
    /// In a transaction, the first failure ends the insertion because it ends the transaction.
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
    /// See [`insert`](Session::insert).
    pub fn insert_unordered(
        &self,
        collection: &str,
        documents: Vec<RawDocumentBuf>,
    ) -> Result<InsertReport> {
        let ordered = self.transaction.is_some();
        let report = self.insert_all(collection, &documents, ordered)?;
        self.abort_if(!report.failures.is_empty());
        Ok(report)
    }

    /// Updates the first matching document, or all of them, in one durable commit.
    ///
    /// The first failure ends the update. Documents updated before the failure stay changed. The report has both the number of
    /// updated documents and the failure.
    ///
    /// # Errors
    /// A filter or an update that is not valid, not supported or does not fit a document; duplicate key; I/O. No document has
    /// changed then.
    pub fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport> {
        let report = self.write_one_or_many(update.multi, |overlay| {
            update::run_update(overlay, collection, update)
        })?;
        self.abort_if(report.failure.is_some());
        Ok(report)
    }

    /// Deletes the first matching document, or all of them.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; I/O. No document has been deleted then.
    pub fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
        self.write_one_or_many(delete.multi, |overlay| {
            delete::run_delete(overlay, collection, delete)
        })
    }

    /// Updates, replaces or deletes the first matching document. Returns the document before or after the change.
    ///
    /// # Errors
    /// See [`update`](Session::update); also a projection or a sort that is not valid or not supported.
    pub fn find_and_modify(
        &self,
        collection: &str,
        find_and_modify: &FindAndModify,
    ) -> Result<FindAndModifyReport> {
        self.write(|overlay| {
            find_and_modify::run_find_and_modify(overlay, collection, find_and_modify)
        })
    }

    /// Runs several writes on one or more collections, in one durable commit, and reports the outcome of each write.
    ///
    /// An ordered bulk write ends at the first failure, which is the last entry of the report. An unordered bulk write runs every
    /// write. In a transaction a bulk write is always ordered.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{CollectionWrite, Delete, WriteOperation};
    ///
    /// let database = odm_engine::Database::memory();
    /// let on_people = |write| CollectionWrite {
    ///     collection: "people".into(),
    ///     write,
    ///     stop_if_unmatched: false,
    /// };
    /// let writes = [
    ///     on_people(WriteOperation::Insert(rawdoc! { "_id": 1 })),
    ///     on_people(WriteOperation::Insert(rawdoc! { "_id": 1 })),
    ///     on_people(WriteOperation::Delete(Delete { filter: rawdoc! { "_id": 1 }, ..Delete::default() })),
    /// ];
    /// let report = database.bulk_write(&writes, false)?;
    /// assert!(report[1].as_ref().is_err_and(|error| error.is_duplicate_key()));
    /// assert!(report[2].is_ok());
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O. No data has been written then.
    pub fn bulk_write(
        &self,
        writes: &[CollectionWrite],
        ordered: bool,
    ) -> Result<Vec<Result<WriteReport>>> {
        let ordered = ordered || self.transaction.is_some();
        let report = self.write_one_or_many(writes.len() > 1, |overlay| {
            bulk_write::run_bulk_write(overlay, writes, ordered)
        })?;
        self.abort_if(report.iter().any(Result::is_err));
        Ok(report)
    }

    /// Creates an empty collection. Inserting a document also creates its collection.
    ///
    /// # Errors
    /// The collection exists; an invalid name; I/O.
    pub fn create_collection(&self, name: &str) -> Result<()> {
        self.write(|overlay| collections::create(overlay, name))
    }
}

impl Session {
    /// Returns the session of a database.
    pub(crate) fn on_database(committer: Arc<Committer>, durability: Durability) -> Session {
        Session {
            committer,
            durability,
            transaction: None,
        }
    }

    /// Returns the session of a new transaction, which sees the last durable state.
    pub(crate) fn begin(committer: Arc<Committer>, durability: Durability) -> Result<Session> {
        let transaction = committer.begin()?;
        let open = ActiveTransaction {
            view: transaction.state.view.new_layer(),
            catalog: transaction.state.catalog.clone(),
            log: transaction.state.log.clone(),
            id: transaction.id,
            written: BTreeSet::new(),
            events: Vec::new(),
            event_bytes: 0,
        };
        Ok(Session {
            committer,
            durability,
            transaction: Some(Arc::new(Mutex::new(TransactionState::Open(Box::new(open))))),
        })
    }

    pub(crate) fn committer(&self) -> &Arc<Committer> {
        &self.committer
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Runs a read on the state that the session sees.
    pub(crate) fn read<T>(&self, read: impl FnOnce(ReadState<'_>) -> Result<T>) -> Result<T> {
        self.committer.check_open()?;
        let Some(mut state) = self.lock_transaction_for_operation()? else {
            return read(self.committer.state().read_state());
        };
        let result = state.require_open().and_then(|open| {
            read(ReadState {
                view: &open.view,
                catalog: &open.catalog,
            })
        });
        if result.as_ref().is_err_and(ends_transaction) {
            state.abort(&self.committer);
        }
        result
    }

    /// Runs a write on top of the state that the session sees. May call `write` several times, and keeps the changes of the last call.
    pub(crate) fn write<T>(&self, write: impl Fn(&mut WriteOverlay) -> Result<T>) -> Result<T> {
        self.write_one_or_many(false, write)
    }

    /// As [`write`](Self::write), for a write that may change many documents.
    fn write_one_or_many<T>(
        &self,
        is_many: bool,
        write: impl Fn(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        let Some(mut state) = self.lock_transaction_for_operation()? else {
            return match is_many {
                true => self.committer.write_many(self.durability, write),
                false => self.committer.write(self.durability, write),
            };
        };
        let result = state
            .require_open()
            .and_then(|open| open.write(&self.committer, write));
        if result.as_ref().is_err_and(|error| !error.is_would_block()) {
            state.abort(&self.committer);
        }
        result
    }

    fn run_output(&self, collection: &str, aggregate: &Aggregate) -> Result<()> {
        if self.transaction.is_some() {
            return self.write(|_| {
                let message = "$out and $merge cannot be used in a transaction";
                Err(Error::with_server_code(
                    code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                    message,
                ))
            });
        }
        // `$out` drops the data that the collection had before.
        self.committer
            .drop_data(|overlay| aggregate::run_output(overlay, collection, aggregate))
    }

    fn insert_all(
        &self,
        collection: &str,
        documents: &[RawDocumentBuf],
        ordered: bool,
    ) -> Result<InsertReport> {
        let insert = |overlay: &mut WriteOverlay| {
            insert::run_insert(overlay, collection, documents, ordered)
        };
        let bytes = documents.iter().map(|document| document.as_bytes().len());
        let is_long = self.committer.is_long_insert(documents.len(), bytes.sum());
        match self.transaction.is_none() && is_long {
            true => self.committer.write_large(self.durability, insert),
            false => self.write(insert),
        }
    }

    /// Commits the transaction. See [`Transaction::commit`](crate::Transaction::commit) and
    /// [`Transaction::commit_low_priority`](crate::Transaction::commit_low_priority).
    pub(crate) fn commit(&self, urgency: CommitUrgency) -> Result<()> {
        let Some(mut state) = self.lock_transaction_for_operation()? else {
            return Ok(());
        };
        let change_bytes = match &*state {
            TransactionState::Open(open) => open.view.change_bytes(),
            TransactionState::Committed | TransactionState::Aborted => 0,
        };
        let options = CommitOptions {
            urgency,
            durability: self.durability,
        };
        let is_large = urgency == CommitUrgency::Immediate && self.committer.is_large(change_bytes);
        let permit = match is_large {
            true => {
                brief::ensure_may_wait()?;
                None
            }
            false => Some(self.committer.permit_commit(options, change_bytes)?),
        };
        let open = match std::mem::replace(&mut *state, TransactionState::Aborted) {
            TransactionState::Open(open) => open,
            TransactionState::Committed => {
                *state = TransactionState::Committed;
                return Ok(());
            }
            TransactionState::Aborted => return Err(aborted_error()),
        };
        drop(state);
        let outcome = OverlayOutcome {
            changes: open.view.changes().clone(),
            written: open.written,
            // A transaction drops nothing.
            emptied: Vec::new(),
            events: open.events,
            event_bytes: open.event_bytes,
        };
        // On a full disk, the commit needs the pages that the snapshot of the transaction keeps.
        drop(open.view);
        let (committer, id) = (&self.committer, open.id);
        let committed = match permit {
            Some(permit) => committer.commit(permit, id, &outcome, options),
            None => committer.commit_transaction(id, &outcome, change_bytes, self.durability),
        };
        if is_large || committed.is_err() {
            committer.abort(id);
        }
        committed?;
        if let Some(mut state) = self.lock_transaction_state() {
            *state = TransactionState::Committed;
        }
        Ok(())
    }

    /// Aborts the transaction. See [`Transaction::abort`](crate::Transaction::abort).
    pub(crate) fn abort(&self) -> Result<()> {
        let Some(mut state) = self.lock_transaction_state() else {
            return Ok(());
        };
        if matches!(*state, TransactionState::Committed) {
            return Err(committed_error());
        }
        state.abort(&self.committer);
        Ok(())
    }

    /// Aborts the transaction if an operation has failed in part.
    fn abort_if(&self, failed: bool) {
        if failed && let Some(mut state) = self.lock_transaction_state() {
            state.abort(&self.committer);
        }
    }

    /// Makes errors of a cursor abort the transaction, like the errors of all methods.
    fn abort_on_error(&self, cursor: Cursor) -> Cursor {
        let Some(transaction) = &self.transaction else {
            return cursor;
        };
        let (transaction, committer) = (Arc::downgrade(transaction), Arc::clone(&self.committer));
        Cursor::new(cursor.inspect(move |document| {
            if document.as_ref().is_err_and(ends_transaction)
                && let Some(transaction) = transaction.upgrade()
            {
                lock_state(&transaction).abort(&committer);
            }
        }))
    }

    /// Locks the transaction for a read, a write or the commit.
    ///
    /// # Errors
    /// Would block.
    fn lock_transaction_for_operation(&self) -> Result<Option<MutexGuard<'_, TransactionState>>> {
        let Some(transaction) = self.transaction.as_deref() else {
            return Ok(None);
        };
        brief::lock(transaction).map(Some)
    }

    fn lock_transaction_state(&self) -> Option<MutexGuard<'_, TransactionState>> {
        self.transaction.as_deref().map(lock_state)
    }
}

impl ActiveTransaction {
    fn write<T>(
        &mut self,
        committer: &Arc<Committer>,
        write: impl FnOnce(&mut WriteOverlay) -> Result<T>,
    ) -> Result<T> {
        committer.ensure_writable()?;
        let overlay = committer.new_overlay(&self.view, self.catalog.clone(), &self.log);
        let overlay = overlay.with_conflict_check(committer.conflict_check(self.id));
        let mut overlay = overlay.with_used_bytes(self.view.change_bytes() + self.event_bytes);
        let result = write(&mut overlay)?;
        let outcome = overlay.finish();
        committer.claim_keys(self.id, &outcome.changes)?;
        self.view.apply_changes(&outcome.changes);
        self.catalog.apply_changes(&self.view, &outcome.changes)?;
        self.written.extend(outcome.written);
        self.events.extend(outcome.events);
        self.event_bytes += outcome.event_bytes;
        Ok(result)
    }
}

impl TransactionState {
    fn require_open(&mut self) -> Result<&mut ActiveTransaction> {
        match self {
            TransactionState::Open(open) => Ok(open),
            TransactionState::Committed => Err(committed_error()),
            TransactionState::Aborted => Err(aborted_error()),
        }
    }

    fn abort(&mut self, committer: &Committer) {
        if let TransactionState::Open(open) = self {
            committer.abort(open.id);
            *self = TransactionState::Aborted;
        }
    }
}

impl DatabaseState {
    pub(crate) fn read_state(&self) -> ReadState<'_> {
        ReadState {
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

/// Whether an error of a read aborts the transaction. A cancelled read and a read that has to wait have returned no data.
fn ends_transaction(error: &Error) -> bool {
    !error.is_cancelled() && !error.is_would_block()
}

/// Locks the state of a transaction. A method that panics loses at most its own overlay.
fn lock_state(transaction: &Mutex<TransactionState>) -> MutexGuard<'_, TransactionState> {
    transaction.lock().unwrap_or_else(PoisonError::into_inner)
}

fn committed_error() -> Error {
    Error::transaction_over(code::TRANSACTION_COMMITTED, "committed")
}

fn aborted_error() -> Error {
    Error::transaction_over(code::NO_SUCH_TRANSACTION, "aborted")
}
