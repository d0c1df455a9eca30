//! A patch is applied to an update of its model.
#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

#[derive(Patch)]
#[patch(of = Country)]
struct CountryPatch {
    name: Option<String>,
}

async fn patch_of_another_model(db: Db, patch: CountryPatch) -> odm::Result<()> {
    db.update::<User>("jane").apply(patch).await?;
    Ok(())
}

async fn no_patch(db: Db, name: Name) -> odm::Result<()> {
    db.update::<User>("jane").apply(name).await?;
    Ok(())
}

async fn value_instead_of_an_option(db: Db) -> odm::Result<()> {
    db.update::<Country>("fr").set_some(|c| c.name(), "France").await?;
    Ok(())
}

fn main() {}
