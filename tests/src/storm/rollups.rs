//! A storm of parents and children that are inserted, changed, moved and deleted at random.

use odm::{ErrorKind, check::FindingKind, prelude::*};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::Storm;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
pub struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Comment::post)]
    comments: i64,
    #[sum(of = Comment::post, value = likes, when(shown = true))]
    likes: i64,
    #[latest(5, of = Comment::post, by = likes)]
    best: Vec<Best>,
    #[avg(of = Comment::post, value = likes)]
    average: Option<f64>,
    #[min(of = Comment::post, value = likes, when(shown = true))]
    fewest: Option<i64>,
    #[max(of = Comment::post, value = likes)]
    most: Option<i64>,
    #[computed(likes / comments, default = 0.0)]
    popularity: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
pub struct Best {
    likes: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
pub struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
    shown: bool,
}

/// The schema of the storm.
#[derive(Schema)]
#[schema(models(Post, Comment))]
pub struct Blog;
type Db = odm::Database<Blog>;

/// A storm of rollups of every kind.
#[derive(Debug)]
pub struct Rollups;

impl Storm for Rollups {
    type Schema = Blog;

    async fn fill(db: &Db, ids: i64) -> odm::Result<()> {
        for id in 0..ids / 4 {
            db.insert(NewPost { id }).await?;
        }
        Ok(())
    }

    async fn run_random_operation(db: &Db, random: &mut ChaCha8Rng, ids: i64) -> odm::Result<()> {
        let post = random.random_range(0..ids / 4);
        let id = random.random_range(0..ids * 4);
        let likes = random.random_range(0..100);
        let comment = |id| Comment {
            id,
            post: Ref::new(post),
            likes,
            shown: likes % 2 == 0,
        };
        match random.random_range(0..14) {
            0 => db.insert(NewPost { id: post }).await.map(drop),
            1 => db.delete::<Post>(post).await.map(drop),
            2..=4 => db.insert(comment(id)).await.map(drop),
            5 => {
                let some = [comment(id), comment(id + 1), comment(id + 2)];
                db.insert_many(some).await.map(drop)
            }
            6 => {
                let moved = db.update::<Comment>(id);
                moved.set(|c| c.post(), Ref::new(post)).await.map(drop)
            }
            7 => {
                let liked = db.update::<Comment>(id);
                liked.inc(|c| c.likes(), 1).await.map(drop)
            }
            8 => {
                let some = db.update_many::<Comment>(|c| c.post().eq(Ref::new(post)));
                some.set(|c| c.shown(), likes % 3 == 0).await.map(drop)
            }
            9 => {
                let shown = db.modify::<Comment>(id, |comment| comment.shown = !comment.shown);
                shown.await.map(drop)
            }
            10 => {
                let some = db.delete_many::<Comment>(|c| c.id().gte(id) & c.id().lt(id + 2));
                some.await.map(drop)
            }
            _ => db.delete::<Comment>(id).await.map(drop),
        }
    }

    fn is_expected(error: &odm::Error) -> bool {
        matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::DuplicateKey | ErrorKind::Conflict
        )
    }

    /// A plain reference may dangle after a post is deleted.
    fn may_find(kind: &FindingKind) -> bool {
        matches!(kind, FindingKind::Dangling { .. })
    }
}
