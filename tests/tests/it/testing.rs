//! The testing kit, in memory and on a MongoDB server.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use odm::{
    ErrorKind, assert_queries, assert_writes,
    backend::{Fault, operation::Operation},
    prelude::*,
    testing::{TestDb, parse_fixture},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique)]
    name: String,
    #[count(of = Part::maker)]
    parts: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    maker: Ref<Maker>,
}

#[derive(Schema)]
#[schema(models(Maker, Part))]
struct Shop;

const MAKERS: &str = r#"[{ "_id": 1, "name": "Acme" }, { "_id": 2, "name": "Bolt" }]"#;

async fn insert_parts(db: &TestDb<Shop>) {
    db.load::<NewMaker>(MAKERS).await;
    let parts = (0..12).map(|id| Part {
        id,
        maker: Ref::new(1 + id % 2),
    });
    db.insert_many(parts).await.unwrap();
    db.wait_for_pending().await.unwrap();
}

/// Returns the message of the panic of a future.
async fn panic_message(work: impl Future) -> String {
    let panic = AssertUnwindSafe(work).catch_unwind().await;
    let payload = panic.err().expect("a panic");
    let text = payload.downcast_ref::<String>();
    text.expect("a message").clone()
}

#[tokio::test]
async fn a_database_in_a_folder_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let db = TestDb::<Shop>::on(&format!("odm:{}", folder.path().display())).await;
    insert_parts(&db).await;
    assert_eq!(files(), 1);
    odm::Database::<Shop>::clone(&db).close().await.unwrap();

    let reopened = odm::Database::<Shop>::open(db.url()).await.unwrap();
    assert_eq!(reopened.get::<Maker>(1).await.unwrap().parts, 6);
    reopened.close().await.unwrap();
    drop(db);
    assert_eq!(files(), 0);
}

#[tokio::test]
async fn budgets_count_operations() {
    let db = TestDb::<Shop>::new().await;
    insert_parts(&db).await;
    let parts = assert_queries!(
        db,
        2,
        db.find::<Part>().with(|p| p.maker()).all().await.unwrap()
    );
    assert_eq!(parts.len(), 12);
    assert_queries!(db, ..=1, db.find::<Part>().count().await.unwrap());
    assert_queries!(db, 1..=3, db.find::<Part>().count().await.unwrap());
    let renamed = db.update::<Maker>(1).set(|m| m.name(), "Apex");
    assert_writes!(db, 1, renamed.await.unwrap());

    let message = panic_message(async {
        assert_queries!(db, 1, {
            db.get::<Maker>(1).await.unwrap();
            db.find::<Part>()
                .filter(|p| p.id().eq(7))
                .all()
                .await
                .unwrap();
        });
    });
    let message = message.await;
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines[0], "number of queries: expected 1, found 2:");
    assert!(lines[1].starts_with("   1. find makers {") && lines[1].ends_with("limit 1 [get]"));
    assert!(lines[2].starts_with("   2. find parts {") && lines[2].contains('7'));
    assert!(lines[2].ends_with(" [find]"));
}

#[tokio::test]
async fn an_n_plus_one_query_panics() {
    let db = TestDb::<Shop>::new().await;
    insert_parts(&db).await;
    let read_each = |db: TestDb<Shop>| async move {
        for id in 0..12 {
            db.get::<Part>(id).await.unwrap();
        }
    };
    let message = panic_message(read_each(db)).await;
    assert!(
        message.starts_with("N+1 query: 10 queries of Part"),
        "{message}"
    );

    let db = TestDb::<Shop>::allowing_n_plus_one().await;
    insert_parts(&db).await;
    read_each(db).await;
}

#[tokio::test]
async fn fixtures_fill_managed_fields_and_reject_unknown_fields() {
    let db = TestDb::<Shop>::new().await;
    let makers = db.load::<NewMaker>(MAKERS).await;
    assert_eq!((makers[1].name.as_str(), makers[1].parts), ("Bolt", 0));
    let misspelled = r#"[{ "_id": 3, "name": "Cog", "parts": 7 }]"#;
    let message = panic_message(db.load::<NewMaker>(misspelled)).await;
    assert!(
        message.ends_with("fields that the type does not have: 0.parts"),
        "{message}"
    );
    let duplicate = r#"[{ "_id": 4, "name": "Acme" }]"#;
    let message = panic_message(db.load::<NewMaker>(duplicate)).await;
    assert!(
        message.starts_with("cannot insert the fixture"),
        "{message}"
    );
    assert_eq!(parse_fixture::<NewMaker>(MAKERS).len(), 2);
}

#[tokio::test]
async fn faults_reach_the_application() {
    let db = TestDb::<Shop>::new().await;
    insert_parts(&db).await;
    db.faults()
        .inject(1, Operation::is_query, Fault::lost_answer());
    let error = db.get::<Part>(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    db.get::<Part>(1).await.unwrap();
}

#[cfg(feature = "mongodb")]
#[tokio::test]
async fn a_server_database_is_dropped() {
    let server = odm_tests::mongod::replica_set().await;
    let url = server.url("");
    let db = TestDb::<Shop>::on(&url).await;
    let other = TestDb::<Shop>::on(&url).await;
    insert_parts(&db).await;
    assert_eq!(other.find::<Part>().count().await.unwrap(), 0);
    assert_eq!(db.get::<Maker>(1).await.unwrap().parts, 6);
    let database_url = db.url().to_owned();
    drop(db);
    let left = odm::backend::open(&database_url).await.unwrap();
    assert_eq!(left.list_collections().await.unwrap(), Vec::<String>::new());
}
