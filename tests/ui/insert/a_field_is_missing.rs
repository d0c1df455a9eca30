//! An insertion has all that the application knows.
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

fn missing(db: &Db) {
    let _ = db.insert(NewTask { id: 1 });
}

fn main() {}
