//! The contenders of the comparison.

mod engine;
mod native_db;
mod odm;
mod redb;
mod sqlite;

use std::{fmt, ops::Range, path::Path};

use clap::ValueEnum;

use crate::data::{Kit, Offer, Part, Product, Review};

/// The result of a benchmark step. Any error ends the benchmark, except [`Unsupported`].
pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The error of a contender that does not take part in a row.
#[derive(Debug)]
pub(crate) struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the contender does not support the row")
    }
}

impl std::error::Error for Unsupported {}

fn unsupported<T>() -> Result<T> {
    Err(Box::new(Unsupported))
}

/// Whether a write survives a power loss as soon as the write returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitMode {
    Durable,
    /// A crash of the process loses no write, and a power loss can lose the last writes.
    Relaxed,
}

/// A way to store the documents of the shop, and to read the documents back into structs.
///
/// Every write is durable when it returns, except in memory and after `set_commit_mode`. The default of each optional method is
/// [`Unsupported`].
pub(crate) trait Contender {
    /// Inserts products in a single call.
    async fn insert_many(&mut self, products: Vec<Product>) -> Result<()>;

    /// Reads a product by id.
    async fn get(&mut self, id: i64) -> Result<Product>;

    /// Reads the product with a value of the unique index.
    async fn find_by_sku(&mut self, sku: String) -> Result<Product>;

    /// Reads the products of a category by an index, sorted by name.
    async fn find_by_category(&mut self, category: i64) -> Result<Vec<Product>>;

    /// Inserts a single product.
    async fn insert(&mut self, product: Product) -> Result<()>;

    /// Inserts each batch of products in a caller of its own. A caller inserts one product at a time.
    async fn insert_concurrently(&mut self, batches: Vec<Vec<Product>>) -> Result<()>;

    /// Adds one to the stock of a product.
    async fn increment_stock(&mut self, id: i64) -> Result<()>;

    /// Moves one piece of stock from a product to another product, in a transaction.
    async fn move_stock(&mut self, from: i64, to: i64) -> Result<()>;

    /// Adds a review to a product that has fewer than the maximum number of reviews.
    async fn push_review(&mut self, id: i64, review: Review) -> Result<()>;

    /// Inserts parts and kits.
    async fn load_kits(&mut self, _parts: Vec<Part>, _kits: Vec<Kit>) -> Result<()> {
        unsupported()
    }

    /// Reads a kit with its parts, in the order of the references.
    async fn kit_with_parts(&mut self, _id: i64) -> Result<(Kit, Vec<Part>)> {
        unsupported()
    }

    /// Reads the kits of a shelf with their parts.
    async fn shelf_with_parts(&mut self, _shelf: i64) -> Result<Vec<(Kit, Vec<Part>)>> {
        unsupported()
    }

    /// Sets when later writes return.
    async fn set_commit_mode(&mut self, _mode: CommitMode) -> Result<()> {
        unsupported()
    }

    /// Inserts persons, and a task of each person.
    async fn load_tasks(&mut self, _count: i64) -> Result<()> {
        unsupported()
    }

    /// Moves a task to a person. Afterwards only this person lists the task.
    async fn move_task(&mut self, _task: i64, _person: i64) -> Result<()> {
        unsupported()
    }

    /// Adds one to the stock of all products of the categories, in one call. Returns the number of products.
    async fn restock(&mut self, _categories: Range<i64>) -> Result<u64> {
        unsupported()
    }

    /// Inserts the supplier and the offers.
    async fn load_offers(&mut self, _offers: Vec<Offer>) -> Result<()> {
        unsupported()
    }

    /// Changes the city of the supplier, and returns after the change of all offers.
    async fn move_supplier(&mut self, _city: String) -> Result<()> {
        unsupported()
    }

    /// Returns the number of offers with this city.
    async fn count_offers(&mut self, _city: String) -> Result<u64> {
        unsupported()
    }

    /// Inserts the topic with replies.
    async fn load_topic(&mut self, _replies: Vec<Review>) -> Result<()> {
        unsupported()
    }

    /// Adds a reply to the topic.
    async fn push_reply(&mut self, _reply: Review) -> Result<()> {
        unsupported()
    }

    /// Closes the database and its files.
    async fn close(self) -> Result<()>;
}

