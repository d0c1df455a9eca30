//! Tests of upserts by a unique index, and of inserts that skip duplicates.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use odm::{
    ErrorKind, Hooks, Session,
    action::{InsertedNew, Upserted},
    backend::{Fault, Faults, Recorder, operation::Operation},
    bson::doc,
    prelude::*,
};

use crate::Fixture;

/// A user with unique values of every kind: required, optional, and composed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users", index(country, number; unique))]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique)]
    mail: String,
    #[index(unique, partial = |u| u.nick().gt(""))]
    nick: Option<String>,
    country: String,
    number: i64,
    /// No unique index.
    #[index]
    name: String,
    logins: i64,
}

/// An account of a tenant. Deleted accounts do not keep their name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "accounts",
    scope = tenant,
    soft_delete,
    index(tenant, name; unique, partial = |a| a.deleted_at().is_none()),
    index(tenant, code; unique)
)]
struct Account {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    name: String,
    /// Deleted accounts keep their code.
    code: i64,
    deleted_at: Option<DateTime>,
}

/// A tag with hooks: the name is stored in lower case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tags", hooks)]
struct Tag {
    #[serde(rename = "_id")]
    id: ObjectId,
    #[index(unique)]
    name: String,
    uses: i64,
    log: String,
}

impl Hooks for Tag {
    type Schema = Entries;

    async fn before_insert(&mut self, _: &Session<Entries>) -> odm::Result<()> {
        self.name = self.name.to_lowercase();
        self.log.push_str("inserted");
        Ok(())
    }

    async fn before_update(
        changes: &mut odm::hook::Changes<Self>,
        _: &Session<Entries>,
    ) -> odm::Result<()> {
        changes.set(|t| t.log(), "updated");
        Ok(())
    }
}

/// An entry with a sequence number in the id, and a count at its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "entries", id = "{owner}/{#number}", timestamps)]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    #[reference(on_delete = restrict)]
    owner: Ref<Owner>,
    number: i64,
    #[index(unique)]
    code: String,
    created_at: DateTime,
    updated_at: DateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "owners")]
struct Owner {
    #[serde(rename = "_id")]
    id: String,
    #[count(of = Entry::owner)]
    entries: i64,
}

#[derive(Schema)]
#[schema(models(User, Account, Tag, Entry, Owner))]
struct Entries;
type Db = odm::Database<Entries>;

