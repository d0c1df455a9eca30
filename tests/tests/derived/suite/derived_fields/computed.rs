//! Computed fields: correct after every kind of write, on every backend.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use odm::{
    ErrorKind,
    action::{BulkReport, BulkResult},
    backend::{
        Recorder,
        operation::{DocumentChange, FindOperation, InsertOperation, Operation, UpdateOperation},
    },
    bson::{Bson, Decimal128, Document as BsonDocument, RawDocumentBuf, doc, rawdoc},
    check::{FindingKind, Remedy},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "things")]
struct Thing {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    price: Decimal128,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    sku: String,
    price: i64,
    quantity: i32,
}

fn line(sku: &str, price: i64, quantity: i32) -> Line {
    Line {
        sku: sku.to_owned(),
        price,
        quantity,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Size {
    width: f64,
    height: Option<f64>,
}

/// A model with a computed field for each kind of expression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "baskets", version, timestamps(updated = updated_at))]
struct Basket {
    #[serde(rename = "_id")]
    id: i64,
    apples: i32,
    #[serde(default)]
    oranges: Option<i64>,
    note: String,
    #[computed(sum(apples, oranges))]
    fruit: i64,
    #[embed(max = 50)]
    lines: Vec<Line>,
    #[serde(rename = "sum")]
    #[computed(sum(lines.price * lines.quantity))]
    total: i64,
    #[computed(len(lines) + len(pantry))]
    kinds: i64,
    #[embed]
    pantry: BTreeMap<String, i32>,
    #[embed]
    size: Size,
    #[computed(size.width * size.height - 0.5)]
    area: f64,
    #[embed(max = 10)]
    scores: Vec<i32>,
    /// Computed from other computed fields. One input is declared later.
    #[computed(2 * (best + fruit) - -1)]
    worth: i64,
    #[computed(sum(scores))]
    best: i64,
    version: i64,
    updated_at: DateTime,
}

fn basket(id: i64) -> NewBasket {
    NewBasket {
        id,
        apples: 2,
        oranges: Some(3),
        note: "plain".to_owned(),
        lines: vec![line("tea", 5, 2), line("milk", 7, 1)],
        pantry: [("banana".to_owned(), 3)].into(),
        size: Size {
            width: 2.0,
            height: Some(1.5),
        },
        scores: vec![1, 2, 3],
    }
}

/// An order line with a reference and a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct OrderLine {
    #[reference(on_delete = pull)]
    thing: Ref<Thing>,
    #[snapshot(from = thing.price)]
    price: Decimal128,
    quantity: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", insert_struct)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 20)]
    lines: Vec<OrderLine>,
    #[computed(sum(lines.price * lines.quantity))]
    total: Decimal128,
    #[computed(len(lines))]
    line_count: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "invoices")]
