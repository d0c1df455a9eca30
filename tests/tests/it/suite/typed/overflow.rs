//! Arrays that overflow: the first elements are in their document, the others in documents of another collection.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use odm::{
    ErrorKind, Filter, Session,
    backend::{
        Fault as CrashFault, Faults, Recorder,
        operation::{Change, Delete, Find, Insert, Operation, Update},
    },
    bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    check::{Fault, RepairOutcome},
    prelude::*,
};

use crate::Fixture;
use crate::crash::{Crashes, Write};

/// S10, with fewer customers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
struct Book {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    copies: i64,
    #[embed(overflow(after = 3, into = "extra_sales", owner = "book_id"))]
    customers_purchased: Overflow<String>,
}

/// Of embedded structs, and by other names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts", timestamps)]
#[serde(rename_all = "camelCase")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(
        after = 2,
        into = "moreComments",
        owner = "post",
        seq = "number",
        elements = "rest",
        flag = "more"
    ))]
    all_comments: Overflow<Comment>,
    created_at: DateTime,
    updated_at: DateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Comment {
    who: String,
    votes: i64,
}

/// Of tenants, and deleted by a mark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "threads", scope = tenant, soft_delete, version)]
struct Thread {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    #[embed(overflow(after = 2, into = "more_replies", owner = "thread"))]
    replies: Overflow<String>,
    version: i64,
    deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Book, Post, Thread))]
struct Shop;
type Db = odm::Database<Shop>;

fn book(id: i64, customers: impl IntoIterator<Item = usize>) -> Book {
    Book {
        id,
        title: format!("book {id}"),
        copies: 0,
        customers_purchased: customers.into_iter().map(user).collect(),
    }
}

fn user(number: usize) -> String {
    format!("u{number}")
}

fn users(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(user).collect()
}

async fn fresh(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

async fn customers(db: &Db, id: i64) -> Vec<String> {
    let all = db.get::<Book>(id).elements(|b| b.customers_purchased());
    all.all().await.unwrap()
}

async fn is_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    let owed = db.owed().await.unwrap();
    assert!(owed.is_empty(), "{owed}");
}

async fn raw(
    fixture: &Fixture,
    collection: &'static str,
    sort: RawDocumentBuf,
) -> Vec<BsonDocument> {
    let find = Find {
        collection: collection.into(),
        filter: rawdoc! {},
        projection: None,
        sort: Some(sort),
        limit: None,
    };
    let found = fixture.backend().find_all(find).await.unwrap();
    let found = found
        .iter()
        .map(|raw| BsonDocument::try_from(&**raw).unwrap());
    found.collect()
}

async fn extras(fixture: &Fixture) -> Vec<BsonDocument> {
    raw(fixture, "extra_sales", rawdoc! { "book_id": 1, "seq": 1 }).await
}

pub async fn the_layout_is_that_of_the_manual(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let inserted = db
        .insert_many([book(1, 0..3), book(2, 0..130)])
        .await
        .unwrap();
    let lens = inserted.iter().map(|book| {
        let own = &book.customers_purchased;
        (own.resident().len(), own.len(), own.has_more())
    });
    assert_eq!(lens.collect::<Vec<_>>(), [(3, 3, false), (3, 130, true)]);
    let stored = raw(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    // A typical document carries nothing extra.
    let typical = doc! { "_id": 1_i64, "title": "book 1", "copies": 0_i64, "customers_purchased": ["u0", "u1", "u2"] };
    assert_eq!(stored[0], typical);
    let mut outlier = stored[1].clone();
    let own = outlier.remove("_odm").unwrap();
    let shown = doc! {
        "_id": 2_i64, "title": "book 2", "copies": 0_i64, "customers_purchased": ["u0", "u1", "u2"],
        "has_extras": true,
    };
    assert_eq!(outlier, shown);
    let own = own.as_document().unwrap();
    let header = own.get_document("overflow").unwrap();
    let header = header.get_document("customers_purchased").unwrap();
    assert_eq!(header.get_i64("count").ok(), Some(127));
    assert!(!header.contains_key("work"), "{header}");
    let extras = extras(&fixture).await;
    let mut all = Vec::new();
    for (number, document) in (0..).zip(&extras) {
        assert_eq!(document.get_i64("book_id").ok(), Some(2));
        assert_eq!(document.get_i64("seq").ok(), Some(number));
        all.extend(
            document
                .get_array("customers_purchased_extra")
                .unwrap()
                .iter()
                .cloned(),
        );
    }
    let expected = users(3..130).into_iter().map(Bson::String);
    assert_eq!(all, expected.collect::<Vec<_>>());
    assert_eq!(customers(&db, 1).await, users(0..3));
    assert_eq!(customers(&db, 2).await, users(0..130));
    is_clean(&db).await;
    // Other names.
    let post = NewPost {
        id: 1,
        all_comments: (0..5).map(comment).collect(),
    };
    let post = db.insert(post).await.unwrap();
    assert_eq!(post.all_comments.len(), 5);
    let stored = raw(&fixture, "posts", rawdoc! { "_id": 1 }).await;
    assert_eq!(stored[0].get_bool("more").ok(), Some(true));
    assert_eq!(stored[0].get_array("allComments").unwrap().len(), 2);
    let rest = raw(&fixture, "moreComments", rawdoc! { "_id": 1 }).await;
    assert_eq!(rest[0].get_i64("post").ok(), Some(1));
    assert_eq!(rest[0].get_i64("number").ok(), Some(0));
    assert_eq!(rest[0].get_array("rest").unwrap().len(), 3);
    is_clean(&db).await;
}

fn comment(number: usize) -> Comment {
    Comment {
        who: user(number),
        votes: number as i64,
    }
}

pub async fn pushes_overflow(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(book(1, [])).await.unwrap();
    let mut expected = Vec::new();
    for number in 0..180 {
        let push = db
            .update::<Book>(1)
            .push(|b| b.customers_purchased(), user(number));
        push.await.unwrap();
        expected.push(user(number));
        if [2, 3, 4, 10, 11, 12, 19, 110].contains(&number) {
            assert_eq!(customers(&db, 1).await, expected, "after {number}");
            let own = db.get::<Book>(1).await.unwrap().customers_purchased;
            assert_eq!(own.len(), expected.len() as u64);
            assert_eq!(own.has_more(), number > 2);
            assert_eq!(own.resident(), &expected[..expected.len().min(3)]);
            is_clean(&db).await;
        }
    }
    assert_eq!(customers(&db, 1).await, expected);
    // Some of several have room in the document.
    db.insert(book(2, 0..2)).await.unwrap();
    let push = db
        .update::<Book>(2)
        .push_each(|b| b.customers_purchased(), users(2..10));
    push.await.unwrap();
    assert_eq!(customers(&db, 2).await, users(0..10));
    assert_eq!(
        db.get::<Book>(2)
            .await
            .unwrap()
            .customers_purchased
            .resident(),
        users(0..3)
    );
    // More than what waits in the document holds.
    let push = db
        .update::<Book>(2)
        .push_each(|b| b.customers_purchased(), users(10..2_000));
    push.await.unwrap();
    assert_eq!(customers(&db, 2).await, users(0..2_000));
    db.insert(book(3, 0..1)).await.unwrap();
    let push = db
        .update::<Book>(3)
        .push_each(|b| b.customers_purchased(), users(1..700));
    push.await.unwrap();
    assert_eq!(customers(&db, 3).await, users(0..700));
    assert_eq!(
        db.get::<Book>(3)
            .await
            .unwrap()
            .customers_purchased
            .resident(),
        users(0..3)
    );
    is_clean(&db).await;
    // A document is a document before all.
    let missing = db
        .update::<Book>(9)
        .push(|b| b.customers_purchased(), "u0")
        .await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

pub async fn a_push_is_part_of_its_update(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..1), book(2, 0..60)])
        .await
        .unwrap();
    for id in [1, 2] {
        let before = db.get::<Book>(id).await.unwrap().customers_purchased.len();
        let refused = db
            .update::<Book>(id)
            .when(|b| b.copies().gt(0))
            .push(|b| b.customers_purchased(), "x")
            .await
            .unwrap();
        assert!(!refused.applied());
        let done = db
            .update::<Book>(id)
            .when(|b| b.copies().eq(0))
            .push(|b| b.customers_purchased(), "x")
            .inc(|b| b.copies(), 1)
            .await
            .unwrap();
        assert!(done.applied());
        let after = db
            .update::<Book>(id)
            .push(|b| b.customers_purchased(), "y")
            .inc(|b| b.copies(), 1)
            .returning_after()
            .await
            .unwrap();
        assert_eq!(
            (after.copies, after.customers_purchased.len()),
            (2, before + 2)
        );
    }
    // The first is the first whether it has room or not.
    let first = db
        .update_first::<Book>(|b| b.copies().eq(2))
        .sort(|b| b.id().desc())
        .push(|b| b.customers_purchased(), "z")
        .await
        .unwrap();
    assert_eq!(first.applied().map(|book| *book.id()), Some(2));
    let all = db
        .update_many::<Book>(|b| b.copies().eq(2))
        .push(|b| b.customers_purchased(), "all")
        .await
        .unwrap();
    assert_eq!(all.matched, 2);
    assert_eq!(customers(&db, 1).await, ["u0", "x", "y", "all"]);
    assert_eq!(customers(&db, 2).await.last().unwrap(), "all");
    assert_eq!(customers(&db, 2).await.len(), 64);
    is_clean(&db).await;
    // In a bulk each has its own way.
    let bulk = db
        .bulk()
        .add(
            db.update::<Book>(1)
                .push(|b| b.customers_purchased(), "bulk"),
        )
        .add(db.insert(book(3, 0..100)))
        .await
        .unwrap();
    assert!(bulk.is_ok(), "{bulk:?}");
    assert_eq!(customers(&db, 1).await.last().unwrap(), "bulk");
    assert_eq!(customers(&db, 3).await, users(0..100));
    // An upsert inserts what overflows.
    let upserted = db
        .update::<Book>(4)
        .push(|b| b.customers_purchased(), "once")
        .or_insert(book(4, 0..70))
        .await
        .unwrap();
    assert!(upserted.is_inserted(), "{upserted:?}");
    assert_eq!(customers(&db, 4).await, users(0..70));
    is_clean(&db).await;
}

