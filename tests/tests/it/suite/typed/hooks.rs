use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Hooks, Session,
    backend::{Backend, Fault, Faults, Recorder, operation::Operation},
    hook::{Changes, Committed, Selection},
    prelude::*,
};

use crate::Fixture;

/// A model that logs every call of a hook. The hook `before insert` refuses the name `bad before insert`, and so on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, garde::Validate)]
#[document(collection = "users", hooks, validate)]
pub struct User {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(length(max = 20))]
    name: String,
    #[garde(length(max = 20))]
    slug: String,
    #[garde(skip)]
    visits: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "entries")]
pub struct Entry {
    #[serde(rename = "_id")]
    id: ObjectId,
    text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "totals")]
pub struct Total {
    #[serde(rename = "_id")]
    id: String,
    n: i64,
}

/// A model with an insert hook that inserts the next document of the same model.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "links", hooks)]
pub struct Link {
    #[serde(rename = "_id")]
    id: i64,
    last: i64,
}

#[derive(Schema)]
#[schema(models(User, Entry, Total, Link))]
pub struct Site;
type Db = odm::Database<Site>;

async fn add_log_entry(tx: &Session<Site>, text: impl Into<String>) -> odm::Result<()> {
    let (id, text) = (ObjectId::new(), text.into());
    tx.insert(Entry { id, text }).await.map(drop)
}

fn ensure_valid_name(name: &str, event: &str) -> odm::Result<()> {
    match name == format!("bad {event}") {
        true => Err(odm::Error::other(format!("refused {event}"))),
        false => Ok(()),
    }
}

impl Hooks for User {
    type Schema = Site;

    async fn before_insert(&mut self, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(tx, "before insert").await?;
        self.slug = self.name.to_lowercase();
        ensure_valid_name(&self.name, "before insert")
    }

    async fn before_validate(&mut self, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(tx, "before validate").await
    }

    async fn after_validate(&self, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(tx, "after validate").await
    }

    async fn after_insert(&self, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(tx, format!("after insert {}", self.slug)).await?;
        ensure_valid_name(&self.name, "after insert")
    }

    async fn before_update(changes: &mut Changes<Self>, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(tx, "before update").await?;
        if let Some(name) = changes.value(|u| u.name())? {
            changes.set(|u| u.slug(), name.to_lowercase());
            ensure_valid_name(&name, "before update")?;
            if name == "who" {
                changes.ids(tx).await?;
            }
        }
        Ok(())
    }

    async fn after_update(changes: &Changes<Self>, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(
            tx,
            format!("after update {:?}", changes.known_ids().unwrap_or_default()),
        )
        .await?;
        if changes.contains(|u| u.visits()) {
            tx.update::<Total>("visits").inc(|t| t.n(), 1).await?;
        }
        let name = changes.value(|u| u.name())?.unwrap_or_default();
        ensure_valid_name(&name, "after update")
    }

    async fn before_delete(which: &mut Selection<Self>, tx: &Session<Site>) -> odm::Result<()> {
        let ids = which.ids(tx).await?.to_vec();
        add_log_entry(tx, format!("before delete {ids:?}")).await?;
        match ids.contains(&13) {
            true => Err(odm::Error::other("13 stays")),
            false => Ok(()),
        }
    }

    async fn after_delete(which: &Selection<Self>, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(
            tx,
            format!("after delete {:?}", which.known_ids().unwrap_or_default()),
        )
        .await
    }

    async fn after_commit(event: Committed<Self>, db: &Session<Site>) -> odm::Result<()> {
        let (text, fails) = match event {
            Committed::Inserted(user) => {
                (format!("inserted {}", user.id), user.name == "bad commit")
            }
            Committed::Updated(changes) => (format!("updated {}", changes.is_save()), false),
            Committed::Deleted(_) => ("deleted".to_owned(), false),
            _ => ("something".to_owned(), false),
        };
        add_log_entry(db, format!("committed: {text}")).await?;
        match fails {
            true => Err(odm::Error::other("nobody listens")),
            false => Ok(()),
        }
    }
}

