use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", shared(circle: i64, kind: String))]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
    Id(Named),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    circle: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Named {
    #[serde(rename = "_id")]
    id: i64,
    circle: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "others", shared(color))]
#[serde(tag = "kind")]
enum Other {
    Line(Line),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Other)]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
