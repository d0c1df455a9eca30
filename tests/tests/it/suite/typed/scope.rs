use odm::{
    Database, Edited, ErrorKind, Filter, Session,
    backend::{drain, operation},
    bson::{RawDocumentBuf, doc},
    prelude::*,
    watch::Event,
};

use crate::{Fixture, out_of_sight::nothing_reaches_the_note_9};

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

/// Everybody's.
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

/// Of a scope of another type, and with a soft delete.
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

fn new(id: i64) -> NewNote {
    NewNote {
        id,
        slug: format!("note {id}"),
        votes: id,
        like: None,
        kind: None,
    }
}

async fn desk(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

fn tenant(db: &Session<Desk>, name: &str) -> Tenant {
    db.scope(&TenantId(name.into()))
}

/// As it is stored.
async fn stored(fixture: &Fixture, id: i64) -> Option<RawDocumentBuf> {
    let find = operation::Find {
        collection: "notes".into(),
        filter: RawDocumentBuf::try_from(&doc! { "_id": id }).unwrap(),
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    };
    let found = fixture.backend().find(find).await;
    drain(found.unwrap()).await.unwrap().pop()
}

pub async fn no_entry_reaches_another_tenants(fixture: Fixture) {
    let db = desk(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    let refers = |id, to: i64| NewNote {
        like: Some(Ref::new(to)),
        ..new(id)
    };
    acme.insert(refers(9, 1)).await.unwrap();
    globex.insert(refers(1, 9)).await.unwrap();
    // Handed over to the wrong session.
    let edited: Edited<Note> = acme.edit::<Note>(9).await.unwrap();
    let before = stored(&fixture, 9).await;
    nothing_reaches_the_note_9!(&globex, |id| new(id), edited);
    assert_eq!(stored(&fixture, 9).await, before);
    // Nor everything.
    let everything = globex.update_many::<Note>(|_| Filter::all());
    assert_eq!(everything.inc(|n| n.votes(), 1).await.unwrap().matched, 1);
    let everything = globex.delete_many::<Note>(|_| Filter::all());
    assert_eq!(everything.await.unwrap().deleted, 1);
    assert_eq!(stored(&fixture, 9).await, before);
    // Its own tenant reaches it by each.
    assert_eq!(acme.get::<Note>(9).await.unwrap().votes, 9);
    acme.modify::<Note>(9, |n| n.votes += 1).await.unwrap();
    assert_eq!(acme.find::<Note>().sum(|n| n.votes()).await.unwrap(), 10);
}

pub async fn what_is_inserted_is_of_the_scope(fixture: Fixture) {
    let db = desk(&fixture).await;
    let acme = tenant(&db, "acme");
    let of_acme = |note: &Note| note.tenant == TenantId("acme".into());
    assert!(of_acme(&acme.insert(new(1)).await.unwrap()));
    let many = acme.insert_many([new(2), new(3)]).await.unwrap();
    assert!(many.iter().all(of_acme));
    let upsert = acme
        .update::<Note>(4)
        .inc(|n| n.votes(), 1)
        .or_insert(new(4));
    assert!(of_acme(
        &upsert.returning_after().await.unwrap().into_inner()
    ));
    let report = acme.bulk().add(acme.insert(new(5))).await.unwrap();
    assert_eq!(report.into_result().unwrap().inserted, 1);
    let all = acme
        .find::<Note>()
        .filter(|n| n.tenant().eq(TenantId("acme".into())));
    assert_eq!(all.count().await.unwrap(), 5);
    // The same number in another scope.
    let globex = tenant(&db, "globex");
    let same = NewNote { id: 11, ..new(1) };
    globex.insert(same.clone()).await.unwrap();
    let error = globex.insert(NewNote { id: 12, ..same }).await.unwrap_err();
    assert!(error.is_duplicate_key());

    // A document does not change hands.
    let mut note = acme.edit::<Note>(1).await.unwrap();
    note.tenant = TenantId("globex".into());
    let error = acme.save(&mut note).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("t"))
    );
}

