//! A computed text uses texts and the functions of texts.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "authors")]
struct Author {
    #[serde(rename = "_id")]
    id: i64,
    first: String,
    last: Option<String>,
    books: i64,
    #[computed(concat(first, books))]
    number: String,
    #[computed(first + last)]
    plus: String,
    #[computed(concat(first, 1))]
    literal: String,
    #[computed(lower(books))]
    no_text: i64,
    #[computed(len(first))]
    length: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "editors")]
struct Editor {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[computed(lower(name, name))]
    two: String,
    #[computed(trim())]
    none: String,
    #[computed(upper(name))]
    unknown: String,
    #[computed("constant")]
    constant: String,
    #[computed(lower(name))]
    optional: Option<String>,
}

fn main() {}
