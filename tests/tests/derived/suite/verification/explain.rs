//! `explain` of writes: the plan is exact, and nothing is written.

use std::{collections::BTreeMap, time::Duration};

use odm::{
    ErrorKind, Hooks, Session,
    action::{WritePlan, WriteStrategy},
    backend::operation::FindOperation,
    bson::{RawDocumentBuf, rawdoc},
    prelude::*,
};
use odm_tests::assert_clean;

use crate::Fixture;

/// A source of copies, a parent of rollups and a target of references.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "customers")]
struct Customer {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    city: String,
    #[count(of = Order::customer)]
    orders: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    customer: Ref<Customer>,
    #[denormalize(from = customer.name)]
    customer_name: String,
    #[denormalize(from = customer.city, background)]
    city: String,
    price: i64,
    discount: i64,
    #[computed(price - discount)]
    total: i64,
    #[embed(overflow(after = 2, into = "order_lines"))]
    lines: Overflow<Line>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Line {
    text: String,
}

/// Restricts the delete of the order.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "invoices")]
struct Invoice {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    order: Ref<Order>,
}

/// Deleted with the customer.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    customer: Ref<Customer>,
}

/// A model whose hook writes a document.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "notes", hooks)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
}

impl Hooks for Note {
    type Schema = Shop;

    async fn before_insert(&mut self, tx: &Session<Shop>) -> odm::Result<()> {
        tx.insert(NewCustomer {
            id: 1_000 + self.id,
            name: "of the hook".into(),
            city: "Rome".into(),
        })
        .await
        .map(drop)
    }
}

#[derive(Schema)]
#[schema(models(Customer, Order, Invoice, Visit, Note))]
struct Shop;
type Db = odm::Database<Shop>;

fn order(id: i64, customer: i64, lines: usize) -> NewOrder {
    let text = |number: usize| Line {
        text: format!("line {number}"),
    };
    NewOrder {
        id,
        customer: Ref::new(customer),
        price: 100,
        discount: 10,
        lines: (0..lines).map(text).collect::<Vec<_>>().into(),
    }
}

/// Opens the shop with customers 1 and 2, and with orders 1 to 3 of customer 1.
async fn open_shop(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for id in 1..3 {
        let name = format!("customer {id}");
        let city = "Oslo".to_owned();
        db.insert(NewCustomer { id, name, city }).await.unwrap();
    }
    for id in 1..4 {
        db.insert(order(id, 1, 3)).await.unwrap();
    }
    db.insert(Invoice {
        id: 1,
        order: Ref::new(1),
    })
    .await
    .unwrap();
    db.wait_for_pending().await.unwrap();
    db
}

/// All documents of all collections.
async fn all_documents(fixture: &Fixture) -> BTreeMap<String, Vec<RawDocumentBuf>> {
    let backend = fixture.backend();
    let mut documents = BTreeMap::new();
    for collection in backend.list_collections().await.unwrap() {
        let find = FindOperation {
            collection: collection.clone().into(),
            filter: RawDocumentBuf::new(),
            projection: None,
            sort: Some(rawdoc! { "_id": 1 }),
            limit: None,
            options: Default::default(),
        };
        let found = backend.find_all(find).await.unwrap();
        documents.insert(collection, found);
    }
    documents
}

/// Explains a write of each kind, as the backend runs it and as a standalone server runs it.
async fn explain_every_write(db: &Db) -> Vec<odm::Result<WritePlan>> {
    let mut plans = Vec::new();
    macro_rules! explain {
        ($write:expr) => {
            plans.push($write.explain().await);
            plans.push($write.explain().standalone().await);
        };
    }
    let new = NewCustomer {
        id: 9,
        name: "new".into(),
        city: "Oslo".into(),
    };
    explain!(db.insert(new.clone()));
    explain!(db.insert(order(9, 1, 5)));
    explain!(db.insert_many((10..20).map(|id| order(id, 1, id as usize % 4))));
    explain!(db.update::<Customer>(1).set(|c| c.name(), "renamed"));
    explain!(db.update::<Customer>(1).set(|c| c.city(), "Rome"));
    explain!(db.update::<Order>(1).set(|o| o.customer(), Ref::new(2)));
    explain!(db.update::<Order>(1).inc(|o| o.price(), 5));
    explain!(
        db.update::<Order>(1)
            .push(|o| o.lines(), Line { text: "new".into() })
    );
    explain!(
        db.update_many::<Order>(|o| o.id().gt(0))
            .set(|o| o.price(), 7)
    );
    explain!(db.delete::<Order>(2));
    explain!(db.delete::<Invoice>(1));
    explain!(db.delete_many::<Customer>(|c| c.id().eq(2)));
    let mut edited = db.edit::<Customer>(1).await.unwrap();
    edited.name = "edited".into();
    explain!(db.save(&mut edited));
    plans
}

