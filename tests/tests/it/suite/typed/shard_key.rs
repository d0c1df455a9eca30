use std::sync::Arc;

use odm::{
    ErrorKind, Filter, Hooks, Session,
    action::Upserted,
    backend::{
        Recorder,
        operation::{BulkOperation, FindAndModifyKind, InsertOperation, Operation},
    },
    bson::{RawBsonRef, RawDocument, rawdoc},
    hook::Changes,
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct CustomerId(String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", shard_key(customer, id))]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "c")]
    customer: CustomerId,
    total: i64,
    #[embed(max = 2)]
    tags: Vec<String>,
}

/// A model with versions, timestamps, soft delete, validation, hooks and upgrades.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, garde::Validate)]
#[document(
    collection = "tickets",
    shard_key(hashed(site)),
    index(site, number; unique),
    version,
    timestamps,
    soft_delete,
    validate,
    hooks,
    schema_version = 2,
    upgrade = upgrade_ticket
)]
pub struct Ticket {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(skip)]
    site: String,
    #[garde(skip)]
    number: i64,
    #[garde(range(max = 9))]
    urgency: i64,
    #[garde(skip)]
    title: String,
    #[garde(skip)]
    version: i64,
    #[garde(skip)]
    created_at: DateTime,
    #[garde(skip)]
    updated_at: DateTime,
    #[garde(skip)]
    deleted_at: Option<DateTime>,
}

/// Adds the title, which version 1 lacks. The upgrade of a `moved` ticket changes the shard key, which is invalid.
fn upgrade_ticket(_from: u32, ticket: &mut bson::Document) -> odm::Result<()> {
    if ticket.remove("moved").is_some() {
        ticket.insert("site", "elsewhere");
    }
    ticket.insert("title", "untitled");
    Ok(())
}

impl Hooks for Ticket {
    type Schema = Shop;

    async fn before_update(changes: &mut Changes<Self>, tx: &Session<Shop>) -> odm::Result<()> {
        changes.ids(tx).await?;
        Ok(())
    }
}

/// A model with its scope in the shard key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "invoices", scope = tenant, shard_key(tenant, id))]
struct Invoice {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    total: i64,
}

/// A model with its `_id` as the shard key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "visits", shard_key(hashed(id)))]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    n: i64,
}

/// A model with a declared index that begins with the shard key, so that no further index is necessary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts", shard_key(maker), index(maker, number; unique))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    maker: Ref<Visit>,
    number: i64,
}

#[derive(Schema)]
#[schema(models(Order, Ticket, Invoice, Visit, Part))]
pub struct Shop;
type Db = odm::Database<Shop>;

fn acme() -> CustomerId {
    CustomerId("acme".into())
}

fn order(id: i64) -> Order {
    Order {
        id,
        customer: acme(),
        total: 10,
        tags: Vec::new(),
    }
}

fn key(id: i64) -> OrderKey {
    let customer = acme();
    OrderKey { id, customer }
}

fn ticket(id: i64) -> NewTicket {
    NewTicket {
        id,
        site: "north".into(),
        number: id,
        urgency: 1,
        title: "broken".into(),
    }
}

async fn open_shop(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    (db, recorder)
}

/// Returns whether a filter requires a single value for a field.
fn requires_single_value(filter: &RawDocument, field: &str) -> bool {
    let itself = filter.get_document(field);
    let below = || {
        let parts = filter.get_array("$and").ok()?;
        let mut parts = parts.into_iter().flatten();
        parts
            .any(|part| matches!(part, RawBsonRef::Document(part) if requires_single_value(part, field)))
            .then_some(())
    };
    itself.is_ok_and(|operators| operators.get("$eq").unwrap().is_some()) || below().is_some()
}

