//! Upgrades of documents with an older schema version.

use std::{sync::Arc, time::Duration};

use odm::{
    Error, ErrorKind, Filter,
    action::BulkResult,
    backend::{
        Fault, Faults,
        operation::{InsertOperation, Operation},
    },
    bson::{self, RawDocumentBuf, doc},
    prelude::*,
};

use crate::Fixture;

/// Version 1 had a `name`. Version 2 had `first` and `last`. Version 3 replaces `mail` with the array `mails`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users", schema_version = 3, upgrade = upgrade_user, version)]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    first: String,
    last: String,
    #[embed(max = 5)]
    mails: Vec<String>,
    #[reference]
    friend: Option<Ref<User>>,
    version: i64,
}

fn upgrade_user(from: u32, user: &mut bson::Document) -> odm::Result<()> {
    if from < 2 {
        let name = user.remove("name");
        let name = name.as_ref().and_then(|name| name.as_str());
        let name = name.ok_or_else(|| Error::other("a user without a name"))?;
        let (first, last) = name.split_once(' ').unwrap_or((name, ""));
        user.extend(doc! { "first": first, "last": last });
    }
    let mail = user.remove("mail");
    user.insert("mails", mail.into_iter().collect::<Vec<_>>());
    Ok(())
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = User)]
struct Mails {
    mails: Vec<String>,
}

#[derive(Schema)]
#[schema(models(User))]
struct Site;
type Db = odm::Database<Site>;

fn user(id: i64, first: &str, last: &str, mails: &[&str]) -> NewUser {
    NewUser {
        id,
        first: first.into(),
        last: last.into(),
        mails: mails.iter().map(|&mail| mail.into()).collect(),
        friend: None,
    }
}

fn of_version_1(id: i64, name: &str) -> bson::Document {
    doc! { "_id": id, "name": name, "mail": format!("{id}@a"), "friend": 3_i64, "other": "kept", "version": 4_i64 }
}

fn of_version_2(id: i64) -> bson::Document {
    doc! { "_id": id, "first": "kim", "last": "lee", "mail": "k@a", "version": 1_i64, "_odm": { "schema_version": 2, "x": 1 } }
}

