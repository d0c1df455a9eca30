//! The end of a database: closed handles return an error, and a database that is opened later contains the written documents.

use odm::{ErrorKind, backend, prelude::*};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
}

#[derive(Schema)]
#[schema(models(Note))]
struct Notes;

type Db = odm::Database<Notes>;

fn note(id: i64) -> Note {
    Note {
        id,
        text: format!("note {id}"),
    }
}

pub async fn a_closed_database_rejects_all_operations(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.insert_many((0..10).map(note)).await.unwrap();
    let another = db.clone();
    let mut stream = db.find::<Note>().stream();
    assert!(stream.next().await.unwrap().is_ok());
    db.close().await.unwrap();
    db.close().await.unwrap();
    for db in [db, another] {
        let refused = [
            db.insert(note(10)).await.map(drop).unwrap_err(),
            db.get::<Note>(1).await.map(drop).unwrap_err(),
            db.find::<Note>().all().await.map(drop).unwrap_err(),
            db.find::<Note>()
                .filter(|n| n.text().eq("note 1"))
                .count()
                .await
                .map(drop)
                .unwrap_err(),
            db.update::<Note>(1)
                .set(|n| n.text(), "other")
                .await
                .map(drop)
                .unwrap_err(),
            db.delete::<Note>(1).await.map(drop).unwrap_err(),
            db.sync_indexes().await.map(drop).unwrap_err(),
        ];
        for (position, error) in refused.into_iter().enumerate() {
            assert_eq!(error.kind(), ErrorKind::Closed, "{position}: {error}");
            assert!(error.is_closed() && error.to_string().contains("open it again"));
        }
        if db.backend().capabilities().transactions {
            let begun = db.transaction(|tx| async move { tx.insert(note(11)).await.map(drop) });
            assert!(begun.await.unwrap_err().is_closed());
        }
    }
}

pub async fn writes_persist_after_close(fixture: Fixture) {
    let url = fixture.url().to_owned();
    let db = Db::with_backend(fixture.backend());
    db.insert(note(1)).await.unwrap();
    db.close().await.unwrap();
    if url == "memory:" {
        return;
    }
    let db = Db::with_backend(backend::open(&url).await.unwrap());
    assert_eq!(db.get::<Note>(1).await.unwrap(), note(1));
    db.insert(note(2)).await.unwrap();
    assert_eq!(db.find::<Note>().count().await.unwrap(), 2);
}
