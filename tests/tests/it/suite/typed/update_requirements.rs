//! Requirements of updates: numbers within the range of the type, existing places, and null as a missing value.

use std::{collections::BTreeMap, fmt};

use odm::{
    Database, ErrorKind, Filter,
    action::Updated,
    backend::operation::InsertOperation,
    bson::{Bson, Decimal128, RawDocumentBuf, doc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Part {
    name: String,
    count: u32,
    spare: Option<u32>,
    #[embed(max = 3)]
    codes: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Meta {
    author: String,
    edits: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "items", version)]
struct Item {
    #[serde(rename = "_id")]
    id: i64,
    i8: i8,
    i16: i16,
    i32: i32,
    i64: i64,
    u8: u8,
    u16: u16,
    u32: u32,
    u64: u64,
    maybe: Option<u32>,
    small: Option<i32>,
    #[embed]
    meta: Option<Meta>,
    #[embed(max = 5)]
    parts: Vec<Part>,
    #[embed(max = 4)]
    tags: Option<Vec<String>>,
    #[embed]
    stock: BTreeMap<String, Part>,
    #[embed]
    scores: Option<BTreeMap<String, i32>>,
    version: i64,
}

/// An account with a computed field, so that each update becomes a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "accounts")]
struct Account {
    #[serde(rename = "_id")]
    id: i64,
    hits: i32,
    credits: i64,
    debits: u32,
    note: Option<i32>,
    #[embed(max = 3)]
    tags: Option<Vec<String>>,
    #[computed(hits * 2)]
    double: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Review {
    by: String,
    votes: u32,
    bonus: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "books")]
struct Book {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "book_reviews"))]
    reviews: Overflow<Review>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "prices")]
struct Price {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "odm::native")]
    amount: rust_decimal::Decimal,
    #[serde(with = "odm::native", default)]
    rebate: Option<rust_decimal::Decimal>,
}

#[derive(Schema)]
#[schema(models(Item, Account, Book, Price))]
struct Shop;
type Db = Database<Shop>;

fn part(name: &str, count: u32) -> Part {
    Part {
        name: name.into(),
        count,
        spare: None,
        codes: vec![1],
    }
}

fn item(id: i64) -> NewItem {
    NewItem {
        id,
        i8: i8::MAX,
        i16: i16::MAX,
        i32: i32::MAX,
        i64: i64::MAX,
        u8: 0,
        u16: 0,
        u32: 0,
        u64: 0,
        maybe: None,
        small: Some(i32::MIN),
        meta: None,
        parts: vec![part("a", 0), part("b", 5)],
        tags: None,
        stock: BTreeMap::from([("x".to_owned(), part("x", 0))]),
        scores: None,
    }
}

async fn db(fixture: &Fixture) -> Db {
    Db::with_backend(fixture.backend())
}

