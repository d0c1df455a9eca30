use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
enum Part {
    Wheel,
    Axle,
}

fn main() {}
