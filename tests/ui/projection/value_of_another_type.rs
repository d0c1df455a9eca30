#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = Post)]
struct Card {
    title: String,
    votes: i32,
}

fn main() {}