pub async fn explain_writes_nothing(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let before = all_documents(&fixture).await;
    let has_transactions = fixture.backend().capabilities().transactions;
    for plan in explain_every_write(&db).await {
        match plan {
            Ok(plan) => {
                assert!(has_transactions && !plan.operations.is_empty(), "{plan}");
                assert!(
                    plan.operations.iter().any(|operation| operation.is_write()),
                    "{plan}"
                );
            }
            Err(error) => {
                assert!(!has_transactions, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            }
        }
    }
    assert_eq!(all_documents(&fixture).await, before);
    // The explained writes hold no lock.
    db.update::<Customer>(1)
        .set(|c| c.name(), "renamed")
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<Order>(3).await.unwrap().customer_name, "renamed");
    assert_clean(&db).await;
}

/// Returns the lines of a plan below a title, without the number of operations.
fn section(plan: &WritePlan, title: &str) -> Vec<String> {
    let text = plan.to_string();
    let lines = text.lines().skip_while(|line| *line != title).skip(1);
    let lines = lines.take_while(|line| line.starts_with("    "));
    lines.map(|line| line.trim().to_owned()).collect()
}

pub async fn a_plan_has_strategy_reasons_and_pending_work(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let plain = db.update::<Invoice>(1).set(|i| i.order(), Ref::new(2));
    let plan = plain.explain().await.unwrap();
    assert_eq!(plan.strategy, WriteStrategy::Transactional);
    let reasons = ["references: the targets of `order` must exist in orders"];
    assert_eq!(section(&plan, "reasons"), reasons);

    let renamed = db.update::<Customer>(1).set(|c| c.name(), "renamed");
    let plan = renamed.explain().await.unwrap();
    assert_eq!(plan.strategy, WriteStrategy::Transactional);
    let reasons = ["copies: `name` is copied to `customer_name` of orders"];
    assert_eq!(section(&plan, "reasons"), reasons);
    assert!(plan.pending.is_empty(), "{plan}");

    // The write counts the dependents, and leaves the fan-out to a background task.
    let moved = db.update::<Customer>(1).set(|c| c.city(), "Rome");
    let plan = moved.explain().await.unwrap();
    assert_eq!(plan.strategy, WriteStrategy::Recorded);
    let operations = [
        "1 × update customers               update",
        "1 × find customers                 copies: read the pending fan-outs",
        "1 × count orders                   copies: count the dependents",
    ];
    assert_eq!(section(&plan, "operations"), operations);
    assert_eq!(
        section(&plan, "pending afterwards"),
        ["Customer: 1 pending fan-outs"]
    );
    assert!(db.pending().await.unwrap().is_empty());

    let moved = db.update::<Order>(1).set(|o| o.customer(), Ref::new(2));
    let plan = moved.explain().await.unwrap();
    let reasons = [
        "copies: `customer` fills `customer_name`, `city` from customers",
        "rollups: `customer` leads to `orders` of customers",
        "references: the targets of `customer` must exist in customers",
    ];
    assert_eq!(section(&plan, "reasons"), reasons);

    let cheaper = db.update::<Order>(1).inc(|o| o.price(), -5);
    let plan = cheaper.explain().await.unwrap();
    assert_eq!(plan.strategy, WriteStrategy::Direct);
    let reasons = ["computed: `total` is computed from a changed field"];
    assert_eq!(section(&plan, "reasons"), reasons);
    assert_eq!(
        section(&plan, "operations"),
        ["1 × update orders                  update"]
    );

    let emptied = db.update::<Order>(1).set(|o| o.lines(), Overflow::new());
    let plan = emptied.explain().await.unwrap();
    assert_eq!(
        section(&plan, "reasons"),
        ["arrays: `lines` is an overflow array"]
    );
    assert!(plan.to_string().contains("delete order_lines"), "{plan}");

    let plan = db.delete::<Customer>(2).explain().await.unwrap();
    let reasons = [
        "references: `customer` of orders has the delete rule `cascade`",
        "references: `customer` of visits has the delete rule `cascade`",
    ];
    assert_eq!(section(&plan, "reasons"), reasons);

    // A write without follow-up work has no reasons.
    let mut unchanged = db.edit::<Invoice>(1).await.unwrap();
    let plan = db.save(&mut unchanged).explain().await.unwrap();
    assert_eq!(
        plan.to_string(),
        "save of invoices: without follow-up work\n"
    );
}

