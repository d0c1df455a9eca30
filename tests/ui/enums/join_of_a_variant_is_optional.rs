#[path = "../enums.rs"]
mod enums;

use enums::*;
use odm::prelude::*;

async fn wrong(db: &Db) -> odm::Result<()> {
    let (_, customer) = db.find::<Order>().with(|o| o.payment().account(|a| a.of())).one().await?;
    match customer.get() {
        Loaded(customer) => println!("{}", customer.id),
        Missing(_) => {}
    }
    Ok(())
}

fn main() {}
