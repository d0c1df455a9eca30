//! References with delete rules or `exists`: every reference has an existing target.

use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Filter,
    action::BulkResult,
    backend::{
        Fault, Faults,
        operation::{Direction, Index, Operation},
    },
    prelude::*,
};
use odm_tests::aftermath::expire_leases;

use crate::Fixture;
use crate::crash::{CrashTest, Write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    author: Ref<User>,
}

/// A comment. A delete of the post, or of the answered comment, cascades to the comment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "comments", version)]
struct Comment {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[serde(rename = "on")]
    #[reference(on_delete = cascade)]
    post: Ref<Post>,
    #[reference(on_delete = cascade)]
    answers: Option<Ref<Comment>>,
    version: i64,
}

/// A shelf with a reference for each delete rule that keeps the shelf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "shelves", timestamps)]
struct Shelf {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    first: Option<Ref<Post>>,
    #[reference(on_delete = pull, max = 10)]
    posts: Vec<Ref<Post>>,
    #[reference(exists, on_delete = keep)]
    was: Option<Ref<Post>>,
    updated_at: DateTime,
    created_at: DateTime,
}

/// A like. A post can have thousands of likes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "likes")]
struct Like {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    post: Ref<Post>,
}

#[derive(Schema)]
#[schema(models(User, Post, Comment, Shelf, Like))]
struct Blog;
type Db = odm::Database<Blog>;

async fn insert_blog(db: &Db) {
    for id in ["alice", "bob"] {
        db.insert(User { id: id.into() }).await.unwrap();
    }
    db.insert_many([post(1, "alice"), post(2, "alice"), post(3, "bob")])
        .await
        .unwrap();
    db.insert_many([
        comment(1, 1, None),
        comment(2, 1, Some(1)),
        comment(3, 2, Some(2)),
        comment(4, 2, None),
    ])
    .await
    .unwrap();
    db.insert_many([shelf(1, &[1, 2]), shelf(2, &[2, 1, 3]), shelf(3, &[])])
        .await
        .unwrap();
}

fn post(id: i64, author: &str) -> Post {
    Post {
        id,
        author: Ref::new(author),
    }
}

fn comment(id: i64, post: i64, answers: Option<i64>) -> NewComment {
    NewComment {
        id,
        text: String::new(),
        post: Ref::new(post),
        answers: answers.map(Ref::new),
    }
}

fn shelf(id: i64, posts: &[i64]) -> NewShelf {
    let posts: Vec<_> = posts.iter().map(|post| Ref::new(*post)).collect();
    NewShelf {
        id,
        first: posts.first().cloned(),
        was: posts.first().cloned(),
        posts,
    }
}

async fn comments(db: &Db) -> Vec<i64> {
    let all = db.find::<Comment>().sort(|c| c.id().asc()).all();
    all.await
        .unwrap()
        .into_iter()
        .map(|comment| comment.id)
        .collect()
}

async fn assert_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

pub async fn dangling_references_are_rejected(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_blog(&db).await;
    let refused = |error: odm::Error, path: &str, id: i64| {
        assert_eq!(
            (error.kind(), error.path(), error.id()),
            (ErrorKind::Dangling, Some(path), Some(&id.into())),
            "{error}"
        );
    };
    refused(db.insert(comment(9, 9, None)).await.unwrap_err(), "on", 9);
    let answer = comment(9, 1, Some(8));
    refused(db.insert(answer).await.unwrap_err(), "answers", 8);
    let many = [comment(9, 1, None), comment(10, 9, None)];
    let error = db.insert_many(many).await.unwrap_err();
    let kept = if fixture.backend().capabilities().transactions {
        0
    } else {
        1
    };
    assert_eq!(error.inserted(), Some(kept));
    refused(error, "on", 9);
    db.delete_many::<Comment>(|c| c.id().gt(4)).await.unwrap();

    let nowhere = || Ref::new(9);
    let update = db.update::<Comment>(1).set(|c| c.post(), nowhere());
    refused(update.set(|c| c.text(), "lost").await.unwrap_err(), "on", 9);
    let update = db.update::<Shelf>(3).push(|s| s.posts(), nowhere());
    refused(update.await.unwrap_err(), "posts", 9);
    let moved = db.modify::<Comment>(1, |comment| comment.post = nowhere());
    refused(moved.await.unwrap_err(), "on", 9);
    let all = db.update_many::<Comment>(|_| Filter::all());
    refused(
        all.set(|c| c.post(), nowhere())
            .await
            .map(drop)
            .unwrap_err(),
        "on",
        9,
    );
    // An upsert with a dangling reference neither updates nor inserts.
    let upsert = db.update::<Comment>(7).set(|c| c.text(), "new");
    refused(
        upsert
            .or_insert(comment(7, 9, None))
            .await
            .map(drop)
            .unwrap_err(),
        "on",
        9,
    );
    let bulk = db
        .bulk()
        .add(db.insert(comment(5, 1, None)))
        .add(db.insert(comment(6, 9, None)))
        .add(db.update::<Comment>(4).set(|c| c.post(), Ref::new(3)))
        .unordered()
        .await
        .unwrap();
    let BulkResult::Failed(error) = &bulk.results[1] else {
        panic!("{:?}", bulk.results);
    };
    refused(error.clone(), "on", 9);
    assert_eq!((bulk.inserted, bulk.matched), (1, 1));

    assert_eq!(comments(&db).await, [1, 2, 3, 4, 5]);
    let one = db.get::<Comment>(1).await.unwrap();
    assert_eq!((one.text.as_str(), one.post), ("", Ref::new(1)));
    // Writes with existing targets succeed.
    let upsert = db.update::<Comment>(7).set(|c| c.text(), "new");
    let new = upsert.or_insert(comment(7, 3, None)).await.unwrap();
    assert!(new.is_inserted());
    db.update::<Shelf>(3)
        .push(|s| s.posts(), Ref::new(2))
        .await
        .unwrap();
    assert_clean(&db).await;
}