pub async fn sets_are_over_both_parts(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, []), book(2, 0..80)]).await.unwrap();
    for id in [1, 2] {
        for round in 0..2 {
            for number in [0, 1, 2, 3, 4, 70, 200, 201] {
                let add = db
                    .update::<Book>(id)
                    .add_to_set(|b| b.customers_purchased(), user(number));
                add.inc(|b| b.copies(), 1).await.unwrap();
            }
            let mut own = customers(&db, id).await;
            let count = own.len();
            own.sort();
            own.dedup();
            assert_eq!(own.len(), count, "round {round}: {own:?}");
            assert_eq!(count, if id == 1 { 8 } else { 82 });
        }
        assert_eq!(db.get::<Book>(id).await.unwrap().copies, 16);
        let add = db.update::<Book>(id);
        add.add_each_to_set(|b| b.customers_purchased(), users([3, 300, 301, 300]))
            .await
            .unwrap();
        assert_eq!(
            customers(&db, id).await[if id == 1 { 8 } else { 82 }..],
            users([300, 301])
        );
    }
    is_clean(&db).await;
}

/// Two of the largest elements that there can be are too many for what waits in a document, by a few bytes.
pub async fn the_largest_elements_are_pushed(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..8)])
        .await
        .unwrap();
    let largest = "x".repeat(128 * 1024 - 18);
    for id in [1, 2] {
        let before = customers(&db, id).await;
        let push = db.update::<Book>(id);
        let push = push.push_each(
            |b| b.customers_purchased(),
            [largest.clone(), largest.clone()],
        );
        push.await.unwrap();
        let all = customers(&db, id).await;
        assert_eq!(all[..before.len()], before);
        assert_eq!(all[before.len()..], [largest.clone(), largest.clone()]);
        let larger = db
            .update::<Book>(id)
            .push(|b| b.customers_purchased(), format!("{largest}x"));
        assert_eq!(larger.await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    is_clean(&db).await;
}

/// More than are pushed at once: what the set has stays where it is, and the rest comes behind, each once.
pub async fn many_are_added_to_a_set(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, []), book(2, 0..2), book(3, 0..80)])
        .await
        .unwrap();
    // One in what waits in the document.
    db.update::<Book>(3)
        .push(|b| b.customers_purchased(), "u500")
        .await
        .unwrap();
    for id in [1, 2, 3] {
        let mut expected = customers(&db, id).await;
        for numbers in [40..140, 500..620, 0..700, 0..700] {
            let twice = numbers.clone().chain(numbers.clone().rev());
            let add = db
                .update::<Book>(id)
                .add_each_to_set(|b| b.customers_purchased(), users(twice));
            assert!(add.inc(|b| b.copies(), 1).await.unwrap().applied());
            for new in users(numbers) {
                if !expected.contains(&new) {
                    expected.push(new);
                }
            }
            let all = customers(&db, id).await;
            assert_eq!(all, expected);
            let read = db.get::<Book>(id).await.unwrap();
            assert_eq!(read.customers_purchased.len(), all.len() as u64);
        }
        assert_eq!(db.get::<Book>(id).await.unwrap().copies, 4);
        is_clean(&db).await;
    }
    let nobody = db
        .update::<Book>(9)
        .add_each_to_set(|b| b.customers_purchased(), users(0..300));
    assert_eq!(nobody.await.unwrap_err().kind(), ErrorKind::NotFound);
    // Whose title it was not at the time is left as it is.
    let other = db.update_many::<Book>(|b| b.title().eq("another"));
    let added = other
        .add_each_to_set(|b| b.customers_purchased(), users(2_000..2_300))
        .await;
    assert_eq!(added.unwrap().matched, 0);
    is_clean(&db).await;
}

/// Eight tasks add overlapping hundreds, some at once and some one by one: none is there twice, and none is missing.
pub async fn many_add_the_same_to_a_set(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, []), book(2, 1_000..1_080)])
        .await
        .unwrap();
    for id in [1, 2] {
        let tasks = (0..8_usize).map(|task| {
            let db = db.clone();
            tokio::spawn(async move {
                let from = task * 25;
                let all = users(from..from + 100);
                let size = if task % 2 == 0 { 100 } else { 3 };
                for some in all.chunks(size) {
                    loop {
                        let add = db.update::<Book>(id);
                        match add
                            .add_each_to_set(|b| b.customers_purchased(), some.to_vec())
                            .await
                        {
                            Ok(added) => break assert!(added.matched == 1, "{added:?}"),
                            Err(error) => assert!(error.is_conflict(), "{error}"),
                        }
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let all = customers(&db, id).await;
        let distinct: BTreeSet<_> = all.iter().cloned().collect();
        assert_eq!(distinct.len(), all.len());
        let expected = users(0..275)
            .into_iter()
            .chain(users(1_000..if id == 1 { 1_000 } else { 1_080 }));
        assert_eq!(distinct, expected.collect());
    }
    is_clean(&db).await;
}

pub async fn elements_are_pulled_wherever_they_are(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..60), book(3, 0..3)])
        .await
        .unwrap();
    // One in what waits in the document.
    db.update::<Book>(2)
        .push(|b| b.customers_purchased(), "u90")
        .await
        .unwrap();
    let mut expected: Vec<_> = users((0..60).chain([90]));
    for number in [1, 3, 30, 59, 90, 77] {
        for id in [1, 2] {
            let pull = db
                .update::<Book>(id)
                .pull(|b| b.customers_purchased(), user(number));
            assert!(pull.await.unwrap().applied());
        }
        expected.retain(|other| *other != user(number));
        assert_eq!(customers(&db, 2).await, expected);
        let len = db.get::<Book>(2).await.unwrap().customers_purchased.len();
        assert_eq!(len, expected.len() as u64);
        is_clean(&db).await;
    }
    assert_eq!(customers(&db, 1).await, ["u0"]);
    // By a condition, with something else.
    let pull = db
        .update::<Book>(2)
        .pull_where(
            |b| b.customers_purchased(),
            |c| c.starts_with("u1") | c.eq("u5"),
        )
        .inc(|b| b.copies(), 7);
    let refused = pull.await;
    // Several conditions on the elements themselves have no form in a `$pull`.
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    let pull = db
        .update::<Book>(2)
        .pull_where(|b| b.customers_purchased(), |c| c.starts_with("u1"))
        .inc(|b| b.copies(), 7);
    pull.await.unwrap();
    expected.retain(|other| !other.starts_with("u1"));
    assert_eq!(customers(&db, 2).await, expected);
    assert_eq!(db.get::<Book>(2).await.unwrap().copies, 7);
    // What is pushed comes behind those outside though there is room in the document.
    db.update::<Book>(2)
        .push(|b| b.customers_purchased(), "last")
        .await
        .unwrap();
    assert_eq!(customers(&db, 2).await.last().unwrap(), "last");
    assert_eq!(
        db.get::<Book>(2)
            .await
            .unwrap()
            .customers_purchased
            .resident()
            .len(),
        2
    );
    // All of several.
    let pull = db
        .update_many::<Book>(|_| Filter::all())
        .pull_all(|b| b.customers_purchased(), users(0..100));
    assert_eq!(pull.await.unwrap().matched, 3);
    assert_eq!(customers(&db, 2).await, ["last"]);
    assert!(customers(&db, 1).await.is_empty() && customers(&db, 3).await.is_empty());
    is_clean(&db).await;
}

pub async fn elements_change_wherever_they_are(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let post = |id, comments| NewPost {
        id,
        all_comments: comments,
    };
    db.insert(post(1, (0..1).map(comment).collect()))
        .await
        .unwrap();
    db.insert(post(2, (0..120).map(comment).collect()))
        .await
        .unwrap();
    db.update::<Post>(2)
        .push(|p| p.all_comments(), comment(120))
        .await
        .unwrap();
    let votes = async |id| {
        let all = db
            .get::<Post>(id)
            .elements(|p| p.all_comments())
            .all()
            .await
            .unwrap();
        all.into_iter()
            .map(|comment| comment.votes)
            .collect::<Vec<_>>()
    };
    for id in [1, 2] {
        db.update::<Post>(id)
            .inc(|p| p.all_comments().all().votes(), 1_000)
            .await
            .unwrap();
        let some = db.update::<Post>(id);
        some.set(
            |p| {
                p.all_comments()
                    .matching(|c| c.who().is_in(["u0", "u5", "u99", "u120"]))
                    .votes()
            },
            -1,
        )
        .inc(
            |p| p.all_comments().matching(|c| c.votes().eq(1_007)).votes(),
            1,
        )
        .await
        .unwrap();
    }
    assert_eq!(votes(1).await, [-1]);
    let expected = (0..121).map(|number| match number {
        0 | 5 | 99 | 120 => -1,
        7 => 1_008,
        number => number + 1_000,
    });
    assert_eq!(votes(2).await, expected.collect::<Vec<i64>>());
    let pull = db.update::<Post>(2).pull_where(
        |p| p.all_comments(),
        |c| c.votes().gt(1_050) & c.who().ne("u60"),
    );
    pull.await.unwrap();
    assert_eq!(
        db.get::<Post>(2)
            .elements(|p| p.all_comments())
            .len()
            .await
            .unwrap(),
        54
    );
    is_clean(&db).await;
}

pub async fn an_array_is_replaced(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..60)])
        .await
        .unwrap();
    for id in [1, 2] {
        for len in [2, 100, 700, 3, 60, 0, 4, 0] {
            let set = db
                .update::<Book>(id)
                .set(|b| b.customers_purchased(), users(7..7 + len));
            set.inc(|b| b.copies(), 1).await.unwrap();
            assert_eq!(customers(&db, id).await, users(7..7 + len), "{len}");
            let own = db.get::<Book>(id).await.unwrap().customers_purchased;
            assert_eq!((own.len(), own.resident().len()), (len as u64, len.min(3)));
            is_clean(&db).await;
            let not = db.update::<Book>(id).when(|b| b.copies().lt(0));
            let not = not
                .set(|b| b.customers_purchased(), users(0..90))
                .await
                .unwrap();
            assert!(!not.applied());
        }
        assert_eq!(db.get::<Book>(id).await.unwrap().copies, 8);
    }
    // Nothing is left of what was there.
    assert_eq!(extras(&fixture).await, []);
    let stored = raw(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    for (id, document) in [1_i64, 2].into_iter().zip(stored) {
        let title = format!("book {id}");
        let plain = doc! { "_id": id, "title": title, "copies": 8_i64, "customers_purchased": [] };
        assert_eq!(document, plain);
    }
}

