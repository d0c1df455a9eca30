//! Overflow arrays of references with an invalid `inverse`.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tags")]
struct Tag {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference(max = 5)]
    plain: Vec<Ref<Package>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "packages")]
struct Package {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = packages, overflow(after = 50, into = "missing"))]
    missing: Overflow<Ref<Tag>>,
    #[reference(inverse = name, overflow(after = 50, into = "others", flag = "more_others"))]
    others: Overflow<Ref<Tag>>,
    #[reference(inverse = plain, overflow(after = 50, into = "unaware", flag = "more_unaware"))]
    unaware: Overflow<Ref<Tag>>,
}

fn main() {}
