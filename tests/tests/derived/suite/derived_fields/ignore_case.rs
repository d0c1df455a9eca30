//! Indexes that ignore the case of texts: the caseless texts follow each write, and serve filters and uniqueness.

use odm::{
    ErrorKind, Pattern,
    backend::operation::{DocumentChange, InsertOperation, UpdateOperation},
    bson::{Bson, Document as BsonDocument, RawDocumentBuf, rawdoc},
    check::FindingKind,
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users", version)]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique, ignore_case)]
    #[serde(rename = "email")]
    mail: String,
    #[index(ignore_case, unique, sparse)]
    nick: Option<String>,
    alias: Option<String>,
    /// The database computes the field, so an update of `mail` becomes a pipeline.
    #[computed(lower(mail))]
    lower: String,
    version: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "members", scope = tenant, index(tenant, ignore_case(name); unique))]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    name: String,
}

/// A model with an upgrade. Version 2 has another name for a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "places", schema_version = 2, upgrade = move_name)]
struct City {
    #[serde(rename = "_id")]
    id: i64,
    #[index(ignore_case)]
    name: String,
}

fn move_name(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
    if let Some(title) = document.remove("title") {
        document.insert("name", title);
    }
    Ok(())
}

#[derive(Schema)]
#[schema(models(User, Member, City))]
struct Site;
type Db = odm::Database<Site>;

