use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "size.width")]
    width: i64,
    #[serde(rename = "$size")]
    size: i64,
    #[serde(rename = "_odm")]
    odm: i64,
    #[serde(rename = "")]
    nothing: i64,
}

fn main() {}
