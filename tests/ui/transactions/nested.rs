//! A transaction cannot contain a second transaction.
#[path = "../banks.rs"]
mod banks;

use banks::*;

async fn wrong(db: Db) -> odm::Result<()> {
    db.transaction(|tx| async move {
        tx.transaction(|inner| async move {
            inner.update::<User>("users/jane").inc(|u| u.karma(), 1).await?;
            Ok(())
        })
        .await
    })
    .await
}

fn main() {}
