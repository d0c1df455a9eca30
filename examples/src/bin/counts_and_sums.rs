//! Counts and sums: several counters in a single update, and rollups of a post's comments with every write of a comment.
//!
//! ```text
//! 2 visits, 1 in the first minute
//! Hello: 3 comments, 2 shown, 12 likes
//! Hello: 2 comments, 2 shown, 9 likes
//! Again: 1 comments, 0 shown, 3 likes
//! ```
//!
//! The example runs in memory, or on the database with the URL in the first argument.

use odm::{Filter, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    title: String,
    #[embed]
    visits: Visits,
    #[count(of = Comment::post)]
    comments: i64,
    #[count(of = Comment::post, when(is_shown = true))]
    shown: i64,
    #[sum(of = Comment::post, value = likes)]
    likes: i64,
}

#[derive(Debug, Default, Serialize, Deserialize, Embedded)]
struct Visits {
    total: i64,
    #[embed(max = 60)]
    minutes: Vec<i64>,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
    is_shown: bool,
}

#[derive(Schema)]
#[schema(models(Post, Comment))]
struct Blog;
type Db = odm::Database<Blog>;

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let db = Db::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Comment>(|_| Filter::all()).await?;
    db.delete_many::<Post>(|_| Filter::all()).await?;

    for (id, title) in [(1, "Hello"), (2, "Again")] {
        let visits = Visits {
            minutes: vec![0; 60],
            ..Visits::default()
        };
        let title = title.to_owned();
        db.insert(NewPost { id, title, visits }).await?;
    }
    for minute in [0, 7] {
        db.update::<Post>(1)
            .inc(|p| p.visits().total(), 1)
            .inc(|p| p.visits().minutes().at(minute), 1)
            .await?;
    }
    let post = db.get::<Post>(1).await?;
    let first = post.visits.minutes.first().copied().unwrap_or_default();
    println!("{} visits, {first} in the first minute", post.visits.total);

    let comment = |id, likes| Comment {
        id,
        post: Ref::new(1),
        likes,
        is_shown: false,
    };
    db.insert_many([comment(1, 3), comment(2, 4), comment(3, 4)])
        .await?;
    db.update_many::<Comment>(|c| c.id().gt(1))
        .set(|c| c.is_shown(), true)
        .await?;
    db.update::<Comment>(3).inc(|c| c.likes(), 1).await?;
    show(&db, 1).await?;
    // Move a comment to the second post.
    db.update::<Comment>(1)
        .set(|c| c.post(), Ref::new(2))
        .await?;
    show(&db, 1).await?;
    show(&db, 2).await
}

async fn show(db: &Db, id: i64) -> odm::Result<()> {
    let Post {
        title,
        comments,
        shown,
        likes,
        ..
    } = db.get(id).await?;
    println!("{title}: {comments} comments, {shown} shown, {likes} likes");
    Ok(())
}
