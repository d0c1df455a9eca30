//! A type parameter needs a bound that makes the type storable.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Pair<T> {
    #[embed]
    both: T,
}

fn main() {}
