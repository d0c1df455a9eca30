#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = Post)]
struct Card {
    comments: Vec<Text>,
}

#[derive(Deserialize, Projection)]
#[projection(of = Comment)]
struct Text {
    text: String,
    votes: String,
}

fn main() {}
