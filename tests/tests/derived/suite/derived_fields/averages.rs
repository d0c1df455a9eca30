//! Averages, minimums and maximums of children, computed fields that use rollups, and rollups that are declared later.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    backend::{
        Recorder,
        operation::{Direction, DocumentChange, FindOperation, Operation, UpdateOperation},
    },
    bson::{Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    check::FindingKind,
    prelude::*,
};

use crate::{
    Fixture,
    crash::{CrashTest, Write},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Review::product)]
    reviews: i64,
    #[sum(of = Review::product, value = stars)]
    stars: i64,
    #[avg(of = Review::product, value = stars)]
    average: Option<f64>,
    #[avg(of = Review::product, value = age, when(is_shown = true))]
    age: Option<f64>,
    #[min(of = Review::product, value = stars)]
    #[serde(rename = "low")]
    worst: Option<i64>,
    #[max(of = Review::product, value = stars)]
    best: Option<i64>,
    #[min(of = Review::product, value = text, when(is_shown = true))]
    first: Option<String>,
    #[max(of = Review::product, value = weight)]
    heaviest: Option<f64>,
    #[computed(stars / reviews, default = -1.0)]
    rating: f64,
    #[computed(average * 10 + len(newest) - best)]
    score: f64,
    #[latest(2, of = Review::product, by = stars)]
    newest: Vec<Excerpt>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Review)]
struct Excerpt {
    stars: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "reviews")]
struct Review {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    product: Ref<Product>,
    stars: i64,
    age: Option<i32>,
    text: Option<String>,
    weight: f64,
    is_shown: bool,
}

