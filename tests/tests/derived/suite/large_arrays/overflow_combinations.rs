//! Overflow arrays combined with hooks, versions, upserts, saves and change streams.

use std::time::Duration;

use odm::{ErrorKind, Hooks, Session, hook::Changes, prelude::*, watch::Event};
use odm_tests::assert_clean;

use crate::Fixture;

/// A diary that keeps the latest pages in the document. The hooks store a summary of the write in `said`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "diaries", hooks, version)]
struct Diary {
    #[serde(rename = "_id")]
    id: i64,
    version: i64,
    said: String,
    #[embed(overflow(after = 2, into = "more_pages", owner = "diary", latest_by = day))]
    pages: Overflow<Page>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Page {
    day: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: ObjectId,
    text: String,
}

/// A reader with references to diaries. An older document can lack `remark`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "readers", soft_delete)]
struct Reader {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(default)]
    remark: String,
    deleted_at: Option<DateTime>,
    #[reference(overflow(after = 2, into = "more_read", flag = "has_read"))]
    read: Overflow<Ref<Diary>>,
    #[embed(overflow(after = 2, into = "more_shelves", flag = "has_shelves"))]
    shelves: Overflow<Plank>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Plank {
    name: String,
    #[embed(max = 3)]
    labels: Vec<String>,
}

#[derive(Schema)]
#[schema(models(Diary, Note, Reader))]
struct Shelf;
type Db = odm::Database<Shelf>;

impl Hooks for Diary {
    type Schema = Shelf;

    async fn before_insert(&mut self, _: &Session<Shelf>) -> odm::Result<()> {
        self.said = format!("new, with {}", self.pages.len());
        Ok(())
    }

    async fn after_insert(&self, tx: &Session<Shelf>) -> odm::Result<()> {
        let (id, count) = (ObjectId::new(), self.pages.len());
        let text = format!("{} has {count}, {:?} in it", self.id, days(&self.pages));
        tx.insert(Note { id, text }).await.map(drop)
    }

