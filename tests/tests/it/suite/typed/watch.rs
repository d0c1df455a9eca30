//! Tests of typed change streams.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use odm::{
    ErrorKind, ResumeToken,
    backend::operation::{DocumentChange, InsertOperation, UpdateOperation},
    bson::{Bson, rawdoc},
    prelude::*,
    watch::{AnyChange, AnyChangeStream, Change, ChangeStream, Event, Watch},
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Comment {
    who: String,
    votes: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "posts")]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "by")]
    author: String,
    title: String,
    subtitle: Option<String>,
    #[embed(max = 5)]
    comments: Vec<Comment>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "authors")]
struct Author {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Schema)]
#[schema(models(Post, Author))]
struct Blog;
type Db = odm::Database<Blog>;

fn post(id: i64, author: &str) -> Post {
    let comment = Comment {
        who: "jane".into(),
        votes: 0,
    };
    Post {
        id,
        author: author.into(),
        title: format!("post {id}"),
        subtitle: Some("…".into()),
        comments: vec![comment],
    }
}

/// Watches posts. Returns `None` if the backend does not support change streams and reports the lack.
async fn watch_if_supported(watch: Watch<Post>, fixture: &Fixture) -> Option<ChangeStream<Post>> {
    let can = fixture.backend().capabilities().change_streams;
    match watch.await {
        Ok(changes) => {
            assert!(can);
            Some(changes)
        }
        Err(error) => {
            assert!(!can && error.is_unsupported(), "{error}");
            assert_eq!(error.model(), Some("Post"));
            None
        }
    }
}

async fn next_change(changes: &mut ChangeStream<Post>) -> odm::Result<Change<Post>> {
    let change = tokio::time::timeout(Duration::from_secs(30), changes.next());
    change.await.expect("a change in time").expect("one more")
}

pub async fn changes_arrive_in_order(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let Some(mut changes) = watch_if_supported(db.watch::<Post>(), &fixture).await else {
        return;
    };
    let before = DateTime::now().timestamp_millis();
    db.insert(post(1, "alex")).await.unwrap();
    db.insert(Author { id: "alex".into() }).await.unwrap();
    db.update::<Post>(1)
        .set(|p| p.title(), "another")
        .set(|p| p.comments().at(0).votes(), 7)
        .await
        .unwrap();
    let mut edited = db.edit::<Post>(1).await.unwrap();
    edited.subtitle = None;
    db.save(&mut edited).await.unwrap();
    db.delete::<Post>(1).await.unwrap();

    let change = next_change(&mut changes).await.unwrap();
    assert_eq!(change.id, 1);
    assert!((change.time.timestamp_millis() - before).abs() < 60_000);
    assert!(matches!(change.event, Event::Inserted(inserted) if inserted == post(1, "alex")));

    let change = next_change(&mut changes).await.unwrap();
    let Event::Updated {
        fields,
        document: None,
    } = change.event
    else {
        panic!("{change:?}");
    };
    let mut paths: Vec<&str> = fields.paths().collect();
    paths.sort_unstable();
    assert_eq!(paths, ["comments.0.votes", "title"]);
    assert_eq!(
        fields.value(|p| p.title()).unwrap().as_deref(),
        Some("another")
    );
    assert_eq!(fields.value(|p| p.author()).unwrap(), None);
    assert_eq!(
        fields.value(|p| p.comments().at(0).votes()).unwrap(),
        Some(7)
    );
    assert!(fields.contains(|p| p.comments()) && fields.contains(|p| p.comments().votes()));
    assert!(!fields.contains(|p| p.comments().who()) && !fields.contains(|p| p.author()));

    let change = next_change(&mut changes).await.unwrap();
    let Event::Updated { fields, .. } = change.event else {
        panic!("{change:?}");
    };
    assert!(fields.contains(|p| p.subtitle()) && !fields.contains(|p| p.title()));
    let change = next_change(&mut changes).await.unwrap();
    assert!(change.id == 1 && matches!(change.event, Event::Deleted));
    assert!(changes.next().now_or_never().is_none());
}

