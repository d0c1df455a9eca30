//! Rules and hooks of models with narrowed writes: soft delete, scope, schema version.

use odm::{
    Error, ErrorKind, Filter, Hooks, Session,
    backend::operation::InsertOperation,
    bson::{self, RawDocumentBuf, doc},
    hook::{Changes, Committed, Selection},
    prelude::*,
};

use crate::Fixture;

/// A post. Version 1 had a `name`; the upgrade refuses a document without `name`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, garde::Validate)]
#[document(collection = "posts", soft_delete, schema_version = 2, upgrade = upgrade_post, hooks, validate)]
pub struct Post {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(skip)]
    title: String,
    #[garde(range(max = 10))]
    votes: i64,
    #[garde(skip)]
    deleted_at: Option<DateTime>,
}

fn upgrade_post(_: u32, post: &mut bson::Document) -> odm::Result<()> {
    let name = post.remove("name");
    let name = name.ok_or_else(|| Error::other("a post without a name"))?;
    post.insert("title", name);
    Ok(())
}

/// A note of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, garde::Validate)]
#[document(collection = "notes", scope = tenant, validate)]
pub struct Note {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(skip)]
    tenant: String,
    #[garde(range(max = 10))]
    votes: i64,
}

/// A memo of a tenant, with hooks that see only memos of the same tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "memos", scope = tenant, hooks)]
pub struct Memo {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    text: String,
    votes: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "entries")]
pub struct Entry {
    #[serde(rename = "_id")]
    id: ObjectId,
    text: String,
}

#[derive(Schema)]
#[schema(models(Post, Note, Memo, Entry))]
pub struct Site;
type Db = odm::Database<Site>;

async fn add_log_entry(tx: &Session<Site>, text: String) -> odm::Result<()> {
    let id = ObjectId::new();
    tx.insert(Entry { id, text }).await.map(drop)
}

impl Hooks for Post {
    type Schema = Site;

    async fn after_insert(&self, tx: &Session<Site>) -> odm::Result<()> {
        add_log_entry(tx, format!("after insert {}", self.title)).await
    }

    async fn before_update(changes: &mut Changes<Self>, tx: &Session<Site>) -> odm::Result<()> {
        let ids = changes.ids(tx).await?.to_vec();
        // A hook sees the same documents as a caller.
        let seen = tx.find::<Post>().count().await?;
        add_log_entry(tx, format!("before update {ids:?} of {seen}")).await
    }

    async fn after_update(changes: &Changes<Self>, tx: &Session<Site>) -> odm::Result<()> {
        let restores = changes.contains(|p| p.deleted_at());
        add_log_entry(tx, format!("after update, restores {restores}")).await
    }

    async fn before_delete(which: &mut Selection<Self>, tx: &Session<Site>) -> odm::Result<()> {
        let ids = which.ids(tx).await?.to_vec();
        add_log_entry(tx, format!("before delete {ids:?}")).await
    }

    async fn after_delete(which: &Selection<Self>, tx: &Session<Site>) -> odm::Result<()> {
        let remaining = tx.find::<Post>().count().await?;
        let ids = which.known_ids().unwrap_or_default();
        add_log_entry(tx, format!("after delete {ids:?}, {remaining} left")).await
    }

    async fn after_commit(event: Committed<Self>, db: &Session<Site>) -> odm::Result<()> {
        match event {
            Committed::Inserted(post) => {
                add_log_entry(db, format!("inserted {}", post.title)).await
            }
            _ => Ok(()),
        }
    }
}

impl Memo {
    async fn log(tx: &Session<Site, String>, what: &str) -> odm::Result<()> {
        // Logs the tenants of all memos that the hook sees.
        let memos = tx.find::<Memo>().sort(|m| m.id().asc()).all().await?;
        let seen: Vec<_> = memos.iter().map(|memo| (memo.id, &memo.tenant)).collect();
        let text = format!("{what} {seen:?}");
        tx.insert(Entry {
            id: ObjectId::new(),
            text,
        })
        .await
        .map(drop)
    }
}

impl Hooks for Memo {
    type Schema = Site;

