use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "_odm.parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "")]
struct Nameless {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "prices$")]
struct Price {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "makers\0")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "system.users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
