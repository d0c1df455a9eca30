use std::{sync::Arc, time::Duration};

use odm::{
    ErrorKind, Hooks, Session,
    backend::{Backend, Fault, Faults, Recorder, operation::Operation},
    hook::{Changes, Committed, Selection},
    prelude::*,
};

use crate::Fixture;

/// It tells the log of everything that happens to it, and refuses what is named `bad …`.
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

/// Its hooks lead to itself.
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

async fn log(tx: &Session<Site>, text: impl Into<String>) -> odm::Result<()> {
    let (id, text) = (ObjectId::new(), text.into());
    tx.insert(Entry { id, text }).await.map(drop)
}

fn refuse(name: &str, what: &str) -> odm::Result<()> {
    match name == format!("bad {what}") {
        true => Err(odm::Error::other(format!("refused {what}"))),
        false => Ok(()),
    }
}

impl Hooks for User {
    type Schema = Site;

    async fn before_insert(&mut self, tx: &Session<Site>) -> odm::Result<()> {
        log(tx, "before insert").await?;
        self.slug = self.name.to_lowercase();
        refuse(&self.name, "before insert")
    }

    async fn before_validate(&mut self, tx: &Session<Site>) -> odm::Result<()> {
        log(tx, "before validate").await
    }

    async fn after_validate(&self, tx: &Session<Site>) -> odm::Result<()> {
        log(tx, "after validate").await
    }

    async fn after_insert(&self, tx: &Session<Site>) -> odm::Result<()> {
        log(tx, format!("after insert {}", self.slug)).await?;
        refuse(&self.name, "after insert")
    }

    async fn before_update(changes: &mut Changes<Self>, tx: &Session<Site>) -> odm::Result<()> {
        log(tx, "before update").await?;
        if let Some(name) = changes.sets(|u| u.name())? {
            changes.set(|u| u.slug(), name.to_lowercase());
            refuse(&name, "before update")?;
            if name == "who" {
                changes.ids(tx).await?;
            }
        }
        Ok(())
    }

    async fn after_update(changes: &Changes<Self>, tx: &Session<Site>) -> odm::Result<()> {
        log(
            tx,
            format!("after update {:?}", changes.known_ids().unwrap_or_default()),
        )
        .await?;
        if changes.touches(|u| u.visits()) {
            tx.update::<Total>("visits").inc(|t| t.n(), 1).await?;
        }
        let name = changes.sets(|u| u.name())?.unwrap_or_default();
        refuse(&name, "after update")
    }

    async fn before_delete(which: &mut Selection<Self>, tx: &Session<Site>) -> odm::Result<()> {
        let ids = which.ids(tx).await?.to_vec();
        log(tx, format!("before delete {ids:?}")).await?;
        match ids.contains(&13) {
            true => Err(odm::Error::other("13 stays")),
            false => Ok(()),
        }
    }

    async fn after_delete(which: &Selection<Self>, tx: &Session<Site>) -> odm::Result<()> {
        log(
            tx,
            format!("after delete {:?}", which.known_ids().unwrap_or_default()),
        )
        .await
    }