pub async fn delete_applies_the_delete_rules(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_blog(&db).await;
    let error = db.delete::<User>("alice").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.id()),
        (ErrorKind::Restricted, Some(&"alice".into()))
    );
    assert!(
        error
            .to_string()
            .contains("2 documents in `posts` reference the document by `author`"),
        "{error}"
    );
    let before = db.get::<Shelf>(2).await.unwrap();
    assert_eq!(db.delete::<Post>(1).await.unwrap().deleted, 1);
    // Comment 3 answered a comment on the deleted post.
    assert_eq!(comments(&db).await, [4]);
    let one = db.get::<Shelf>(1).await.unwrap();
    assert_eq!(
        (one.first, one.posts, one.was),
        (None, vec![Ref::new(2)], Some(Ref::new(1)))
    );
    let two = db.get::<Shelf>(2).await.unwrap();
    assert_eq!(two.posts, [Ref::new(2), Ref::new(3)]);
    assert!(two.updated_at >= before.updated_at);
    // The check accepts a dangling reference with the rule `keep`.
    assert_clean(&db).await;

    let delete = db.delete_many::<Post>(|p| p.author().eq(Ref::new("alice")));
    assert_eq!(delete.await.unwrap().deleted, 1);
    assert_eq!(comments(&db).await, Vec::<i64>::new());
    db.delete::<User>("alice").await.unwrap();
    let bob = db.delete::<User>("bob").returning().await.unwrap_err();
    assert_eq!(bob.kind(), ErrorKind::Restricted);
    let bulk = db
        .bulk()
        .add(db.delete::<User>("bob"))
        .add(db.delete::<Post>(3))
        .add(db.delete::<User>("bob"))
        .unordered()
        .await
        .unwrap();
    assert!(matches!(bulk.results[0], BulkResult::Failed(_)));
    assert_eq!(bulk.deleted, 2);
    assert_clean(&db).await;
}

pub async fn a_dry_run_reports_the_delete_set(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_blog(&db).await;
    let dry = db.delete::<Post>(1).dry_run().await.unwrap();
    assert_eq!(
        dry.to_string(),
        "3 of comments would be deleted\n1 of posts would be deleted\n2 of shelves would lose a reference\n"
    );
    let dry = db.delete::<User>("alice").dry_run().await.unwrap();
    assert_eq!(
        dry.error.map(|error| error.kind()),
        Some(ErrorKind::Restricted)
    );
    let dry = db.delete::<Post>(1).when(|p| p.id().eq(2)).dry_run().await;
    assert_eq!(dry.unwrap().to_string(), "nothing would be deleted\n");
    // The dry runs changed no document. The delete then has the predicted result.
    assert_eq!(comments(&db).await, [1, 2, 3, 4]);
    let all = db.delete_many::<Post>(|_| Filter::all());
    let dry = all.dry_run().await.unwrap();
    let count = |collection| dry.deleted[collection];
    assert_eq!((count("posts"), count("comments")), (3, 4));
    db.delete_many::<Post>(|_| Filter::all()).await.unwrap();
    assert_eq!(comments(&db).await, Vec::<i64>::new());
}

