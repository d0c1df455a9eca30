//! A unique index on a field that can be empty: a second empty value would be a duplicate.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Address {
    city: String,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    sku: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(
    collection = "posts",
    index(blog, slug; unique),
    index(blog, parent; unique),
    index(size, width; unique),
    index(blog, tags; unique),
    index(lines.sku; unique),
    index(home.city; unique, sparse)
)]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    blog: i64,
    slug: Option<String>,
    #[reference]
    parent: Option<Ref<Post>>,
    size: Option<i64>,
    width: Option<i64>,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[index(unique)]
    #[embed(max = 3)]
    names: Vec<String>,
    #[embed(max = 3)]
    lines: Vec<Line>,
    #[embed]
    home: Option<Address>,
}

fn main() {}
