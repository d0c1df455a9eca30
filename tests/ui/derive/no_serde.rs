use odm::prelude::*;

#[derive(Document)]
#[document(collection = "parts")]
struct Part {
    id: i64,
}

fn main() {}
