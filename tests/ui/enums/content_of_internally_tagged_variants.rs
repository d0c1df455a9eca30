use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Invoice {
    kind: String,
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
enum Taken {
    Invoice(Invoice),
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "type")]
enum Payment {
    Note(String),
    Perhaps(Option<Invoice>),
    Several(#[embed(max = 3)] Vec<Invoice>),
    Map(std::collections::BTreeMap<String, i64>),
}

fn main() {}