struct Invoice {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    order: Ref<Order>,
    #[denormalize(from = order.line_count, sync)]
    line_count: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Pair {
    n: i64,
    m: Option<i32>,
    x: f64,
    d: Option<Decimal128>,
}

/// A model for stored values of arbitrary types. No test decodes a document of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "numbers")]
struct Numbers {
    #[serde(rename = "_id")]
    id: i64,
    touch: i32,
    a: Option<i64>,
    b: i32,
    x: f64,
    d: Decimal128,
    #[embed(max = 9)]
    list: Vec<Pair>,
    #[embed]
    map: BTreeMap<String, i32>,
    #[computed((a + touch) * b - 3)]
    whole: i64,
    #[computed(sum(list.n * list.m, touch) - len(list) + len(map))]
    summed: i64,
    #[computed(x * 0.5 + sum(list.x * list.n) - a + touch)]
    float: f64,
    #[computed(sum(list.d * list.n) + d * 2 - a + touch)]
    decimal: Decimal128,
    #[computed(summed - whole)]
    all: i64,
    #[computed(x / b + touch / sum(list.x / list.n), default = -7.5)]
    quotient: f64,
}

/// A model with computed texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "authors")]
struct Author {
    #[serde(rename = "_id")]
    id: i64,
    touch: i64,
    first: Option<String>,
    last: String,
    #[computed(concat(trim(first), " ", last))]
    name: String,
    #[computed(lower(trim(name)))]
    #[index]
    key: String,
}

/// A model with an upgrade. Version 2 adds a computed field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "rooms", schema_version = 2, upgrade = add_length)]
struct Room {
    #[serde(rename = "_id")]
    id: i64,
    width: i64,
    length: i64,
    #[computed(width * length)]
    area: i64,
}

fn add_length(_: u32, document: &mut BsonDocument) -> odm::Result<()> {
    document.entry("length".to_owned()).or_insert(2_i64.into());
    Ok(())
}

#[derive(Schema)]
#[schema(models(Thing, Basket, Order, Invoice, Numbers, Room, Author))]
struct Shop;
type Db = odm::Database<Shop>;

/// Asserts that the computed fields match the definitions in the documentation.
fn check_basket(basket: &Basket) {
    let oranges = basket.oranges.unwrap_or(0);
    assert_eq!(
        basket.fruit,
        i64::from(basket.apples) + oranges,
        "{basket:?}"
    );
    let lines = basket.lines.iter();
    let total: i64 = lines
        .map(|line| line.price * i64::from(line.quantity))
        .sum();
    assert_eq!(basket.total, total, "{basket:?}");
    let kinds = basket.lines.len() + basket.pantry.len();
    assert_eq!(basket.kinds, i64::try_from(kinds).unwrap());
    let area = basket.size.width * basket.size.height.unwrap_or(0.0) - 0.5;
    assert_eq!(basket.area, area);
    let best: i64 = basket.scores.iter().map(|score| i64::from(*score)).sum();
    assert_eq!(
        (basket.best, basket.worth),
        (best, 2 * (best + basket.fruit) + 1)
    );
}

fn all_applied(report: &BulkReport) {
    let mut results = report.results.iter();
    assert!(results.all(BulkResult::is_applied), "{report:?}");
}

async fn get_checked_basket(db: &Db, id: i64) -> Basket {
    let basket = db.get::<Basket>(id).await.unwrap();
    check_basket(&basket);
    basket
}

pub async fn an_insert_computes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let inserted = db.insert(basket(1)).await.unwrap();
    assert_eq!(inserted, get_checked_basket(&db, 1).await);
    assert_eq!(
        (
            inserted.fruit,
            inserted.total,
            inserted.kinds,
            inserted.area,
            inserted.best,
            inserted.worth
        ),
        (5, 17, 3, 2.5, 6, 23)
    );
    let many = db.insert_many([basket(2), basket(3)]).await.unwrap();
    many.iter().for_each(check_basket);
    let empty = NewBasket {
        oranges: None,
        lines: Vec::new(),
        pantry: BTreeMap::new(),
        scores: Vec::new(),
        ..basket(4)
    };
    let empty = db.insert(empty).await.unwrap();
    assert_eq!(
        (empty.fruit, empty.total, empty.kinds, empty.worth),
        (2, 0, 0, 5)
    );
    assert_eq!(empty, get_checked_basket(&db, 4).await);
    let mut bulk = db.bulk();
    bulk = bulk.add(db.insert(basket(5)));
    all_applied(&bulk.await.unwrap());
    get_checked_basket(&db, 5).await;
    // Filters and sorts work with computed fields.
    let found = db
        .find::<Basket>()
        .filter(|b| b.total().gt(16) & b.fruit().eq(5));
    let found = found.sort(|b| b.worth().desc()).count().await.unwrap();
    assert_eq!(found, 4);
}

pub async fn every_update_computes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    let update = || db.update::<Basket>(1);
    let tea = || line("tea", 5, 2);
    macro_rules! each {
        ($($update:expr;)*) => {$({
            let before = get_checked_basket(&db, 1).await;
            let done = $update.await.unwrap();
            assert_eq!((done.matched, done.modified), (1, 1), "{}", stringify!($update));
            let after = get_checked_basket(&db, 1).await;
            assert_eq!(after.version, before.version + 1, "{}", stringify!($update));
            assert!(after.updated_at >= before.updated_at);
        })*};
    }
    each! {
        update().inc(|b| b.apples(), 5);
        update().inc(|b| b.oranges(), -1_i64);
        update().set(|b| b.apples(), 9).set(|b| b.note(), "two").inc(|b| b.oranges(), 2_i64);
        update().mul(|b| b.apples(), 3);
        update().min(|b| b.apples(), 4);
        update().max(|b| b.oranges(), 40_i64);
        update().unset(|b| b.oranges());
        // The `$inc` creates the field.
        update().inc(|b| b.oranges(), 7_i64);
        update().unset(|b| b.oranges());
        update().mul(|b| b.oranges(), 7_i64);
        update().unset(|b| b.oranges());
        update().max(|b| b.oranges(), -7_i64);
        update().set(|b| b.oranges(), None);
        update().set(|b| b.size().width(), 4.0);
        update().inc(|b| b.size().height(), 0.25);
        update().unset(|b| b.size().height());
        update().set(|b| b.size(), Size { width: 1.0, height: Some(9.0) });
        update().push(|b| b.lines(), line("jam", 11, 3));
        update().push_each(|b| b.lines(), [tea(), line("nuts", 1, 1)]);
        update().push_with(|b| b.lines(), [line("first", 2, 2)], |p| p.at(0));
        update().push_with(|b| b.lines(), [line("second", 3, 2)], |p| p.at(1));
        update().push_with(|b| b.lines(), [line("near last", 4, 2)], |p| p.before_last(2));
        update().push_with(|b| b.lines(), [line("far", 4, 2)], |p| p.before_last(40));
        update().push_with(|b| b.lines(), [line("kept", 4, 2)], |p| p.keep_last(5));
        update().push_with(|b| b.lines(), [line("cut", 4, 2)], |p| p.keep_first(4));
        update().push_with(|b| b.lines(), [line("a", 40, 2)], |p| p.sort(|l| l.price().desc()).keep_first(3));
        update().pop_first(|b| b.lines());
        update().pop_last(|b| b.lines());
        update().add_each_to_set(|b| b.lines(), [tea(), tea(), line("rye", 6, 6)]);
        update().add_to_set(|b| b.scores(), 9);
        update().pull(|b| b.lines(), tea());
        update().pull_all(|b| b.scores(), [1, 2]);
        update().set(|b| b.lines(), vec![tea(), line("milk", 7, 1), line("rye", 6, 6)]);
        update().pull_where(|b| b.lines(), |l| l.sku().eq("milk"));
        update().pull_where(|b| b.lines(), |l| l.price().gt(5) & l.quantity().is_in([6, 7]));
        update().pull_where(|b| b.scores(), |s| s.gte(9));
        update().set(|b| b.lines(), vec![tea(), line("milk", 7, 1), line("rye", 6, 6)]);
        update().inc(|b| b.lines().all().quantity(), 1);
        update().set(|b| b.lines().matching(|l| l.sku().eq("rye")).price(), 100);
        update().inc(|b| b.lines().at(1).price(), 3);
        update().set(|b| b.scores().at(0), 77);
        update().inc(|b| b.scores().all(), 2);
        update().set(|b| b.pantry().key("peach"), 1);
        update().set(|b| b.pantry().key("banana"), 8).set(|b| b.pantry().key("plum"), 2);
        update().remove_key(|b| b.pantry(), "banana");
        update().set(|b| b.pantry(), BTreeMap::new());
        update().set(|b| b.note(), "not looked at");
    }
    let after = get_checked_basket(&db, 1).await;
    let skus: Vec<_> = after
        .lines
        .iter()
        .map(|line| (&*line.sku, line.price, line.quantity))
        .collect();
    assert_eq!(skus, [("tea", 5, 3), ("milk", 10, 2), ("rye", 100, 7)]);
    assert_eq!(after.scores, [79]);
    // The update changes no value except the version.
    update().set(|b| b.apples(), 4).await.unwrap();
    let same = get_checked_basket(&db, 1).await;
    assert_eq!(same.fruit, after.fruit);
}