async fn open(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

fn user(id: i64, mail: &str) -> User {
    User {
        id,
        mail: mail.into(),
        nick: None,
        country: "fr".into(),
        number: id,
        name: "Jane".into(),
        logins: 1,
    }
}

pub async fn a_unique_key_finds_updates_or_inserts(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    let inserted = db.upsert_by(|u| u.mail(), user(1, "a@b.c")).await.unwrap();
    assert_eq!(inserted, Upserted::Inserted(user(1, "a@b.c")));

    // Without changes, the existing document is found by a single read.
    recorder.clear();
    let found = db.upsert_by(|u| u.mail(), user(2, "a@b.c"));
    let found = found.returning_after().await.unwrap();
    assert_eq!(found, Upserted::Updated(user(1, "a@b.c")));
    assert_eq!(recorder.operations().len(), 1);
    let counts = db.upsert_by(|u| u.mail(), user(2, "a@b.c")).await.unwrap();
    let Upserted::Updated(counts) = counts else {
        panic!("the document existed");
    };
    assert_eq!((counts.matched, counts.modified), (1, 0));

    // Changes apply to the existing document only, in a single write.
    recorder.clear();
    let login = |id, mail| {
        let upsert = db.upsert_by(|u| u.mail(), user(id, mail));
        upsert.update(|u| u.inc(|u| u.logins(), 1).set(|u| u.name(), "Jane Doe"))
    };
    let updated = login(2, "a@b.c").returning_after().await.unwrap();
    assert!(!updated.is_inserted());
    let expected = User {
        logins: 2,
        name: "Jane Doe".into(),
        ..user(1, "a@b.c")
    };
    assert_eq!(updated.into_inner(), expected);
    assert_eq!(recorder.operations().len(), 1);
    let before = login(2, "a@b.c").returning_before().await.unwrap();
    assert_eq!(before.into_inner(), expected);
    let inserted = login(2, "d@e.f").returning_after().await.unwrap();
    assert_eq!(inserted, Upserted::Inserted(user(2, "d@e.f")));
    assert_eq!(db.find::<User>().count().await.unwrap(), 2);

    // A condition: the existing document that does not meet the condition stays.
    let limited = |mail| {
        let upsert = db.upsert_by(|u| u.mail(), user(3, mail));
        upsert.update(|u| u.when(|u| u.logins().lt(3)).inc(|u| u.logins(), 1))
    };
    assert_eq!(limited("a@b.c").await.unwrap(), NotApplied);
    assert!(limited("d@e.f").await.unwrap().is_applied());
    assert!(
        limited("new")
            .await
            .unwrap()
            .expect_applied()
            .unwrap()
            .is_inserted()
    );
}

pub async fn a_unique_key_is_composed_optional_or_the_id(fixture: Fixture) {
    let db = open(&fixture).await;
    db.insert(user(1, "one")).await.unwrap();
    // The order of the fields does not matter.
    let composed = db.upsert_by(|u| (u.number(), u.country()), user(1, "two"));
    assert_eq!(
        composed.returning_after().await.unwrap().into_inner().mail,
        "one"
    );
    let by_id = db.upsert_by(|u| u.id(), user(1, "two"));
    assert_eq!(
        by_id.returning_after().await.unwrap().into_inner().mail,
        "one"
    );
    let nick = |id, nick: &str| User {
        nick: Some(nick.into()),
        ..user(id, nick)
    };
    assert!(
        db.upsert_by(|u| u.nick(), nick(2, "jd"))
            .await
            .unwrap()
            .is_inserted()
    );
    let again = db.upsert_by(|u| u.nick(), nick(3, "jd")).await.unwrap();
    assert!(!again.is_inserted());
}

pub async fn an_upsert_needs_a_unique_key_with_values(fixture: Fixture) {
    let db = open(&fixture).await;
    let missing = [
        db.upsert_by(|u| u.name(), user(1, "one")).await,
        db.upsert_by(|u| (u.mail(), u.name()), user(1, "one")).await,
        db.upsert_by(|u| u.country(), user(1, "one")).await,
    ];
    for error in missing.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error
                .to_string()
                .contains("no unique index has exactly the fields"),
            "{error}"
        );
    }
    let no_value = db
        .upsert_by(|u| u.nick(), user(1, "one"))
        .await
        .unwrap_err();
    assert_eq!(
        (no_value.kind(), no_value.path()),
        (ErrorKind::Invalid, Some("nick"))
    );
    assert_eq!(db.find::<User>().count().await.unwrap(), 0);

    // A duplicate in another unique index is an error, also in a transaction.
    db.insert(user(1, "one")).await.unwrap();
    let other = user(1, "two");
    let error = db.upsert_by(|u| u.mail(), other.clone()).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    if fixture.backend().capabilities().transactions {
        let upsert = db.transaction(async |tx| tx.upsert_by(|u| u.mail(), other.clone()).await);
        let error = upsert.await.unwrap_err();
        assert!(error.is_duplicate_key(), "{error}");
    }
    assert_eq!(db.find::<User>().count().await.unwrap(), 1);
}

pub async fn a_unique_key_of_a_scope_and_soft_deletes(fixture: Fixture) {
    let db = open(&fixture).await;
    let account = |id, name: &str| NewAccount {
        id,
        name: name.into(),
        code: id,
    };
    let acme = db.scope("acme");
    let globex = db.scope("globex");
    let first = acme.upsert_by(|a| a.name(), account(1, "jane")).await;
    assert!(first.unwrap().is_inserted());
    // A different tenant has names of its own.
    let other = globex.upsert_by(|a| a.name(), account(2, "jane")).await;
    assert!(other.unwrap().is_inserted());
    let again = acme.upsert_by(|a| a.name(), account(3, "jane"));
    assert_eq!(again.returning_after().await.unwrap().into_inner().id, 1);

    acme.delete::<Account>(1).await.unwrap();
    // The name of a deleted account is free, and the code is not.
    let same_code = NewAccount {
        code: 1,
        ..account(5, "new")
    };
    let hidden = acme.upsert_by(|a| a.code(), same_code).await.unwrap_err();
    assert_eq!(hidden.kind(), ErrorKind::DuplicateKey);
    assert!(hidden.to_string().contains("soft-deleted"), "{hidden}");
    // Another tenant has the code of the deleted account.
    let other = globex.upsert_by(|a| a.code(), account(1_001, "other"));
    assert!(other.await.unwrap().is_inserted());
    if fixture.backend().capabilities().transactions {
        let in_transaction = db.transaction(async |tx| {
            let same_code = NewAccount {
                code: 1,
                ..account(6, "new")
            };
            tx.scope("acme").upsert_by(|a| a.code(), same_code).await
        });
        let hidden = in_transaction.await.unwrap_err();
        assert_eq!(hidden.kind(), ErrorKind::DuplicateKey);
        assert!(hidden.to_string().contains("soft-deleted"), "{hidden}");
    }
    let reused = acme.upsert_by(|a| a.name(), account(4, "jane")).await;
    assert!(reused.unwrap().is_inserted());
}

