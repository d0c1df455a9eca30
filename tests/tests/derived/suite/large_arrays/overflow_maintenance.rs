//! Maintenance jobs of overflow arrays: spill existing arrays, fold short arrays, measure lengths.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Filter,
    backend::{
        Fault as CrashFault, Faults,
        operation::{InsertOperation, Operation},
    },
    bson::{RawDocumentBuf, doc, rawdoc},
    check::FindingKind,
    prelude::*,
};
use odm_tests::assert_clean;

use super::overflow::{
    Book, Db, book, chunk_documents, customers, open_shop, stored_documents, user, users,
};
use crate::Fixture;

pub async fn short_arrays_are_folded(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([
        book(1, 0..4),
        book(2, 0..100),
        book(3, 0..2),
        book(4, 0..100),
    ])
    .await
    .unwrap();
    // Four elements exceed the limit of three, so the array is not folded.
    db.update::<Book>(2)
        .pull_all(|b| b.customers_purchased(), users(0..96))
        .await
        .unwrap();
    assert_eq!(db.arrays::<Book>().fold().await.unwrap(), 0);
    db.update::<Book>(2)
        .pull(|b| b.customers_purchased(), "u96")
        .await
        .unwrap();
    db.update::<Book>(4)
        .pull_all(|b| b.customers_purchased(), users(0..99))
        .await
        .unwrap();
    db.update::<Book>(4)
        .push_each(|b| b.customers_purchased(), ["x", "y"])
        .await
        .unwrap();
    assert_eq!(db.arrays::<Book>().fold().await.unwrap(), 2);
    for (id, expected) in [
        (1, users(0..4)),
        (2, users(97..100)),
        (4, ["u99", "x", "y"].map(String::from).to_vec()),
    ] {
        assert_eq!(customers(&db, id).await, expected);
        let array = db.get::<Book>(id).await.unwrap().customers_purchased;
        assert_eq!(array.has_more(), id == 1);
    }
    let stored = stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    let plain = doc! { "_id": 2_i64, "title": "book 2", "copies": 0_i64, "customers_purchased": users(97..100) };
    assert_eq!(stored[1], plain);
    let owners: Vec<_> = chunk_documents(&fixture)
        .await
        .iter()
        .map(|extra| extra.get_i64("book_id").unwrap())
        .collect();
    assert_eq!(owners, [1]);
    assert_clean(&db).await;
}

pub async fn arrays_are_folded_in_the_background(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many((1..=3).map(|id| book(id, 0..60)))
        .await
        .unwrap();
    let folding = db
        .arrays::<Book>()
        .spawn_fold_worker(Duration::from_millis(20));
    let others = Db::with_backend(fixture.backend());
    let also = others
        .arrays::<Book>()
        .spawn_fold_worker(Duration::from_millis(20));
    for id in [1, 3] {
        db.update::<Book>(id)
            .pull_all(|b| b.customers_purchased(), users(0..58))
            .await
            .unwrap();
    }
    let is_whole = async |id| {
        !db.get::<Book>(id)
            .await
            .unwrap()
            .customers_purchased
            .has_more()
    };
    while !(is_whole(1).await && is_whole(3).await) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A worker updates the progress at the end of a round.
    let seen = (folding.progress().rounds, also.progress().rounds);
    while folding.progress().rounds == seen.0 || also.progress().rounds == seen.1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let done = folding.progress().documents + also.progress().documents;
    assert_eq!((done, is_whole(2).await), (2, false));
    assert!(folding.progress().failures + also.progress().failures == 0);
    drop((folding, also));
    for (id, expected) in [(1, 58..60), (2, 0..60), (3, 58..60)] {
        assert_eq!(customers(&db, id).await, users(expected));
    }
    assert_clean(&db).await;
}

