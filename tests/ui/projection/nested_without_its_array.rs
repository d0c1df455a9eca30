#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = Post)]
struct Card {
    comments: Text,
}

#[derive(Deserialize, Projection)]
#[projection(of = Comment)]
struct Text {
    text: String,
}

fn main() {}
