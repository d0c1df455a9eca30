//! Settings of generated ids and of insert structs, in places without an insert struct.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", id = generated)]
struct Misnamed {
    #[serde(rename = "_id")]
    id: ObjectId,
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape, id = auto)]
struct Circle {
    #[serde(rename = "_id")]
    id: ObjectId,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", deny_unknown_fields)]
struct WithoutManagedFields {
    #[serde(rename = "_id")]
    id: ObjectId,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(deny_unknown_fields)]
struct Address {
    city: String,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(deny_unknown_fields)]
enum Color {
    Red,
}

fn main() {}
