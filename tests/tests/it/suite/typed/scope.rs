use std::collections::BTreeSet;

use odm::{
    Database, Edited, ErrorKind, Filter, Session,
    backend::{operation, read_to_end},
    bson::{RawDocumentBuf, doc},
    prelude::*,
    watch::Event,
};

use crate::{Fixture, hidden_documents::nothing_reaches_the_note_9};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct TenantId(String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "notes",
    scope = tenant,
    version,
    index(tenant, slug; unique),
    index(tenant, -votes, -id)
)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "t")]
    tenant: TenantId,
    slug: String,
    votes: i64,
    #[reference]
    like: Option<Ref<Note>>,
    #[reference]
    kind: Option<Ref<Kind>>,
    version: i64,
}

/// A kind, shared by all tenants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "kinds")]
struct Kind {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    example: Option<Ref<Note>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: String,
}

/// A draft, with a scope of a second type and a soft delete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "drafts", scope = owner, soft_delete)]
struct Draft {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    owner: Ref<User>,
    deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Note, Kind, User, Draft))]
struct Desk;
type Db = Database<Desk>;
type Tenant = Session<Desk, TenantId>;

fn new_note(id: i64) -> NewNote {
    NewNote {
        id,
        slug: format!("note {id}"),
        votes: id,
        like: None,
        kind: None,
    }
}

async fn insert_notes(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

fn tenant(db: &Session<Desk>, name: &str) -> Tenant {
    db.scope(&TenantId(name.into()))
}

/// Returns a note as stored.
async fn read_raw(fixture: &Fixture, id: i64) -> Option<RawDocumentBuf> {
    let find = operation::FindOperation {
        collection: "notes".into(),
        filter: RawDocumentBuf::try_from(&doc! { "_id": id }).unwrap(),
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let found = fixture.backend().find(find).await;
    read_to_end(found.unwrap()).await.unwrap().pop()
}

pub async fn other_tenants_documents_are_unreachable(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    let refers = |id, to: i64| NewNote {
        like: Some(Ref::new(to)),
        ..new_note(id)
    };
    acme.insert(refers(9, 1)).await.unwrap();
    globex.insert(refers(1, 9)).await.unwrap();
    // Use the edited note of one tenant with a session of a different tenant.
    let edited: Edited<Note> = acme.edit::<Note>(9).await.unwrap();
    let before = read_raw(&fixture, 9).await;
    nothing_reaches_the_note_9!(&globex, |id| new_note(id), edited);
    assert_eq!(read_raw(&fixture, 9).await, before);
    // Writes to all documents do not reach the note.
    let everything = globex.update_many::<Note>(|_| Filter::all());
    assert_eq!(everything.inc(|n| n.votes(), 1).await.unwrap().matched, 1);
    let everything = globex.delete_many::<Note>(|_| Filter::all());
    assert_eq!(everything.await.unwrap().deleted, 1);
    assert_eq!(read_raw(&fixture, 9).await, before);
    // The tenant of the note reaches the note.
    assert_eq!(acme.get::<Note>(9).await.unwrap().votes, 9);
    acme.modify::<Note>(9, |n| n.votes += 1).await.unwrap();
    assert_eq!(acme.find::<Note>().sum(|n| n.votes()).await.unwrap(), 10);
}

pub async fn inserts_set_the_scope(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let acme = tenant(&db, "acme");
    let of_acme = |note: &Note| note.tenant == TenantId("acme".into());
    assert!(of_acme(&acme.insert(new_note(1)).await.unwrap()));
    let many = acme.insert_many([new_note(2), new_note(3)]).await.unwrap();
    assert!(many.iter().all(of_acme));
    let upsert = acme
        .update::<Note>(4)
        .inc(|n| n.votes(), 1)
        .or_insert(new_note(4));
    assert!(of_acme(
        &upsert.returning_after().await.unwrap().into_inner()
    ));
    let report = acme.bulk().add(acme.insert(new_note(5))).await.unwrap();
    assert_eq!(report.into_result().unwrap().inserted, 1);
    let all = acme
        .find::<Note>()
        .filter(|n| n.tenant().eq(TenantId("acme".into())));
    assert_eq!(all.count().await.unwrap(), 5);
    // A unique slug is unique within a scope only.
    let globex = tenant(&db, "globex");
    let same = NewNote {
        id: 11,
        ..new_note(1)
    };
    globex.insert(same.clone()).await.unwrap();
    let error = globex.insert(NewNote { id: 12, ..same }).await.unwrap_err();
    assert!(error.is_duplicate_key());
    assert_eq!(error.path(), Some("slug"));

    // A document cannot move to a different scope.
    let mut note = acme.edit::<Note>(1).await.unwrap();
    note.tenant = TenantId("globex".into());
    let error = acme.save(&mut note).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("t"))
    );
}