/// The names of the contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// odm on the engine on disk
    Odm,
    /// odm on the engine in memory
    Memory,
    /// odm-engine on disk, without odm
    Engine,
    /// SQLite with JSONB in WAL mode and synchronous=FULL
    Sqlite,
    /// The same with synchronous=NORMAL
    SqliteNormal,
    /// redb with handwritten indexes
    Redb,
    /// native_db
    NativeDb,
}

impl Kind {
    /// The contenders of a run without the option `--contenders`.
    pub(crate) const DEFAULT: [Kind; 6] = [
        Kind::Odm,
        Kind::Memory,
        Kind::Engine,
        Kind::Sqlite,
        Kind::Redb,
        Kind::NativeDb,
    ];

    /// Returns the name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Odm => "odm",
            Kind::Memory => "odm, memory",
            Kind::Engine => "odm-engine",
            Kind::Sqlite => "SQLite",
            Kind::SqliteNormal => "SQLite, NORMAL",
            Kind::Redb => "redb",
            Kind::NativeDb => "native_db",
        }
    }

    /// Creates a database with all indexes in an empty folder.
    pub(crate) async fn create(self, folder: &Path) -> Result<AnyContender> {
        let path = folder.join(FILE_NAME);
        Ok(match self {
            Kind::Odm => AnyContender::Odm(odm::Odm::create(&path).await?),
            Kind::Memory => AnyContender::Odm(odm::Odm::create_in_memory().await?),
            Kind::Engine => AnyContender::Engine(engine::RawEngine::create(&path)?),
            Kind::Sqlite => AnyContender::Sqlite(sqlite::Sqlite::create(&path, "FULL")?),
            Kind::SqliteNormal => AnyContender::Sqlite(sqlite::Sqlite::create(&path, "NORMAL")?),
            Kind::Redb => AnyContender::Redb(redb::Redb::create(&path)?),
            Kind::NativeDb => AnyContender::NativeDb(native_db::NativeDb::create(&path)?),
        })
    }

    /// Opens the database in a folder again.
    pub(crate) async fn open(self, folder: &Path) -> Result<AnyContender> {
        let path = folder.join(FILE_NAME);
        Ok(match self {
            Kind::Odm => AnyContender::Odm(odm::Odm::open(&path).await?),
            Kind::Memory => return unsupported(),
            Kind::Engine => AnyContender::Engine(engine::RawEngine::open(&path)?),
            Kind::Sqlite => AnyContender::Sqlite(sqlite::Sqlite::open(&path, "FULL")?),
            Kind::SqliteNormal => AnyContender::Sqlite(sqlite::Sqlite::open(&path, "NORMAL")?),
            Kind::Redb => AnyContender::Redb(redb::Redb::open(&path)?),
            Kind::NativeDb => AnyContender::NativeDb(native_db::NativeDb::open(&path)?),
        })
    }
}

/// The name of the file in the folder of a contender.
const FILE_NAME: &str = "shop.db";

/// The page cache of each contender that has a setting: the size of the fixed cache of the engine.
const CACHE_BYTES: usize = 64 << 20;

/// A contender of any kind.
pub(crate) enum AnyContender {
    Odm(odm::Odm),
    Engine(engine::RawEngine),
    Sqlite(sqlite::Sqlite),
    Redb(redb::Redb),
    NativeDb(native_db::NativeDb),
}

/// Evaluates an expression with the contender in `$any`.
macro_rules! with_contender {
    ($any:expr, $contender:ident => $run:expr) => {
        match $any {
            $crate::contender::AnyContender::Odm($contender) => $run,
            $crate::contender::AnyContender::Engine($contender) => $run,
            $crate::contender::AnyContender::Sqlite($contender) => $run,
            $crate::contender::AnyContender::Redb($contender) => $run,
            $crate::contender::AnyContender::NativeDb($contender) => $run,
        }
    };
}
pub(crate) use with_contender;

/// Runs each batch in a thread of its own.
fn run_in_threads<H: Send>(
    batches: Vec<Vec<Product>>,
    handles: Vec<H>,
    insert: impl Fn(&mut H, Product) -> Result<()> + Sync,
) -> Result<()> {
    let insert = &insert;
    std::thread::scope(|scope| {
        let start = |(batch, mut handle): (Vec<Product>, H)| {
            scope.spawn(move || {
                let mut products = batch.into_iter();
                products.try_for_each(|product| insert(&mut handle, product))
            })
        };
        let threads: Vec<_> = batches.into_iter().zip(handles).map(start).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a caller panicked".into()))
        })
    })
}
