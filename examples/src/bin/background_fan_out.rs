//! Background fan-out: each log line has a copy of the host's address. A reader can wait for current copies, or read the current
//! source.
//!
//! ```text
//! 2000 lines of 10.0.0.1
//! current source: 10.0.0.9
//! pending: nothing
//! 2000 lines of 10.0.0.9
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use std::time::Duration;

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: String,
    ipaddr: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "logmsgs", index(host, -time))]
struct LogMessage {
    #[serde(rename = "_id")]
    id: ObjectId,
    time: DateTime,
    message: String,
    #[reference]
    host: Ref<Host>,
    /// A host can have very many lines, so the fan-out runs in the background.
    #[denormalize(from = host.ipaddr, background)]
    ipaddr: String,
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

    let host = Host {
        id: "goofy".into(),
        ipaddr: "10.0.0.1".into(),
    };
    let host = db.insert(host).await?;
    // The insert reads the host once for all lines.
    let lines = (0..2_000).map(|number| NewLogMessage {
        id: ObjectId::new(),
        time: DateTime::now(),
        message: format!("cpu {number}"),
        host: host.to_ref(),
    });
    db.insert_many(lines).await?;
    show(&db, "10.0.0.1").await?;

    db.update::<Host>("goofy")
        .set(|h| h.ipaddr(), "10.0.0.9")
        .await?;
    // `current` reads the source, whether the fan-out has finished or not.
    let current = db.find::<LogMessage>().current().first().await?;
    let current = current.map(|line| line.ipaddr).unwrap_or_default();
    println!("current source: {current}");

    db.wait_for_pending()
        .timeout(Duration::from_secs(30))
        .await?;
    println!("pending: {}", db.pending().await?);
    show(&db, "10.0.0.9").await
}

async fn show(db: &Db, ipaddr: &str) -> odm::Result<()> {
    let lines = db.find::<LogMessage>().filter(|m| m.ipaddr().eq(ipaddr));
    println!("{} lines of {ipaddr}", lines.count().await?);
    Ok(())
}
