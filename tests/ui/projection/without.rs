//! A projection leaves fields out at compile time, and a query alone cannot.
use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "posts", projection(PostCard, without(body)))]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    body: String,
}

#[derive(Schema)]
#[schema(models(Post))]
struct Blog;

async fn wrong(db: &odm::Database<Blog>) -> odm::Result<()> {
    let _ = db.find::<Post>().without(|p| p.body()).all().await?;
    let card = db.find::<Post>().select::<PostCard>().one().await?;
    println!("{}", card.body);
    Ok(())
}

fn main() {}