async fn insert_raw(db: &Db, documents: impl IntoIterator<Item = bson::Document>) {
    let documents = documents
        .into_iter()
        .map(|document| RawDocumentBuf::try_from(&document));
    let insert = InsertOperation {
        collection: "users".into(),
        documents: documents.collect::<Result<_, _>>().unwrap(),
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
}

async fn read_raw(db: &Db, id: i64) -> bson::Document {
    let find = odm::backend::operation::FindOperation {
        collection: "users".into(),
        filter: bson::rawdoc! { "_id": id },
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let cursor = db.backend().find(find).await.unwrap();
    let stored = odm::backend::read_to_end(cursor).await.unwrap().remove(0);
    bson::Document::try_from(&stored).unwrap()
}

/// Inserts two documents of version 1, one of version 2 and one of the current version.
async fn database_of_mixed_versions(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    insert_raw(
        &db,
        [
            of_version_1(1, "ann ray"),
            of_version_1(2, "bob"),
            of_version_2(3),
        ],
    )
    .await;
    db.insert(user(4, "zoe", "zed", &["z@a"])).await.unwrap();
    db
}

pub async fn reads_upgrade_documents(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    let before = read_raw(&db, 1).await;
    let ann = db.get::<User>(1).await.unwrap();
    assert_eq!((ann.first.as_str(), ann.last.as_str()), ("ann", "ray"));
    assert_eq!(
        (ann.mails.as_slice(), ann.version),
        (&["1@a".to_owned()][..], 4)
    );
    let all = db
        .find::<User>()
        .sort(|u| u.id().asc())
        .with(|u| u.friend())
        .all()
        .await
        .unwrap();
    let names: Vec<_> = all.iter().map(|(user, _)| user.first.as_str()).collect();
    assert_eq!(names, ["ann", "bob", "kim", "zoe"]);
    // Joins upgrade both the joined and the joining documents.
    let friend = all[0].1.as_ref().unwrap().loaded().unwrap();
    assert_eq!((friend.first.as_str(), friend.mails.len()), ("kim", 1));
    let mut rows = db
        .find::<User>()
        .sort(|u| u.id().asc())
        .select::<Mails>()
        .stream();
    assert_eq!(rows.next().await.unwrap().unwrap().mails, ["1@a"]);
    let page = db.find::<User>().page(2).await.unwrap();
    assert_eq!(page.items.len(), 2);
    // Reads write no upgrade back.
    assert_eq!(read_raw(&db, 1).await, before);
    assert_eq!(
        read_raw(&db, 4).await.get_document("_odm").unwrap(),
        &doc! { "schema_version": 3_i64 }
    );
}

pub async fn a_write_upgrades_its_document_first(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    db.update::<User>(1)
        .when(|u| u.first().eq("ann") & u.mails().contains("1@a"))
        .push(|u| u.mails(), "new@a")
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    let expected = doc! {
        "_id": 1_i64, "friend": 3_i64, "other": "kept", "version": 5_i64, "first": "ann", "last": "ray", "mails": ["1@a", "new@a"],
        "_odm": { "schema_version": 3_i64 },
    };
    assert_eq!(read_raw(&db, 1).await, expected);
    // Document 2 is unchanged. The upgrade of document 3 keeps existing fields under `_odm`.
    assert!(read_raw(&db, 2).await.contains_key("name"));
    let kim = db
        .update::<User>(3)
        .set(|u| u.last(), "ray")
        .returning_after()
        .await
        .unwrap();
    assert_eq!(
        (kim.first.as_str(), kim.last.as_str(), kim.mails.len()),
        ("kim", "ray", 1)
    );
    let metadata = doc! { "schema_version": 3_i64, "x": 1 };
    assert_eq!(
        read_raw(&db, 3).await.get_document("_odm").unwrap(),
        &metadata
    );
    let mut bob = db.edit::<User>(2).await.unwrap();
    bob.last = "last".into();
    db.save(&mut bob).await.unwrap();
    assert_eq!(bob.version, 5);
    let bob = read_raw(&db, 2).await;
    let text = |name| bob.get_str(name).unwrap();
    assert_eq!((text("last"), text("other")), ("last", "kept"));
    assert!(!bob.contains_key("name") && !bob.contains_key("mail"));
}

pub async fn update_many_sees_upgraded_documents(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    let done = db
        .update_many::<User>(|u| u.mails().ne("z@a"))
        .set(|u| u.last(), "same")
        .await
        .unwrap();
    assert_eq!((done.matched, done.modified), (3, 3));
    let db = {
        db.delete_many::<User>(|_| Filter::all()).await.unwrap();
        db
    };
    insert_raw(&db, (1..=250).map(|id| of_version_1(id, "ann ray"))).await;
    let report = db
        .bulk()
        .add(db.update::<User>(7).set(|u| u.first(), "bob"))
        .add(db.delete_many::<User>(|u| u.first().eq("ann") & u.id().gt(200)))
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!((report.matched, report.deleted), (1, 50));
    let deleted = db
        .delete_first::<User>(|u| u.first().eq("bob"))
        .await
        .unwrap();
    assert_eq!(deleted.expect_applied().unwrap().into_id(), 7);
}

pub async fn a_job_upgrades_the_rest(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    insert_raw(&db, (10..260).map(|id| of_version_1(id, "ann ray"))).await;
    insert_raw(
        &db,
        [doc! { "_id": 5_i64, "mail": "nobody" }, of_newer_version(6)],
    )
    .await;
    // Three concurrent jobs, during concurrent writes.
    let jobs = (0..3).map(|_| db.upgrade::<User>().into_future());
    let writer = async {
        for id in 10..60 {
            db.update::<User>(id)
                .set(|u| u.last(), "new")
                .await
                .unwrap();
        }
    };
    let (reports, ()) = futures_util::join!(futures_util::future::join_all(jobs), writer);
    for report in reports {
        let report = report.unwrap();
        let failed: Vec<_> = report
            .failed
            .iter()
            .map(|error| error.id().cloned())
            .collect();
        assert_eq!(failed, [Some(5_i64.into()), Some(6_i64.into())]);
    }
    for id in [1, 2, 3, 10, 59, 259] {
        let upgraded = read_raw(&db, id).await;
        let metadata = upgraded.get_document("_odm").unwrap();
        assert_eq!(metadata.get_i64("schema_version").unwrap(), 3, "{upgraded}");
        assert_eq!(
            upgraded.get_str("last").unwrap() == "new",
            (10..60).contains(&id),
            "{upgraded}"
        );
    }
    let second = db.upgrade::<User>().await.unwrap();
    assert_eq!((second.upgraded, second.failed.len()), (0, 2));
    // The index finds outdated documents without a scan of current documents.
    let declared = db.backend().list_indexes("users").await.unwrap();
    assert!(
        declared
            .iter()
            .any(|index| index.name == "_odm.schema_version_1"),
        "{declared:?}"
    );
}

fn of_newer_version(id: i64) -> bson::Document {
    doc! { "_id": id, "_odm": { "schema_version": 4 } }
}

pub async fn a_failed_upgrade_is_an_error_of_its_document(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    insert_raw(
        &db,
        [doc! { "_id": 5_i64, "mail": "nobody" }, of_newer_version(6)],
    )
    .await;
    insert_raw(
        &db,
        [doc! { "_id": 7_i64, "_odm": { "schema_version": "?" } }],
    )
    .await;
    let newer = db.get::<User>(6).await.unwrap_err();
    assert!(
        newer.is_decode() && newer.to_string().contains("version 4"),
        "{newer}"
    );
    assert_eq!(
        (newer.model(), newer.id()),
        (Some("User"), Some(&6_i64.into()))
    );
    assert_eq!(
        db.get::<User>(7).await.unwrap_err().path(),
        Some("_odm.schema_version")
    );
    let mut rows = db.find::<User>().sort(|u| u.id().asc()).stream();
    let mut read = Vec::new();
    while let Some(row) = rows.next().await {
        read.push(row.is_ok());
    }
    assert_eq!(read, [true, true, true, true, false, false, false]);
    // Writes to such a document fail and leave the document unchanged.
    for id in [5, 6, 7] {
        let before = read_raw(&db, id).await;
        db.update::<User>(id)
            .set(|u| u.last(), "new")
            .await
            .unwrap_err();
        db.delete::<User>(id).await.unwrap_err();
        db.edit::<User>(id).await.unwrap_err();
        assert_eq!(read_raw(&db, id).await, before);
    }
    let error = db
        .update_many::<User>(|_| Filter::all())
        .set(|u| u.last(), "new")
        .await
        .unwrap_err();
    assert_eq!(error.id(), Some(&5_i64.into()), "{error}");
    assert_eq!(db.get::<User>(4).await.unwrap().last, "zed");
    assert_eq!(
        db.update::<User>(8)
            .set(|u| u.last(), "")
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

pub async fn a_transaction_upgrades_within_itself(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let before = read_raw(&db, 1).await;
    let failed: odm::Result<()> = db
        .transaction(|tx| async move {
            tx.update::<User>(1).set(|u| u.last(), "new").await?;
            assert_eq!(tx.get::<User>(1).await?.last, "new");
            Err(Error::other("no"))
        })
        .await;
    failed.unwrap_err();
    assert_eq!(read_raw(&db, 1).await, before);
}

/// A dropped job leaves each document either upgraded or unchanged. The next job upgrades the rest.
pub async fn a_job_that_is_dropped_is_run_again(fixture: Fixture) {
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    insert_raw(&db, (1..=40).map(|id| of_version_1(id, "ann ray"))).await;
    let outdated = doc! { "_id": 1_i64, "name": "ann ray" };
    let mut upgraded = 0;
    for nth in [1, 7, 20] {
        faults.inject(
            nth,
            Operation::is_write,
            Fault::Delay(Duration::from_secs(5)),
        );
        let job = db.upgrade::<User>().into_future();
        let dropped = tokio::time::timeout(Duration::from_millis(300), job).await;
        assert!(dropped.is_err(), "{dropped:?}");
        let mut marked = 0;
        for id in 1..=40 {
            let now = read_raw(&db, id).await;
            let is_marked = now.contains_key("_odm");
            assert_eq!(now.contains_key("name"), !is_marked, "{now}");
            assert_eq!(now.contains_key("mails"), is_marked, "{now}");
            assert_eq!(now.get_str("other").unwrap(), "kept");
            marked += u64::from(is_marked);
        }
        assert!(marked > upgraded || nth == 1, "{marked} of {outdated}");
        upgraded = marked;
    }
    let report = db.upgrade::<User>().await.unwrap();
    assert!(report.failed.is_empty(), "{report:?}");
    assert_eq!(db.upgrade::<User>().await.unwrap().upgraded, 0);
    for id in 1..=40 {
        assert_eq!(read_raw(&db, id).await.get_i64("version").unwrap(), 4);
    }
}

/// In a bulk, a failed upgrade fails only the write of its document.
pub async fn a_bulk_fails_where_an_upgrade_does(fixture: Fixture) {
    let db = database_of_mixed_versions(&fixture).await;
    insert_raw(&db, [doc! { "_id": 5_i64, "mail": "nobody" }]).await;
    let writes = || {
        let bulk = db.bulk();
        let bulk = [1, 5, 3].into_iter().fold(bulk, |bulk, id| {
            bulk.add(db.update::<User>(id).set(|u| u.last(), "new"))
        });
        bulk.add(db.delete::<User>(5))
            .add(db.insert(user(9, "kim", "lee", &[])))
    };
    let report = writes().unordered().await.unwrap();
    let failed: Vec<_> = report.failures().map(|(at, _)| at).collect();
    assert_eq!(
        (failed, report.modified, report.inserted),
        (vec![1, 3], 2, 1)
    );
    let (_, first) = report.failures().next().unwrap();
    assert_eq!(
        (first.model(), first.id()),
        (Some("User"), Some(&5_i64.into()))
    );
    assert_eq!(db.get::<User>(3).await.unwrap().last, "new");
    let report = writes().await.unwrap();
    assert!(report.results[0].is_applied());
    assert!(report.results[1].error().is_some());
    assert!(matches!(
        report.results[2..],
        [
            BulkResult::NotAttempted,
            BulkResult::NotAttempted,
            BulkResult::NotAttempted
        ]
    ));
}

/// A value that loses precision in storage is returned as stored. The upgrade must not run on the stored document.
pub async fn rounded_values_are_not_upgraded(fixture: Fixture) {
    let db = odm::Database::<Inn>::with_backend(fixture.backend());
    let from = chrono::TimeZone::timestamp_nanos(&chrono::Utc, 1_767_312_000_123_456_789);
    let rounded = chrono::TimeZone::timestamp_nanos(&chrono::Utc, 1_767_312_000_123_000_000);
    let inserted = db.insert(Stay { id: 1, from }).await.unwrap();
    assert_eq!(inserted.from, rounded);
    let mut edited = db.edit::<Stay>(1).await.unwrap();
    edited.from = from + chrono::Duration::days(1);
    db.save(&mut edited).await.unwrap();
    assert_eq!(edited.from, rounded + chrono::Duration::days(1));
    let answer = db
        .update::<Stay>(2)
        .set(|s| s.from(), from)
        .or_insert(Stay { id: 2, from });
    assert!(answer.await.unwrap().is_inserted());
    assert_eq!(db.get::<Stay>(2).await.unwrap().from, rounded);
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "stays", schema_version = 2, upgrade = upgrade_stay)]
struct Stay {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "odm::native")]
    from: chrono::DateTime<chrono::Utc>,
}

/// An upgrade that must never run, because no document of the test has version 1.
fn upgrade_stay(_: u32, stay: &mut bson::Document) -> odm::Result<()> {
    stay.insert("from", DateTime::from_millis(0));
    Ok(())
}

#[derive(Schema)]
#[schema(models(Stay))]
struct Inn;