pub async fn concurrent_upserts_by_a_unique_key_have_one_insert(fixture: Fixture) {
    let db = open(&fixture).await;
    let login = |db: Db, id: i64| async move {
        let upsert = db.upsert_by(|u| u.mail(), user(id, "a@b.c"));
        let upsert = upsert.update(|u| u.inc(|u| u.logins(), 1));
        upsert.await.unwrap().is_inserted()
    };
    let callers: Vec<_> = (0..64)
        .map(|id| tokio::spawn(login(db.clone(), id)))
        .collect();
    let mut inserted = 0;
    for caller in callers {
        inserted += i32::from(caller.await.unwrap());
    }
    assert_eq!(inserted, 1);
    assert_eq!(db.find::<User>().one().await.unwrap().logins, 64);
}

/// Another writer inserts the document between the update and the insert.
pub async fn a_duplicate_of_the_unique_key_runs_the_update_again(fixture: Fixture) {
    let faults = Arc::new(Faults::new(fixture.backend()));
    let db = Db::with_backend(faults.clone());
    db.sync_indexes().await.unwrap();
    faults.inject(
        1,
        |operation| matches!(operation, Operation::Insert(_)),
        Fault::Delay(Duration::from_millis(300)),
    );
    let upsert = db.upsert_by(|u| u.mail(), user(2, "a@b.c"));
    let upsert = upsert.update(|u| u.inc(|u| u.logins(), 1));
    let other = Db::with_backend(fixture.backend());
    let insert = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        other.insert(user(1, "a@b.c")).await.unwrap();
    };
    let (updated, ()) = tokio::join!(upsert.into_future(), insert);
    assert!(!updated.unwrap().is_inserted());
    assert_eq!(db.get::<User>(1).await.unwrap().logins, 2);

    // The document with the key is always gone again: the duplicate is returned in the end.
    let duplicate = odm::Error::new(ErrorKind::DuplicateKey, "injected");
    let duplicate = duplicate.with_index("mail_1", doc! { "mail": "gone" });
    for attempt in 1..=10 {
        faults.inject(
            attempt,
            |operation| matches!(operation, Operation::Insert(_)),
            Fault::FailBefore(duplicate.clone()),
        );
    }
    let upsert = db.upsert_by(|u| u.mail(), user(3, "gone")).await;
    assert!(upsert.unwrap_err().is_duplicate_key());
    assert_eq!(faults.pending(), 0);
}

pub async fn upserts_by_a_unique_key_in_transactions(fixture: Fixture) {
    let db = open(&fixture).await;
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let runs = AtomicU32::new(0);
    let login = db.transaction(async |tx| -> odm::Result<_> {
        // The transaction takes a snapshot before the concurrent insert.
        tx.find::<User>().count().await?;
        if runs.fetch_add(1, Ordering::Relaxed) == 0 {
            let other = Db::with_backend(fixture.backend());
            let insert = async move { other.insert(user(1, "a@b.c")).await };
            tokio::spawn(insert).await.map_err(odm::Error::other)??;
        }
        let upsert = tx.upsert_by(|u| u.mail(), user(2, "a@b.c"));
        upsert.update(|u| u.inc(|u| u.logins(), 1)).await
    });
    assert!(!login.await.unwrap().is_inserted());
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(db.get::<User>(1).await.unwrap().logins, 2);
}

