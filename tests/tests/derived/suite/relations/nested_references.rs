//! References with delete rules inside embedded structs and arrays, at any depth.

use odm::{
    ErrorKind, Filter,
    action::BulkResult,
    backend::operation::{Direction, DocumentChange, InsertOperation, UpdateOperation},
    bson::{self, RawDocumentBuf, rawdoc},
    check::{FindingKind, RepairOutcome},
    prelude::*,
};

use crate::Fixture;
use crate::crash::{CrashTest, Write};

macro_rules! things {
    ($($thing:ident in $collection:literal)*) => {$(
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
        #[document(collection = $collection)]
        struct $thing {
            #[serde(rename = "_id")]
            id: i64,
        }
    )*};
}
things!(Product in "products" Service in "services" Carrier in "carriers" Stop in "stops" Town in "towns");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", version)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 20)]
    #[serde(rename = "items")]
    lines: Vec<Line>,
    #[embed]
    delivery: Option<Delivery>,
    #[embed(max = 5)]
    parcels: Vec<Parcel>,
    version: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    /// The product cannot be deleted while an order line references the product.
    #[serde(rename = "sku")]
    #[reference(on_delete = restrict)]
    product: Ref<Product>,
    quantity: i32,
    #[embed(max = 5)]
    extras: Vec<Extra>,
}

