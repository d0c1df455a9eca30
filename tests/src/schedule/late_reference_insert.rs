//! Schedules of a slow insert with a reference: a second process takes the insert for abandoned.

use std::sync::Arc;

use odm::{
    backend::{Backend, BoxFuture},
    prelude::*,
};

use super::{Case, Process, recover_pending};
use crate::aftermath::recover_and_check;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = restrict)]
    maker: Ref<Maker>,
}

/// A marker that the insert of the part with the same `_id` was acknowledged.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "notes")]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Maker, Part, Note))]
struct Stock;
type Db = odm::Database<Stock>;

/// Inserts of a part with a maker and of a part without, while a second process recovers abandoned inserts. The insert without a
/// maker is rolled back.
#[derive(Debug)]
pub struct LateReferenceInsert;

impl Case for LateReferenceInsert {
    fn begin(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let db = Db::with_backend(backend);
            db.sync_indexes().await.expect("indexes");
            db.insert(Maker { id: 1 }).await.expect("a maker");
        })
    }

    fn processes(&self) -> Vec<Process> {
        vec![
            |backend| {
                Box::pin(async {
                    let db = Db::with_backend(backend);
                    for (id, maker) in [(1, 1), (2, 9)] {
                        let maker = Ref::new(maker);
                        if db.insert(Part { id, maker }).await.is_ok() {
                            db.insert(Note { id }).await.expect("a note");
                        }
                    }
                })
            },
            recover_pending::<Stock>,
        ]
    }

    fn end(&self, backend: Arc<dyn Backend>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            recover_and_check::<Stock>(backend.clone(), |_| false).await?;
            let db = Db::with_backend(backend);
            let message = |error: odm::Error| error.to_string();
            for note in db.find::<Note>().all().await.map_err(message)? {
                let part = db.find_by_id::<Part>(note.id).await.map_err(message)?;
                if part.is_none() {
                    return Err(format!("part {} was acknowledged, and is missing", note.id));
                }
            }
            Ok(())
        })
    }
}