fn user(id: i64, mail: &str) -> NewUser {
    NewUser {
        id,
        mail: mail.to_owned(),
        nick: None,
        alias: None,
    }
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

async fn insert_without_odm(fixture: &Fixture, collection: &'static str, document: RawDocumentBuf) {
    let insert = InsertOperation {
        collection: collection.into(),
        documents: vec![document],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
}

/// Returns the ids of the users with a mail address, by the index and by the pattern alone.
async fn find_by_mail(db: &Db, mail: &str) -> Vec<i64> {
    let by_index = db.find::<User>().filter(|u| u.mail().eq_ignore_case(mail));
    let by_index = by_index.sort(|u| u.id().asc()).all().await.unwrap();
    let pattern = Pattern::exact(mail).ignore_case();
    let by_pattern = db.find::<User>().filter(|u| u.mail().matches(pattern));
    let by_pattern = by_pattern.sort(|u| u.id().asc()).all().await.unwrap();
    assert_eq!(by_index, by_pattern, "{mail}");
    by_index.into_iter().map(|user| user.id).collect()
}

pub async fn texts_are_found_without_case_after_each_write(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(user(1, "Jane@Example.org")).await.unwrap();
    db.insert_many([
        user(2, "Ärger$.*"),
        user(3, "Straße"),
        user(4, "\u{212A}elvin"),
    ])
    .await
    .unwrap();
    assert_eq!(find_by_mail(&db, "jane@EXAMPLE.org").await, [1]);
    assert_eq!(find_by_mail(&db, "äRGER$.*").await, [2]);
    // The caseless form of `ß` is `ss`, and `ß` is not equal to `ss`.
    assert_eq!(find_by_mail(&db, "STRAẞE").await, [3]);
    assert_eq!(find_by_mail(&db, "strasse").await, [0_i64; 0]);
    assert_eq!(find_by_mail(&db, "Kelvin").await, [4]);
    assert_eq!(find_by_mail(&db, "jane@example.or").await, [0_i64; 0]);

    let found = db.find::<User>();
    let found = found.filter(|u| u.mail().starts_with_ignore_case("JANE@"));
    let explain = found.clone().explain().await.unwrap();
    assert_eq!(explain.indexes, ["_odm.caseless.email_1"], "{explain:?}");
    assert!(explain.documents_examined <= 1, "{explain:?}");
    assert_eq!(found.one().await.unwrap().id, 1);
    let explain = db.find::<User>();
    let explain = explain.filter(|u| u.mail().eq_ignore_case("JANE@example.org"));
    let explain = explain.explain().await.unwrap();
    assert_eq!(explain.indexes, ["_odm.caseless.email_1"], "{explain:?}");
    let others = db.find::<User>();
    let others = others.filter(|u| !u.mail().starts_with_ignore_case("j"));
    assert_eq!(others.count().await.unwrap(), 3);

    db.update::<User>(1).set(|u| u.mail(), "NEW").await.unwrap();
    assert_eq!(find_by_mail(&db, "new").await, [1]);
    db.modify::<User>(2, |user| user.mail = "Saved".into())
        .await
        .unwrap();
    assert_eq!(find_by_mail(&db, "sAVED").await, [2]);
    let bulk = db
        .bulk()
        .add(db.insert(user(5, "Bulk")))
        .add(db.update::<User>(3).set(|u| u.mail(), "Bulk 3"));
    let report = bulk.await.unwrap().into_result().unwrap();
    assert_eq!(report.inserted, 1);
    assert_eq!(find_by_mail(&db, "bULK 3").await, [3]);
    assert_eq!(find_by_mail(&db, "BULK").await, [5]);
    for (id, is_new) in [(6, true), (4, false)] {
        let upsert = db.update::<User>(id).set(|u| u.mail(), "Updated");
        let upserted = upsert.or_insert(user(id, "Inserted")).await.unwrap();
        assert_eq!(upserted.is_inserted(), is_new);
    }
    assert_eq!(find_by_mail(&db, "INSERTED").await, [6]);
    assert_eq!(find_by_mail(&db, "updated").await, [4]);
    db.update_many::<User>(|u| u.id().lte(2))
        .set(|u| u.alias(), "x")
        .await
        .unwrap();
    let by_nick = async |nick: &str| {
        let found = db.find::<User>().filter(|u| u.nick().eq_ignore_case(nick));
        let found = found.first().await.unwrap();
        found.map(|user| user.id)
    };
    db.update::<User>(1).set(|u| u.nick(), "Red").await.unwrap();
    assert_eq!(by_nick("rED").await, Some(1));
    db.update::<User>(1).unset(|u| u.nick()).await.unwrap();
    db.update::<User>(2).set(|u| u.nick(), "RED").await.unwrap();
    assert_eq!(by_nick("red").await, Some(2));
    db.modify::<User>(2, |user| user.nick = None).await.unwrap();
    assert_eq!(by_nick("red").await, None);
    assert!(db.check().await.unwrap().is_clean());
}

pub async fn unique_texts_ignore_case(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(user(1, "Jane")).await.unwrap();
    db.insert(user(2, "Joe")).await.unwrap();
    let inserted = db.insert(user(3, "JANE")).await;
    let updated = db.update::<User>(2).set(|u| u.mail(), "jANE").await;
    for error in [inserted.unwrap_err(), updated.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
        assert_eq!(error.path(), Some("email"), "{error}");
        assert_eq!(error.index(), Some("_odm.caseless.email_1"));
    }
    // A document without a nick is outside of the sparse index.
    db.update::<User>(1).set(|u| u.nick(), "Red").await.unwrap();
    let error = db.update::<User>(2).set(|u| u.nick(), "red").await;
    assert!(error.unwrap_err().is_duplicate_key());
    // Each tenant has names of its own.
    let member = |id: i64, tenant: &str, name: &str| {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        let session = db.scope(&tenant);
        async move { session.insert(NewMember { id, name }).await }
    };
    member(1, "a", "Ann").await.unwrap();
    member(2, "b", "ANN").await.unwrap();
    let error = member(3, "a", "aNN").await.unwrap_err();
    assert_eq!(error.path(), Some("name"), "{error}");
    let tenant = "b".to_owned();
    let session = db.scope(&tenant);
    let ann = session.find::<Member>();
    let ann = ann.filter(|m| m.name().eq_ignore_case("ann"));
    assert_eq!(ann.one().await.unwrap().id, 2);
}

/// Two concurrent inserts of texts that differ only in case: one fails.
pub async fn concurrent_inserts_of_one_text_conflict(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    for round in 0..10 {
        let text = format!("user {round}");
        let (first, second) = tokio::join!(
            db.insert(user(round * 2, &text)).into_future(),
            db.insert(user(round * 2 + 1, &text.to_uppercase()))
                .into_future(),
        );
        assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1);
        assert_eq!(find_by_mail(&db, &text).await.len(), 1);
    }
}

pub async fn an_update_of_an_unknown_text_is_refused(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(user(1, "Jane")).await.unwrap();
    db.update::<User>(1).set(|u| u.alias(), "x").await.unwrap();
    for (from, to) in [(true, false), (false, true)] {
        let renamed = db.update::<User>(1);
        let renamed = match (from, to) {
            (true, _) => renamed.rename(|u| u.nick(), |u| u.alias()),
            _ => renamed.rename(|u| u.alias(), |u| u.nick()),
        };
        let error = renamed.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(error.path(), Some("nick"), "{error}");
        assert!(
            error.to_string().contains("use `set`, or `modify`"),
            "{error}"
        );
    }
    assert_eq!(db.get::<User>(1).await.unwrap().alias.as_deref(), Some("x"));
}

/// Documents of a program without the indexes have no caseless texts, and are no duplicates of each other.
pub async fn older_documents_are_no_duplicates(fixture: Fixture) {
    let insert_older = async |ids: [i64; 2]| {
        for id in ids {
            let user = rawdoc! { "_id": id, "email": format!("M{id}"), "nick": null, "alias": null, "lower": format!("m{id}"), "version": 1_i64 };
            insert_without_odm(&fixture, "users", user).await;
            let member = rawdoc! { "_id": id, "tenant": "acme", "name": format!("N{id}") };
            insert_without_odm(&fixture, "members", member).await;
        }
    };
    insert_older([1, 2]).await;
    let db = open_with_indexes(&fixture).await;
    insert_older([3, 4]).await;
    db.repair().apply().await.unwrap();
    let found = db.find::<User>().filter(|u| u.mail().eq_ignore_case("m3"));
    assert_eq!(found.one().await.unwrap().id, 3);
    let error = db.insert(user(5, "m4")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    let acme = db.scope(&"acme".to_owned());
    let found = acme
        .find::<Member>()
        .filter(|m| m.name().eq_ignore_case("n4"));
    assert_eq!(found.one().await.unwrap().id, 4);
    let explain = acme
        .find::<Member>()
        .filter(|m| m.name().eq_ignore_case("n4"));
    assert!(!explain.explain().await.unwrap().is_collection_scan);
    let same = NewMember {
        id: 5,
        name: "n4".into(),
    };
    let error = acme.insert(same).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
}

pub async fn the_check_finds_and_the_repair_adds_caseless_texts(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert(user(1, "Jane")).await.unwrap();
    // A document of a program without the index.
    let older = rawdoc! { "_id": 2_i64, "email": "JOE", "nick": null, "alias": null, "lower": "joe", "version": 1_i64 };
    insert_without_odm(&fixture, "users", older).await;
    let change = UpdateOperation {
        collection: "users".into(),
        filter: rawdoc! { "_id": 1_i64 },
        change: DocumentChange::operators(
            rawdoc! { "$set": { "email": "Ann", "lower": "ann", "_odm.caseless.nick": "x" } },
        ),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(change).await.unwrap();
    assert_eq!(
        db.backfills().await.unwrap()[0].fields,
        ["_odm.caseless.email", "_odm.caseless.nick", "lower"]
    );
    let report = db.check().await.unwrap();
    let found = report.findings.iter().map(|finding| {
        let FindingKind::WrongComputedField { actual, expected } = &finding.kind else {
            panic!("{finding}");
        };
        let expected = expected.as_deref().cloned();
        (
            finding.id.clone(),
            &*finding.path,
            (**actual).clone(),
            expected,
        )
    });
    let text = |text: &str| Bson::String(text.to_owned());
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            (
                Bson::Int64(1),
                "_odm.caseless.email",
                text("jane"),
                Some(text("ann"))
            ),
            (
                Bson::Int64(1),
                "_odm.caseless.nick",
                text("x"),
                Some(Bson::Null)
            ),
            (
                Bson::Int64(2),
                "_odm.caseless.email",
                Bson::Null,
                Some(text("joe"))
            ),
        ]
    );
    db.repair().apply().await.unwrap();
    assert!(db.check().await.unwrap().is_clean());
    assert_eq!(db.backfills().await.unwrap(), []);
    assert_eq!(find_by_mail(&db, "joe").await, [2]);
    assert_eq!(find_by_mail(&db, "ANN").await, [1]);
}

pub async fn an_upgrade_adds_caseless_texts(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    for id in [1, 2] {
        let older = rawdoc! { "_id": id, "title": "BERN" };
        insert_without_odm(&fixture, "places", older).await;
    }
    // A write upgrades the document first.
    db.modify::<City>(1, |city| city.name = "Basel".into())
        .await
        .unwrap();
    assert_eq!(db.upgrade::<City>().await.unwrap().upgraded, 1);
    for (name, id) in [("basel", 1), ("bern", 2)] {
        let found = db.find::<City>().filter(|c| c.name().eq_ignore_case(name));
        assert_eq!(found.one().await.unwrap().id, id);
    }
    let name = "BASEL".to_owned();
    db.insert(City { id: 3, name }).await.unwrap();
    let all = db
        .find::<City>()
        .filter(|c| c.name().starts_with_ignore_case("bAs"));
    assert_eq!(all.count().await.unwrap(), 2);
}
