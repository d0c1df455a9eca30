use std::time::Duration;

use odm::{ErrorKind, prelude::*};

use crate::{
    Fixture,
    models::{Db, NewTask, Task},
};

fn new(id: i64) -> NewTask {
    NewTask {
        id,
        description: "paint".into(),
        done: false,
    }
}

pub async fn an_insert_sets_managed_fields(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let before = DateTime::now();
    let task = db.insert(new(1)).await.unwrap();
    assert_eq!((&*task.description, task.revision), ("paint", 1));
    assert!(before <= task.created_at && task.created_at == task.updated_at);
    assert_eq!(db.get::<Task>(1).await.unwrap(), task);
    let many = db.insert_many([new(2), new(3)]).await.unwrap();
    assert_eq!(
        many.iter().map(|task| task.revision).collect::<Vec<_>>(),
        [1, 1]
    );
}

pub async fn every_update_increments_the_version(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let inserted = db.insert_many([new(1), new(2)]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    db.update::<Task>(1).set(|t| t.done(), true).await.unwrap();
    db.update_many::<Task>(|t| t.id().gte(1))
        .set(|t| t.description(), "x")
        .await
        .unwrap();
    let after = db.get::<Task>(1).await.unwrap();
    assert_eq!(
        (after.revision, after.done, &*after.description),
        (3, true, "x")
    );
    assert_eq!(after.created_at, inserted[0].created_at);
    assert!(after.updated_at > inserted[0].updated_at);
    assert_eq!(db.get::<Task>(2).await.unwrap().revision, 2);
    // Filters and sorts work with managed fields.
    let found = db
        .find::<Task>()
        .filter(|t| t.revision().gte(3))
        .sort(|t| t.updated_at().desc())
        .all()
        .await;
    assert_eq!(found.unwrap().len(), 1);
}

pub async fn a_stale_save_is_a_conflict(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(new(1)).await.unwrap();
    let mut mine = db.edit::<Task>(1).await.unwrap();
    let mut theirs = mine.clone();
    theirs.done = true;
    theirs.cached = 7;
    tokio::time::sleep(Duration::from_millis(5)).await;
    db.save(&mut theirs).await.unwrap();
    assert_eq!((theirs.revision, theirs.cached), (2, 7));
    assert!(theirs.updated_at > mine.updated_at);
    assert!(!theirs.is_changed().unwrap());

    // The stale copy changes a different field. Without a version, the save would not conflict.
    mine.description = "mine".into();
    let error = db.save(&mut mine).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Conflict, Some("Task"))
    );
    assert_eq!(
        (error.path(), error.id()),
        (Some("revision"), Some(&1_i64.into()))
    );

    theirs.done = false;
    db.save(&mut theirs).await.unwrap();
    let stored = db.get::<Task>(1).await.unwrap();
    assert_eq!((stored.revision, &*stored.description), (3, "paint"));
    assert_eq!((stored.updated_at, stored.done), (theirs.updated_at, false));
}

pub async fn modify_retries_conflicts(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(new(1)).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let db = db.clone();
            tokio::spawn(async move {
                for _ in 0..4 {
                    db.modify::<Task>(1, |t| t.description += &n.to_string())
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let task = db.get::<Task>(1).await.unwrap();
    assert_eq!(
        (task.description.len(), task.revision),
        ("paint".len() + 32, 33)
    );
}

/// A save refuses a managed field that the application changed.
pub async fn managed_fields_cannot_be_saved(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(new(1)).await.unwrap();
    let mut task = db.edit::<Task>(1).await.unwrap();
    task.revision = 70;
    let error = db.save(&mut task).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("revision"))
    );
    assert_eq!(db.get::<Task>(1).await.unwrap().revision, 1);
}
