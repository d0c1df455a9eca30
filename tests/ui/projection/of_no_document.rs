#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = ObjectId)]
struct Card {
    first: String,
}

fn main() {}
