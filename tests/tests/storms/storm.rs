//! Storms of many tasks that save the same document concurrently.

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

/// Returns the number of tasks and the number of saves per task: `short`, or 64 and 1,000 with `ODM_STORM=full`.
fn tasks_and_saves(short: (i64, i64)) -> (i64, i64) {
    match std::env::var("ODM_STORM").as_deref() {
        Ok("full") => (64, 1_000),
        _ => short,
    }
}

async fn join_all_tasks<F: Future<Output = ()> + Send + 'static>(tasks: impl Iterator<Item = F>) {
    for task in tasks.map(tokio::spawn).collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Each task saves a separate field repeatedly. At the end, every field has the last value.
pub(crate) async fn concurrent_saves_keep_every_field(fixture: Fixture) {
    let (tasks, times) = tasks_and_saves((64, 3));
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
    join_all_tasks((0..tasks).map(saver)).await;
    let board = db.get::<Board>(1).await.unwrap();
    assert_eq!(board.fields.len(), usize::try_from(tasks).unwrap());
    assert!(board.fields.values().all(|n| *n == times), "{board:?}");
}

/// With a version field, concurrent saves conflict. `modify` still succeeds and loses no update.
pub(crate) async fn with_a_version_no_update_is_lost(fixture: Fixture) {
    let (tasks, times) = tasks_and_saves((8, 4));
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
    join_all_tasks((0..tasks).map(modifier)).await;
    let sheet = db.get::<Sheet>(1).await.unwrap();
    let count = tasks * times;
    assert_eq!((sheet.sum, sheet.version), (count, count + 1));
    assert!(sheet.fields.values().all(|n| *n == times), "{sheet:?}");
}
