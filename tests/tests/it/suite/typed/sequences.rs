use std::{collections::BTreeSet, sync::Arc, time::Duration};

use odm::{
    Database, Error, ErrorKind, Hooks, Session, Transaction,
    backend::{Fault, Faults, Recorder, operation, operation::Operation},
    bson::{RawDocumentBuf, doc, rawdoc},
    check::{FindingKind, Remedy},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shops")]
struct Shop {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[count(of = Order::shop)]
    orders: i64,
}

/// A document with two numbers: one of its shop, and one of all orders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", version)]
#[serde(rename_all = "camelCase")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    shop: Ref<Shop>,
    #[denormalize(from = shop.name)]
    shop_name: String,
    #[serde(rename = "n")]
    #[sequence(per = shop)]
    number: i64,
    #[sequence]
    receipt: u32,
    #[computed(concat(shop_name_at_order, "!"))]
    label: String,
    #[snapshot(from = shop.name)]
    shop_name_at_order: String,
    #[index(unique)]
    code: String,
    #[computed(number * 10)]
    tenfold: i64,
    version: i64,
}

/// A copy of a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "invoices")]
struct Invoice {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    order: Ref<Order>,
    #[denormalize(from = order.number)]
    number: i64,
}

/// A number per scope, beside a number in the id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tickets", id = "{queue}/{#ticket}", scope = tenant, soft_delete, hooks)]
struct Ticket {
    #[serde(rename = "_id")]
    id: String,
    tenant: String,
    queue: String,
    ticket: i64,
    #[sequence(per = tenant)]
    number: i64,
    #[sequence(per = queue)]
    place: i64,
    deleted_at: Option<DateTime>,
}

impl Hooks for Ticket {
    type Schema = Trade;
    async fn before_insert(&mut self, _: &Session<Trade, String>) -> odm::Result<()> {
        self.queue = self.queue.to_lowercase();
        self.number = 77;
        self.place = 77;
        Ok(())
    }
}

#[derive(Schema)]
#[schema(models(Shop, Order, Invoice, Ticket))]
struct Trade;
type Db = Database<Trade>;

/// The orders before their numbers were declared.
mod earlier {
    use super::*;

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "shops")]
    pub(super) struct Shop {
        #[serde(rename = "_id")]
        pub(super) id: String,
        pub(super) name: String,
    }

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "orders")]
    pub(super) struct Order {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) shop: Ref<Shop>,
        #[serde(rename = "shopName")]
        pub(super) shop_name: String,
        #[serde(rename = "shopNameAtOrder")]
        pub(super) shop_name_at_order: String,
        pub(super) label: String,
        pub(super) code: String,
        pub(super) tenfold: i64,
        pub(super) version: i64,
    }

    #[derive(Schema)]
    #[schema(models(Shop, Order))]
    pub(super) struct Trade;
}

/// Slips with a number per shop, and later with a number per clerk.
mod slips {
    use super::*;

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "slips")]
    pub(super) struct ShopSlip {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) shop: String,
        pub(super) clerk: String,
        #[sequence(per = shop)]
        pub(super) number: i64,
    }

    #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    #[document(collection = "slips", schema_version = 2, upgrade = renumber)]
    pub(super) struct ClerkSlip {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        pub(super) shop: String,
        pub(super) clerk: String,
        #[sequence(per = clerk)]
        pub(super) number: i64,
    }

    fn renumber(_from: u32, slip: &mut bson::Document) -> odm::Result<()> {
        slip.insert("number", 70_i64);
        Ok(())
    }

    #[derive(Schema)]
    #[schema(models(ShopSlip))]
    pub(super) struct PerShop;

    #[derive(Schema)]
    #[schema(models(ClerkSlip))]
    pub(super) struct PerClerk;
}

async fn open(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    for id in ["a", "b"] {
        let name = id.to_uppercase();
        db.insert(NewShop {
            id: id.into(),
            name,
        })
        .await
        .unwrap();
    }
    recorder.clear();
    (db, recorder)
}

fn order(id: i64, shop: &str) -> NewOrder {
    NewOrder {
        id,
        shop: Ref::new(shop),
        code: format!("code {id}"),
    }
}

fn numbers(orders: &[Order]) -> Vec<(i64, u32)> {
    let numbers = orders.iter().map(|order| (order.number, order.receipt));
    numbers.collect()
}

/// Returns the number of increments of counters.
fn increments(recorder: &Recorder) -> usize {
    let operations = recorder.operations();
    let increments = operations.iter();
    increments
        .filter(|operation| is_increment(operation))
        .count()
}

fn is_increment(operation: &Operation) -> bool {
    matches!(operation, Operation::FindAndModify(change) if change.collection == "_odm.sequences")
}

