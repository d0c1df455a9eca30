#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db
        .find::<Post>()
        .with(|p| p.author())
        .with(|p| p.author())
        .with(|p| p.author())
        .with(|p| p.author())
        .with(|p| p.author())
        .with(|p| p.author())
        .with(|p| p.editor());
}

fn main() {}
