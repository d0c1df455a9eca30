//! Spilled references are outside of the document, where no filter finds them.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lists")]
struct List {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(overflow(after = 50, into = "list_people"))]
    people: Overflow<Ref<Person>>,
}

#[derive(Schema)]
#[schema(models(Person, List))]
struct Lists;

fn wrong(db: &odm::Database<Lists>) {
    let _ = db.find::<List>().filter(|l| l.people().targets().any(|p| p.name().eq("jane")));
}

fn main() {}