pub async fn errors_of_an_explained_write_are_returned(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let before = all_documents(&fixture).await;
    let twice = db.insert(order(1, 1, 0)).explain().await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::DuplicateKey);
    let restricted = db.delete::<Order>(1).explain().await.unwrap_err();
    assert_eq!(restricted.kind(), ErrorKind::Restricted);
    let dangling = db.insert(order(7, 77, 0)).explain().await.unwrap_err();
    assert_eq!(dangling.kind(), ErrorKind::Dangling);
    let in_transaction = db
        .transaction(async |tx| tx.delete::<Invoice>(1).explain().await.map(drop))
        .await
        .unwrap_err();
    assert_eq!(in_transaction.kind(), ErrorKind::Unsupported);
    assert_eq!(all_documents(&fixture).await, before);
}

/// A delete of more than 10,000 documents takes several transactions.
pub async fn a_delete_in_batches_is_explained(fixture: Fixture) {
    const VISITS: i64 = 10_050;
    let db = open_shop(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let customer = Ref::new(2);
    db.insert_many((0..VISITS).map(|id| Visit { id, customer }))
        .await
        .unwrap();
    let plan = db.delete::<Customer>(2).explain().await.unwrap();
    assert_eq!(plan.strategy, WriteStrategy::Batched, "{plan}");
    assert_eq!(db.find::<Visit>().count().await.unwrap(), VISITS as u64);
    assert!(db.pending().await.unwrap().is_empty());
    db.delete::<Customer>(2).await.unwrap();
    assert_eq!(db.find::<Visit>().count().await.unwrap(), 0);
    assert_clean(&db).await;
}

pub async fn a_dropped_explain_writes_nothing(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    let before = all_documents(&fixture).await;
    // Each round drops the future at a later point.
    for round in 0..40 {
        let write = db.update::<Customer>(1).set(|c| c.name(), "renamed");
        let explained = tokio::time::timeout(
            Duration::from_micros(100 * round),
            write.explain().into_future(),
        );
        drop(explained.await);
    }
    // A conflict with a trial that ends in the background is retried.
    let update = db.update::<Customer>(2).set(|c| c.name(), "customer 2");
    update.await.unwrap();
    let find = async || {
        let mut documents = all_documents(&fixture).await;
        documents.remove("customers");
        documents
    };
    let mut expected = before;
    expected.remove("customers");
    assert_eq!(find().await, expected);
    assert_eq!(db.get::<Customer>(1).await.unwrap().name, "customer 1");
    let update = db.update::<Customer>(1).set(|c| c.name(), "renamed");
    update.await.unwrap().expect_applied().unwrap();
    assert_clean(&db).await;
}

pub async fn explain_runs_no_hooks(fixture: Fixture) {
    let db = open_shop(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let plan = db.insert(Note { id: 1 }).explain().await.unwrap();
    // The transaction of the hooks.
    assert_eq!(plan.strategy, WriteStrategy::Transactional);
    assert_eq!(
        section(&plan, "operations"),
        ["1 × insert notes                   insert", "1 × commit"]
    );
    assert_eq!(db.find::<Customer>().count().await.unwrap(), 2);
    // Without `explain`, the hook runs.
    db.insert(Note { id: 1 }).await.unwrap();
    assert_eq!(db.find::<Customer>().count().await.unwrap(), 3);
}
