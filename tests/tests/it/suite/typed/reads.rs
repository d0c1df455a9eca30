//! Reads without documents and of some documents: existence by id, samples, and totals of pages.

use std::{collections::BTreeSet, sync::Arc};

use odm::{ErrorKind, backend::Recorder, prelude::*};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes", scope = tenant, soft_delete)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
    text: String,
    #[reference]
    topic: Ref<Topic>,
    deleted_at: Option<DateTime>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "topics")]
struct Topic {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Debug, PartialEq, Deserialize, Projection)]
#[projection(of = Note)]
struct NoteText {
    text: String,
}

#[derive(Schema)]
#[schema(models(Note, Topic))]
struct Notes;
type Db = odm::Database<Notes>;

/// Inserts the notes 0 to 9 of acme and 10 to 19 of globex, and deletes note 9.
async fn insert_notes(db: &Db) {
    db.insert(Topic { id: "news".into() }).await.unwrap();
    for (tenant, ids) in [("acme", 0..10), ("globex", 10..20)] {
        let notes = ids.map(|id| NewNote {
            id,
            text: format!("note {id}"),
            topic: Ref::new("news"),
        });
        db.scope(tenant).insert_many(notes).await.unwrap();
    }
    db.scope("acme").delete::<Note>(9).await.unwrap();
}

pub async fn existence_by_id(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_notes(&db).await;
    recorder.clear();
    assert!(db.exists::<Topic>("news").await.unwrap());
    assert!(!db.exists::<Topic>("sports").await.unwrap());
    assert_eq!(recorder.operations().len(), 2);
    let acme = db.scope("acme");
    assert!(acme.exists::<Note>(1).await.unwrap());
    // A note of another tenant, and a deleted note.
    assert!(!acme.exists::<Note>(11).await.unwrap());
    assert!(!acme.exists::<Note>(9).await.unwrap());
    assert!(acme.exists::<Note>(9).with_deleted().await.unwrap());
    assert!(db.all_scopes().exists::<Note>(11).await.unwrap());
}

pub async fn samples_are_random_documents(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_notes(&db).await;
    let acme = db.scope("acme");
    let notes = || acme.find::<Note>();
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let sample = notes().filter(|n| n.id().gte(3)).sample(2).await.unwrap();
        let ids: BTreeSet<_> = sample.iter().map(|note| note.id).collect();
        // Two different notes that match, of the tenant and not deleted.
        assert_eq!(ids.len(), 2, "{sample:?}");
        assert!(ids.iter().all(|id| (3..9).contains(id)), "{ids:?}");
        seen.extend(ids);
    }
    // The chance that a note is in none of 100 samples of 2 out of 6 is below 1e-17.
    assert_eq!(seen.len(), 6);

    assert_eq!(notes().sample(50).await.unwrap().len(), 9);
    assert_eq!(notes().sample(0).await.unwrap(), []);
    let texts = notes().filter(|n| n.id().eq(4)).select::<NoteText>();
    let texts = texts.sample(1).await.unwrap();
    assert_eq!(
        texts,
        [NoteText {
            text: "note 4".into()
        }]
    );
    let joined = notes().with(|n| n.topic()).sample(1).await.unwrap();
    assert_eq!(joined[0].1.loaded().unwrap().id, "news");
    for invalid in [
        notes().sort(|n| n.id().asc()).sample(1).await,
        notes().limit(3).sample(1).await,
    ] {
        assert_eq!(invalid.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

pub async fn pages_with_a_total(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    insert_notes(&db).await;
    let acme = db.scope("acme");
    let notes = || {
        acme.find::<Note>()
            .filter(|n| n.id().gte(2))
            .sort(|n| n.id().asc())
    };
    recorder.clear();
    let first = notes().page(5).with_total().await.unwrap();
    assert_eq!((first.items.len(), first.total), (5, Some(7)));
    assert_eq!(recorder.operations().len(), 2);
    // The total counts the documents on all pages, from each page.
    let second = notes()
        .page(5)
        .after(first.next)
        .with_total()
        .await
        .unwrap();
    assert_eq!((second.items.len(), second.total), (2, Some(7)));
    let page = notes()
        .page(5)
        .before(second.previous.clone())
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.total), (5, None));

    // JSON has the total only if the page was counted.
    let json = serde_json::to_value(&second).unwrap();
    assert_eq!(json["total"], 7);
    assert!(serde_json::to_value(&page).unwrap().get("total").is_none());
}
