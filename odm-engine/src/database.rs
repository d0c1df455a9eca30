use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::{DateTime, RawBson, RawDocument, RawDocumentBuf};

use crate::command::{
    Aggregate, Delete, DeleteReport, Explain, Find, FindEach, InsertReport, Reading, Update,
    UpdateReport, aggregate, count, delete, distinct, explain, find, find_each, indexes, insert,
    update,
};
use crate::commit::{Committer, State};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::expiry::{self, Expiry};
use crate::index::Index;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redb::RedbStore;
use crate::transaction::Transaction;

/// A database: collections of documents in one file, or in memory.
///
/// A clone is another handle to the same database. All methods block until they are done; those that
/// write return once the change is durable. Each write is atomic: after an error nothing has changed,
/// but for [`insert`](Database::insert), which reports how far it came.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Database, Find};
///
/// let database = Database::memory();
/// database.insert("people", vec![rawdoc! { "_id": 1, "name": "Ada" }])?.all()?;
/// let found = database.find("people", &Find { filter: rawdoc! { "name": "Ada" }, ..Find::default() })?;
/// assert_eq!(found.count(), 1);
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    committer: Arc<Committer>,
    expiry: Expiry,
}

impl Database {
    /// Opens the database in the file at `path`, which is created if there is none.
    ///
    /// # Errors
    /// The file is in use (by this or another process), is not a database of this engine, is damaged or
    /// of a newer format; I/O.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::on(Box::new(RedbStore::open(path.as_ref())?))
    }

    /// A new database that exists for as long as a handle to it does.
    pub fn memory() -> Database {
        let opened = Database::on(Box::new(MemoryStore::default()));
        opened.expect("a store in memory has nothing to fail on")
    }

    /// Inserts documents in their order, in one durable commit.
    ///
    /// A document without an `_id` gets an ObjectId. The first document that cannot be inserted ends
    /// the insertion; those before it are kept, and the report says both.
    ///
    /// # Errors
    /// An invalid name of a collection, I/O. Nothing has been inserted then.
    pub fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
        self.shared
            .committer
            .write(|overlay| insert::run(overlay, collection, documents))
    }

    /// Finds documents. A collection that does not exist is empty.
    ///
    /// # Errors
    /// A filter, projection or sort that is not valid or not supported; a sort that needs too much
    /// memory; I/O.
    pub fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
        find::run(self.shared.committer.state().reading(), collection, find)
    }

    /// Runs documents through a pipeline. A collection that does not exist is empty.
    ///
    /// # Errors
    /// A pipeline that is not valid or not supported; documents that its expressions do not fit; a stage
    /// that needs too much memory; I/O.
    pub fn aggregate(&self, collection: &str, aggregate: &Aggregate) -> Result<Cursor> {
        aggregate::run(
            self.shared.committer.state().reading(),
            collection,
            aggregate,
        )
    }

    /// Runs one query for each of several keys, all on one state of the database, and returns the
    /// documents of each key in the order of the keys.
    ///
    /// # Errors
    /// As [`find`](Database::find).
    pub fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
        find_each::run(self.shared.committer.state().reading(), collection, each)
    }

    /// Counts the documents that match, up to `limit`.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; I/O.
    pub fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64> {
        count::run(
            self.shared.committer.state().reading(),
            collection,
            filter,
            limit,
        )
    }

    /// The values at a dotted path of the documents that match, each once, in ascending order. Of an
    /// array, its elements count.
    ///
    /// # Errors
    /// As [`count`](Database::count).
    pub fn distinct(
        &self,
        collection: &str,
        path: &str,
        filter: &RawDocument,
    ) -> Result<Vec<RawBson>> {
        distinct::run(
            self.shared.committer.state().reading(),
            collection,
            path,
            filter,
        )
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
        self.shared
            .committer
            .write(|overlay| update::run(overlay, collection, update))
    }

    /// Deletes the first document that matches, or all of them.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; I/O. No document has been deleted then.
    pub fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
        self.shared
            .committer
            .write(|overlay| delete::run(overlay, collection, delete))
    }

    /// Runs a query and says how it found its documents.
    ///
    /// # Errors
    /// As [`find`](Database::find).
    pub fn explain(&self, collection: &str, find: &Find) -> Result<Explain> {
        explain::run(self.shared.committer.state().reading(), collection, find)
    }

    /// Creates indexes, over the documents that are there already; all of them or none.
    ///
    /// An index that exists with the same name and definition is left alone.
    ///
    /// # Errors
    /// A definition that is not valid; another index with the same name or the same fields; documents
    /// with duplicate keys or parallel arrays; I/O.
    pub fn create_indexes(&self, collection: &str, indexes: &[Index]) -> Result<()> {
        self.shared
            .committer
            .write(|overlay| indexes::create(overlay, collection, indexes))?;
        if indexes.iter().any(|index| index.expire_after.is_some()) {
            self.shared.expiry.start()?;
        }
        Ok(())
    }

    /// The indexes of a collection, that of `_id` first. A collection that does not exist has none.
    ///
    /// # Errors
    /// None for now.
    pub fn list_indexes(&self, collection: &str) -> Result<Vec<Index>> {
        Ok(indexes::list(
            self.shared.committer.state().reading(),
            collection,
        ))
    }

    /// Drops the index with this name.
    ///
    /// # Errors
    /// There is no such index, or it is that of `_id`; I/O.
    pub fn drop_index(&self, collection: &str, name: &str) -> Result<()> {
        self.shared
            .committer
            .write(|overlay| indexes::drop(overlay, collection, name))
    }

    /// Begins a transaction, which sees the database as it is now.
    ///
    /// # Errors
    /// I/O.
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(Arc::clone(&self.shared.committer))
    }

    /// Sets how often a background thread deletes the documents that [expire](Index::expire_after);
    /// without that, every 60 seconds.
    pub fn set_expiry_period(&self, period: Duration) {
        self.shared.expiry.set_period(period);
    }

    /// Deletes the documents that have expired now, without waiting for the background thread, and
    /// returns their number.
    ///
    /// # Errors
    /// I/O. Some documents may have been deleted then.
    pub fn delete_expired(&self) -> Result<u64> {
        expiry::delete_expired(&self.shared.committer, DateTime::now())
    }

    fn on(store: Box<dyn Store>) -> Result<Database> {
        let committer = Arc::new(Committer::open(store)?);
        let expiry = Expiry::new(&committer);
        if expiry::is_needed(&committer) {
            expiry.start()?;
        }
        Ok(Database {
            shared: Arc::new(Shared { committer, expiry }),
        })
    }
}

impl State {
    fn reading(&self) -> Reading<'_> {
        Reading {
            view: &self.view,
            catalog: &self.catalog,
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}
