use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Owner {
    One(#[reference(max = 5)] Ref<User>),
    Perhaps {
        #[reference(max = 5)]
        user: Option<Ref<User>>,
    },
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
enum Tagged {
    Beside(#[reference] Ref<User>),
}

fn main() {}
