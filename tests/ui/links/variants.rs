//! Invalid settings of references in variants.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    assets: Vec<Ref<User>>,
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "kind", content = "id")]
enum Owner {
    User(#[reference(inverse = assets)] Ref<User>),
    Users(#[reference(inverse = assets, on_delete = pull)] Vec<Ref<User>>),
    Pair(#[reference(inverse_of = owner)] Ref<User>, #[reference(on_delete = cascade)] Ref<User>),
    Named {
        #[reference(inverse = assets, on_delete = restrict)]
        user: Ref<User>,
        #[reference(inverse_of = owner, max = 5)]
        users: Vec<Ref<User>>,
        #[reference(on_delete = keep)]
        kept: Ref<User>,
        #[reference(on_delete = forget)]
        word: Ref<User>,
    },
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[reference(on_delete = restrict)]
    user: Ref<User>,
}

fn main() {}