pub async fn all_scopes_reads_and_writes_every_tenant(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    tenant(&db, "acme").insert(new_note(1)).await.unwrap();
    tenant(&db, "globex").insert(new_note(2)).await.unwrap();
    let all = db.all_scopes();
    assert_eq!(all.find::<Note>().count().await.unwrap(), 2);
    let groups = all
        .find::<Note>()
        .group_by(|n| n.tenant())
        .select(|g| g.count());
    assert_eq!(groups.all().await.unwrap().len(), 2);
    all.modify::<Note>(1, |n| n.votes = 7).await.unwrap();
    all.update_many::<Note>(|_| Filter::all())
        .inc(|n| n.votes(), 1)
        .await
        .unwrap();
    assert_eq!(all.find::<Note>().sum(|n| n.votes()).await.unwrap(), 11);
    // An upsert across all scopes is invalid, because the scope of the new document is unknown.
    let upsert = all
        .update::<Note>(3)
        .inc(|n| n.votes(), 1)
        .or_insert(new_note(3));
    let error = upsert.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Invalid, Some("Note"))
    );
    // A document of a model without a scope can be inserted.
    all.insert(Kind {
        id: 1,
        example: None,
    })
    .await
    .unwrap();
    let rows = all
        .find::<Kind>()
        .pipeline([doc! { "$unionWith": "notes" }]);
    assert_eq!(rows.all_as::<bson::Document>().await.unwrap().len(), 3);
    all.delete::<Note>(2).await.unwrap();
    assert_eq!(
        tenant(&db, "globex").find::<Note>().count().await.unwrap(),
        0
    );
    let rows = db.find::<Kind>().pipeline([doc! { "$unionWith": "notes" }]);
    let error = rows.all_as::<bson::Document>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

pub async fn a_join_stays_in_the_scope(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    // A model without a scope can be used in any session.
    acme.insert(Kind {
        id: 1,
        example: Some(Ref::new(9_i64)),
    })
    .await
    .unwrap();
    assert_eq!(db.get::<Kind>(1).await.unwrap().id, 1);
    let of_kind = |id| NewNote {
        kind: Some(Ref::new(1_i64)),
        ..new_note(id)
    };
    acme.insert_many([of_kind(1), of_kind(2)]).await.unwrap();
    globex.insert(of_kind(9)).await.unwrap();

    let notes = acme
        .find::<Note>()
        .with(|n| n.kind().with(|k| k.example()))
        .all()
        .await
        .unwrap();
    assert_eq!(notes.len(), 2);
    let (_, example) = notes[0].1.as_ref().unwrap().loaded().unwrap();
    assert!(example.as_ref().unwrap().loaded().is_none());
    let kinds = acme
        .find::<Kind>()
        .with_children(Note::by(|n| n.kind()).sort(|n| n.id().asc()))
        .one();
    let (_, notes) = kinds.await.unwrap();
    assert_eq!(notes.iter().map(|note| note.id).collect::<Vec<_>>(), [1, 2]);
    let (_, notes) = db
        .all_scopes()
        .find::<Kind>()
        .with_children(Note::by(|n| n.kind()))
        .one()
        .await
        .unwrap();
    assert_eq!(notes.len(), 3);
}

pub async fn scopes_of_several_types(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let jane = db.insert(User { id: "jane".into() }).await.unwrap();
    let janes = db.scope(&jane.to_ref());
    janes.insert(NewDraft { id: 1 }).await.unwrap();
    db.scope(&Ref::<User>::new("joe"))
        .insert(NewDraft { id: 2 })
        .await
        .unwrap();
    assert_eq!(
        janes.find::<Draft>().one().await.unwrap().owner,
        jane.to_ref()
    );
    let (_, owner) = janes
        .find::<Draft>()
        .with(|d| d.owner())
        .one()
        .await
        .unwrap();
    assert_eq!(owner.loaded(), Some(&jane));
    // Scope and soft delete both apply, and each condition can be lifted separately.
    assert_eq!(
        janes
            .delete_many::<Draft>(|_| Filter::all())
            .await
            .unwrap()
            .deleted,
        1
    );
    assert_eq!(janes.find::<Draft>().count().await.unwrap(), 0);
    assert_eq!(
        janes.find::<Draft>().only_deleted().count().await.unwrap(),
        1
    );
    assert!(janes.restore::<Draft>(2).await.unwrap_err().is_not_found());
    assert_eq!(
        janes
            .delete::<Draft>(2)
            .permanently()
            .await
            .unwrap()
            .deleted,
        0
    );
    let all = db.all_scopes();
    assert_eq!(all.find::<Draft>().count().await.unwrap(), 1);
    assert_eq!(all.find::<Draft>().with_deleted().count().await.unwrap(), 2);
    janes.restore::<Draft>(1).await.unwrap();
    assert_eq!(all.find::<Draft>().count().await.unwrap(), 2);
}