/// Returns the number of recorded writes to single documents, and clears the recorder. Asserts that each filter has all fields of
/// the shard key.
fn count_routed_writes(recorder: &Recorder, collection: &str, key: &[&str]) -> usize {
    let mut writes = 0;
    let mut check = |target: &str, multi: bool, filter: &RawDocument| {
        if target == collection && !multi {
            writes += 1;
            for field in key {
                assert!(
                    requires_single_value(filter, field),
                    "no `{field}`: {filter:?}"
                );
            }
        }
    };
    for operation in recorder.operations() {
        match operation {
            Operation::Update(update) => check(&update.collection, update.multi, &update.filter),
            Operation::Delete(delete) => check(&delete.collection, delete.multi, &delete.filter),
            Operation::FindAndModify(modify) => {
                check(&modify.collection, false, &modify.filter);
                if let FindAndModifyKind::Update { upsert, .. } = modify.modification {
                    assert!(!upsert);
                }
            }
            Operation::BulkWrite(bulk) => {
                for item in &bulk.writes {
                    match &item.write {
                        BulkOperation::Insert { .. } => {}
                        BulkOperation::Update(update) => {
                            check(&update.collection, update.multi, &update.filter);
                        }
                        BulkOperation::Delete(delete) => {
                            check(&delete.collection, delete.multi, &delete.filter);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    recorder.clear();
    writes
}

pub async fn every_write_contains_the_shard_key(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let writes = || count_routed_writes(&recorder, "orders", &["c", "_id"]);
    let first = db.insert(order(1)).await.unwrap();
    db.insert_many((2..10).map(order)).await.unwrap();
    recorder.clear();

    // Updates by a document and by a key.
    db.update::<Order>(&first)
        .inc(|o| o.total(), 5)
        .await
        .unwrap();
    db.update::<Order>(key(1))
        .inc(|o| o.total(), 5)
        .await
        .unwrap();
    let tagged = db
        .update::<Order>(&key(1))
        .when(|o| o.total().eq(20) & o.customer().eq(acme()))
        .push(|o| o.tags(), "new")
        .await
        .unwrap();
    assert!(tagged.is_applied());
    let now = db
        .update::<Order>(&first)
        .set(|o| o.total(), 7)
        .returning_after()
        .await
        .unwrap();
    assert_eq!((now.total, now.tags.len()), (7, 1));
    assert_eq!(writes(), 4);

    // `update_first` and `delete_first`, with conditions on all fields of the shard key.
    let first_of = db
        .update_first::<Order>(|o| o.customer().eq(acme()) & o.id().eq(2) & o.total().gt(0))
        .sort(|o| o.total().desc())
        .inc(|o| o.total(), 1);
    assert_eq!(first_of.await.unwrap(), Applied(Ref::new(2_i64)));
    let delete = db.delete_first::<Order>(|o| o.id().eq(2) & o.customer().eq(acme()));
    assert!(matches!(delete.returning().await.unwrap(), Applied(order) if order.total == 11));
    assert_eq!(writes(), 2);

    // Upserts that insert, that update, and that return the document.
    let upsert = |id| {
        db.update::<Order>(key(id))
            .inc(|o| o.total(), 1)
            .or_insert(order(id))
    };
    assert!(upsert(20).await.unwrap().is_inserted());
    assert!(!upsert(20).await.unwrap().is_inserted());
    let after = upsert(20).returning_after().await.unwrap();
    assert!(matches!(after, Upserted::Updated(order) if order.total == 12));
    assert_eq!(writes(), 3);

    // `edit` and `modify` read the document first, so the `_id` is enough.
    let mut edited = db.edit::<Order>(3).await.unwrap();
    edited.total = 30;
    db.save(&mut edited).await.unwrap();
    db.modify::<Order>(3, |o| o.total += 1).await.unwrap();
    db.modify::<Order>(&*edited, |o| o.total += 1)
        .await
        .unwrap();
    assert_eq!(db.get::<Order>(3).await.unwrap().total, 32);
    assert_eq!(writes(), 3);

    assert!(db.delete::<Order>(&first).await.unwrap().is_applied());
    let poor = db.delete::<Order>(key(3)).when(|o| o.total().lt(0));
    assert!(!poor.await.unwrap().is_applied());
    let delete = db.delete::<Order>(key(3)).returning().await.unwrap();
    assert!(delete.applied().is_some());
    assert_eq!(writes(), 3);

    let bulk = db
        .bulk()
        .add_all((4..8).map(|id| db.update::<Order>(key(id)).inc(|o| o.total(), 1)))
        .add(
            db.update::<Order>(key(4))
                .when(|o| o.total().lt(0))
                .set(|o| o.total(), 0),
        )
        .add(db.delete::<Order>(&order(8)))
        .add(db.delete::<Order>(key(9)).when(|o| o.total().gt(0)))
        .add(
            db.update_many::<Order>(|_| Filter::all())
                .inc(|o| o.total(), 1),
        );
    let report = bulk.await.unwrap().into_result().unwrap();
    assert_eq!((report.matched, report.deleted), (4 + 5, 2));
    assert_eq!(writes(), 7);

    if db.backend().capabilities().transactions {
        db.transaction(|tx| async move {
            tx.update::<Order>(key(4)).inc(|o| o.total(), 1).await?;
            tx.delete::<Order>(key(5)).await.map(drop)
        })
        .await
        .unwrap();
        assert_eq!(writes(), 2);
    }
    // A `delete_many` needs no shard key.
    db.delete_many::<Order>(|_| Filter::all()).await.unwrap();
    assert_eq!(writes(), 0);
}

pub async fn managed_writes_contain_the_shard_key(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let writes = || count_routed_writes(&recorder, "tickets", &["site"]);
    let first = db.insert(ticket(1)).await.unwrap();
    db.insert_many((2..6).map(ticket)).await.unwrap();
    recorder.clear();

    let north = |id| TicketKey {
        id,
        site: "north".into(),
    };
    db.update::<Ticket>(&first)
        .set(|t| t.urgency(), 3)
        .await
        .unwrap();
    if db.backend().capabilities().transactions {
        let error = db
            .update::<Ticket>(&first)
            .inc(|t| t.urgency(), 7)
            .await
            .unwrap_err();
        assert!(error.is_validation());
    }
    db.modify::<Ticket>(1, |t| t.title.push('!')).await.unwrap();
    let second = db.get::<Ticket>(north(1)).await.unwrap();
    assert_eq!(
        (second.urgency, second.title.as_str(), second.version),
        (3, "broken!", 3)
    );
    db.update_first::<Ticket>(|t| t.site().eq("north"))
        .sort(|t| t.number().desc())
        .set(|t| t.title(), "last")
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    assert!(writes() >= 3);

    // A soft delete is an update.
    assert!(db.delete::<Ticket>(&first).await.unwrap().is_applied());
    db.restore::<Ticket>(&first).await.unwrap();
    assert!(
        db.delete::<Ticket>(north(2))
            .returning()
            .await
            .unwrap()
            .applied()
            .is_some()
    );
    db.delete::<Ticket>(north(2)).permanently().await.unwrap();
    let bulk = db
        .bulk()
        .add(db.delete::<Ticket>(north(3)))
        .add(db.restore::<Ticket>(north(3)));
    assert!(bulk.await.unwrap().is_ok());
    assert_eq!(writes(), 6);

    // An upgrade is a separate write.
    let old = |id: i64| rawdoc! { "_id": id, "site": "south", "number": id, "urgency": 1_i64, "version": 1_i64, "created_at": DateTime::now(), "updated_at": DateTime::now() };
    let mut moved = old(12);
    moved.append(odm::bson::raw::cstr!("moved"), true);
    let insert = InsertOperation {
        collection: "tickets".into(),
        documents: vec![old(10), old(11), moved],
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
    let south = TicketKey {
        id: 10,
        site: "south".into(),
    };
    db.update::<Ticket>(south)
        .set(|t| t.urgency(), 2)
        .await
        .unwrap();
    assert_eq!(db.get::<Ticket>(10).await.unwrap().title, "untitled");
    assert_eq!(writes(), 2);
    let report = db.upgrade::<Ticket>().await.unwrap();
    assert_eq!((report.upgraded, report.failed.len()), (1, 1));
    let error = &report.failed[0];
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("site"))
    );
    assert_eq!(writes(), 1);
}

pub async fn a_different_shard_key_is_a_different_document(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let existing = db.insert(order(1)).await.unwrap();
    let other = || OrderKey {
        id: 1,
        customer: CustomerId("globex".into()),
    };
    let update = db.update::<Order>(other()).inc(|o| o.total(), 1);
    assert!(update.clone().await.unwrap_err().is_not_found());
    assert!(
        update
            .clone()
            .returning_before()
            .await
            .unwrap_err()
            .is_not_found()
    );
    let error = db
        .bulk()
        .add(update.clone())
        .await
        .unwrap()
        .into_result()
        .unwrap_err();
    assert!(error.is_not_found());
    let when = update.clone().when(|o| o.total().gt(0)).await.unwrap();
    assert!(!when.is_applied());
    assert!(!db.delete::<Order>(other()).await.unwrap().is_applied());
    assert!(db.edit::<Order>(other()).await.unwrap_err().is_not_found());
    assert!(
        db.modify::<Order>(other(), |o| o.total = 0)
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert!(db.find_by_id::<Order>(other()).await.unwrap().is_none());

    // An insert with the same `_id` and a different shard key is a duplicate.
    let globex = Order {
        customer: CustomerId("globex".into()),
        ..order(1)
    };
    let error = update.clone().or_insert(globex.clone()).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    // The document to insert must have the shard key of the update.
    recorder.clear();
    for upsert in [
        update.or_insert(order(1)),
        db.update::<Order>(&existing)
            .inc(|o| o.total(), 1)
            .or_insert(globex),
    ] {
        let error = upsert.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.model()),
            (ErrorKind::Invalid, Some("Order"))
        );
    }
    assert_eq!(recorder.operations().len(), 0);
    for found in [
        db.get::<Order>(1).await,
        db.get::<Order>(&existing).await,
        db.get::<Order>(key(1)).await,
    ] {
        assert_eq!(found.unwrap(), existing);
    }
}

pub async fn update_first_needs_the_whole_shard_key(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    db.insert_many((1..4).map(order)).await.unwrap();
    recorder.clear();
    let refused = |error: odm::Error, path: &str| {
        assert_eq!(
            (error.kind(), error.path(), error.model()),
            (ErrorKind::Invalid, Some(path), Some("Order")),
            "{error}"
        );
    };
    let update = |condition: Filter<Order>| {
        db.update_first::<Order>(|_| condition)
            .set(|o| o.total(), 0)
    };
    let o = Order::fields;
    refused(update(o().total().gt(0)).await.unwrap_err(), "c");
    refused(update(o().id().eq(1)).await.unwrap_err(), "c");
    refused(update(o().customer().eq(acme())).await.unwrap_err(), "_id");
    refused(
        update(o().customer().is_in([acme()]) & o().id().eq(1))
            .await
            .unwrap_err(),
        "c",
    );
    let either = o().customer().eq(acme()) | o().total().gt(0);
    refused(
        update(either & o().id().eq(1))
            .returning_after()
            .await
            .unwrap_err(),
        "c",
    );
    let delete = db.delete_first::<Order>(|o| o.id().eq(1));
    refused(delete.await.unwrap_err(), "c");
    let delete = db
        .delete_first::<Order>(|o| o.customer().eq(acme()))
        .returning();
    refused(delete.await.unwrap_err(), "_id");
    assert_eq!(recorder.operations().len(), 0);
    assert_eq!(db.find::<Order>().sum(|o| o.total()).await.unwrap(), 30);
    // Reads and `update_many` may use all shards.
    assert_eq!(
        db.find::<Order>()
            .filter(|o| o.total().gt(0))
            .all()
            .await
            .unwrap()
            .len(),
        3
    );
    db.update_many::<Order>(|o| o.total().gt(0))
        .set(|o| o.total(), 0)
        .await
        .unwrap();
    assert_eq!(db.get_many::<Order>([1, 2]).await.unwrap().len(), 2);
}

pub async fn the_shard_key_is_immutable(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    db.insert(order(1)).await.unwrap();
    db.scope("acme")
        .insert(NewInvoice { id: 1, total: 5 })
        .await
        .unwrap();
    let mut edited = db.edit::<Order>(1).await.unwrap();
    edited.customer = CustomerId("globex".into());
    edited.total = 0;
    recorder.clear();
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("c"))
    );
    let error = db
        .modify::<Order>(1, |o| o.customer.0.clear())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("c"))
    );
    let all = db.all_scopes();
    let error = all
        .modify::<Invoice>(1, |i| i.tenant.clear())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("tenant"))
    );
    assert_eq!(recorder.writes(), 0);
    assert_eq!(db.get::<Order>(1).await.unwrap(), order(1));
}

