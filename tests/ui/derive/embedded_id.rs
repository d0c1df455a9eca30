use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Size {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
