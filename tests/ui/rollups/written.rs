//! A rollup has no setter, and a schema with the parent must contain the child model.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Comment::post)]
    comments: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    #[denormalize(from = post.comments)]
    beside: i64,
}

#[derive(Schema)]
#[schema(models(Post, Comment))]
struct Blog;

#[derive(Schema)]
#[schema(models(Post))]
struct Alone;

async fn count(db: odm::Database<Blog>) -> odm::Result<odm::action::Updated> {
    db.update::<Post>(1).inc(|p| p.comments(), 1).await
}

async fn whole(db: odm::Database<Blog>, post: Post) -> odm::Result<Post> {
    db.insert(post).await
}

fn main() {}