    async fn before_insert(&mut self, tx: &Session<Site, String>) -> odm::Result<()> {
        self.text = format!("{} of {}", self.text, self.tenant);
        Self::log(tx, "before insert").await
    }

    async fn after_update(changes: &Changes<Self>, tx: &Session<Site, String>) -> odm::Result<()> {
        // The hook writes to the same model, in the same scope.
        if changes.contains(|m| m.text()) {
            tx.update_many::<Memo>(|_| Filter::all())
                .inc(|m| m.votes(), 1)
                .await?;
        }
        Ok(())
    }

    async fn before_delete(
        which: &mut Selection<Self>,
        tx: &Session<Site, String>,
    ) -> odm::Result<()> {
        let ids = which.ids(tx).await?.to_vec();
        Self::log(tx, &format!("before delete {ids:?}")).await
    }

    async fn after_commit(event: Committed<Self>, db: &Session<Site, String>) -> odm::Result<()> {
        match event {
            Committed::Inserted(memo) => Self::log(db, &format!("inserted {}", memo.id)).await,
            _ => Ok(()),
        }
    }
}

/// Returns the entries since the last call, and deletes the entries.
async fn take_log_entries(db: &Db) -> Vec<String> {
    let entries = db.find::<Entry>().sort(|e| e.id().asc()).all().await;
    let all = db.delete_many::<Entry>(|_| Filter::all()).await;
    all.unwrap();
    entries.unwrap().into_iter().map(|e| e.text).collect()
}

async fn open_with_indexes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    // Create the collection first: two concurrent transactions could both create the collection.
    add_log_entry(&db, String::new()).await.unwrap();
    take_log_entries(&db).await;
    db
}

fn post(id: i64, title: &str) -> NewPost {
    let title = title.into();
    NewPost {
        id,
        title,
        votes: 0,
    }
}

pub async fn a_soft_delete_runs_the_hooks(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    db.insert_many([post(1, "a"), post(2, "b")]).await.unwrap();
    take_log_entries(&db).await;

    assert!(db.delete::<Post>(1).await.unwrap().is_applied());
    let both = ["before delete [1]", "after delete [1], 1 left"];
    assert_eq!(take_log_entries(&db).await, both);
    let marked = db.find::<Post>().only_deleted().all().await.unwrap();
    assert_eq!(marked.iter().map(|post| post.id).collect::<Vec<_>>(), [1]);

    // Hooks do not see the soft-deleted post.
    assert!(!db.delete::<Post>(1).await.unwrap().is_applied());
    assert_eq!(take_log_entries(&db).await, ["before delete []"]);
    let error = db.update::<Post>(1).inc(|p| p.votes(), 1).await;
    assert!(error.is_err_and(|error| error.is_not_found() || error.is_unsupported()));
    take_log_entries(&db).await;
    let error = db.update::<Post>(1).set(|p| p.votes(), 1).await;
    assert!(error.unwrap_err().is_not_found());
    let upsert = db.update::<Post>(1).set(|p| p.votes(), 1);
    let error = upsert.or_insert(post(1, "c")).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    assert_eq!(error.id(), Some(&1_i64.into()));
    take_log_entries(&db).await;

    assert!(db.restore::<Post>(1).await.unwrap().is_applied());
    let restored = ["before update [1] of 1", "after update, restores true"];
    assert_eq!(take_log_entries(&db).await, restored);
    assert_eq!(db.find::<Post>().count().await.unwrap(), 2);

    let gone = db.delete_first::<Post>(|p| p.title().eq("a")).returning();
    assert_eq!(gone.await.unwrap().expect_applied().unwrap().id, 1);
    let report = db.bulk().add(db.delete::<Post>(2)).await.unwrap();
    assert_eq!(report.deleted, 1);
    assert_eq!(take_log_entries(&db).await.len(), 4);
    let all = db.find::<Post>().with_deleted().count().await.unwrap();
    assert_eq!(all, 2);

    // A permanent delete includes soft-deleted documents.
    let gone = db.delete_many::<Post>(|_| Filter::all()).permanently();
    assert_eq!(gone.await.unwrap().deleted, 2);
    let both = ["before delete [1, 2]", "after delete [1, 2], 0 left"];
    assert_eq!(take_log_entries(&db).await, both);
    let all = db.find::<Post>().with_deleted().count().await.unwrap();
    assert_eq!(all, 0);
}

