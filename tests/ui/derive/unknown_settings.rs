use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(unique(name), collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(maximum = 3)]
    names: Vec<String>,
    #[reference(unbounded)]
    makers: Vec<Ref<Part>>,
}

fn main() {}