pub async fn upserts_by_a_unique_key_run_hooks(fixture: Fixture) {
    let db = open(&fixture).await;
    let tag = |name: &str| Tag {
        id: ObjectId::new(),
        name: name.into(),
        uses: 1,
        log: String::new(),
    };
    let use_tag = |name| {
        let upsert = db.upsert_by(|t| t.name(), tag(name));
        upsert.update(|t| t.inc(|t| t.uses(), 1)).returning_after()
    };
    let inserted = use_tag("saw").await.unwrap();
    assert!(inserted.is_inserted());
    assert_eq!(inserted.into_inner().log, "inserted");
    let updated = use_tag("saw").await.unwrap();
    assert!(!updated.is_inserted());
    let updated = updated.into_inner();
    assert_eq!((updated.uses, updated.log.as_str()), (2, "updated"));
    // Without changes, no update runs.
    let found = db.upsert_by(|t| t.name(), tag("saw")).returning_after();
    assert_eq!(found.await.unwrap(), Upserted::Updated(updated));
    // A hook that changes the key: the document with the changed key is another document for the upsert.
    // In the transaction of the hooks, a duplicate counts as a concurrent insert.
    let error = use_tag("SAW").await.unwrap_err();
    assert!(error.is_duplicate_key() || error.is_conflict(), "{error}");
}

fn entry(code: &str) -> NewEntry {
    NewEntry {
        owner: Ref::new("jane"),
        code: code.into(),
    }
}

pub async fn upserts_with_derived_data_and_numbers(fixture: Fixture) {
    let db = open(&fixture).await;
    db.insert(NewOwner { id: "jane".into() }).await.unwrap();
    for (code, number) in [("a", 1), ("b", 2), ("a", 1), ("c", 3)] {
        let upsert = db.upsert_by(|e| e.code(), entry(code)).returning_after();
        assert_eq!(upsert.await.unwrap().into_inner().number, number, "{code}");
    }
    // Also as writes of a bulk.
    let upserts = ["a", "d"].map(|code| db.upsert_by(|e| e.code(), entry(code)));
    let report = db
        .bulk()
        .add_all(upserts)
        .await
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!((report.inserted, report.matched), (1, 1));
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<Owner>("jane").await.unwrap().entries, 4);
}

pub async fn an_insert_skips_duplicates(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.sync_indexes().await.unwrap();
    db.insert(user(1, "one")).await.unwrap();
    let users = [
        user(1, "same id"),
        user(2, "two"),
        user(3, "one"),
        user(4, "two"),
        user(5, "five"),
    ];
    recorder.clear();
    let new = db.insert_many(users).skip_duplicates().await.unwrap();
    let expected = InsertedNew {
        inserted: vec![user(2, "two"), user(5, "five")],
        skipped: vec![0, 2, 3],
    };
    assert_eq!(new, expected);
    assert_eq!(recorder.operations().len(), 1);
    assert_eq!(db.find::<User>().count().await.unwrap(), 3);
    let none = db
        .insert_many(Vec::<User>::new())
        .skip_duplicates()
        .await
        .unwrap();
    assert_eq!((none.inserted.len(), none.skipped.len()), (0, 0));

    if fixture.backend().capabilities().transactions {
        let refused = db.transaction(async |tx| {
            let insert = tx.insert_many([user(9, "nine")]);
            insert.skip_duplicates().await
        });
        assert!(refused.await.unwrap_err().is_unsupported());
    }
}

pub async fn an_insert_with_derived_data_skips_duplicates(fixture: Fixture) {
    let db = open(&fixture).await;
    db.insert(NewOwner { id: "jane".into() }).await.unwrap();
    let new = db
        .insert_many(["a", "b", "a"].map(entry))
        .skip_duplicates()
        .await
        .unwrap();
    let codes: Vec<_> = new
        .inserted
        .iter()
        .map(|entry| entry.code.as_str())
        .collect();
    assert_eq!((codes, new.skipped), (vec!["a", "b"], vec![2]));
    db.wait_for_pending().await.unwrap();
    assert_eq!(db.get::<Owner>("jane").await.unwrap().entries, 2);

    // Another error is returned, and all other documents are stored.
    let lost = NewEntry {
        owner: Ref::new("nobody"),
        code: "x".into(),
    };
    let error = db
        .insert_many([entry("b"), lost, entry("c")])
        .skip_duplicates()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dangling);
    assert_eq!(error.inserted(), Some(1));
    let failures: Vec<_> = error.failures().map(|(position, _)| position).collect();
    assert_eq!(failures, [1]);
    assert_eq!(db.find::<Entry>().count().await.unwrap(), 3);

    // Hooks run for the stored documents only.
    let tag = |name: &str| Tag {
        id: ObjectId::new(),
        name: name.into(),
        uses: 1,
        log: String::new(),
    };
    let new = db
        .insert_many([tag("Saw"), tag("saw")])
        .skip_duplicates()
        .await
        .unwrap();
    assert_eq!((new.inserted.len(), new.skipped), (1, vec![1]));
    assert_eq!(new.inserted[0].log, "inserted");
    assert_eq!(db.find::<Tag>().one().await.unwrap().name, "saw");
}