pub async fn all_elements_are_read(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..1_300), book(3, [])])
        .await
        .unwrap();
    for number in 1_300..1_360 {
        db.update::<Book>(2)
            .push(|b| b.customers_purchased(), user(number))
            .await
            .unwrap();
    }
    let of = |id| db.get::<Book>(id).elements(|b| b.customers_purchased());
    for (id, len) in [(1, 2), (2, 1_360), (3, 0)] {
        assert_eq!(of(id).len().await.unwrap(), len as u64);
        assert_eq!(of(id).is_empty().await.unwrap(), len == 0);
        assert_eq!(of(id).all().await.unwrap(), users(0..len));
        let mut stream = of(id).stream();
        let mut all = Vec::new();
        while let Some(one) = stream.next().await {
            all.push(one.unwrap());
        }
        assert_eq!(all, users(0..len));
        let mut paged = Vec::new();
        loop {
            let page = of(id).page(paged.len() as u64, 97).await.unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, users(0..len));
        let rest = of(id).page(4, usize::MAX).await.unwrap();
        assert_eq!(rest, users(4.min(len)..len));
        for position in [
            0, 1, 2, 3, 502, 503, 1_299, 1_300, 1_310, 1_358, 1_359, 1_360, 5_000,
        ] {
            let one = of(id).get(position as u64).await.unwrap();
            assert_eq!(one, (position < len).then(|| user(position)), "{position}");
        }
        for number in [0, 1, 2, 3, 600, 1_299, 1_300, 1_305, 1_359, 1_360] {
            let has = of(id).contains(user(number)).await.unwrap();
            assert_eq!(has, number < len, "{number}");
        }
        let found = of(id)
            .filter(|c| c.starts_with("u135") | c.eq("u1"))
            .await
            .unwrap();
        let expected = users(
            [1, 135]
                .into_iter()
                .chain(1_350..1_360)
                .filter(|number| *number < len),
        );
        assert_eq!(found, expected);
    }
    assert_eq!(of(9).all().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(of(9).len().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        of(9).stream().next().await.unwrap().unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // Documents are found by what is in them, and by whether there is more.
    let found = db
        .find::<Book>()
        .filter(|b| b.customers_purchased().has_more())
        .all()
        .await
        .unwrap();
    assert_eq!(found.iter().map(|book| book.id).collect::<Vec<_>>(), [2]);
    let by = |name: &'static str| {
        db.find::<Book>()
            .filter(move |b| b.customers_purchased().resident().contains(name))
    };
    assert_eq!(by("u1").count().await.unwrap(), 2);
    assert_eq!(by("u700").count().await.unwrap(), 0);
}

