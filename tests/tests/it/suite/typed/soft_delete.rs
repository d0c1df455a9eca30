use std::sync::Arc;

use odm::{
    Database, Edited, ErrorKind, Filter,
    action::BulkResult,
    backend::{Recorder, operation, read_to_end},
    bson::{RawDocumentBuf, doc},
    prelude::*,
};

use crate::{Fixture, hidden_documents::nothing_reaches_the_note_9};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "notes",
    soft_delete,
    version,
    timestamps,
    index(slug; unique, partial = |n| n.deleted_at().is_none())
)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    slug: String,
    votes: i64,
    #[reference]
    like: Option<Ref<Note>>,
    version: i64,
    created_at: DateTime,
    updated_at: DateTime,
    #[index(expire_after_seconds = 2_592_000)]
    deleted_at: Option<DateTime>,
}

/// A soft delete with a different field name, and with a date type of a different crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "files", soft_delete = removed)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(rename = "_id")]
    id: String,
    #[serde(
        rename = "removedAt",
        default,
        with = "odm::native",
        skip_serializing_if = "Option::is_none"
    )]
    removed: Option<chrono::DateTime<chrono::Utc>>,
}

/// A model without a soft delete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    notes: Vec<Ref<Note>>,
}

/// The source of a copy in `Remark`: a write to a topic can start a fan-out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "topics", soft_delete)]
struct Topic {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "remarks", index(topic))]
struct Remark {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    topic: Ref<Topic>,
    #[denormalize(from = topic.name, background)]
    topic_name: String,
}

#[derive(Schema)]
#[schema(models(Note, File, Board, Topic, Remark))]
struct Desk;
type Db = Database<Desk>;

fn new_note(id: i64) -> NewNote {
    NewNote {
        id,
        slug: format!("note {id}"),
        votes: id,
        like: None,
    }
}

async fn insert_notes(fixture: &Fixture, ids: impl IntoIterator<Item = i64>) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert_many(ids.into_iter().map(new_note)).await.unwrap();
    db
}

/// Returns the stored document.
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

pub async fn deleted_documents_are_unreachable(fixture: Fixture) {
    let db = insert_notes(&fixture, []).await;
    let refers = |id, to| NewNote {
        like: Some(Ref::new(to)),
        ..new_note(id)
    };
    db.insert_many([refers(1, 9_i64), refers(9, 1)])
        .await
        .unwrap();
    let edited: Edited<Note> = db.edit::<Note>(9).await.unwrap();
    db.delete::<Note>(9).await.unwrap();
    let before = read_raw(&fixture, 9).await;
    nothing_reaches_the_note_9!(&*db, |id| new_note(id), edited);
    assert_eq!(read_raw(&fixture, 9).await, before);
}

pub async fn a_delete_sets_deleted_at(fixture: Fixture) {
    let db = insert_notes(&fixture, [1, 2]).await;
    let before = db.get::<Note>(1).await.unwrap();
    let from = DateTime::now();
    assert_eq!(db.delete::<Note>(1).await.unwrap().deleted, 1);
    let marked = db.get::<Note>(1).with_deleted().await.unwrap();
    let deleted_at = marked.deleted_at.unwrap();
    assert!(from <= deleted_at && deleted_at <= DateTime::now());
    assert!(marked.updated_at >= before.updated_at);
    assert_eq!((marked.version, marked.votes), (2, 1));
    // A second delete does not change the existing date.
    assert_eq!(db.delete::<Note>(1).await.unwrap().deleted, 0);
    assert_eq!(db.get::<Note>(1).with_deleted().await.unwrap(), marked);

    // The delete returns the document from before the delete.
    let given = db
        .delete::<Note>(2)
        .when(|n| n.votes().eq(2))
        .returning()
        .await;
    let given = given.unwrap().expect_applied().unwrap();
    assert_eq!((given.version, given.deleted_at), (1, None));
    let marked = db
        .find_by_id::<Note>(2)
        .with_deleted()
        .await
        .unwrap()
        .unwrap();
    assert_eq!((marked.version, marked.deleted_at.is_some()), (2, true));
    assert!(db.find_by_id::<Note>(2).await.unwrap().is_none());

    // A delete of a model without a soft delete removes the document.
    db.insert(Board {
        id: 1,
        notes: vec![Ref::new(1)],
    })
    .await
    .unwrap();
    let (_, notes) = db.find::<Board>().with(|b| b.notes()).one().await.unwrap();
    assert_eq!((notes.loaded().count(), notes.missing().count()), (0, 1));
    assert_eq!(db.delete::<Board>(1).await.unwrap().deleted, 1);
    assert_eq!(db.find::<Board>().count().await.unwrap(), 0);
}

