//! The framework counts, and an application cannot.
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

fn set(db: &Db) {
    let _ = db.update::<Task>(1).set(|t| t.version(), 7);
}

fn inc(db: &Db) {
    let _ = db.update::<Task>(1).inc(|t| t.version(), 1);
}

fn current_date(db: &Db) {
    let _ = db.update::<Task>(1).current_date(|t| t.changed());
}

fn main() {}
