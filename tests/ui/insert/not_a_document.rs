//! Only documents are inserted.
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

fn text(db: &Db) {
    let _ = db.insert("text");
}

fn several(db: &Db, tasks: Vec<NewTask>) {
    let _ = db.insert(tasks);
}

fn main() {}
