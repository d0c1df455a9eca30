//! The contract of [`odm::backend`], line by line.

pub mod aggregate;
pub mod changes;
pub mod collection;
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
    Executor, drain,
    operation::{Change, Count, Delete, Find, Index, Insert, Update},
};

/// The collection of most tests.
const THINGS: &str = "things";

fn find(filter: RawDocumentBuf) -> Find {
    Find {
        collection: THINGS.into(),
        filter,
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    }
}

fn count(filter: RawDocumentBuf) -> Count {
    Count {
        collection: THINGS.into(),
        filter,
        limit: None,
        max_time: None,
    }
}

fn insert(documents: impl IntoIterator<Item = RawDocumentBuf>) -> Insert {
    Insert {
        collection: THINGS.into(),
        documents: documents.into_iter().collect(),
        ordered: true,
    }
}

fn update(filter: RawDocumentBuf, update: RawDocumentBuf) -> Update {
    Update {
        collection: THINGS.into(),
        filter,
        change: Change::operators(update),
        multi: false,
        upsert: false,
    }
}

fn delete(filter: RawDocumentBuf) -> Delete {
    Delete {
        collection: THINGS.into(),
        filter,
        multi: false,
    }
}

fn unique(mut index: Index) -> Index {
    index.unique = true;
    index
}

/// Everything that matches, in the order of the ids.
async fn found(db: &(impl Executor + ?Sized), filter: RawDocumentBuf) -> Vec<Document> {
    let find = Find {
        sort: Some(rawdoc! { "_id": 1 }),
        ..find(filter)
    };
    decoded(
        drain(db.find(find).await.expect("a find"))
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

/// The ids of everything that matches.
async fn ids(db: &(impl Executor + ?Sized), filter: RawDocumentBuf) -> Vec<i32> {
    let documents = found(db, filter).await;
    documents
        .iter()
        .map(|document| document.get_i32("_id").expect("an id"))
        .collect()
}
