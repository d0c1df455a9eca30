//! A chain of copies is too long: the compiler follows 16 copies.
use odm::prelude::*;

macro_rules! links {
    ($($name:ident in $collection:literal of $other:ident),*) => {$(
        #[derive(Serialize, Deserialize, Document)]
        #[document(collection = $collection)]
        struct $name {
            #[serde(rename = "_id")]
            id: i64,
            #[reference]
            next: Ref<$other>,
            #[denormalize(from = next.text)]
            text: String,
        }
    )*};
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "ends")]
struct End {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
}

links! {
    L2 in "l2" of L3,
    L3 in "l3" of L4,
    L4 in "l4" of L5,
    L5 in "l5" of L6,
    L6 in "l6" of L7,
    L7 in "l7" of L8,
    L8 in "l8" of L9,
    L9 in "l9" of L10,
    L10 in "l10" of L11,
    L11 in "l11" of L12,
    L12 in "l12" of L13,
    L13 in "l13" of L14,
    L14 in "l14" of L15,
    L15 in "l15" of L16,
    L16 in "l16" of L17,
    L17 in "l17" of L18,
    L18 in "l18" of End
}

#[derive(Schema)]
#[schema(models(End, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13, L14, L15, L16, L17, L18))]
struct Chain;

fn main() {}