/// An update that is translated to a pipeline stores exactly the document that the plain operators store.
pub async fn pipeline_updates_equal_operator_updates(fixture: Fixture) {
    let backend = fixture.backend();
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    db.insert(basket(2)).await.unwrap();
    // Document 1 gets the typed update, document 2 the plain operators.
    let both = async |by: &str, update: BsonDocument| {
        let typed = match by {
            "position" => {
                db.update::<Basket>(1)
                    .push_with(|b| b.lines(), [line("x", 1, 1)], |p| p.at(1))
                    .await
            }
            "set" => {
                db.update::<Basket>(1)
                    .add_each_to_set(|b| b.scores(), [7, 3, 7])
                    .await
            }
            "new" => {
                db.update::<Basket>(1)
                    .set(|b| b.pantry().key("kiwi"), 4)
                    .set(|b| b.pantry().key("fig"), 5)
                    .await
            }
            "pop" => db.update::<Basket>(1).pop_first(|b| b.scores()).await,
            "every" => {
                db.update::<Basket>(1)
                    .mul(|b| b.lines().all().price(), 3)
                    .await
            }
            other => panic!("{other}"),
        };
        typed.unwrap();
        let plain = UpdateOperation {
            collection: "baskets".into(),
            filter: rawdoc! { "_id": 2_i64 },
            change: DocumentChange::operators(RawDocumentBuf::try_from(&update).unwrap()),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        backend.update(plain).await.unwrap();
        let [mut a, mut b] = [read_raw(&fixture, 1).await, read_raw(&fixture, 2).await];
        for document in [&mut a, &mut b] {
            for name in [
                "_id",
                "version",
                "updated_at",
                "fruit",
                "sum",
                "kinds",
                "area",
                "worth",
                "best",
            ] {
                document.remove(name);
            }
        }
        // The text of the documents also shows the order of the fields.
        assert_eq!(format!("{a}"), format!("{b}"), "{by}");
    };
    let x = bson::serialize_to_bson(&line("x", 1, 1)).unwrap();
    both(
        "position",
        doc! { "$push": { "lines": { "$each": [x], "$position": 1 } } },
    )
    .await;
    both(
        "set",
        doc! { "$addToSet": { "scores": { "$each": [7, 3, 7] } } },
    )
    .await;
    set_raw(&fixture, 1, doc! { "$set": { "scores": [1, 2] } }).await;
    set_raw(&fixture, 2, doc! { "$set": { "scores": [1, 2] } }).await;
    both(
        "new",
        doc! { "$set": { "pantry.kiwi": 4, "pantry.fig": 5 } },
    )
    .await;
    both("pop", doc! { "$pop": { "scores": -1 } }).await;
    both("every", doc! { "$mul": { "lines.$[].price": 3_i64 } }).await;
    get_checked_basket(&db, 1).await;
}

/// Map keys that look like array positions are keys.
pub async fn numeric_map_keys_are_not_positions(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    let before = get_checked_basket(&db, 1).await;
    db.update::<Basket>(1)
        .set(|b| b.pantry().key("7"), 1)
        .set(|b| b.pantry().key("07"), 2)
        .set(|b| b.pantry().key("20261127"), 3)
        .set(|b| b.pantry().key("fig"), 4)
        .inc(|b| b.apples(), 1)
        .await
        .unwrap();
    let after = get_checked_basket(&db, 1).await;
    let mut pantry = before.pantry;
    pantry
        .extend([("7", 1), ("07", 2), ("20261127", 3), ("fig", 4)].map(|(k, n)| (k.to_owned(), n)));
    assert_eq!(
        (after.pantry, after.apples),
        (pantry.clone(), before.apples + 1)
    );
    db.update::<Basket>(1)
        .remove_key(|b| b.pantry(), "20261127")
        .remove_key(|b| b.pantry(), "07")
        .inc(|b| b.pantry().key("7"), 10)
        .await
        .unwrap();
    pantry.retain(|key, _| key != "20261127" && key != "07");
    pantry.insert("7".to_owned(), 11);
    assert_eq!(get_checked_basket(&db, 1).await.pantry, pantry);
}

/// An update that changes a path twice is refused as a conflict, with and without computed fields.
pub async fn conflicting_operators_are_refused(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    let before = read_raw(&fixture, 1).await;
    let same = db
        .update::<Basket>(1)
        .set(|b| b.apples(), 1)
        .inc(|b| b.apples(), 2);
    let embedded = db
        .update::<Basket>(1)
        .set(
            |b| b.size(),
            Size {
                width: 1.0,
                height: None,
            },
        )
        .inc(|b| b.size().width(), 2.0);
    for error in [same.await.unwrap_err(), embedded.await.unwrap_err()] {
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Invalid, Some(40)),
            "{error}"
        );
        assert_eq!(error.collection(), Some("baskets"));
    }
    assert_eq!(read_raw(&fixture, 1).await, before);
}