/// A parent that children refer to through an array of references. The children can be soft-deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "labels")]
struct Label {
    #[serde(rename = "_id")]
    id: i64,
    #[avg(of = Ticket::labels, value = size.hours)]
    hours: Option<f64>,
    #[max(of = Ticket::labels, value = due)]
    last: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tickets", soft_delete)]
struct Ticket {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(max = 10)]
    labels: Vec<Ref<Label>>,
    #[embed]
    size: Size,
    due: Option<DateTime>,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Size {
    hours: i32,
}

#[derive(Schema)]
#[schema(models(Product, Review, Label, Ticket))]
struct Shop;
type Db = odm::Database<Shop>;

fn review(id: i64, product: i64, stars: i64) -> Review {
    Review {
        id,
        product: Ref::new(product),
        stars,
        age: (id % 2 == 0).then(|| i32::try_from(id).unwrap()),
        text: (id % 3 > 0).then(|| format!("review {id}")),
        weight: if id == 4 { f64::NAN } else { 0.5 * id as f64 },
        is_shown: stars > 1,
    }
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

async fn wait_for_pending_work(db: &Db) {
    db.wait_for_pending()
        .timeout(Duration::from_secs(20))
        .await
        .unwrap();
}

async fn assert_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Asserts that the rollups of all products follow from the reviews.
async fn assert_exact(db: &Db, when: &str) {
    let all_reviews = db.find::<Review>().all().await.unwrap();
    let average = |values: Vec<i64>| {
        let sum: i64 = values.iter().sum();
        (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
    };
    for product in db.find::<Product>().all().await.unwrap() {
        let reviews = all_reviews.iter();
        let reviews: Vec<_> = reviews
            .filter(|review| *review.product.id() == product.id)
            .collect();
        let stars: Vec<_> = reviews.iter().map(|review| review.stars).collect();
        let shown: Vec<_> = reviews.iter().filter(|review| review.is_shown).collect();
        let ages = shown.iter().filter_map(|review| review.age);
        let texts = shown.iter().filter_map(|review| review.text.clone());
        let weights = reviews.iter().map(|review| review.weight);
        let context = format!("{when}: {product:?}");
        assert_eq!(product.average, average(stars.clone()), "{context}");
        assert_eq!(
            product.age,
            average(ages.map(i64::from).collect()),
            "{context}"
        );
        assert_eq!(product.worst, stars.iter().min().copied(), "{context}");
        assert_eq!(product.best, stars.iter().max().copied(), "{context}");
        assert_eq!(product.first, texts.min(), "{context}");
        let heaviest = weights.filter(|weight| !weight.is_nan());
        assert_eq!(product.heaviest, heaviest.reduce(f64::max), "{context}");
        let rating = product.average.unwrap_or(-1.0);
        assert_eq!(product.rating, rating, "{context}");
        let listed = stars.len().min(2) as f64;
        let best = product.best.unwrap_or(0) as f64;
        let score = product.average.unwrap_or(0.0) * 10.0 + listed - best;
        assert_eq!(product.score, score, "{context}");
    }
}

pub async fn averages_and_extremes_follow_each_write(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let new = db.insert(NewProduct { id: 1 }).await.unwrap();
    assert_eq!((new.average, new.worst, new.rating), (None, None, -1.0));
    db.insert(NewProduct { id: 2 }).await.unwrap();
    db.insert(review(1, 1, 3)).await.unwrap();
    let one = db.get::<Product>(1).await.unwrap();
    assert_eq!(
        (one.average, one.worst, one.best, one.rating),
        (Some(3.0), Some(3), Some(3), 3.0)
    );
    assert_eq!((one.age, one.first.as_deref()), (None, Some("review 1")));
    db.insert_many((2..=9).map(|id| review(id, 1 + id % 2, id % 5)))
        .await
        .unwrap();
    assert_exact(&db, "after the inserts").await;
    // A zero counts in an average, and null does not.
    let two = db.get::<Product>(2).await.unwrap();
    assert_eq!((two.average, two.worst), (Some(2.25), Some(0)));
    // The child with the minimum changes, moves and is deleted. So does the child with the maximum.
    db.update::<Review>(5).set(|r| r.stars(), 7).await.unwrap();
    assert_exact(&db, "after the minimum changed").await;
    db.update::<Review>(5).inc(|r| r.stars(), -7).await.unwrap();
    assert_exact(&db, "after the maximum changed").await;
    db.update::<Review>(5)
        .set(|r| r.product(), Ref::new(1))
        .await
        .unwrap();
    assert_exact(&db, "after a move").await;
    db.delete::<Review>(9).await.unwrap();
    assert_exact(&db, "after a delete").await;
    db.update_many::<Review>(|r| r.id().gt(2))
        .set(|r| r.is_shown(), true)
        .mul(|r| r.stars(), 2)
        .await
        .unwrap();
    assert_exact(&db, "after an update of many").await;
    db.modify::<Review>(4, |review| (review.age, review.text) = (None, None))
        .await
        .unwrap();
    assert_exact(&db, "after values became null").await;
    db.modify::<Review>(4, |review| review.weight = 100.0)
        .await
        .unwrap();
    assert_exact(&db, "after NaN became a number").await;
    let upsert = db.update::<Review>(10).set(|r| r.stars(), 1);
    let upserted = upsert.or_insert(review(10, 2, 50)).await.unwrap();
    assert!(upserted.is_inserted());
    assert_exact(&db, "after an upsert").await;
    db.delete_many::<Review>(|r| r.id().gt(0)).await.unwrap();
    assert_exact(&db, "after the last delete").await;
    let none = db.get::<Product>(1).await.unwrap();
    assert_eq!((none.average, none.best, none.rating), (None, None, -1.0));
    let refused = db.modify::<Product>(1, |product| product.average = Some(5.0));
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Invalid);
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

pub async fn a_rating_sorts_filters_and_pages(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many((1..=5).map(|id| NewProduct { id }))
        .await
        .unwrap();
    // The ratings are 4.5, 1, 3, 2 and none.
    for (id, product, stars) in [(1, 1, 5), (2, 1, 4), (3, 2, 1), (4, 3, 3), (5, 4, 2)] {
        db.insert(review(id, product, stars)).await.unwrap();
    }
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let mut page = db.find::<Product>().sort(|p| p.rating().desc()).page(2);
        if let Some(cursor) = after {
            page = page.after(cursor);
        }
        let page = page.await.unwrap();
        ids.extend(page.items.iter().map(|product| product.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(ids, [1, 3, 4, 2, 5]);
    let rated = db.find::<Product>().filter(|p| p.average().gte(2.0));
    let rated = rated.sort(|p| p.average().asc()).all().await.unwrap();
    assert_eq!(
        rated.iter().map(|product| product.id).collect::<Vec<_>>(),
        [4, 3, 1]
    );
    let unrated = db.find::<Product>().filter(|p| p.average().eq(None));
    assert_eq!(unrated.one().await.unwrap().id, 5);
}

pub async fn averages_over_arrays_of_references_ignore_soft_deletes(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([NewLabel { id: 1 }, NewLabel { id: 2 }])
        .await
        .unwrap();
    let ticket = |id: i64, labels: &[i64], hours| NewTicket {
        id,
        labels: labels.iter().map(|label| Ref::new(*label)).collect(),
        size: Size { hours },
        due: (id != 2).then(|| DateTime::from_millis(id)),
    };
    db.insert_many([
        ticket(1, &[1, 2], 4),
        ticket(2, &[1, 1], 1),
        ticket(3, &[2], 10),
    ])
    .await
    .unwrap();
    let read = async |id: i64| {
        let label = db.get::<Label>(id).await.unwrap();
        (label.hours, label.last.map(DateTime::timestamp_millis))
    };
    assert_eq!(
        (read(1).await, read(2).await),
        ((Some(2.5), Some(1)), (Some(7.0), Some(3)))
    );
    db.delete::<Ticket>(3).await.unwrap();
    assert_eq!(read(2).await, (Some(4.0), Some(1)));
    db.restore::<Ticket>(3).await.unwrap();
    assert_eq!(read(2).await, (Some(7.0), Some(3)));
    db.update::<Ticket>(3)
        .set(|t| t.size().hours(), 0)
        .push(|t| t.labels(), Ref::new(1))
        .await
        .unwrap();
    assert_eq!(
        (read(1).await, read(2).await),
        ((Some(5.0 / 3.0), Some(3)), (Some(2.0), Some(3)))
    );
    db.update::<Ticket>(1)
        .pull(|t| t.labels(), Ref::new(2))
        .await
        .unwrap();
    assert_eq!(read(2).await, (Some(0.0), Some(3)));
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
}

pub async fn parents_inserted_after_their_children_get_averages(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([review(1, 7, 5), review(2, 7, 2)])
        .await
        .unwrap();
    db.insert(NewProduct { id: 7 }).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_exact(&db, "after the insert").await;
    assert_eq!(db.get::<Product>(7).await.unwrap().average, Some(3.5));
    db.delete::<Product>(7).await.unwrap();
    db.update::<Review>(1).set(|r| r.stars(), 1).await.unwrap();
    db.insert(review(3, 7, 9)).await.unwrap();
    db.delete::<Review>(2).await.unwrap();
    db.insert(NewProduct { id: 7 }).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_exact(&db, "after the parent returned").await;
    assert_eq!(db.get::<Product>(7).await.unwrap().worst, Some(1));
    assert_clean(&db).await;
}

/// Concurrent writers insert new extremes, and change, move and delete the children with the extremes.
pub async fn concurrent_writes_keep_averages_and_extremes_exact(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([NewProduct { id: 1 }, NewProduct { id: 2 }])
        .await
        .unwrap();
    let tasks = (0..8).map(|task: i64| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..6 {
                let id = 1 + task * 100 + round;
                db.insert(review(id, 1, round * (1 - task % 2 * 2)))
                    .await
                    .unwrap();
                match round {
                    1 => drop(
                        db.update::<Review>(id)
                            .set(|r| r.product(), Ref::new(2))
                            .await,
                    ),
                    2 | 5 => drop(db.delete::<Review>(id).await),
                    3 => drop(db.update::<Review>(id).mul(|r| r.stars(), -1).await),
                    _ => {}
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    wait_for_pending_work(&db).await;
    assert_eq!(db.get::<Product>(1).await.unwrap().reviews, 24);
    assert_exact(&db, "after all tasks").await;
    assert_clean(&db).await;
}

/// Writes to documents without `odm`, as any client can.
async fn write_without_odm(
    fixture: &Fixture,
    collection: &'static str,
    id: i64,
    update: BsonDocument,
) {
    let update = UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(RawDocumentBuf::try_from(&update).unwrap()),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(update).await.unwrap().matched, 1);
}

pub async fn the_check_finds_wrong_averages(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many((1..=4).map(|id| NewProduct { id }))
        .await
        .unwrap();
    let reviews = (1..=12).map(|id| review(id, 1 + id % 4, id));
    db.insert_many(reviews).await.unwrap();
    wait_for_pending_work(&db).await;
    assert_clean(&db).await;
    let changes = [
        (
            "products",
            1,
            doc! { "$set": { "average": 9.0, "low": 1_i64 } },
        ),
        (
            "products",
            2,
            doc! { "$set": { "_odm.rollup_state.average.sum": 1_i64 } },
        ),
        (
            "products",
            3,
            doc! { "$unset": { "_odm.rollup_state": 1, "average": 1, "low": 1 } },
        ),
        ("reviews", 7, doc! { "$set": { "stars": 100_i64 } }),
    ];
    for (collection, id, change) in changes {
        write_without_odm(&fixture, collection, id, change).await;
    }
    let report = db.check().await.unwrap();
    let is_computed = |path: &str, id: i64| {
        let mut findings = report.findings.iter();
        findings.any(|finding| {
            matches!(finding.kind, FindingKind::WrongComputedField { .. })
                && (finding.id == id.into() && *finding.path == *path)
        })
    };
    assert!(
        is_computed("average", 1) && is_computed("low", 1),
        "{report}"
    );
    let text = report.to_string();
    for line in [
        // The sum of 1, 5 and 9.
        "products 2, `average`: has { \"count\": 3, \"sum\": 1 }, expected { \"count\": 3, \"sum\": 15 } from reviews",
        "products 4, `best`: has [",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    db.repair().apply().await.unwrap();
    assert_exact(&db, "after the repair").await;
    assert_clean(&db).await;
    assert_eq!(db.get::<Product>(4).await.unwrap().best, Some(100));
    // After the repair, the rollups follow each write again.
    db.delete::<Review>(7).await.unwrap();
    db.delete::<Review>(2).await.unwrap();
    assert_exact(&db, "after a write").await;
}

/// One index serves the minimum and the maximum of a field, and a delete of an extreme reads one child.
pub async fn extremes_are_read_by_one_index(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let indexes = fixture.backend().list_indexes("reviews").await.unwrap();
    let names = |index: &odm::backend::operation::Index| {
        let keys = index.keys.iter();
        keys.map(|(path, direction)| (path.clone(), *direction))
            .collect::<Vec<_>>()
    };
    let key = |name: &str, direction| (name.to_owned(), direction);
    let by_stars = vec![
        key("product", Direction::Ascending),
        key("stars", Direction::Descending),
        key("_id", Direction::Descending),
    ];
    let found = indexes.iter().filter(|index| {
        let keys = names(index);
        keys.iter().any(|(name, _)| name == "stars")
    });
    assert_eq!(found.map(names).collect::<Vec<_>>(), [by_stars]);
    db.insert(NewProduct { id: 1 }).await.unwrap();
    db.insert_many((1..=9).map(|id| review(id, 1, id)))
        .await
        .unwrap();
    wait_for_pending_work(&db).await;
    let recorder = Recorder::new(fixture.backend());
    let recorded = Db::with_backend(Arc::new(recorder.clone()));
    recorded.delete::<Review>(1).await.unwrap();
    let limits = recorder
        .operations()
        .iter()
        .filter_map(|operation| match operation {
            Operation::Find(FindOperation {
                sort: Some(sort),
                limit,
                ..
            }) if sort.get("stars").is_ok_and(|order| order.is_some()) => Some(*limit),
            _ => None,
        })
        .collect::<Vec<_>>();
    // The minimum is read again. The review is neither the maximum nor in the list of the latest.
    assert_eq!(limits, [Some(1)]);
    assert_exact(&db, "after the delete").await;
}

pub async fn an_average_with_a_sum_that_overflows_is_an_error(fixture: Fixture) {
    let has_transactions = fixture.backend().capabilities().transactions;
    let db = open_with_indexes(&fixture).await;
    db.insert(NewProduct { id: 1 }).await.unwrap();
    // Without transactions, the insert of a parent reads its children in the background, and would find the second review.
    db.wait_for_pending().await.unwrap();
    db.insert(review(1, 1, i64::MAX)).await.unwrap();
    let inserted = db.insert(review(2, 1, 1)).await;
    assert_eq!(inserted.is_err(), has_transactions);
    if let Err(error) = inserted {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(db.find::<Review>().count().await.unwrap(), 1);
    }
    let product = db.get::<Product>(1).await.unwrap();
    assert_eq!((product.reviews, product.worst), (1, Some(i64::MAX)));
}

/// The models of a program that is older than the rollups and the copies.
mod earlier {
    use odm::prelude::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "boards")]
    pub(super) struct Board {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) name: String,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "notes")]
    pub(super) struct Note {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) board: Ref<Board>,
        pub(super) size: i64,
    }

    #[derive(Schema)]
    #[schema(models(Board, Note))]
    pub(super) struct Office;
}

/// The models of the newer program.
mod later {
    use odm::prelude::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "boards")]
    pub(super) struct Board {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) name: String,
        #[count(of = Note::board)]
        pub(super) notes: i64,
        #[sum(of = Note::board, value = size)]
        pub(super) size: i64,
        #[avg(of = Note::board, value = size)]
        pub(super) average: Option<f64>,
        #[max(of = Note::board, value = size)]
        pub(super) largest: Option<i64>,
        #[latest(2, of = Note::board, by = size)]
        pub(super) large: Vec<Excerpt>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, Embedded)]
    #[embedded(of = Note)]
    pub(super) struct Excerpt {
        pub(super) size: i64,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "notes")]
    pub(super) struct Note {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) board: Ref<Board>,
        pub(super) size: i64,
        #[denormalize(from = board.name)]
        pub(super) board_name: String,
    }

    #[derive(Debug, Deserialize, Projection)]
    #[projection(of = Board)]
    pub(super) struct BoardSize {
        pub(super) notes: i64,
    }

    #[derive(Schema)]
    #[schema(models(Board, Note))]
    pub(super) struct Office;
}

