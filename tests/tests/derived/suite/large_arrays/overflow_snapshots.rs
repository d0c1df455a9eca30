//! Snapshots in the elements of overflow arrays. A snapshot is taken when the element is written, resident or spilled.

use std::{cmp::Reverse, sync::Arc};

use odm::{
    ErrorKind,
    backend::Recorder,
    bson::{self, Bson},
    prelude::*,
};
use odm_tests::assert_clean;

use crate::{Fixture, crash::CrashTest};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    price: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    #[reference]
    product: Ref<Product>,
    #[snapshot(from = product.price, origin)]
    price: i64,
    quantity: i64,
}

/// A remark. The snapshot keeps the text of the insert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Remark {
    #[snapshot]
    text: String,
    likes: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", insert_struct)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    first: Ref<Product>,
    #[denormalize(from = first.name)]
    name: String,
    #[embed(overflow(
        after = 3,
        into = "more_lines",
        owner = "order",
        flag = "has_more_lines"
    ))]
    lines: Overflow<Line>,
    #[embed(overflow(
        after = 2,
        into = "more_remarks",
        owner = "order",
        flag = "has_more_remarks"
    ))]
    remarks: Overflow<Remark>,
}

/// A cart that keeps the most expensive items in the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "carts", insert_struct, schema_version = 2, upgrade = no_upgrade_expected)]
struct Cart {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 2, into = "more_items", owner = "cart", latest_by = price))]
    items: Overflow<Line>,
}

/// Fails the test: inserted carts have the current schema version.
fn no_upgrade_expected(version: u32, _: &mut bson::Document) -> odm::Result<()> {
    panic!("a cart of version {version}");
}

#[derive(Schema)]
#[schema(models(Product, Order, Cart))]
struct Shop;
type Db = odm::Database<Shop>;

/// Inserts products 1 to 9. The price of a product is a hundred times the id.
async fn shop(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    insert_products(&db).await;
    db
}

async fn insert_products(db: &Db) {
    db.sync_indexes().await.unwrap();
    let product = |id: i64| Product {
        id,
        name: format!("product {id}"),
        price: id * 100,
    };
    db.insert_many((1..=9).map(product)).await.unwrap();
}

fn line(product: i64) -> NewLine {
    NewLine {
        product: Ref::new(product),
        quantity: 1,
    }
}

fn lines(products: impl IntoIterator<Item = i64>) -> Vec<NewLine> {
    products.into_iter().map(line).collect()
}

fn order(id: i64, products: impl IntoIterator<Item = i64>) -> NewOrder {
    NewOrder {
        id,
        first: Ref::new(1),
        lines: lines(products).into(),
        remarks: Overflow::new(),
    }
}

async fn prices_of_order(db: &Db, id: i64) -> Vec<(i64, i64)> {
    let all = db.get::<Order>(id).elements(|o| o.lines()).all();
    let all = all.await.unwrap();
    all.iter()
        .map(|line| (*line.product.id(), line.price))
        .collect()
}

async fn set_price(db: &Db, id: i64, price: i64) {
    let dearer = db.update::<Product>(id).set(|p| p.price(), price);
    dearer.await.unwrap();
}

/// Returns the drifted snapshots: the path, the snapshot, the current value, and whether the time of the snapshot is known.
async fn drifted_snapshots(
    of: impl IntoFuture<Output = odm::Result<Vec<odm::action::Drift>>>,
) -> Vec<(String, i64, Option<i64>, bool)> {
    let drift = of.await.unwrap();
    let number = |value: &Bson| value.as_i64().unwrap();
    let drift = drift.iter().map(|drift| {
        let now = drift.current.as_ref().map(number);
        let (path, taken) = (drift.path.clone(), number(&drift.snapshot));
        (path, taken, now, drift.snapshot_at.is_some())
    });
    drift.collect()
}

