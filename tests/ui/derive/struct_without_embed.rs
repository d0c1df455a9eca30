use odm::prelude::*;

#[derive(Clone, Serialize, Deserialize, Embedded)]
struct Size {
    width: i64,
    height: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    size: Size,
    packed: Option<Size>,
}

fn main() {}