pub async fn documents_are_found_by_an_element_wherever_it_is(fixture: Fixture) {
    let db = fresh(&fixture).await;
    // In the document; in the extras; waiting behind them.
    db.insert_many([book(1, 0..2), book(2, 0..700), book(3, 5..9), book(4, [])])
        .await
        .unwrap();
    db.update::<Book>(3)
        .push(|b| b.customers_purchased(), user(1))
        .await
        .unwrap();
    let bought = async |number: usize| {
        let arrays = db.arrays::<Book>();
        let condition = arrays.any(|b| b.customers_purchased(), move |c| c.eq(user(number)));
        condition.await.unwrap()
    };
    let ids = async |condition: Filter<Book>| {
        let found = db.find::<Book>().filter(move |_| condition);
        let found = found.sort(|b| b.id().asc()).all().await.unwrap();
        found.iter().map(|book| book.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(bought(0).await).await, [1, 2]);
    assert_eq!(ids(bought(1).await).await, [1, 2, 3]);
    assert_eq!(ids(bought(600).await).await, [2]);
    assert_eq!(ids(bought(8).await).await, [2, 3]);
    assert_eq!(ids(bought(700).await).await, [0; 0]);
    assert_eq!(ids(!bought(1).await).await, [4]);
    // It is a condition like any other.
    let one = bought(1).await;
    let found = db.find::<Book>().filter(|b| one & b.title().eq("book 3"));
    assert_eq!(found.count().await.unwrap(), 1);
    let some = bought(600).await;
    let copied = db.update_many::<Book>(|_| some).inc(|b| b.copies(), 1);
    assert_eq!(copied.await.unwrap().matched, 1);
    assert_eq!(db.get::<Book>(2).await.unwrap().copies, 1);
    // What is gone is not found, however it went.
    db.update::<Book>(2)
        .pull(|b| b.customers_purchased(), user(600))
        .await
        .unwrap();
    assert_eq!(ids(bought(600).await).await, [0; 0]);
    db.update::<Book>(3)
        .set(
            |b| b.customers_purchased(),
            Overflow::from(users(100..2_000)),
        )
        .await
        .unwrap();
    assert_eq!(ids(bought(1).await).await, [1, 2]);
    assert_eq!(ids(bought(1_999).await).await, [3]);
    db.delete::<Book>(3).await.unwrap();
    assert_eq!(ids(bought(1_999).await).await, [0; 0]);
    // What comes back is.
    db.update::<Book>(2)
        .pull_where(|b| b.customers_purchased(), |c| c.not_in(users(690..692)))
        .await
        .unwrap();
    assert_eq!(ids(bought(691).await).await, [2]);
    db.arrays::<Book>().fold().await.unwrap();
    assert_eq!(ids(bought(691).await).await, [2]);
    is_clean(&db).await;

    // One and the same element meets all of the condition.
    let few = |id, comments: usize| NewPost {
        id,
        all_comments: (0..comments).map(comment).collect(),
    };
    db.insert_many([few(1, 2), few(2, 40)]).await.unwrap();
    let by = async |who: usize, votes: i64| {
        let who = comment(who).who;
        let posts = db.arrays::<Post>();
        let same = posts.any(
            |p| p.all_comments(),
            move |c| c.who().eq(who) & c.votes().eq(votes),
        );
        let same = same.await.unwrap();
        db.find::<Post>().filter(|_| same).count().await.unwrap()
    };
    let (near, far) = (comment(1), comment(30));
    assert_eq!(by(1, near.votes).await, 2);
    assert_eq!(by(30, far.votes).await, 1);
    assert_eq!(by(30, far.votes + 1).await, 0);
}

pub async fn documents_take_their_elements_along(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many((1..=6).map(|id| book(id, 0..60 * (id as usize % 2))))
        .await
        .unwrap();
    assert!(db.delete::<Book>(1).await.unwrap().deleted == 1);
    assert!(db.delete::<Book>(2).await.unwrap().deleted == 1);
    let owners = async || {
        let extras = extras(&fixture).await;
        let owners = extras.iter().map(|extra| extra.get_i64("book_id").unwrap());
        owners
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(owners().await, [3, 5]);
    let first = db
        .delete_first::<Book>(|_| Filter::all())
        .sort(|b| b.id().desc())
        .await
        .unwrap();
    assert_eq!(first.applied().map(|book| *book.id()), Some(6));
    let gone = db
        .delete_first::<Book>(|b| b.id().gt(4))
        .returning()
        .await
        .unwrap();
    assert_eq!(gone.applied().map(|book| book.id), Some(5));
    assert_eq!(owners().await, [3]);
    db.insert(book(7, 0..80)).await.unwrap();
    let bulk = db.bulk().add(db.delete::<Book>(7)).await.unwrap();
    assert!(bulk.is_ok(), "{bulk:?}");
    assert_eq!(owners().await, [3]);
    let deleted = db.delete_many::<Book>(|_| Filter::all()).await.unwrap();
    assert_eq!(deleted.deleted, 2);
    assert!(owners().await.is_empty());
    // One that comes again begins without them.
    db.insert(book(1, 0..1)).await.unwrap();
    assert_eq!(customers(&db, 1).await, ["u0"]);
    is_clean(&db).await;
}

pub async fn a_transaction_is_whole(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..3), book(2, 0..60)])
        .await
        .unwrap();
    let before = (
        customers(&db, 1).await,
        customers(&db, 2).await,
        extras(&fixture).await,
    );
    let undone = db.transaction(|tx| async move {
        for number in 100..170 {
            tx.update::<Book>(1)
                .push(|b| b.customers_purchased(), user(number))
                .await?;
        }
        tx.update::<Book>(2)
            .pull(|b| b.customers_purchased(), "u50")
            .await?;
        tx.update::<Book>(2)
            .set(|b| b.customers_purchased(), users(0..90))
            .await?;
        tx.insert(book(3, 0..99)).await?;
        assert_eq!(
            tx.get::<Book>(1)
                .elements(|b| b.customers_purchased())
                .len()
                .await?,
            73
        );
        assert_eq!(
            tx.get::<Book>(2)
                .elements(|b| b.customers_purchased())
                .all()
                .await?,
            users(0..90)
        );
        tx.delete::<Book>(2).await?;
        Err::<(), _>(odm::Error::other("no"))
    });
    undone.await.unwrap_err();
    assert_eq!(
        (
            customers(&db, 1).await,
            customers(&db, 2).await,
            extras(&fixture).await
        ),
        before
    );
    db.transaction(|tx| async move {
        for number in 3..70 {
            tx.update::<Book>(1)
                .push(|b| b.customers_purchased(), user(number))
                .await?;
        }
        tx.update::<Book>(2)
            .pull(|b| b.customers_purchased(), "u50")
            .await?;
        tx.update::<Book>(2)
            .add_to_set(|b| b.customers_purchased(), "u7")
            .await?;
        tx.update::<Book>(2)
            .push_each(|b| b.customers_purchased(), users(60..200))
            .await?;
        tx.insert(book(3, 0..99)).await
    })
    .await
    .unwrap();
    assert_eq!(customers(&db, 1).await, users(0..70));
    assert_eq!(
        customers(&db, 2).await,
        users((0..200).filter(|number| *number != 50))
    );
    assert_eq!(customers(&db, 3).await, users(0..99));
    is_clean(&db).await;
}

pub async fn elements_come_back_where_they_fit(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([
        book(1, 0..4),
        book(2, 0..100),
        book(3, 0..2),
        book(4, 0..100),
    ])
    .await
    .unwrap();
    // As many as overflowed are too many to come back.
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
        let own = db.get::<Book>(id).await.unwrap().customers_purchased;
        assert_eq!(own.has_more(), id == 1);
    }
    let stored = raw(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    let plain = doc! { "_id": 2_i64, "title": "book 2", "copies": 0_i64, "customers_purchased": users(97..100) };
    assert_eq!(stored[1], plain);
    let owners: Vec<_> = extras(&fixture)
        .await
        .iter()
        .map(|extra| extra.get_i64("book_id").unwrap())
        .collect();
    assert_eq!(owners, [1]);
    is_clean(&db).await;
}

pub async fn arrays_are_folded_in_the_background(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many((1..=3).map(|id| book(id, 0..60)))
        .await
        .unwrap();
    let folding = db.arrays::<Book>().fold_every(Duration::from_millis(20));
    let others = Db::with_backend(fixture.backend());
    let also = others
        .arrays::<Book>()
        .fold_every(Duration::from_millis(20));
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
    // A round tells what it has done when it is over.
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
    is_clean(&db).await;
}

/// The books of a later version of the application, whose arrays need not overflow any more.
mod later {
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

    /// And of one behind that.
    pub(crate) mod last {
        use super::*;

        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
        #[document(collection = "sales")]
        pub(crate) struct Book {
            #[serde(rename = "_id")]
            pub(crate) id: i64,
            pub(crate) title: String,
            pub(crate) copies: i64,
            #[embed(max = 2_000)]
            pub(crate) customers_purchased: Vec<String>,
        }

        #[derive(Schema)]
        #[schema(models(Book))]
        pub(crate) struct Shop;
    }
}

pub async fn arrays_go_back_to_their_documents(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many((1..=6).map(|id| book(id, 0..id as usize * 100)))
        .await
        .unwrap();
    let db = odm::Database::<later::Shop>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    // The application writes meanwhile.
    let pushing = tokio::spawn({
        let db = db.clone();
        async move {
            for number in 0..40_usize {
                let id = number as i64 % 6 + 1;
                db.update::<later::Book>(id)
                    .push(|b| b.customers_purchased(), format!("late{number}"))
                    .await
                    .unwrap();
            }
        }
    });
    let mut folded = db.arrays::<later::Book>().fold().await.unwrap();
    pushing.await.unwrap();
    folded += db.arrays::<later::Book>().fold().await.unwrap();
    // Of an element that is pushed while the documents of the others go, an array is brought back once more.
    assert!(folded >= 6, "{folded}");
    let more = db
        .find::<later::Book>()
        .filter(|b| b.customers_purchased().has_more());
    assert_eq!(more.count().await.unwrap(), 0);
    assert!(extras(&fixture).await.is_empty());
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    // And so they need not be declared to any more.
    let db = odm::Database::<later::last::Shop>::with_backend(fixture.backend());
    for id in 1..=6_i64 {
        let late = (0..40).filter(|number| number % 6 + 1 == id);
        let mut expected = users(0..id as usize * 100);
        expected.extend(late.map(|number| format!("late{number}")));
        let book = db.get::<later::last::Book>(id).await.unwrap();
        assert_eq!(book.customers_purchased, expected);
    }
    let stored = raw(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    for document in stored {
        let names: Vec<_> = document.keys().collect();
        assert_eq!(names, ["_id", "title", "copies", "customers_purchased"]);
    }
}

/// What is large, and what is too large.
pub async fn documents_stay_small(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let large = "x".repeat(100_000);
    let too_large = "x".repeat(200_000);
    for size in [1, 4] {
        let many: Vec<_> = (0..size).map(|_| too_large.clone()).collect();
        let mut given = book(1, []);
        given.customers_purchased = many.clone().into();
        assert_eq!(
            db.insert(given).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    db.insert(book(1, [])).await.unwrap();
    let push = db
        .update::<Book>(1)
        .push(|b| b.customers_purchased(), &too_large)
        .await;
    assert_eq!(push.unwrap_err().kind(), ErrorKind::Invalid);
    let add = db
        .update::<Book>(1)
        .add_to_set(|b| b.customers_purchased(), &too_large)
        .await;
    assert_eq!(add.unwrap_err().kind(), ErrorKind::Invalid);
    let set = db
        .update::<Book>(1)
        .set(|b| b.customers_purchased(), [too_large.clone()])
        .await;
    assert_eq!(set.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(customers(&db, 1).await.is_empty());
    assert!(extras(&fixture).await.is_empty());
    for _ in 0..9 {
        db.update::<Book>(1)
            .push(|b| b.customers_purchased(), &large)
            .await
            .unwrap();
    }
    let push = db
        .update::<Book>(1)
        .push_each(|b| b.customers_purchased(), vec![large.clone(); 9]);
    push.await.unwrap();
    let mut given = book(2, []);
    given.customers_purchased = vec![large.clone(); 12].into();
    db.insert(given).await.unwrap();
    for id in [1, 2] {
        let all = customers(&db, id).await;
        assert_eq!(all.len(), if id == 1 { 18 } else { 12 });
        assert!(all.iter().all(|one| *one == large));
    }
    let sales = raw(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    for document in sales.iter().chain(&extras(&fixture).await) {
        let size = RawDocumentBuf::try_from(document).unwrap().as_bytes().len();
        assert!(size < 1024 * 1024, "{size} bytes");
    }
    is_clean(&db).await;
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Book)]
struct Card {
    title: String,
    customers_purchased: Overflow<String>,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Book)]
struct Title {
    title: String,
}

pub async fn a_projection_knows_whether_there_is_more(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..60)])
        .await
        .unwrap();
    db.update::<Book>(2)
        .push(|b| b.customers_purchased(), "waits")
        .await
        .unwrap();
    let cards = db
        .find::<Book>()
        .select::<Card>()
        .sort(|b| b.id().asc())
        .all()
        .await
        .unwrap();
    let known = cards.iter().map(|card| {
        (
            card.customers_purchased.resident().len(),
            card.customers_purchased.len(),
        )
    });
    assert_eq!(known.collect::<Vec<_>>(), [(2, 2), (3, 61)]);
    let titles = db
        .find::<Book>()
        .select::<Title>()
        .sort(|b| b.id().asc())
        .all()
        .await
        .unwrap();
    assert_eq!(
        titles[1],
        Title {
            title: "book 2".into()
        }
    );
}

