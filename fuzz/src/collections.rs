//! The same documents with and without indexes, and what they answer.

use bson::{RawDocument, RawDocumentBuf};
use odm_engine::{Database, Error, Find};

use crate::generate::Generator;

/// The collection without indexes, and the one with them.
pub(crate) const PLAIN: &str = "plain";
pub(crate) const INDEXED: &str = "indexed";

/// A database with generated documents in both collections. Indexes that do not fit them are left out.
pub(crate) fn database(generator: &mut Generator<'_>) -> Database {
    let database = Database::memory();
    let documents = generator.documents();
    for collection in [PLAIN, INDEXED] {
        // A document that cannot be stored ends the insertion in both.
        let _ = database.insert(collection, documents.clone());
    }
    for _ in 0..generator.below(4) {
        let _ = database.create_indexes(INDEXED, &[generator.index()]);
    }
    database
}

/// The documents that a query finds, in its order.
pub(crate) fn found(
    database: &Database,
    collection: &str,
    find: &Find,
) -> Result<Vec<RawDocumentBuf>, Error> {
    database.find(collection, find)?.collect()
}

/// The documents in the order of their bytes.
pub(crate) fn sorted(mut documents: Vec<RawDocumentBuf>) -> Vec<RawDocumentBuf> {
    documents.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    documents
}

/// All documents of a collection in the order of their bytes.
pub(crate) fn all(database: &Database, collection: &str) -> Vec<RawDocumentBuf> {
    let all = found(database, collection, &Find::default());
    sorted(all.expect("a query without conditions is valid"))
}

/// Fails if the bytes of a document are not BSON to the last one.
pub(crate) fn assert_whole(document: &RawDocument) {
    bson::Document::try_from(document).expect("what the engine returns is BSON");
}