/// The error of a refused document has the position of the document, in an insert with shared steps and in single inserts.
pub async fn a_refused_document_has_its_position(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_blog(&db).await;
    let like = |id| Like {
        id,
        post: Ref::new(1),
    };
    db.insert(like(20)).await.unwrap();
    let likes = db
        .insert_many([like(21), like(22), like(20), like(23)])
        .await;
    let comments = [30, 31, 1, 32].map(|id| comment(id, 1, None));
    let comments = db.insert_many(comments).await;
    let stored = match fixture.backend().capabilities().transactions {
        true => 0,
        false => 2,
    };
    for error in [likes.unwrap_err(), comments.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
        assert_eq!(
            (error.inserted(), error.path()),
            (Some(stored), Some("_id"))
        );
        let positions: Vec<_> = error.failures().map(|(position, _)| position).collect();
        assert_eq!(positions, [2]);
    }
    let count = db.find::<Like>().filter(|l| l.id().gt(20)).count().await;
    assert_eq!(count.unwrap(), stored as u64);
    assert_clean(&db).await;
}

/// A cascade over more documents than a batch or a transaction can hold.
pub async fn a_large_cascade_completes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert(User { id: "alice".into() }).await.unwrap();
    db.insert_many([post(1, "alice"), post(2, "alice")])
        .await
        .unwrap();
    let is_large = fixture.backend().capabilities().transactions;
    let (few, many) = if is_large {
        (1_200, 10_200)
    } else {
        (100, 200)
    };
    let answered = |id| (id > 0 && id % 10 == 0).then_some(id - 1);
    db.insert_many((0..few).map(|id| comment(id, 1, answered(id))))
        .await
        .unwrap();
    let like = |id| Like {
        id,
        post: Ref::new(2),
    };
    db.insert_many((0..many).map(like)).await.unwrap();
    assert_eq!(db.delete::<Post>(1).await.unwrap().deleted, 1);
    assert_eq!(comments(&db).await, Vec::<i64>::new());

    // A deep cascade: each comment answers the previous comment.
    let deep = if is_large { 2_000 } else { 300 };
    db.insert_many((0..deep).map(|id| comment(id, 2, (id > 0).then_some(id - 1))))
        .await
        .unwrap();
    assert_eq!(db.delete::<Comment>(0).await.unwrap().deleted, 1);
    assert_eq!(comments(&db).await, Vec::<i64>::new());

    // The process dies before the likes are deleted. From then on no write may reference the post, and recovery completes the
    // delete.
    let faults = Arc::new(Faults::new(fixture.backend()));
    let is_of_likes = |operation: &Operation| matches!(operation, Operation::Delete(delete) if delete.collection == "likes");
    faults.inject(1, is_of_likes, Fault::HangBefore);
    let dying = Db::with_backend(faults.clone());
    let done = tokio::spawn(async move { dying.delete::<Post>(2).await.map(drop) });
    while faults.pending() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    done.abort();
    if is_large {
        let error = db.insert(like(-1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dangling);
        let post = db.update::<Post>(2).set(|p| p.author(), Ref::new("alice"));
        assert_eq!(post.await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    expire_leases::<Blog>(&fixture.backend()).await.unwrap();
    assert_eq!(db.run_pending().await.unwrap(), 1);
    assert_eq!(db.find::<Post>().count().await.unwrap(), 0);
    assert_eq!(db.find::<Like>().count().await.unwrap(), 0);
    db.delete::<User>("alice").await.unwrap();

    // A `delete_many` of many documents runs in batches.
    db.insert(User { id: "bob".into() }).await.unwrap();
    db.insert(post(3, "bob")).await.unwrap();
    db.insert_many((0..many).map(|id| comment(id, 3, None)))
        .await
        .unwrap();
    let gone = db.delete_many::<Comment>(|c| c.id().gte(1));
    assert_eq!(gone.await.unwrap().deleted, many.unsigned_abs() - 1);
    assert_eq!(comments(&db).await, [0]);
}

pub async fn the_index_is_declared(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let indexes = fixture.backend().list_indexes("comments").await.unwrap();
    for field in ["on", "answers"] {
        let keys = vec![(field.to_owned(), Direction::Ascending)];
        let is_it = |index: &Index| index.keys == keys;
        assert!(indexes.iter().any(is_it), "{field}: {indexes:?}");
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Tenant(String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes", scope = tenant, soft_delete)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    tenant: Tenant,
    #[reference(on_delete = cascade)]
    topic: Ref<Topic>,
    #[reference(inverse = notes, on_delete = nullify)]
    folder: Option<Ref<Folder>>,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "topics")]
struct Topic {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "folders", soft_delete)]
struct Folder {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = folder, max = 10)]
    notes: Vec<Ref<Note>>,
    deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Note, Topic, Folder))]