async fn read_raw(fixture: &Fixture, id: i64) -> BsonDocument {
    let find = FindOperation {
        collection: "baskets".into(),
        filter: rawdoc! { "_id": id },
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let found = fixture
        .backend()
        .find(find)
        .await
        .unwrap()
        .next_batch()
        .await
        .unwrap();
    BsonDocument::try_from(&*found[0]).unwrap()
}

async fn set_raw(fixture: &Fixture, id: i64, update: BsonDocument) {
    let update = UpdateOperation {
        collection: "baskets".into(),
        filter: rawdoc! { "_id": id },
        change: DocumentChange::operators(RawDocumentBuf::try_from(&update).unwrap()),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
}

/// An update that no pipeline can express becomes two updates in a transaction. Without transactions, the update is an error.
pub async fn inexpressible_updates_use_a_transaction(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    db.insert(basket(2)).await.unwrap();
    let first = db.update::<Basket>(1);
    let first = first
        .inc(|b| b.lines().first_matching(|l| l.price().gt(5)).price(), 1)
        .await;
    let bits = db
        .update_many::<Basket>(|b| b.apples().gte(0))
        .bit_or(|b| b.apples(), 4)
        .await;
    let mut bulk = db.bulk();
    bulk = bulk.add(db.update::<Basket>(1).bit_or(|b| b.apples(), 8));
    bulk = bulk.add(db.update::<Basket>(2).inc(|b| b.apples(), 100));
    let bulk = bulk.await;
    let returned = db
        .update::<Basket>(2)
        .bit_xor(|b| b.apples(), 1)
        .returning_after()
        .await;
    if fixture.backend().capabilities().transactions {
        assert!(first.unwrap().is_applied());
        assert_eq!(bits.unwrap().matched, 2);
        all_applied(&bulk.unwrap());
        let returned = returned.unwrap();
        check_basket(&returned);
        assert_eq!(returned.apples, 107);
        assert_eq!(get_checked_basket(&db, 1).await.apples, 14);
        assert_eq!(get_checked_basket(&db, 1).await.lines[1].price, 8);
        assert_eq!(get_checked_basket(&db, 2).await.apples, 107);
        return;
    }
    for error in [first.unwrap_err(), bits.unwrap_err(), returned.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("has no transactions"), "{error}");
    }
    assert_eq!(get_checked_basket(&db, 1).await.apples, 2);
    let done = db.modify::<Basket>(1, |b| b.apples |= 4).await.unwrap();
    assert_eq!(done.apples, 6);
    get_checked_basket(&db, 1).await;
}

pub async fn upserts_bulks_and_updates_of_many_compute(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let upsert = || {
        db.update::<Basket>(1)
            .inc(|b| b.apples(), 10)
            .or_insert(basket(1))
    };
    assert!(upsert().await.unwrap().is_inserted());
    assert_eq!(get_checked_basket(&db, 1).await.fruit, 5);
    let updated = upsert().returning_after().await.unwrap().into_inner();
    check_basket(&updated);
    assert_eq!(updated.fruit, 15);
    db.insert_many([basket(2), basket(3)]).await.unwrap();
    let many = db
        .update_many::<Basket>(|b| b.id().gt(1))
        .inc(|b| b.lines().all().price(), 1);
    assert_eq!(many.await.unwrap().modified, 2);
    let mut bulk = db.bulk();
    bulk = bulk.add(db.update::<Basket>(1).inc(|b| b.oranges(), 1_i64));
    bulk = bulk.add(
        db.update::<Basket>(2)
            .when(|b| b.apples().gt(1000))
            .inc(|b| b.apples(), 1),
    );
    bulk = bulk.add(
        db.update_many::<Basket>(|b| b.id().gt(1))
            .push(|b| b.scores(), 5),
    );
    bulk = bulk.add(db.update::<Basket>(3).set(|b| b.note(), "other"));
    let done = bulk.await.unwrap();
    assert_eq!((done.matched, done.inserted), (4, 0));
    for id in 1..=3 {
        get_checked_basket(&db, id).await;
    }
    assert_eq!(get_checked_basket(&db, 2).await.total, 6 * 2 + 8);
    assert_eq!(get_checked_basket(&db, 1).await.fruit, 16);
    let before = db
        .update::<Basket>(1)
        .set(|b| b.apples(), 1)
        .returning_before()
        .await
        .unwrap();
    check_basket(&before);
    assert_eq!(
        (before.fruit, get_checked_basket(&db, 1).await.fruit),
        (16, 5)
    );
    let tx = db
        .transaction(|tx| async move {
            tx.update::<Basket>(1).inc(|b| b.apples(), 1).await?;
            tx.get::<Basket>(1).await
        })
        .await;
    if fixture.backend().capabilities().transactions {
        assert_eq!(tx.unwrap().fruit, 6);
    }
}

pub async fn a_save_computes_and_refuses_edited_computed_fields(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    let mut edited = db.edit::<Basket>(1).await.unwrap();
    edited.apples = 20;
    edited.lines.push(line("jam", 3, 3));
    edited.lines[0].price = 50;
    edited.pantry.clear();
    db.save(&mut edited).await.unwrap();
    check_basket(&edited);
    assert_eq!(*edited, get_checked_basket(&db, 1).await);
    // The modify sees a concurrent change of another input.
    db.update::<Basket>(1)
        .inc(|b| b.oranges(), 5_i64)
        .await
        .unwrap();
    let modified = db.modify::<Basket>(1, |b| b.apples += 1).await.unwrap();
    assert_eq!(modified.fruit, 21 + 8);
    get_checked_basket(&db, 1).await;
    let mut edited = db.edit::<Basket>(1).await.unwrap();
    edited.total += 1;
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("sum"))
    );
    get_checked_basket(&db, 1).await;
}