    async fn before_update(changes: &mut Changes<Self>, _: &Session<Shelf>) -> odm::Result<()> {
        if changes.contains(|d| d.pages()) {
            let text = match changes.value(|d| d.pages())? {
                Some(pages) => format!("anew, with {}", pages.len()),
                None => "pages have changed".to_owned(),
            };
            changes.set(|d| d.said(), text);
        }
        Ok(())
    }
}

fn days(pages: &Overflow<Page>) -> Vec<i64> {
    pages.resident().iter().map(|page| page.day).collect()
}

fn pages(days: impl IntoIterator<Item = i64>) -> Vec<Page> {
    days.into_iter().map(|day| Page { day }).collect()
}

fn diary(id: i64, days: impl IntoIterator<Item = i64>) -> NewDiary {
    NewDiary {
        id,
        said: String::new(),
        pages: pages(days).into(),
    }
}

async fn open_shelf(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db
}

async fn all_days(db: &Db, id: i64) -> Vec<i64> {
    let all = db.get::<Diary>(id).elements(|d| d.pages()).all();
    all.await.unwrap().iter().map(|page| page.day).collect()
}

pub(crate) async fn hooks_see_all_that_is_inserted(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    let inserted = db.insert(diary(1, 1..=7)).await.unwrap();
    assert_eq!(inserted.said, "new, with 7");
    assert_eq!(
        (days(&inserted.pages), inserted.pages.len()),
        (vec![7, 6], 7)
    );
    assert_eq!(inserted, db.get::<Diary>(1).await.unwrap());
    assert_eq!(all_days(&db, 1).await, [7, 6, 5, 4, 3, 2, 1]);

    // The upsert updates diary 1 and inserts diary 2.
    for id in [1, 2] {
        let push = db.update::<Diary>(id).push(|d| d.pages(), Page { day: 9 });
        let upserted = push.or_insert(diary(id, [3, 1, 5, 2, 4])).await.unwrap();
        assert_eq!(upserted.is_inserted(), id == 2);
    }
    assert_eq!(all_days(&db, 1).await, [9, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(all_days(&db, 2).await, [5, 4, 3, 2, 1]);
    let first = db.get::<Diary>(1).await.unwrap();
    assert_eq!(
        (first.said.as_str(), first.version),
        ("pages have changed", 2)
    );
    assert_eq!(db.get::<Diary>(2).await.unwrap().said, "new, with 5");
    let notes = db.find::<Note>().all().await.unwrap();
    let mut notes: Vec<_> = notes.iter().map(|note| note.text.as_str()).collect();
    notes.sort_unstable();
    assert_eq!(notes, ["1 has 7, [7, 6] in it", "2 has 5, [5, 4] in it"]);
    assert_clean(&db).await;
}

/// A write increments the version once, even if the write needs several operations.
pub(crate) async fn a_write_increments_the_version_once(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    db.insert(diary(1, 1..=7)).await.unwrap();
    let many = db
        .update::<Diary>(1)
        .push_each(|d| d.pages(), pages(10..60));
    many.await.unwrap();
    let version = async || db.get::<Diary>(1).await.unwrap().version;
    assert_eq!(version().await, 2);
    let pull = db
        .update::<Diary>(1)
        .pull_where(|d| d.pages(), |page| page.day().gte(3));
    pull.await.unwrap();
    assert_eq!(version().await, 3);
    let set = db.update::<Diary>(1).set(|d| d.pages(), pages(1..=20));
    set.await.unwrap();
    let read = db.get::<Diary>(1).await.unwrap();
    assert_eq!((read.version, read.said.as_str()), (4, "anew, with 20"));
    // A fold is no write of the application, so the fold does not increment the version.
    let fewer = db
        .update::<Diary>(1)
        .pull_where(|d| d.pages(), |page| page.day().gte(2));
    fewer.await.unwrap();
    db.arrays::<Diary>().fold().await.unwrap();
    let read = db.get::<Diary>(1).await.unwrap();
    assert_eq!((read.version, read.pages.has_more()), (5, false));
    assert_clean(&db).await;
}

pub(crate) async fn a_save_keeps_the_elements(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    db.insert(diary(1, 1..=7)).await.unwrap();
    let mut edited = db.edit::<Diary>(1).await.unwrap();
    edited.said = "saved".into();
    // A concurrent push increments the version.
    let push = db.update::<Diary>(1).push(|d| d.pages(), Page { day: 8 });
    push.await.unwrap();
    let error = db.save(&mut edited).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let mut edited = db.edit::<Diary>(1).await.unwrap();
    edited.said = "saved".into();
    db.save(&mut edited).await.unwrap();
    assert_eq!(*edited, db.get::<Diary>(1).await.unwrap());
    assert_eq!((edited.said.as_str(), edited.pages.len()), ("saved", 8));
    for days in [vec![1], vec![8], vec![]] {
        edited.pages = pages(days).into();
        // The hook adds a change of `said` to the same save.
        let error = db.save(&mut edited).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(all_days(&db, 1).await, [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_clean(&db).await;
}

/// A change event contains the resident elements and the length of the array.
pub(crate) async fn change_events_contain_resident_elements(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    let can = fixture.backend().capabilities().change_streams;
    let mut changes = match db.watch::<Diary>().await {
        Ok(changes) => changes,
        Err(error) => {
            assert!(!can && error.is_unsupported(), "{error}");
            return;
        }
    };
    // A filter computed from stored documents cannot select changes.
    let arrays = db.arrays::<Diary>();
    let any = arrays.any(|d| d.pages(), |page| page.day().eq(1));
    let any = any.await.unwrap();
    let refused = db.watch::<Diary>().filter(|_| any).await.map(drop);
    assert!(refused.unwrap_err().is_unsupported());
    let outliers = db.watch::<Diary>().filter(|d| d.pages().has_more());
    let mut outliers = outliers.await.unwrap();
    db.insert(diary(2, 1..=2)).await.unwrap();
    let first = tokio::time::timeout(Duration::from_secs(30), changes.next());
    assert_eq!(first.await.unwrap().unwrap().unwrap().id, 2);
    db.insert(diary(1, 1..=7)).await.unwrap();
    let first = tokio::time::timeout(Duration::from_secs(30), outliers.next());
    assert_eq!(first.await.unwrap().unwrap().unwrap().id, 1);
    // An update of metadata alone is no change of the document.
    let mark = odm::backend::operation::UpdateOperation {
        collection: "diaries".into(),
        filter: odm::bson::rawdoc! { "_id": 2_i64 },
        change: odm::backend::operation::DocumentChange::operators(
            odm::bson::rawdoc! { "$set": { "_odm.mark": 1 } },
        ),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    fixture.backend().update(mark).await.unwrap();
    let update = db.update::<Diary>(1).set(|d| d.said(), "told");
    update.await.unwrap();
    // The pushed page is not resident, so the event has no value of the array.
    let push = db.update::<Diary>(1).push(|d| d.pages(), Page { day: 0 });
    push.await.unwrap();
    db.delete::<Diary>(1).await.unwrap();
    let change = async |changes: &mut odm::watch::ChangeStream<Diary>| {
        let change = tokio::time::timeout(Duration::from_secs(30), changes.next());
        change
            .await
            .expect("a change in time")
            .expect("one more")
            .unwrap()
    };
    let Event::Inserted(inserted) = change(&mut changes).await.event else {
        panic!("no insert");
    };
    assert_eq!(
        (days(&inserted.pages), inserted.pages.len()),
        (vec![7, 6], 7)
    );
    let Event::Updated { fields, .. } = change(&mut changes).await.event else {
        panic!("no update");
    };
    assert!(fields.contains(|d| d.said()) && !fields.contains(|d| d.pages()));
    let Event::Updated { fields, .. } = change(&mut changes).await.event else {
        panic!("no push");
    };
    assert!(fields.contains(|d| d.pages()));
    assert_eq!(fields.value(|d| d.pages()).unwrap(), None);
    assert!(matches!(change(&mut changes).await.event, Event::Deleted));
}

fn assert_rejected(error: &odm::Error, kind: ErrorKind, path: &str) {
    assert_eq!((error.kind(), error.path()), (kind, Some(path)), "{error}");
}

/// Writes reject a partially read array, because the write would lose the spilled elements.
pub(crate) async fn partially_read_arrays_are_rejected(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    db.insert(diary(1, 1..=7)).await.unwrap();
    let read = db.get::<Diary>(1).await.unwrap();
    let partial = || read.pages.clone();
    let set = db.update::<Diary>(1).set(|d| d.pages(), partial());
    assert_rejected(&set.await.unwrap_err(), ErrorKind::Invalid, "pages");
    let set = db.update::<Diary>(1).set(|d| d.pages(), &read.pages);
    assert_rejected(&set.await.unwrap_err(), ErrorKind::Invalid, "pages");
    let copy = |id| NewDiary {
        pages: partial(),
        ..diary(id, [])
    };
    let refused = db.insert(copy(2)).await.unwrap_err();
    assert_rejected(&refused, ErrorKind::Invalid, "pages");
    let refused = db
        .insert_many([diary(3, 1..=2), copy(2)])
        .await
        .unwrap_err();
    assert_rejected(&refused, ErrorKind::Invalid, "pages");
    let push = || db.update::<Diary>(2).push(|d| d.pages(), Page { day: 9 });
    let refused = push().or_insert(copy(2)).await.unwrap_err();
    assert_rejected(&refused, ErrorKind::Invalid, "pages");
    let bulk = db.bulk().add(db.insert(copy(2))).await.unwrap();
    assert!(!bulk.is_ok(), "{bulk:?}");
    assert_eq!(all_days(&db, 1).await, [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(db.find::<Diary>().count().await.unwrap(), 1);

    // An array with all elements can be written.
    let all_pages = pages(all_days(&db, 1).await);
    let deleted = db.delete::<Diary>(1).returning().await.unwrap();
    assert!(
        deleted
            .applied()
            .is_some_and(|deleted| deleted.pages.has_more())
    );
    db.insert(NewDiary {
        pages: all_pages.into(),
        ..diary(1, [])
    })
    .await
    .unwrap();
    assert_eq!(all_days(&db, 1).await, [7, 6, 5, 4, 3, 2, 1]);
    assert_clean(&db).await;
}

pub(crate) async fn has_more_agrees_with_the_filter(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    db.insert(diary(1, [])).await.unwrap();
    // Elements beyond the limit of two stay in the document for a while.
    for day in 1..=20 {
        let push = db.update::<Diary>(1).push(|d| d.pages(), Page { day });
        push.await.unwrap();
        let more = db.find::<Diary>().filter(|d| d.pages().has_more());
        let found = more.all().await.unwrap();
        assert_eq!(found.len(), usize::from(day > 2), "{day}");
        let read = db.get::<Diary>(1).await.unwrap();
        assert_eq!(
            (read.pages.has_more(), read.pages.len()),
            (day > 2, day as u64)
        );
        // A save returns the same array state as a read.
        let modified = db
            .modify::<Diary>(1, |d| d.said = format!("{day}"))
            .await
            .unwrap();
        assert_eq!(
            (modified.pages.has_more(), modified.pages.len()),
            (day > 2, day as u64)
        );
    }
    let pull = db
        .update::<Diary>(1)
        .pull_where(|d| d.pages(), |page| page.day().lte(15));
    let remaining = pull.returning_after().await.unwrap();
    assert_eq!(remaining.pages.len(), 5);
    assert_clean(&db).await;

    // After a pull of all spilled elements, `has_more` is false, although no fold has run.
    let shelf = |planks: i64| NewReader {
        id: planks,
        remark: String::new(),
        read: Overflow::new(),
        shelves: (0..planks)
            .map(|n| Plank {
                name: format!("p{n}"),
                labels: Vec::new(),
            })
            .collect(),
    };
    db.insert_many([shelf(2), shelf(40)]).await.unwrap();
    let outliers = async || {
        let more = db.find::<Reader>().filter(|r| r.shelves().has_more());
        let found = more.all().await.unwrap();
        found.iter().map(|reader| reader.id).collect::<Vec<_>>()
    };
    assert_eq!(outliers().await, [40]);
    for is_all in [false, true] {
        let pull = db.update::<Reader>(40).pull_where(
            |r| r.shelves(),
            |plank| {
                plank
                    .name()
                    .not_in(["p0", "p1", if is_all { "p0" } else { "p39" }])
            },
        );
        let remaining = pull.returning_after().await.unwrap();
        let read = db.get::<Reader>(40).await.unwrap();
        assert_eq!(
            (remaining.shelves.has_more(), remaining.shelves.len()),
            (!is_all, if is_all { 2 } else { 3 })
        );
        assert_eq!(remaining, read);
        assert_eq!(outliers().await.is_empty(), is_all);
    }
    assert_clean(&db).await;
}

/// Joins load the targets of all elements, including spilled elements, also for a soft-deleted document.
pub(crate) async fn joins_load_spilled_references(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    db.insert_many((1..=9).map(|id| diary(id, [])))
        .await
        .unwrap();
    let read = (1..=9).map(Ref::new);
    let reader = NewReader {
        id: 1,
        remark: "much".into(),
        read: read.collect(),
        shelves: Overflow::new(),
    };
    db.insert(reader).await.unwrap();
    for is_deleted in [false, true] {
        if is_deleted {
            db.delete::<Reader>(1).await.unwrap();
        }
        let found = db.find::<Reader>().with_deleted().with(|r| r.read());
        let found = found.all().await.unwrap();
        assert_eq!(found[0].1.len(), 9, "{is_deleted}");
    }
}

pub(crate) async fn limits_inside_elements_apply(fixture: Fixture) {
    let db = open_shelf(&fixture).await;
    let plank = |n| Plank {
        name: format!("p{n}"),
        labels: vec!["a".into(), "b".into(), "c".into()],
    };
    let reader = NewReader {
        id: 1,
        remark: String::new(),
        read: Overflow::new(),
        shelves: (0..9).map(plank).collect(),
    };
    db.insert(reader).await.unwrap();
    for name in ["p0", "p8"] {
        let update = || db.update::<Reader>(1);
        let push = update().push(
            |r| r.shelves().matching(|s| s.name().eq(name)).labels(),
            "d",
        );
        let refused = push.await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        let few = ["d".to_owned()];
        let set = update().set(
            |r| r.shelves().matching(|s| s.name().eq(name)).labels(),
            few,
        );
        set.await.unwrap();
    }
    let shelves = db
        .get::<Reader>(1)
        .elements(|r| r.shelves())
        .all()
        .await
        .unwrap();
    let lengths: Vec<_> = shelves.iter().map(|plank| plank.labels.len()).collect();
    assert_eq!(lengths, [1, 3, 3, 3, 3, 3, 3, 3, 1]);
    assert_clean(&db).await;
}
