use bson::{RawDocumentBuf, rawdoc};
use odm::backend::{
    Backend, Executor,
    operation::{FindOperation, FindSeveral},
    read_to_end,
};

use super::{find, insert};
use crate::Fixture;

/// Returns the position of the query and the id of the document, in the order of the cursor.
async fn query_and_id_pairs(
    db: &(impl Executor + ?Sized),
    finds: Vec<FindOperation>,
) -> Vec<(i32, i32)> {
    let cursor = db
        .find_several(FindSeveral { finds })
        .await
        .expect("a read");
    let documents = read_to_end(cursor).await.expect("its documents");
    let pair = |document: &RawDocumentBuf| {
        let fields = document.iter().map(|field| field.unwrap().0.to_string());
        assert_eq!(fields.collect::<Vec<_>>(), ["query", "document"]);
        let inner = document.get_document("document").unwrap();
        (
            document.get_i32("query").unwrap(),
            inner.get_i32("_id").unwrap(),
        )
    };
    documents.iter().map(pair).collect()
}

async fn fill_collections(fixture: &Fixture) -> std::sync::Arc<dyn Backend> {
    let db = fixture.backend();
    let things = (0..6).map(|i| rawdoc! { "_id": i, "n": 10 - i, "text": "$n" });
    db.insert(insert(things)).await.unwrap();
    let others = [rawdoc! { "_id": 7, "n": 1 }];
    let others = odm::backend::operation::InsertOperation {
        collection: "others".into(),
        ..insert(others)
    };
    db.insert(others).await.unwrap();
    db
}

fn find_in(collection: &'static str, filter: RawDocumentBuf) -> FindOperation {
    FindOperation {
        collection: collection.into(),
        ..find(filter)
    }
}

pub async fn each_query_has_its_own_options(fixture: Fixture) {
    let db = fill_collections(&fixture).await;
    let first = FindOperation {
        sort: Some(rawdoc! { "n": 1 }),
        limit: Some(2),
        projection: Some(rawdoc! { "_id": 1 }),
        ..find(rawdoc! { "n": { "$lt": 10 } })
    };
    let several = vec![
        first.clone(),
        find_in("others", rawdoc! {}),
        find(rawdoc! { "_id": { "$in": [5] } }),
        find_in("others", rawdoc! { "n": 2 }),
    ];
    assert_eq!(
        query_and_id_pairs(&*db, several).await,
        [(0, 5), (0, 4), (1, 7), (2, 5)]
    );
    let cursor = db
        .find_several(FindSeveral { finds: vec![first] })
        .await
        .unwrap();
    let documents = read_to_end(cursor).await.unwrap();
    assert_eq!(
        documents[0],
        rawdoc! { "query": 0, "document": { "_id": 5 } }
    );
}

pub async fn missing_collections_are_empty(fixture: Fixture) {
    let db = fill_collections(&fixture).await;
    let several = || {
        vec![
            find_in("nothing", rawdoc! {}),
            find_in("others", rawdoc! {}),
            find_in("neither", rawdoc! {}),
        ]
    };
    assert_eq!(query_and_id_pairs(&*db, several()).await, [(1, 7)]);
    assert!(
        query_and_id_pairs(&*db, vec![find_in("nothing", rawdoc! {})])
            .await
            .is_empty()
    );
    assert!(query_and_id_pairs(&*db, Vec::new()).await.is_empty());
    let none = FindOperation {
        limit: Some(0),
        ..find(rawdoc! {})
    };
    assert_eq!(
        query_and_id_pairs(&*db, vec![none, find_in("others", rawdoc! {})]).await,
        [(1, 7)]
    );
}

pub async fn values_are_not_interpreted(fixture: Fixture) {
    let db = fill_collections(&fixture).await;
    let several = vec![
        find(rawdoc! { "text": { "$eq": "$n" }, "_id": { "$lt": 1 } }),
        find(rawdoc! { "text": { "$eq": "$$ROOT" } }),
    ];
    assert_eq!(query_and_id_pairs(&*db, several).await, [(0, 0)]);
}

pub async fn results_can_exceed_a_batch(fixture: Fixture) {
    let db = fixture.backend();
    let things = (0..2_500).map(|i| rawdoc! { "_id": i });
    db.insert(insert(things)).await.unwrap();
    let several = vec![find(rawdoc! {}), find(rawdoc! { "_id": { "$gte": 2_000 } })];
    let found = query_and_id_pairs(&*db, several).await;
    assert_eq!(found.len(), 3_000);
    assert_eq!(found.iter().filter(|(query, _)| *query == 1).count(), 500);
}

pub async fn an_invalid_query_is_an_error(fixture: Fixture) {
    let db = fill_collections(&fixture).await;
    let several = vec![
        find(rawdoc! {}),
        find_in("others", rawdoc! { "n": { "$bad": 1 } }),
    ];
    assert!(
        db.find_several(FindSeveral { finds: several })
            .await
            .is_err()
    );
}

pub async fn a_transaction_sees_its_own_writes(fixture: Fixture) {
    let db = fill_collections(&fixture).await;
    if !db.capabilities().transactions {
        return;
    }
    let tx = db.begin().await.unwrap();
    tx.insert(insert([rawdoc! { "_id": 9 }])).await.unwrap();
    let several = || {
        vec![
            find_in("others", rawdoc! {}),
            find(rawdoc! { "_id": { "$gte": 5 } }),
        ]
    };
    assert_eq!(
        query_and_id_pairs(&*tx, several()).await,
        [(0, 7), (1, 5), (1, 9)]
    );
    assert_eq!(query_and_id_pairs(&*db, several()).await, [(0, 7), (1, 5)]);
    tx.abort().await;
    let over = tx
        .find_several(FindSeveral { finds: several() })
        .await
        .err()
        .expect("it is over");
    assert_eq!(over.kind(), odm::ErrorKind::TransactionOver);
}
