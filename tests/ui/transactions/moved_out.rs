//! The closure can run again, so it cannot move a captured value out.
#[path = "../banks.rs"]
mod banks;

use banks::*;

async fn wrong(db: Db, user: User) -> odm::Result<()> {
    db.transaction(|tx| async move {
        tx.insert(NewUser { name: user.name, karma: 0 }).await?;
        Ok(())
    })
    .await
}

fn main() {}