    async fn after_commit(event: Committed<Self>, db: &Session<Site>) -> odm::Result<()> {
        let (what, fails) = match event {
            Committed::Inserted(user) => {
                (format!("inserted {}", user.id), user.name == "bad commit")
            }
            Committed::Updated(changes) => (format!("updated {}", changes.is_save()), false),
            Committed::Deleted(_) => ("deleted".to_owned(), false),
            _ => ("something".to_owned(), false),
        };
        log(db, format!("committed: {what}")).await?;
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

/// What has been logged since the last time.
async fn logged(db: &Db) -> Vec<String> {
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
    // A collection that is made within a transaction may be made by two at once.
    log(&db, "").await.unwrap();
    logged(&db).await;
    db
}

const INSERT: [&str; 4] = [
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
    let all: Vec<_> = INSERT
        .into_iter()
        .chain(["committed: inserted 1"])
        .collect();
    assert_eq!(logged(&db).await, all);

    db.insert_many([user(2, "Jane"), user(3, "Jane")])
        .await
        .unwrap();
    let many = logged(&db).await;
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
    let both = logged(&db).await;
    assert_eq!(both[0], "before update");
    assert_eq!(
        both[1..],
        [&INSERT[..], &["committed: inserted 4"]].concat()
    );

    let report = db.bulk().add(db.insert(user(5, "Jane"))).await.unwrap();
    assert_eq!(report.inserted, 1);
    assert_eq!(logged(&db).await.len(), all.len());
}

pub async fn every_update_runs_its_hooks(fixture: Fixture) {
    let db = database(&fixture).await;
    db.insert_many([user(1, "a"), user(2, "b")]).await.unwrap();
    logged(&db).await;
    let by_id = [
        "before update",
        "after update [1]",
        "committed: updated false",
    ];

    db.update::<User>(1).set(|u| u.name(), "Joe").await.unwrap();
    assert_eq!(logged(&db).await, by_id);
    assert_eq!(db.get::<User>(1).await.unwrap().slug, "joe");
    let after = db
        .update::<User>(1)
        .set(|u| u.name(), "Jim")
        .returning_after()
        .await
        .unwrap();
    assert_eq!(after.slug, "jim");
    assert_eq!(logged(&db).await, by_id);
    let done = db
        .update::<User>(1)
        .set(|u| u.name(), "Ann")
        .or_insert(user(1, "x"))
        .await
        .unwrap();
    assert!(!done.is_inserted());
    assert_eq!(logged(&db).await, by_id);
    let first = db
        .update_first::<User>(|u| u.name().eq("Ann"))
        .set(|u| u.name(), "Joe")
        .await
        .unwrap();
    assert!(first.is_applied());
    assert_eq!(logged(&db).await, by_id);
    let report = db
        .bulk()
        .add(db.update::<User>(1).set(|u| u.name(), "Jim"))
        .await
        .unwrap();
    assert_eq!(report.modified, 1);
    assert_eq!(logged(&db).await, by_id);

    let many = db
        .update_many::<User>(|u| u.id().gte(1))
        .set(|u| u.name(), "who")
        .await
        .unwrap();
    assert_eq!(many.matched, 2);
    assert_eq!(logged(&db).await[1], "after update [1, 2]");
    assert_eq!(db.get::<User>(2).await.unwrap().slug, "who");

    db.update::<User>(1).inc(|u| u.visits(), 1).await.unwrap();
    assert_eq!(db.get::<Total>("visits").await.unwrap().n, 1);
    logged(&db).await;

    // What was not there was not updated.
    assert!(
        db.update::<User>(9)
            .set(|u| u.name(), "x")
            .await
            .unwrap_err()
            .is_not_found()
    );
    let not = db
        .update::<User>(1)
        .when(|u| u.name().eq("x"))
        .set(|u| u.name(), "y")
        .await
        .unwrap();
    assert!(!not.applied());
    assert!(logged(&db).await.iter().all(|text| text == "before update"));
}

pub async fn a_save_runs_its_hooks(fixture: Fixture) {
    let db = database(&fixture).await;
    db.insert(user(1, "a")).await.unwrap();
    logged(&db).await;
    let save = [
        "before validate",
        "before update",
        "after validate",
        "after update [1]",
        "committed: updated true",
    ];
    let mut edited = db.edit::<User>(1).await.unwrap();
    db.save(&mut edited).await.unwrap();
    assert!(logged(&db).await.is_empty());
    edited.name = "Joe".into();
    db.save(&mut edited).await.unwrap();
    assert_eq!(logged(&db).await, save);
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
    assert_eq!(logged(&db).await, save);
    // What a hook has set is validated.
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
    logged(&db).await;
    db.delete::<User>(1).await.unwrap();
    assert_eq!(
        logged(&db).await,
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
    assert_eq!(logged(&db).await.len(), 3);
    let first = db
        .delete_first::<User>(|u| u.id().lt(5))
        .sort(|u| u.id().desc())
        .await
        .unwrap();
    assert!(first.is_applied());
    assert_eq!(logged(&db).await[1], "after delete [4]");
    assert_eq!(
        db.delete_many::<User>(|u| u.id().lt(13))
            .await
            .unwrap()
            .deleted,
        2
    );
    assert_eq!(logged(&db).await[0], "before delete [3, 5]");
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

pub async fn a_hook_that_fails_takes_all_back(fixture: Fixture) {
    let backend = fixture.backend();
    let transactions = backend.capabilities().transactions;
    let db = database(&fixture).await;
    db.insert(user(1, "a")).await.unwrap();
    logged(&db).await;
    let error = db.insert(user(2, "bad before insert")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    assert!(db.find_by_id::<User>(2).await.unwrap().is_none());
    let before = logged(&db).await;
    let insert = db.insert(user(2, "bad after insert")).await.unwrap_err();
    let behind = logged(&db).await;
    let update = db
        .update::<User>(1)
        .set(|u| u.name(), "bad after update")
        .await
        .unwrap_err();
    let name = db.get::<User>(1).await.unwrap().name;
    if transactions {
        assert_eq!([before, behind].concat(), [""; 0]);
        assert_eq!([insert.kind(), update.kind()], [ErrorKind::Other; 2]);
        assert!(db.find_by_id::<User>(2).await.unwrap().is_none());
        assert_eq!(name, "a");
    } else {
        assert!(insert.is_committed() && update.is_committed(), "{insert}");
        assert!(db.find_by_id::<User>(2).await.unwrap().is_some());
        assert_eq!(
            (name.as_str(), before.len(), behind.len()),
            ("bad after update", 1, 5)
        );
    }
}

pub async fn what_follows_a_commit_cannot_undo_it(fixture: Fixture) {
    let db = database(&fixture).await;
    let error = db.insert(user(1, "bad commit")).await.unwrap_err();
    assert!(error.is_committed(), "{error}");
    assert!(error.to_string().contains("nobody listens"), "{error}");
    assert!(db.find_by_id::<User>(1).await.unwrap().is_some());
}

pub async fn a_transaction_has_the_hooks_inside(fixture: Fixture) {
    let backend = fixture.backend();
    if !backend.capabilities().transactions {
        return;
    }
    let db = database(&fixture).await;
    let aborted = db.transaction(|tx| async move {
        tx.insert(user(1, "Jane")).await?;
        Err::<(), _>(odm::Error::other("no"))
    });
    aborted.await.unwrap_err();
    assert!(logged(&db).await.is_empty());
    let outside = db.clone();
    db.transaction(|tx| {
        let outside = outside.clone();
        async move {
            tx.insert(user(1, "Jane")).await?;
            tx.update::<User>(1).set(|u| u.name(), "Joe").await?;
            // Nothing can be seen of it before the commit, and nothing is written beside it.
            assert_eq!(outside.find::<Entry>().count().await?, 0);
            let beside = outside.insert(user(3, "Jim")).await.unwrap_err();
            assert_eq!(beside.kind(), ErrorKind::OutsideTransaction);
            let beside = outside.update::<User>(1).set(|u| u.name(), "Jim").await;
            assert_eq!(beside.unwrap_err().kind(), ErrorKind::OutsideTransaction);
            Ok(())
        }
    })
    .await
    .unwrap();
    let all = logged(&db).await;
    assert_eq!(
        all[4..],
        [
            "before update",
            "after update [1]",
            "committed: inserted 1",
            "committed: updated false"
        ]
    );
    // The error of a hook is the end, though it be passed over.
    let swallowed = db.transaction(|tx| async move {
        tx.insert(user(2, "bad after insert")).await.unwrap_err();
        Ok(())
    });
    assert_eq!(swallowed.await.unwrap_err().kind(), ErrorKind::Other);
    assert!(db.find_by_id::<User>(2).await.unwrap().is_none());
}

pub async fn conflicts_are_tried_again(fixture: Fixture) {
    let backend = fixture.backend();
    if !backend.capabilities().transactions {
        return;
    }
    let db = database(&fixture).await;
    db.insert_many([1, 2, 3, 4].map(|id| user(id, "a")))
        .await
        .unwrap();
    logged(&db).await;
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
    let committed = logged(&db).await;
    let committed = committed
        .iter()
        .filter(|text| text.starts_with("committed"))
        .count();
    assert_eq!(i64::try_from(committed).unwrap(), applied);
}

pub async fn circles_end(fixture: Fixture) {
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
    assert!(
        error.to_string().contains("hooks have led to one another"),
        "{error}"
    );
}

pub async fn a_dropped_write_is_done_with_its_hooks_or_not(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let faults = Faults::new(fixture.backend());
    let db = Db::with_backend(Arc::new(faults.clone()));
    db.sync_indexes().await.unwrap();
    // The caller goes while the nth write is under way, or, with the last ones, behind it.
    for nth in 1..=6 {
        let (id, other) = (nth * 10, nth * 10 + 1);
        let drop_at_write =
            |delay| faults.inject(usize::try_from(nth).unwrap(), Operation::is_write, delay);
        let delay = || Fault::Delay(Duration::from_millis(200));
        drop_at_write(delay());
        give_up(db.insert(user(id, "Jane"))).await;
        let is_stored = db.find_by_id::<User>(id).await.unwrap().is_some();
        let texts = logged(&db).await;
        assert_eq!(
            texts.len(),
            if is_stored { INSERT.len() + 1 } else { 0 },
            "insert {nth}: {texts:?}"
        );

        faults.clear();
        db.insert(user(other, "Jane")).await.unwrap();
        logged(&db).await;
        drop_at_write(delay());
        give_up(db.update::<User>(other).set(|u| u.name(), "Joe")).await;
        let is_updated = db.get::<User>(other).await.unwrap().slug == "joe";
        let texts = logged(&db).await;
        assert_eq!(
            texts.len(),
            if is_updated { 3 } else { 0 },
            "update {nth}: {texts:?}"
        );

        faults.clear();
        drop_at_write(delay());
        give_up(db.delete::<User>(other)).await;
        let is_deleted = db.find_by_id::<User>(other).await.unwrap().is_none();
        let texts = logged(&db).await;
        assert_eq!(
            texts.len(),
            if is_deleted { 3 } else { 0 },
            "delete {nth}: {texts:?}"
        );
        faults.clear();
    }
}

/// Drops a write before it is done, and waits until what it has begun is over.
async fn give_up(write: impl IntoFuture) {
    let _ = tokio::time::timeout(Duration::from_millis(100), write.into_future()).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
}

pub async fn a_model_without_hooks_pays_nothing(fixture: Fixture) {
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()) as Arc<dyn Backend>);
    log(&db, "one").await.unwrap();
    db.update_many::<Entry>(|_| odm::Filter::all())
        .set(|e| e.text(), "two")
        .await
        .unwrap();
    assert_eq!(recorder.operations().len(), 2);
}
