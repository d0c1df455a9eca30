//! Overflow arrays: resident elements in the owner document, spilled elements in chunk documents.

use std::{collections::BTreeSet, sync::Arc};

use odm::{
    ErrorKind, Filter, Session,
    backend::{
        Recorder,
        operation::{FindOperation, Operation},
    },
    bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};
use odm_tests::assert_clean;

use crate::Fixture;

/// A model with an overflow array of scalar values: the customers of a book.
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

/// A model with an overflow array of embedded structs, and custom names for the fields and the collection of the chunks.
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

/// A model with scopes, soft delete and versions.
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

pub(super) async fn open_shop(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

pub(super) async fn customers(db: &Db, id: i64) -> Vec<String> {
    let all = db.get::<Book>(id).elements(|b| b.customers_purchased());
    all.all().await.unwrap()
}

pub(super) async fn stored_documents(
    fixture: &Fixture,
    collection: &'static str,
    sort: RawDocumentBuf,
) -> Vec<BsonDocument> {
    let find = FindOperation {
        collection: collection.into(),
        filter: rawdoc! {},
        projection: None,
        sort: Some(sort),
        limit: None,
        options: Default::default(),
    };
    let found = fixture.backend().find_all(find).await.unwrap();
    let found = found
        .iter()
        .map(|raw| BsonDocument::try_from(&**raw).unwrap());
    found.collect()
}

pub(super) async fn chunk_documents(fixture: &Fixture) -> Vec<BsonDocument> {
    stored_documents(fixture, "extra_sales", rawdoc! { "book_id": 1, "seq": 1 }).await
}

pub async fn stored_layout_matches_the_book(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let inserted = db
        .insert_many([book(1, 0..3), book(2, 0..130)])
        .await
        .unwrap();
    let lens = inserted.iter().map(|book| {
        let array = &book.customers_purchased;
        (array.resident().len(), array.len(), array.has_more())
    });
    assert_eq!(lens.collect::<Vec<_>>(), [(3, 3, false), (3, 130, true)]);
    let stored = stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    // A document without spilled elements has no metadata.
    let typical = doc! { "_id": 1_i64, "title": "book 1", "copies": 0_i64, "customers_purchased": ["u0", "u1", "u2"] };
    assert_eq!(stored[0], typical);
    let mut outlier = stored[1].clone();
    let metadata = outlier.remove("_odm").unwrap();
    let shown = doc! {
        "_id": 2_i64, "title": "book 2", "copies": 0_i64, "customers_purchased": ["u0", "u1", "u2"],
        "has_extras": true,
    };
    assert_eq!(outlier, shown);
    let metadata = metadata.as_document().unwrap();
    let manifests = metadata.get_document("overflow").unwrap();
    let manifest = manifests.get_document("customers_purchased").unwrap();
    assert_eq!(manifest.get_i64("count").ok(), Some(127));
    assert!(!manifest.contains_key("work"), "{manifest}");
    let chunks = chunk_documents(&fixture).await;
    let mut all = Vec::new();
    for (number, document) in (0..).zip(&chunks) {
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
    assert_clean(&db).await;
    // Custom names for the fields and the collection of the chunks.
    let post = NewPost {
        id: 1,
        all_comments: (0..5).map(comment).collect(),
    };
    let post = db.insert(post).await.unwrap();
    assert_eq!(post.all_comments.len(), 5);
    let stored = stored_documents(&fixture, "posts", rawdoc! { "_id": 1 }).await;
    assert_eq!(stored[0].get_bool("more").ok(), Some(true));
    assert_eq!(stored[0].get_array("allComments").unwrap().len(), 2);
    let rest = stored_documents(&fixture, "moreComments", rawdoc! { "_id": 1 }).await;
    assert_eq!(rest[0].get_i64("post").ok(), Some(1));
    assert_eq!(rest[0].get_i64("number").ok(), Some(0));
    assert_eq!(rest[0].get_array("rest").unwrap().len(), 3);
    assert_clean(&db).await;
}

fn comment(number: usize) -> Comment {
    Comment {
        who: user(number),
        votes: number as i64,
    }
}

pub async fn pushes_overflow(fixture: Fixture) {
    let db = open_shop(&fixture).await;
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
            let array = db.get::<Book>(1).await.unwrap().customers_purchased;
            assert_eq!(array.len(), expected.len() as u64);
            assert_eq!(array.has_more(), number > 2);
            assert_eq!(array.resident(), &expected[..expected.len().min(3)]);
            assert_clean(&db).await;
        }
    }
    assert_eq!(customers(&db, 1).await, expected);
    // Some of the pushed elements fit into the document.
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
    // The push has more elements than the tail can hold.
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
    assert_clean(&db).await;
    // A push does not insert the owner document.
    let missing = db
        .update::<Book>(9)
        .push(|b| b.customers_purchased(), "u0")
        .await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

pub async fn a_push_is_part_of_its_update(fixture: Fixture) {
    let db = open_shop(&fixture).await;
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
        assert!(!refused.is_applied());
        let done = db
            .update::<Book>(id)
            .when(|b| b.copies().eq(0))
            .push(|b| b.customers_purchased(), "x")
            .inc(|b| b.copies(), 1)
            .await
            .unwrap();
        assert!(done.is_applied());
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
    // `update_first` follows the sort order, whether the first array has spilled elements or not.
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
    assert_clean(&db).await;
    // A bulk mixes updates and inserts of overflow arrays.
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
    // An upsert inserts a document with spilled elements.
    let upserted = db
        .update::<Book>(4)
        .push(|b| b.customers_purchased(), "once")
        .or_insert(book(4, 0..70))
        .await
        .unwrap();
    assert!(upserted.is_inserted(), "{upserted:?}");
    assert_eq!(customers(&db, 4).await, users(0..70));
    assert_clean(&db).await;
}

pub async fn pull_removes_resident_and_spilled_elements(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..60), book(3, 0..3)])
        .await
        .unwrap();
    // A pushed element waits in the tail.
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
            assert!(pull.await.unwrap().is_applied());
        }
        expected.retain(|other| *other != user(number));
        assert_eq!(customers(&db, 2).await, expected);
        let len = db.get::<Book>(2).await.unwrap().customers_purchased.len();
        assert_eq!(len, expected.len() as u64);
        assert_clean(&db).await;
    }
    assert_eq!(customers(&db, 1).await, ["u0"]);
    // A pull by a condition, combined with a change of a second field.
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
    // A push appends after the spilled elements, though the document has space for a resident element.
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
    // Pull values from all documents.
    let pull = db
        .update_many::<Book>(|_| Filter::all())
        .pull_all(|b| b.customers_purchased(), users(0..100));
    assert_eq!(pull.await.unwrap().matched, 3);
    assert_eq!(customers(&db, 2).await, ["last"]);
    assert!(customers(&db, 1).await.is_empty() && customers(&db, 3).await.is_empty());
    assert_clean(&db).await;
}