pub async fn an_edited_document_leaves_the_array_alone(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..60)])
        .await
        .unwrap();
    for id in [1, 2] {
        let mut edited = db.edit::<Book>(id).await.unwrap();
        edited.title = "changed".into();
        db.update::<Book>(id)
            .push(|b| b.customers_purchased(), "new")
            .await
            .unwrap();
        db.save(&mut edited).await.unwrap();
        assert_eq!(customers(&db, id).await.last().unwrap(), "new");
        let refused = db
            .modify::<Book>(id, |book| book.customers_purchased = Overflow::new())
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    is_clean(&db).await;
}

/// Neither another tenant's elements nor those of what is deleted are reached by any way.
pub async fn what_is_out_of_sight_stays_there(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let (acme, globex) = (db.scope("acme"), db.scope("globex"));
    let thread = |id, replies: usize| NewThread {
        id,
        replies: (0..replies).map(user).collect(),
    };
    acme.insert_many([thread(1, 40), thread(2, 40)])
        .await
        .unwrap();
    globex.insert(thread(3, 40)).await.unwrap();
    acme.delete::<Thread>(2).await.unwrap();
    for (session, id) in [(&globex, 1), (&acme, 2), (&acme, 3)] {
        let elements = || session.get::<Thread>(id).elements(|t| t.replies());
        let gone = |error: odm::Error| assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        gone(elements().all().await.unwrap_err());
        gone(elements().len().await.unwrap_err());
        gone(elements().get(30).await.unwrap_err());
        gone(elements().contains("u30").await.unwrap_err());
        let update = || session.update::<Thread>(id);
        gone(update().push(|t| t.replies(), "x").await.unwrap_err());
        gone(update().add_to_set(|t| t.replies(), "x").await.unwrap_err());
        gone(update().pull(|t| t.replies(), "u30").await.unwrap_err());
        gone(update().set(|t| t.replies(), []).await.unwrap_err());
        assert_eq!(session.delete::<Thread>(id).await.unwrap().deleted, 0);
    }
    for (session, id) in [(&acme, 1), (&globex, 3)] {
        let arrays = session.arrays::<Thread>();
        let any = arrays.any(|t| t.replies(), |r| r.eq("u30"));
        let any = any.await.unwrap();
        let found = session.find::<Thread>().filter(|_| any).all().await;
        let found = found.unwrap();
        assert_eq!(found.iter().map(|t| t.id).collect::<Vec<_>>(), [id]);
    }
    let own = acme.update_many::<Thread>(|_| Filter::all());
    assert_eq!(
        own.pull(|t| t.replies(), user(30)).await.unwrap().matched,
        1
    );
    let replies = |session: Session<Shop, String>, id| async move {
        let elements = session.get::<Thread>(id).with_deleted();
        elements.elements(|t| t.replies()).all().await.unwrap()
    };
    let all = users(0..40);
    let others: Vec<_> = all.iter().filter(|u| **u != "u30").cloned().collect();
    assert_eq!(replies(acme.clone(), 1).await, others);
    assert_eq!(replies(acme.clone(), 2).await, all);
    assert_eq!(replies(globex, 3).await, all);
    // What comes back has all of them, and what goes for good none.
    acme.restore::<Thread>(2).await.unwrap();
    let push = acme.update::<Thread>(2).push(|t| t.replies(), "last");
    push.await.unwrap();
    assert_eq!(replies(acme.clone(), 2).await.len(), 41);
    for id in [1, 2] {
        acme.delete::<Thread>(id).permanently().await.unwrap();
    }
    db.settled().await.unwrap();
    let left = raw(&fixture, "more_replies", rawdoc! { "seq": 1 }).await;
    assert!(left.iter().all(|part| part.get_i64("thread").unwrap() == 3));
    is_clean(&db).await;
}

/// What writes cost, by what a recorder saw of them.
pub async fn what_is_read_and_written_costs(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    fresh(&fixture).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let told = || {
        let operations = recorder.operations();
        let told = operations.iter().map(|operation| match operation {
            Operation::Find(find) => format!("find {}", find.collection),
            Operation::Insert(insert) => format!("insert {}", insert.collection),
            Operation::Update(update) => format!("update {}", update.collection),
            Operation::FindAndModify(modify) => format!("modify {}", modify.collection),
            Operation::Delete(delete) => format!("delete {}", delete.collection),
            Operation::Aggregate(aggregate) => format!("aggregate {}", aggregate.collection),
            Operation::Begin => "begin".to_owned(),
            Operation::Commit => "commit".to_owned(),
            other => panic!("{other:?}"),
        });
        let told: Vec<_> = told.collect();
        recorder.clear();
        told.join(", ")
    };
    db.insert_many([book(1, []), book(2, [])]).await.unwrap();
    assert_eq!(told(), "insert sales");
    // A typical document is one round trip, whatever else the update does.
    let push = db.update::<Book>(1).when(|b| b.copies().eq(0));
    push.push(|b| b.customers_purchased(), "u0")
        .inc(|b| b.copies(), 1)
        .await
        .unwrap();
    assert_eq!(told(), "update sales");
    db.update::<Book>(1)
        .add_to_set(|b| b.customers_purchased(), "u1")
        .await
        .unwrap();
    db.update::<Book>(1)
        .pull(|b| b.customers_purchased(), "u1")
        .await
        .unwrap();
    db.update::<Book>(1)
        .set(
            |b| b.customers_purchased(),
            Overflow::from(["u0".to_owned()]),
        )
        .await
        .unwrap();
    assert_eq!(told(), "update sales, update sales, update sales");
    db.get::<Book>(1)
        .elements(|b| b.customers_purchased())
        .all()
        .await
        .unwrap();
    assert_eq!(told(), "find sales");
    db.get::<Book>(1)
        .elements(|b| b.customers_purchased())
        .contains("u7")
        .await
        .unwrap();
    assert_eq!(told(), "find sales");
    // Elements anywhere: those on their way, those outside, and whose these are.
    let bought = async |customer: &'static str| {
        let arrays = db.arrays::<Book>();
        let any = arrays.any(|b| b.customers_purchased(), |c| c.eq(customer));
        any.await.unwrap()
    };
    drop(bought("u7").await);
    assert_eq!(told(), "find sales, aggregate extra_sales");
    if has_transactions {
        db.delete::<Book>(1).await.unwrap();
        assert_eq!(told(), "delete sales");
    }
    // An outlier is two.
    db.update::<Book>(2)
        .push_each(|b| b.customers_purchased(), users(0..3))
        .await
        .unwrap();
    told();
    for number in 3..11 {
        db.update::<Book>(2)
            .push(|b| b.customers_purchased(), user(number))
            .await
            .unwrap();
        assert_eq!(told(), "update sales, update sales");
    }
    // One of many makes room for those behind it.
    db.update::<Book>(2)
        .push(|b| b.customers_purchased(), "u11")
        .await
        .unwrap();
    assert_eq!(
        told(),
        "update sales, update sales, find sales, modify sales, update extra_sales, update sales, update extra_sales, \
         update sales"
    );
    db.get::<Book>(2).await.unwrap();
    assert_eq!(told(), "find sales");
    db.get::<Book>(2)
        .elements(|b| b.customers_purchased())
        .len()
        .await
        .unwrap();
    assert_eq!(told(), "find sales");
    db.get::<Book>(2)
        .elements(|b| b.customers_purchased())
        .all()
        .await
        .unwrap();
    assert_eq!(told(), "find sales, find extra_sales");
    drop(bought("u7").await);
    assert_eq!(told(), "find sales, aggregate extra_sales, find sales");
}