impl Hooks for Link {
    type Schema = Site;

    async fn after_insert(&self, tx: &Session<Site>) -> odm::Result<()> {
        if self.id < self.last {
            let (id, last) = (self.id + 1, self.last);
            tx.insert(Link { id, last }).await?;
        }
        Ok(())
    }
}

fn user(id: i64, name: &str) -> User {
    User {
        id,
        name: name.into(),
        slug: String::new(),
        visits: 0,
    }
}

/// Returns and deletes all log entries.
async fn take_log_entries(db: &Db) -> Vec<String> {
    let entries = db
        .find::<Entry>()
        .sort(|e| e.id().asc())
        .all()
        .await
        .unwrap();
    db.delete_many::<Entry>(|_| odm::Filter::all())
        .await
        .unwrap();
    entries.into_iter().map(|entry| entry.text).collect()
}

async fn database(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let id = "visits".to_owned();
    db.insert(Total { id, n: 0 }).await.unwrap();
    // Create the log collection here. Two concurrent transactions could both try to create the collection.
    add_log_entry(&db, "").await.unwrap();
    take_log_entries(&db).await;
    db
}

const INSERT_LOG: [&str; 4] = [
    "before insert",
    "before validate",
    "after validate",
    "after insert jane",
];

pub async fn an_insert_runs_its_hooks(fixture: Fixture) {
    let db = database(&fixture).await;
    let inserted = db.insert(user(1, "Jane")).await.unwrap();
    assert_eq!(inserted.slug, "jane");
    assert_eq!(db.get::<User>(1).await.unwrap(), inserted);
    let all: Vec<_> = INSERT_LOG
        .into_iter()
        .chain(["committed: inserted 1"])
        .collect();
    assert_eq!(take_log_entries(&db).await, all);

    db.insert_many([user(2, "Jane"), user(3, "Jane")])
        .await
        .unwrap();
    let many = take_log_entries(&db).await;
    assert_eq!(many.len(), 2 * all.len());
    assert_eq!(
        many[6..],
        [
            "after insert jane",
            "after insert jane",
            "committed: inserted 2",
            "committed: inserted 3"
        ]
    );

    let upserted = db
        .update::<User>(4)
        .inc(|u| u.visits(), 1)
        .or_insert(user(4, "Jane"))
        .await
        .unwrap();
    assert!(matches!(upserted, odm::action::Upserted::Inserted(user) if user.slug == "jane"));
    let both = take_log_entries(&db).await;
    assert_eq!(both[0], "before update");
    assert_eq!(
        both[1..],
        [&INSERT_LOG[..], &["committed: inserted 4"]].concat()
    );

    let report = db.bulk().add(db.insert(user(5, "Jane"))).await.unwrap();
    assert_eq!(report.inserted, 1);
    assert_eq!(take_log_entries(&db).await.len(), all.len());
}