pub async fn several_scopes_in_one_bulk(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    let all = db.all_scopes();
    let report = all
        .bulk()
        .add(acme.insert(new_note(1)))
        .add(globex.insert(new_note(2)))
        // Each write keeps the scope of the session that made the write, although `db` sends the bulk.
        .add(
            acme.update_many::<Note>(|_| Filter::all())
                .inc(|n| n.votes(), 10),
        )
        .add(acme.delete::<Note>(2))
        .add(globex.delete_many::<Note>(|n| n.votes().gte(10)))
        .add(
            acme.update::<Note>(2)
                .when(|n| n.votes().gt(0))
                .inc(|n| n.votes(), 1),
        )
        .await;
    let report = report.unwrap().into_result().unwrap();
    assert_eq!(
        (report.inserted, report.matched, report.deleted),
        (2, 1, 0),
        "{report:?}"
    );
    assert_eq!(all.find::<Note>().sum(|n| n.votes()).await.unwrap(), 13);
}

pub async fn a_page_token_is_valid_in_its_scope_only(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    acme.insert_many((0..4).map(new_note)).await.unwrap();
    globex.insert_many((10..14).map(new_note)).await.unwrap();
    let first = acme.find::<Note>().page(2).await.unwrap();
    let token = first.next.unwrap();
    assert_eq!(
        acme.find::<Note>()
            .page(9)
            .after(&token)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    for other in [
        globex.find::<Note>().page(2).after(&token).await,
        db.all_scopes().find::<Note>().page(2).after(&token).await,
    ] {
        assert!(other.unwrap_err().is_invalid_page_token());
    }
}

/// The index begins with the scope.
pub async fn pages_use_the_scope_index(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    for name in ["acme", "globex", "initech"] {
        let scope = tenant(&db, name);
        let base = name.len() as i64 * 1_000;
        scope
            .insert_many((base..base + 200).map(new_note))
            .await
            .unwrap();
    }
    let acme = tenant(&db, "acme");
    let query = || acme.find::<Note>().sort(|n| n.votes().desc()).page(10);
    let first = query().explain().await.unwrap();
    assert!(
        !first.is_collection_scan && !first.is_sorted_in_memory,
        "{first:?}"
    );
    let (mut token, mut seen) = (None, 0);
    for _ in 0..20 {
        let explain = query().after(&token).explain().await.unwrap();
        assert_eq!(explain.indexes, first.indexes);
        assert!(!explain.is_sorted_in_memory, "{explain:?}");
        // MongoDB reads ahead and fetches documents twice: see `late_pages_cost_the_same`.
        assert!(explain.keys_examined <= 14, "{explain:?}");
        assert!(explain.documents_examined <= 25, "{explain:?}");
        let page = query().after(&token).await.unwrap();
        seen += page.items.len();
        token = page.next;
    }
    assert_eq!((seen, token), (200, None));
}

pub async fn a_transaction_in_a_scope(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = insert_notes(&fixture).await;
    tenant(&db, "globex").insert(new_note(9)).await.unwrap();
    db.transaction(async |tx| -> odm::Result<_> {
        let acme = tenant(&tx, "acme");
        acme.insert(new_note(1)).await?;
        assert!(acme.find_by_id::<Note>(9).await?.is_none());
        assert_eq!(acme.find::<Note>().count().await?, 1);
        assert_eq!(acme.delete::<Note>(9).await?.deleted, 0);
        assert_eq!(tx.all_scopes().find::<Note>().count().await?, 2);
        Ok(())
    })
    .await
    .unwrap();
    let error = db
        .transaction(|tx| async move {
            let acme = tenant(&tx, "acme");
            acme.update::<Note>(9)
                .inc(|n| n.votes(), 1)
                .or_insert(new_note(9))
                .await
        })
        .await;
    assert!(error.unwrap_err().is_duplicate_key());
}

pub async fn concurrent_tenants_do_not_interfere(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let tasks: Vec<_> = (0..8_i64)
        .map(|task| {
            // Two tenants, with four tasks each.
            let tenant = tenant(&db, ["acme", "globex"][usize::from(task % 2 == 1)]);
            tokio::spawn(async move {
                let mut inserted = 0;
                for n in 0..10 {
                    // Both tenants use the same slugs. Within a tenant, only the first task can insert a slug.
                    let note = NewNote {
                        slug: format!("note {n}"),
                        ..new_note(task * 100 + n)
                    };
                    inserted += i64::from(tenant.insert(note).await.is_ok());
                    let all = tenant
                        .update_many::<Note>(|_| Filter::all())
                        .set(|n| n.votes(), task % 2);
                    all.await.unwrap();
                    tenant
                        .update::<Note>(task * 100 + n)
                        .when(|n| n.votes().gte(0))
                        .set(|n| n.votes(), task % 2)
                        .await
                        .unwrap();
                }
                inserted
            })
        })
        .collect();
    let mut inserted = 0;
    for task in tasks {
        inserted += task.await.unwrap();
    }
    assert_eq!(inserted, 20);
    for (name, votes) in [("acme", 0), ("globex", 1)] {
        let tenant = tenant(&db, name);
        let found = tenant.find::<Note>().all().await.unwrap();
        assert_eq!(found.len(), 10);
        assert!(
            found
                .iter()
                .all(|note| note.tenant == TenantId(name.into()) && note.votes == votes)
        );
    }
}

pub async fn all_scopes_can_be_watched(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    let can = fixture.backend().capabilities();
    if !can.change_streams {
        let error = db.all_scopes().watch::<Note>().await.err().unwrap();
        assert!(error.is_unsupported(), "{error}");
        return;
    }
    let of_acme = db
        .all_scopes()
        .watch::<Note>()
        .filter(|n| n.tenant().eq(TenantId("acme".into())));
    let mut changes = of_acme.await.unwrap();
    tenant(&db, "globex").insert(new_note(1)).await.unwrap();
    tenant(&db, "acme").insert(new_note(2)).await.unwrap();
    tenant(&db, "globex").delete::<Note>(1).await.unwrap();
    let next = changes.next().await.unwrap().unwrap();
    assert!(matches!(next.event, Event::Inserted(note) if note.tenant.0 == "acme" && note.id == 2));
    let next = changes.next().await.unwrap().unwrap();
    assert_eq!(next.id, 1);
    assert!(matches!(next.event, Event::Deleted));
    let in_transaction = db.transaction(async |tx| -> odm::Result<_> {
        let error = tx.all_scopes().watch::<Note>().await.err().unwrap();
        assert!(error.is_unsupported(), "{error}");
        Ok(())
    });
    in_transaction.await.unwrap();
}

/// Without a scope, the stream has no documents of a tenant. Across all scopes, the stream has all documents.
pub async fn all_models_can_be_watched_across_scopes(fixture: Fixture) {
    let db = insert_notes(&fixture).await;
    if !fixture.backend().capabilities().change_streams {
        let error = db.all_scopes().watch_all().await.err().unwrap();
        assert!(error.is_unsupported(), "{error}");
        return;
    }
    let mut unscoped = db.watch_all().await.unwrap();
    let mut all = db.all_scopes().watch_all().await.unwrap();
    tenant(&db, "globex").insert(new_note(1)).await.unwrap();
    db.insert(User { id: "new".into() }).await.unwrap();
    let first = all.next().await.unwrap().unwrap();
    let note = first.of::<Note>().unwrap().unwrap();
    assert!(matches!(note.event, Event::Inserted(note) if note.tenant.0 == "globex"));
    let second = all.next().await.unwrap().unwrap();
    assert_eq!(second.of::<User>().unwrap().unwrap().id, "new");
    let first = unscoped.next().await.unwrap().unwrap();
    assert_eq!(first.token, second.token);
    assert_eq!(first.of::<User>().unwrap().unwrap().id, "new");
}

/// Every index begins with the scope, unless its declaration says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "orders",
    scope = tenant,
    index(status, -placed),
    index(placed, tenant)
)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "t")]
    tenant: TenantId,
    #[index(unique)]
    number: i64,
    #[index(unique, all_scopes)]
    code: i64,
    #[index(unique, ignore_case)]
    mail: String,
    status: String,
    #[index(expire_after_seconds = 1_000_000_000)]
    placed: DateTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[index(unique, sparse)]
    note: Option<String>,
    #[sequence]
    receipt: i64,
    weight: i64,
}

