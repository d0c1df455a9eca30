//! Collections with the same documents, with and without indexes, and the query results.

use bson::{RawDocument, RawDocumentBuf};
use odm_engine::{Database, Error, Find};

use crate::generate::Generator;

/// The names of the collection without indexes and the collection with indexes.
pub(crate) const PLAIN: &str = "plain";
pub(crate) const INDEXED: &str = "indexed";

/// Returns a database with the same generated documents in both collections. Skips indexes that do not fit the documents.
pub(crate) fn database(generator: &mut Generator<'_>) -> Database {
    let database = Database::memory();
    let documents = generator.documents();
    for collection in [PLAIN, INDEXED] {
        // A document that cannot be stored ends the insert in both collections.
        let _ = database.insert(collection, documents.clone());
    }
    for _ in 0..generator.below(4) {
        let _ = database.create_indexes(INDEXED, &[generator.index()]);
    }
    database
}

/// Returns the documents of a query in the order of the query.
pub(crate) fn find_documents(
    database: &Database,
    collection: &str,
    find: &Find,
) -> Result<Vec<RawDocumentBuf>, Error> {
    database.find(collection, find)?.collect()
}

/// Returns the documents in byte order.
pub(crate) fn sorted(mut documents: Vec<RawDocumentBuf>) -> Vec<RawDocumentBuf> {
    documents.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    documents
}

/// Returns all documents of a collection in byte order.
pub(crate) fn all(database: &Database, collection: &str) -> Vec<RawDocumentBuf> {
    let all = find_documents(database, collection, &Find::default());
    sorted(all.expect("a query without conditions is valid"))
}

/// Panics if the bytes of a document are not completely valid BSON.
pub(crate) fn assert_valid_bson(document: &RawDocument) {
    bson::Document::try_from(document).expect("what the engine returns is BSON");
}
