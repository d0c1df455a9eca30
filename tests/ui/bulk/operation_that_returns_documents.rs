#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId, user: User) {
    let update = db.update::<Post>(id).inc(|p| p.votes(), 1).returning_after();
    let _ = db.bulk().add(update);
    let upsert = db.update::<User>("a").inc(|u| u.karma(), 1).or_insert(user);
    let _ = db.bulk().add(upsert.returning_after());
    let _ = db.bulk().add(db.find::<Post>());
}

fn main() {}
