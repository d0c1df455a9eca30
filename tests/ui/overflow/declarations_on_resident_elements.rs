//! Declarations that would see only the resident elements of an overflow array.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    price: i64,
    quantity: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "pages", index(words, id), index(lines.price))]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_words", flag = "has_words"))]
    words: Overflow<String>,
    #[embed(overflow(after = 50, into = "extra_lines"))]
    lines: Overflow<Line>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "members", index(page))]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(overflow(after = 50, into = "extra_pages"))]
    page: Overflow<Ref<Page>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "quotes")]
struct Quote {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    page: Ref<Page>,
    #[denormalize(from = page.words)]
    #[embed(overflow(after = 50, into = "extra_quotes"))]
    words: Overflow<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "baskets")]
struct Basket {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(overflow(after = 50, into = "extra_items"))]
    lines: Overflow<Line>,
    #[computed(sum(lines.price * lines.quantity))]
    total: i64,
    #[computed(len(lines))]
    count: i64,
}

/// An expiry index deletes documents without their chunks.
#[derive(Serialize, Deserialize, Document)]
#[document(collection = "sessions")]
struct Session {
    #[serde(rename = "_id")]
    id: i64,
    #[index(expire_after_seconds = 60)]
    at: DateTime,
    #[embed(overflow(after = 50, into = "extra_steps"))]
    steps: Overflow<String>,
}

fn main() {}
