//! Invalid overflow arrays of references.

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
    #[reference]
    nowhere: Overflow<Ref<Person>>,
    #[reference(max = 5, overflow(after = 50, into = "bounded"))]
    bounded: Overflow<Ref<Person>>,
    #[reference(overflow(after = 50, into = "arrays"))]
    array: Vec<Ref<Person>>,
    #[reference(overflow(after = 50, into = "sorted", latest_by = name))]
    sorted: Overflow<Ref<Person>>,
    #[reference(on_delete = nullify, overflow(after = 50, into = "ruled"))]
    ruled: Overflow<Ref<Person>>,
    #[reference(overflw(after = 50, into = "misspelt"))]
    misspelt: Overflow<Ref<Person>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "other_lists")]
struct Other {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(overflow(after = 50, into = "texts"))]
    texts: Overflow<String>,
    #[reference(overflow(after = 50, into = "options", flag = "more"))]
    options: Overflow<Option<Ref<Person>>>,
}

fn main() {}