/// An overflow is an error and writes no document, wherever the value is computed. An operator on a value of the wrong type is an
/// error too.
pub async fn failed_computations_write_nothing(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let large = NewBasket {
        lines: vec![line("gold", i64::MAX, 2)],
        ..basket(1)
    };
    let error = db.insert(large).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("sum"))
    );
    db.insert(basket(1)).await.unwrap();
    let before = get_checked_basket(&db, 1).await;
    let refused = async |update: odm::action::Update<Basket>| {
        let error = update.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.model(), Some("Basket"));
        error.to_string()
    };
    let gold = line("gold", i64::MAX / 2, 3);
    let message = refused(db.update::<Basket>(1).push(|b| b.lines(), gold)).await;
    assert!(
        message.contains("the computed value does not fit into an int64"),
        "{message}"
    );
    refused(db.update::<Basket>(1).set(|b| b.oranges(), i64::MAX)).await;
    refused(
        db.update::<Basket>(1)
            .inc(|b| b.lines().all().price(), i64::MAX),
    )
    .await;
    assert_eq!(get_checked_basket(&db, 1).await, before);
    // Stored values that do not match the model.
    set_raw(
        &fixture,
        1,
        doc! { "$set": { "apples": "two", "scores": "none", "size": 5 } },
    )
    .await;
    refused(db.update::<Basket>(1).inc(|b| b.apples(), 1)).await;
    refused(db.update::<Basket>(1).push(|b| b.scores(), 1)).await;
    refused(db.update::<Basket>(1).set(|b| b.size().width(), 1.0)).await;
    assert_eq!(
        read_raw(&fixture, 1).await.get("apples"),
        Some(&Bson::from("two"))
    );
    db.update::<Basket>(1).set(|b| b.apples(), 7).await.unwrap();
    assert_eq!(
        read_raw(&fixture, 1).await.get("fruit"),
        Some(&Bson::Int64(10))
    );
}

