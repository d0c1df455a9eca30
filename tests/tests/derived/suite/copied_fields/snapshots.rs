//! Snapshots with an origin, and drift from the current source.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    action::Drift,
    backend::{
        Recorder,
        operation::{FindOperation, Operation},
    },
    bson::{Bson, RawDocumentBuf, doc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Size {
    width: i32,
    unit: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products", soft_delete)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    price: i64,
    #[embed]
    size: Size,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    city: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    #[reference]
    product: Ref<Product>,
    #[snapshot(from = product.price, origin)]
    price: i64,
    #[snapshot(from = product.size)]
    #[embed]
    size: Size,
    #[denormalize(from = product.name)]
    name: String,
    quantity: i32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", insert_struct, soft_delete)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    customer: Option<Ref<Person>>,
    #[snapshot(from = customer.city, origin)]
    #[serde(rename = "shipTo")]
    city: Option<String>,
    note: String,
    #[embed(max = 20)]
    lines: Vec<Line>,
    deleted_at: Option<DateTime>,
}

/// The same documents in a schema without origins.
mod without_origins {
    use super::{Person, Product};
    use odm::prelude::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "orders")]
    pub(super) struct Order {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) customer: Option<Ref<Person>>,
        #[snapshot(from = customer.city)]
        #[serde(rename = "shipTo")]
        pub(super) city: Option<String>,
        pub(super) note: String,
        #[embed(max = 20)]
        pub(super) lines: Vec<i32>,
    }

    #[derive(Schema)]
    #[schema(models(Product, Person, Order))]
    pub(super) struct Shop;
}

#[derive(Schema)]
#[schema(models(Product, Person, Order))]
struct Shop;
type Db = odm::Database<Shop>;

async fn insert_products_and_people(db: &Db) {
    db.sync_indexes().await.unwrap();
    let product = |id: i64| NewProduct {
        id,
        name: format!("product {id}"),
        price: id * 100,
        size: Size {
            width: 3,
            unit: "cm".into(),
        },
    };
    db.insert_many((1..=3).map(product)).await.unwrap();
    let person = |id, city: &str| Person {
        id,
        city: city.into(),
    };
    let persons = [person(1, "Bern"), person(2, "Bonn")];
    db.insert_many(persons).await.unwrap();
}

fn line(product: i64) -> NewLine {
    NewLine {
        product: Ref::new(product),
        quantity: 1,
    }
}

fn order(id: i64, customer: Option<i64>, products: &[i64]) -> NewOrder {
    NewOrder {
        id,
        customer: customer.map(Ref::new),
        note: String::new(),
        lines: products.iter().map(|product| line(*product)).collect(),
    }
}