pub async fn deletes_of_several_documents(fixture: Fixture) {
    let db = insert_notes(&fixture, 1..=6).await;
    let first = db
        .delete_first::<Note>(|n| n.votes().gt(0))
        .sort(|n| n.votes().desc());
    assert_eq!(*first.await.unwrap().expect_applied().unwrap().id(), 6);
    let next_change = db
        .delete_first::<Note>(|n| n.votes().gt(0))
        .sort(|n| n.votes().desc());
    assert_eq!(
        *next_change.await.unwrap().expect_applied().unwrap().id(),
        5
    );
    let many = db.delete_many::<Note>(|n| n.votes().gte(3)).await.unwrap();
    assert_eq!(many.deleted, 2);
    assert_eq!(db.find::<Note>().count().await.unwrap(), 2);
    assert_eq!(db.find::<Note>().only_deleted().count().await.unwrap(), 4);
    assert_eq!(db.find::<Note>().with_deleted().count().await.unwrap(), 6);
    let versions = db.find::<Note>().with_deleted().sum(|n| n.version()).await;
    assert_eq!(versions.unwrap(), 10);
}

pub async fn one_of_concurrent_deletes_applies(fixture: Fixture) {
    let db = insert_notes(&fixture, [1]).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move { db.delete::<Note>(1).await.unwrap().deleted })
        })
        .collect();
    let mut deleted = 0;
    for task in tasks {
        deleted += task.await.unwrap();
    }
    assert_eq!(deleted, 1);
    let marked = db.get::<Note>(1).with_deleted().await.unwrap();
    assert_eq!(marked.version, 2);
}

pub async fn deleted_documents_can_be_read(fixture: Fixture) {
    let db = insert_notes(&fixture, 1..=4).await;
    let like = Ref::new(1_i64);
    db.update::<Note>(2).set(|n| n.like(), like).await.unwrap();
    db.delete_many::<Note>(|n| n.votes().lte(2)).await.unwrap();
    let ids = |notes: Vec<Note>| notes.iter().map(|note| note.id).collect::<Vec<_>>();
    let all = || db.find::<Note>().with_deleted().sort(|n| n.id().asc());
    assert_eq!(ids(all().all().await.unwrap()), [1, 2, 3, 4]);
    let deleted = all().only_deleted();
    assert_eq!(ids(deleted.clone().all().await.unwrap()), [1, 2]);
    assert_eq!(deleted.clone().max(|n| n.votes()).await.unwrap(), Some(2));
    // A join from a soft-deleted document returns only targets that are not deleted.
    let notes = deleted.with(|n| n.like()).all().await.unwrap();
    assert!(notes[1].1.as_ref().unwrap().loaded().is_none());

    let many = || db.get_many::<Note>([3, 1, 9]);
    let present = many().await.unwrap();
    assert_eq!(present.loaded().map(|n| n.id).collect::<Vec<_>>(), [3]);
    let all_of_them = many().with_deleted().await.unwrap();
    assert_eq!(
        all_of_them.loaded().map(|n| n.id).collect::<Vec<_>>(),
        [3, 1]
    );

    // A page token of a query with deleted documents is invalid for a query without deleted documents.
    let first = all().page(3).await.unwrap();
    assert_eq!(ids(first.items), [1, 2, 3]);
    let second = all().page(3).after(&first.next).await.unwrap();
    assert_eq!(ids(second.items), [4]);
    let present = db.find::<Note>().sort(|n| n.id().asc());
    let error = present.page(3).after(&first.next).await.unwrap_err();
    assert!(error.is_invalid_page_token());
}