/// Asserts that the update fails with path and value, and changes no document.
async fn assert_rejected<T: fmt::Debug>(
    db: &Db,
    update: impl IntoFuture<Output = odm::Result<T>>,
    path: &str,
    says: &str,
) {
    let before = db
        .find::<Item>()
        .sort(|i| i.id().asc())
        .all()
        .await
        .unwrap();
    let error = update.await.expect_err(path);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(error.path(), Some(path), "{error}");
    assert!(error.to_string().contains(says), "{error}");
    // All items are still readable and unchanged.
    let after = db
        .find::<Item>()
        .sort(|i| i.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(after, before, "{error}");
}

fn applied(done: odm::Result<Updated>) -> bool {
    done.unwrap().is_applied()
}

pub async fn numbers_stay_in_their_range(fixture: Fixture) {
    let db = db(&fixture).await;
    let item = db.insert(item(1)).await.unwrap();
    db.insert(self::item(2)).await.unwrap();
    let update = || db.update::<Item>(1);
    assert_rejected(&db, update().inc(|i| i.i8(), 1), "i8", "127 + 1").await;
    assert_rejected(&db, update().inc(|i| i.i16(), 1), "i16", "32767 + 1").await;
    assert_rejected(&db, update().inc(|i| i.i32(), 1), "i32", "2147483647 + 1").await;
    assert_rejected(&db, update().mul(|i| i.i32(), 2), "i32", "2147483647 × 2").await;
    assert_rejected(&db, update().inc(|i| i.u32(), -1), "u32", "0 + -1").await;
    assert_rejected(&db, update().inc(|i| i.u64(), -1), "u64", "0 + -1").await;
    assert_rejected(
        &db,
        update().inc(|i| i.u32(), 1 << 32),
        "u32",
        "0 + 4294967296",
    )
    .await;
    assert_rejected(
        &db,
        update().inc(|i| i.maybe(), -1),
        "maybe",
        "0 (nothing is stored) + -1",
    )
    .await;
    assert_rejected(
        &db,
        update().inc(|i| i.small(), -1),
        "small",
        "-2147483648 + -1",
    )
    .await;
    let error = update().inc(|i| i.i64(), 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = update().mul(|i| i.i64(), -2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    // An increment out of range, combined with a valid change, in every kind of update.
    let both = || update().inc(|i| i.u8(), 1).inc(|i| i.u32(), -1);
    assert_rejected(&db, both(), "u32", "0 + -1").await;
    assert_rejected(&db, both().returning_after(), "u32", "0 + -1").await;
    assert_rejected(&db, both().when(|i| i.u8().eq(0)), "u32", "0 + -1").await;
    let first = db.update_first::<Item>(|i| i.u8().eq(0));
    assert_rejected(&db, first.inc(|i| i.u32(), -1), "u32", "0 + -1").await;
    let upsert = update().inc(|i| i.u32(), -1).or_insert(self::item(1));
    assert_rejected(&db, upsert, "u32", "0 + -1").await;
    // A false condition takes precedence over the range error.
    assert!(!applied(both().when(|i| i.u8().eq(9)).await));
    let missing = db.update::<Item>(9).inc(|i| i.u32(), -1).await;
    assert!(missing.unwrap_err().is_not_found());
    // Array elements and map values, by each selector.
    let elements = "parts.$[].count";
    assert_rejected(
        &db,
        update().inc(|i| i.parts().all().count(), -1),
        elements,
        "+ -1",
    )
    .await;
    let a = || update().inc(|i| i.parts().matching(|p| p.name().eq("a")).count(), -1);
    assert_rejected(&db, a(), elements, "+ -1").await;
    let at = update().inc(|i| i.parts().at(0).count(), -1);
    assert_rejected(&db, at, "parts.0.count", "0 + -1").await;
    let first = update().inc(
        |i| i.parts().first_matching(|p| p.name().eq("a")).count(),
        -1,
    );
    assert_rejected(&db, first, "parts.$.count", "+ -1").await;
    let of_key = update().inc(|i| i.stock().key("x").count(), -1);
    assert_rejected(&db, of_key, "stock.x.count", "0 + -1").await;
    // Element `b` has a count of five.
    let b = |by| update().inc(|i| i.parts().matching(|p| p.name().eq("b")).count(), by);
    assert!(applied(b(-5).await));
    assert_rejected(&db, b(-1), elements, "+ -1").await;
    assert!(applied(b(5).await));
    // If a single document fails, `update_many` changes no document.
    let id = |id: i64| db.update_many::<Item>(move |i| i.id().eq(id));
    assert!(applied(id(2).inc(|i| i.u32(), 1).await));
    let many = || db.update_many::<Item>(|_| Filter::all());
    assert_rejected(&db, many().inc(|i| i.u32(), -1), "u32", "0 + -1").await;
    for ordered in [true, false] {
        for write in [true, false] {
            let bulk = match write {
                true => db.bulk().add(update().inc(|i| i.u32(), -1)),
                false => db.bulk().add(many().inc(|i| i.u32(), -1)),
            };
            let bulk = if ordered { bulk } else { bulk.unordered() };
            let done = async { bulk.await?.into_result() };
            assert_rejected(&db, Box::pin(done), "u32", "0 + -1").await;
        }
    }
    if fixture.backend().capabilities().transactions {
        let done = db.transaction(|tx| async move {
            tx.update::<Item>(2).inc(|i| i.u8(), 1).await?;
            tx.update::<Item>(1).inc(|i| i.u32(), -1).await
        });
        assert_rejected(&db, done, "u32", "0 + -1").await;
    }
    // Results at the limits of the range are valid.
    let to_the_ends = update()
        .inc(|i| i.u8(), 255)
        .inc(|i| i.u16(), 65_535)
        .inc(|i| i.u32(), u32::MAX.into())
        .inc(|i| i.u64(), i64::MAX)
        .inc(|i| i.i8(), -1)
        .inc(|i| i.i16(), -32_767)
        .mul(|i| i.i32(), -1)
        .inc(|i| i.maybe(), 0)
        .inc(|i| i.small(), i32::MAX)
        .mul(|i| i.i64(), -1);
    let done = to_the_ends.returning_after().await.unwrap();
    let numbers = (done.i8, done.i16, done.i32, done.i64, done.small);
    assert_eq!(numbers, (126, 0, -i32::MAX, -i64::MAX, Some(-1)));
    let unsigned = (done.u8, done.u16, done.u32, done.u64, done.maybe);
    assert_eq!(unsigned, (255, 65_535, u32::MAX, i64::MAX as u64, Some(0)));
    assert_rejected(&db, update().inc(|i| i.u8(), 1), "u8", "255 + 1").await;
    assert_rejected(&db, update().mul(|i| i.u16(), 2), "u16", "65535 × 2").await;
    assert_rejected(&db, update().mul(|i| i.u32(), -1), "u32", "4294967295 × -1").await;
    assert_rejected(&db, update().mul(|i| i.i8(), 2), "i8", "126 × 2").await;
    assert!(applied(
        update().mul(|i| i.u32(), 0).mul(|i| i.i8(), 1).await
    ));
    assert!(item.version < done.version);
}

/// An update of a model with a computed field runs as a pipeline, which also checks the range.
pub async fn numbers_beside_computed_fields_stay_in_their_range(fixture: Fixture) {
    let db = db(&fixture).await;
    let account = NewAccount {
        id: 1,
        hits: i32::MAX,
        credits: i64::MAX,
        debits: 0,
        note: None,
        tags: None,
    };
    let before = db.insert(account).await.unwrap();
    let update = || db.update::<Account>(1);
    let refused = async |update: odm::action::Update<Account>, path: &str| {
        let error = update.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Invalid, Some(path)),
            "{error}"
        );
        assert_eq!(db.get::<Account>(1).await.unwrap(), before);
    };
    refused(update().inc(|a| a.hits(), 1), "hits").await;
    refused(update().inc(|a| a.credits(), 1), "credits").await;
    refused(update().mul(|a| a.credits(), 2), "credits").await;
    refused(update().inc(|a| a.debits(), -1), "debits").await;
    refused(
        update().inc(|a| a.hits(), -1).inc(|a| a.debits(), -1),
        "debits",
    )
    .await;
    let done = update().inc(|a| a.hits(), -1).mul(|a| a.credits(), -1);
    let done = done.returning_after().await.unwrap();
    assert_eq!((done.hits, done.credits), (i32::MAX - 1, -i64::MAX));
}

pub async fn updates_create_no_places(fixture: Fixture) {
    let db = db(&fixture).await;
    let stored = db.insert(item(1)).await.unwrap();
    let with = |id: i64| NewItem {
        meta: Some(Meta {
            author: "a".into(),
            edits: 1,
        }),
        tags: Some(vec!["x".into(), "y".into()]),
        ..item(id)
    };
    db.insert(with(2)).await.unwrap();
    let update = || db.update::<Item>(1);
    // Beyond the end of an array.
    assert!(!applied(
        update().set(|i| i.parts().at(3), part("d", 1)).await
    ));
    assert!(!applied(
        update().set(|i| i.parts().at(2).name(), "c").await
    ));
    assert!(!applied(update().inc(|i| i.parts().at(7).count(), 1).await));
    assert!(!applied(
        update().push(|i| i.parts().at(4).codes(), 2).await
    ));
    assert!(!applied(
        update().set(|i| i.parts().at(0).codes().at(1), 2).await
    ));
    assert!(!applied(update().set(|i| i.tags().at(0), "x").await));
    // In an absent optional struct, and under an absent key.
    assert!(!applied(update().set(|i| i.meta().author(), "x").await));
    assert!(!applied(update().inc(|i| i.meta().edits(), 1).await));
    assert!(!applied(
        update().set(|i| i.stock().key("y").name(), "y").await
    ));
    assert!(!applied(
        update().inc(|i| i.stock().key("y").count(), 1).await
    ));
    assert!(!applied(
        update().push(|i| i.stock().key("y").codes(), 1).await
    ));
    let given = update().set(|i| i.meta().author(), "x").returning_after();
    assert_eq!(given.await.unwrap_err().kind(), ErrorKind::NotApplied);
    assert_eq!(db.get::<Item>(1).await.unwrap(), stored);
    // Elements with the place are changed.
    let each = db
        .update::<Item>(1)
        .set(|i| i.parts().all().codes().at(0), 7);
    assert!(applied(each.await));
    let longer = update().push(|i| i.parts().at(1).codes(), 8);
    assert!(applied(longer.await));
    let second = update().set(|i| i.parts().all().codes().at(1), 9);
    assert!(applied(second.await));
    let parts = db.get::<Item>(1).await.unwrap().parts;
    assert_eq!(
        (&*parts[0].codes, &*parts[1].codes),
        (&[7][..], &[7, 9][..])
    );
    let first = update().set(
        |i| i.parts().first_matching(|p| p.name().ne("z")).codes().at(1),
        5,
    );
    assert!(applied(first.await));
    let parts = db.get::<Item>(1).await.unwrap().parts;
    assert_eq!(
        (&*parts[0].codes, &*parts[1].codes),
        (&[7][..], &[7, 5][..])
    );
    // Documents with the place are changed.
    let many = || db.update_many::<Item>(|_| Filter::all());
    assert_eq!(
        many()
            .set(|i| i.meta().author(), "m")
            .await
            .unwrap()
            .matched,
        1
    );
    assert_eq!(
        many().set(|i| i.tags().at(1), "t").await.unwrap().matched,
        1
    );
    let bulk = db
        .bulk()
        .add(update().inc(|i| i.meta().edits(), 1))
        .add(many().inc(|i| i.meta().edits(), 1));
    let report = bulk.await.unwrap().into_result().unwrap();
    assert_eq!((report.matched, report.results[0].is_applied()), (1, false));
    let second = db.get::<Item>(2).await.unwrap();
    let meta = second.meta.unwrap();
    assert_eq!((&*meta.author, meta.edits), ("m", 2));
    assert_eq!(second.tags.unwrap(), ["x", "t"]);
    // An upsert does not insert an existing document without the place.
    let upsert = update()
        .when(|i| i.u8().eq(0))
        .set(|i| i.meta().author(), "x")
        .or_insert(item(1));
    assert!(!upsert.await.unwrap().is_applied());
    // Setting the whole value makes the place.
    let complete = update()
        .set(|i| i.stock().key("y"), part("y", 1))
        .set(|i| i.scores().key("art"), 5)
        .set(
            |i| i.meta(),
            Meta {
                author: "b".into(),
                edits: 0,
            },
        );
    assert!(applied(complete.await));
    let embedded = update()
        .inc(|i| i.stock().key("y").count(), 1)
        .set(|i| i.meta().author(), "c");
    let now = embedded.returning_after().await.unwrap();
    assert_eq!((now.stock["y"].count, now.scores.unwrap()["art"]), (2, 5));
    assert_eq!(now.meta.unwrap().author, "c");
    // A field of an existing optional struct.
    let spare = update().set(|i| i.parts().at(0).spare(), 4);
    assert!(applied(spare.await));
}

/// Inserts two items. Item 1 stores `None` as null, and item 2 leaves the fields out.
async fn insert_null_and_missing(fixture: &Fixture, db: &Db) {
    db.delete_many::<Item>(|_| Filter::all()).await.unwrap();
    for id in [1, 2] {
        db.insert(item(id)).await.unwrap();
    }
    let backend = fixture.backend();
    let mut documents = Vec::new();
    for id in [1, 2] {
        let stored = db.edit::<Item>(id).await.unwrap();
        let mut raw = bson::serialize_to_document(&*stored).unwrap();
        let parts = raw.get_array_mut("parts").unwrap();
        let parts = parts.iter_mut().map(|part| part.as_document_mut().unwrap());
        let mut places: Vec<_> = parts.map(|part| (part, "spare")).collect();
        for (part, field) in &mut places {
            match id {
                1 => drop(part.insert(*field, Bson::Null)),
                _ => drop(part.remove(*field)),
            }
        }
        for field in ["maybe", "small", "meta", "tags", "scores"] {
            match id {
                1 => drop(raw.insert(field, Bson::Null)),
                _ => drop(raw.remove(field)),
            }
        }
        documents.push(RawDocumentBuf::try_from(&raw).unwrap());
    }
    db.delete_many::<Item>(|_| Filter::all()).await.unwrap();
    let insert = InsertOperation {
        collection: "items".into(),
        documents,
        ordered: true,
        origin: Default::default(),
    };
    backend.insert(insert).await.unwrap();
}

pub async fn null_is_a_missing_value(fixture: Fixture) {
    let db = db(&fixture).await;
    type Change = fn(odm::action::Update<Item>) -> odm::action::Update<Item>;
    type Check = fn(Item);
    let changes: [(&str, Change, Check); 15] = [
        (
            "inc",
            |u| u.inc(|i| i.maybe(), 3),
            |i| assert_eq!(i.maybe, Some(3)),
        ),
        (
            "mul",
            |u| u.mul(|i| i.maybe(), 3),
            |i| assert_eq!(i.maybe, Some(0)),
        ),
        (
            "min",
            |u| u.min(|i| i.maybe(), 3_u32),
            |i| assert_eq!(i.maybe, Some(3)),
        ),
        (
            "max",
            |u| u.max(|i| i.maybe(), 3_u32),
            |i| assert_eq!(i.maybe, Some(3)),
        ),
        (
            "two",
            |u| u.inc(|i| i.maybe(), 3).inc(|i| i.small(), -1),
            |i| {
                assert_eq!((i.maybe, i.small), (Some(3), Some(-1)));
            },
        ),
        (
            "push",
            |u| u.push(|i| i.tags(), "a"),
            |i| assert_eq!(i.tags.unwrap(), ["a"]),
        ),
        (
            "push_with",
            |u| {
                u.push_with(
                    |i| i.tags(),
                    ["b", "a"],
                    |p| p.sort(|t| t.asc()).keep_first(1),
                )
            },
            |i| {
                assert_eq!(i.tags.unwrap(), ["a"]);
            },
        ),
        (
            "add_to_set",
            |u| u.add_each_to_set(|i| i.tags(), ["a", "a"]),
            |i| assert_eq!(i.tags.unwrap(), ["a"]),
        ),
        (
            "pull",
            |u| u.pull(|i| i.tags(), "a"),
            |i| assert_eq!(i.tags, None),
        ),
        (
            "pull_where",
            |u| u.pull_where(|i| i.tags(), |t| t.eq("a")),
            |i| assert_eq!(i.tags, None),
        ),
        (
            "pop",
            |u| u.pop_last(|i| i.tags()),
            |i| assert_eq!(i.tags, None),
        ),
        (
            "key",
            |u| u.set(|i| i.scores().key("art"), 5),
            |i| assert_eq!(i.scores.unwrap()["art"], 5),
        ),
        (
            "inc of a key",
            |u| u.inc(|i| i.scores().key("art"), 5),
            |i| assert_eq!(i.scores.unwrap()["art"], 5),
        ),
        (
            "elements",
            |u| u.inc(|i| i.parts().all().spare(), 2),
            |i| {
                assert!(i.parts.iter().all(|part| part.spare == Some(2)));
            },
        ),
        (
            "an element",
            |u| u.inc(|i| i.parts().matching(|p| p.name().eq("b")).spare(), 2),
            |i| {
                assert_eq!((i.parts[0].spare, i.parts[1].spare), (None, Some(2)));
            },
        ),
    ];
    for (name, change, check) in changes {
        insert_null_and_missing(&fixture, &db).await;
        for id in [1, 2] {
            let version = db.get::<Item>(id).await.unwrap().version;
            let done = change(db.update::<Item>(id)).await;
            assert!(done.unwrap().is_applied(), "{name}, {id}");
            let now = db.get::<Item>(id).await.unwrap();
            assert_eq!(now.version, version + 1, "{name}, {id}");
            check(now);
        }
    }
    // Every kind of update treats null as a missing value.
    for form in 0..7 {
        insert_null_and_missing(&fixture, &db).await;
        for id in [1, 2] {
            let update = || {
                db.update::<Item>(id)
                    .inc(|i| i.maybe(), 3)
                    .push(|i| i.tags(), "a")
            };
            match form {
                0 => drop(update().returning_after().await.unwrap()),
                1 => assert!(applied(update().when(|i| i.u8().eq(0)).await)),
                2 => {
                    let upsert = update().or_insert(item(id));
                    assert!(matches!(
                        upsert.await.unwrap(),
                        odm::action::Upserted::Updated(_)
                    ));
                }
                3 => {
                    let first = db.update_first::<Item>(move |i| i.id().eq(id));
                    let first = first.inc(|i| i.maybe(), 3).push(|i| i.tags(), "a");
                    assert!(first.await.unwrap().is_applied());
                }
                4 => {
                    let bulk = db
                        .bulk()
                        .add(update())
                        .add(db.update::<Item>(id).inc(|i| i.u8(), 1));
                    let report = bulk.await.unwrap().into_result().unwrap();
                    assert_eq!((report.matched, report.modified), (2, 2));
                }
                5 => {
                    let first = update().inc(
                        |i| i.parts().first_matching(|p| p.name().eq("b")).spare(),
                        2,
                    );
                    assert!(applied(first.await));
                    assert_eq!(db.get::<Item>(id).await.unwrap().parts[1].spare, Some(2));
                }
                _ if id == 2 => {}
                _ => {
                    let many = db.update_many::<Item>(|_| Filter::all());
                    let many = many
                        .inc(|i| i.maybe(), 3)
                        .push(|i| i.tags(), "a")
                        .await
                        .unwrap();
                    assert_eq!((many.matched, many.modified), (2, 2));
                }
            }
            let now = db.get::<Item>(id).await.unwrap();
            assert_eq!(
                (now.maybe, &*now.tags.unwrap()),
                (Some(3), &["a".to_owned()][..]),
                "{form}, {id}"
            );
        }
    }
    // Updates of a model with a computed field treat null as a missing value, too.
    for note in [true, false] {
        let account = |id| NewAccount {
            id,
            hits: 0,
            credits: 0,
            debits: 0,
            note: None,
            tags: None,
        };
        let id = i64::from(note);
        db.insert(account(id)).await.unwrap();
        if !note {
            db.update::<Account>(id)
                .unset(|a| a.note())
                .unset(|a| a.tags())
                .await
                .unwrap();
        }
        let update = db
            .update::<Account>(id)
            .inc(|a| a.note(), 3)
            .push(|a| a.tags(), "a")
            .inc(|a| a.hits(), 2);
        let now = update.returning_after().await.unwrap();
        assert_eq!(
            (now.note, &*now.tags.unwrap(), now.double),
            (Some(3), &["a".to_owned()][..], 4)
        );
        let min = db
            .update::<Account>(id)
            .set(|a| a.note(), None)
            .min(|a| a.hits(), -1);
        min.await.unwrap();
        let now = db
            .update::<Account>(id)
            .min(|a| a.note(), 3)
            .returning_after()
            .await
            .unwrap();
        assert_eq!((now.note, now.double), (Some(3), -2));
    }
}

pub async fn elements_in_chunk_documents_stay_in_their_range(fixture: Fixture) {
    let db = db(&fixture).await;
    let review = |n: u32| Review {
        by: format!("reader {n}"),
        votes: n,
        bonus: None,
    };
    for id in [1, 2] {
        let reviews = (0..8).rev().map(review).collect::<Vec<_>>();
        db.insert(Book {
            id,
            reviews: reviews.into(),
        })
        .await
        .unwrap();
    }
    let all = async |id: i64| {
        db.get::<Book>(id)
            .elements(|b| b.reviews())
            .all()
            .await
            .unwrap()
    };
    let before = all(1).await;
    let update = || db.update::<Book>(1);
    let reader = |n: u32| format!("reader {n}");
    let refused = async |error: odm::Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.path(), Some("reviews.$[].votes"), "{error}");
        assert_eq!(all(1).await, before);
    };
    refused(
        update()
            .inc(|b| b.reviews().all().votes(), -1)
            .await
            .unwrap_err(),
    )
    .await;
    let last = update().inc(
        |b| b.reviews().matching(|r| r.by().eq(reader(0))).votes(),
        -1,
    );
    refused(last.await.unwrap_err()).await;
    let many = db.update_many::<Book>(|_| Filter::all());
    refused(
        many.inc(|b| b.reviews().all().votes(), -1)
            .await
            .unwrap_err(),
    )
    .await;
    let bulk = db
        .bulk()
        .add(update().inc(|b| b.reviews().all().votes(), -1));
    refused(bulk.await.unwrap().into_result().unwrap_err()).await;
    // Elements with enough votes are updated, resident or spilled.
    let some = update().inc(|b| b.reviews().matching(|r| r.votes().gte(1)).votes(), -1);
    assert!(applied(some.await));
    let votes: Vec<_> = all(1).await.iter().map(|review| review.votes).collect();
    assert_eq!(votes, [6, 5, 4, 3, 2, 1, 0, 0]);
    // Null counts as 0.
    assert!(applied(
        update().inc(|b| b.reviews().all().bonus(), 3).await
    ));
    assert!(all(1).await.iter().all(|review| review.bonus == Some(3)));
    let mut all = all(2).await.into_iter();
    assert!(all.all(|review| review.bonus.is_none()));
}

