use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(
    collection = "posts",
    projection(PostCard, without(text, title, title)),
    projection(Nothing, without(id, title, body)),
    projection(Empty),
    projection(Wrong, with(body)),
    projection = Card
)]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    body: String,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[serde(bound = "")]
#[document(collection = "boxes", projection(BoxCard, without(label)))]
struct Crate<T: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    label: String,
    #[embed(max = 9)]
    items: Vec<T>,
}

fn main() {}