pub async fn deleted_documents_can_be_restored(fixture: Fixture) {
    let db = insert_notes(&fixture, 1..=4).await;
    let error = db.restore::<Note>(1).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.model()),
        (ErrorKind::NotFound, Some("Note"))
    );
    db.delete_many::<Note>(|_| Filter::all()).await.unwrap();
    assert_eq!(db.restore::<Note>(1).await.unwrap().modified, 1);
    let note = db.get::<Note>(1).await.unwrap();
    assert_eq!((note.version, note.deleted_at), (3, None));
    assert!(db.restore::<Note>(1).await.unwrap_err().is_not_found());

    let restore = db.restore::<Note>(2).when(|n| n.votes().eq(7));
    assert!(!restore.await.unwrap().is_applied());
    let restore = db.restore::<Note>(2).inc(|n| n.votes(), 10);
    let note = restore.returning_after().await.unwrap();
    assert_eq!((note.votes, note.deleted_at), (12, None));
    let many = db.restore_many::<Note>(|n| n.votes().gt(0)).await.unwrap();
    assert_eq!(many.modified, 2);
    assert_eq!(db.find::<Note>().count().await.unwrap(), 4);
    // A restored document can be deleted and restored again.
    db.delete::<Note>(4).await.unwrap();
    let report = db
        .bulk()
        .add(db.restore::<Note>(4))
        .add(db.restore::<Note>(9))
        .await;
    let report = report.unwrap();
    assert_eq!((report.matched, report.deleted), (1, 0));
    assert_eq!(report.failures().count(), 1);
}

pub async fn permanent_deletes_remove_documents(fixture: Fixture) {
    let db = insert_notes(&fixture, 1..=6).await;
    db.delete_many::<Note>(|n| n.votes().lte(3)).await.unwrap();
    // A permanent delete removes the document, whether the document was soft-deleted or not.
    for id in [1, 4] {
        assert_eq!(
            db.delete::<Note>(id).permanently().await.unwrap().deleted,
            1
        );
        assert_eq!(read_raw(&fixture, id).await, None);
    }
    let given = db
        .delete::<Note>(2)
        .permanently()
        .returning()
        .await
        .unwrap();
    assert!(given.expect_applied().unwrap().deleted_at.is_some());
    assert_eq!(read_raw(&fixture, 2).await, None);
    let soon = DateTime::from_millis(DateTime::now().timestamp_millis() + 60_000);
    let purge = db
        .delete_many::<Note>(|n| n.deleted_at().lt(soon))
        .permanently();
    assert_eq!(purge.await.unwrap().deleted, 1);
    let first = db.delete_first::<Note>(|n| n.votes().gt(0)).permanently();
    assert!(first.await.unwrap().is_applied());
    let remaining = db.find::<Note>().with_deleted().count().await.unwrap();
    assert_eq!(remaining, 1);
}

pub async fn deletes_in_a_bulk(fixture: Fixture) {
    let db = insert_notes(&fixture, 1..=9).await;
    db.delete::<Note>(9).await.unwrap();
    let bulk = db
        .bulk()
        .add(db.update::<Note>(1).inc(|n| n.votes(), 10))
        .add(db.delete::<Note>(1))
        .add(db.delete::<Note>(1))
        .add(db.delete::<Note>(2).when(|n| n.votes().eq(7)))
        .add(db.delete_many::<Note>(|n| n.votes().is_in([3, 4, 9])))
        .add(db.delete::<Note>(9).permanently())
        .add(db.insert(new_note(10)))
        .add(
            db.update_many::<Note>(|n| n.votes().gte(10))
                .inc(|n| n.votes(), 1),
        )
        .add(db.delete::<Note>(5))
        .add(db.update::<Note>(5).inc(|n| n.votes(), 1))
        .add(db.delete::<Note>(6));
    let report = bulk.await.unwrap();
    // Note 1 has 11 votes and is deleted at that time, so `update_many` matches note 10 alone. The bulk does not attempt the last
    // delete.
    assert_eq!(
        (
            report.inserted,
            report.matched,
            report.modified,
            report.deleted
        ),
        (1, 2, 2, 5),
        "{report:?}"
    );
    assert!(matches!(report.results[3], BulkResult::NotApplied));
    assert!(matches!(report.results[10], BulkResult::NotAttempted));
    let failed: Vec<_> = report
        .failures()
        .map(|(at, error)| (at, error.kind()))
        .collect();
    assert_eq!(failed, [(9, ErrorKind::NotFound)]);
    assert_eq!(read_raw(&fixture, 9).await, None);
    let present = db.find::<Note>().distinct(|n| n.id());
    let mut present = present.await.unwrap();
    present.sort_unstable();
    assert_eq!(present, [2, 6, 7, 8, 10]);

    let bulk = db
        .bulk()
        .unordered()
        .add(db.delete::<Note>(2))
        .add(db.update::<Note>(7).inc(|n| n.votes(), 1));
    let report = bulk.add(db.delete::<Note>(8)).await.unwrap().into_result();
    let report = report.unwrap();
    assert_eq!((report.matched, report.deleted), (1, 2));
}

