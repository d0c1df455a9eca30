#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = User)]
struct Card {
    karma: i64,
}

fn use_it(db: &Db) {
    let _ = db.find::<Post>().select::<Card>();
}

fn main() {}
