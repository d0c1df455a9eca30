//! One-to-very-many (also "one-to-squillions"): a log line refers to the host, because a host document cannot hold all lines.
//!
//! ```text
//! the latest of goofy
//!     line 999
//!     line 998
//!     line 997
//! goofy.example.com: line 999, line 998
//! mickey.example.com: line 499, line 498
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

// The index finds the latest lines of a host with a single look-up, for any number of lines.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "logmsgs", index(host, -time))]
struct LogMessage {
    #[serde(rename = "_id")]
    id: ObjectId,
    time: DateTime,
    message: String,
    #[reference]
    host: Ref<Host>,
}

#[derive(Schema)]
#[schema(models(Host, LogMessage))]
struct Logs;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = odm::Database::<Logs>::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Host>(|_| Filter::all()).await?;
    db.delete_many::<LogMessage>(|_| Filter::all()).await?;

    for (id, lines) in [("goofy", 1_000), ("mickey", 500)] {
        let host = Host {
            id: id.into(),
            name: format!("{id}.example.com"),
        };
        let host = db.insert(host).await?.to_ref();
        let line = |i: i64| LogMessage {
            id: ObjectId::new(),
            time: DateTime::from_millis(1_700_000_000_000 + i * 1_000),
            message: format!("line {i}"),
            host: host.clone(),
        };
        db.insert_many((0..lines).map(line)).await?;
    }

    // The query needs only the id of the host. The stream reads the lines in batches.
    let goofy = Ref::<Host>::new("goofy");
    println!("the latest of {goofy}");
    let mut latest = db
        .find::<LogMessage>()
        .filter(|m| m.host().eq(&goofy))
        .sort(|m| m.time().desc())
        .limit(3)
        .stream();
    while let Some(line) = latest.next().await.transpose()? {
        println!("    {}", line.message);
    }

    // The latest two lines of every host, in two queries.
    let latest = LogMessage::by(|m| m.host())
        .sort(|m| m.time().desc())
        .limit(2);
    for (host, lines) in db
        .find::<Host>()
        .sort(|h| h.id().asc())
        .with_children(latest)
        .all()
        .await?
    {
        let lines: Vec<_> = lines.into_iter().map(|line| line.message).collect();
        println!("{}: {}", host.name, lines.join(", "));
    }
    Ok(())
}
