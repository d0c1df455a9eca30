//! A transaction runs only when awaited.
#![deny(unused_must_use)]
#[path = "../banks.rs"]
mod banks;

use banks::*;

async fn wrong(db: Db) -> odm::Result<()> {
    db.transaction(async |tx| -> odm::Result<()> {
        tx.update::<User>("users/jane").inc(|u| u.karma(), 1).await?;
        Ok(())
    });
    Ok(())
}

fn main() {}
