#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let invoice = Invoice { number: "1".into(), due: 1 };
    let _ = db.update::<Order>(1).set(|o| o.payment().invoice(|i| i), invoice);
}

fn main() {}
