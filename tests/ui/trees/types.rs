//! Parents and ancestors of the wrong type, and a tree outside of a document.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "other")]
struct Other {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct WithoutRoots {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Ref<WithoutRoots>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<WithoutRoots>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "b")]
struct TwoModels {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Option<Ref<Other>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Other>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "c")]
struct Ids {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Option<Ref<Ids>>,
    #[tree(parent = parent)]
    ancestors: Vec<i64>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Node)]
struct Leaf {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    parent: Option<Ref<Leaf>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Leaf>>,
}

#[derive(Serialize, Deserialize, Document)]
#[serde(tag = "kind")]
#[document(collection = "nodes")]
enum Node {
    Leaf(Leaf),
}

#[derive(Serialize, Deserialize, Embedded)]
struct Position {
    #[reference(exists)]
    parent: Option<Ref<Other>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Other>>,
}

fn main() {}
