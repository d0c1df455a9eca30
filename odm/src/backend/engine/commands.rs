//! What the engine's database and its transactions have in common.

use bson::{RawDocument, RawDocumentBuf};
use odm_engine::{
    Cursor, Database, Delete, DeleteReport, Find, FindEach, InsertReport, Result, Update,
    UpdateReport,
};

use super::transaction::OpenTransaction;

/// The commands of the engine on a database or in a transaction of it; every one blocks.
pub trait Commands: Send + Sync + 'static {
    fn find(&self, collection: &str, find: &Find) -> Result<Cursor>;

    fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>>;

    fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64>;

    fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport>;

    fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport>;

    fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport>;
}

impl Commands for Database {
    fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
        self.find(collection, find)
    }

    fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.find_each(collection, each)
    }

    fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64> {
        self.count(collection, filter, limit)
    }

    fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
        self.insert(collection, documents)
    }

    fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport> {
        self.update(collection, update)
    }

    fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
        self.delete(collection, delete)
    }
}

impl Commands for OpenTransaction {
    fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
        self.handle().find(collection, find)
    }

    fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
        self.handle().find_each(collection, each)
    }

    fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64> {
        self.handle().count(collection, filter, limit)
    }

    fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
        self.handle().insert(collection, documents)
    }

    fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport> {
        self.handle().update(collection, update)
    }

    fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
        self.handle().delete(collection, delete)
    }
}