pub async fn update_changes_resident_and_spilled_elements(fixture: Fixture) {
    let db = open_shop(&fixture).await;
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
    assert_clean(&db).await;
}

pub async fn an_array_is_replaced(fixture: Fixture) {
    let db = open_shop(&fixture).await;
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
            let array = db.get::<Book>(id).await.unwrap().customers_purchased;
            assert_eq!(
                (array.len(), array.resident().len()),
                (len as u64, len.min(3))
            );
            assert_clean(&db).await;
            let unmatched = db.update::<Book>(id).when(|b| b.copies().lt(0));
            let unmatched = unmatched
                .set(|b| b.customers_purchased(), users(0..90))
                .await
                .unwrap();
            assert!(!unmatched.is_applied());
        }
        assert_eq!(db.get::<Book>(id).await.unwrap().copies, 8);
    }
    // No chunk documents and no metadata are left.
    assert_eq!(chunk_documents(&fixture).await, []);
    let stored = stored_documents(&fixture, "sales", rawdoc! { "_id": 1 }).await;
    for (id, document) in [1_i64, 2].into_iter().zip(stored) {
        let title = format!("book {id}");
        let plain = doc! { "_id": id, "title": title, "copies": 8_i64, "customers_purchased": [] };
        assert_eq!(document, plain);
    }
}

