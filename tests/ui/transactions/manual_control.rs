//! A transaction is a closure: there is no guard to begin, commit or abort by hand.
#[path = "../banks.rs"]
mod banks;

use banks::*;

async fn begun(db: Db) -> odm::Result<()> {
    let tx = db.begin().await?;
    Ok(())
}

async fn committed(db: Db) -> odm::Result<()> {
    db.transaction(|tx| async move {
        tx.update::<User>("users/jane").inc(|u| u.karma(), 1).await?;
        tx.commit().await
    })
    .await
}

async fn aborted(db: Db) -> odm::Result<()> {
    db.transaction(|tx| async move {
        tx.update::<User>("users/jane").inc(|u| u.karma(), 1).await?;
        tx.abort().await
    })
    .await
}

fn main() {}
