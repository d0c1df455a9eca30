//! A field that serde renames is stored under the new name.

use odm::{field::Place as _, prelude::*};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people", index(first_name))]
#[serde(rename_all = "camelCase")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    first_name: String,
    #[serde(rename = "given")]
    last_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip)]
    #[expect(dead_code, reason = "it is not stored")]
    cached: bool,
}

pub(crate) fn main() {
    let p = Person::fields();
    assert_eq!(p.first_name().path().dotted().unwrap(), "firstName");
    assert_eq!(p.last_name().path().dotted().unwrap(), "given");
    assert_eq!(p.note().path().dotted().unwrap(), "note");
}
