#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

async fn wrong(db: &Db, id: ObjectId) -> odm::Result<i64> {
    let spent = db
        .update::<Post>(id)
        .when(|p| p.votes().gte(5))
        .inc(|p| p.votes(), -5)
        .returning_after()
        .await?;
    Ok(spent.votes)
}

fn main() {}