/// The model of a later application version, with a larger limit.
pub(super) mod larger_limit {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "sales")]
    pub(crate) struct Book {
        #[serde(rename = "_id")]
        pub(crate) id: i64,
        pub(crate) title: String,
        pub(crate) copies: i64,
        #[embed(overflow(after = 1_000, into = "extra_sales", owner = "book_id"))]
        pub(crate) customers_purchased: Overflow<String>,
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(crate) struct Shop;
}

/// The model during the migration back to plain arrays. `inline` allows no new spills.
pub(super) mod inline_again {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "sales")]
    pub(crate) struct Book {
        #[serde(rename = "_id")]
        pub(crate) id: i64,
        pub(crate) title: String,
        pub(crate) copies: i64,
        #[embed(overflow(inline, into = "extra_sales", owner = "book_id"))]
        pub(crate) customers_purchased: Overflow<String>,
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(crate) struct Shop;
}

/// The model after the migration back to plain arrays.
mod plain_array {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "sales")]
    pub(super) struct Book {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) title: String,
        pub(super) copies: i64,
        #[embed(unbounded)]
        pub(super) customers_purchased: Vec<String>,
    }

    #[derive(Schema)]
    #[schema(models(Book))]
    pub(super) struct Shop;
}

pub async fn inline_arrays_are_folded(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let lengths = [100, 200, 300, 400, 500, 60_000];
    db.insert_many((1..).zip(lengths).map(|(id, len)| book(id, 0..len)))
        .await
        .unwrap();
    let db = odm::Database::<inline_again::Shop>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    // The application pushes elements during the fold.
    let pushing = tokio::spawn({
        let db = db.clone();
        async move {
            for number in 0..40_usize {
                let id = number as i64 % 6 + 1;
                db.update::<inline_again::Book>(id)
                    .push(|b| b.customers_purchased(), format!("late{number}"))
                    .await
                    .unwrap();
            }
        }
    });
    let mut folded = db.arrays::<inline_again::Book>().fold().await.unwrap();
    pushing.await.unwrap();
    folded += db.arrays::<inline_again::Book>().fold().await.unwrap();
    // A push during the fold can leave spilled elements, so an array can be folded twice.
    assert!(folded >= 6, "{folded}");
    let more = db
        .find::<inline_again::Book>()
        .filter(|b| b.customers_purchased().has_more());
    assert_eq!(more.count().await.unwrap(), 0);
    assert!(chunk_documents(&fixture).await.is_empty());
    // Later pushes and inserts spill no elements.
    db.update::<inline_again::Book>(1)
        .push_each(|b| b.customers_purchased(), users(100..5_000))
        .await
        .unwrap();
    let new = inline_again::Book {
        id: 7,
        title: "book 7".into(),
        copies: 0,
        customers_purchased: users(0..5_000).into(),
    };
    db.insert(new).await.unwrap();
    assert!(chunk_documents(&fixture).await.is_empty());
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    // The model can now declare a plain array.
    let db = odm::Database::<plain_array::Shop>::with_backend(fixture.backend());
    for (id, len) in (1..).zip(lengths).chain([(7, 5_000)]) {
        let late = (0..40).filter(|number| id != 7 && number % 6 + 1 == id);
        let mut expected = users(0..len);
        expected.extend(late.map(|number| format!("late{number}")));
        if id == 1 {
            expected.extend(users(100..5_000));
        }
        let book = db.get::<plain_array::Book>(id).await.unwrap();
        assert_eq!(book.customers_purchased, expected);
    }
    for document in stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await {
        let names: Vec<_> = document.keys().collect();
        assert_eq!(names, ["_id", "title", "copies", "customers_purchased"]);
    }
}