pub async fn every_update_runs_its_hooks(fixture: Fixture) {
    let db = database(&fixture).await;
    db.insert_many([user(1, "a"), user(2, "b")]).await.unwrap();
    take_log_entries(&db).await;
    let by_id = [
        "before update",
        "after update [1]",
        "committed: updated false",
    ];

    db.update::<User>(1).set(|u| u.name(), "Joe").await.unwrap();
    assert_eq!(take_log_entries(&db).await, by_id);
    assert_eq!(db.get::<User>(1).await.unwrap().slug, "joe");
    let after = db
        .update::<User>(1)
        .set(|u| u.name(), "Jim")
        .returning_after()
        .await
        .unwrap();
    assert_eq!(after.slug, "jim");
    assert_eq!(take_log_entries(&db).await, by_id);
    let done = db
        .update::<User>(1)
        .set(|u| u.name(), "Ann")
        .or_insert(user(1, "x"))
        .await
        .unwrap();
    assert!(!done.is_inserted());
    assert_eq!(take_log_entries(&db).await, by_id);
    let first = db
        .update_first::<User>(|u| u.name().eq("Ann"))
        .set(|u| u.name(), "Joe")
        .await
        .unwrap();
    assert!(first.is_applied());
    assert_eq!(take_log_entries(&db).await, by_id);
    let report = db
        .bulk()
        .add(db.update::<User>(1).set(|u| u.name(), "Jim"))
        .await
        .unwrap();
    assert_eq!(report.modified, 1);
    assert_eq!(take_log_entries(&db).await, by_id);

    let many = db
        .update_many::<User>(|u| u.id().gte(1))
        .set(|u| u.name(), "who")
        .await
        .unwrap();
    assert_eq!(many.matched, 2);
    assert_eq!(take_log_entries(&db).await[1], "after update [1, 2]");
    assert_eq!(db.get::<User>(2).await.unwrap().slug, "who");

    db.update::<User>(1).inc(|u| u.visits(), 1).await.unwrap();
    assert_eq!(db.get::<Total>("visits").await.unwrap().n, 1);
    take_log_entries(&db).await;

    // An update that changes no document calls no `after update` hook.
    assert!(
        db.update::<User>(9)
            .set(|u| u.name(), "x")
            .await
            .unwrap_err()
            .is_not_found()
    );
    let unmatched = db
        .update::<User>(1)
        .when(|u| u.name().eq("x"))
        .set(|u| u.name(), "y")
        .await
        .unwrap();
    assert!(!unmatched.is_applied());
    assert!(
        take_log_entries(&db)
            .await
            .iter()
            .all(|text| text == "before update")
    );
}

pub async fn a_save_runs_its_hooks(fixture: Fixture) {
    let db = database(&fixture).await;
    db.insert(user(1, "a")).await.unwrap();
    take_log_entries(&db).await;
    let save = [
        "before validate",
        "before update",
        "after validate",
        "after update [1]",
        "committed: updated true",
    ];
    let mut edited = db.edit::<User>(1).await.unwrap();
    db.save(&mut edited).await.unwrap();
    assert!(take_log_entries(&db).await.is_empty());
    edited.name = "Joe".into();
    db.save(&mut edited).await.unwrap();
    assert_eq!(take_log_entries(&db).await, save);
    assert_eq!(
        (&*edited.slug, edited.is_changed().unwrap()),
        ("joe", false)
    );
    assert_eq!(db.get::<User>(1).await.unwrap(), *edited);
    let modified = db
        .modify::<User>(1, |u| u.name = "Jim".into())
        .await
        .unwrap();
    assert_eq!(modified.slug, "jim");
    assert_eq!(take_log_entries(&db).await, save);
    // Values set by a hook are validated.
    let long = "A name that is much too long";
    assert!(
        db.modify::<User>(1, |u| u.name = long.into())
            .await
            .unwrap_err()
            .is_validation()
    );
    let error = db
        .modify::<User>(1, |u| u.name = "bad before update".into())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert_eq!(db.get::<User>(1).await.unwrap(), modified);
}

pub async fn every_delete_runs_its_hooks(fixture: Fixture) {
    let db = database(&fixture).await;
    db.insert_many([1, 2, 3, 4, 5, 13].map(|id| user(id, "a")))
        .await
        .unwrap();
    take_log_entries(&db).await;
    db.delete::<User>(1).await.unwrap();
    assert_eq!(
        take_log_entries(&db).await,
        [
            "before delete [1]",
            "after delete [1]",
            "committed: deleted"
        ]
    );
    db.delete::<User>(2)
        .returning()
        .await
        .unwrap()
        .expect_applied()
        .unwrap();
    assert_eq!(take_log_entries(&db).await.len(), 3);
    let first = db
        .delete_first::<User>(|u| u.id().lt(5))
        .sort(|u| u.id().desc())
        .await
        .unwrap();
    assert!(first.is_applied());
    assert_eq!(take_log_entries(&db).await[1], "after delete [4]");
    assert_eq!(
        db.delete_many::<User>(|u| u.id().lt(13))
            .await
            .unwrap()
            .deleted,
        2
    );
    assert_eq!(take_log_entries(&db).await[0], "before delete [3, 5]");
    let report = db.bulk().add(db.delete::<User>(13)).await.unwrap();
    assert!(
        report
            .into_result()
            .unwrap_err()
            .to_string()
            .contains("13 stays")
    );
    assert!(
        db.delete_many::<User>(|_| odm::Filter::all())
            .await
            .is_err()
    );
    assert_eq!(db.find::<User>().count().await.unwrap(), 1);
}

