//! A type parameter is one of which it is known that it can be stored.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Pair<T> {
    #[embed]
    both: T,
}

fn main() {}
