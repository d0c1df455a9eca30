//! Invalid element types of overflow arrays, and invalid collections for chunks.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Friend {
    #[reference]
    person: Ref<Person>,
    #[denormalize(from = person.name)]
    name: String,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Child {
    #[reference(on_delete = pull)]
    person: Ref<Person>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lists")]
struct List {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_refs", flag = "more_refs"))]
    refs: Overflow<Ref<Person>>,
    #[embed(overflow(after = 50, into = "extra_friends", flag = "more_friends"))]
    friends: Overflow<Friend>,
    #[embed(overflow(after = 50, into = "extra_children", flag = "more_children"))]
    children: Overflow<Child>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Guest {
    #[reference]
    person: Ref<Person>,
    #[snapshot(from = person.name)]
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parties")]
struct Party {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_guests"))]
    guests: Overflow<Guest>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "extra_lines")]
struct Other {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "pages")]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_lines"))]
    lines: Overflow<String>,
}

#[derive(Schema)]
#[schema(models(Other, Page))]
struct Book;

fn main() {}