pub async fn all_elements_are_read(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, 0..2), book(2, 0..1_300), book(3, [])])
        .await
        .unwrap();
    for number in 1_300..1_360 {
        db.update::<Book>(2)
            .push(|b| b.customers_purchased(), user(number))
            .await
            .unwrap();
    }
    let elements = |id| db.get::<Book>(id).elements(|b| b.customers_purchased());
    for (id, len) in [(1, 2), (2, 1_360), (3, 0)] {
        assert_eq!(elements(id).len().await.unwrap(), len as u64);
        assert_eq!(elements(id).is_empty().await.unwrap(), len == 0);
        assert_eq!(elements(id).all().await.unwrap(), users(0..len));
        let mut stream = elements(id).stream();
        let mut all = Vec::new();
        while let Some(one) = stream.next().await {
            all.push(one.unwrap());
        }
        assert_eq!(all, users(0..len));
        let mut paged = Vec::new();
        loop {
            let page = elements(id).page(paged.len() as u64, 97).await.unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, users(0..len));
        let rest = elements(id).page(4, usize::MAX).await.unwrap();
        assert_eq!(rest, users(4.min(len)..len));
        for position in [
            0, 1, 2, 3, 502, 503, 1_299, 1_300, 1_310, 1_358, 1_359, 1_360, 5_000,
        ] {
            let one = elements(id).get(position as u64).await.unwrap();
            assert_eq!(one, (position < len).then(|| user(position)), "{position}");
        }
        for number in [0, 1, 2, 3, 600, 1_299, 1_300, 1_305, 1_359, 1_360] {
            let contains_element = elements(id).contains(user(number)).await.unwrap();
            assert_eq!(contains_element, number < len, "{number}");
        }
        let found = elements(id)
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
    assert_eq!(
        elements(9).all().await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        elements(9).len().await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        elements(9)
            .stream()
            .next()
            .await
            .unwrap()
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    // Queries find documents by resident elements, and by the existence of spilled elements.
    let found = db
        .find::<Book>()
        .filter(|b| b.customers_purchased().has_more())
        .all()
        .await
        .unwrap();
    assert_eq!(found.iter().map(|book| book.id).collect::<Vec<_>>(), [2]);
    let bought_by = |name: &'static str| {
        db.find::<Book>()
            .filter(move |b| b.customers_purchased().resident().contains(name))
    };
    assert_eq!(bought_by("u1").count().await.unwrap(), 2);
    assert_eq!(bought_by("u700").count().await.unwrap(), 0);
}