/// Many at once, at the threshold and beyond it.
pub async fn many_at_once_lose_nothing(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many([book(1, []), book(2, []), book(3, 0..60)])
        .await
        .unwrap();
    let (tasks, each) = (8, 40);
    let running = (0..tasks).map(|task| {
        let db = db.clone();
        tokio::spawn(async move {
            for nth in 0..each {
                let number = 1_000 + task * each + nth;
                for id in [1, 3] {
                    let push = db
                        .update::<Book>(id)
                        .push(|b| b.customers_purchased(), user(number));
                    patiently(push).await;
                }
                // All of them add the same.
                let add = db
                    .update::<Book>(2)
                    .add_to_set(|b| b.customers_purchased(), user(nth));
                patiently(add).await;
                if nth % 8 == 7 {
                    let pull = db
                        .update::<Book>(3)
                        .pull(|b| b.customers_purchased(), user(number - 3));
                    patiently(pull).await;
                }
            }
        })
    });
    for task in running.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    db.settled().within(Duration::from_secs(30)).await.unwrap();
    let all: Vec<_> = (1_000..1_000 + tasks * each).collect();
    let mut pushed = customers(&db, 1).await;
    // Each task's own are in its order.
    for task in 0..tasks {
        let own = |name: &&String| {
            let number: usize = name[1..].parse().unwrap();
            (number - 1_000) / each == task
        };
        let own: Vec<_> = pushed.iter().filter(own).cloned().collect();
        assert_eq!(own, users(all[task * each..][..each].iter().copied()));
    }
    pushed.sort();
    assert_eq!(pushed, users(all.iter().copied()));
    let mut set = customers(&db, 2).await;
    set.sort();
    let mut expected = users(0..each);
    expected.sort();
    assert_eq!(set, expected);
    let mut left = customers(&db, 3).await;
    left.sort();
    let stays = |number: &usize| (number - 1_000) % each % 8 != 4;
    let mut expected = users((0..60).chain(all.into_iter().filter(stays)));
    expected.sort();
    assert_eq!(left, expected);
    is_clean(&db).await;
}

/// Others may write to the same document more often than a write waits for.
async fn patiently(update: odm::action::Update<Book>) {
    loop {
        match update.clone().await {
            Ok(_) => return,
            Err(error) if error.is_conflict() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn around(
    fixture: &Fixture,
    collection: &'static str,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) {
    let update = Update {
        collection: collection.into(),
        filter,
        change: Change::operators(change),
        multi: true,
        upsert: false,
    };
    assert!(fixture.backend().update(update).await.unwrap().matched > 0);
}

pub async fn the_check_finds_what_was_changed_from_outside(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many((1..=7).map(|id| book(id, 0..1_200)))
        .await
        .unwrap();
    db.insert_many([book(8, 0..2), book(9, 0..1_200)])
        .await
        .unwrap();
    is_clean(&db).await;
    let by = |id: i64| rawdoc! { "_id": id };
    let header = "_odm.overflow.customers_purchased";
    around(
        &fixture,
        "sales",
        by(1),
        rawdoc! { "$unset": { "has_extras": "" } },
    )
    .await;
    around(
        &fixture,
        "sales",
        by(8),
        rawdoc! { "$set": { "has_extras": true } },
    )
    .await;
    let count =
        RawDocumentBuf::try_from(&doc! { "$set": { format!("{header}.count"): 7_i64 } }).unwrap();
    around(&fixture, "sales", by(2), count).await;
    let next = doc! { "$set": { format!("{header}.next"): 1_000_000_000_i64 } };
    let next = RawDocumentBuf::try_from(&next).unwrap();
    around(&fixture, "sales", by(9), next).await;
    let lost = Delete {
        collection: "extra_sales".into(),
        filter: rawdoc! { "book_id": 9_i64, "seq": { "$lt": 2_i64 } },
        multi: true,
    };
    fixture.backend().delete(lost).await.unwrap();
    let longer = RawDocumentBuf::try_from(
        &doc! { "$push": { "customers_purchased": { "$each": users(2_000..2_010) } } },
    )
    .unwrap();
    around(&fixture, "sales", by(3), longer).await;
    let lost = Delete {
        collection: "extra_sales".into(),
        filter: rawdoc! { "book_id": 4_i64, "seq": 1_i64 },
        multi: false,
    };
    fixture.backend().delete(lost).await.unwrap();
    around(
        &fixture,
        "extra_sales",
        rawdoc! { "book_id": 5_i64, "seq": 2_i64 },
        rawdoc! { "$set": { "seq": 1_i64 } },
    )
    .await;
    let orphan = rawdoc! { "_id": "lost", "book_id": 6_i64, "seq": 0_i64, "customers_purchased_extra": ["x"] };
    let nobodys = rawdoc! { "_id": "nobody's", "book_id": 99_i64, "seq": 0_i64, "customers_purchased_extra": ["x"] };
    let insert = Insert {
        collection: "extra_sales".into(),
        documents: vec![orphan, nobodys],
        ordered: true,
    };
    fixture.backend().insert(insert).await.unwrap();
    let report = db.check().await.unwrap();
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            (
                finding.collection,
                finding.id.clone(),
                finding.fault.clone(),
            )
        })
        .collect();
    let of = "extra_sales";
    let miscounted = |holds: i64, is: i64| Fault::Miscounted {
        of,
        holds: Box::new(Bson::Int64(holds)),
        is: Box::new(Bson::Int64(is)),
    };
    let misflagged = |holds| Fault::Misflagged {
        flag: "has_extras",
        holds,
    };
    let run = |seq, to, times| Fault::OutOfSequence { of, seq, to, times };
    let sequence = |seq, times| run(seq, seq, times);
    let orphaned = |owner: i64| Fault::Orphaned {
        of: "sales",
        owner: Bson::Int64(owner),
        seq: 0,
    };
    let expected = vec![
        ("sales", Bson::Int64(1), misflagged(false)),
        ("sales", Bson::Int64(2), miscounted(7, 1_197)),
        (
            "sales",
            Bson::Int64(3),
            Fault::TooManyInside {
                holds: 13,
                after: 3,
            },
        ),
        ("sales", Bson::Int64(4), miscounted(1_197, 697)),
        ("sales", Bson::Int64(4), sequence(1, 0)),
        ("sales", Bson::Int64(5), sequence(1, 2)),
        ("sales", Bson::Int64(5), sequence(2, 0)),
        ("sales", Bson::Int64(8), misflagged(true)),
        // Numbers in a row are one finding, however many.
        ("sales", Bson::Int64(9), miscounted(1_197, 197)),
        ("sales", Bson::Int64(9), run(0, 1, 0)),
        ("sales", Bson::Int64(9), run(3, 999_999_999, 0)),
        (of, Bson::from("lost"), orphaned(6)),
        (of, Bson::from("nobody's"), orphaned(99)),
    ];
    assert_eq!(found, expected);
    let repaired = db.repair().apply().await.unwrap();
    assert!(repaired.is_clean(), "{repaired}");
    assert!(
        repaired
            .steps
            .iter()
            .any(|step| step.outcome == RepairOutcome::Done)
    );
    is_clean(&db).await;
    assert_eq!(customers(&db, 1).await, users(0..1_200));
    assert_eq!(customers(&db, 2).await, users(0..1_200));
    let expected = (0..3).chain(2_000..2_010).chain(3..1_200);
    assert_eq!(customers(&db, 3).await, users(expected));
    assert_eq!(customers(&db, 4).await.len(), 700);
    assert_eq!(customers(&db, 5).await.len(), 1_200);
    assert_eq!(customers(&db, 8).await, users(0..2));
    assert_eq!(customers(&db, 9).await.len(), 200);
}

pub async fn documents_of_before_overflow(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let documents = (1..=5_i64).map(|id| {
        let all = users(0..400 * (id as usize % 2) + 2);
        let document =
            doc! { "_id": id, "title": "old", "copies": 0_i64, "customers_purchased": all };
        RawDocumentBuf::try_from(&document).unwrap()
    });
    let insert = Insert {
        collection: "sales".into(),
        documents: documents.collect(),
        ordered: true,
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
    // The application writes meanwhile.
    db.update::<Book>(1)
        .push(|b| b.customers_purchased(), "before")
        .await
        .unwrap();
    assert_eq!(db.arrays::<Book>().spill().await.unwrap(), 3);
    assert_eq!(db.arrays::<Book>().spill().await.unwrap(), 0);
    db.update::<Book>(1)
        .push(|b| b.customers_purchased(), "behind")
        .await
        .unwrap();
    let expected = users(0..402)
        .into_iter()
        .chain(["before".to_owned(), "behind".to_owned()]);
    assert_eq!(customers(&db, 1).await, expected.collect::<Vec<_>>());
    assert_eq!(customers(&db, 2).await, users(0..2));
    assert_eq!(customers(&db, 3).await, users(0..402));
    let own = db.get::<Book>(1).await.unwrap().customers_purchased;
    assert_eq!((own.resident().len(), own.len()), (3, 404));
    is_clean(&db).await;
}

/// An old document may not have the array at all; and what is there may be too large, not too long.
pub async fn arrays_of_before_are_of_any_kind(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let large = "x".repeat(100_000);
    let insert = Insert {
        collection: "sales".into(),
        documents: vec![
            rawdoc! { "_id": 1_i64, "title": "none", "copies": 0_i64 },
            rawdoc! { "_id": 2_i64, "title": "large", "copies": 0_i64,
            "customers_purchased": [large.as_str(), large.as_str(), large.as_str()] },
        ],
        ordered: true,
    };
    fixture.backend().insert(insert).await.unwrap();
    let push = db
        .update::<Book>(1)
        .push_each(|b| b.customers_purchased(), users(0..7));
    push.await.unwrap();
    assert_eq!(customers(&db, 1).await, users(0..7));
    let report = db.check().await.unwrap();
    let faults = report.findings.iter().map(|found| found.fault.clone());
    let too_large = Fault::TooManyInside { holds: 3, after: 3 };
    assert_eq!(faults.collect::<Vec<_>>(), [too_large]);
    assert_eq!(db.arrays::<Book>().spill().await.unwrap(), 1);
    assert_eq!(customers(&db, 2).await, vec![large; 3]);
    is_clean(&db).await;
}

/// One array that others write to all the time keeps none of the rest from being looked after.
pub async fn one_that_fails_keeps_nothing_from_the_others(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert_many((1..=3).map(|id| book(id, 0..60)))
        .await
        .unwrap();
    let pull = db.update_many::<Book>(|_| Filter::all());
    pull.pull_all(|b| b.customers_purchased(), users(2..60))
        .await
        .unwrap();
    let faults = Arc::new(Faults::new(fixture.backend()));
    let conflict = odm::Error::new(ErrorKind::Conflict, "another was first");
    faults.inject(1, is_write, CrashFault::Before(conflict));
    let others = Db::with_backend(faults.clone());
    others.arrays::<Book>().fold().await.unwrap_err();
    let more = db.find::<Book>();
    let more = more.filter(|b| b.customers_purchased().has_more());
    assert_eq!(more.count().await.unwrap(), 1);
    assert_eq!(db.arrays::<Book>().fold().await.unwrap(), 1);
    is_clean(&db).await;
}

fn is_write(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Update(_) | Operation::FindAndModify(_)
    )
}

/// What elements can become in place is bounded by what a document can hold.
pub async fn elements_that_grow_stay_small(fixture: Fixture) {
    let db = odm::Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let board = |id, notes: i64| Board {
        id,
        notes: (0..notes).map(note).collect(),
    };
    db.insert_many([board(1, 90), board(2, 600)]).await.unwrap();
    let push = db.update::<Board>(2);
    push.push_each(|b| b.notes(), (600..690).map(note))
        .await
        .unwrap();
    let texts = async |id| {
        let all = db.get::<Board>(id).elements(|b| b.notes()).all();
        let all = all.await.unwrap();
        all.into_iter().map(|note| note.text).collect::<Vec<_>>()
    };
    for (id, len) in [(1, 90), (2, 690)] {
        for (bytes, kind) in [
            (200_000, ErrorKind::Invalid),
            (5_000, ErrorKind::Unsupported),
        ] {
            let all = db
                .update::<Board>(id)
                .set(|b| b.notes().all().text(), "x".repeat(bytes));
            assert_eq!(all.await.unwrap_err().kind(), kind);
        }
        assert_eq!(texts(id).await, vec![String::new(); len]);
        // One after the other, wherever they are: some have room, and then none.
        for from in [0, 150, 600] {
            let mut refused = 0;
            let mut expected = texts(id).await;
            for n in (from..from + 15).filter(|n| *n < len) {
                let text = "x".repeat(100_000);
                let set = db.update::<Board>(id).set(
                    |b| b.notes().matching(|note| note.n().eq(n as i64)).text(),
                    &text,
                );
                match set.await {
                    Ok(_) => expected[n] = text,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                        refused += 1;
                    }
                }
            }
            assert!(
                from >= len || (1..15).contains(&refused),
                "{from}: {refused}"
            );
            assert!(texts(id).await == expected);
        }
    }
    for collection in ["boards", "more_notes"] {
        for document in raw(&fixture, collection, rawdoc! { "_id": 1 }).await {
            let size = RawDocumentBuf::try_from(&document)
                .unwrap()
                .as_bytes()
                .len();
            assert!(size < 1024 * 1024, "{size} bytes");
        }
    }
    // What needs no more room than it has is as ever.
    let less = db.update::<Board>(2).set(|b| b.notes().all().seen(), true);
    less.await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

fn note(n: i64) -> Note {
    Note {
        n,
        text: String::new(),
        seen: false,
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 100, into = "more_notes", owner = "board"))]
    notes: Overflow<Note>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Note {
    n: i64,
    text: String,
    seen: bool,
}