pub async fn a_number_counts_from_one_per_value(fixture: Fixture) {
    let (db, recorder) = open(&fixture).await;
    let first = db.insert(order(1, "a")).await.unwrap();
    assert_eq!((first.number, first.receipt, first.tenfold), (1, 1, 10));
    let second = db.insert(order(2, "b")).await.unwrap();
    assert_eq!((second.number, second.receipt), (1, 2));
    let third = db.insert(order(3, "a")).await.unwrap();
    assert_eq!((third.number, third.receipt), (2, 3));
    assert_eq!(db.get::<Order>(3).await.unwrap(), third);
    let raw = &fixture.documents("orders").await[2];
    assert_eq!(raw.get_i64("n").unwrap(), 2);

    // A hundred documents take one block of each sequence, in the order of the documents.
    recorder.clear();
    let shop = |id: i64| if id % 4 == 0 { "b" } else { "a" };
    let many = db
        .insert_many((100..200).map(|id| order(id, shop(id))))
        .await
        .unwrap();
    assert_eq!(increments(&recorder), 3);
    let of = |shop: &str| {
        let orders = many.iter().filter(|order| order.shop == Ref::new(shop));
        orders.map(|order| order.number).collect::<Vec<_>>()
    };
    assert_eq!(of("a"), (3..78).collect::<Vec<_>>());
    assert_eq!(of("b"), (2..27).collect::<Vec<_>>());
    let receipts: Vec<_> = many.iter().map(|order| order.receipt).collect();
    assert_eq!(receipts, (4..104).collect::<Vec<_>>());

    // The derived index serves the order by number, and a number identifies an order.
    let query = || {
        db.find::<Order>()
            .filter(|o| o.shop().eq(Ref::new("a")))
            .sort(|o| o.number().desc())
    };
    let explain = query().limit(5).explain().await.unwrap();
    assert!(
        !explain.is_sorted_in_memory && explain.keys_examined <= 6,
        "{explain:?}"
    );
    assert_eq!(query().first().await.unwrap().unwrap().number, 77);
    let mut twice = fixture.documents("orders").await[0].clone();
    twice.insert("_id", 999_i64);
    twice.insert("code", "another");
    twice.insert("receipt", 999_i64);
    let insert = operation::InsertOperation {
        collection: "orders".into(),
        documents: vec![RawDocumentBuf::try_from(&twice).unwrap()],
        ordered: true,
        origin: Default::default(),
    };
    let error = fixture.backend().insert(insert).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");

    // Rollups, copies and snapshots work beside a number, and a number can be copied.
    assert_eq!(db.get::<Shop>("a").await.unwrap().orders, 77);
    assert_eq!((&*third.shop_name, &*third.label), ("A", "A!"));
    let invoice = NewInvoice {
        id: 1,
        order: third.to_ref(),
    };
    assert_eq!(db.insert(invoice).await.unwrap().number, 2);
    assert!(db.check().await.unwrap().findings.is_empty());
}

pub async fn concurrent_inserts_get_distinct_numbers(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let has_transactions = fixture.backend().capabilities().transactions;
    let tasks = (0..12_i64).map(|task| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut inserted = Vec::new();
            for turn in 0..3 {
                let id = task * 100 + turn * 10;
                let (first, second) = (order(id, "a"), order(id + 1, "b"));
                match (task + turn) % 3 {
                    0 => inserted.push(db.insert(first).await.unwrap()),
                    1 if has_transactions => {
                        let work = async |tx: Transaction<Trade>| {
                            tx.insert_many([first.clone(), second.clone()]).await
                        };
                        inserted.extend(db.transaction(work).await.unwrap());
                    }
                    _ => inserted.extend(db.insert_many([first, second]).await.unwrap()),
                }
            }
            inserted
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.unwrap());
    }
    for shop in ["a", "b"] {
        let orders = all.iter().filter(|order| order.shop == Ref::new(shop));
        let numbers: Vec<_> = orders.map(|order| order.number).collect();
        let distinct: BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len());
        // A transaction that runs again after a conflict leaves a gap.
        if !has_transactions {
            assert_eq!(distinct.last().copied(), Some(&(numbers.len() as i64)));
        }
    }
    let receipts: BTreeSet<_> = all.iter().map(|order| order.receipt).collect();
    assert_eq!(receipts.len(), all.len());
    assert_eq!(fixture.documents("orders").await.len(), all.len());
}