pub async fn a_deleted_document_keeps_only_its_id(fixture: Fixture) {
    let db = insert_notes(&fixture, [1]).await;
    db.delete::<Note>(1).await.unwrap();
    // The unique index includes only documents that are not deleted.
    let second = NewNote {
        id: 2,
        ..new_note(1)
    };
    db.insert(second.clone()).await.unwrap();
    let error = db.insert(NewNote { id: 3, ..second }).await.unwrap_err();
    assert!(error.is_duplicate_key());
    let error = db.restore::<Note>(1).await.unwrap_err();
    assert!(error.is_duplicate_key(), "{error}");
    db.delete::<Note>(2).await.unwrap();
    db.restore::<Note>(1).await.unwrap();
    // The error of an upsert names the soft-deleted document, in a transaction too.
    let upsert = db
        .update::<Note>(2)
        .inc(|n| n.votes(), 1)
        .or_insert(new_note(2));
    let error = upsert.await.unwrap_err();
    assert_eq!(error.id(), Some(&2_i64.into()));
    assert!(error.to_string().contains("deleted"), "{error}");
    if fixture.backend().capabilities().transactions {
        let error = db
            .transaction(|tx| async move {
                tx.update::<Note>(2)
                    .inc(|n| n.votes(), 1)
                    .or_insert(new_note(2))
                    .await
            })
            .await;
        assert!(error.unwrap_err().is_duplicate_key());
    }
}

pub async fn an_aborted_transaction_undoes_deletes(fixture: Fixture) {
    if !fixture.backend().capabilities().transactions {
        return;
    }
    let db = insert_notes(&fixture, [1, 2]).await;
    let refused: odm::Result<()> = db
        .transaction(|tx| async move {
            tx.delete::<Note>(1).await?;
            assert!(tx.find_by_id::<Note>(1).await?.is_none());
            tx.restore::<Note>(1).await?;
            tx.delete_many::<Note>(|_| Filter::all()).await?;
            Err(odm::Error::other("no"))
        })
        .await;
    assert!(refused.is_err());
    assert_eq!(db.find::<Note>().count().await.unwrap(), 2);
}

pub async fn a_renamed_field_with_a_chrono_date(fixture: Fixture) {
    let db = insert_notes(&fixture, []).await;
    let file = db.insert(NewFile { id: "a".into() }).await.unwrap();
    assert_eq!(file.removed, None);
    db.delete::<File>("a").await.unwrap();
    assert_eq!(db.find::<File>().count().await.unwrap(), 0);
    let removed = db.get::<File>("a").with_deleted().await.unwrap();
    assert!(removed.removed.unwrap() <= chrono::Utc::now());
    db.restore::<File>("a").await.unwrap();
    assert_eq!(db.get::<File>("a").await.unwrap(), file);
    // A save refuses a value that the application writes to the soft delete field.
    let mut edited = db.edit::<File>("a").await.unwrap();
    edited.removed = Some(chrono::Utc::now());
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("removedAt"))
    );
}

/// A soft delete is a single update with the condition in the filter.
pub async fn a_soft_delete_is_one_operation(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    db.insert(new_note(1)).await.unwrap();
    let before = recorder.operations().len();
    db.delete::<Note>(1).await.unwrap();
    let operations = recorder.operations();
    assert_eq!(operations.len(), before + 1, "{operations:?}");
    let text = format!("{:?}", operations.last());
    assert!(text.contains("Update"), "{text}");
}