/// An extra of an order line. Deleting the service pulls the extra.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Extra {
    #[embed]
    of: ExtraOf,
    note: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct ExtraOf {
    #[reference(on_delete = pull)]
    service: Ref<Service>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Delivery {
    #[reference(on_delete = nullify)]
    carrier: Option<Ref<Carrier>>,
    #[reference(on_delete = pull, max = 5)]
    stops: Vec<Ref<Stop>>,
    #[reference(on_delete = keep)]
    was: Option<Ref<Carrier>>,
    /// A reference without a rule: writes do not check the target.
    #[reference]
    plain: Option<Ref<Town>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Parcel {
    #[embed]
    delivery: Delivery,
}

/// A manual. Deleting a referenced service cascades to the manual.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "manuals")]
struct Manual {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    about: About,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct About {
    #[embed(max = 5)]
    parts: Vec<PartOf<Service>>,
}

/// A part of any model, with a cascading reference to the whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(bound = "")]
struct PartOf<T: Document + Clone + PartialEq + std::fmt::Debug>
where
    T::Id: PartialEq + std::fmt::Debug,
{
    #[reference(on_delete = cascade)]
    whole: Ref<T>,
}

#[derive(Schema)]
#[schema(models(Order, Manual, Product, Service, Carrier, Stop, Town))]
struct Shop;
type Db = odm::Database<Shop>;

fn line(product: i64, extras: &[i64]) -> Line {
    let extra = |service: &i64| Extra {
        of: ExtraOf {
            service: Ref::new(*service),
        },
        note: format!("extra {service}"),
    };
    Line {
        product: Ref::new(product),
        quantity: 1,
        extras: extras.iter().map(extra).collect(),
    }
}

fn delivery(carrier: i64, stops: &[i64]) -> Delivery {
    Delivery {
        carrier: Some(Ref::new(carrier)),
        stops: stops.iter().map(|stop| Ref::new(*stop)).collect(),
        was: Some(Ref::new(carrier)),
        plain: None,
    }
}

fn order(id: i64, products: &[i64]) -> NewOrder {
    NewOrder {
        id,
        lines: products
            .iter()
            .map(|product| line(*product, &[1, 2, 1]))
            .collect(),
        delivery: Some(delivery(1, &[1, 2, 3])),
        parcels: vec![
            Parcel {
                delivery: delivery(1, &[2]),
            },
            Parcel {
                delivery: delivery(2, &[3, 2]),
            },
        ],
    }
}

fn manual(id: i64, services: &[i64]) -> Manual {
    let part = |service: &i64| PartOf {
        whole: Ref::new(*service),
    };
    Manual {
        id,
        about: About {
            parts: services.iter().map(part).collect(),
        },
    }
}

async fn shop(db: &Db) {
    for id in [1, 2, 3] {
        db.insert(Product { id }).await.unwrap();
        db.insert(Service { id }).await.unwrap();
        db.insert(Carrier { id }).await.unwrap();
        db.insert(Stop { id }).await.unwrap();
    }
    db.insert_many([order(1, &[1, 2]), order(2, &[2])])
        .await
        .unwrap();
    db.insert_many([manual(1, &[1, 2]), manual(2, &[3])])
        .await
        .unwrap();
}

async fn assert_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

async fn manuals(db: &Db) -> Vec<i64> {
    let all = db.find::<Manual>().sort(|m| m.id().asc()).all();
    all.await.unwrap().iter().map(|manual| manual.id).collect()
}

/// The services of the extras, by line.
fn services(order: &Order) -> Vec<Vec<i64>> {
    let of_line = |line: &Line| {
        let extras = line.extras.iter();
        extras.map(|extra| *extra.of.service.id()).collect()
    };
    order.lines.iter().map(of_line).collect()
}

fn carriers(order: &Order) -> Vec<Option<i64>> {
    let parcels = order.parcels.iter().map(|parcel| &parcel.delivery);
    let all = order.delivery.iter().chain(parcels);
    all.map(|delivery| delivery.carrier.as_ref().map(|carrier| *carrier.id()))
        .collect()
}

fn stops(order: &Order) -> Vec<Vec<i64>> {
    let parcels = order.parcels.iter().map(|parcel| &parcel.delivery);
    let all = order.delivery.iter().chain(parcels);
    all.map(|delivery| delivery.stops.iter().map(|stop| *stop.id()).collect())
        .collect()
}

pub async fn deletes_apply_nested_rules(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let error = db.delete::<Product>(2).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Restricted, Some(&2_i64.into()))
    );
    let text = error.to_string();
    assert!(
        text.contains("2 documents in `orders` reference the document by `lines.product`"),
        "{text}"
    );
    // No element references product 3.
    assert_eq!(db.delete::<Product>(3).await.unwrap().deleted, 1);
    // Product 1 can be deleted after the referencing element is gone.
    db.update::<Order>(1)
        .pull_where(|o| o.lines(), |l| l.product().eq(Ref::new(1)))
        .await
        .unwrap();
    assert_eq!(db.delete::<Product>(1).await.unwrap().deleted, 1);

    // `pull` removes array elements. `cascade` deletes documents.
    let dry = db.delete::<Service>(1).dry_run().await.unwrap();
    assert_eq!(
        dry.to_string(),
        "1 of manuals would be deleted\n1 of services would be deleted\n2 of orders would lose a reference\n"
    );
    assert_eq!(db.delete::<Service>(1).await.unwrap().deleted, 1);
    let one = db.get::<Order>(1).await.unwrap();
    assert_eq!(services(&one), [[2]]);
    assert_eq!(one.lines[0].extras[0].note, "extra 2");
    assert_eq!(manuals(&db).await, [2]);
    assert_clean(&db).await;

    // `nullify` clears the reference in each array element, and in the struct outside of arrays.
    let version = one.version;
    assert_eq!(db.delete::<Carrier>(1).await.unwrap().deleted, 1);
    let one = db.get::<Order>(1).await.unwrap();
    assert_eq!(carriers(&one), [None, None, Some(2)]);
    assert!(one.version > version);
    assert_eq!(
        one.parcels[0].delivery.was,
        Some(Ref::new(1)),
        "`keep` keeps it"
    );

    // `pull` removes the reference from the innermost array. The surrounding struct stays.
    let gone = db.delete_many::<Stop>(|s| s.id().gte(2)).await.unwrap();
    assert_eq!(gone.deleted, 2);
    let one = db.get::<Order>(1).await.unwrap();
    assert_eq!(stops(&one), [vec![1], vec![], vec![]]);
    assert_eq!(carriers(&one), [None, None, Some(2)]);
    assert_clean(&db).await;
    assert_eq!(db.run_pending().await.unwrap(), 0);
}

/// Deletes skip missing structs, missing arrays and null elements.
pub async fn deletes_skip_missing_structs(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let bare = NewOrder {
        id: 3,
        lines: vec![line(2, &[])],
        delivery: None,
        parcels: Vec::new(),
    };
    db.insert(bare).await.unwrap();
    // An older application version could have stored this document.
    let older = UpdateOperation {
        collection: "orders".into(),
        filter: rawdoc! { "_id": 3 },
        change: DocumentChange::operators(rawdoc! {
            "$unset": { "parcels": true },
            "$push": { "items": { "$each": [null, { "sku": 2_i64, "quantity": 3 }] } },
        }),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(older).await.unwrap();
    for id in [1, 2, 3] {
        db.delete::<Service>(id).await.unwrap();
        db.delete::<Carrier>(id).await.unwrap();
        db.delete::<Stop>(id).await.unwrap();
    }
    let error = db.delete::<Product>(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    let one = db.get::<Order>(1).await.unwrap();
    assert_eq!(services(&one), [Vec::<i64>::new(), Vec::new()]);
    assert_eq!(stops(&one), [Vec::<i64>::new(), Vec::new(), Vec::new()]);
}

/// Every kind of write rejects a dangling reference inside an embedded struct.
pub async fn dangling_references_are_rejected(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let before = db.get::<Order>(1).await.unwrap();
    let refused = |message: &str, done: odm::Result<()>| {
        let error = done.expect_err(message);
        assert_eq!(
            (error.kind(), error.id()),
            (ErrorKind::Dangling, Some(&9_i64.into())),
            "{message}: {error}"
        );
    };
    let nowhere = || line(9, &[]);
    let done = db.insert(order(9, &[1, 9])).await.map(drop);
    refused("insert", done);
    let mut deep = order(9, &[1]);
    deep.lines[0].extras[1].of.service = Ref::new(9);
    refused("insert, deep", db.insert(deep).await.map(drop));
    refused(
        "insert, generic",
        db.insert(manual(9, &[1, 9])).await.map(drop),
    );
    let update = || db.update::<Order>(1);
    refused(
        "push",
        update().push(|o| o.lines(), nowhere()).await.map(drop),
    );
    let pushed = update().push_with(|o| o.lines(), [line(1, &[]), nowhere()], |p| p.at(0));
    refused("push at a place", pushed.await.map(drop));
    let set = update().set(|o| o.lines(), vec![nowhere()]);
    refused("set the array", set.await.map(drop));
    let set = update().set(|o| o.lines().at(0), nowhere());
    refused("set an element", set.await.map(drop));
    let set = update().set(|o| o.lines().at(0).product(), Ref::new(9));
    refused("set in an element", set.await.map(drop));
    let set = update().set(|o| o.lines().all().product(), Ref::new(9));
    refused("set in all", set.await.map(drop));
    let set = update().set(
        |o| {
            o.lines()
                .matching(|l| l.product().eq(Ref::new(2)))
                .product()
        },
        Ref::new(9),
    );
    refused("set in some", set.await.map(drop));
    let set = update().set(
        |o| {
            o.lines()
                .first_matching(|l| l.product().eq(Ref::new(2)))
                .product()
        },
        Ref::new(9),
    );
    refused("set in the first", set.await.map(drop));
    let set = update().set(|o| o.delivery(), delivery(9, &[]));
    refused("set a struct", set.await.map(drop));
    let set = update().set(|o| o.delivery().carrier(), Some(Ref::new(9)));
    refused("set in a struct", set.await.map(drop));
    let push = update().push(|o| o.delivery().stops(), Ref::new(9));
    refused("push in a struct", push.await.map(drop));
    let push = update().push(|o| o.parcels().at(1).delivery().stops(), Ref::new(9));
    refused("push in an element", push.await.map(drop));
    let moved = db.modify::<Order>(1, |order| order.lines[1].product = Ref::new(9));
    refused("modify", moved.await.map(drop));
    let mut edited = db.edit::<Order>(1).await.unwrap();
    edited.parcels[1].delivery.carrier = Some(Ref::new(9));
    refused("save", db.save(&mut edited).await.map(drop));
    let all = db.update_many::<Order>(|_| Filter::all());
    let all = all.push(|o| o.lines(), nowhere());
    refused("update many", all.await.map(drop));
    let upsert = db.update::<Order>(9).set(|o| o.parcels(), Vec::new());
    refused("upsert", upsert.or_insert(order(9, &[9])).await.map(drop));
    let bulk = db
        .bulk()
        .add(update().push(|o| o.lines(), line(1, &[])))
        .add(update().push(|o| o.lines(), nowhere()))
        .unordered()
        .await
        .unwrap();
    let BulkResult::Failed(error) = &bulk.results[1] else {
        panic!("{:?}", bulk.results);
    };
    refused("bulk", Err(error.clone()));

    let after = db.get::<Order>(1).await.unwrap();
    assert_eq!(after.lines.len(), 3);
    assert_eq!(after.lines[..2], before.lines);
    assert_eq!(
        (after.parcels, after.delivery),
        (before.parcels, before.delivery)
    );
    // A reference without a rule is not checked. Valid references are accepted.
    update()
        .set(|o| o.delivery().plain(), Some(Ref::new(9)))
        .set(|o| o.lines().at(0).quantity(), 7)
        .await
        .unwrap();
    update()
        .set(|o| o.delivery().plain(), None)
        .set(|o| o.lines().at(0).product(), Ref::new(3))
        .await
        .unwrap();
    let error = db.delete::<Product>(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    assert_clean(&db).await;
    assert_eq!(db.run_pending().await.unwrap(), 0);
}

pub async fn the_index_is_declared(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let index_keys = async |collection: &str| {
        let indexes = fixture.backend().list_indexes(collection).await.unwrap();
        let keys = indexes.into_iter().map(|index| index.keys);
        keys.collect::<Vec<_>>()
    };
    let orders = index_keys("orders").await;
    for field in [
        "items.sku",
        "items.extras.of.service",
        "delivery.carrier",
        "delivery.stops",
        "parcels.delivery.carrier",
        "parcels.delivery.stops",
        "_odm.pending.references.lease",
    ] {
        let keys = vec![(field.to_owned(), Direction::Ascending)];
        assert!(orders.contains(&keys), "{field}: {orders:?}");
    }
    let keys = vec![("about.parts.whole".to_owned(), Direction::Ascending)];
    assert!(index_keys("manuals").await.contains(&keys));
}

/// Check and repair handle dangling references that the typed API cannot create.
pub async fn dangling_references_are_found_and_repaired(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let plant = async |collection: &'static str, id: i64, set: RawDocumentBuf| {
        let update = UpdateOperation {
            collection: collection.into(),
            filter: rawdoc! { "_id": id },
            change: DocumentChange::operators(rawdoc! { "$set": set }),
            multi: false,
            upsert: false,
            origin: Default::default(),
        };
        let done = fixture.backend().update(update).await.unwrap();
        assert_eq!(done.matched, 1);
    };
    plant("orders", 1, rawdoc! { "items.1.sku": 91_i64 }).await;
    plant(
        "orders",
        1,
        rawdoc! { "items.0.extras.1.of.service": 92_i64 },
    )
    .await;
    plant(
        "orders",
        1,
        rawdoc! { "parcels.1.delivery.carrier": 93_i64 },
    )
    .await;
    plant(
        "orders",
        1,
        rawdoc! { "parcels.0.delivery.stops.0": 94_i64 },
    )
    .await;
    plant("orders", 1, rawdoc! { "parcels.0.delivery.was": 95_i64 }).await;
    plant("manuals", 2, rawdoc! { "about.parts.0.whole": 96_i64 }).await;
    let report = db.check().await.unwrap();
    let mut found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            let FindingKind::Dangling { id, .. } = &finding.kind else {
                panic!("{finding}");
            };
            (finding.path.as_str(), id.as_i64().unwrap())
        })
        .collect();
    found.sort_by_key(|(_, id)| *id);
    assert_eq!(
        found,
        [
            ("items.1.sku", 91),
            ("items.0.extras.1.of.service", 92),
            ("parcels.1.delivery.carrier", 93),
            ("parcels.0.delivery.stops.0", 94),
            ("about.parts.0.whole", 96),
        ]
    );
    let done = db.repair().apply().await.unwrap();
    let impossible = done
        .steps
        .iter()
        .filter(|step| matches!(step.outcome, RepairOutcome::Impossible { .. }));
    let impossible: Vec<_> = impossible.map(|step| step.finding.path.as_str()).collect();
    // Repair does not remove a reference with `restrict`.
    assert_eq!(impossible, ["items.1.sku"]);
    let one = db.get::<Order>(1).await.unwrap();
    assert_eq!(services(&one), [vec![1, 1], vec![1, 2, 1]]);
    assert_eq!(carriers(&one), [Some(1), Some(1), None]);
    assert_eq!(stops(&one), [vec![1, 2, 3], vec![], vec![3, 2]]);
    assert_eq!(manuals(&db).await, [1]);
    db.insert(Product { id: 91 }).await.unwrap();
    assert_clean(&db).await;
}

/// A rename into a checked reference field checks the reference.
pub async fn renamed_references_are_checked(fixture: Fixture) {
    let db = odm::Database::<Moves>::with_backend(fixture.backend());
    db.insert(Product { id: 1 }).await.unwrap();
    let spot = |product: i64| Spot {
        product: Ref::new(product),
    };
    let new = |id, product: i64| Shelf {
        id,
        spot: Some(spot(1)),
        plain: Some(Ref::new(product)),
        first: None,
    };
    db.insert_many([new(1, 1), new(2, 9)]).await.unwrap();
    let renamed = |id: i64| {
        let update = db.update::<Shelf>(id);
        update.rename(|s| s.plain(), |s| s.first())
    };
    renamed(1).await.unwrap();
    let error = renamed(2).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Dangling, Some(&9_i64.into())),
        "{error}"
    );
    let two = db.get::<Shelf>(2).await.unwrap();
    assert_eq!((two.plain, two.first), (Some(Ref::new(9)), None));
    let error = db.delete::<Product>(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Spot {
    #[reference(exists)]
    product: Ref<Product>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shelves")]
struct Shelf {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    spot: Option<Spot>,
    #[reference]
    plain: Option<Ref<Product>>,
    #[reference(exists)]
    first: Option<Ref<Product>>,
}

#[derive(Schema)]
#[schema(models(Shelf, Product))]
struct Moves;

/// Concurrent writes of orders, and deletes and inserts of their targets, leave no dangling references.
pub async fn concurrent_writes_leave_no_dangling_references(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let workers = (0..6_i64).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut random = worker.unsigned_abs() + 1;
            for n in 0..20 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let number = (random >> 33).cast_signed();
                let (id, other) = (1 + number % 3, 1 + number / 3 % 3);
                let new_id = 10 + worker * 1_000 + n;
                let done = match number / 9 % 12 {
                    0 => db.insert(Product { id }).await.map(drop),
                    1 => db.insert(Service { id }).await.map(drop),
                    2 => db.insert(Carrier { id }).await.map(drop),
                    3 => db.delete::<Product>(id).await.map(drop),
                    4 | 5 => db.delete::<Service>(id).await.map(drop),
                    6 => db.delete::<Carrier>(id).await.map(drop),
                    7 => db.insert(order(new_id, &[id, other])).await.map(drop),
                    8 => {
                        let push = db.update::<Order>(other);
                        push.push(|o| o.lines(), line(id, &[other])).await.map(drop)
                    }
                    9 => {
                        let set = db.update::<Order>(1);
                        set.set(
                            |o| o.parcels().all().delivery().carrier(),
                            Some(Ref::new(id)),
                        )
                        .await
                        .map(drop)
                    }
                    10 => db.insert(manual(new_id, &[id, other])).await.map(drop),
                    _ => {
                        let modify = db.modify::<Order>(2, |order| {
                            order.lines.truncate(1);
                            order.delivery = Some(delivery(id, &[1]));
                        });
                        modify.await.map(drop)
                    }
                };
                if let Err(error) = done {
                    assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::NotFound
                                | ErrorKind::DuplicateKey
                                | ErrorKind::Dangling
                                | ErrorKind::Restricted
                                | ErrorKind::TooManyElements
                                | ErrorKind::Conflict
                        ),
                        "{error}"
                    );
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_clean(&db).await;
    assert_eq!(db.run_pending().await.unwrap(), 0);
}

/// A sample of each kind of write.
const WRITES: &[Write<Shop>] = &[
    ("insert", |db| {
        Box::pin(async move { db.insert(order(9, &[1])).await.map(drop) })
    }),
    ("insert what leads nowhere", |db| {
        Box::pin(async move { db.insert(order(9, &[9])).await.map(drop) })
    }),
    ("set in an element", |db| {
        Box::pin(async move {
            let set = db.update::<Order>(1);
            let set = set.set(|o| o.lines().at(0).product(), Ref::new(3));
            set.await.map(drop)
        })
    }),
    ("push what is not there", |db| {
        Box::pin(async move {
            let push = db.update::<Order>(1).push(|o| o.lines(), line(9, &[9]));
            push.await.map(drop)
        })
    }),
    ("delete what is pulled and cascades", |db| {
        Box::pin(async move { db.delete::<Service>(1).await.map(drop) })
    }),
    ("delete what is nullified", |db| {
        Box::pin(async move { db.delete::<Carrier>(1).await.map(drop) })
    }),
    ("delete what must not be", |db| {
        Box::pin(async move { db.delete::<Product>(2).await.map(drop) })
    }),
];

pub async fn crashes_leave_no_dangling_references(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| Box::pin(shop(db)),
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                assert_eq!(db.run_pending().await.unwrap(), 0, "{when}");
                // The crash blocks no later write.
                db.delete_many::<Service>(|_| Filter::all()).await.unwrap();
                assert_eq!(manuals(db).await, Vec::<i64>::new(), "{when}");
                for order in db.find::<Order>().all().await.unwrap() {
                    assert!(services(&order).iter().all(Vec::is_empty), "{when}");
                }
                db.delete_many::<Order>(|_| Filter::all()).await.unwrap();
                db.delete_many::<Product>(|_| Filter::all()).await.unwrap();
            })
        },
    };
    crashes.run(&fixture).await;
}