pub async fn any_finds_resident_and_spilled_elements(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    // The element is resident in document 1, spilled in document 2, and in the tail of document 3.
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
    // The condition combines with further conditions of a filter.
    let one = bought(1).await;
    let found = db.find::<Book>().filter(|b| one & b.title().eq("book 3"));
    assert_eq!(found.count().await.unwrap(), 1);
    let some = bought(600).await;
    let copied = db.update_many::<Book>(|_| some).inc(|b| b.copies(), 1);
    assert_eq!(copied.await.unwrap().matched, 1);
    assert_eq!(db.get::<Book>(2).await.unwrap().copies, 1);
    // Removed elements are not found after a pull, a replacement or a delete.
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
    // Elements are found after a pull, and after a fold.
    db.update::<Book>(2)
        .pull_where(|b| b.customers_purchased(), |c| c.not_in(users(690..692)))
        .await
        .unwrap();
    assert_eq!(ids(bought(691).await).await, [2]);
    db.arrays::<Book>().fold().await.unwrap();
    assert_eq!(ids(bought(691).await).await, [2]);
    assert_clean(&db).await;

    // A single element must match the whole condition.
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

pub async fn delete_removes_chunks(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    db.insert_many((1..=6).map(|id| book(id, 0..60 * (id as usize % 2))))
        .await
        .unwrap();
    assert!(db.delete::<Book>(1).await.unwrap().deleted == 1);
    assert!(db.delete::<Book>(2).await.unwrap().deleted == 1);
    let owners = async || {
        let chunks = chunk_documents(&fixture).await;
        let owners = chunks.iter().map(|chunk| chunk.get_i64("book_id").unwrap());
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
    // A new document with the `_id` of a deleted document has no old elements.
    db.insert(book(1, 0..1)).await.unwrap();
    assert_eq!(customers(&db, 1).await, ["u0"]);
    assert_clean(&db).await;
}

pub async fn array_updates_are_atomic_in_transactions(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = open_shop(&fixture).await;
    db.insert_many([book(1, 0..3), book(2, 0..60)])
        .await
        .unwrap();
    let before = (
        customers(&db, 1).await,
        customers(&db, 2).await,
        chunk_documents(&fixture).await,
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
            chunk_documents(&fixture).await
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
    assert_clean(&db).await;
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
    let db = open_shop(&fixture).await;
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
    let db = open_shop(&fixture).await;
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
    assert_clean(&db).await;
}

/// No action reaches the elements of a second tenant, or the elements of a soft-deleted document.
pub async fn hidden_arrays_are_unreachable(fixture: Fixture) {
    let db = open_shop(&fixture).await;
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
    let update = acme.update_many::<Thread>(|_| Filter::all());
    assert_eq!(
        update
            .pull(|t| t.replies(), user(30))
            .await
            .unwrap()
            .matched,
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
    // A restored document has all its elements. A permanent delete also deletes the chunks.
    acme.restore::<Thread>(2).await.unwrap();
    let push = acme.update::<Thread>(2).push(|t| t.replies(), "last");
    push.await.unwrap();
    assert_eq!(replies(acme.clone(), 2).await.len(), 41);
    for id in [1, 2] {
        acme.delete::<Thread>(id).permanently().await.unwrap();
    }
    db.wait_for_pending().await.unwrap();
    let chunks = stored_documents(&fixture, "more_replies", rawdoc! { "seq": 1 }).await;
    assert!(
        chunks
            .iter()
            .all(|part| part.get_i64("thread").unwrap() == 3)
    );
    assert_clean(&db).await;
}

/// The operations of reads and writes, counted by a recorder.
pub async fn operations_per_read_and_write(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    open_shop(&fixture).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let take_operations = || {
        let operations = recorder.operations();
        let summary = operations.iter().map(|operation| match operation {
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
        let summary: Vec<_> = summary.collect();
        recorder.clear();
        summary.join(", ")
    };
    db.insert_many([book(1, []), book(2, [])]).await.unwrap();
    assert_eq!(take_operations(), "insert sales");
    // A document without spilled elements needs a single round trip, for any further changes of the update.
    let push = db.update::<Book>(1).when(|b| b.copies().eq(0));
    push.push(|b| b.customers_purchased(), "u0")
        .inc(|b| b.copies(), 1)
        .await
        .unwrap();
    assert_eq!(take_operations(), "update sales");
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
    assert_eq!(
        take_operations(),
        "update sales, update sales, update sales"
    );
    db.get::<Book>(1)
        .elements(|b| b.customers_purchased())
        .all()
        .await
        .unwrap();
    assert_eq!(take_operations(), "find sales");
    db.get::<Book>(1)
        .elements(|b| b.customers_purchased())
        .contains("u7")
        .await
        .unwrap();
    assert_eq!(take_operations(), "find sales");
    // The `any` condition reads the tails, the chunks, and the owners of the matching chunks.
    let bought = async |customer: &'static str| {
        let arrays = db.arrays::<Book>();
        let any = arrays.any(|b| b.customers_purchased(), |c| c.eq(customer));
        any.await.unwrap()
    };
    drop(bought("u7").await);
    assert_eq!(take_operations(), "find sales, aggregate extra_sales");
    if has_transactions {
        db.delete::<Book>(1).await.unwrap();
        assert_eq!(take_operations(), "delete sales");
    }
    // A push to a document with spilled elements needs two operations.
    db.update::<Book>(2)
        .push_each(|b| b.customers_purchased(), users(0..3))
        .await
        .unwrap();
    take_operations();
    for number in 3..11 {
        db.update::<Book>(2)
            .push(|b| b.customers_purchased(), user(number))
            .await
            .unwrap();
        assert_eq!(take_operations(), "update sales, update sales");
    }
    // A push to a full tail first moves the tail into the chunks.
    db.update::<Book>(2)
        .push(|b| b.customers_purchased(), "u11")
        .await
        .unwrap();
    assert_eq!(
        take_operations(),
        "update sales, update sales, find sales, modify sales, update extra_sales, update sales, update extra_sales, \
         update sales"
    );
    db.get::<Book>(2).await.unwrap();
    assert_eq!(take_operations(), "find sales");
    db.get::<Book>(2)
        .elements(|b| b.customers_purchased())
        .len()
        .await
        .unwrap();
    assert_eq!(take_operations(), "find sales");
    db.get::<Book>(2)
        .elements(|b| b.customers_purchased())
        .all()
        .await
        .unwrap();
    assert_eq!(take_operations(), "find sales, find extra_sales");
    drop(bought("u7").await);
    assert_eq!(
        take_operations(),
        "find sales, aggregate extra_sales, find sales"
    );
}

/// A delete of a document with spilled elements reads the manifest, but no elements.
pub async fn a_delete_reads_no_elements(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    open_shop(&fixture).await;
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(book(1, 0..60)).await.unwrap();
    recorder.clear();
    db.delete::<Book>(1).await.unwrap();
    let mut reads = 0;
    for operation in recorder.operations() {
        let Operation::Find(find) = operation else {
            continue;
        };
        let Some(projection) = find.projection else {
            continue;
        };
        let asks = |name: &str| projection.get(name).unwrap().is_some();
        reads += usize::from(asks("_odm.overflow.customers_purchased.generation"));
        // A delete without a transaction also reads the pending work.
        assert!(!has_transactions || !asks("_odm"), "{projection:?}");
    }
    assert_eq!(reads, 1);
    assert!(chunk_documents(&fixture).await.is_empty());
}
