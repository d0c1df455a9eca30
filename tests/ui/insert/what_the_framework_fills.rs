//! A model with filled fields is inserted without them.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", version, timestamps(updated = changed))]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    version: i64,
    changed: DateTime,
}

#[derive(Schema)]
#[schema(models(Task))]
struct Office;
type Db = odm::Database<Office>;

fn whole(db: &Db, task: Task) {
    let _ = db.insert(task);
}

fn given(db: &Db) {
    let _ = db.insert(NewTask { id: 1, text: String::new(), version: 7 });
}

fn main() {}
