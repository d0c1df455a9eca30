use odm::prelude::*;

#[derive(Serialize, Deserialize)]
struct Color {
    red: u8,
}

#[derive(Serialize, Deserialize)]
struct Weight(f64);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    color: Color,
    weight: Weight,
}

fn main() {}
