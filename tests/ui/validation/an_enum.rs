use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded, garde::Validate)]
#[embedded(validate)]
enum Payment {
    Card(#[garde(length(min = 1))] String),
}

fn main() {}