/// The server's decimal arithmetic can return more digits than the Rust type holds.
pub async fn decimals_can_be_read_again(fixture: Fixture) {
    use rust_decimal::{Decimal, dec};
    let db = db(&fixture).await;
    let price = |amount| Price {
        id: 1,
        amount,
        rebate: None,
    };
    db.insert(price(dec!(1.0000000000000000000000000001)))
        .await
        .unwrap();
    let update = || db.update::<Price>(1);
    // The stored result is rounded like a multiplication of the Rust type.
    let long = dec!(1.0000000000000000000000000001);
    assert!(applied(update().mul(|p| p.amount(), dec!(1.5)).await));
    assert_eq!(db.get::<Price>(1).await.unwrap().amount, long * dec!(1.5));
    update()
        .set(|p| p.amount(), dec!(10000000000))
        .await
        .unwrap();
    assert!(applied(
        update()
            .inc(|p| p.amount(), dec!(0.0000000000000000000000000001))
            .await
    ));
    assert_eq!(db.get::<Price>(1).await.unwrap().amount, dec!(10000000000));
    // Results beyond the range of the type are rejected.
    for (amount, by) in [(Decimal::MAX, dec!(1)), (Decimal::MIN, dec!(-1))] {
        update().set(|p| p.amount(), amount).await.unwrap();
        for error in [
            update().inc(|p| p.amount(), by).await.unwrap_err(),
            update().mul(|p| p.amount(), dec!(1.1)).await.unwrap_err(),
            update().mul(|p| p.amount(), dec!(-2)).await.unwrap_err(),
        ] {
            assert_eq!(
                (error.kind(), error.path()),
                (ErrorKind::Invalid, Some("amount")),
                "{error}"
            );
        }
        assert_eq!(db.get::<Price>(1).await.unwrap().amount, amount);
        assert!(applied(update().mul(|p| p.amount(), dec!(-1)).await));
        assert_eq!(db.get::<Price>(1).await.unwrap().amount, -amount);
    }
    assert!(applied(update().inc(|p| p.rebate(), dec!(2.5)).await));
    assert_eq!(db.get::<Price>(1).await.unwrap().rebate, Some(dec!(2.5)));
    // A stored decimal outside the range of the Rust type is a decode error.
    let decimal: Decimal128 = "1E+6144".parse().unwrap();
    let raw = RawDocumentBuf::try_from(&doc! { "_id": 2_i64, "amount": decimal }).unwrap();
    let insert = InsertOperation {
        collection: "prices".into(),
        documents: vec![raw],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    assert!(db.get::<Price>(2).await.unwrap_err().is_decode());
}