pub async fn a_failed_hook_rolls_back_the_write(fixture: Fixture) {
    let backend = fixture.backend();
    let transactions = backend.capabilities().transactions;
    let db = database(&fixture).await;
    db.insert(user(1, "a")).await.unwrap();
    take_log_entries(&db).await;
    let error = db.insert(user(2, "bad before insert")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    assert!(db.find_by_id::<User>(2).await.unwrap().is_none());
    let before = take_log_entries(&db).await;
    let insert = db.insert(user(2, "bad after insert")).await.unwrap_err();
    let after = take_log_entries(&db).await;
    let update = db
        .update::<User>(1)
        .set(|u| u.name(), "bad after update")
        .await
        .unwrap_err();
    let name = db.get::<User>(1).await.unwrap().name;
    if transactions {
        assert_eq!([before, after].concat(), [""; 0]);
        assert_eq!([insert.kind(), update.kind()], [ErrorKind::Other; 2]);
        assert!(db.find_by_id::<User>(2).await.unwrap().is_none());
        assert_eq!(name, "a");
    } else {
        assert!(insert.is_committed() && update.is_committed(), "{insert}");
        assert!(db.find_by_id::<User>(2).await.unwrap().is_some());
        assert_eq!(
            (name.as_str(), before.len(), after.len()),
            ("bad after update", 1, 5)
        );
    }
}

pub async fn a_failed_after_commit_hook_keeps_the_write(fixture: Fixture) {
    let db = database(&fixture).await;
    let error = db.insert(user(1, "bad commit")).await.unwrap_err();
    assert!(error.is_committed(), "{error}");
    assert!(error.to_string().contains("nobody listens"), "{error}");
    assert!(db.find_by_id::<User>(1).await.unwrap().is_some());
}

pub async fn hooks_run_inside_the_transaction(fixture: Fixture) {
    let backend = fixture.backend();
    if !backend.capabilities().transactions {
        return;
    }
    let db = database(&fixture).await;
    let aborted = db.transaction(async |tx| -> odm::Result<_> {
        tx.insert(user(1, "Jane")).await?;
        Err::<(), _>(odm::Error::other("no"))
    });
    aborted.await.unwrap_err();
    assert!(take_log_entries(&db).await.is_empty());
    let database = db.clone();
    db.transaction(|tx| {
        let database = database.clone();
        async move {
            tx.insert(user(1, "Jane")).await?;
            tx.update::<User>(1).set(|u| u.name(), "Joe").await?;
            // Before the commit, the writes are invisible outside, and writes outside the transaction are refused.
            assert_eq!(database.find::<Entry>().count().await?, 0);
            let error = database.insert(user(3, "Jim")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutsideTransaction);
            let update = database.update::<User>(1).set(|u| u.name(), "Jim").await;
            assert_eq!(update.unwrap_err().kind(), ErrorKind::OutsideTransaction);
            Ok::<_, odm::Error>(())
        }
    })
    .await
    .unwrap();
    let all = take_log_entries(&db).await;
    assert_eq!(
        all[4..],
        [
            "before update",
            "after update [1]",
            "committed: inserted 1",
            "committed: updated false"
        ]
    );
    // A failed hook rolls back the transaction even if the caller ignores the error.
    let swallowed = db.transaction(async |tx| -> odm::Result<_> {
        tx.insert(user(2, "bad after insert")).await.unwrap_err();
        Ok(())
    });
    assert_eq!(swallowed.await.unwrap_err().kind(), ErrorKind::Other);
    assert!(db.find_by_id::<User>(2).await.unwrap().is_none());
}

pub async fn conflicts_are_retried_with_hooks(fixture: Fixture) {
    let backend = fixture.backend();
    if !backend.capabilities().transactions {
        return;
    }
    let db = database(&fixture).await;
    db.insert_many([1, 2, 3, 4].map(|id| user(id, "a")))
        .await
        .unwrap();
    take_log_entries(&db).await;
    let tasks: Vec<_> = (1..=4)
        .map(|id| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut applied = 0;
                for _ in 0..5 {
                    match db.update::<User>(id).inc(|u| u.visits(), 1).await {
                        Ok(_) => applied += 1,
                        Err(error) => assert!(error.is_conflict(), "{error}"),
                    }
                }
                applied
            })
        })
        .collect();
    let mut applied = 0;
    for task in tasks {
        applied += task.await.unwrap();
    }
    assert!(applied > 0);
    let visits: i64 = db
        .find::<User>()
        .all()
        .await
        .unwrap()
        .iter()
        .map(|u| u.visits)
        .sum();
    assert_eq!(
        (visits, db.get::<Total>("visits").await.unwrap().n),
        (applied, applied)
    );
    let committed = take_log_entries(&db).await;
    let committed = committed
        .iter()
        .filter(|text| text.starts_with("committed"))
        .count();
    assert_eq!(i64::try_from(committed).unwrap(), applied);
}

