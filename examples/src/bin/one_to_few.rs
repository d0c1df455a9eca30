//! One-to-few: the addresses of a person are embedded in the person document.
//!
//! ```text
//! Kate Monster lives in Metropolis, Cupertino
//! in Cupertino: Kate Monster
//! a third address: the array holds at most 2 elements and has no room for more; nothing was written. Remove elements, or
//!     raise `max` (model Person, collection persons, _id …, path addresses)
//! still 2 addresses
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

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
    /// Embed parts that belong to a single parent. `max` declares the maximum number.
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
    // Remove the documents of an earlier run.
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

    // A single atomic write to a single document. The remaining fields do not change.
    db.update::<Person>(&kate)
        .push(|p| p.addresses(), address("1 Infinite Loop", "Cupertino"))
        .await?;
    let kate = db.get::<Person>(kate.id).await?;
    let cities: Vec<_> = kate.addresses.iter().map(|a| &*a.city).collect();
    println!("{} lives in {}", kate.name, cities.join(", "));

    // The filter matches if any address matches.
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
