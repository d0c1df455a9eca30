use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use odm::{
    ErrorKind,
    backend::{
        Backend, Fault, Faults, Recorder,
        operation::{DocumentChange, FindOperation, InsertOperation, Operation},
        read_to_end,
    },
    bson::{self, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use crate::{
    Fixture,
    models::{Comment, Db, Post},
};

/// A post from a different program, with fields that the model does not declare.
fn undeclared_fields_post() -> RawDocumentBuf {
    rawdoc! {
        "_id": 1_i64, "author": "alex", "when": DateTime::from_millis(0), "title": "t", "status": "public",
        "tags": ["a", "b"], "votes": 1_i64, "voters": [],
        "comments": [{ "who": "jane", "votes": 3, "mood": "good" }, { "who": "joe", "votes": 9, "mood": "bad" }],
        "scores": { "x": 1, "y": 2 }, "flags": 7_i64, "theirs": { "deep": true },
    }
}

async fn insert_post(fixture: &Fixture) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let insert = InsertOperation {
        collection: "posts".into(),
        documents: vec![undeclared_fields_post()],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    (Db::with_backend(recorder.clone()), recorder)
}

async fn read_raw(backend: &dyn Backend, collection: &'static str) -> bson::Document {
    let find = FindOperation {
        collection: collection.into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let mut all = read_to_end(backend.find(find).await.unwrap())
        .await
        .unwrap();
    all.pop().unwrap().try_into().unwrap()
}

/// An invalid value in a field does not block writes to different fields: a map key with a dot, and an array above the maximum
/// length.
pub async fn an_invalid_field_blocks_no_other_field(fixture: Fixture) {
    let backend = fixture.backend();
    let db = Db::with_backend(fixture.backend());
    let mut post = bson::Document::try_from(&*undeclared_fields_post()).unwrap();
    post.insert("scores", doc! { "a.b": 1, "x": 2 });
    post.insert("tags", (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
    let insert = InsertOperation {
        collection: "posts".into(),
        documents: vec![RawDocumentBuf::try_from(&post).unwrap()],
        ordered: true,
        origin: Default::default(),
    };
    backend.insert(insert).await.unwrap();
    let modified = db
        .modify::<Post>(1, |post| post.title = "new".to_owned())
        .await
        .unwrap();
    assert_eq!(modified.title, "new");
    let mut edited = db.edit::<Post>(1).await.unwrap();
    edited.votes += 1;
    edited.comments.pop();
    db.save(&mut edited).await.unwrap();
    let after = read_raw(&*backend, "posts").await;
    assert_eq!(
        (
            after.get_str("title").unwrap(),
            after.get_i64("votes").unwrap()
        ),
        ("new", 2)
    );
    assert_eq!(
        after.get_document("scores").unwrap(),
        &doc! { "a.b": 1, "x": 2 }
    );
    assert_eq!(after.get_array("tags").unwrap().len(), 200);

    // A written value must follow the rules.
    let refused = db
        .modify::<Post>(1, |post| post.tags.push("one more".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.path()),
        (ErrorKind::TooManyElements, Some("tags"))
    );
    let refused = db
        .modify::<Post>(1, |post| {
            post.title = "newer".to_owned();
            post.scores.insert("x".to_owned(), 3);
        })
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.path()),
        (ErrorKind::Invalid, Some("scores"))
    );
    assert_eq!(read_raw(&*backend, "posts").await, after);
    // A save can repair an invalid field.
    let repaired = db.modify::<Post>(1, |post| {
        post.scores.remove("a.b");
        post.tags.truncate(3);
    });
    repaired.await.unwrap();
    let after = read_raw(&*backend, "posts").await;
    assert_eq!(after.get_document("scores").unwrap(), &doc! { "x": 2 });
}

fn updates(recorder: &Recorder) -> Vec<bson::Document> {
    let operations = recorder.operations().into_iter();
    let updates = operations.filter_map(|operation| match operation {
        Operation::Update(update) => match update.change {
            DocumentChange::Operators { update, .. } => Some(update.try_into().unwrap()),
            other => panic!("{other:?}"),
        },
        _ => None,
    });
    updates.collect()
}

/// A save sends only the changed paths. Undeclared fields stay, also in elements of arrays.
pub async fn only_what_changed_is_saved(fixture: Fixture) {
    let (db, recorder) = insert_post(&fixture).await;
    let mut post = db.edit::<Post>(1).await.unwrap();
    assert!(!post.is_changed().unwrap());
    db.save(&mut post).await.unwrap();
    assert_eq!(
        updates(&recorder),
        [],
        "nothing changed, so nothing is written"
    );

    post.title.push('!');
    post.scores.insert("y".into(), 5);
    post.scores.remove("x");
    post.tags.push("c".into());
    post.comments[1].votes = 10;
    post.subtitle = Some("s".into());
    assert!(post.is_changed().unwrap());
    db.save(&mut post).await.unwrap();
    let comments = || {
        vec![
            doc! { "who": "jane", "votes": 3, "mood": "good" },
            doc! { "who": "joe", "votes": 10, "mood": "bad", "hidden": null },
        ]
    };
    assert_eq!(
        updates(&recorder),
        [doc! {
            "$set": { "title": "t!", "comments": comments(), "scores.y": 5, "subtitle": "s" },
            "$unset": { "scores.x": true },
            "$push": { "tags": { "$each": ["c"] } },
        }]
    );
    let after = read_raw(&*fixture.backend(), "posts").await;
    assert_eq!(
        after.get_document("theirs").unwrap(),
        &doc! { "deep": true }
    );
    assert_eq!(after.get_document("scores").unwrap(), &doc! { "y": 5 });
    assert_eq!(db.get::<Post>(1).await.unwrap(), *post);

    // An edit compares with the last saved state, not with the first read.
    post.subtitle = None;
    post.comments.remove(0);
    db.save(&mut post).await.unwrap();
    let after = read_raw(&*fixture.backend(), "posts").await;
    assert!(!after.contains_key("subtitle"));
    assert_eq!(
        after.get_array("comments").unwrap(),
        &[comments().remove(1).into()]
    );
}

pub async fn concurrent_changes_of_other_fields_stay(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    let mut post = db.edit::<Post>(1).await.unwrap();
    db.update::<Post>(1)
        .set(|p| p.author(), "kim")
        .set(|p| p.scores().key("x"), 9)
        .push(|p| p.voters(), "jane")
        .await
        .unwrap();
    post.title = "mine".into();
    post.scores.insert("y".into(), 3);
    db.save(&mut post).await.unwrap();
    let after = db.get::<Post>(1).await.unwrap();
    assert_eq!((&*after.author, &*after.title), ("kim", "mine"));
    assert_eq!(
        after.scores.into_iter().collect::<Vec<_>>(),
        [("x".into(), 9), ("y".into(), 3)]
    );
    assert_eq!(after.voters, ["jane"]);
}

pub async fn concurrent_changes_of_a_field_conflict(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    let before = db.edit::<Post>(1).await.unwrap();
    db.update::<Post>(1)
        .set(|p| p.title(), "theirs")
        .push(|p| p.tags(), "theirs")
        .unset(|p| p.rating())
        .await
        .unwrap();
    type Edit = fn(&mut Post);
    let edits: [(&str, Edit); 3] = [
        ("title", |p| p.title = "mine".into()),
        ("tags", |p| p.tags.push("mine".into())),
        ("tags", |p| p.tags.clear()),
    ];
    for (path, edit) in edits {
        let mut post = before.clone();
        edit(&mut post);
        post.votes = 77;
        let error = db.save(&mut post).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert_eq!((error.path(), error.model()), (Some(path), Some("Post")));
        assert_eq!(error.id(), Some(&1_i64.into()));
    }
    let after = db.get::<Post>(1).await.unwrap();
    assert_eq!((&*after.title, after.votes), ("theirs", 1));
}

pub async fn a_deleted_document_stays_deleted(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    let mut post = db.edit::<Post>(1).await.unwrap();
    db.delete::<Post>(1).await.unwrap();
    post.title = "again".into();
    let error = db.save(&mut post).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(db.find::<Post>().count().await.unwrap(), 0);
    let error = db.edit::<Post>(1).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

pub async fn invalid_saves_are_rejected(fixture: Fixture) {
    let (db, recorder) = insert_post(&fixture).await;
    let mut post = db.edit::<Post>(1).await.unwrap();
    post.id = 2;
    let error = db.save(&mut post).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("_id"))
    );
    post.id = 1;
    post.voters = ["a", "b", "c", "d"].map(Into::into).into();
    let error = db.save(&mut post).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::TooManyElements, Some("voters"))
    );
    post.voters.clear();
    post.scores.insert("a.b".into(), 1);
    assert_eq!(
        db.save(&mut post).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(updates(&recorder), []);
}

/// A changed field that an older document lacks is stored.
pub async fn a_default_is_stored(fixture: Fixture) {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
    struct Size {
        width: i64,
        #[serde(default)]
        height: i64,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "boxes")]
    struct Crate {
        #[serde(rename = "_id")]
        id: i64,
        #[serde(default)]
        name: String,
        #[embed]
        size: Size,
    }
    #[derive(Schema)]
    #[schema(models(Crate))]
    struct Store;

    let db = odm::Database::<Store>::with_backend(fixture.backend());
    let document = rawdoc! { "_id": 1_i64, "size": { "width": 3_i64 }, "more": 1 };
    let insert = InsertOperation {
        collection: "boxes".into(),
        documents: vec![document],
        ordered: true,
        origin: Default::default(),
    };
    fixture.backend().insert(insert).await.unwrap();
    let mut it = db.edit::<Crate>(1).await.unwrap();
    it.size.height = 2;
    db.save(&mut it).await.unwrap();
    it.name = "new".into();
    it.size.width = 4;
    db.save(&mut it).await.unwrap();
    assert_eq!(
        read_raw(&*fixture.backend(), "boxes").await,
        doc! { "_id": 1_i64, "size": { "width": 4_i64, "height": 2_i64 }, "more": 1, "name": "new" }
    );
    assert_eq!(db.get::<Crate>(1).await.unwrap(), it.into_inner());
}