/// Elements that do not fit into a document stay spilled, also with `inline`.
pub async fn oversized_arrays_stay_spilled(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let long = |n: usize| format!("{n:02}{}", "x".repeat(100_000));
    let all: Vec<_> = (0..50).map(long).collect();
    db.insert_many([book(1, 0..0), book(2, 0..0)])
        .await
        .unwrap();
    for few in all.chunks(10) {
        db.update::<Book>(1)
            .push_each(|b| b.customers_purchased(), few.to_vec())
            .await
            .unwrap();
    }
    let db = odm::Database::<inline_again::Shop>::with_backend(fixture.backend());
    for few in all.chunks(10) {
        db.update::<inline_again::Book>(2)
            .push_each(|b| b.customers_purchased(), few.to_vec())
            .await
            .unwrap();
    }
    assert_eq!(db.arrays::<inline_again::Book>().fold().await.unwrap(), 0);
    for id in [1, 2] {
        let array = db
            .get::<inline_again::Book>(id)
            .await
            .unwrap()
            .customers_purchased;
        assert_eq!((array.len(), array.has_more()), (50, true));
        let elements = db
            .get::<inline_again::Book>(id)
            .elements(|b| b.customers_purchased());
        assert!(elements.all().await.unwrap() == all);
    }
    for document in stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await {
        let bytes = RawDocumentBuf::try_from(&document).unwrap();
        let bytes = bytes.as_bytes().len();
        assert!(bytes < 5 << 20, "{bytes}");
    }
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    // The shortened arrays fit, and are folded.
    for id in [1, 2] {
        for few in all[..20].chunks(2) {
            db.update::<inline_again::Book>(id)
                .pull_all(|b| b.customers_purchased(), few.to_vec())
                .await
                .unwrap();
        }
    }
    assert_eq!(db.arrays::<inline_again::Book>().fold().await.unwrap(), 2);
    for id in [1, 2] {
        let array = db
            .get::<inline_again::Book>(id)
            .await
            .unwrap()
            .customers_purchased;
        assert!(!array.has_more());
        assert!(array.resident() == &all[20..]);
    }
    assert!(chunk_documents(&fixture).await.is_empty());
}

