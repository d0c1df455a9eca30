//! Arrays that overflow: the first elements are in their document, the others in documents of another collection.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    ErrorKind, Filter, Session,
    backend::{
        Recorder,
        operation::{Find, Operation},
    },
    bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use super::is_clean;
use crate::Fixture;

/// S10, with fewer customers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sales")]
pub(super) struct Book {
    #[serde(rename = "_id")]
    pub(super) id: i64,
    pub(super) title: String,
    pub(super) copies: i64,
    #[embed(overflow(after = 3, into = "extra_sales", owner = "book_id"))]
    pub(super) customers_purchased: Overflow<String>,
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
pub(super) struct Shop;

pub(super) type Db = odm::Database<Shop>;

pub(super) fn book(id: i64, customers: impl IntoIterator<Item = usize>) -> Book {
    Book {
        id,
        title: format!("book {id}"),
        copies: 0,
        customers_purchased: customers.into_iter().map(user).collect(),
    }
}

pub(super) fn user(number: usize) -> String {
    format!("u{number}")
}

pub(super) fn users(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(user).collect()
}

pub(super) async fn fresh(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

pub(super) async fn customers(db: &Db, id: i64) -> Vec<String> {
    let all = db.get::<Book>(id).elements(|b| b.customers_purchased());
    all.all().await.unwrap()
}

pub(super) async fn raw(
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
        max_time: None,
    };
    let found = fixture.backend().find_all(find).await.unwrap();
    let found = found
        .iter()
        .map(|raw| BsonDocument::try_from(&**raw).unwrap());
    found.collect()
}

pub(super) async fn extras(fixture: &Fixture) -> Vec<BsonDocument> {
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
