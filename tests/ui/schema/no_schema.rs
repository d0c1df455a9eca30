#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
#[allow(unused_imports)]
use odm::{Database, prelude::*};

struct Other;

fn wrong(db: &Database<Other>) {
    let _ = db.find::<Country>();
}

fn main() {}
