#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
#[allow(unused_imports)]
use odm::{Database, prelude::*};

#[derive(Schema)]
#[schema(models(Country))]
struct Other<T>(T);

fn main() {}