pub async fn across_all_scopes(fixture: Fixture) {
    let db = desk(&fixture).await;
    tenant(&db, "acme").insert(new(1)).await.unwrap();
    tenant(&db, "globex").insert(new(2)).await.unwrap();
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
    // Whose would it be?
    let upsert = all
        .update::<Note>(3)
        .inc(|n| n.votes(), 1)
        .or_insert(new(3));
    let error = upsert.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::Invalid, Some("Note"))
    );
    // What is nobody's can be inserted.
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
    let db = desk(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    // What has no scope is used through any session.
    acme.insert(Kind {
        id: 1,
        example: Some(Ref::new(9_i64)),
    })
    .await
    .unwrap();
    assert_eq!(db.get::<Kind>(1).await.unwrap().id, 1);
    let of_kind = |id| NewNote {
        kind: Some(Ref::new(1_i64)),
        ..new(id)
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
    let db = desk(&fixture).await;
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
    // Both conditions hold, and each is lifted by itself.
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
    let db = desk(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    let all = db.all_scopes();
    let report = all
        .bulk()
        .add(acme.insert(new(1)))
        .add(globex.insert(new(2)))
        // Each write is as narrow as the session that made it, whoever sends it.
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

pub async fn a_token_stays_in_its_scope(fixture: Fixture) {
    let db = desk(&fixture).await;
    let (acme, globex) = (tenant(&db, "acme"), tenant(&db, "globex"));
    acme.insert_many((0..4).map(new)).await.unwrap();
    globex.insert_many((10..14).map(new)).await.unwrap();
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
pub async fn a_page_walks_in_its_scope(fixture: Fixture) {
    let db = desk(&fixture).await;
    for name in ["acme", "globex", "initech"] {
        let scope = tenant(&db, name);
        let base = name.len() as i64 * 1_000;
        scope
            .insert_many((base..base + 200).map(new))
            .await
            .unwrap();
    }
    let acme = tenant(&db, "acme");
    let query = || acme.find::<Note>().sort(|n| n.votes().desc()).page(10);
    let first = query().explain().await.unwrap();
    assert!(!first.is_scan && !first.is_sorted_afterwards, "{first:?}");
    let (mut token, mut seen) = (None, 0);
    for _ in 0..20 {
        let explain = query().after(&token).explain().await.unwrap();
        assert_eq!(explain.indexes, first.indexes);
        assert!(!explain.is_sorted_afterwards, "{explain:?}");
        // MongoDB looks ahead, and fetches again: see `depth_costs_nothing`.
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
    let db = desk(&fixture).await;
    tenant(&db, "globex").insert(new(9)).await.unwrap();
    db.transaction(|tx| async move {
        let acme = tenant(&tx, "acme");
        acme.insert(new(1)).await?;
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
                .or_insert(new(9))
                .await
        })
        .await;
    assert!(error.unwrap_err().is_duplicate_key());
}

pub async fn tenants_write_at_the_same_time(fixture: Fixture) {
    let db = desk(&fixture).await;
    let tasks: Vec<_> = (0..8_i64)
        .map(|task| {
            // Two tenants, four tasks for each.
            let tenant = tenant(&db, ["acme", "globex"][usize::from(task % 2 == 1)]);
            tokio::spawn(async move {
                let mut inserted = 0;
                for n in 0..10 {
                    // The same slugs in both; who comes first inserts it.
                    let note = NewNote {
                        slug: format!("note {n}"),
                        ..new(task * 100 + n)
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

pub async fn all_scopes_are_watched_together(fixture: Fixture) {
    let db = desk(&fixture).await;
    let can = fixture.backend().capabilities();
    if !can.change_streams {
        let refused = db.all_scopes().watch::<Note>().await.err().unwrap();
        assert!(refused.is_unsupported(), "{refused}");
        return;
    }
    let of_acme = db
        .all_scopes()
        .watch::<Note>()
        .filter(|n| n.tenant().eq(TenantId("acme".into())));
    let mut changes = of_acme.await.unwrap();
    tenant(&db, "globex").insert(new(1)).await.unwrap();
    tenant(&db, "acme").insert(new(2)).await.unwrap();
    tenant(&db, "globex").delete::<Note>(1).await.unwrap();
    let next = changes.next().await.unwrap().unwrap();
    assert!(matches!(next.event, Event::Inserted(note) if note.tenant.0 == "acme" && note.id == 2));
    let next = changes.next().await.unwrap().unwrap();
    assert_eq!(next.id, 1);
    assert!(matches!(next.event, Event::Deleted));
    let inside = db.transaction(|tx| async move {
        let refused = tx.all_scopes().watch::<Note>().await.err().unwrap();
        assert!(refused.is_unsupported(), "{refused}");
        Ok(())
    });
    inside.await.unwrap();
}
