//! The contract of [`odm::backend`], line by line.

pub mod aggregate;
pub mod changes;
pub mod collection;
pub mod copy;
pub mod count;
pub mod delete;
pub mod distinct;
pub mod find;
pub mod find_and_modify;
pub mod find_each;
pub mod find_several;
pub mod index;
pub mod insert;
pub mod max_time;
pub mod transaction;
pub mod update;
pub mod wrapper;

use bson::{Document, RawDocumentBuf, rawdoc};
use odm::backend::{
    Executor,
    operation::{
        CountOperation, DeleteOperation, DocumentChange, FindOperation, Index, InsertOperation,
        UpdateOperation,
    },
    read_to_end,
};

/// The collection of most tests.
const TEST_COLLECTION: &str = "things";

fn find(filter: RawDocumentBuf) -> FindOperation {
    FindOperation {
        collection: TEST_COLLECTION.into(),
        filter,
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    }
}

fn count(filter: RawDocumentBuf) -> CountOperation {
    CountOperation {
        collection: TEST_COLLECTION.into(),
        filter,
        limit: None,
        options: Default::default(),
    }
}

fn insert(documents: impl IntoIterator<Item = RawDocumentBuf>) -> InsertOperation {
    InsertOperation {
        collection: TEST_COLLECTION.into(),
        documents: documents.into_iter().collect(),
        ordered: true,
        origin: Default::default(),
    }
}

fn update(filter: RawDocumentBuf, update: RawDocumentBuf) -> UpdateOperation {
    UpdateOperation {
        collection: TEST_COLLECTION.into(),
        filter,
        change: DocumentChange::operators(update),
        multi: false,
        upsert: false,
        origin: Default::default(),
    }
}

fn delete(filter: RawDocumentBuf) -> DeleteOperation {
    DeleteOperation {
        collection: TEST_COLLECTION.into(),
        filter,
        multi: false,
        origin: Default::default(),
    }
}

fn unique(mut index: Index) -> Index {
    index.unique = true;
    index
}

/// Returns all matching documents, sorted by id.
async fn find_sorted(db: &(impl Executor + ?Sized), filter: RawDocumentBuf) -> Vec<Document> {
    let find = FindOperation {
        sort: Some(rawdoc! { "_id": 1 }),
        ..find(filter)
    };
    decoded(
        read_to_end(db.find(find).await.expect("a find"))
            .await
            .expect("its documents"),
    )
}

fn decoded(documents: Vec<RawDocumentBuf>) -> Vec<Document> {
    let documents = documents.iter().map(Document::try_from);
    documents
        .collect::<Result<_, _>>()
        .expect("well-formed documents")
}

/// Returns the ids of all matching documents.
async fn matching_ids(db: &(impl Executor + ?Sized), filter: RawDocumentBuf) -> Vec<i32> {
    let documents = find_sorted(db, filter).await;
    documents
        .iter()
        .map(|document| document.get_i32("_id").expect("an id"))
        .collect()
}
