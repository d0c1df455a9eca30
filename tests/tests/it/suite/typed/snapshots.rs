//! Snapshots that remember where they are from, and how they differ from what that is now.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind,
    action::Drift,
    backend::{
        Recorder,
        operation::{Find, Operation},
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
#[document(collection = "orders", companion, soft_delete)]
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

/// The same documents, before they remembered anything.
mod before {
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

async fn shop(db: &Db) {
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

/// An order as it is stored.
async fn stored(db: &Db, id: i64) -> bson::Document {
    let find = Find {
        collection: "orders".into(),
        filter: RawDocumentBuf::try_from(&doc! { "_id": id }).unwrap(),
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    };
    let found = db.backend().find_all(find).await.unwrap();
    bson::Document::try_from(&*found[0]).unwrap()
}

/// Where each price of an order is from: the product, and when.
fn origins(order: &bson::Document) -> Vec<(i64, DateTime)> {
    let lines = order.get_array("lines").unwrap().iter();
    let origins = lines.map(|line| {
        let own = line.as_document().unwrap().get_document("_odm").unwrap();
        let taken = own.get_document("taken").unwrap();
        // The size does not say that it remembers.
        assert_eq!(taken.len(), 1);
        let origin = taken.get_document("price").unwrap();
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

fn said(drift: &Drift) -> (&str, Bson, Option<Bson>, Bson, bool) {
    (
        &drift.path,
        drift.taken.clone(),
        drift.now.clone(),
        drift.source.clone(),
        drift.taken_at.is_some(),
    )
}

pub async fn it_remembers_where_it_is_from(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    shop(&db).await;
    db.settled().within(Duration::from_secs(30)).await.unwrap();
    recorder.clear();
    let before = DateTime::now();
    db.insert(order(1, Some(1), &[1, 2])).await.unwrap();
    let after = DateTime::now();
    // In the write of the insert itself: what is behind it looks at copies again.
    let operations = recorder.operations();
    let first = operations.iter().find_map(|operation| match operation {
        Operation::Insert(insert) => insert.documents.first(),
        _ => None,
    });
    let inserted = bson::Document::try_from(&**first.unwrap()).unwrap();
    let taken = origins(&inserted);
    assert_eq!(taken.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2]);
    for (_, at) in &taken {
        assert!((millis(before)..=millis(after)).contains(&millis(*at)));
    }
    let own = inserted.get_document("_odm").unwrap();
    let own = own.get_document("taken").unwrap();
    let city = own.get_document("shipTo").unwrap();
    assert_eq!(city.get_i64("id").unwrap(), 1);
    assert_eq!(origins(&stored(&db, 1).await), taken);

    // What is pushed is taken then; what was there stays.
    tokio::time::sleep(Duration::from_millis(3)).await;
    db.update::<Order>(1)
        .push(|o| o.lines(), line(1))
        .await
        .unwrap();
    let pushed = origins(&stored(&db, 1).await);
    assert_eq!((&pushed[..2], pushed[2].0), (&*taken, 1));
    assert!(pushed[2].1 > after);

    // No reference, no origin.
    db.insert(order(2, None, &[])).await.unwrap();
    let own = stored(&db, 2).await;
    let own = own.get_document("_odm").ok();
    assert!(own.is_none_or(|own| !own.contains_key("taken")));
}

pub async fn where_it_is_from_stays(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    db.insert(order(1, Some(1), &[1, 2, 3])).await.unwrap();
    let taken = origins(&stored(&db, 1).await);
    tokio::time::sleep(Duration::from_millis(3)).await;

    // Whole lines are written here: those that were there keep it, wherever they are now.
    db.modify::<Order>(1, |order| {
        order.lines.remove(1);
        order.lines.swap(0, 1);
        order.lines[0].quantity = 7;
        order.note = "urgent".into();
    })
    .await
    .unwrap();
    let saved = origins(&stored(&db, 1).await);
    assert_eq!(saved, [taken[2], taken[0]]);

    // The reference leads elsewhere, the snapshot is what it was.
    db.update::<Order>(1)
        .set(|o| o.customer(), Ref::new(2))
        .await
        .unwrap();
    let order = stored(&db, 1).await;
    assert_eq!(order.get_i64("customer").unwrap(), 2);
    let own = order.get_document("_odm").unwrap();
    let city = own.get_document("taken").unwrap();
    let city = city.get_document("shipTo").unwrap();
    assert_eq!(city.get_i64("id").unwrap(), 1);
    assert_eq!(order.get_str("shipTo").unwrap(), "Bern");

    // A save cannot change what it has not seen.
    let mut edited = db.edit::<Order>(1).await.unwrap();
    edited.lines[0].price = 1;
    let refused = db.save(&mut edited).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(origins(&stored(&db, 1).await), saved);
}

pub async fn drift_is_found(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
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
    let mut said_of_first: Vec<_> = found.iter().map(said).collect();
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
                // It does not say that it remembers.
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

    // What has moved on is compared with what it was taken of, if it remembers that.
    db.update::<Order>(1)
        .set(|o| o.customer(), Ref::new(2))
        .await
        .unwrap();
    let found = of_first.clone().drift().await.unwrap();
    let city = found.iter().find(|drift| drift.path == "shipTo").unwrap();
    assert_eq!(
        (&city.source, &city.now),
        (&Bson::Int64(1), &Some("Basel".into()))
    );

    // What is gone, and what is deleted by a mark, is nothing now.
    db.delete::<Person>(1).await.unwrap();
    db.delete::<Product>(3).await.unwrap();
    let found = of_first.drift().await.unwrap();
    let gone: Vec<_> = found
        .iter()
        .filter(|drift| drift.now.is_none())
        .map(|drift| drift.path.as_str())
        .collect();
    assert_eq!(gone.len(), 3, "{gone:?}");
    assert!(
        ["shipTo", "lines.2.price", "lines.2.size"]
            .iter()
            .all(|path| gone.contains(path))
    );

    // As many documents as asked for, one after the other.
    let second = db.find::<Order>().sort(|o| o.id().desc()).limit(1);
    let mut rows = second.drift().stream();
    assert_eq!(rows.next().await.unwrap().unwrap().path, "lines.0.price");
    assert!(rows.next().await.is_none());
    // What is out of sight has none, unless it is asked for.
    db.delete::<Order>(2).await.unwrap();
    let second = db.find::<Order>().filter(|o| o.id().eq(2));
    assert_eq!(second.clone().drift().await.unwrap(), []);
    assert_eq!(second.with_deleted().drift().await.unwrap().len(), 1);
    // A model without snapshots has none.
    assert_eq!(db.find::<Person>().drift().await.unwrap(), []);
}

pub async fn drift_costs_one_query_for_each_source(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    shop(&db).await;
    let orders = (0..60).map(|id| order(id, Some(id % 2 + 1), &[1, 2, 3]));
    db.insert_many(orders).await.unwrap();
    db.settled().within(Duration::from_secs(30)).await.unwrap();
    recorder.clear();
    assert_eq!(db.find::<Order>().drift().await.unwrap(), []);
    assert_eq!((recorder.queries(), recorder.writes()), (3, 0));
}

pub async fn what_remembered_nothing_is_compared_by_its_reference(fixture: Fixture) {
    let backend = fixture.backend();
    let old = odm::Database::<before::Shop>::with_backend(backend.clone());
    let db = Db::with_backend(backend);
    shop(&db).await;
    let order = before::NewOrder {
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
    // Nobody makes up when it was taken.
    db.modify::<Order>(1, |order| order.note = "seen".into())
        .await
        .unwrap();
    db.update::<Order>(1)
        .push(|o| o.lines(), line(1))
        .await
        .unwrap();
    let found = db.find::<Order>().drift().await.unwrap();
    let found: Vec<_> = found.iter().map(said).collect();
    let city = ("Bern".into(), Some("Basel".into()), 1_i64.into(), false);
    assert_eq!(found, [("shipTo", city.0, city.1, city.2, city.3)]);
}