struct Notes;

pub async fn references_across_scopes_and_soft_deletes(fixture: Fixture) {
    let db = odm::Database::<Notes>::with_backend(fixture.backend());
    let tenant = |name: &str| db.scope(&Tenant(name.to_owned()));
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    db.insert(Topic { id: 1 }).await.unwrap();
    for id in [1, 2, 3] {
        db.insert(NewFolder { id }).await.unwrap();
    }
    db.delete::<Folder>(3).await.unwrap();
    let note = |id, folder: i64| NewNote {
        id,
        topic: Ref::new(1),
        folder: Some(Ref::new(folder)),
    };
    acme.insert(note(1, 1)).await.unwrap();
    acme.insert(note(2, 1)).await.unwrap();
    globex.insert(note(3, 1)).await.unwrap();
    acme.delete::<Note>(2).await.unwrap();
    let listed = async |id: i64| {
        let folder = db.get::<Folder>(id).with_deleted().await.unwrap();
        folder
            .notes
            .iter()
            .map(|note| *note.id())
            .collect::<Vec<_>>()
    };
    // A soft-deleted note can be restored, so the note stays in the inverse.
    assert_eq!(listed(1).await, [1, 2, 3]);

    // The inverse of a soft-deleted folder loses entries, and accepts no new entries.
    db.delete::<Folder>(1).await.unwrap();
    let error = acme.insert(note(4, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling);
    let moved = globex
        .update::<Note>(3)
        .set(|n| n.folder(), Some(Ref::new(2)));
    moved.await.unwrap();
    assert_eq!((listed(1).await, listed(2).await), (vec![1, 2], vec![3]));

    // A restore checks new references like any write. In a bulk, each write has the scope of its own session.
    let restored = acme.restore::<Note>(2);
    let error = restored
        .set(|n| n.folder(), Some(Ref::new(3)))
        .await
        .map(drop);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Dangling);
    let restored = acme.restore::<Note>(2);
    let restored = restored.set(|n| n.folder(), Some(Ref::new(2))).await;
    assert!(restored.unwrap().is_applied());
    assert_eq!((listed(1).await, listed(2).await), (vec![1], vec![3, 2]));
    let moved = acme
        .update::<Note>(1)
        .set(|n| n.folder(), Some(Ref::new(2)));
    let delete = db.delete::<Folder>(1).permanently();
    let bulk = db.bulk().add(moved).add(delete).await.unwrap();
    assert_eq!((bulk.matched, bulk.deleted), (1, 1));
    assert_eq!(listed(2).await, [3, 2, 1]);

    // A permanent delete applies the delete rules to all tenants, and to soft-deleted documents.
    db.delete::<Folder>(2).permanently().await.unwrap();
    let three = globex.get::<Note>(3).await.unwrap();
    assert_eq!(three.folder, None);
    db.delete::<Topic>(1).await.unwrap();
    let remaining = db.all_scopes().find::<Note>().with_deleted();
    assert_eq!(remaining.count().await.unwrap(), 0);
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

/// An unfinished insert may be rolled back, so no write may reference the inserted document yet.
pub async fn an_unfinished_insert_cannot_be_referenced(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_blog(&db).await;
    let faults = Arc::new(Faults::new(fixture.backend()));
    let is_insert = |operation: &Operation| matches!(operation, Operation::Insert(_));
    faults.inject(1, is_insert, Fault::HangAfter);
    let dying = Db::with_backend(faults.clone());
    let done = tokio::spawn(async move { dying.insert(comment(50, 99, None)).await.map(drop) });
    while faults.pending() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    done.abort();
    expire_leases::<Blog>(&fixture.backend()).await.unwrap();
    let error = db.insert(comment(51, 1, Some(50))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling);
    db.run_pending().await.unwrap();
    assert_eq!(comments(&db).await, [1, 2, 3, 4]);
    assert_clean(&db).await;
}

/// Concurrent `delete_first` calls each delete a different document.
pub async fn concurrent_delete_first_picks_different_documents(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_blog(&db).await;
    let like = |id| Like {
        id,
        post: Ref::new(1),
    };
    db.insert_many((0..8).map(like)).await.unwrap();
    let takers = (0..8).map(|_| {
        let db = db.clone();
        tokio::spawn(async move {
            let first = db.delete_first::<Like>(|_| Filter::all());
            let deleted = first.sort(|l| l.id().asc()).await.unwrap();
            *deleted.applied().expect("there is one for each").id()
        })
    });
    let mut deleted = Vec::new();
    for taker in takers.collect::<Vec<_>>() {
        deleted.push(taker.await.unwrap());
    }
    deleted.sort_unstable();
    assert_eq!(deleted, (0..8).collect::<Vec<i64>>());
    assert_eq!(db.find::<Like>().count().await.unwrap(), 0);
}

/// Concurrent inserts, updates and deletes leave no dangling references.
pub async fn concurrent_writes_leave_no_dangling_references(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let workers = (0..6_i64).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut random = worker.unsigned_abs() + 1;
            for n in 0..25 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let number = (random >> 33).cast_signed();
                let (id, author) = (number % 3, ["alice", "bob"][(number / 3 % 2) as usize]);
                let done = match number / 6 % 7 {
                    0 => db.insert(User { id: author.into() }).await.map(drop),
                    1 => db.insert(post(id, author)).await.map(drop),
                    2 => db.delete::<Post>(id).await.map(drop),
                    3 => db.delete::<User>(author).await.map(drop),
                    4 => {
                        let set = db.update::<Post>(id);
                        set.set(|p| p.author(), Ref::new(author)).await.map(drop)
                    }
                    5 => {
                        let (id, posts) = (worker * 1_000 + n, [id, (id + 1) % 3]);
                        db.insert(shelf(id, &posts)).await.map(drop)
                    }
                    _ => {
                        let comment_id = worker * 1_000 + n;
                        let answers = (number % 2 == 0).then_some(comment_id - 2);
                        db.insert(comment(comment_id, id, answers)).await.map(drop)
                    }
                };
                match done {
                    Ok(()) => {}
                    Err(error) => assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::NotFound
                                | ErrorKind::DuplicateKey
                                | ErrorKind::Dangling
                                | ErrorKind::Restricted
                                | ErrorKind::Conflict
                        ),
                        "{error}"
                    ),
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_clean(&db).await;
    // No pending work is left.
    assert_eq!(db.run_pending().await.unwrap(), 0);
}