pub async fn a_failed_insert_leaves_a_gap(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    db.insert(order(1, "a")).await.unwrap();
    // A duplicate `_id`, and a skipped duplicate.
    assert!(
        db.insert(order(1, "a"))
            .await
            .unwrap_err()
            .is_duplicate_key()
    );
    let new = db
        .insert_many([order(1, "a"), order(2, "a")])
        .skip_duplicates()
        .await
        .unwrap();
    assert_eq!(numbers(&new.inserted), [(4, 4)]);

    // A process that dies after the counter was incremented, and a caller that drops the future.
    let faults = Arc::new(Faults::new(fixture.backend()));
    faults.inject(1, is_increment, Fault::HangAfter);
    let dying = Db::with_backend(faults.clone());
    let insert = tokio::spawn(async move { dying.insert(order(3, "a")).await });
    while faults.pending() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The increment may still be running.
    tokio::time::sleep(Duration::from_millis(150)).await;
    insert.abort();
    let next = db.insert(order(3, "a")).await.unwrap();
    assert_eq!((next.number, next.receipt), (6, 5));

    // The number of a deleted document is not assigned again.
    db.delete::<Order>(3).await.unwrap();
    let next = db.insert(order(4, "a")).await.unwrap();
    assert_eq!((next.number, next.receipt), (7, 6));

    if fixture.backend().capabilities().transactions {
        let work = async |tx: Transaction<Trade>| {
            assert_eq!(tx.insert(order(5, "a")).await?.number, 8);
            Err::<(), _>(Error::other("no"))
        };
        db.transaction(work).await.unwrap_err();
        assert_eq!(db.insert(order(5, "a")).await.unwrap().number, 9);
    }
}

pub async fn a_number_and_its_field_never_change(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    db.insert(order(1, "a")).await.unwrap();
    let error = db
        .modify::<Order>(1, |order| order.number = 7)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("n"))
    );
    let error = db
        .modify::<Order>(1, |order| order.shop = Ref::new("b"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("shop"))
    );
    assert!(error.to_string().contains("sequence"), "{error}");
    // Other fields change, and the number stays.
    let saved = db
        .modify::<Order>(1, |order| order.code = "new".into())
        .await
        .unwrap();
    assert_eq!((saved.number, saved.version), (1, 2));
}

pub async fn numbers_of_bulks_and_upserts(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let report = db
        .bulk()
        .add(db.insert(order(1, "a")))
        .add_all([db.insert(order(2, "b")), db.insert(order(3, "a"))])
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(report.inserted, 3);
    let all = db.find::<Order>().sort(|o| o.id().asc()).all();
    assert_eq!(numbers(&all.await.unwrap()), [(1, 1), (1, 2), (2, 3)]);

    // An upsert assigns a number only if the upsert inserts.
    let by_id = |id: i64| {
        db.update::<Order>(id)
            .set(|o| o.code(), format!("changed {id}"))
            .or_insert(order(id, "a"))
            .returning_after()
    };
    assert_eq!(by_id(1).await.unwrap().into_inner().number, 1);
    let inserted = by_id(4).await.unwrap();
    assert!(inserted.is_inserted());
    assert_eq!(inserted.into_inner().number, 3);
    let by_code = |id: i64| {
        db.upsert_by(|o| o.code(), order(id, "a"))
            .update(|update| update.set(|o| o.code(), format!("code {id}")))
            .returning_after()
    };
    assert_eq!(by_code(2).await.unwrap().into_inner().number, 1);
    assert_eq!(by_code(5).await.unwrap().into_inner().number, 4);
    assert_eq!(db.get::<Order>(5).await.unwrap().number, 4);

    // The number is not known before the insert.
    let error = db
        .upsert_by(|o| (o.shop(), o.number()), order(6, "a"))
        .await
        .unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert_eq!(error.path(), Some("n"));
}

pub async fn numbers_per_scope_after_hooks(fixture: Fixture) {
    let (db, _) = open(&fixture).await;
    let (acme, globex) = (db.scope("acme"), db.scope("globex"));
    let ticket = |queue: &str| NewTicket {
        queue: queue.into(),
    };
    let parts = |ticket: &Ticket| (ticket.id.clone(), ticket.number, ticket.place);
    // The hook changes the queue: the document gets the next number of the changed queue.
    let first = acme.insert(ticket("Red")).await.unwrap();
    assert_eq!(parts(&first), ("red/1".into(), 1, 1));
    let many = acme
        .insert_many([ticket("red"), ticket("RED")])
        .await
        .unwrap();
    assert_eq!(parts(&many[0]), ("red/2".into(), 2, 2));
    assert_eq!(parts(&many[1]), ("red/3".into(), 3, 3));
    // A sequence per queue counts the tickets of all tenants.
    let other = globex.insert(ticket("red")).await.unwrap();
    assert_eq!(parts(&other), ("red/4".into(), 1, 4));

    // Without a counter, the numbers continue after the largest number, also of a soft-deleted document.
    acme.delete::<Ticket>(&many[1].id).await.unwrap();
    let counters = operation::DeleteOperation {
        collection: "_odm.sequences".into(),
        filter: rawdoc! { "_id.field": { "$exists": true } },
        multi: true,
        origin: Default::default(),
    };
    assert!(fixture.backend().delete(counters).await.unwrap().deleted > 0);
    let next = acme.insert(ticket("red")).await.unwrap();
    assert_eq!(parts(&next), ("red/5".into(), 4, 5));
}