/// A member with a mail that is unique without case, and with a name that is unique without case in a club.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "members", id = auto, index(club, ignore_case(name); unique))]
struct Member {
    #[serde(rename = "_id")]
    id: ObjectId,
    #[index(unique, ignore_case)]
    mail: String,
    club: i64,
    name: String,
}

/// A badge. Deleted badges keep their code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "badges", soft_delete)]
struct Badge {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique, ignore_case)]
    code: String,
    deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Member, Badge))]
struct Clubs;

pub async fn a_unique_index_can_ignore_case(fixture: Fixture) {
    let db = odm::Database::<Clubs>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let member = |mail: &str, name: &str| NewMember {
        mail: mail.into(),
        club: 1,
        name: name.into(),
    };
    let ann = db.insert(member("Ann@example.org", "Ann")).await.unwrap();
    let found = db
        .upsert_by(|m| m.mail(), member("ANN@Example.org", "Anna"))
        .returning_after();
    assert_eq!(found.await.unwrap().into_inner(), ann);
    let renamed = db
        .upsert_by(|m| m.mail(), member("ann@example.ORG", ""))
        .update(|m| m.set(|m| m.name(), "Anna"))
        .returning_after();
    let renamed = renamed.await.unwrap().into_inner();
    assert_eq!(
        (renamed.id, &*renamed.name, &*renamed.mail),
        (ann.id, "Anna", "Ann@example.org")
    );

    // A part of a key with several fields.
    let by_name = db.upsert_by(
        |m| (m.club(), m.name()),
        member("other@example.org", "ANNA"),
    );
    assert!(!by_name.await.unwrap().is_inserted());

    let upserts = ["ben@example.org", "Ben@Example.org", "BEN@EXAMPLE.ORG"].map(|mail| {
        let upsert = db.upsert_by(|m| m.mail(), member(mail, mail));
        async move { upsert.await.unwrap().is_inserted() }
    });
    let inserted = futures_util::future::join_all(upserts).await;
    assert_eq!(
        inserted.iter().filter(|is_inserted| **is_inserted).count(),
        1
    );
    assert_eq!(db.find::<Member>().count().await.unwrap(), 2);

    // The insert creates the id, so the id finds no document.
    let by_id = db.upsert_by(|m| m.id(), member("eve@example.org", "Eve"));
    let error = by_id.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(db.find::<Member>().count().await.unwrap(), 2);

    // A soft-deleted document has the key.
    let badge = |id, code: &str| NewBadge {
        id,
        code: code.into(),
    };
    db.insert(badge(1, "Blue")).await.unwrap();
    db.delete::<Badge>(1).await.unwrap();
    let hidden = db.upsert_by(|b| b.code(), badge(2, "BLUE")).await;
    let hidden = hidden.unwrap_err();
    assert!(hidden.to_string().contains("soft-deleted"), "{hidden}");
}

pub async fn a_transaction_runs_again_after_a_caseless_duplicate(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = odm::Database::<Clubs>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let member = |mail: &str| NewMember {
        mail: mail.into(),
        club: 1,
        name: mail.into(),
    };
    let runs = AtomicU32::new(0);
    let upsert = db.transaction(async |tx| -> odm::Result<_> {
        // The transaction takes a snapshot before the concurrent insert.
        tx.find::<Member>().count().await?;
        if runs.fetch_add(1, Ordering::Relaxed) == 0 {
            let other = odm::Database::<Clubs>::with_backend(fixture.backend());
            let insert = async move { other.insert(member("Ann@example.org")).await };
            tokio::spawn(insert).await.map_err(odm::Error::other)??;
        }
        tx.upsert_by(|m| m.mail(), member("ANN@example.org")).await
    });
    assert!(!upsert.await.unwrap().is_inserted());
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(db.find::<Member>().count().await.unwrap(), 1);
}