/// A write of each kind.
const WRITES: &[Write<Blog>] = &[
    ("insert", |db| {
        Box::pin(async move { db.insert(comment(9, 3, Some(1))).await.map(drop) })
    }),
    ("insert what leads nowhere", |db| {
        Box::pin(async move { db.insert(comment(9, 9, None)).await.map(drop) })
    }),
    ("set", |db| {
        Box::pin(async move {
            let set = db.update::<Comment>(1).set(|c| c.post(), Ref::new(3));
            set.await.map(drop)
        })
    }),
    ("push what is not there", |db| {
        Box::pin(async move {
            let push = db.update::<Shelf>(1).push(|s| s.posts(), Ref::new(9));
            push.await.map(drop)
        })
    }),
    ("delete with a cascade", |db| {
        Box::pin(async move { db.delete::<Post>(1).await.map(drop) })
    }),
    ("delete what must not be", |db| {
        Box::pin(async move { db.delete::<User>("alice").await.map(drop) })
    }),
    ("delete after all", |db| {
        Box::pin(async move {
            db.delete_many::<Post>(|p| p.author().eq(Ref::new("bob")))
                .await?;
            db.delete::<User>("bob").await.map(drop)
        })
    }),
];

pub async fn crashed_writes_leave_no_dangling_references(fixture: Fixture) {
    let crashes = CrashTest {
        writes: WRITES,
        begin: |db| Box::pin(insert_blog(db)),
        may_find: |_| false,
        agrees: |db, when| {
            Box::pin(async move {
                let all = db.find::<Comment>().all().await.unwrap();
                for comment in &all {
                    db.get::<Post>(&comment.post).await.unwrap();
                }
                assert_eq!(db.run_pending().await.unwrap(), 0, "{when}");
                // Later writes to the same documents succeed.
                db.delete_many::<Post>(|_| Filter::all()).await.unwrap();
                assert_eq!(comments(db).await, Vec::<i64>::new(), "{when}");
            })
        },
    };
    crashes.run(&fixture).await;
}
