//! MongoDB does not support an index over two arrays of a document.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shirts", index(name, sizes, tags), index(lines.price, lines.count), index(sizes, makers))]
struct Shirt {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[embed(max = 3)]
    sizes: Vec<i64>,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[embed(max = 3)]
    lines: Vec<Line>,
    #[reference(max = 3)]
    makers: Vec<Ref<Shirt>>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    price: i64,
    count: i64,
}

fn main() {}
