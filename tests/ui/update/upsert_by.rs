//! The key of an upsert is a field with a single value, and its closure returns the update of the upsert.
#[path = "../models.rs"]
mod models;

use models::*;

async fn by_an_array(db: Db, post: Post) -> odm::Result<()> {
    db.upsert_by(|p| p.tags(), post).await?;
    Ok(())
}

async fn another_update(db: Db, post: Post) -> odm::Result<()> {
    let other = db.update::<Post>(post.id).inc(|p| p.votes(), 1);
    db.upsert_by(|p| p.id(), post).update(|_| other).await?;
    Ok(())
}

async fn nothing_returned(db: Db, post: Post) -> odm::Result<()> {
    let upsert = db.upsert_by(|p| p.id(), post).update(|p| {
        p.inc(|p| p.votes(), 1);
    });
    upsert.await?;
    Ok(())
}

fn main() {}