/// A reader never sees a computed field that differs from its inputs in the same document.
pub async fn readers_see_consistent_computed_fields(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (db, is_over) = (db.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) {
                get_checked_basket(&db, 1).await;
                reads += 1;
                // The in-memory backend never suspends, so the reader must yield.
                tokio::task::yield_now().await;
            }
            reads
        })
    };
    let mut writers = Vec::new();
    for writer in 0..4 {
        let db = db.clone();
        writers.push(tokio::spawn(async move {
            for _ in 0..25 {
                let update = db.update::<Basket>(1);
                let update = match writer {
                    0 => update.inc(|b| b.apples(), 1),
                    1 => update.inc(|b| b.oranges(), 1_i64),
                    2 => update.inc(|b| b.lines().at(0).quantity(), 1),
                    _ => update.inc(|b| b.lines().matching(|l| l.sku().eq("milk")).price(), 1),
                };
                update.await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(reader.await.unwrap() > 0);
    let last = get_checked_basket(&db, 1).await;
    assert_eq!((last.fruit, last.total), (5 + 50, 5 * 27 + 7 + 25));
}

/// Computed fields need no extra operation. An update that changes no input stays an update with plain operators.
pub async fn computed_fields_need_no_extra_operation(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    recorder.clear();
    db.insert(basket(1)).await.unwrap();
    assert!(matches!(&*recorder.operations(), [Operation::Insert(_)]));
    recorder.clear();
    db.update::<Basket>(1).inc(|b| b.apples(), 1).await.unwrap();
    match &*recorder.operations() {
        [
            Operation::Update(UpdateOperation {
                change: DocumentChange::Pipeline(stages),
                ..
            }),
        ] => {
            // The update, then `fruit` from `apples`, then `worth` from `fruit`.
            assert_eq!(stages.len(), 3, "{stages:?}");
            for stage in stages {
                assert!(!format!("{stage:?}").contains("lines"), "{stage:?}");
            }
        }
        other => panic!("{other:?}"),
    }
    recorder.clear();
    db.update::<Basket>(1).set(|b| b.note(), "x").await.unwrap();
    db.update::<Basket>(1)
        .set(|b| b.lines().all().sku(), "x")
        .await
        .unwrap();
    for operation in &*recorder.operations() {
        match operation {
            Operation::Update(UpdateOperation {
                change: DocumentChange::Operators { update, .. },
                ..
            }) => {
                assert!(update.get_document("$set").is_ok());
            }
            // Fails on any extra operation, such as a read of the length of a bounded array.
            other => panic!("{other:?}"),
        }
    }
    recorder.clear();
    let mut bulk = db.bulk();
    bulk = bulk.add(
        db.update_many::<Basket>(|b| b.id().gt(0))
            .inc(|b| b.apples(), 1),
    );
    bulk = bulk.add(
        db.update_many::<Basket>(|b| b.id().gt(0))
            .set(|b| b.note(), "y"),
    );
    all_applied(&bulk.await.unwrap());
    // An update of many documents must change no document if a computed value overflows. A find looks for overflows first.
    assert!(matches!(
        &*recorder.operations(),
        [Operation::Find(_), Operation::BulkWrite(bulk)] if bulk.writes.len() == 2
    ));
    get_checked_basket(&db, 1).await;
}

/// Application values stay literals inside pipeline expressions.
pub async fn values_are_literal(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(basket(1)).await.unwrap();
    let evil = "$note";
    let update = db
        .update::<Basket>(1)
        .set(|b| b.note(), evil)
        .inc(|b| b.apples(), 1);
    update.await.unwrap();
    db.update::<Basket>(1)
        .push(|b| b.lines(), line("$$ROOT", 1, 1))
        .await
        .unwrap();
    db.update::<Basket>(1)
        .pull_where(|b| b.lines(), |l| l.sku().eq("$sku"))
        .await
        .unwrap();
    let after = get_checked_basket(&db, 1).await;
    assert_eq!(
        (&*after.note, &*after.lines[2].sku, after.lines.len()),
        (evil, "$$ROOT", 3)
    );
}

/// Computed fields work together with snapshots in elements, copies of the computed field, and pulled references.
pub async fn computed_fields_work_with_snapshots_and_copies(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let price = |text: &str| text.parse::<Decimal128>().unwrap();
    for (id, text) in [(1, "1.10"), (2, "20.5"), (3, "0.333")] {
        let thing = Thing {
            id,
            name: id.to_string(),
            price: price(text),
        };
        db.insert(thing).await.unwrap();
    }
    let order_line = |thing: i64, quantity| NewOrderLine {
        thing: Ref::new(thing),
        quantity,
    };
    let order = NewOrder {
        id: 1,
        lines: vec![order_line(1, 3), order_line(2, 2)],
    };
    let order = db.insert(order).await.unwrap();
    assert_eq!((order.total, order.line_count), (price("44.30"), 2));
    let invoice = db
        .insert(NewInvoice {
            id: 1,
            order: Ref::new(1),
        })
        .await
        .unwrap();
    assert_eq!(invoice.line_count, 2);
    db.update::<Order>(1)
        .push(|o| o.lines(), order_line(3, 3))
        .await
        .unwrap();
    let order = db.get::<Order>(1).await.unwrap();
    assert_eq!((order.total, order.line_count), (price("45.299"), 3));
    assert_eq!(db.get::<Invoice>(1).await.unwrap().line_count, 3);
    // A changed price of a thing leaves the order's snapshots unchanged.
    db.update::<Thing>(3)
        .set(|t| t.price(), price("9"))
        .await
        .unwrap();
    db.update::<Order>(1)
        .set(|o| o.lines().at(2).quantity(), 1)
        .await
        .unwrap();
    assert_eq!(db.get::<Order>(1).await.unwrap().total, price("44.633"));
    db.delete::<Thing>(2).await.unwrap();
    let order = db.get::<Order>(1).await.unwrap();
    assert_eq!((order.total, order.line_count), (price("3.633"), 2));
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<Invoice>(1).await.unwrap().line_count, 2);
    assert!(db.check().await.unwrap().is_clean());
}

pub async fn a_check_finds_and_a_repair_computes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert_many([basket(1), basket(2), basket(3)])
        .await
        .unwrap();
    assert!(db.check().await.unwrap().is_clean());
    set_raw(&fixture, 1, doc! { "$set": { "apples": 50 } }).await;
    set_raw(&fixture, 2, doc! { "$set": { "sum": 5.0, "fruit": 5.0 } }).await;
    // The document looks like a document that is older than the declaration of the fields.
    set_raw(
        &fixture,
        3,
        doc! { "$unset": { "kinds": true, "best": true } },
    )
    .await;
    let report = db.check().await.unwrap();
    let mut found = Vec::new();
    for finding in &report.findings {
        if let FindingKind::WrongComputedField { actual, expected } = &finding.kind {
            found.push((
                finding.id.clone(),
                &*finding.path,
                (**actual).clone(),
                expected.as_deref().cloned(),
            ));
        }
    }
    let long = |number: i64| Some(Bson::Int64(number));
    assert_eq!(
        found,
        [
            (Bson::Int64(1), "fruit", Bson::Int64(5), long(53)),
            (Bson::Int64(1), "worth", Bson::Int64(23), long(119)),
            (Bson::Int64(2), "fruit", Bson::Double(5.0), long(5)),
            (Bson::Int64(2), "sum", Bson::Double(5.0), long(17)),
            (Bson::Int64(3), "kinds", Bson::Null, long(3)),
            (Bson::Int64(3), "best", Bson::Null, long(6)),
        ]
    );
    assert!(
        report.to_string().contains("`fruit`: has 5, expected 53"),
        "{report}"
    );
    let planned = db.repair().await.unwrap();
    let remedies = planned
        .steps
        .iter()
        .filter(|step| step.remedy == Some(Remedy::RecomputeField));
    assert_eq!(remedies.count(), 6);
    let _ = db.repair().apply().await.unwrap();
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    for id in 1..=3 {
        get_checked_basket(&db, id).await;
    }
    // A repair cannot compute a value that overflows. The application must change the inputs.
    set_raw(&fixture, 1, doc! { "$set": { "oranges": i64::MAX } }).await;
    let report = db.repair().apply().await.unwrap();
    assert!(!report.is_clean());
    assert!(
        report
            .to_string()
            .contains("the computed value does not fit into the field"),
        "{report}"
    );
}

/// A deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    /// Returns a value for a numeric field. `None` stands for a missing field.
    fn value(&mut self) -> Option<Bson> {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        let small = i32::try_from(self.below(100)).unwrap() - 50;
        Some(match self.below(24) {
            0 => return None,
            1 => Bson::Null,
            2 => "text".into(),
            3 => Bson::Array(vec![Bson::Int32(1)]),
            4 => doc! { "n": 1 }.into(),
            5 => Bson::Int32(i32::MAX),
            6 => Bson::Int64(i64::MAX),
            7 => Bson::Int64(i64::MIN),
            8 => Bson::Int64(3_037_000_500),
            9 => Bson::Double(0.1),
            10 => Bson::Double(-0.0),
            11 => Bson::Double(1e300),
            12 => Bson::Double(f64::NAN),
            13 => Bson::Double(f64::NEG_INFINITY),
            14 => decimal("0.10"),
            15 => decimal("-1234567890.123456789012345678901234"),
            16 => decimal("9.999999999999999999999999999999999E+6144"),
            17 => true.into(),
            18..21 => Bson::Int64(small.into()),
            _ => Bson::Int32(small),
        })
    }

    fn document(&mut self, names: &[&str]) -> BsonDocument {
        let fields = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.value()?)));
        fields.collect()
    }
}

