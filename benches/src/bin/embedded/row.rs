//! The rows of the table: the operations, and the data that an operation needs.

use std::ops::Range;

use odm_benches::tasks::PERSON_COUNT;

use crate::{
    contender::{CommitMode, Contender, Result},
    data::{
        self, Catalog, KITS_PER_SHELF, PARTS_PER_KIT, PRODUCTS_PER_CATEGORY, RESIDENT_REPLIES,
        Review,
    },
};

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Get,
    FindOne,
    FindRange,
    Join,
    Populate,
    Insert,
    InsertRelaxed,
    /// The insert with this number of callers.
    InsertConcurrently(u16),
    InsertMany,
    Increment,
    Transaction,
    MoveTask,
    UpdateMany,
    FanOut,
    PushReview,
    PushReply,
}

/// The number of products in a call of `insert_many`.
const INSERT_MANY_LENGTH: i64 = 1_000;

impl Row {
    /// Returns all rows in the order of the table. The rows that only read come first.
    pub(crate) fn all(callers: &[u16]) -> Vec<Row> {
        let mut rows = vec![
            Row::Get,
            Row::FindOne,
            Row::FindRange,
            Row::Join,
            Row::Populate,
            Row::Insert,
            Row::InsertRelaxed,
        ];
        rows.extend(callers.iter().copied().map(Row::InsertConcurrently));
        rows.extend([
            Row::InsertMany,
            Row::Increment,
            Row::Transaction,
            Row::MoveTask,
            Row::UpdateMany,
            Row::FanOut,
            Row::PushReview,
            Row::PushReply,
        ]);
        rows
    }

    pub(crate) fn name(self, catalog: &Catalog) -> String {
        let many = catalog.many;
        match self {
            Row::Get => "get by id".to_owned(),
            Row::FindOne => "find one by an index".to_owned(),
            Row::FindRange => "range of 20 by an index, sorted".to_owned(),
            Row::Join => "join 1 + 10".to_owned(),
            Row::Populate => "populate 100 × 10".to_owned(),
            Row::Insert => "insert one".to_owned(),
            Row::InsertRelaxed => "insert one, relaxed".to_owned(),
            Row::InsertConcurrently(1) => "insert, 1 caller".to_owned(),
            Row::InsertConcurrently(callers) => format!("insert, {callers} callers"),
            Row::InsertMany => format!("insert many ({INSERT_MANY_LENGTH})"),
            Row::Increment => "`$inc` by id".to_owned(),
            Row::Transaction => "two updates in a transaction".to_owned(),
            Row::MoveTask => "two-way link maintained".to_owned(),
            Row::UpdateMany => format!("`update_many` of {many}"),
            Row::FanOut => format!("copy fan-out to {many}, completed"),
            Row::PushReview => format!("push to a list of at most {}", data::MAX_REVIEWS),
            Row::PushReply => format!("push to a list that spills after {RESIDENT_REPLIES}"),
        }
    }

    /// Returns whether the table shows the operations per second instead of the time.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Row::InsertConcurrently(_) | Row::InsertMany)
    }

    /// Returns the number of operations in a round.
    pub(crate) fn operations(self, is_quick: bool) -> i64 {
        let (normal, quick) = match self {
            Row::Get | Row::FindOne => (500, 50),
            Row::FindRange | Row::Join => (100, 10),
            Row::Populate => (10, 1),
            Row::InsertRelaxed => (200, 20),
            Row::InsertConcurrently(callers) => {
                return i64::from(callers) * if is_quick { 2 } else { 20 };
            }
            Row::InsertMany => (INSERT_MANY_LENGTH, INSERT_MANY_LENGTH),
            Row::UpdateMany | Row::FanOut => (1, 1),
            Row::Insert | Row::Increment | Row::Transaction | Row::MoveTask | Row::PushReview => {
                (50, 5)
            }
            // A round includes spills.
            Row::PushReply => (2 * RESIDENT_REPLIES, RESIDENT_REPLIES),
        };
        if is_quick { quick } else { normal }
    }

    /// Returns whether the row changes products from before the measurement.
    pub(crate) fn changes_products(self) -> bool {
        matches!(
            self,
            Row::Increment | Row::Transaction | Row::UpdateMany | Row::PushReview
        )
    }

    /// Returns the commit mode of the writes.
    pub(crate) fn commit_mode(self) -> CommitMode {
        match self {
            Row::InsertRelaxed => CommitMode::Relaxed,
            _ => CommitMode::Durable,
        }
    }

    /// Inserts the data of a row, except the products.
    pub(crate) async fn load(
        self,
        contender: &mut impl Contender,
        catalog: &Catalog,
    ) -> Result<()> {
        match self {
            Row::MoveTask => contender.load_tasks(PERSON_COUNT).await,
            Row::FanOut => {
                let offers = (0..catalog.many).map(|id| catalog.offer(id));
                contender.load_offers(offers.collect()).await
            }
            Row::PushReply => {
                let replies = (0..catalog.many).map(data::review);
                contender.load_topic(replies.collect()).await
            }
            _ => Ok(()),
        }
    }

    /// Fails the benchmark if the data of a row is wrong after the last round.
    pub(crate) async fn verify(
        self,
        contender: &mut impl Contender,
        catalog: &Catalog,
        last_round: i64,
    ) -> Result<()> {
        if self == Row::FanOut {
            let offers = contender.count_offers(city(last_round)).await?;
            ensure(
                offers == u64::try_from(catalog.many)?,
                "a copy is not current",
            )?;
        }
        Ok(())
    }
}

