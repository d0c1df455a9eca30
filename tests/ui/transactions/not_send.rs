//! The work of a transaction can continue on another thread, so it must be `Send`.
use std::rc::Rc;

#[path = "../banks.rs"]
mod banks;

use banks::*;

async fn wrong(db: Db) -> odm::Result<()> {
    db.transaction(|tx| async move {
        let karma = Rc::new(1);
        tx.update::<User>("users/jane").inc(|u| u.karma(), 1).await?;
        println!("{karma}");
        Ok(())
    })
    .await
}

fn main() {}