/// Updates compute in the database, the check computes in Rust. Both must get equal values and refuse the same documents.
pub async fn updates_and_the_check_compute_equal_values(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let (mut random, mut documents) = (Random(17), Vec::new());
    for id in 0..400_i64 {
        let mut document = doc! { "_id": id, "touch": 7 };
        document.extend(random.document(&["a", "b", "x", "d"]));
        let elements = (0..random.below(4)).map(|_| match random.below(8) {
            0 => random.value().unwrap_or(Bson::Null),
            _ => random.document(&["n", "m", "x", "d"]).into(),
        });
        let elements: Vec<Bson> = elements.collect();
        match random.below(8) {
            0 => document.extend(random.document(&["list", "map"])),
            1 => {}
            _ => {
                document.insert("list", elements);
                document.insert("map", random.document(&["one", "two", "three"]));
            }
        }
        documents.push(RawDocumentBuf::try_from(&document).unwrap());
    }
    let insert = InsertOperation {
        collection: "numbers".into(),
        documents,
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let mut refused = Vec::new();
    for id in 0..400 {
        match db.update::<Numbers>(id).set(|n| n.touch(), 7).await {
            Ok(done) => assert_eq!(done.matched, 1),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                refused.push(Bson::Int64(id));
            }
        }
    }
    assert!((20..300).contains(&refused.len()), "{}", refused.len());
    let mut wrong = Vec::new();
    for finding in db.check().only::<Numbers>().await.unwrap().findings {
        match &finding.kind {
            FindingKind::WrongComputedField { expected: None, .. } => wrong.push(finding.id),
            FindingKind::WrongComputedField { .. } => {
                assert!(refused.contains(&finding.id), "{finding}")
            }
            _ => {}
        }
    }
    wrong.dedup();
    assert_eq!(wrong, refused);
}

