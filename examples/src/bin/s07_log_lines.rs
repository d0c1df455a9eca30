//! S7 and S24, one to squillions: each log line has the address of its host, and one can wait until that is current, or ask for it.
//!
//! ```text
//! 2000 lines of 10.0.0.1
//! asked for what is so now: 10.0.0.9
//! owed: nothing
//! 2000 lines of 10.0.0.9
//! ```
//!
//! It runs in memory, or on the database whose URL is the first argument.

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
    /// There may be very many: they follow behind the answer.
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
    // It may have run here before.
    db.delete_many::<LogMessage>(|_| Filter::all()).await?;
    db.delete_many::<Host>(|_| Filter::all()).await?;

    let host = Host {
        id: "goofy".into(),
        ipaddr: "10.0.0.1".into(),
    };
    let host = db.insert(host).await?;
    // The host is read once for all of them.
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
    // Whatever has followed by now.
    let current = db.find::<LogMessage>().current().first().await?;
    let current = current.map(|line| line.ipaddr).unwrap_or_default();
    println!("asked for what is so now: {current}");

    db.settled().within(Duration::from_secs(30)).await?;
    println!("owed: {}", db.owed().await?);
    show(&db, "10.0.0.9").await
}

async fn show(db: &Db, ipaddr: &str) -> odm::Result<()> {
    let lines = db.find::<LogMessage>().filter(|m| m.ipaddr().eq(ipaddr));
    println!("{} lines of {ipaddr}", lines.count().await?);
    Ok(())
}