pub async fn older_documents_are_numbered_by_a_repair(fixture: Fixture) {
    let old = Database::<earlier::Trade>::with_backend(fixture.backend());
    for id in ["a", "b"] {
        let name = id.to_uppercase();
        let shop = earlier::Shop {
            id: id.into(),
            name,
        };
        old.insert(shop).await.unwrap();
    }
    for (id, shop) in [(3, "a"), (1, "a"), (2, "b"), (4, "a")] {
        let order = earlier::Order {
            id,
            shop: Ref::new(shop),
            shop_name: shop.to_uppercase(),
            shop_name_at_order: shop.to_uppercase(),
            label: format!("{}!", shop.to_uppercase()),
            code: format!("code {id}"),
            tenfold: 0,
            version: 1,
        };
        old.insert(order).await.unwrap();
    }

    // Before the repair, a document reads as 0, and the unique index is an error that names the repair.
    let db = Db::with_backend(fixture.backend());
    assert_eq!(db.get::<Order>(1).await.unwrap().number, 0);
    let backfills = db.backfills().await.unwrap();
    let backfill = backfills.iter().find(|found| found.model == "Order");
    let fields = &backfill.unwrap().fields;
    for field in ["n", "receipt"] {
        assert!(fields.iter().any(|found| found == field), "{fields:?}");
    }
    let error = db.sync_indexes().await.unwrap_err();
    assert!(error.to_string().contains("repair"), "{error}");
    let findings = db.check().only::<Order>().await.unwrap().findings;
    let missing = findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::MissingNumber);
    assert_eq!(missing.count(), 8);

    // Two repairs at once number each document once, in the order of the `_id`.
    let repair = || db.repair().only::<Order>().apply();
    let (first, second) = tokio::join!(repair(), repair());
    let (first, second) = (first.unwrap(), second.unwrap());
    let is_number = |step: &&odm::check::RepairStep| step.remedy == Some(Remedy::AssignNumber);
    assert_eq!(first.steps.iter().filter(is_number).count(), 8);
    assert!(first.is_clean() && second.is_clean(), "{first}\n{second}");
    let orders = db.find::<Order>().sort(|o| o.id().asc()).all();
    let orders = orders.await.unwrap();
    let of_a: Vec<_> = orders
        .iter()
        .filter(|order| order.shop == Ref::new("a"))
        .map(|order| order.number)
        .collect();
    assert!(of_a.is_sorted() && of_a[0] > 0, "{of_a:?}");
    let receipts: Vec<_> = orders.iter().map(|order| order.receipt).collect();
    assert!(receipts.is_sorted(), "{receipts:?}");
    let distinct: BTreeSet<_> = receipts.iter().collect();
    assert_eq!(distinct.len(), 4);
    for order in &orders {
        assert_eq!(order.tenfold, order.number * 10);
        assert_eq!(order.version, 1);
    }

    db.repair().apply().await.unwrap();
    db.sync_indexes().await.unwrap();
    assert_eq!(db.backfills().await.unwrap(), []);
    assert!(db.check().await.unwrap().findings.is_empty());
    let next = db.insert(order(9, "a")).await.unwrap();
    assert!(next.number > of_a[2], "{}", next.number);
    let counter = doc! { "collection": "orders", "field": "n", "per": { "shop": "b" } };
    let counters = fixture.documents("_odm.sequences").await;
    assert!(
        counters
            .iter()
            .any(|stored| stored.get_document("_id").unwrap() == &counter),
        "{counters:?}"
    );
}

/// Another `per` starts other sequences, also for the values of the earlier `per`.
pub async fn another_field_selects_other_sequences(fixture: Fixture) {
    let per_shop = Database::<slips::PerShop>::with_backend(fixture.backend());
    per_shop.sync_indexes().await.unwrap();
    let slip = |id| slips::NewShopSlip {
        id,
        shop: "ann".into(),
        clerk: "ben".into(),
    };
    let slips = per_shop.insert_many([slip(1), slip(2)]).await.unwrap();
    assert_eq!(slips[1].number, 2);
    let per_clerk = Database::<slips::PerClerk>::with_backend(fixture.backend());
    let slip = |id, clerk: &str| slips::NewClerkSlip {
        id,
        shop: "cat".into(),
        clerk: clerk.into(),
    };
    let ann = per_clerk.insert(slip(3, "ann")).await.unwrap();
    assert_eq!(ann.number, 1);

    // An upgrade assigns missing numbers, and changes no others.
    let error = per_clerk.get::<slips::ClerkSlip>(1).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("number"))
    );
    assert!(error.to_string().contains("sequence number"), "{error}");
}
