//! S1, one-to-few: a person's addresses stand in the person.
//!
//! ```text
//! Kate Monster lives in Metropolis, Cupertino
//! in Cupertino: Kate Monster
//! a third address: an array would hold more elements than its `max`, in 1 document(s); nothing was written (model
//!     Person, collection persons)
//! still 2 addresses
//! ```
//!
//! It runs in memory, or on the database whose URL is the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Address {
    street: String,
    city: String,
    cc: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    #[index(unique)]
    ssn: String,
    /// What belongs to one parent is embedded; how much of it there can be is said here.
    #[embed(max = 2)]
    addresses: Vec<Address>,
}

#[derive(Schema)]
#[schema(models(Person))]
struct Registry;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = odm::Database::<Registry>::open(&url).await?;
    db.sync_indexes().await?;
    // It may have run here before.
    db.delete_many::<Person>(|_| Filter::all()).await?;

    let address = |street: &str, city: &str| Address {
        street: street.into(),
        city: city.into(),
        cc: "USA".into(),
    };
    let kate = db
        .insert(Person {
            id: ObjectId::new(),
            name: "Kate Monster".into(),
            ssn: "123-456-7890".into(),
            addresses: vec![address("123 Sesame St", "Metropolis")],
        })
        .await?;

    // One document, one atomic write: nothing else of it is touched.
    db.update::<Person>(&kate)
        .push(|p| p.addresses(), address("1 Infinite Loop", "Cupertino"))
        .await?;
    let kate = db.get::<Person>(kate.id).await?;
    let cities: Vec<_> = kate.addresses.iter().map(|a| &*a.city).collect();
    println!("{} lives in {}", kate.name, cities.join(", "));

    // Any of the addresses may match.
    let person = db
        .find::<Person>()
        .filter(|p| p.addresses().city().eq("Cupertino"))
        .one()
        .await?;
    println!("in Cupertino: {}", person.name);

    let third = db
        .update::<Person>(&kate)
        .push(|p| p.addresses(), address("221b Baker St", "London"))
        .await;
    if let Err(error) = third {
        println!("a third address: {error}");
    }
    println!(
        "still {} addresses",
        db.get::<Person>(kate.id).await?.addresses.len()
    );
    Ok(())
}
