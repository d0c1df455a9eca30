#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize, Projection)]
#[projection(of = Name)]
struct Last {
    last: String,
}

fn use_it(db: &Db) {
    let _ = db.find::<User>().select::<Last>();
}

fn main() {}