pub async fn a_token_resumes_after_its_change(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let Some(mut changes) = watch_if_supported(db.watch::<Post>(), &fixture).await else {
        return;
    };
    let start = changes.token();
    for id in 1..=4 {
        db.insert(post(id, "alex")).await.unwrap();
    }
    next_change(&mut changes).await.unwrap();
    let second = next_change(&mut changes).await.unwrap();
    assert_eq!(second.id, 2);
    // The token does not skip changes that the driver has read ahead.
    assert_eq!(changes.token(), second.token);
    drop(changes);
    let kept: ResumeToken = second.token.to_string().parse().unwrap();
    let resumed = db.watch::<Post>().after(kept).await.unwrap();
    let ids = resumed
        .into_stream()
        .take(2)
        .map(|change| change.unwrap().id);
    assert_eq!(ids.collect::<Vec<_>>().await, [3, 4]);
    let mut all = db.watch::<Post>().after(&start).await.unwrap();
    for id in 1..=4 {
        assert_eq!(next_change(&mut all).await.unwrap().id, id);
    }
    // Without a token, the watch begins now.
    let mut new = db.watch::<Post>().after(None).await.unwrap();
    db.insert(post(5, "alex")).await.unwrap();
    assert_eq!(next_change(&mut new).await.unwrap().id, 5);
}

pub async fn a_watch_starts_at_a_time(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let Some(mut changes) = watch_if_supported(db.watch::<Post>(), &fixture).await else {
        return;
    };
    // Change times have a resolution of a second, and the engine records no changes from before the first watch.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    db.insert(post(1, "alex")).await.unwrap();
    let first = next_change(&mut changes).await.unwrap();
    let mut since = db.watch::<Post>().since(first.time).await.unwrap();
    assert_eq!(next_change(&mut since).await.unwrap().id, 1);
}

pub async fn a_condition_filters_changes(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let of_alex = db
        .watch::<Post>()
        .filter(|p| p.author().eq("alex") & p.comments().any(|c| c.votes().lt(10)));
    let Some(mut changes) = watch_if_supported(of_alex, &fixture).await else {
        return;
    };
    db.insert_many([post(1, "alex"), post(2, "kim")])
        .await
        .unwrap();
    db.update_many::<Post>(|_| odm::Filter::all())
        .set(|p| p.title(), "new")
        .await
        .unwrap();
    assert!(
        matches!(next_change(&mut changes).await.unwrap().event, Event::Inserted(p) if p.id == 1)
    );
    let change = next_change(&mut changes).await.unwrap();
    let Event::Updated {
        document: Some(document),
        ..
    } = change.event
    else {
        panic!("{change:?}");
    };
    assert_eq!((document.id, document.title.as_str()), (1, "new"));
    // The condition cannot check a deleted document, so the watch returns every delete.
    db.delete_many::<Post>(|_| odm::Filter::all())
        .await
        .unwrap();
    let mut deleted = vec![
        next_change(&mut changes).await.unwrap().id,
        next_change(&mut changes).await.unwrap().id,
    ];
    deleted.sort_unstable();
    assert_eq!(deleted, [1, 2]);
}