/// An intent record stores the new ids under the paths of the references. So a delete finds the unfinished write.
pub async fn deletes_find_unfinished_writes(fixture: Fixture) {
    if fixture.backend().capabilities().transactions {
        return;
    }
    let db = Db::with_backend(fixture.backend());
    shop(&db).await;
    let intent = rawdoc! { "$set": {
        "_odm.pending.references.intent": {
            "token": ObjectId::new(),
            "old": {},
            "new": { "items": { "sku": [3_i64] } },
        },
        "_odm.pending.references.lease": DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000),
    } };
    let update = UpdateOperation {
        collection: "orders".into(),
        filter: rawdoc! { "_id": 2 },
        change: DocumentChange::operators(intent),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
    let error = db.delete::<Product>(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted, "{error}");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "writers")]
struct Writer {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = author, max = 5)]
    papers: Vec<Ref<Paper>>,
}

/// A paper. Schema version 1 stored the author as a plain number in `by`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "papers", schema_version = 2, upgrade = with_author)]
struct Paper {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = papers)]
    author: Ref<Writer>,
    #[embed]
    about: Spot,
}

fn with_author(_: u32, paper: &mut bson::Document) -> odm::Result<()> {
    if let Some(author) = paper.remove("by") {
        paper.insert("author", author);
    }
    Ok(())
}

