//! Composed ids ("semantic ids"): the id of a document contains the fields that identify the document, and gives the ids of
//! related documents.
//!
//! ```text
//! users/jane has users/jane/account
//! payments 000001, 000002, 000003
//! payment 2 is users/jane/payments/000002, of jane
//! jane has 60 and has paid 3 times; the last was 20
//! users/jane: 3 payments, users/jane2: 1 payment
//! the first page: 2 payments, and then 1
//! no account: there is no document with this id: insert the document first, or correct the id (model
//!     Account, collection accounts, _id "users/joe/account")
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "users", id = "users/{name}")]
struct User {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

/// A single account for each user.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "accounts", id = "{user}/account")]
struct Account {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    user: Ref<User>,
    balance: i64,
}

/// Several payments for each user, numbered by odm. With leading zeros, the ids sort like the numbers.
#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "payments", id = "{user}/payments/{#number:06}")]
struct Payment {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    user: Ref<User>,
    number: i64,
    amount: i64,
}

#[derive(Schema)]
#[schema(models(User, Account, Payment))]
struct Bank;
type Db = odm::Database<Bank>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    // Remove the documents of an earlier run. The numbers continue, because odm never gives a number twice.
    db.delete_many::<User>(|_| Filter::all()).await?;
    db.delete_many::<Account>(|_| Filter::all()).await?;
    db.delete_many::<Payment>(|_| Filter::all()).await?;

    // odm builds the id from the fields. No setter can change the id.
    let jane = db
        .insert(NewUser {
            name: "jane".into(),
        })
        .await?;
    let other = db
        .insert(NewUser {
            name: "jane2".into(),
        })
        .await?;
    let account = NewAccount {
        user: jane.to_ref(),
        balance: 60,
    };
    let account = db.insert(account).await?;
    println!("{} has {}", jane.id, account.id);
    let pay = |user: &User, amount| NewPayment {
        user: user.to_ref(),
        amount,
    };
    let mut paid = Vec::new();
    for amount in [5, 10, 20] {
        paid.push(db.insert(pay(&jane, amount)).await?);
    }
    db.insert(pay(&other, 1)).await?;
    let numbers: Vec<_> = paid
        .iter()
        .map(|payment| format!("{:06}", payment.number))
        .collect();
    println!("payments {}", numbers.join(", "));

    // odm builds and parses ids without a query.
    let second = Payment::id_for(&jane, paid[1].number)?;
    let owner = Payment::parts_of(&second)?.user;
    println!(
        "payment {} is {second}, of {}",
        paid[1].number,
        User::parts_of(&owner)?.name
    );

    // Several models in a single round trip. The reads are always current, and use only the `_id` indexes.
    let (user, account, payments) = db
        .load((&owner, Account::id_for(&owner)?, [second, paid[2].to_ref()]))
        .await?;
    let last = payments.loaded().last().map_or(0, |payment| payment.amount);
    let count = db.find::<Payment>().under(&user).count().await?;
    println!(
        "{} has {} and has paid {count} times; the last was {last}",
        user.name, account.balance
    );

    // Finds children by the prefix of the id. `users/jane` does not include the payments of `users/jane2`.
    let others = db.find::<Payment>().under(&other).count().await?;
    println!(
        "{}: {count} payments, {}: {others} payment",
        jane.id, other.id
    );
    let first = db.find::<Payment>().under(&jane).page(2).await?;
    let rest = db
        .find::<Payment>()
        .under(&jane)
        .page(2)
        .after(first.next)
        .await?;
    println!(
        "the first page: {} payments, and then {}",
        first.items.len(),
        rest.items.len()
    );

    if let Err(error) = db.get(Account::id_for("users/joe")?).await {
        println!("no account: {error}");
    }
    Ok(())
}
