use odm::prelude::*;

#[derive(Clone, Serialize, Deserialize, Embedded)]
struct Size {
    width: i64,
    height: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(nam), index(name, -size.depth))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[embed]
    size: Size,
}

fn main() {}
