//! The latest children in the parent: a host has the last log lines, and each insert or delete updates the host.
//!
//! ```text
//! goofy: 1003 lines, 2 of them errors
//!   1002: disk on fire
//!   1001: disk hot
//!   1000: cpu 1000
//! goofy: 1002 lines, 1 of them errors
//!   1001: disk hot
//!   1000: cpu 1000
//!   999: cpu 999
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: String,
    #[count(of = LogMessage::host)]
    lines: i64,
    #[count(of = LogMessage::host, when(level = Level::Error))]
    errors: i64,
    #[latest(3, of = LogMessage::host, by = time)]
    logmsgs: Vec<Line>,
}

/// The fields of a log line that the host stores.
#[derive(Debug, Serialize, Deserialize, Embedded)]
#[embedded(of = LogMessage)]
struct Line {
    time: i64,
    message: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "logmsgs")]
struct LogMessage {
    #[serde(rename = "_id")]
    id: ObjectId,
    time: i64,
    level: Level,
    message: String,
    #[reference]
    host: Ref<Host>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, Embedded)]
enum Level {
    Info,
    Error,
}

#[derive(Schema)]
#[schema(models(Host, LogMessage))]
struct Logs;
type Db = odm::Database<Logs>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<LogMessage>(|_| Filter::all()).await?;
    db.delete_many::<Host>(|_| Filter::all()).await?;

    let host = db.insert(NewHost { id: "goofy".into() }).await?;
    let line = |time, level, message: &str| LogMessage {
        id: ObjectId::new(),
        time,
        level,
        message: message.to_owned(),
        host: host.to_ref(),
    };
    // A single update of the host for all lines.
    let lines = (0..=1_000).map(|time| line(time, Level::Info, &format!("cpu {time}")));
    db.insert_many(lines).await?;
    db.insert(line(1_001, Level::Error, "disk hot")).await?;
    let last = db.insert(line(1_002, Level::Error, "disk on fire")).await?;
    show(&db).await?;

    // After the delete of a line, the next older line returns to the list.
    db.delete::<LogMessage>(last.id).await?;
    show(&db).await
}

async fn show(db: &Db) -> odm::Result<()> {
    let host = db.get::<Host>("goofy").await?;
    println!(
        "{}: {} lines, {} of them errors",
        host.id, host.lines, host.errors
    );
    for line in host.logmsgs {
        println!("  {}: {}", line.time, line.message);
    }
    Ok(())
}
