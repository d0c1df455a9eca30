//! Copies of options, indexes and views that only MongoDB has.

use std::sync::Arc;

use bson::rawdoc;
use odm::{
    ErrorKind,
    backend::{
        Backend,
        operation::{CollectionDefinition, InsertOperation},
    },
};

use crate::Fixture;

async fn insert(db: &Arc<dyn Backend>, collection: &'static str, ids: std::ops::Range<i32>) {
    let insert = InsertOperation {
        collection: collection.into(),
        documents: ids
            .map(|id| rawdoc! { "_id": id, "n": 1, "text": "abc" })
            .collect(),
        ordered: true,
        origin: Default::default(),
    };
    db.insert(insert).await.unwrap();
}

fn definition(name: &str, options: bson::RawDocumentBuf) -> CollectionDefinition {
    CollectionDefinition {
        options,
        ..CollectionDefinition::new(name)
    }
}

/// Creates a collection with a validator, a collation and indexes of several kinds, and a view.
async fn create(db: &Arc<dyn Backend>) {
    let options = rawdoc! {
        "validator": { "n": { "$gt": 0 } }, "validationLevel": "moderate", "collation": { "locale": "de", "strength": 2 },
    };
    let things = CollectionDefinition {
        indexes: vec![
            rawdoc! { "key": { "text": "text" }, "name": "texts" },
            rawdoc! { "key": { "place": "2dsphere" }, "name": "places" },
            rawdoc! { "key": { "n": 1 }, "name": "plain" },
            rawdoc! { "key": { "n": -1 }, "name": "of_a_locale", "collation": { "locale": "fr" } },
            rawdoc! { "key": { "$**": 1 }, "name": "wild" },
        ],
        ..definition("things", options)
    };
    db.create_defined(things).await.unwrap();
    let view = CollectionDefinition {
        kind: "view".into(),
        ..definition(
            "view",
            rawdoc! { "viewOn": "things", "pipeline": [{ "$match": { "n": 1 } }] },
        )
    };
    db.create_defined(view).await.unwrap();
    insert(db, "things", 0..10).await;
}

#[tokio::test]
async fn servers_keep_all_options() {
    let from = Fixture::mongodb_replica_set().await.backend();
    create(&from).await;
    let to = Fixture::mongodb_replica_set().await.backend();
    let report = odm::copy(&from, &to).await.unwrap();
    assert!(report.skipped.is_empty());
    let (mut expected, mut actual) = (
        from.list_definitions().await.unwrap(),
        to.list_definitions().await.unwrap(),
    );
    for definition in expected.iter_mut().chain(&mut actual) {
        definition
            .indexes
            .sort_by_key(|index| index.get_str("name").unwrap().to_owned());
    }
    assert_eq!(expected, actual);
    assert_eq!(expected.len(), 2);
    assert_eq!(expected[0].indexes.len(), 5);
}

#[tokio::test]
async fn an_engine_refuses_or_skips_options() {
    let from = Fixture::mongodb_replica_set().await.backend();
    create(&from).await;
    let to = Fixture::engine_memory().await.backend();
    let error = odm::copy(&from, &to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.collection(), Some("things"));
    assert!(error.to_string().contains("`validator`"), "{error}");
    assert!(to.list_collections().await.unwrap().is_empty());

    let plan = odm::copy(&from, &to)
        .skip_unsupported()
        .plan()
        .await
        .unwrap();
    let report = odm::copy(&from, &to).skip_unsupported().await.unwrap();
    assert_eq!(plan.skipped, report.skipped);
    for skipped in [
        "things: the index `places`",
        "things: the index `texts`",
        "things: the option `collation`",
        "things: the option `validator`",
        "view: the view itself",
    ] {
        assert!(
            report.skipped.iter().any(|found| found == skipped),
            "{report}"
        );
    }
    let indexes = to.list_indexes("things").await.unwrap();
    assert!(
        indexes.iter().any(|index| index.name == "plain"),
        "{indexes:?}"
    );
    assert_eq!(to.list_collections().await.unwrap(), ["things"]);
}

#[tokio::test]
async fn a_capped_collection_needs_a_quiet_source() {
    let from = Fixture::mongodb_replica_set().await.backend();
    let capped = definition("log", rawdoc! { "capped": true, "size": 4_096, "max": 5 });
    from.create_defined(capped).await.unwrap();
    insert(&from, "log", 0..9).await;
    let to = Fixture::mongodb_standalone().await.backend();
    let error = odm::copy(&from, &to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`quiescent`"), "{error}");
    let report = odm::copy(&from, &to).quiescent().await.unwrap();
    assert_eq!(report.to_string(), "log: 5 documents, 0 indexes");
    assert_eq!(
        from.list_definitions().await.unwrap(),
        to.list_definitions().await.unwrap()
    );
}

#[tokio::test]
async fn time_series_are_refused() {
    let fixture = Fixture::mongodb_replica_set().await;
    let from = fixture.backend();
    let client = mongodb::Client::with_uri_str(fixture.url()).await.unwrap();
    let database = client.default_database().unwrap();
    let create = mongodb::bson::doc! { "create": "series", "timeseries": { "timeField": "at" } };
    database.run_command(create).await.unwrap();
    let to = Fixture::mongodb_replica_set().await.backend();
    let error = odm::copy(&from, &to).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.collection()),
        (ErrorKind::Unsupported, Some("series"))
    );
}

#[tokio::test]
async fn a_renamed_collection_ends_the_copy() {
    let fixture = Fixture::mongodb_replica_set().await;
    let from = fixture.backend();
    insert(&from, "things", 0..10).await;
    let client = mongodb::Client::with_uri_str(fixture.url()).await.unwrap();
    let name = client.default_database().unwrap().name().to_owned();
    let to = Fixture::engine_memory().await.backend();
    let rename = mongodb::bson::doc! {
        "renameCollection": format!("{name}.things"), "to": format!("{name}.others"),
    };
    let (renamed, end) = tokio::sync::oneshot::channel::<()>();
    let follows = tokio::sync::Notify::new();
    let copy = odm::copy(&from, &to).follow_until(async { drop(end.await) });
    let copy = copy.on_progress(|progress| {
        if progress.stage == odm::transfer::CopyStage::Follow {
            follows.notify_one();
        }
    });
    let change = async {
        follows.notified().await;
        client.database("admin").run_command(rename).await.unwrap();
        // The end of the copy may come first.
        let _ = renamed.send(());
    };
    let (copied, ()) = tokio::join!(copy.into_future(), change);
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Unsupported);
    let report = odm::copy(&from, &to).restart().await.unwrap();
    assert_eq!(report.to_string(), "others: 10 documents, 0 indexes");
}
