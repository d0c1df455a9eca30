#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

async fn wrong(db: &Db) {
    let _ = db
        .transaction(|tx| async move {
            tx.insert(Draft {
                id: 1,
                author: Ref::new("jane"),
            })
            .await?;
            Ok(())
        })
        .await;
}

fn main() {}
