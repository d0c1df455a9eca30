#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = User)]
struct Card {
    name: Last,
}

#[derive(Deserialize)]
struct Last {
    last: String,
}

fn main() {}