/// A watcher sees a single event for each delete or restore, regardless of the additional writes of odm.
pub async fn deletes_and_restores_are_single_change_events(fixture: Fixture) {
    use odm::watch::{Change, ChangeStream, Event};

    async fn next<T: Document>(changes: &mut ChangeStream<T>) -> Change<T> {
        let change = tokio::time::timeout(std::time::Duration::from_secs(30), changes.next());
        change
            .await
            .expect("a change in time")
            .expect("one more")
            .unwrap()
    }
    let db = insert_notes(&fixture, [1]).await;
    let topic = |id| NewTopic {
        id,
        name: format!("topic {id}"),
    };
    db.insert_many([topic(1), topic(2)]).await.unwrap();
    db.insert(NewRemark {
        id: 1,
        topic: Ref::new(1),
    })
    .await
    .unwrap();
    db.wait_for_pending().await.unwrap();
    if !db.backend().capabilities().change_streams {
        return;
    }
    let mut topics = db.watch::<Topic>().with_documents().await.unwrap();
    let mut notes = db.watch::<Note>().await.unwrap();

    db.update::<Topic>(1)
        .set(|t| t.name(), "another")
        .await
        .unwrap();
    db.delete::<Topic>(1).await.unwrap();
    db.wait_for_pending().await.unwrap();
    db.restore::<Topic>(1).await.unwrap();
    db.wait_for_pending().await.unwrap();
    db.delete_many::<Topic>(|t| t.id().eq(2)).await.unwrap();
    db.wait_for_pending().await.unwrap();
    db.delete::<Topic>(1).permanently().await.unwrap();
    db.wait_for_pending().await.unwrap();

    let change = next(&mut topics).await;
    let Event::Updated { fields, .. } = &change.event else {
        panic!("{change:?}")
    };
    assert_eq!(fields.paths().collect::<Vec<_>>(), ["name"]);
    let change = next(&mut topics).await;
    let Event::SoftDeleted { fields, .. } = &change.event else {
        panic!("{change:?}")
    };
    assert!(
        change.id == 1 && fields.contains(|t| t.deleted_at()) && !fields.contains(|t| t.name())
    );
    let change = next(&mut topics).await;
    let Event::Restored { fields, .. } = &change.event else {
        panic!("{change:?}")
    };
    assert!(change.id == 1 && fields.contains(|t| t.deleted_at()));
    let change = next(&mut topics).await;
    let Event::SoftDeleted {
        document: Some(document),
        ..
    } = &change.event
    else {
        panic!("{change:?}")
    };
    assert!(change.id == 2 && document.deleted_at.is_some());
    let change = next(&mut topics).await;
    assert!(
        change.id == 1 && matches!(change.event, Event::Deleted),
        "{change:?}"
    );
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(300), topics.next());
    assert!(nothing.await.is_err(), "one change for each");

    // A model with a version and timestamps, in a transaction.
    let both = db.transaction(async |tx| -> odm::Result<_> {
        tx.delete::<Note>(1).await?;
        tx.restore::<Note>(1).await?;
        Ok(())
    });
    both.await.unwrap();
    assert!(matches!(
        next(&mut notes).await.event,
        Event::SoftDeleted { .. }
    ));
    assert!(matches!(
        next(&mut notes).await.event,
        Event::Restored { .. }
    ));
}

/// A read of a deleted document by id does not return deleted documents of joins.
pub async fn reads_by_id_join_present_documents(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert(new_note(1)).await.unwrap();
    let like = Some(Ref::new(1));
    db.insert(NewNote {
        like,
        ..new_note(2)
    })
    .await
    .unwrap();
    db.delete::<Note>(1).await.unwrap();
    db.delete::<Note>(2).await.unwrap();

    let absent = db.find_by_id::<Note>(2).with(|n| n.like()).await.unwrap();
    assert!(absent.is_none());
    let (note, like) = db
        .get::<Note>(2)
        .with_deleted()
        .with(|n| n.like())
        .await
        .unwrap();
    assert_eq!(note.id, 2);
    assert!(matches!(like.unwrap().get(), Missing(id) if *id.id() == 1));
    let notes = db.get_many::<Note>([2]).with_deleted().with(|n| n.like());
    let notes = notes.await.unwrap();
    let Some(Loaded((_, Some(like)))) = notes.get(0) else {
        panic!("{notes:?}")
    };
    assert!(matches!(like.get(), Missing(_)));
}