#[derive(Schema)]
#[schema(models(Writer, Paper, Product))]
struct Press;

/// An upgrade checks references and adds to inverses, like any write.
pub async fn an_upgrade_adds_to_inverses(fixture: Fixture) {
    let db = odm::Database::<Press>::with_backend(fixture.backend());
    db.insert(NewWriter { id: 1 }).await.unwrap();
    db.insert(Product { id: 1 }).await.unwrap();
    let older = |id: i64, by: i64| rawdoc! { "_id": id, "by": by, "about": { "product": 1_i64 } };
    let insert = InsertOperation {
        collection: "papers".into(),
        documents: vec![older(1, 1), older(2, 9), older(3, 1)],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    // An update upgrades document 3. `upgrade` upgrades the rest.
    let update = db.update::<Paper>(3);
    let update = update.set(|p| p.about().product(), Ref::new(1)).await;
    if !fixture.backend().capabilities().transactions {
        let error = update.map(drop).unwrap_err();
        assert_eq!(
            (error.kind(), error.id()),
            (ErrorKind::Unsupported, Some(&3_i64.into())),
            "{error}"
        );
        let done = db.upgrade::<Paper>().await.unwrap();
        assert_eq!((done.upgraded, done.failed.len()), (0, 3));
        return;
    }
    update.unwrap();
    let listed = async || {
        let writer = db.get::<Writer>(1).await.unwrap();
        let mut papers: Vec<_> = writer.papers.iter().map(|paper| *paper.id()).collect();
        papers.sort_unstable();
        papers
    };
    assert_eq!(listed().await, [3]);
    let done = db.upgrade::<Paper>().await.unwrap();
    assert_eq!((done.upgraded, done.failed.len()), (1, 1));
    assert_eq!(done.failed[0].kind(), ErrorKind::Dangling);
    assert_eq!(listed().await, [1, 3]);
    db.insert(NewWriter { id: 9 }).await.unwrap();
    assert_eq!(db.upgrade::<Paper>().await.unwrap().upgraded, 1);
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
    let error = db.delete::<Writer>(9).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restricted);
    assert_eq!(db.run_pending().await.unwrap(), 0);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "editors")]