pub async fn a_scope_is_part_of_the_shard_key(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    let acme = db.scope("acme");
    let invoice = acme.insert(NewInvoice { id: 1, total: 5 }).await.unwrap();
    acme.update::<Invoice>(1)
        .inc(|i| i.total(), 1)
        .await
        .unwrap();
    acme.update_first::<Invoice>(|i| i.id().eq(1))
        .inc(|i| i.total(), 1)
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    let upsert = acme
        .update::<Invoice>(2)
        .inc(|i| i.total(), 1)
        .or_insert(NewInvoice { id: 2, total: 1 });
    assert!(upsert.await.unwrap().is_inserted());
    let _ = acme
        .bulk()
        .add(acme.delete::<Invoice>(2))
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(
        count_routed_writes(&recorder, "invoices", &["tenant", "_id"]),
        4
    );
    // A session across all scopes needs the whole key.
    let all = db.all_scopes();
    all.update::<Invoice>(&invoice)
        .inc(|i| i.total(), 1)
        .await
        .unwrap();
    let key = InvoiceKey {
        id: 1,
        tenant: "acme".into(),
    };
    all.update::<Invoice>(&key)
        .inc(|i| i.total(), 1)
        .await
        .unwrap();
    assert_eq!(all.get::<Invoice>(1).await.unwrap().total, 9);
    assert_eq!(
        count_routed_writes(&recorder, "invoices", &["tenant", "_id"]),
        2
    );
    let error = all
        .update_first::<Invoice>(|i| i.id().eq(1))
        .inc(|i| i.total(), 1)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("tenant"))
    );
    // A key with a different tenant does not leave the scope.
    let globex = db.scope("globex");
    assert!(
        globex
            .update::<Invoice>(&key)
            .inc(|i| i.total(), 1)
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert!(
        !globex
            .delete::<Invoice>(&invoice)
            .await
            .unwrap()
            .is_applied()
    );
}

