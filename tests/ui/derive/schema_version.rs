use odm::{bson, prelude::*};

fn upgrade(_from: u32, _document: &mut bson::Document) -> odm::Result<()> {
    Ok(())
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "firsts", schema_version = 1, upgrade = upgrade)]
struct First {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lost", schema_version = 2)]
struct WithoutUpgrade {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "unversioned", upgrade = upgrade)]
struct WithoutVersion {
    #[serde(rename = "_id")]
    id: i64,
}

fn of_another_form(_document: &mut bson::Document) {}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "others", schema_version = 2, upgrade = of_another_form)]
struct OfAnotherForm {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