pub(crate) async fn resident_and_spilled_elements_have_snapshots(fixture: Fixture) {
    let db = shop(&fixture).await;
    // Three lines are resident, and the insert spills the rest.
    let inserted = db.insert(order(1, [1, 2, 3, 4, 5])).await.unwrap();
    let resident = inserted.lines.resident().iter();
    let resident: Vec<_> = resident.map(|line| line.price).collect();
    assert_eq!((resident, inserted.lines.len()), (vec![100, 200, 300], 5));
    assert_eq!(inserted.name, "product 1");
    assert_eq!(
        prices_of_order(&db, 1).await,
        [(1, 100), (2, 200), (3, 300), (4, 400), (5, 500)]
    );

    set_price(&db, 4, 444).await;
    set_price(&db, 1, 111).await;
    let push = db.update::<Order>(1).push(|o| o.lines(), line(4));
    push.await.unwrap();
    let many = db
        .update::<Order>(1)
        .push_each(|o| o.lines(), lines((0..40).map(|n| n % 9 + 1)));
    many.await.unwrap();
    let all = prices_of_order(&db, 1).await;
    assert_eq!(
        all[..6],
        [(1, 100), (2, 200), (3, 300), (4, 400), (5, 500), (4, 444)]
    );
    assert_eq!(all.len(), 46);
    let price = |product| match product {
        1 => 111,
        4 => 444,
        other => other * 100,
    };
    assert!(
        all[6..]
            .iter()
            .all(|(product, snapshot)| *snapshot == price(*product)),
        "{all:?}"
    );

    // Updates of elements and pulls keep the snapshots.
    let more = db.update::<Order>(1).inc(|o| o.lines().all().quantity(), 1);
    more.await.unwrap();
    assert_eq!(prices_of_order(&db, 1).await, all);
    let pull = db
        .update::<Order>(1)
        .pull_where(|o| o.lines(), |l| l.price().gt(150));
    pull.await.unwrap();
    let remaining = prices_of_order(&db, 1).await;
    assert!(
        remaining.iter().all(|(product, _)| *product == 1) && remaining.len() == 6,
        "{remaining:?}"
    );
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;

    db.arrays::<Order>().fold().await.unwrap();
    assert_eq!(prices_of_order(&db, 1).await, remaining);
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

pub(crate) async fn updates_of_many_fill_snapshots(fixture: Fixture) {
    let db = shop(&fixture).await;
    db.insert_many([order(1, [1]), order(2, [1, 2, 3, 4])])
        .await
        .unwrap();
    set_price(&db, 3, 333).await;
    // An update of several documents fills snapshots.
    let both = db
        .update_many::<Order>(|o| o.id().gte(1))
        .push_each(|o| o.lines(), lines([3, 4, 5]));
    both.await.unwrap();
    assert_eq!(
        prices_of_order(&db, 1).await,
        [(1, 100), (3, 333), (4, 400), (5, 500)]
    );
    assert_eq!(
        prices_of_order(&db, 2).await[3..],
        [(4, 400), (3, 333), (4, 400), (5, 500)]
    );
    let upsert = db.update::<Order>(2).push(|o| o.lines(), line(3));
    let upsert = upsert.set(|o| o.first(), Ref::new(2)).set(
        |o| o.remarks(),
        [remark("first"), remark("second"), remark("third")],
    );
    upsert.await.unwrap();
    let order = db.get::<Order>(2).await.unwrap();
    assert_eq!(
        (order.name.as_str(), order.lines.len(), order.remarks.len()),
        ("product 2", 8, 3)
    );
    let liked = db.update::<Order>(2).inc(|o| o.remarks().all().likes(), 1);
    liked.await.unwrap();
    let remarks = db
        .get::<Order>(2)
        .elements(|o| o.remarks())
        .all()
        .await
        .unwrap();
    let remarks: Vec<_> = remarks.iter().map(|r| (r.text.as_str(), r.likes)).collect();
    assert_eq!(remarks, [("first", 1), ("second", 1), ("third", 1)]);
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

fn remark(text: &str) -> Remark {
    Remark {
        text: text.into(),
        likes: 0,
    }
}

pub(crate) async fn the_most_expensive_stay_resident(fixture: Fixture) {
    let db = shop(&fixture).await;
    let new = NewCart {
        id: 1,
        items: lines([1, 5, 3]).into(),
    };
    let cart = db.insert(new).await.unwrap();
    let prices = |lines: &[Line]| lines.iter().map(|line| line.price).collect::<Vec<_>>();
    assert_eq!(prices(cart.items.resident()), [500, 300]);
    set_price(&db, 2, 1_000).await;
    let push = db
        .update::<Cart>(1)
        .push_each(|c| c.items(), lines([2, 4, 1]));
    push.await.unwrap();
    let cart = db.get::<Cart>(1).await.unwrap();
    assert_eq!(prices(cart.items.resident()), [1_000, 500]);
    let all = db
        .get::<Cart>(1)
        .elements(|c| c.items())
        .all()
        .await
        .unwrap();
    let mut expected = vec![1_000, 500, 400, 300, 100, 100];
    expected.sort_by_key(|price| Reverse(*price));
    assert_eq!(prices(&all), expected);
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

pub(crate) async fn drift_of_spilled_elements_is_found(fixture: Fixture) {
    let db = shop(&fixture).await;
    db.insert(order(1, [1, 2, 3, 4, 5, 1])).await.unwrap();
    db.insert(order(2, [2])).await.unwrap();
    let push = db
        .update::<Order>(1)
        .push_each(|o| o.lines(), lines([2, 5]));
    push.await.unwrap();
    assert_eq!(drifted_snapshots(db.find::<Order>().drift()).await, []);
    set_price(&db, 5, 555).await;
    set_price(&db, 2, 222).await;
    db.delete::<Product>(4).await.unwrap();
    let at = |path: &str, taken, now| (path.to_owned(), taken, now, true);
    let expected = [
        at("lines.1.price", 200, Some(222)),
        at("lines.3.price", 400, None),
        at("lines.4.price", 500, Some(555)),
        at("lines.6.price", 200, Some(222)),
        at("lines.7.price", 500, Some(555)),
        at("lines.0.price", 200, Some(222)),
    ];
    assert_eq!(
        drifted_snapshots(db.find::<Order>().drift()).await,
        expected
    );

    // Paths contain the positions in the array order, although some elements are not in chunk documents yet.
    let items = [1, 2, 3, 5, 6, 7, 8, 9];
    let cart = NewCart {
        id: 1,
        items: lines(items).into(),
    };
    db.insert(cart).await.unwrap();
    let push = db.update::<Cart>(1).push(|c| c.items(), line(6));
    push.await.unwrap();
    assert_eq!(drifted_snapshots(db.find::<Cart>().drift()).await, []);
    set_price(&db, 6, 666).await;
    set_price(&db, 3, 333).await;
    let expected = [
        at("items.3.price", 600, Some(666)),
        at("items.4.price", 600, Some(666)),
        at("items.6.price", 300, Some(333)),
    ];
    assert_eq!(drifted_snapshots(db.find::<Cart>().drift()).await, expected);
}

/// A write is rejected if the source of a snapshot is missing. `add_to_set` is unsupported, because new elements have no snapshot
/// to compare.
pub(crate) async fn writes_without_a_snapshot_are_rejected(fixture: Fixture) {
    let db = shop(&fixture).await;
    let refused = db.insert(order(1, [1, 2, 3, 4, 77])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Dangling, "{refused}");
    assert_eq!(db.find::<Order>().count().await.unwrap(), 0);
    db.insert(order(1, [1, 2, 3, 4])).await.unwrap();
    let push = db
        .update::<Order>(1)
        .push_each(|o| o.lines(), lines([5, 77]));
    let refused = push.await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Dangling, "{refused}");
    let add = db.update::<Order>(1).add_to_set(|o| o.lines(), line(5));
    let refused = add.await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert_eq!(prices_of_order(&db, 1).await.len(), 4);
    db.wait_for_pending().await.unwrap();
    assert_clean(&db).await;
}

/// A push with snapshots costs a single query more than a push without snapshots, for any number of elements.
pub(crate) async fn snapshots_cost_a_single_query(fixture: Fixture) {
    let db = shop(&fixture).await;
    db.insert(order(1, [1, 2, 3, 4])).await.unwrap();
    let remarks = ["a", "b", "c"].map(remark);
    let set = db.update::<Order>(1).set(|o| o.remarks(), remarks);
    set.await.unwrap();
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    for count in [1, 5] {
        let plain = (0..count).map(|_| remark("more"));
        let push = db.update::<Order>(1).push_each(|o| o.remarks(), plain);
        push.await.unwrap();
        let plain = recorder.operations().len();
        recorder.clear();
        let push = db
            .update::<Order>(1)
            .push_each(|o| o.lines(), lines((0..count).map(|n| n % 9 + 1)));
        push.await.unwrap();
        let filled = recorder.operations().len();
        recorder.clear();
        assert_eq!(filled, plain + 1, "{count}");
    }
}

/// After a crash, every stored line has the price of the product.
pub(crate) async fn crashes_lose_no_snapshots(fixture: Fixture) {
    let crashes = CrashTest {
        writes: &[
            ("an insert", |db: Db| {
                Box::pin(async move { db.insert(order(2, 1..=9)).await.map(drop) })
            }),
            ("a push of many", |db| {
                Box::pin(async move {
                    let push = db.update::<Order>(1).push_each(|o| o.lines(), lines(1..=9));
                    push.await.map(drop)
                })
            }),
            ("a push and a pull", |db| {
                Box::pin(async move {
                    let push = db.update::<Order>(1).push(|o| o.lines(), line(7));
                    push.await?;
                    let pull = db
                        .update::<Order>(1)
                        .pull_where(|o| o.lines(), |l| l.price().eq(500));
                    pull.await.map(drop)
                })
            }),
        ],
        begin: |db| {
            Box::pin(async move {
                insert_products(db).await;
                db.insert(order(1, [1, 2, 3, 4, 5, 6])).await.unwrap();
            })
        },
        may_find: |_| false,
        agrees: |db, name| {
            Box::pin(async move {
                for order in db.find::<Order>().all().await.unwrap() {
                    let all = prices_of_order(db, order.id).await;
                    assert_eq!(all.len() as u64, order.lines.len(), "{name}");
                    let mut all = all.iter();
                    assert!(
                        all.all(|(product, price)| *price == product * 100),
                        "{name}: {all:?}"
                    );
                }
            })
        },
    };
    crashes.run(&fixture).await;
}