/// The operations of a row in a round, with prepared arguments. Equal for all contenders.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Get(Vec<i64>),
    FindOne(Vec<String>),
    FindRange(Vec<i64>),
    Join(Vec<i64>),
    Populate(Vec<i64>),
    Insert(Vec<data::Product>),
    InsertConcurrently(Vec<Vec<data::Product>>),
    InsertMany(Vec<data::Product>),
    Increment(Vec<i64>),
    Transaction(Vec<(i64, i64)>),
    MoveTask(Vec<(i64, i64)>),
    UpdateMany(Range<i64>),
    FanOut(String),
    PushReview(Vec<(i64, Review)>),
    PushReply(Vec<Review>),
}

impl Work {
    /// Prepares the operations of a round. New products have the ids from `first_new_id`.
    pub(crate) fn new(
        row: Row,
        round: i64,
        operations: i64,
        catalog: &Catalog,
        first_new_id: i64,
    ) -> Work {
        let picked =
            |count: i64| (0..operations).map(move |n| (round * 7_919 + n * 104_729) % count.max(1));
        let ids = || picked(catalog.products);
        let categories = || picked(catalog.products / PRODUCTS_PER_CATEGORY);
        let products = || {
            let new_ids = first_new_id..first_new_id + operations;
            new_ids.map(|id| catalog.product(id)).collect::<Vec<_>>()
        };
        match row {
            Row::Get => Work::Get(ids().collect()),
            Row::FindOne => Work::FindOne(ids().map(data::sku).collect()),
            Row::FindRange => Work::FindRange(categories().collect()),
            Row::Join => Work::Join(picked(catalog.kits).collect()),
            Row::Populate => Work::Populate(picked(catalog.kits / KITS_PER_SHELF).collect()),
            Row::Insert | Row::InsertRelaxed => Work::Insert(products()),
            Row::InsertConcurrently(callers) => {
                let products = products();
                let length = products.len().div_ceil(usize::from(callers));
                Work::InsertConcurrently(products.chunks(length).map(<[_]>::to_vec).collect())
            }
            Row::InsertMany => Work::InsertMany(products()),
            Row::Increment => Work::Increment(ids().collect()),
            Row::Transaction => {
                let other = |id| (id + 1) % catalog.products;
                Work::Transaction(ids().map(|id| (id, other(id))).collect())
            }
            Row::MoveTask => {
                // Each operation moves the task to a different person: a round has fewer than `PERSON_COUNT` passes over the tasks.
                let passes = operations.div_euclid(PERSON_COUNT) + 1;
                let person = |n| (n + round * passes + n / PERSON_COUNT + 1) % PERSON_COUNT;
                let moves = (0..operations).map(|n| (n % PERSON_COUNT, person(n)));
                Work::MoveTask(moves.collect())
            }
            Row::UpdateMany => Work::UpdateMany(0..catalog.many / PRODUCTS_PER_CATEGORY),
            Row::FanOut => Work::FanOut(city(round)),
            Row::PushReview => Work::PushReview(ids().map(|id| (id, data::review(id))).collect()),
            Row::PushReply => Work::PushReply(ids().map(data::review).collect()),
        }
    }

    pub(crate) async fn run(self, contender: &mut impl Contender) -> Result<()> {
        match self {
            Work::Get(ids) => {
                for id in ids {
                    ensure(contender.get(id).await?.id == id, "a wrong product")?;
                }
            }
            Work::FindOne(skus) => {
                for sku in skus {
                    contender.find_by_sku(sku).await?;
                }
            }
            Work::FindRange(categories) => {
                for category in categories {
                    let found = contender.find_by_category(category).await?;
                    ensure_length(&found, PRODUCTS_PER_CATEGORY)?;
                }
            }
            Work::Join(ids) => {
                for id in ids {
                    let (_, parts) = contender.kit_with_parts(id).await?;
                    ensure_length(&parts, PARTS_PER_KIT)?;
                }
            }
            Work::Populate(shelves) => {
                for shelf in shelves {
                    let kits = contender.shelf_with_parts(shelf).await?;
                    ensure_length(&kits, KITS_PER_SHELF)?;
                }
            }
            Work::Insert(products) => {
                for product in products {
                    contender.insert(product).await?;
                }
            }
            Work::InsertConcurrently(batches) => contender.insert_concurrently(batches).await?,
            Work::InsertMany(products) => contender.insert_many(products).await?,
            Work::Increment(ids) => {
                for id in ids {
                    contender.increment_stock(id).await?;
                }
            }
            Work::Transaction(moves) => {
                for (from, to) in moves {
                    contender.move_stock(from, to).await?;
                }
            }
            Work::MoveTask(moves) => {
                for (task, person) in moves {
                    contender.move_task(task, person).await?;
                }
            }
            Work::UpdateMany(categories) => {
                let expected = (categories.end - categories.start) * PRODUCTS_PER_CATEGORY;
                let changed = contender.restock(categories).await?;
                ensure(
                    i64::try_from(changed)? == expected,
                    "a wrong number of updates",
                )?;
            }
            Work::FanOut(city) => contender.move_supplier(city).await?,
            Work::PushReview(reviews) => {
                for (id, review) in reviews {
                    contender.push_review(id, review).await?;
                }
            }
            Work::PushReply(replies) => {
                for reply in replies {
                    contender.push_reply(reply).await?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the city of the supplier after a round.
fn city(round: i64) -> String {
    format!("city number {round}")
}

fn ensure_length<T>(found: &[T], expected: i64) -> Result<()> {
    ensure(
        i64::try_from(found.len())? == expected,
        "a wrong number of documents",
    )
}

fn ensure(condition: bool, message: &str) -> Result<()> {
    if condition {
        Ok(())
    } else {
        Err(message.into())
    }
}
