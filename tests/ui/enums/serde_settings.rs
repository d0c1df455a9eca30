use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
enum Payment {
    Card { number: String },
    #[serde(skip_serializing)]
    Once { number: String },
    #[serde(untagged)]
    Unknown(String),
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(deny_unknown_fields)]
enum Strict {
    Card {
        #[index]
        number: String,
        #[serde(flatten)]
        more: std::collections::BTreeMap<String, i64>,
    },
}

fn main() {}
