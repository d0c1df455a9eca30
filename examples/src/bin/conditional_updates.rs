//! Conditional updates: a condition and a write in a single atomic step, for accounts, votes and counters.
//!
//! ```text
//! jane is registered
//! another jane: another document has the same key (model Account, collection accounts, _id "jane", index _id_, key
//!     { "_id": "jane" })
//! 20 of 64 payments went through, 0 credits are left, 100 were spent
//! calvin voted: true
//! calvin voted again: false
//! 1 vote by calvin
//! visitor number 1
//! visitor number 2
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "accounts")]
struct Account {
    /// The registered name is the `_id`, so that each name is unique.
    #[serde(rename = "_id")]
    name: String,
    credits: i64,
    debits: i64,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    votes: i64,
    #[embed(max = 1_000)]
    voters: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "counters")]
struct Counter {
    #[serde(rename = "_id")]
    id: String,
    n: i64,
}

#[derive(Schema)]
#[schema(models(Account, Post, Counter))]
struct Site;
type Db = odm::Database<Site>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Account>(|_| Filter::all()).await?;
    db.delete_many::<Post>(|_| Filter::all()).await?;
    db.delete_many::<Counter>(|_| Filter::all()).await?;

    // Unique names: a second registration of a name fails, and the error names the key.
    let jane = || Account {
        name: "jane".into(),
        credits: 100,
        debits: 0,
    };
    println!("{} is registered", db.insert(jane()).await?.name);
    if let Err(error) = db.insert(jane()).await {
        println!("another jane: {error}");
    }

    // Concurrent payments: no payment takes the balance below zero.
    let payments: Vec<_> = (0..64)
        .map(|_| tokio::spawn(spend(db.clone(), 5)))
        .collect();
    let mut paid = 0;
    for payment in payments {
        paid += i32::from(payment.await.map_err(odm::Error::other)??);
    }
    let jane = db.get::<Account>("jane").await?;
    println!(
        "{paid} of 64 payments went through, {} credits are left, {} were spent",
        jane.credits, jane.debits
    );

    // A vote counts once.
    db.insert(Post {
        id: 1,
        votes: 0,
        voters: Vec::new(),
    })
    .await?;
    println!("calvin voted: {}", vote(&db, 1, "calvin").await?);
    println!("calvin voted again: {}", vote(&db, 1, "calvin").await?);
    let post = db.get::<Post>(1).await?;
    println!("{} vote by {}", post.votes, post.voters.join(", "));

    // Unique numbers from a counter. The first use creates the counter.
    for _ in 0..2 {
        println!("visitor number {}", next(&db, "visitors").await?);
    }
    Ok(())
}

async fn spend(db: Db, amount: i64) -> odm::Result<bool> {
    let payment = db
        .update::<Account>("jane")
        .when(|a| a.credits().gte(amount))
        .inc(|a| a.credits(), -amount)
        .inc(|a| a.debits(), amount)
        .await?;
    Ok(payment.is_applied())
}

async fn vote(db: &Db, post: i64, voter: &str) -> odm::Result<bool> {
    let vote = db
        .update::<Post>(post)
        .when(|p| p.voters().excludes(voter))
        .push(|p| p.voters(), voter)
        .inc(|p| p.votes(), 1)
        .await?;
    Ok(vote.is_applied())
}

async fn next(db: &Db, counter: &str) -> odm::Result<i64> {
    let counter = db
        .update::<Counter>(counter)
        .inc(|c| c.n(), 1)
        .or_insert(Counter {
            id: counter.into(),
            n: 1,
        })
        .returning_after()
        .await?;
    Ok(counter.into_inner().n)
}