pub async fn an_undecodable_document_is_a_single_error(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let Some(mut changes) = watch_if_supported(db.watch::<Post>(), &fixture).await else {
        return;
    };
    let broken = InsertOperation {
        collection: "posts".into(),
        documents: vec![rawdoc! { "_id": 1_i64, "by": 7 }],
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(broken).await.unwrap();
    db.insert(post(2, "alex")).await.unwrap();
    let error = next_change(&mut changes).await.unwrap_err();
    assert!(error.is_decode(), "{error}");
    assert_eq!((error.model(), error.path()), (Some("Post"), Some("by")));
    // The token is after the failed change: a watch that resumes there does not meet the change again.
    let mut resumed = db.watch::<Post>().after(changes.token()).await.unwrap();
    assert_eq!(next_change(&mut changes).await.unwrap().id, 2);
    assert_eq!(next_change(&mut resumed).await.unwrap().id, 2);
}

pub async fn a_dropped_wait_loses_no_change(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let Some(mut changes) = watch_if_supported(db.watch::<Post>().with_documents(), &fixture).await
    else {
        return;
    };
    for id in 1..=20 {
        let wait = tokio::time::timeout(Duration::from_micros(50), changes.next());
        if let Ok(change) = wait.await {
            panic!("{change:?}");
        }
        db.insert(post(id, "alex")).await.unwrap();
        assert_eq!(next_change(&mut changes).await.unwrap().id, id);
    }
}

pub async fn dropping_the_collection_ends_the_watch(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let Some(mut changes) = watch_if_supported(db.watch::<Post>(), &fixture).await else {
        return;
    };
    db.insert(post(1, "alex")).await.unwrap();
    db.backend().drop_collection("posts").await.unwrap();
    assert_eq!(next_change(&mut changes).await.unwrap().id, 1);
    let end = tokio::time::timeout(Duration::from_secs(30), changes.next());
    assert!(end.await.unwrap().is_none());
}

pub async fn an_invalid_token_is_an_error(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    if watch_if_supported(db.watch::<Post>(), &fixture)
        .await
        .is_none()
    {
        return;
    }
    // The token encodes the document `{ "_data": "no token" }`.
    let wrong: ResumeToken = "GQAAAAJfZGF0YQAJAAAAbm8gdG9rZW4AAA".parse().unwrap();
    let error = match db.watch::<Post>().after(wrong).await {
        Err(error) => error,
        Ok(mut changes) => next_change(&mut changes).await.unwrap_err(),
    };
    assert_ne!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(error.model(), Some("Post"));
}

async fn next_of_any(changes: &mut AnyChangeStream<Blog>) -> odm::Result<AnyChange<Blog>> {
    let change = tokio::time::timeout(Duration::from_secs(30), changes.next());
    change.await.expect("a change in time").expect("one more")
}

pub async fn one_stream_has_the_changes_of_all_models(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    if !fixture.backend().capabilities().change_streams {
        let error = db.watch_all().await.err().unwrap();
        assert!(error.is_unsupported(), "{error}");
        return;
    }
    let mut changes = db.watch_all().await.unwrap();
    let start = changes.token();
    db.insert(post(1, "alex")).await.unwrap();
    db.insert(Author { id: "alex".into() }).await.unwrap();
    // A collection of another program, and an update of metadata.
    let insert = InsertOperation {
        collection: "others".into(),
        documents: vec![rawdoc! { "_id": 1 }],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let update = UpdateOperation {
        collection: "posts".into(),
        filter: rawdoc! { "_id": 1 },
        change: DocumentChange::operators(rawdoc! { "$set": { "_odm.pending": 1 } }),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(update).await.unwrap();
    let update = db.update::<Post>(1).set(|p| p.title(), "new");
    update.await.unwrap();
    db.delete::<Author>("alex").await.unwrap();

    let first = next_of_any(&mut changes).await.unwrap();
    assert_eq!((first.collection, &first.id), ("posts", &Bson::Int64(1)));
    assert!(first.of::<Author>().unwrap().is_none());
    let typed = first.of::<Post>().unwrap().unwrap();
    assert_eq!((typed.id, &typed.token), (1, &first.token));
    assert!(matches!(typed.event, Event::Inserted(inserted) if inserted == post(1, "alex")));
    let second = next_of_any(&mut changes).await.unwrap();
    assert_eq!((second.collection, &second.id), ("authors", &"alex".into()));
    let third = next_of_any(&mut changes).await.unwrap();
    let typed = third.of::<Post>().unwrap().unwrap();
    assert!(matches!(typed.event, Event::Updated { fields, .. } if fields.contains(|p| p.title())));
    let last = next_of_any(&mut changes).await.unwrap();
    let typed = last.of::<Author>().unwrap().unwrap();
    assert!(typed.id == "alex" && matches!(typed.event, Event::Deleted));
    assert!(changes.next().now_or_never().is_none());

    // A token continues the stream, also with fewer models, if the model of its change is watched.
    let mut resumed = db.watch_all().after(&first.token).await.unwrap();
    assert_eq!(next_of_any(&mut resumed).await.unwrap().token, second.token);
    let of_posts = db.watch_all().of::<Post>().with_documents();
    let mut of_posts = of_posts.after(&start).await.unwrap();
    assert_eq!(next_of_any(&mut of_posts).await.unwrap().token, first.token);
    let updated = next_of_any(&mut of_posts).await.unwrap();
    let typed = updated.of::<Post>().unwrap().unwrap();
    assert!(
        matches!(typed.event, Event::Updated { document: Some(post), .. } if post.title == "new")
    );
    let mut of_posts = db
        .watch_all()
        .of::<Post>()
        .after(&first.token)
        .await
        .unwrap();
    assert_eq!(next_of_any(&mut of_posts).await.unwrap().token, third.token);

    // The drop of a collection does not end the stream.
    fixture.backend().drop_collection("posts").await.unwrap();
    db.insert(Author { id: "kim".into() }).await.unwrap();
    let after_drop = next_of_any(&mut changes).await.unwrap();
    assert_eq!(after_drop.id, "kim".into());
}
