//! How long a small write waits beside a large write, on the embedded engine on disk.
//!
//! For each large write, one thread inserts single documents until the large write ends, and at least 1,000 documents. The output has the
//! time of the large write, and the median, the 99th percentile and the longest time of a small write.
//!
//! ```sh
//! cargo run --release -p odm-benches --bin beside_large -- --documents 1000000
//! ```

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use odm::bson::{RawDocumentBuf, rawdoc};
use odm_engine::{Database, Direction, Index, Update};

/// The number of small writes that are measured at least.
const SMALL_WRITES: usize = 1000;

/// The number of documents in one call that fills the collection.
const BATCH: i32 = 10_000;

#[derive(Parser)]
struct Arguments {
    /// The number of documents that a large write changes.
    #[arg(long, default_value_t = 1_000_000)]
    documents: i32,
    /// The folder of the database file. The default is a temporary folder.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The times of the small writes beside one large write.
struct Latencies {
    large: Duration,
    small: Vec<Duration>,
}

fn document(id: i32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": id, "group": id % 1000, "name": format!("name {id}"), "text": "x".repeat(150) }
}

fn insert(database: &Database, collection: &str, documents: Vec<RawDocumentBuf>) {
    let inserted = database.insert(collection, documents);
    let inserted = inserted.and_then(odm_engine::InsertReport::into_result);
    inserted.expect("the documents are new");
}

/// Runs a large write beside small writes.
fn measure(database: &Database, large: impl FnOnce(&Database) + Send) -> Latencies {
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let start = Instant::now();
            large(database);
            start.elapsed()
        });
        let mut small = Vec::new();
        while small.len() < SMALL_WRITES || !running.is_finished() {
            let start = Instant::now();
            insert(database, "small", vec![rawdoc! { "text": "small" }]);
            small.push(start.elapsed());
        }
        small.sort_unstable();
        Latencies {
            large: running.join().expect("the large write succeeds"),
            small,
        }
    })
}

fn print(name: &str, latencies: &Latencies) {
    let at = |share: usize| latencies.small[(latencies.small.len() - 1) * share / 1000];
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "| {name} | {:.1} | {} | {:.2} | {:.1} | {:.1} |",
        latencies.large.as_secs_f64(),
        latencies.small.len(),
        millis(at(500)),
        millis(at(990)),
        millis(at(1000)),
    );
}

fn main() {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = arguments.folder.unwrap_or_else(|| temporary.path().into());
    let database = Database::open(folder.join("beside_large.odm")).expect("a new file");
    let documents = arguments.documents;
    for first in (0..documents).step_by(BATCH as usize) {
        let batch = first..documents.min(first.saturating_add(BATCH));
        insert(&database, "large", batch.map(document).collect());
    }
    println!(
        "| large write | s | small writes | median, ms | 99 %, ms | longest, ms |\n|---|---|---|---|---|---|"
    );
    let none = measure(&database, |_| {});
    print("none", &none);
    let index = Index::new([("group", Direction::Ascending), ("n", Direction::Ascending)]);
    let build = measure(&database, |database| {
        let built = database.create_indexes("large", std::slice::from_ref(&index));
        built.expect("the index is new");
    });
    print("build of an index", &build);
    let drop_index = measure(&database, |database| {
        let dropped = database.drop_index("large", "group_1_n_1");
        dropped.expect("the index exists");
    });
    print("drop of an index", &drop_index);
    let update = measure(&database, |database| {
        let update = Update {
            update: rawdoc! { "$inc": { "n": 1 } },
            multi: true,
            ..Update::default()
        };
        let updated = database.update("large", &update).expect("a valid update");
        assert_eq!(updated.modified, u64::try_from(documents).unwrap_or(0));
    });
    print("update of all documents", &update);
    let transaction = measure(&database, |database| {
        let transaction = database.begin().expect("an open database");
        let batch = documents..documents.saturating_add(documents * 3 / 10);
        let inserted = transaction.insert("large", batch.map(document).collect());
        let inserted = inserted.and_then(odm_engine::InsertReport::into_result);
        inserted.expect("the documents are new");
        transaction.commit().expect("no conflict");
    });
    print(
        "transaction with 0.3 inserts for each document, and its commit",
        &transaction,
    );
    let drop_collection = measure(&database, |database| {
        database.drop_collection("large").expect("no failure");
    });
    print("drop of the collection", &drop_collection);
}