/// A copy that is declared later, with serde's `default`.
mod with_default {
    use odm::prelude::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "boards")]
    pub(super) struct Board {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) name: String,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "notes")]
    pub(super) struct Note {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) board: Ref<Board>,
        #[serde(default)]
        #[denormalize(from = board.name)]
        pub(super) board_name: String,
    }

    #[derive(Schema)]
    #[schema(models(Board, Note))]
    pub(super) struct Office;
}

/// A rollup that is declared later reads as the value of a parent without children, until the repair has filled the field.
pub async fn a_rollup_declared_later_reads_as_empty(fixture: Fixture) {
    let old = odm::Database::<earlier::Office>::with_backend(fixture.backend());
    for id in [1, 2] {
        let name = format!("board {id}");
        old.insert(earlier::Board { id, name }).await.unwrap();
    }
    for (id, size) in [(1, 4), (2, 5), (3, 9)] {
        let board = Ref::new(1);
        old.insert(earlier::Note { id, board, size }).await.unwrap();
    }
    let db = odm::Database::<later::Office>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let board = |id: i64, notes, size, average, largest, large: &[i64]| later::Board {
        id,
        name: format!("board {id}"),
        notes,
        size,
        average,
        largest,
        large: large
            .iter()
            .map(|size| later::Excerpt { size: *size })
            .collect(),
    };
    let empty = |id| board(id, 0, 0, None, None, &[]);
    assert_eq!(db.get::<later::Board>(1).await.unwrap(), empty(1));
    let all = db.find::<later::Board>().sort(|b| b.id().asc()).all();
    assert_eq!(all.await.unwrap(), [empty(1), empty(2)]);
    let sizes = db.find::<later::Board>().select::<later::BoardSize>();
    let sizes = sizes.all().await.unwrap();
    assert_eq!(sizes.iter().map(|board| board.notes).sum::<i64>(), 0);
    // A save of another field leaves the missing rollups alone.
    let mut edited = db.edit::<later::Board>(2).await.unwrap();
    edited.name = "board 2".to_owned() + "";
    db.save(&mut edited).await.unwrap();
    db.modify::<later::Board>(2, |board| board.name = "renamed".into())
        .await
        .unwrap();
    db.modify::<later::Board>(2, |board| board.name = "board 2".into())
        .await
        .unwrap();
    // A missing field of another kind stays an error, also in a document without the rollups.
    write_without_odm(&fixture, "boards", 2, doc! { "$unset": { "name": 1 } }).await;
    let error = db.get::<later::Board>(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    assert!(error.to_string().contains("`name`"), "{error}");
    let named = doc! { "$set": { "name": "board 2" } };
    write_without_odm(&fixture, "boards", 2, named).await;

    // The copy that is declared later has no default.
    let error = db.get::<later::Note>(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    assert!(error.to_string().contains("board_name"), "{error}");
    let defaults = odm::Database::<with_default::Office>::with_backend(fixture.backend());
    let note = defaults.get::<with_default::Note>(1).await.unwrap();
    assert_eq!(note.board_name, "");

    let mut backfills = db.backfills().await.unwrap();
    backfills.sort_by_key(|backfill| backfill.model);
    assert_eq!(
        backfills[0].fields,
        ["average", "large", "largest", "notes", "size"]
    );
    db.repair().apply().await.unwrap();
    assert_eq!(db.backfills().await.unwrap(), []);
    let filled = board(1, 3, 18, Some(6.0), Some(9), &[9, 5]);
    assert_eq!(db.get::<later::Board>(1).await.unwrap(), filled);
    // The repair stores the values that were read, also of a parent without children.
    let without_notes = db.find::<later::Board>().filter(|b| b.notes().eq(0));
    assert_eq!(without_notes.one().await.unwrap(), empty(2));
    assert_eq!(
        db.get::<later::Note>(1).await.unwrap().board_name,
        "board 1"
    );
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

const WRITES: &[Write<Shop>] = &[
    ("insert an extreme", |db| {
        Box::pin(async move { db.insert(review(9, 1, 9)).await.map(drop) })
    }),
    ("insert several", |db| {
        Box::pin(async move {
            let all = db.insert_many([review(8, 1, -3), review(9, 2, 9)]);
            all.await.map(drop)
        })
    }),
    ("insert an owner", |db| {
        Box::pin(async move { db.insert(NewProduct { id: 3 }).await.map(drop) })
    }),
    ("change an extreme", |db| {
        Box::pin(async move {
            let changed = db.update::<Review>(1).set(|r| r.stars(), 3);
            changed.await.map(drop)
        })
    }),
    ("move an extreme", |db| {
        Box::pin(async move {
            let moved = db.update::<Review>(1).set(|r| r.product(), Ref::new(2));
            moved.await.map(drop)
        })
    }),
    ("delete an extreme", |db| {
        Box::pin(async move { db.delete::<Review>(2).await.map(drop) })
    }),
    ("delete an owner", |db| {
        Box::pin(async move { db.delete::<Product>(1).await.map(drop) })
    }),
];

pub async fn averages_survive_a_crash_at_every_operation(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| {
            Box::pin(async move {
                db.insert_many([NewProduct { id: 1 }, NewProduct { id: 2 }])
                    .await
                    .unwrap();
                let reviews = [(1, 1, 1), (2, 1, 5), (3, 1, 3), (4, 2, 2), (5, 3, 4)];
                let reviews = reviews.map(|(id, product, stars)| review(id, product, stars));
                db.insert_many(reviews).await.unwrap();
            })
        },
        may_find: |fault| matches!(fault, FindingKind::Dangling { .. }),
        agrees: |db, when| Box::pin(assert_exact(db, when)),
    };
    crashes.run(&fixture).await;
}
