//! Many tasks that save one document at the same time.

use std::collections::BTreeMap;

use odm::prelude::*;

use crate::Fixture;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    fields: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "sheets", version)]
struct Sheet {
    #[serde(rename = "_id")]
    id: i64,
    sum: i64,
    #[embed]
    fields: BTreeMap<String, i64>,
    version: i64,
}

#[derive(Schema)]
#[schema(models(Board, Sheet))]
struct Storm;
type Db = odm::Database<Storm>;

/// How many tasks there are, and how many times each saves: 64 and 1,000 with `ODM_STORM=full`.
fn size(short: (i64, i64)) -> (i64, i64) {
    match std::env::var("ODM_STORM").as_deref() {
        Ok("full") => (64, 1_000),
        _ => short,
    }
}

async fn all<F: Future<Output = ()> + Send + 'static>(tasks: impl Iterator<Item = F>) {
    for task in tasks.map(tokio::spawn).collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Each saves a field of its own again and again, and every field ends with its last value.
pub(crate) async fn every_field_has_its_last_value(fixture: Fixture) {
    let (tasks, times) = size((64, 3));
    let db = Db::with_backend(fixture.backend());
    let fields = BTreeMap::new();
    db.insert(Board { id: 1, fields }).await.unwrap();
    let saver = |task: i64| {
        let db = db.clone();
        async move {
            let mut board = db.edit::<Board>(1).await.unwrap();
            for n in 1..=times {
                board.fields.insert(format!("field {task}"), n);
                db.save(&mut board).await.unwrap();
            }
        }
    };
    all((0..tasks).map(saver)).await;
    let board = db.get::<Board>(1).await.unwrap();
    assert_eq!(board.fields.len(), usize::try_from(tasks).unwrap());
    assert!(board.fields.values().all(|n| *n == times), "{board:?}");
}

/// With a version any other save is a conflict, and `modify` ends all the same, without a lost update.
pub(crate) async fn with_a_version_no_update_is_lost(fixture: Fixture) {
    let (tasks, times) = size((8, 4));
    let db = Db::with_backend(fixture.backend());
    let sheet = NewSheet {
        id: 1,
        sum: 0,
        fields: BTreeMap::new(),
    };
    db.insert(sheet).await.unwrap();
    let modifier = |task: i64| {
        let db = db.clone();
        async move {
            for n in 1..=times {
                let change = |sheet: &mut Sheet| {
                    sheet.sum += 1;
                    sheet.fields.insert(format!("field {task}"), n);
                };
                let modify = db.modify::<Sheet>(1, change).attempts(u32::MAX);
                modify.await.unwrap();
            }
        }
    };
    all((0..tasks).map(modifier)).await;
    let sheet = db.get::<Sheet>(1).await.unwrap();
    let count = tasks * times;
    assert_eq!((sheet.sum, sheet.version), (count, count + 1));
    assert!(sheet.fields.values().all(|n| *n == times), "{sheet:?}");
}
