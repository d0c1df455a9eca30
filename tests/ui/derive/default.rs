//! A serde `default` is not stored, so no backend sees the value.

use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded, Default)]
struct Size {
    width: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(default = "three")]
    level: i32,
    #[serde(default)]
    is_active: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    votes: i64,
    #[serde(default = "some")]
    rank: Option<i64>,
}

fn three() -> i32 {
    3
}

fn some() -> Option<i64> {
    Some(1)
}

fn is_zero(votes: &i64) -> bool {
    *votes == 0
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "boxes")]
struct Crate {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    #[serde(default)]
    size: Size,
    #[embed]
    #[serde(default)]
    maybe: Option<Size>,
    #[embed]
    #[serde(default)]
    sizes: BTreeMap<String, Size>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lines")]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    part: Ref<Part>,
    #[denormalize(from = part.level)]
    level: i32,
    #[serde(default)]
    quantity: i64,
    #[computed(quantity * 2)]
    double: i64,
}

#[derive(Deserialize, Projection)]
#[projection(of = Part)]
struct Level {
    level: i32,
}

#[derive(Schema)]
#[schema(models(Part, Crate, Line))]
struct Shop;

async fn questions(db: odm::Database<Shop>) -> odm::Result<()> {
    db.find::<Part>().filter(|p| p.level().eq(3)).all().await?;
    db.delete_many::<Part>(|p| p.is_active().ne(false)).await?;
    db.find::<Part>().sort(|p| p.votes().desc()).all().await?;
    db.update::<Part>(1).inc(|p| p.votes(), 1).await?;
    db.find::<Part>().filter(|p| p.rank().is_some()).all().await?;
    db.find::<Part>().sum(|p| p.votes()).await?;
    db.find::<Part>().group_by(|p| p.level()).select(|g| g.count()).all().await?;
    db.find::<Part>().distinct(|p| p.level()).await?;
    // Tests for existence and writes of a value are allowed.
    db.update_many::<Part>(|p| !p.level().exists()).set(|p| p.level(), 3).await?;
    Ok(())
}

fn main() {}
