//! Fields with the names of operators and of methods on fields.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "models", index(eq, -path), index(clone; unique))]
struct Model {
    #[serde(rename = "_id")]
    id: i64,
    eq: i64,
    clone: i64,
    path: String,
    fields: i64,
    filter: i64,
    all: bool,
    from_path: i64,
    validate: i64,
    into_filter: i64,
    new: i64,
    #[embed(max = 3)]
    any: Vec<Inner>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Inner {
    asc: i64,
    desc: i64,
    gt: i64,
}

pub(crate) fn main() {
    let m = Model::fields();
    let filter = m.eq().eq(1) & m.path().ne("x") & m.all().eq(true) & m.any().gt().gt(3);
    assert!(format!("{filter:?}").contains("any.gt"));
}