pub async fn a_restore_is_validated(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let full = NewPost {
        votes: 10,
        ..post(1, "a")
    };
    db.insert(full).await.unwrap();
    db.delete::<Post>(1).await.unwrap();
    let restore = db.restore::<Post>(1).inc(|p| p.votes(), 1);
    let error = restore.await.unwrap_err();
    if fixture.backend().capabilities().transactions {
        assert!(error.is_validation(), "{error}");
        assert_eq!(error.path(), Some("votes"));
    } else {
        assert!(error.is_unsupported(), "{error}");
    }
    assert_eq!(db.find::<Post>().only_deleted().count().await.unwrap(), 1);
    let restore = db.restore::<Post>(1).set(|p| p.votes(), 11);
    assert!(restore.await.unwrap_err().is_validation());
    db.restore::<Post>(1).set(|p| p.votes(), 9).await.unwrap();
    assert_eq!(db.get::<Post>(1).await.unwrap().votes, 9);
}

pub async fn hooks_run_for_upgraded_documents(fixture: Fixture) {
    let db = open_with_indexes(&fixture).await;
    let old = |id: i64, votes: i64| {
        RawDocumentBuf::try_from(&doc! { "_id": id, "name": "old", "votes": votes })
    };
    let insert = InsertOperation {
        collection: "posts".into(),
        documents: vec![old(1, 0).unwrap(), old(2, 10).unwrap()],
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();

    // The filter uses fields of the current version.
    let update = db.update_many::<Post>(|p| p.title().eq("old"));
    let done = update.set(|p| p.votes(), 3).await.unwrap();
    assert_eq!((done.matched, done.modified), (2, 2));
    let both = ["before update [1, 2] of 2", "after update, restores false"];
    assert_eq!(take_log_entries(&db).await, both);

    // An insert stores the current version, and no hook receives an older version.
    db.insert(post(3, "new")).await.unwrap();
    let both = ["after insert new", "inserted new"];
    assert_eq!(take_log_entries(&db).await, both);
    let upsert = db.update::<Post>(4).set(|p| p.votes(), 1);
    let upserted = upsert.or_insert(post(4, "newer")).await.unwrap();
    assert!(upserted.is_inserted());
    assert_eq!(
        take_log_entries(&db).await[1..],
        ["after insert newer", "inserted newer"]
    );
    let saved = db.modify::<Post>(1, |p| p.title.push('!')).await.unwrap();
    assert_eq!(saved.title, "old!");
    assert_eq!(
        db.delete_many::<Post>(|_| Filter::all())
            .await
            .unwrap()
            .deleted,
        4
    );
}

pub async fn validation_stays_in_the_scope(fixture: Fixture) {
    let transactions = fixture.backend().capabilities().transactions;
    let db = open_with_indexes(&fixture).await;
    let (acme, globex) = (db.scope("acme"), db.scope("globex"));
    let note = NewNote { id: 1, votes: 10 };
    let error = acme.insert(NewNote { id: 1, votes: 11 }).await;
    assert!(error.unwrap_err().is_validation());
    acme.insert(note).await.unwrap();
    let error = acme.update::<Note>(1).inc(|n| n.votes(), 1).await;
    let expected = match transactions {
        true => ErrorKind::Validation,
        false => ErrorKind::Unsupported,
    };
    assert_eq!(error.unwrap_err().kind(), expected);
    if transactions {
        let error = globex.update::<Note>(1).inc(|n| n.votes(), 1).await;
        assert!(error.unwrap_err().is_not_found());
        let none = globex.update_many::<Note>(|_| Filter::all());
        assert_eq!(none.inc(|n| n.votes(), 1).await.unwrap().matched, 0);
        let all = db.all_scopes().update_many::<Note>(|_| Filter::all());
        assert!(all.inc(|n| n.votes(), 1).await.unwrap_err().is_validation());
    }
    assert_eq!(acme.get::<Note>(1).await.unwrap().votes, 10);
}

/// The hooks of a model with a scope run in the scope of the write, in a bulk of several scopes too.
pub async fn hooks_stay_in_the_scope_of_the_write(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let tenant = |name: &str| db.scope(&name.to_owned());
    let memo = |id: i64| NewMemo {
        id,
        text: "memo".into(),
        votes: 0,
    };
    let inserted = tenant("acme").insert(memo(1)).await.unwrap();
    assert_eq!(
        (&*inserted.text, &*inserted.tenant),
        ("memo of acme", "acme")
    );
    tenant("globex").insert(memo(2)).await.unwrap();
    let expected = [
        "before insert []",
        r#"inserted 1 [(1, "acme")]"#,
        "before insert []",
        r#"inserted 2 [(2, "globex")]"#,
    ];
    assert_eq!(take_log_entries(&db).await, expected);

    let votes = async || {
        let memos = db
            .all_scopes()
            .find::<Memo>()
            .sort(|m| m.id().asc())
            .all()
            .await;
        memos.unwrap().iter().map(|m| m.votes).collect::<Vec<_>>()
    };
    tenant("acme")
        .update::<Memo>(1)
        .set(|m| m.text(), "new")
        .await
        .unwrap();
    assert_eq!(votes().await, [1, 0]);
    let mut edited = tenant("globex").edit::<Memo>(2).await.unwrap();
    edited.text.push('!');
    tenant("globex").save(&mut edited).await.unwrap();
    assert_eq!(votes().await, [1, 1]);
    let upsert = tenant("globex")
        .update::<Memo>(3)
        .set(|m| m.text(), "x")
        .or_insert(memo(3));
    assert!(upsert.await.unwrap().is_inserted());
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let bulk = db
        .bulk()
        .add(acme.insert(memo(4)))
        .add(globex.delete::<Memo>(2));
    assert!(bulk.await.unwrap().is_ok());
    let expected = [
        r#"before insert [(2, "globex")]"#,
        r#"inserted 3 [(2, "globex"), (3, "globex")]"#,
        r#"before insert [(1, "acme")]"#,
        r#"inserted 4 [(1, "acme"), (4, "acme")]"#,
        r#"before delete [2] [(2, "globex"), (3, "globex")]"#,
    ];
    assert_eq!(take_log_entries(&db).await, expected);

    // A memo of a different tenant is not found, whether the hooks run or not.
    let error = tenant("acme")
        .update::<Memo>(3)
        .set(|m| m.text(), "")
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
    // A write across all scopes gives the hooks no scope.
    take_log_entries(&db).await;
    let all = db.all_scopes();
    let refused = [
        all.update::<Memo>(1)
            .set(|m| m.text(), "")
            .await
            .unwrap_err(),
        all.delete_many::<Memo>(|_| Filter::all())
            .await
            .unwrap_err(),
        all.modify::<Memo>(1, |m| m.text.clear()).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(
            (error.kind(), error.model()),
            (ErrorKind::Invalid, Some("Memo")),
            "{error}"
        );
        assert!(error.to_string().contains("db.scope("), "{error}");
    }
    assert!(take_log_entries(&db).await.is_empty());
    assert_eq!(all.find::<Memo>().count().await.unwrap(), 3);

    if fixture.backend().capabilities().transactions {
        let work = db.transaction(async |tx| -> odm::Result<_> {
            tx.scope("acme")
                .insert(NewMemo {
                    id: 5,
                    text: "memo".into(),
                    votes: 0,
                })
                .await?;
            tx.scope("globex")
                .insert(NewMemo {
                    id: 6,
                    text: "memo".into(),
                    votes: 0,
                })
                .await?;
            Ok(())
        });
        work.await.unwrap();
        let all = take_log_entries(&db).await;
        let expected = [
            r#"inserted 5 [(1, "acme"), (4, "acme"), (5, "acme")]"#,
            r#"inserted 6 [(3, "globex"), (6, "globex")]"#,
        ];
        assert_eq!(all[2..], expected);
    }
}