pub async fn arrays_before_overflow_are_spilled(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let documents = (1..=5_i64).map(|id| {
        let all = users(0..400 * (id as usize % 2) + 2);
        let document =
            doc! { "_id": id, "title": "old", "copies": 0_i64, "customers_purchased": all };
        RawDocumentBuf::try_from(&document).unwrap()
    });
    let insert = InsertOperation {
        collection: "sales".into(),
        documents: documents.collect(),
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let lengths = db.arrays::<Book>().lengths().await.unwrap();
    assert_eq!(lengths[0].documents(), 5);
    assert_eq!(
        (lengths[0].percentile(40.0), lengths[0].percentile(100.0)),
        (2, 402)
    );
    assert_eq!(lengths[0].longer_than(3), 3);
    let text = lengths[0].to_string();
    assert!(
        text.contains("customers_purchased: 5 documents, overflows after 3"),
        "{text}"
    );
    let report = db.check().await.unwrap();
    assert_eq!(report.findings.len(), 3);
    db.update::<Book>(1)
        .push(|b| b.customers_purchased(), "before")
        .await
        .unwrap();
    let writing = tokio::spawn({
        let db = db.clone();
        async move {
            for number in 0..20 {
                for id in [3, 5] {
                    let late = format!("late{number}");
                    let push = db
                        .update::<Book>(id)
                        .push(|b| b.customers_purchased(), late);
                    push.await.unwrap();
                }
                let pull = db
                    .update::<Book>(5)
                    .pull(|b| b.customers_purchased(), user(number));
                pull.await.unwrap();
            }
        }
    });
    let spilled = db.arrays::<Book>().spill().await.unwrap();
    writing.await.unwrap();
    // A push spills an array on its own, so the job may find fewer arrays.
    assert!(spilled <= 3, "{spilled}");
    assert_eq!(db.arrays::<Book>().spill().await.unwrap(), 0);
    db.update::<Book>(1)
        .push(|b| b.customers_purchased(), "after")
        .await
        .unwrap();
    let expected = users(0..402)
        .into_iter()
        .chain(["before".to_owned(), "after".to_owned()]);
    assert_eq!(customers(&db, 1).await, expected.collect::<Vec<_>>());
    assert_eq!(customers(&db, 2).await, users(0..2));
    for (id, first) in [(3, 0), (5, 20)] {
        let late = (0..20).map(|number| format!("late{number}"));
        let expected = users(first..402).into_iter().chain(late);
        assert_eq!(customers(&db, id).await, expected.collect::<Vec<_>>());
    }
    let array = db.get::<Book>(1).await.unwrap().customers_purchased;
    assert_eq!((array.resident().len(), array.len()), (3, 404));
    assert_clean(&db).await;
}

/// A document from before the declaration can lack the array, or hold an array that is too large in bytes.
pub async fn arrays_before_overflow_can_be_missing_or_large(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let large = "x".repeat(100_000);
    let insert = InsertOperation {
        collection: "sales".into(),
        documents: vec![
            rawdoc! { "_id": 1_i64, "title": "none", "copies": 0_i64 },
            rawdoc! { "_id": 2_i64, "title": "large", "copies": 0_i64,
            "customers_purchased": [large.as_str(), large.as_str(), large.as_str()] },
        ],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let push = db
        .update::<Book>(1)
        .push_each(|b| b.customers_purchased(), users(0..7));
    push.await.unwrap();
    assert_eq!(customers(&db, 1).await, users(0..7));
    let report = db.check().await.unwrap();
    let faults = report.findings.iter().map(|found| found.kind.clone());
    let too_large = FindingKind::TooManyResident { actual: 3, max: 3 };
    assert_eq!(faults.collect::<Vec<_>>(), [too_large]);
    assert_eq!(db.arrays::<Book>().spill().await.unwrap(), 1);
    assert_eq!(customers(&db, 2).await, vec![large; 3]);
    assert_clean(&db).await;
}

/// A conflict on an array does not stop the fold of the remaining arrays.
pub async fn a_failed_fold_does_not_stop_the_others(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many((1..=3).map(|id| book(id, 0..60)))
        .await
        .unwrap();
    let pull = db.update_many::<Book>(|_| Filter::all());
    pull.pull_all(|b| b.customers_purchased(), users(2..60))
        .await
        .unwrap();
    let faults = Arc::new(Faults::new(fixture.backend()));
    let conflict = odm::Error::new(ErrorKind::Conflict, "another was first");
    faults.inject(1, is_write, CrashFault::FailBefore(conflict));
    let others = Db::with_backend(faults.clone());
    others.arrays::<Book>().fold().await.unwrap_err();
    // The failed run has folded two of three arrays.
    assert_eq!(db.arrays::<Book>().fold().await.unwrap(), 1);
    assert_clean(&db).await;
}

fn is_write(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Update(_) | Operation::FindAndModify(_)
    )
}

/// A fold is limited by bytes as well as by the number of elements. A fold deletes chunk documents that pulls have emptied, even
/// if the array stays spilled.
pub async fn folds_are_limited_by_bytes(fixture: Fixture) {
    open_shop(&fixture).await;
    let db = odm::Database::<larger_limit::Shop>::with_backend(fixture.backend());
    let long = |n: usize| format!("{n:04}{}", "x".repeat(1_000));
    let many = |range: std::ops::Range<usize>| range.map(long).collect::<Vec<_>>();
    let book = |id, len| larger_limit::Book {
        id,
        title: "long".into(),
        copies: 0,
        customers_purchased: many(0..len).into(),
    };
    db.insert_many([book(1, 300), book(2, 300), book(3, 3_000)])
        .await
        .unwrap();
    let pull = async |id, range: std::ops::Range<usize>| {
        for some in many(range).chunks(100) {
            db.update::<larger_limit::Book>(id)
                .pull_all(|b| b.customers_purchased(), some.to_vec())
                .await
                .unwrap();
        }
    };
    // Array 1 would fit into the document, but without room for the next push. So the fold skips array 1.
    pull(1, 0..60).await;
    pull(2, 0..120).await;
    pull(3, 400..3_000).await;
    let before = chunk_documents(&fixture).await.len();
    assert_eq!(db.arrays::<larger_limit::Book>().fold().await.unwrap(), 1);
    for (id, expected) in [(1, 60..300), (2, 120..300), (3, 0..400)] {
        let book = db.get::<larger_limit::Book>(id).await.unwrap();
        assert_eq!(book.customers_purchased.has_more(), id != 2, "{id}");
        let all = db
            .get::<larger_limit::Book>(id)
            .elements(|b| b.customers_purchased());
        assert!(all.all().await.unwrap() == many(expected));
    }
    let after = chunk_documents(&fixture).await;
    assert!(after.len() + 5 < before, "{before} {}", after.len());
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

/// A document near the size limit of the server can be spilled.
pub async fn the_largest_documents_are_spilled(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let all: Vec<_> = (0..15_700)
        .map(|n| format!("{n:05}{}", "x".repeat(1_000)))
        .collect();
    let document =
        doc! { "_id": 1_i64, "title": "long", "copies": 0_i64, "customers_purchased": all.clone() };
    let document = RawDocumentBuf::try_from(&document).unwrap();
    assert!(document.as_bytes().len() > 15 << 20);
    let insert = InsertOperation {
        collection: "sales".into(),
        documents: vec![document],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    // A push spills the array, like the job.
    db.update::<Book>(1)
        .push(|b| b.customers_purchased(), "next")
        .await
        .unwrap();
    db.arrays::<Book>().spill().await.unwrap();
    let mut names = customers(&db, 1).await;
    assert_eq!(names.pop().as_deref(), Some("next"));
    assert!(names == all);
    let stored = stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    let stored = RawDocumentBuf::try_from(&stored[0]).unwrap();
    assert!(stored.as_bytes().len() < 1 << 20);
    assert_clean(&db).await;
}

/// Empty chunk documents are deleted, even if the array is too long to fold.
pub async fn empty_chunks_are_deleted(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert(book(1, 0..2_000)).await.unwrap();
    let pull = db
        .update::<Book>(1)
        .pull_all(|b| b.customers_purchased(), users(0..1_600));
    pull.await.unwrap();
    assert_eq!(chunk_documents(&fixture).await.len(), 4);
    assert_eq!(db.arrays::<Book>().fold().await.unwrap(), 0);
    assert_eq!(chunk_documents(&fixture).await.len(), 1);
    assert_eq!(customers(&db, 1).await, users(1_600..2_000));
    assert_clean(&db).await;
}

/// The proposed limit stays within fixed bounds.
pub async fn proposed_limits_have_bounds(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let insert = async |id: i64, customers: Vec<String>| {
        let document =
            doc! { "_id": id, "title": "old", "copies": 0_i64, "customers_purchased": customers };
        let insert = InsertOperation {
            collection: "sales".into(),
            documents: vec![RawDocumentBuf::try_from(&document).unwrap()],
            ordered: true,
            origin: Default::default(),
        };
        fixture.backend().insert(insert).await.unwrap();
        let lengths = db.arrays::<Book>().lengths().await.unwrap();
        lengths.into_iter().next().unwrap()
    };
    let few = insert(1, users(0..5)).await;
    assert_eq!(few.proposal(), 5);
    let bytes = few.bytes(50.0);
    let expected = format!(
        "customers_purchased: 1 documents, overflows after 3
     50 %: 5 elements, {bytes} bytes
     90 %: 5 elements, {bytes} bytes
     99 %: 5 elements, {bytes} bytes
   99.9 %: 5 elements, {bytes} bytes
    100 %: 5 elements, {bytes} bytes
         0 to        0:                                          0
         1 to        3:                                          0
         4 to       15: ######################################## 1
  after 5 elements, 0 overflow"
    );
    assert_eq!(few.to_string(), expected);
    assert_eq!(insert(2, users(0..12_000)).await.proposal(), 10_000);
    let large = "x".repeat(5_000);
    let proposal = insert(3, vec![large; 2_000]).await.proposal();
    assert!((200..400).contains(&proposal), "{proposal}");
}
