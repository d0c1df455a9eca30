use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
enum External {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = External)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
#[serde(tag = "kind", content = "value")]
enum Adjacent {
    Square(Square),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Adjacent)]
struct Square {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
#[serde(untagged)]
enum Untagged {
    Line(Line),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Untagged)]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