/// Returns an order as stored.
async fn read_raw(db: &Db, id: i64) -> bson::Document {
    let find = FindOperation {
        collection: "orders".into(),
        filter: RawDocumentBuf::try_from(&doc! { "_id": id }).unwrap(),
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let found = db.backend().find_all(find).await.unwrap();
    bson::Document::try_from(&*found[0]).unwrap()
}

/// Returns the origin of each price of an order: product and time.
fn origins(order: &bson::Document) -> Vec<(i64, DateTime)> {
    let lines = order.get_array("lines").unwrap().iter();
    let origins = lines.map(|line| {
        let metadata = line.as_document().unwrap().get_document("_odm").unwrap();
        let origins = metadata.get_document("origin").unwrap();
        // `size` has no `origin` attribute.
        assert_eq!(origins.len(), 1);
        let origin = origins.get_document("price").unwrap();
        assert_eq!(origin.len(), 2);
        (
            origin.get_i64("id").unwrap(),
            *origin.get_datetime("at").unwrap(),
        )
    });
    origins.collect()
}

fn millis(time: DateTime) -> i64 {
    time.timestamp_millis()
}

fn drift_summary(drift: &Drift) -> (&str, Bson, Option<Bson>, Bson, bool) {
    (
        &drift.path,
        drift.snapshot.clone(),
        drift.current.clone(),
        drift.source.clone(),
        drift.snapshot_at.is_some(),
    )
}

pub async fn origins_are_stored(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_products_and_people(&db).await;
    db.wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await
        .unwrap();
    recorder.clear();
    let before = DateTime::now();
    db.insert(order(1, Some(1), &[1, 2])).await.unwrap();
    let after = DateTime::now();
    // The insert itself stores the origins. Later writes only revalidate copies.
    let operations = recorder.operations();
    let first = operations.iter().find_map(|operation| match operation {
        Operation::Insert(insert) => insert.documents.first(),
        _ => None,
    });
    let inserted = bson::Document::try_from(&**first.unwrap()).unwrap();
    let inserted_origins = origins(&inserted);
    let ids = inserted_origins.iter().map(|(id, _)| *id);
    assert_eq!(ids.collect::<Vec<_>>(), [1, 2]);
    for (_, at) in &inserted_origins {
        assert!((millis(before)..=millis(after)).contains(&millis(*at)));
    }
    let metadata = inserted.get_document("_odm").unwrap();
    let snapshot_origins = metadata.get_document("origin").unwrap();
    let city = snapshot_origins.get_document("shipTo").unwrap();
    assert_eq!(city.get_i64("id").unwrap(), 1);
    assert_eq!(origins(&read_raw(&db, 1).await), inserted_origins);

    // A pushed line stores an origin with the time of the push; existing origins stay.
    tokio::time::sleep(Duration::from_millis(3)).await;
    db.update::<Order>(1)
        .push(|o| o.lines(), line(1))
        .await
        .unwrap();
    let pushed = origins(&read_raw(&db, 1).await);
    assert_eq!((&pushed[..2], pushed[2].0), (&*inserted_origins, 1));
    assert!(pushed[2].1 > after);

    // Without a reference there is no origin.
    db.insert(order(2, None, &[])).await.unwrap();
    let order = read_raw(&db, 2).await;
    let metadata = order.get_document("_odm").ok();
    assert!(metadata.is_none_or(|metadata| !metadata.contains_key("origin")));
}

pub async fn origins_and_snapshots_stay(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_products_and_people(&db).await;
    db.insert(order(1, Some(1), &[1, 2, 3])).await.unwrap();
    let inserted = origins(&read_raw(&db, 1).await);
    tokio::time::sleep(Duration::from_millis(3)).await;

    // This write replaces whole lines. Existing lines keep the origin at a new position.
    db.modify::<Order>(1, |order| {
        order.lines.remove(1);
        order.lines.swap(0, 1);
        order.lines[0].quantity = 7;
        order.note = "urgent".into();
    })
    .await
    .unwrap();
    let saved = origins(&read_raw(&db, 1).await);
    assert_eq!(saved, [inserted[2], inserted[0]]);

    // The reference changes, and the snapshot stays.
    db.update::<Order>(1)
        .set(|o| o.customer(), Ref::new(2))
        .await
        .unwrap();
    let order = read_raw(&db, 1).await;
    assert_eq!(order.get_i64("customer").unwrap(), 2);
    let metadata = order.get_document("_odm").unwrap();
    let snapshot_origins = metadata.get_document("origin").unwrap();
    let city = snapshot_origins.get_document("shipTo").unwrap();
    assert_eq!(city.get_i64("id").unwrap(), 1);
    assert_eq!(order.get_str("shipTo").unwrap(), "Bern");

    // A save cannot change a snapshot value.
    let mut edited = db.edit::<Order>(1).await.unwrap();
    edited.lines[0].price = 1;
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(origins(&read_raw(&db, 1).await), saved);
}

pub async fn drift_is_found(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_products_and_people(&db).await;
    db.insert(order(1, Some(1), &[1, 2, 3])).await.unwrap();
    db.insert(order(2, None, &[1])).await.unwrap();
    assert_eq!(db.find::<Order>().drift().await.unwrap(), []);

    db.update::<Product>(1)
        .set(|p| p.price(), 150)
        .await
        .unwrap();
    db.update::<Product>(2)
        .set(|p| p.size().width(), 4)
        .await
        .unwrap();
    db.update::<Person>(1)
        .set(|p| p.city(), "Basel")
        .await
        .unwrap();
    let of_first = db.find::<Order>().filter(|o| o.id().eq(1));
    let found = of_first.clone().drift().await.unwrap();
    let size = |width: i32| Bson::from(doc! { "width": width, "unit": "cm" });
    let mut said_of_first: Vec<_> = found.iter().map(drift_summary).collect();
    said_of_first.sort_by_key(|(path, ..)| path.to_owned());
    assert_eq!(
        said_of_first,
        [
            (
                "lines.0.price",
                100_i64.into(),
                Some(150_i64.into()),
                1_i64.into(),
                true
            ),
            (
                "lines.1.size",
                size(3),
                Some(size(4)),
                2_i64.into(),
                // `size` has no `origin` attribute.
                false
            ),
            (
                "shipTo",
                "Bern".into(),
                Some("Basel".into()),
                1_i64.into(),
                true
            ),
        ]
    );
    assert!(found.iter().all(|drift| drift.id == Bson::Int64(1)));
    let models: Vec<_> = found.iter().map(|drift| drift.source_model).collect();
    assert!(models.contains(&"Product") && models.contains(&"Person"));

    // After a change of the reference, the snapshot is compared with the stored origin.
    db.update::<Order>(1)
        .set(|o| o.customer(), Ref::new(2))
        .await
        .unwrap();
    let found = of_first.clone().drift().await.unwrap();
    let city = found.iter().find(|drift| drift.path == "shipTo").unwrap();
    assert_eq!(
        (&city.source, &city.current),
        (&Bson::Int64(1), &Some("Basel".into()))
    );

    // For a deleted or soft-deleted source, `current` is `None`.
    db.delete::<Person>(1).await.unwrap();
    db.delete::<Product>(3).await.unwrap();
    let found = of_first.drift().await.unwrap();
    let gone: Vec<_> = found
        .iter()
        .filter(|drift| drift.current.is_none())
        .map(|drift| drift.path.as_str())
        .collect();
    assert_eq!(gone.len(), 3, "{gone:?}");
    assert!(
        ["shipTo", "lines.2.price", "lines.2.size"]
            .iter()
            .all(|path| gone.contains(path))
    );

    // The limit of the query applies, and rows are streamed.
    let second = db.find::<Order>().sort(|o| o.id().desc()).limit(1);
    let mut rows = second.drift().stream();
    assert_eq!(rows.next().await.unwrap().unwrap().path, "lines.0.price");
    assert!(rows.next().await.is_none());
    // A soft-deleted order has no drift, unless the query includes deleted documents.
    db.delete::<Order>(2).await.unwrap();
    let second = db.find::<Order>().filter(|o| o.id().eq(2));
    assert_eq!(second.clone().drift().await.unwrap(), []);
    assert_eq!(second.with_deleted().drift().await.unwrap().len(), 1);
    // A model without snapshots has no drift.
    assert_eq!(db.find::<Person>().drift().await.unwrap(), []);
}

pub async fn drift_costs_one_query_for_each_source(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_products_and_people(&db).await;
    let orders = (0..60).map(|id| order(id, Some(id % 2 + 1), &[1, 2, 3]));
    db.insert_many(orders).await.unwrap();
    db.wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await
        .unwrap();
    recorder.clear();
    assert_eq!(db.find::<Order>().drift().await.unwrap(), []);
    assert_eq!((recorder.queries(), recorder.writes()), (3, 0));
}

pub async fn drift_without_an_origin_uses_the_reference(fixture: Fixture) {
    let backend = fixture.backend();
    let old = odm::Database::<without_origins::Shop>::with_backend(backend.clone());
    let db = Db::with_backend(backend);
    insert_products_and_people(&db).await;
    let order = without_origins::NewOrder {
        id: 1,
        customer: Some(Ref::new(1)),
        note: String::new(),
        lines: Vec::new(),
    };
    old.insert(order).await.unwrap();
    db.update::<Person>(1)
        .set(|p| p.city(), "Basel")
        .await
        .unwrap();
    // A later write does not invent the time of an earlier snapshot.
    db.modify::<Order>(1, |order| order.note = "seen".into())
        .await
        .unwrap();
    db.update::<Order>(1)
        .push(|o| o.lines(), line(1))
        .await
        .unwrap();
    let found = db.find::<Order>().drift().await.unwrap();
    let found: Vec<_> = found.iter().map(drift_summary).collect();
    let city = ("Bern".into(), Some("Basel".into()), 1_i64.into(), false);
    assert_eq!(found, [("shipTo", city.0, city.1, city.2, city.3)]);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "invoices")]
