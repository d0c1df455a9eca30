//! The closure may run again, so what it is given is still there then.
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
