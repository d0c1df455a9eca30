//! Many tasks that insert, change, move and delete documents, and those at which they are counted.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use odm::{ErrorKind, check::Fault, prelude::*};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Fixture;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Comment::post)]
    comments: i64,
    #[sum(of = Comment::post, value = likes, when(shown = true))]
    likes: i64,
    #[latest(5, of = Comment::post, by = likes)]
    best: Vec<Best>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[embedded(of = Comment)]
struct Best {
    likes: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "comments")]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    post: Ref<Post>,
    likes: i64,
    shown: bool,
}

#[derive(Schema)]
#[schema(models(Post, Comment))]
struct Blog;
type Db = odm::Database<Blog>;

/// How many tasks there are, how many operations each does, and how many documents there can be of a model.
fn size() -> (u64, usize, i64) {
    match std::env::var("ODM_STORM").as_deref() {
        Ok("full") => (32, 6_250, 60),
        _ => (8, 40, 12),
    }
}

/// One operation of any kind.
async fn act(db: &Db, random: &mut ChaCha8Rng, ids: i64) -> odm::Result<()> {
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

/// 8 tasks with 40 operations each; with `ODM_STORM=full` 32 with 6,250.
pub async fn at_rest_every_count_is_exact(fixture: Fixture) {
    let (tasks, operations, ids) = size();
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    for id in 0..ids / 4 {
        db.insert(NewPost { id }).await.unwrap();
    }
    let told = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let workers = (0..tasks).map(|worker| {
        let (db, told) = (db.clone(), told.clone());
        tokio::spawn(async move {
            let mut random = ChaCha8Rng::seed_from_u64(worker);
            for _ in 0..operations {
                let done = act(&db, &mut random, ids).await;
                let kind = match &done {
                    Ok(()) => "done".to_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                *told.lock().unwrap().entry(kind).or_default() += 1;
                if let Err(error) = done {
                    assert!(is_expected(&error), "{error}");
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let began = Instant::now();
    db.settled().within(Duration::from_secs(120)).await.unwrap();
    let mut report = db.check().await.unwrap();
    // A plain reference may lead to a post that was deleted.
    report
        .findings
        .retain(|finding| !matches!(finding.fault, Fault::Dangling { .. }));
    let told = told.lock().unwrap().clone();
    println!(
        "{tasks} x {operations} operations: {told:?}; settled after {:?}; {} documents, {} references",
        began.elapsed(),
        report.documents,
        report.references
    );
    assert!(report.is_clean(), "{report}");
    assert!(
        told["done"] > usize::try_from(tasks).unwrap() * operations / 3,
        "{told:?}"
    );
}