struct Invoice {
    #[serde(rename = "_id")]
    id: i64,
    #[sum(of = InvoiceItem::invoice, value = price)]
    total: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "invoice_items")]
struct InvoiceItem {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    invoice: Ref<Invoice>,
    #[reference]
    product: Ref<Product>,
    #[snapshot(from = product.price)]
    price: i64,
}

#[derive(Schema)]
#[schema(models(Product, Person, Order, Invoice, InvoiceItem))]
struct Billing;

/// A snapshot is filled before the rollup, so a sum includes the price at the insert of each item, and changes with no later price.
pub async fn a_rollup_sums_snapshots(fixture: Fixture) {
    let shop = Db::with_backend(fixture.backend());
    insert_products_and_people(&shop).await;
    let db = odm::Database::<Billing>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert(NewInvoice { id: 1 }).await.unwrap();
    let item = |id, product| NewInvoiceItem {
        id,
        invoice: Ref::new(1),
        product: Ref::new(product),
    };
    let total = async || {
        db.wait_for_pending().await.unwrap();
        assert!(db.check().await.unwrap().is_clean());
        db.get::<Invoice>(1).await.unwrap().total
    };
    db.insert(item(1, 1)).await.unwrap();
    db.insert_many([item(2, 1), item(3, 2)]).await.unwrap();
    assert_eq!(total().await, 400);

    let raise = db.update::<Product>(1).set(|p| p.price(), 1_000);
    raise.await.unwrap();
    assert_eq!(total().await, 400);

    db.insert(item(4, 1)).await.unwrap();
    assert_eq!(total().await, 1_400);
    let replace = db
        .update::<InvoiceItem>(3)
        .set(|i| i.product(), Ref::new(1));
    replace.await.unwrap();
    assert_eq!(total().await, 1_400);

    db.delete::<InvoiceItem>(1).await.unwrap();
    assert_eq!(total().await, 1_300);
}