struct Editor {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = editor, overflow(after = 2, into = "more_novels"))]
    novels: Overflow<Ref<Novel>>,
}

/// A novel. Schema version 1 stored the editor in `by`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "novels", schema_version = 2, upgrade = with_editor)]
struct Novel {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = novels)]
    editor: Ref<Editor>,
}

fn with_editor(_: u32, novel: &mut bson::Document) -> odm::Result<()> {
    if let Some(editor) = novel.remove("by") {
        novel.insert("editor", editor);
    }
    Ok(())
}

#[derive(Schema)]
#[schema(models(Editor, Novel))]
struct Publisher;

/// The inverse has the documents already, because the earlier version had the same reference under another name.
pub async fn an_upgrade_keeps_known_referrers_once(fixture: Fixture) {
    let db = odm::Database::<Publisher>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert(NewEditor { id: 1 }).await.unwrap();
    let editor = Ref::new(1);
    db.insert_many((1..=7).map(|id| Novel { id, editor }))
        .await
        .unwrap();
    let rename = UpdateOperation {
        collection: "novels".into(),
        filter: RawDocumentBuf::new(),
        change: DocumentChange::operators(rawdoc! {
            "$rename": { "editor": "by" },
            "$unset": { "_odm.schema_version": "" },
        }),
        multi: true,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(fixture.backend().update(rename).await.unwrap().modified, 7);
    let done = db.upgrade::<Novel>().await.unwrap();
    if !fixture.backend().capabilities().transactions {
        assert_eq!((done.upgraded, done.failed.len()), (0, 7));
        return;
    }
    assert_eq!((done.upgraded, done.failed.len()), (7, 0));
    let novels = db.get::<Editor>(1).elements(|e| e.novels()).all();
    let novels = novels.await.unwrap();
    let mut ids: Vec<_> = novels.iter().map(|novel| *novel.id()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}