pub async fn an_id_as_shard_key_is_sufficient(fixture: Fixture) {
    let (db, recorder) = open_shop(&fixture).await;
    db.insert(Visit { id: 1, n: 1 }).await.unwrap();
    db.update::<Visit>(1).inc(|v| v.n(), 1).await.unwrap();
    db.update_first::<Visit>(|v| v.id().eq(1))
        .inc(|v| v.n(), 1)
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    let error = db.delete_first::<Visit>(|v| v.n().eq(3)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("_id"))
    );
    db.delete::<Visit>(1).await.unwrap();
    assert_eq!(count_routed_writes(&recorder, "visits", &["_id"]), 3);
}

pub async fn shard_key_index_exists_without_a_cluster(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let report = db.sync_indexes().await.unwrap();
    let created_indexes = |collection: &str| {
        let created = report.created.iter().filter(|(name, _)| name == collection);
        let mut names: Vec<_> = created.map(|(_, index)| index.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(created_indexes("orders"), ["c_1__id_1"]);
    assert_eq!(
        created_indexes("tickets"),
        ["_odm.schema_version_1", "site_1_number_1", "site_hashed"]
    );
    assert_eq!(created_indexes("invoices"), ["tenant_1__id_1"]);
    assert_eq!(created_indexes("visits"), ["_id_hashed"]);
    assert_eq!(created_indexes("parts"), ["maker_1_number_1"]);
    assert!(report.sharded.is_empty() && report.differently_sharded.is_empty());

    let second = db.sync_indexes().drop_undeclared().await.unwrap();
    assert_eq!(
        second.to_string(),
        "unsharded  orders by (c, _id): the database is no sharded cluster\n\
         unsharded  tickets by (hashed site): the database is no sharded cluster\n\
         unsharded  invoices by (tenant, _id): the database is no sharded cluster\n\
         unsharded  visits by (hashed _id): the database is no sharded cluster\n\
         unsharded  parts by (maker): the database is no sharded cluster"
    );
    let found = db.backend().list_indexes("tickets").await.unwrap();
    assert!(
        found
            .iter()
            .any(|index| index.hashed.as_deref() == Some("site"))
    );

    // A backend without shards returns an error for sharding operations.
    let backend = db.backend();
    let key = report.unsharded[0].1.clone();
    for error in [
        backend.shard_key_of("orders").await.unwrap_err(),
        backend.shard_collection("orders", key).await.unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.collection()),
            (ErrorKind::Unsupported, Some("orders"))
        );
    }
    // Queries use the index of the shard key.
    let plan = db
        .find::<Order>()
        .filter(|o| o.customer().eq(acme()))
        .explain()
        .await
        .unwrap();
    assert!(!plan.is_collection_scan, "{plan:?}");
}
