//! Only a delete sets the deletion date.
#[path = "../scopes.rs"]
mod scopes;

use odm::bson::DateTime;
use scopes::*;

fn given(db: &Db) {
    let _ = db.insert(NewPost { id: 1, title: "a".into(), deleted_at: None });
}

fn set(db: &Db) {
    let _ = db.update::<Post>(1).set(|p| p.deleted_at(), DateTime::now());
}

fn unset(db: &Db) {
    let _ = db.update::<Post>(1).unset(|p| p.deleted_at());
}

fn main() {}
