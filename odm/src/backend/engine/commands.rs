//! What a database of the engine and a transaction have in common.

use std::fmt;

use bson::{RawDocument, RawDocumentBuf};
use odm_engine::{
    Cursor, Database, Delete, DeleteReport, Find, FindEach, InsertReport, Result, Update,
    UpdateReport,
};

use super::transaction::Open;

/// The commands of the engine that read and write documents.
pub trait Commands: fmt::Debug + Send + Sync + 'static {
    fn find(&self, collection: &str, find: &Find) -> Result<Cursor>;
    fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>>;
    fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64>;
    fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport>;
    fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport>;
    fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport>;
}

macro_rules! commands {
    ($target:ty $(, $field:ident)?) => {
        impl Commands for $target {
            fn find(&self, collection: &str, find: &Find) -> Result<Cursor> {
                self$(.$field)?.find(collection, find)
            }
            fn find_each(&self, collection: &str, each: &FindEach) -> Result<Vec<Vec<RawDocumentBuf>>> {
                self$(.$field)?.find_each(collection, each)
            }
            fn count(&self, collection: &str, filter: &RawDocument, limit: Option<u64>) -> Result<u64> {
                self$(.$field)?.count(collection, filter, limit)
            }
            fn insert(&self, collection: &str, documents: Vec<RawDocumentBuf>) -> Result<InsertReport> {
                self$(.$field)?.insert(collection, documents)
            }
            fn update(&self, collection: &str, update: &Update) -> Result<UpdateReport> {
                self$(.$field)?.update(collection, update)
            }
            fn delete(&self, collection: &str, delete: &Delete) -> Result<DeleteReport> {
                self$(.$field)?.delete(collection, delete)
            }
        }
    };
}
commands!(Database);
commands!(Open, transaction);