#[derive(Schema)]
#[schema(models(Board, Twin))]
struct Boards;

/// Two arrays of one document.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "twins")]
struct Twin {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 10, into = "more_left", flag = "is_left_more"))]
    left: Overflow<String>,
    #[embed(overflow(after = 10, into = "more_right", flag = "is_right_more"))]
    right: Overflow<String>,
}

/// Together they are no larger than one.
pub async fn two_arrays_share_the_room(fixture: Fixture) {
    let db = odm::Database::<Boards>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let (left, right) = (Overflow::new(), Overflow::new());
    db.insert(Twin { id: 1, left, right }).await.unwrap();
    let too_large = "x".repeat(100_000);
    let push = db.update::<Twin>(1).push(|t| t.left(), &too_large);
    assert_eq!(push.await.unwrap_err().kind(), ErrorKind::Invalid);
    let large = "x".repeat(60_000);
    for _ in 0..8 {
        let twin = || db.update::<Twin>(1);
        twin().push(|t| t.left(), &large).await.unwrap();
        twin().push(|t| t.right(), &large).await.unwrap();
        let stored = raw(&fixture, "twins", rawdoc! { "_id": 1 }).await;
        let size = RawDocumentBuf::try_from(&stored[0]).unwrap();
        let size = size.as_bytes().len();
        assert!(size < 540_000, "{size} bytes");
    }
    for all in [
        db.get::<Twin>(1).elements(|t| t.left()).all().await,
        db.get::<Twin>(1).elements(|t| t.right()).all().await,
    ] {
        assert!(all.unwrap() == vec![large.clone(); 8]);
    }
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Values that an update names stand in the document until it is carried out.
pub async fn a_pull_of_too_much_is_refused(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(book(1, 0..60)).await.unwrap();
    let many = (0..3).map(|n| format!("{n}{}", "x".repeat(100_000)));
    let pull = db
        .update::<Book>(1)
        .pull_all(|b| b.customers_purchased(), many.chain([user(50)]));
    assert_eq!(pull.await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(customers(&db, 1).await, users(0..60));
    is_clean(&db).await;
}

/// A deletion of an outlier reads what leads to its elements, and none of these.
pub async fn a_deletion_reads_no_elements(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    fresh(&fixture).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(book(1, 0..60)).await.unwrap();
    recorder.clear();
    db.delete::<Book>(1).await.unwrap();
    let mut looked = 0;
    for operation in recorder.operations() {
        let Operation::Find(find) = operation else {
            continue;
        };
        let Some(projection) = find.projection else {
            continue;
        };
        let asks = |name: &str| projection.get(name).unwrap().is_some();
        looked += usize::from(asks("_odm.overflow.customers_purchased.generation"));
        // A deletion that is no transaction reads what else it has promised.
        assert!(!has_transactions || !asks("_odm"), "{projection:?}");
    }
    assert_eq!(looked, 1);
    assert!(extras(&fixture).await.is_empty());
}

/// Documents outside that have lost all of their elements go, though the array is too long to come back.
pub async fn empty_documents_outside_go(fixture: Fixture) {
    let db = fresh(&fixture).await;
    db.insert(book(1, 0..2_000)).await.unwrap();
    let pull = db
        .update::<Book>(1)
        .pull_all(|b| b.customers_purchased(), users(0..1_600));
    pull.await.unwrap();
    assert_eq!(extras(&fixture).await.len(), 4);
    assert_eq!(db.arrays::<Book>().fold().await.unwrap(), 0);
    assert_eq!(extras(&fixture).await.len(), 1);
    assert_eq!(customers(&db, 1).await, users(1_600..2_000));
    is_clean(&db).await;
}

/// What is proposed is within what can be.
pub async fn a_proposal_has_bounds(fixture: Fixture) {
    let db = fresh(&fixture).await;
    let insert = async |id: i64, customers: Vec<String>| {
        let document =
            doc! { "_id": id, "title": "old", "copies": 0_i64, "customers_purchased": customers };
        let insert = Insert {
            collection: "sales".into(),
            documents: vec![RawDocumentBuf::try_from(&document).unwrap()],
            ordered: true,
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

/// What the server refuses outside of a document keeps nothing from the array behind it.
pub async fn a_change_that_is_refused_is_over(fixture: Fixture) {
    let db = odm::Database::<Polls>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let options = (0..80).map(|number| PollOption {
        number,
        votes: (number != 60).then_some(1),
    });
    db.insert(Poll {
        id: 1,
        options: options.collect(),
    })
    .await
    .unwrap();
    let votes = db.update::<Poll>(1).inc(|p| p.options().all().votes(), 1);
    let error = votes.await.unwrap_err();
    assert!(!error.is_conflict(), "{error}");
    let owed = db.owed().await.unwrap();
    assert!(owed.is_empty(), "{owed}");
    let pull = db
        .update::<Poll>(1)
        .pull_where(|p| p.options(), |option| option.number().eq(60));
    pull.await.unwrap();
    for number in 80..90 {
        let votes = Some(1);
        db.update::<Poll>(1)
            .push(|p| p.options(), PollOption { number, votes })
            .await
            .unwrap();
    }
    let votes = db.update::<Poll>(1).inc(|p| p.options().all().votes(), 1);
    votes.await.unwrap();
    let all = db.get::<Poll>(1).elements(|p| p.options()).all().await;
    let numbers = all.unwrap().into_iter().map(|option| option.number);
    let expected = (0..90).filter(|number| *number != 60);
    assert!(numbers.eq(expected));
    assert!(db.check().await.unwrap().is_clean());
}

/// Asked, and answered.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "polls")]
struct Poll {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "more_options", owner = "poll"))]
    options: Overflow<PollOption>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct PollOption {
    number: i64,
    votes: Option<i64>,
}

#[derive(Schema)]
#[schema(models(Poll))]
struct Polls;

const WRITES: &[Write<Shop>] = &[
    ("insert", |db| {
        Box::pin(async move { db.insert(book(9, 0..120)).await.map(drop) })
    }),
    ("insert several", |db| {
        Box::pin(async move {
            let all = db.insert_many([book(8, 0..2), book(9, 0..60), book(10, 0..60)]);
            all.await.map(drop)
        })
    }),
    ("push", |db| {
        Box::pin(async move {
            let push = db.update::<Book>(1).push(|b| b.customers_purchased(), "u3");
            push.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("push where it is full", |db| {
        Box::pin(async move {
            let push = db
                .update::<Book>(3)
                .push(|b| b.customers_purchased(), "u11");
            push.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("add many", |db| {
        Box::pin(async move {
            let add = db
                .update::<Book>(3)
                .add_each_to_set(|b| b.customers_purchased(), users(5..200));
            add.inc(|b| b.copies(), 189).await.map(drop)
        })
    }),
    ("push many", |db| {
        Box::pin(async move {
            let push = db
                .update::<Book>(3)
                .push_each(|b| b.customers_purchased(), users(11..200));
            push.inc(|b| b.copies(), 189).await.map(drop)
        })
    }),
    ("add", |db| {
        Box::pin(async move {
            let add = db
                .update::<Book>(2)
                .add_to_set(|b| b.customers_purchased(), "u120");
            add.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("pull", |db| {
        Box::pin(async move {
            let pull = db
                .update::<Book>(2)
                .pull_all(|b| b.customers_purchased(), users([1, 50, 118]));
            pull.inc(|b| b.copies(), -3).await.map(drop)
        })
    }),
    ("replace", |db| {
        Box::pin(async move {
            let set = db
                .update::<Book>(2)
                .set(|b| b.customers_purchased(), users(0..150));
            set.inc(|b| b.copies(), 30).await.map(drop)
        })
    }),
    ("clear", |db| {
        Box::pin(async move {
            let set = db.update::<Book>(2).set(|b| b.customers_purchased(), []);
            set.inc(|b| b.copies(), -120).await.map(drop)
        })
    }),
    ("add where it is full", |db| {
        Box::pin(async move {
            let add = db
                .update::<Book>(3)
                .add_to_set(|b| b.customers_purchased(), "u11");
            add.inc(|b| b.copies(), 1).await.map(drop)
        })
    }),
    ("change", |db| {
        Box::pin(async move {
            let fifty = db.update::<Book>(2).set(
                |b| b.customers_purchased().matching(|c| c.eq("u50")),
                "u500",
            );
            fifty.await.map(drop)
        })
    }),
    ("fold", |db| {
        Box::pin(async move { db.arrays::<Book>().fold().await.map(drop) })
    }),
    ("delete", |db| {
        Box::pin(async move { db.delete::<Book>(2).await.map(drop) })
    }),
];

/// `copies` is as many as there are customers: what an update does beside happens with it or not at all.
pub async fn wherever_a_write_dies_nothing_is_lost(fixture: Fixture) {
    let crashes = Crashes {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                let with = |id, len| Book {
                    copies: len as i64,
                    ..book(id, 0..len)
                };
                db.insert_many([with(1, 3), with(2, 120), with(3, 3), with(4, 60)])
                    .await
                    .unwrap();
                let push = db
                    .update::<Book>(3)
                    .push_each(|b| b.customers_purchased(), users(3..11));
                push.inc(|b| b.copies(), 8).await.unwrap();
                let pull = db
                    .update::<Book>(4)
                    .pull_all(|b| b.customers_purchased(), users(2..60));
                pull.inc(|b| b.copies(), -58).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let owed = db.owed().await.unwrap();
                assert!(owed.is_empty(), "{when}: {owed}");
                for found in db.find::<Book>().all().await.unwrap() {
                    let all = customers(db, found.id).await;
                    assert_eq!(found.customers_purchased.len(), all.len() as u64, "{when}");
                    let distinct: BTreeSet<_> = all.iter().collect();
                    assert_eq!(distinct.len(), all.len(), "{when}: {all:?}");
                    if found.id < 8 {
                        assert_eq!(found.copies, all.len() as i64, "{when}: {all:?}");
                    } else {
                        let len = all.len();
                        assert!([2, 60, 120].contains(&len), "{when}: {len}");
                    }
                }
            })
        },
    };
    crashes.run(&fixture).await;
}

const MENDING: &[Write<Shop>] = &[
    ("spill", |db| {
        Box::pin(async move { db.arrays::<Book>().spill().await.map(drop) })
    }),
    ("repair", |db| {
        Box::pin(async move { db.repair().apply().await.map(drop) })
    }),
];

/// What is too long, and what is counted wrong, is mended by whoever comes behind one that dies at it.
pub async fn wherever_mending_dies_nothing_is_lost(fixture: Fixture) {
    let crashes = Crashes {
        writes: MENDING,
        begin: |db| {
            Box::pin(async move {
                let backend = db.backend().clone();
                let others = odm::Database::<later::Shop>::with_backend(backend.clone());
                let long = later::Book {
                    id: 1,
                    title: "long".into(),
                    copies: 0,
                    customers_purchased: users(0..40).into(),
                };
                others.insert(long).await.unwrap();
                db.insert(book(2, 0..40)).await.unwrap();
                let count = doc! { "$set": { "_odm.overflow.customers_purchased.count": 7_i64 } };
                let update = Update {
                    collection: "sales".into(),
                    filter: rawdoc! { "_id": 2_i64 },
                    change: Change::operators(RawDocumentBuf::try_from(&count).unwrap()),
                    multi: false,
                    upsert: false,
                };
                backend.update(update).await.unwrap();
            })
        },
        may_find: |fault| {
            matches!(
                fault,
                Fault::TooManyInside { .. } | Fault::Miscounted { .. }
            )
        },
        agrees: |db, when| {
            Box::pin(async move {
                db.repair().apply().await.unwrap();
                is_clean(db).await;
                for id in [1, 2] {
                    assert_eq!(customers(db, id).await, users(0..40), "{when}");
                }
            })
        },
    };
    crashes.run(&fixture).await;
}