pub async fn nested_hooks_have_a_maximum_depth(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(Link { id: 0, last: 5 }).await.unwrap();
    assert_eq!(db.find::<Link>().count().await.unwrap(), 6);
    let error = db
        .insert(Link {
            id: 10,
            last: 1_000,
        })
        .await
        .unwrap_err();
    assert!(error.to_string().contains("hooks are nested"), "{error}");
}

pub async fn a_dropped_write_and_its_hooks_are_atomic(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    db.sync_indexes().await.unwrap();
    // The caller drops the operation during the nth write. The last values of `nth` drop after the last write.
    for nth in 1..=6 {
        let (id, other) = (nth * 10, nth * 10 + 1);
        let drop_at_write =
            |delay| faults.inject(usize::try_from(nth).unwrap(), Operation::is_write, delay);
        let delay = || Fault::Delay(Duration::from_millis(200));
        drop_at_write(delay());
        drop_before_the_end(db.insert(user(id, "Jane"))).await;
        let is_stored = db.find_by_id::<User>(id).await.unwrap().is_some();
        let texts = take_log_entries(&db).await;
        assert_eq!(
            texts.len(),
            if is_stored { INSERT_LOG.len() + 1 } else { 0 },
            "insert {nth}: {texts:?}"
        );

        faults.clear();
        db.insert(user(other, "Jane")).await.unwrap();
        take_log_entries(&db).await;
        drop_at_write(delay());
        drop_before_the_end(db.update::<User>(other).set(|u| u.name(), "Joe")).await;
        let is_updated = db.get::<User>(other).await.unwrap().slug == "joe";
        let texts = take_log_entries(&db).await;
        assert_eq!(
            texts.len(),
            if is_updated { 3 } else { 0 },
            "update {nth}: {texts:?}"
        );

        faults.clear();
        drop_at_write(delay());
        drop_before_the_end(db.delete::<User>(other)).await;
        let is_deleted = db.find_by_id::<User>(other).await.unwrap().is_none();
        let texts = take_log_entries(&db).await;
        assert_eq!(
            texts.len(),
            if is_deleted { 3 } else { 0 },
            "delete {nth}: {texts:?}"
        );
        faults.clear();
    }
}

/// Drops a write before the end, and waits until the started operations have ended.
async fn drop_before_the_end(write: impl IntoFuture) {
    let _ = tokio::time::timeout(Duration::from_millis(100), write.into_future()).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
}

pub async fn a_model_without_hooks_needs_no_extra_operation(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()) as Arc<dyn Backend>);
    add_log_entry(&db, "one").await.unwrap();
    db.update_many::<Entry>(|_| odm::Filter::all())
        .set(|e| e.text(), "two")
        .await
        .unwrap();
    assert_eq!(recorder.operations().len(), 2);
}