/// Writers of different fields have no conflicts.
pub async fn saves_of_different_fields_do_not_conflict(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    let tasks = (0..16).map(|task| {
        let db = db.clone();
        tokio::spawn(async move {
            for n in 1..=10 {
                let mut post = db.edit::<Post>(1).await.unwrap();
                post.scores.insert(format!("task{task}"), n);
                db.save(&mut post).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let scores = db.get::<Post>(1).await.unwrap().scores;
    for task in 0..16 {
        assert_eq!(scores.get(&format!("task{task}")), Some(&10));
    }
}

/// Concurrent changes of a single field lose no change.
pub async fn concurrent_modifies_lose_no_change(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    let tasks = (0..8).map(|_| {
        let db = db.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                db.modify::<Post>(1, |p| p.votes += 1).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 41);
}

pub async fn modify_has_limited_attempts(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    let comment = Comment {
        who: "jim".into(),
        votes: 0,
        hidden: None,
    };
    let post = db
        .modify::<Post>(1, |p| p.comments.push(comment.clone()))
        .await
        .unwrap();
    assert_eq!(post.comments.len(), 3);

    let refused = db.try_modify::<Post>(1, |p| {
        p.votes = 0;
        Err(odm::Error::other("no"))
    });
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 1);

    // Every attempt meets an injected conflict.
    let faults = Arc::new(Faults::new(fixture.backend()));
    let db = Db::with_backend(faults.clone());
    let conflict = || Fault::FailBefore(odm::Error::new(ErrorKind::Conflict, "injected"));
    (1..=3).for_each(|nth| faults.inject(nth, Operation::is_write, conflict()));
    let error = db.modify::<Post>(1, |p| p.votes = 7).attempts(3).await;
    assert!(error.unwrap_err().is_conflict());
    assert_eq!(faults.pending(), 0);
    (1..=3).for_each(|nth| faults.inject(nth, Operation::is_write, conflict()));
    let post = db.modify::<Post>(1, |p| p.votes += 1).await.unwrap();
    assert_eq!((post.votes, faults.pending()), (2, 0));
}

pub async fn edits_work_in_transactions(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let work = |tx: odm::Transaction<crate::models::Shop>| async move {
        let mut post = tx.edit::<Post>(1).await?;
        post.votes += 1;
        tx.save(&mut post).await?;
        tx.modify::<Post>(1, |p| p.votes += 1).await?;
        Ok::<_, odm::Error>(())
    };
    db.transaction(work).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 3);
}

/// A conflict inside a transaction restarts the whole transaction, and no change is lost.
pub async fn a_conflict_restarts_the_transaction(fixture: Fixture) {
    let (db, _) = insert_post(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let runs = Arc::new(AtomicU32::new(0));
    let work = |tx: odm::Transaction<crate::models::Shop>| {
        let other = Db::with_backend(fixture.backend());
        let runs = Arc::clone(&runs);
        async move {
            // The transaction takes a snapshot before the concurrent update.
            tx.get::<Post>(1).await?;
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                other.update::<Post>(1).inc(|p| p.votes(), 1).await?;
            }
            tx.modify::<Post>(1, |p| p.votes += 1).await
        }
    };
    db.transaction(work).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 3);
}
