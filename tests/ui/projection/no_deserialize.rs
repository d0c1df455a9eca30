#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Projection)]
#[projection(of = Post)]
struct Card {
    title: String,
}

fn main() {}