/// Updates compute texts in the database, and inserts, saves and the check compute texts in Rust.
pub async fn texts_are_computed(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let author = NewAuthor {
        id: -1,
        touch: 0,
        first: Some("\u{3000}Ann \t".into()),
        last: "O'Hara ".into(),
    };
    let author = db.insert(author).await.unwrap();
    assert_eq!((&*author.name, &*author.key), ("Ann O'Hara ", "ann o'hara"));
    let renamed = db.update::<Author>(-1).unset(|a| a.first());
    let renamed = renamed.set(|a| a.last(), " $LAST É").returning_after();
    let renamed = renamed.await.unwrap();
    // Only the letters A to Z change, as with `$toLower`.
    assert_eq!((&*renamed.name, &*renamed.key), ("  $LAST É", "$last É"));
    let saved = db.modify::<Author>(-1, |author| author.last = "Lee".into());
    assert_eq!(saved.await.unwrap().name, " Lee");
    let found = db.find::<Author>().filter(|a| a.key().starts_with("le"));
    assert_eq!(found.one().await.unwrap().id, -1);

    // Every character that is white space in Rust or in MongoDB, and characters of other kinds.
    let characters = "aZ ß\u{0}\t\n\u{b}\u{c}\r\u{1c}\u{85}\u{a0}\u{1680}\u{180e}\u{2000}\u{2003}\u{200a}\u{200b}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
    let characters: Vec<_> = characters.chars().collect();
    let mut random = Random(5);
    let documents = (0..300_i64).map(|id| {
        let mut document = doc! { "_id": id, "touch": 7_i64 };
        for name in ["first", "last"] {
            let text = (0..random.below(6)).map(|_| characters[random.below(characters.len())]);
            let text = Bson::String(text.collect());
            match random.below(8) {
                0 => document.extend(random.document(&[name])),
                _ => drop(document.insert(name, text)),
            }
        }
        RawDocumentBuf::try_from(&document).unwrap()
    });
    let insert = InsertOperation {
        collection: "authors".into(),
        documents: documents.collect(),
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    for id in 0..300 {
        let touched = db.update::<Author>(id).set(|a| a.last(), "x ");
        if id % 3 == 0 {
            touched.await.unwrap();
        }
    }
    assert!(!db.check().only::<Author>().await.unwrap().is_clean());
    // The repair computes in the database.
    db.repair().only::<Author>().apply().await.unwrap();
    for finding in db.check().only::<Author>().await.unwrap().findings {
        let is_wrong = matches!(finding.kind, FindingKind::WrongComputedField { .. });
        assert!(!is_wrong, "{finding}");
    }
}

/// Reading an outdated document computes its fields. Writing the document stores the computed values.
pub async fn an_upgrade_computes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let old = |id: i64| rawdoc! { "_id": id, "width": id + 2 };
    let insert = InsertOperation {
        collection: "rooms".into(),
        documents: vec![old(1), old(2)],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    assert_eq!(db.get::<Room>(1).await.unwrap().area, 6);
    assert!(db.check().await.unwrap().is_clean());
    let after = db.update::<Room>(1).inc(|r| r.length(), 1);
    assert_eq!(after.returning_after().await.unwrap().area, 9);
    assert_eq!(db.upgrade::<Room>().await.unwrap().upgraded, 1);
    let wide = db.find::<Room>().filter(|r| r.area().eq(8));
    assert_eq!(wide.one().await.unwrap().id, 2);
}
