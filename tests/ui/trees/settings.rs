//! Invalid settings of a tree.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct MissingField {
    #[serde(rename = "_id")]
    id: i64,
    #[tree(parent = above)]
    ancestors: Vec<Ref<MissingField>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct WithoutRule {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    parent: Option<Ref<WithoutRule>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<WithoutRule>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct Settings {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Option<Ref<Settings>>,
    #[tree]
    first: Vec<Ref<Settings>>,
    #[tree(parent = parent, max = 0)]
    second: Vec<Ref<Settings>>,
    #[tree(parnet = parent)]
    third: Vec<Ref<Settings>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct Twice {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Option<Ref<Twice>>,
    #[reference(exists)]
    owner: Option<Ref<Twice>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Twice>>,
    #[tree(parent = owner)]
    owners: Vec<Ref<Twice>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct MissingParent {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(default)]
    #[reference(exists)]
    parent: Option<Ref<MissingParent>>,
    #[tree(parent = parent)]
    #[reference(max = 5)]
    ancestors: Vec<Ref<MissingParent>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
#[serde(bound = "")]
struct Generic<T: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    parent: Option<Ref<Generic<T>>>,
    #[tree(parent = parent)]
    ancestors: Vec<Ref<Generic<T>>>,
    #[serde(skip)]
    marker: std::marker::PhantomData<T>,
}

fn main() {}
