#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

#[deny(unused_must_use)]
async fn wrong(db: &Db, id: ObjectId) -> odm::Result<()> {
    db.bulk().add(db.delete::<Post>(id)).await?;
    Ok(())
}

fn main() {}
