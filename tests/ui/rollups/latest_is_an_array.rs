//! A `latest` field must be an array.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "pages")]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    #[latest(3, of = Note::page, by = likes)]
    latest: Excerpt,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    page: Ref<Page>,
    likes: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = Note)]
struct Excerpt {
    likes: i64,
}

fn main() {}
