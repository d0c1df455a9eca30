#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = User)]
struct Card {
    karma: i64,
    name: Text,
}

#[derive(Deserialize, Projection)]
#[projection(of = Comment)]
struct Text {
    text: String,
}

fn main() {}
