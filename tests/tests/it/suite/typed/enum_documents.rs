//! Enums as documents: a collection with documents of several variant models. Each variant model can be queried alone.

use std::net::{IpAddr, Ipv4Addr};

use odm::{
    Database, Edited, ErrorKind, Filter,
    backend::{operation, read_to_end},
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "shapes",
    shared(name: String, area: f64, owner: Option<Ref<Owner>>, tags: Vec<String>),
    index(kind, -area, -id)
)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Shape {
    Circle(Circle),
    Square(Square),
    #[serde(rename = "tri angle")]
    Triangle(Triangle),
}

/// A circle, with `area` declared before `_id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
#[serde(rename_all = "camelCase")]
pub struct Circle {
    area: f64,
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference]
    owner: Option<Ref<Owner>>,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[index(unique)]
    radius: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen_from: Option<Address>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Shape, index(area; partial = |s| s.side().gt(1.0)))]
pub struct Square {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    area: f64,
    #[reference]
    owner: Option<Ref<Owner>>,
    #[embed(max = 5)]
    tags: Vec<String>,
    side: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
pub struct Triangle {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    area: f64,
    #[reference]
    owner: Option<Ref<Owner>>,
    #[embed(unbounded)]
    tags: Vec<String>,
}

/// An IP address. BSON stores bytes, but serde's buffered enum content expects text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Address(IpAddr);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "owners")]
pub struct Owner {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    any: Option<Ref<Shape>>,
    #[reference]
    circle: Option<Ref<Circle>>,
}

#[derive(Schema)]
#[schema(models(Shape, Owner))]
pub struct Drawing;

type Db = Database<Drawing>;

fn circle(id: i64, radius: f64) -> Circle {
    Circle {
        area: (radius * radius * 3.0).round(),
        id,
        name: format!("c{id}"),
        owner: None,
        tags: Vec::new(),
        radius,
        label: None,
        seen_from: None,
    }
}

fn square(id: i64, side: f64) -> Square {
    Square {
        id,
        name: format!("s{id}"),
        area: side * side,
        owner: None,
        tags: Vec::new(),
        side,
        label: None,
    }
}

fn triangle(id: i64) -> Triangle {
    Triangle {
        id,
        name: format!("t{id}"),
        area: 5.0,
        owner: None,
        tags: Vec::new(),
    }
}

/// Inserts circles 1 to 3 with the areas 3, 12 and 27, squares 4 and 5 with the areas 4 and 9, and triangle 6 with the area 5.
async fn drawing(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.insert_many([circle(1, 1.0), circle(2, 2.0), circle(3, 3.0)])
        .await
        .unwrap();
    let others = [
        Shape::Square(square(4, 2.0)),
        Shape::Square(square(5, 3.0)),
        Shape::Triangle(triangle(6)),
    ];
    db.insert_many(others).await.unwrap();
    db
}

fn ids<T: Document<Id = i64>>(documents: &[T]) -> Vec<i64> {
    documents.iter().map(|document| *document.id()).collect()
}

async fn read_raw(db: &Db, id: i64) -> RawDocumentBuf {
    let find = operation::FindOperation {
        collection: "shapes".into(),
        filter: rawdoc! { "_id": id },
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let found = read_to_end(db.backend().find(find).await.unwrap()).await;
    found.unwrap().pop().unwrap()
}

/// Writes without the typed API, like a different program.
async fn upsert_raw(db: &Db, id: i64, update: bson::Document) {
    let update = operation::UpdateOperation {
        collection: "shapes".into(),
        filter: rawdoc! { "_id": id },
        change: operation::DocumentChange::operators(RawDocumentBuf::try_from(&update).unwrap()),
        multi: false,
        upsert: true,
        origin: Default::default(),
    };
    db.backend().update(update).await.unwrap();
}

pub async fn a_variant_is_stored_like_the_enum(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let seen = Circle {
        label: Some("round".into()),
        seen_from: Some(Address(IpAddr::V4(Ipv4Addr::LOCALHOST))),
        tags: vec!["a".into()],
        ..circle(1, 2.0)
    };
    assert_eq!(db.insert(seen.clone()).await.unwrap(), seen);
    let alone = read_raw(&db, 1).await;
    let as_shape = Shape::Circle(seen.clone());
    // The stored form equals serde's form, with `_id` moved to the front.
    let by_serde = bson::serialize_to_vec(&as_shape).unwrap();
    let by_serde = bson::Document::try_from(RawDocumentBuf::from_bytes(by_serde).unwrap()).unwrap();
    let mut expected = doc! { "_id": 1_i64 };
    expected.extend(by_serde.into_iter().filter(|(name, _)| name != "_id"));
    assert_eq!(alone, RawDocumentBuf::try_from(&expected).unwrap());
    assert_eq!(alone.get_str("kind").unwrap(), "circle");

    db.delete::<Circle>(1).await.unwrap();
    assert_eq!(db.insert(as_shape.clone()).await.unwrap(), as_shape);
    assert_eq!(read_raw(&db, 1).await, alone);

    // The variant model and the enum model read the same document.
    assert_eq!(db.get::<Circle>(1).await.unwrap(), seen);
    assert_eq!(db.get::<Shape>(1).await.unwrap(), as_shape);
    assert_eq!(*as_shape.id(), 1);
    db.insert(Shape::Triangle(triangle(2))).await.unwrap();
    assert_eq!(read_raw(&db, 2).await.get_str("kind").unwrap(), "tri angle");
    assert_eq!(db.get::<Triangle>(2).await.unwrap(), triangle(2));
    // A bulk accepts inserts of both models. The models share the `_id` space.
    let report = db
        .bulk()
        .add(db.insert(square(3, 1.0)))
        .add(db.insert(Shape::Square(square(4, 1.0))))
        .add(db.insert(circle(4, 1.0)));
    let report = report.await.unwrap();
    assert!(!report.is_ok());
    assert_eq!(
        ids(&db
            .find::<Square>()
            .sort(|s| s.id().asc())
            .all()
            .await
            .unwrap()),
        [3, 4]
    );
    let error = db.insert(circle(3, 9.0)).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    assert_eq!(
        (error.model(), error.collection()),
        (Some("Circle"), Some("shapes"))
    );
}

pub async fn documents_are_found_together_and_alone(fixture: Fixture) {
    let db = drawing(&fixture).await;
    let shapes = db
        .find::<Shape>()
        .filter(|s| s.area().gt(4.0))
        .sort(|s| s.area().desc());
    assert_eq!(ids(&shapes.clone().all().await.unwrap()), [3, 2, 5, 6]);
    let circles = || db.find::<Circle>().sort(|c| c.radius().asc());
    assert_eq!(ids(&circles().all().await.unwrap()), [1, 2, 3]);
    assert_eq!(
        ids(&circles()
            .filter(|c| c.radius().gt(1.5))
            .all()
            .await
            .unwrap()),
        [2, 3]
    );
    assert_eq!(db.find::<Shape>().count().await.unwrap(), 6);
    assert_eq!(db.find::<Square>().count().await.unwrap(), 2);
    assert!(db.find::<Triangle>().exists().await.unwrap());
    assert!(
        !db.find::<Square>()
            .filter(|s| s.id().eq(1))
            .exists()
            .await
            .unwrap()
    );
    assert_eq!(db.find::<Triangle>().one().await.unwrap(), triangle(6));

    // Reads by id do not find a document of a different variant.
    assert_eq!(
        db.get::<Circle>(4).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(db.find_by_id::<Circle>(4).await.unwrap(), None);
    assert_eq!(
        db.edit::<Circle>(4).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let some = db.get_many::<Circle>([4, 1]).await.unwrap();
    let loaded: Vec<_> = some.iter().map(|link| matches!(link, Loaded(_))).collect();
    assert_eq!(loaded, [false, true]);

    // Filters of the enum reach the fields of its variants.
    let found = |filter: Filter<Shape>| {
        let find = db.find::<Shape>().filter(|_| filter).sort(|s| s.id().asc());
        async move { ids(&find.all().await.unwrap()) }
    };
    let s = Shape::fields();
    assert_eq!(found(s.circle(|c| c.radius().gt(1.5))).await, [2, 3]);
    assert_eq!(
        found(s.circle(|c| c.radius().gt(2.5)) | s.square(|s| s.side().lt(2.5)) | s.is_triangle())
            .await,
        [3, 4, 6]
    );
    assert_eq!(found(!s.is_circle() & s.area().lt(6.0)).await, [4, 6]);
    assert_eq!(found(s.circle(|_| None)).await, [1, 2, 3]);
    assert_eq!(
        found(s.kind().is_in(["square", "tri angle"])).await,
        [4, 5, 6]
    );

    // Aggregates, distinct values, groups and pipelines respect the variant.
    assert_eq!(db.find::<Circle>().sum(|c| c.radius()).await.unwrap(), 6.0);
    assert_eq!(
        db.find::<Square>().max(|s| s.area()).await.unwrap(),
        Some(9.0)
    );
    assert_eq!(
        db.find::<Shape>().min(|s| s.area()).await.unwrap(),
        Some(3.0)
    );
    let mut names = db.find::<Square>().distinct(|s| s.name()).await.unwrap();
    names.sort();
    assert_eq!(names, ["s4", "s5"]);
    let mut kinds = db
        .find::<Shape>()
        .group_by(|s| s.kind())
        .select(|g| (g.count(), g.sum(|s| s.area())))
        .all()
        .await
        .unwrap();
    kinds.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let kind = |name: &str, count, area| (name.to_owned(), (count, area));
    assert_eq!(
        kinds,
        [
            kind("circle", 3, 42.0),
            kind("square", 2, 13.0),
            kind("tri angle", 1, 5.0)
        ]
    );
    #[derive(Debug, PartialEq, Deserialize)]
    struct Row {
        n: i64,
    }
    let stages = || [doc! { "$group": { "_id": null, "n": { "$sum": 1_i64 } } }];
    let rows: Vec<Row> = db
        .find::<Square>()
        .pipeline(stages())
        .all_as()
        .await
        .unwrap();
    assert_eq!(rows, [Row { n: 2 }]);

    // Projections of the enum and of a variant.
    #[derive(Debug, PartialEq, Deserialize, Projection)]
    #[projection(of = Shape)]
    struct Card {
        #[serde(rename = "_id")]
        id: i64,
        kind: String,
        area: f64,
    }
    #[derive(Debug, PartialEq, Deserialize, Projection)]
    #[projection(of = Circle)]
    struct Round {
        radius: f64,
    }
    let cards: Vec<Card> = shapes.select().limit(1).all().await.unwrap();
    let largest = Card {
        id: 3,
        kind: "circle".into(),
        area: 27.0,
    };
    assert_eq!(cards, [largest]);
    let rounds: Vec<Round> = circles().select().all().await.unwrap();
    assert_eq!(rounds, [1.0, 2.0, 3.0].map(|radius| Round { radius }));

    // Counts in a transaction respect the variant.
    if db.backend().capabilities().transactions {
        let counts = db.transaction(async |tx| -> odm::Result<_> {
            tx.insert(circle(7, 7.0)).await?;
            tx.update_many::<Square>(|_| Filter::all())
                .set(|s| s.side(), 1.0)
                .await?;
            Ok((
                tx.find::<Circle>().count().await?,
                tx.find::<Shape>().count().await?,
            ))
        });
        assert_eq!(counts.await.unwrap(), (4, 7));
    }
}

pub async fn pages_are_of_one_variant_or_of_all(fixture: Fixture) {
    let db = drawing(&fixture).await;
    db.sync_indexes().await.unwrap();
    let shapes = || db.find::<Shape>().sort(|s| s.area().asc());
    let first = shapes().page(4).await.unwrap();
    assert_eq!(ids(&first.items), [1, 4, 6, 5]);
    let second = shapes().page(4).after(first.next.clone()).await.unwrap();
    assert_eq!(ids(&second.items), [2, 3]);

    let circles = || db.find::<Circle>().sort(|c| c.area().desc());
    let first = circles().page(2).await.unwrap();
    assert_eq!(ids(&first.items), [3, 2]);
    let next = first.next.clone();
    assert_eq!(
        ids(&circles().page(2).after(&next).await.unwrap().items),
        [1]
    );
    // The index on kind and area supplies the order, and the query examines no document of a different variant.
    let explain = circles().page(1).after(&next).explain().await.unwrap();
    assert!(
        !explain.is_collection_scan && !explain.is_sorted_in_memory,
        "{explain:?}"
    );
    assert!(explain.documents_examined <= 3, "{explain:?}");
    // A page token of the circle query is invalid for squares and for all shapes.
    let error = db
        .find::<Square>()
        .sort(|s| s.area().desc())
        .page(2)
        .after(&next)
        .await;
    assert!(error.unwrap_err().is_invalid_page_token());
    let error = db
        .find::<Shape>()
        .sort(|s| s.area().desc())
        .page(2)
        .after(&next)
        .await;
    assert!(error.unwrap_err().is_invalid_page_token());
}

pub async fn writes_of_a_variant_skip_the_others(fixture: Fixture) {
    let db = drawing(&fixture).await;
    let before = [
        read_raw(&db, 4).await,
        read_raw(&db, 5).await,
        read_raw(&db, 6).await,
    ];

    let error = db
        .update::<Circle>(4)
        .set(|c| c.name(), "x")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let updated = db
        .update_many::<Circle>(|c| c.area().gt(0.0))
        .inc(|c| c.area(), 1.0)
        .await
        .unwrap();
    assert_eq!((updated.matched, updated.modified), (3, 3));
    let done = db
        .update_first::<Circle>(|c| c.id().eq(5))
        .set(|c| c.name(), "x")
        .await
        .unwrap();
    assert_eq!(done.applied(), None);
    let given = db
        .update::<Circle>(1)
        .set(|c| c.radius(), 1.5)
        .returning_after()
        .await
        .unwrap();
    assert_eq!(given.radius, 1.5);
    assert_eq!(db.delete::<Circle>(4).await.unwrap().deleted, 0);
    assert_eq!(
        db.delete_many::<Circle>(|c| c.id().gt(3))
            .await
            .unwrap()
            .deleted,
        0
    );
    assert_eq!(
        db.delete_first::<Circle>(|c| c.id().eq(6))
            .await
            .unwrap()
            .applied(),
        None
    );
    assert_eq!(
        db.modify::<Circle>(5, |c| c.name.clear())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let report = db
        .bulk()
        .add(
            db.update_many::<Circle>(|_| Filter::all())
                .set(|c| c.label(), "bulk"),
        )
        .add(db.delete::<Circle>(6))
        .await
        .unwrap();
    let report = report.into_result().unwrap();
    assert_eq!((report.matched, report.deleted), (3, 0));

    // The upsert can neither update nor insert, and returns an error instead of retrying forever.
    let upsert = db
        .update::<Circle>(4)
        .set(|c| c.name(), "x")
        .or_insert(circle(4, 7.0));
    let error = upsert.await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    assert_eq!(
        (error.index(), error.id()),
        (Some("_id_"), Some(&Bson::Int64(4)))
    );
    let upsert = db
        .update::<Circle>(7)
        .set(|c| c.name(), "x")
        .or_insert(circle(7, 7.0));
    assert!(upsert.await.unwrap().is_inserted());
    let upsert = db
        .update::<Circle>(7)
        .set(|c| c.name(), "x")
        .or_insert(circle(7, 7.0));
    assert!(!upsert.await.unwrap().is_inserted());

    let after = [
        read_raw(&db, 4).await,
        read_raw(&db, 5).await,
        read_raw(&db, 6).await,
    ];
    assert_eq!(before, after);
    assert_eq!(
        db.delete_many::<Circle>(|_| Filter::all())
            .await
            .unwrap()
            .deleted,
        4
    );
    assert_eq!(db.find::<Shape>().count().await.unwrap(), 3);
}

pub async fn shared_fields_update_all_variants(fixture: Fixture) {
    let db = drawing(&fixture).await;
    let updated = db
        .update_many::<Shape>(|s| s.area().lt(6.0))
        .set(|s| s.name(), "small")
        .push(|s| s.tags(), "new")
        .await
        .unwrap();
    assert_eq!(updated.modified, 3);
    assert_eq!(db.get::<Circle>(1).await.unwrap().name, "small");
    assert_eq!(db.get::<Triangle>(6).await.unwrap().tags, ["new"]);
    // An update of the enum applies the smallest array limit of all variants.
    let more = || {
        db.update::<Shape>(4)
            .push_each(|s| s.tags(), ["b", "c", "d"])
    };
    assert_eq!(more().await.unwrap_err().kind(), ErrorKind::TooManyElements);
    db.update::<Square>(4)
        .push_each(|s| s.tags(), ["b", "c", "d"])
        .await
        .unwrap();

    // The update of a circle field applies only to circles.
    let grow = |id: i64| {
        db.update::<Shape>(id)
            .inc(|s| s.circle(|c| c.radius()), 1.0)
    };
    assert!(grow(2).await.unwrap().is_applied());
    assert!(!grow(4).await.unwrap().is_applied());
    assert_eq!(db.get::<Circle>(2).await.unwrap().radius, 3.0 - 0.0);
    assert!(read_raw(&db, 4).await.get("radius").unwrap().is_none());
    let given = db
        .update::<Shape>(5)
        .set(|s| s.name(), "five")
        .returning_after()
        .await
        .unwrap();
    assert!(matches!(given, Shape::Square(Square { name, .. }) if name == "five"));
    let upsert = db
        .update::<Shape>(8)
        .set(|s| s.name(), "x")
        .or_insert(Shape::Triangle(triangle(8)));
    assert!(upsert.await.unwrap().is_inserted());
    assert_eq!(db.delete::<Shape>(8).await.unwrap().deleted, 1);
    let delete = db
        .delete_first::<Shape>(|s| s.is_square())
        .sort(|s| s.area().asc())
        .returning();
    assert_eq!(
        delete.await.unwrap().applied().map(|shape| *shape.id()),
        Some(4)
    );
    assert_eq!(
        db.delete_many::<Shape>(|s| s.circle(|c| c.radius().lt(2.0)))
            .await
            .unwrap()
            .deleted,
        1
    );
    assert_eq!(db.find::<Shape>().count().await.unwrap(), 4);
}

pub async fn a_save_writes_what_changed_in_its_variant(fixture: Fixture) {
    let db = drawing(&fixture).await;
    upsert_raw(&db, 2, doc! { "$set": { "unknown": 7 } }).await;
    let mut edited = db.edit::<Circle>(2).await.unwrap();
    assert!(!edited.is_changed().unwrap());
    db.save(&mut edited).await.unwrap();
    edited.radius = 4.0;
    // A concurrent write of a different field is no conflict.
    db.update::<Shape>(2)
        .set(|s| s.name(), "two")
        .await
        .unwrap();
    db.save(&mut edited).await.unwrap();
    let mut shape = db.edit::<Shape>(2).await.unwrap();
    let Shape::Circle(circle) = &mut *shape else {
        panic!("{shape:?}")
    };
    assert_eq!((circle.radius, circle.name.as_str()), (4.0, "two"));
    circle.label = Some("large".into());
    db.save(&mut shape).await.unwrap();
    assert!(!shape.is_changed().unwrap());
    let now = read_raw(&db, 2).await;
    assert_eq!(now.get_str("kind").unwrap(), "circle");
    assert_eq!(now.get_str("label").unwrap(), "large");
    assert_eq!(now.get_i32("unknown").unwrap(), 7);

    // A document that became a square is no longer found as a circle.
    let mut edited = db.edit::<Circle>(2).await.unwrap();
    edited.radius = 5.0;
    let mut shape = db.edit::<Shape>(2).await.unwrap();
    if let Shape::Circle(circle) = &mut *shape {
        circle.radius = 6.0;
    }
    upsert_raw(&db, 2, doc! { "$set": { "kind": "square", "side": 1.0 } }).await;
    assert_eq!(
        db.save(&mut edited).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let error = db.save(&mut shape).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(error.path(), Some("kind"));
    assert_eq!(read_raw(&db, 2).await.get_f64("radius").unwrap(), 4.0);
}

pub async fn a_document_becomes_another_variant_as_a_whole(fixture: Fixture) {
    let db = drawing(&fixture).await;
    // Both variants declare `label`, and no variant declares `junk`. The replacement removes both fields.
    let change =
        doc! { "$set": { "label": "round", "junk": 1, "side": "wrong", "_odm": { "kept": true } } };
    upsert_raw(&db, 1, change).await;
    let to_square = |mut shape: Edited<Shape>| {
        *shape = Shape::Square(square(1, 4.0));
        shape
    };
    let mut shape = to_square(db.edit::<Shape>(1).await.unwrap());
    db.save(&mut shape).await.unwrap();
    let mut expected = Bson::from(doc! {
        "_id": 1_i64, "kind": "square", "name": "s1", "area": 16.0, "owner": null, "tags": [], "side": 4.0,
        "_odm": { "kept": true },
    });
    let now: bson::Document = read_raw(&db, 1).await.try_into().unwrap();
    let sorted = |document: &bson::Document| {
        let mut fields: Vec<_> = document.clone().into_iter().collect();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        fields
    };
    assert_eq!(sorted(&now), sorted(expected.as_document_mut().unwrap()));
    assert_eq!(db.get::<Square>(1).await.unwrap(), square(1, 4.0));
    assert_eq!(db.find_by_id::<Circle>(1).await.unwrap(), None);
    // The edited value has no unsaved change.
    assert!(!shape.is_changed().unwrap());

    // A concurrent change of the circle is a conflict, and the circle stays unchanged.
    for change in [
        doc! { "$set": { "radius": 9.0 } },
        doc! { "$set": { "label": "one that both variants have" } },
        doc! { "$set": { "side": 1.0 } },
        doc! { "$unset": { "radius": true } },
        doc! { "$set": { "kind": "tri angle" } },
    ] {
        db.insert(circle(10, 10.0)).await.unwrap();
        let mut shape = db.edit::<Shape>(10).await.unwrap();
        *shape = Shape::Square(square(10, 4.0));
        upsert_raw(&db, 10, change.clone()).await;
        let before = read_raw(&db, 10).await;
        let error = db.save(&mut shape).await.unwrap_err();
        assert!(error.is_conflict(), "{change}: {error}");
        assert_eq!(read_raw(&db, 10).await, before, "{change}");
        upsert_raw(&db, 10, doc! { "$set": { "kind": "circle" } }).await;
        db.delete::<Circle>(10).await.unwrap();
    }

    // `modify` retries until no concurrent write interferes.
    let mut all = Vec::new();
    for task in 0..8 {
        let db = db.clone();
        all.push(tokio::spawn(async move {
            let turn = |shape: &mut Shape| {
                let id = *shape.id();
                *shape = match shape {
                    Shape::Circle(c) => Shape::Square(Square {
                        name: c.name.clone() + "s",
                        ..square(id, 1.0)
                    }),
                    Shape::Square(s) => Shape::Circle(Circle {
                        name: s.name.clone() + "c",
                        ..circle(id, 1.0)
                    }),
                    Shape::Triangle(_) => Shape::Circle(circle(id, 1.0)),
                };
            };
            for _ in 0..5 {
                db.modify::<Shape>(2, turn).attempts(10_000).await.unwrap();
            }
            task
        }));
    }
    for task in all {
        task.await.unwrap();
    }
    let Shape::Circle(last) = db.get::<Shape>(2).await.unwrap() else {
        panic!("an even number of turns")
    };
    assert_eq!(last.name, format!("c2{}", "sc".repeat(20)));
}

pub async fn an_unknown_kind_is_a_decode_error(fixture: Fixture) {
    let db = drawing(&fixture).await;
    upsert_raw(&db, 90, doc! { "$set": { "kind": "hexagon", "area": 1.0 } }).await;
    upsert_raw(&db, 91, doc! { "$set": { "area": 1.0 } }).await;
    upsert_raw(&db, 92, doc! { "$set": { "kind": 0, "area": 1.0 } }).await;
    upsert_raw(&db, 2, doc! { "$set": { "radius": "wide" } }).await;
    let mut rows = db.find::<Shape>().sort(|s| s.id().asc()).stream();
    let mut errors = Vec::new();
    let mut good = 0;
    while let Some(row) = rows.next().await {
        match row {
            Ok(_) => good += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
                assert_eq!(error.collection(), Some("shapes"));
                let id = error.id().and_then(Bson::as_i64);
                errors.push((id, error.path().map(str::to_owned), error.to_string()));
            }
        }
    }
    assert_eq!(good, 5);
    let paths: Vec<_> = errors
        .iter()
        .map(|(id, path, _)| (id.unwrap(), path.as_deref().unwrap()))
        .collect();
    // A decode error names the path inside the variant, too.
    assert_eq!(
        paths,
        [(2, "radius"), (90, "kind"), (91, "kind"), (92, "kind")]
    );
    assert!(
        errors[1].2.contains("hexagon") && errors[1].2.contains("tri angle"),
        "{}",
        errors[1].2
    );
    // The variant models do not match documents of an unknown kind.
    assert_eq!(db.find::<Circle>().count().await.unwrap(), 3);
    assert_eq!(
        ids(&db
            .find::<Square>()
            .sort(|s| s.id().asc())
            .all()
            .await
            .unwrap()),
        [4, 5]
    );
    assert_eq!(db.find_by_id::<Circle>(92).await.unwrap(), None);
}

pub async fn indexes_of_a_variant_are_partial(fixture: Fixture) {
    let db = drawing(&fixture).await;
    let report = db.sync_indexes().await.unwrap();
    let declared: Vec<_> = report
        .created
        .iter()
        .map(|(_, index)| (index.name.as_str(), index.unique, index.partial.clone()))
        .collect();
    assert_eq!(
        declared,
        [
            ("kind_1_area_-1__id_-1", false, None),
            (
                "radius_1_circle",
                true,
                Some(rawdoc! { "kind": { "$eq": "circle" } })
            ),
            (
                "area_1_square",
                false,
                Some(rawdoc! { "kind": { "$eq": "square" }, "side": { "$gt": 1.0 } })
            ),
        ]
    );
    assert_eq!(db.sync_indexes().await.unwrap(), Default::default());

    // The unique index covers only circles, so squares with the same radius are no duplicates.
    assert!(
        db.insert(circle(7, 2.0))
            .await
            .unwrap_err()
            .is_duplicate_key()
    );
    for id in [20, 21] {
        upsert_raw(
            &db,
            id,
            doc! { "$set": { "kind": "square", "radius": 2.0 } },
        )
        .await;
    }
    let sorted = db
        .find::<Circle>()
        .sort(|c| c.area().desc())
        .limit(1)
        .explain()
        .await
        .unwrap();
    assert_eq!(sorted.indexes, ["kind_1_area_-1__id_-1"], "{sorted:?}");
    assert_eq!(sorted.documents_examined, 1, "{sorted:?}");
    let by_kind = "kind_1_area_-1__id_-1";
    db.backend().drop_index("shapes", by_kind).await.unwrap();
    // The partial index of a variant serves queries of the variant and of the enum.
    let large = db
        .find::<Circle>()
        .filter(|c| c.radius().gte(2.0))
        .explain()
        .await
        .unwrap();
    assert_eq!(large.indexes, ["radius_1_circle"], "{large:?}");
    assert_eq!(
        (large.returned, large.documents_examined),
        (2, 2),
        "{large:?}"
    );
    let large = db
        .find::<Shape>()
        .filter(|s| s.circle(|c| c.radius().gte(2.0)));
    let large = large.explain().await.unwrap();
    assert_eq!(large.indexes, ["radius_1_circle"], "{large:?}");
    assert_eq!(
        (large.returned, large.documents_examined),
        (2, 2),
        "{large:?}"
    );
}

pub async fn references_target_one_variant_or_any(fixture: Fixture) {
    let db = drawing(&fixture).await;
    let owner = |id, any: i64, circle: i64| Owner {
        id,
        any: Some(Ref::new(any)),
        circle: Some(Ref::new(circle)),
    };
    db.insert_many([owner(1, 4, 1), owner(2, 2, 4)])
        .await
        .unwrap();
    let owners = db
        .find::<Owner>()
        .sort(|o| o.id().asc())
        .with(|o| o.any())
        .with(|o| o.circle())
        .all()
        .await
        .unwrap();
    let found: Vec<_> = owners
        .iter()
        .map(|(_, any, circle)| {
            let any = any
                .as_ref()
                .and_then(|link| link.loaded())
                .map(|shape| *shape.id());
            let circle = circle
                .as_ref()
                .and_then(|link| link.loaded())
                .map(|circle| circle.id);
            (any, circle)
        })
        .collect();
    // A `Ref<Circle>` that points to a square loads no document.
    assert_eq!(found, [(Some(4), Some(1)), (Some(2), None)]);

    db.update_many::<Shape>(|s| s.id().lte(4))
        .set(|s| s.owner(), Some(Ref::new(1)))
        .await
        .unwrap();
    let owners = db
        .find::<Owner>()
        .sort(|o| o.id().asc())
        .with_children(Circle::by(|c| c.owner()).sort(|c| c.radius().asc()))
        .with_children(Shape::by(|s| s.owner()).filter(|s| s.is_square()))
        .all()
        .await
        .unwrap();
    let (_, circles, squares) = &owners[0];
    assert_eq!((ids(circles), ids(squares)), (vec![1, 2, 3], vec![4]));
    let shapes = db
        .find::<Shape>()
        .filter(|s| s.owner().eq(Ref::new(1)) & s.is_square())
        .with(|s| s.owner());
    let shapes = shapes.all().await.unwrap();
    assert_eq!(shapes.len(), 1);
    assert_eq!(
        shapes[0].1.as_ref().unwrap().loaded().map(|owner| owner.id),
        Some(1)
    );
}

mod managed {
    use odm::prelude::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "events", version = revision, timestamps, shared(note: String), index(-updated_at))]
    #[serde(tag = "type")]
    pub(super) enum Event {
        Login(Login),
        Payment(Payment),
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(variant_of = Event, version = revision, timestamps)]
    pub(super) struct Login {
        #[serde(rename = "_id")]
        pub id: i64,
        pub note: String,
        pub revision: i64,
        pub created_at: DateTime,
        pub updated_at: DateTime,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(variant_of = Event, version = revision, timestamps)]
    pub(super) struct Payment {
        #[serde(rename = "_id")]
        pub id: i64,
        pub note: String,
        pub amount: i64,
        pub revision: i64,
        pub created_at: DateTime,
        pub updated_at: DateTime,
    }

    #[derive(Schema)]
    #[schema(models(Event))]
    pub(super) struct Log;
}

pub async fn managed_fields_are_set_in_every_variant(fixture: Fixture) {
    use managed::{Event, Log, Login, NewLogin, NewPayment, Payment};
    let db = Database::<Log>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let login = db
        .insert(NewLogin {
            id: 1,
            note: "in".into(),
        })
        .await
        .unwrap();
    let paid = db
        .insert(NewPayment {
            id: 2,
            note: "paid".into(),
            amount: 5,
        })
        .await
        .unwrap();
    assert_eq!((login.revision, paid.revision), (1, 1));
    assert_eq!(
        db.get::<Event>(1).await.unwrap(),
        Event::Login(login.clone())
    );

    db.update_many::<Event>(|_| Filter::all())
        .set(|e| e.note(), "x")
        .await
        .unwrap();
    let revisions = db.find::<Event>().distinct(|e| e.revision()).await.unwrap();
    assert_eq!(revisions, [2]);
    let latest = db
        .find::<Event>()
        .sort(|e| e.updated_at().desc())
        .count()
        .await
        .unwrap();
    assert_eq!(latest, 2);

    let mut edited = db.edit::<Event>(2).await.unwrap();
    let mut stale = db.edit::<Payment>(2).await.unwrap();
    if let Event::Payment(payment) = &mut *edited {
        payment.amount = 6;
    }
    db.save(&mut edited).await.unwrap();
    assert!(matches!(
        &*edited,
        Event::Payment(Payment { revision: 3, .. })
    ));
    stale.amount = 7;
    let error = db.save(&mut stale).await.unwrap_err();
    assert!(
        error.is_conflict() && error.path() == Some("revision"),
        "{error}"
    );

    // A document that becomes a login must keep the stored managed fields.
    let Event::Payment(payment) = (*edited).clone() else {
        panic!("{edited:?}")
    };
    let mut wrong = db.edit::<Event>(2).await.unwrap();
    *wrong = Event::Login(Login { id: 2, ..login });
    assert_eq!(
        db.save(&mut wrong).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let Payment {
        id,
        note,
        revision,
        created_at,
        updated_at,
        ..
    } = payment;
    *edited = Event::Login(Login {
        id,
        note,
        revision,
        created_at,
        updated_at,
    });
    db.save(&mut edited).await.unwrap();
    let now = db.get::<Login>(2).await.unwrap();
    assert_eq!(now.revision, 4);
    assert_eq!(*edited, Event::Login(now));
}
