//! Invalid operations on overflow arrays.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "pages")]
struct Page {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 10)]
    words: Vec<String>,
    #[embed(overflow(after = 50, into = "extra_lines"))]
    lines: Overflow<String>,
}

#[derive(Schema)]
#[schema(models(Page))]
struct Book;

async fn used(db: odm::Database<Book>) -> odm::Result<()> {
    db.update::<Page>(1).pop_last(|p| p.lines()).await?;
    db.update::<Page>(1).push_with(|p| p.lines(), ["x"], |push| push.at(0)).await?;
    db.update::<Page>(1).push(|p| p.lines().resident(), "x").await?;
    db.update::<Page>(1).push(|p| p.lines(), 7).await?;
    db.find::<Page>().filter(|p| p.lines().contains("x")).all().await?;
    db.find::<Page>().filter(|p| p.lines().excludes("x")).all().await?;
    db.find::<Page>().filter(|p| p.lines().any(|line| line.eq("x"))).all().await?;
    db.get::<Page>(1).elements(|p| p.words()).all().await?;
    db.arrays::<Page>().any(|p| p.words(), |word| word.eq("x")).await?;
    Ok(())
}

fn main() {}