/// A model without an index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "scraps", scope = tenant)]
struct Scrap {
    #[serde(rename = "_id")]
    id: i64,
    tenant: TenantId,
    #[serde(rename = "sort")]
    kind: String,
    at: i64,
}

#[derive(Schema)]
#[schema(models(Order, Scrap))]
struct Indexed;

fn order(id: i64, mail: &str) -> NewOrder {
    NewOrder {
        id,
        number: id % 10,
        code: id,
        mail: mail.into(),
        status: "open".into(),
        placed: DateTime::now(),
        note: None,
        weight: id,
    }
}

pub async fn indexes_begin_with_the_scope(fixture: Fixture) {
    let db = Database::<Indexed>::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    let declared: Vec<_> = Order::indexes()
        .into_iter()
        .map(|index| {
            let keys = index.keys.iter().map(|(path, direction)| match direction {
                operation::Direction::Ascending => path.clone(),
                operation::Direction::Descending => format!("-{path}"),
            });
            keys.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let expected = [
        "t number",
        "code",
        "t _odm.caseless.mail",
        "placed",
        "receipt",
        "t status -placed",
        "placed t",
        "t note",
    ];
    assert_eq!(
        declared.iter().collect::<BTreeSet<_>>(),
        expected.map(String::from).iter().collect()
    );
    let acme = db.scope(&TenantId("acme".into()));
    let globex = db.scope(&TenantId("globex".into()));
    acme.insert(order(1, "a@b.c")).await.unwrap();
    // Unique within the scope, and without a note twice.
    globex.insert(order(11, "A@b.c")).await.unwrap();
    acme.insert(order(2, "d@b.c")).await.unwrap();
    let mut noted = order(3, "e@b.c");
    noted.note = Some("x".into());
    acme.insert(noted.clone()).await.unwrap();
    for duplicate in [
        NewOrder {
            id: 21,
            code: 21,
            number: 1,
            ..order(4, "f@b.c")
        },
        NewOrder {
            code: 11,
            ..order(4, "f@b.c")
        },
        order(4, "A@B.C"),
        NewOrder {
            note: Some("x".into()),
            ..order(4, "f@b.c")
        },
    ] {
        let error = acme.insert(duplicate).await.unwrap_err();
        assert!(error.is_duplicate_key(), "{error}");
    }
    globex
        .insert(NewOrder {
            note: Some("x".into()),
            ..order(12, "g@b.c")
        })
        .await
        .unwrap();
    let updated = acme
        .upsert_by(|o| o.number(), order(31, "h@b.c"))
        .await
        .unwrap();
    assert!(!updated.is_inserted());

    // Queries of a session use the indexes.
    let open = acme.find::<Order>().filter(|o| o.status().eq("open"));
    let explain = open.sort(|o| o.placed().desc()).explain().await.unwrap();
    assert_eq!(explain.indexes, ["t_1_status_1_placed_-1"]);
    assert_eq!(
        (explain.documents_examined, explain.warnings()),
        (3, vec![])
    );
}

pub async fn a_query_of_a_scope_without_an_index_is_warned_about(fixture: Fixture) {
    let db = Database::<Indexed>::with_backend(fixture.backend());
    let acme = db.scope(&TenantId("acme".into()));
    acme.insert(NewScrap {
        id: 1,
        kind: "a".into(),
        at: 1,
    })
    .await
    .unwrap();
    let find = || {
        acme.find::<Scrap>()
            .filter(|s| s.kind().eq("a") & s.at().gt(0))
    };
    let declaration = "index(sort, at)".to_owned();
    let explain = find().explain().await.unwrap();
    assert_eq!(explain.missing_index.as_ref(), Some(&declaration));
    let [warning] = &explain.warnings()[..] else {
        panic!("{explain:?}");
    };
    assert!(warning.contains(&declaration), "{warning}");
    let page = find()
        .sort(|s| s.at().desc())
        .page(3)
        .explain()
        .await
        .unwrap();
    assert_eq!(page.missing_index.as_deref(), Some("index(sort, -at)"));
    let all = acme.find::<Scrap>().explain().await.unwrap();
    assert_eq!(all.missing_index.as_deref(), Some("index(tenant)"));
    let sorted = acme
        .find::<Scrap>()
        .sort(|s| s.at().desc())
        .explain()
        .await
        .unwrap();
    assert_eq!(sorted.missing_index.as_deref(), Some("index(-at)"));
    // A document by `_id`, and a query of all scopes.
    let by_id = acme
        .find::<Scrap>()
        .filter(|s| s.id().eq(1))
        .explain()
        .await
        .unwrap();
    assert_eq!(by_id.missing_index, None);
    let all = db.all_scopes().find::<Scrap>().explain().await.unwrap();
    assert_eq!(all.missing_index, None);
}
