//! `soft_delete(cascade)` that reaches no document, and invalid settings.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", soft_delete(cascades))]
struct Misspelt {
    #[serde(rename = "_id")]
    id: i64,
    deleted_at: Option<DateTime>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "b", soft_delete(cascade, field))]
struct NoFieldName {
    #[serde(rename = "_id")]
    id: i64,
    deleted_at: Option<DateTime>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "c", soft_delete(cascade, cascade))]
struct Twice {
    #[serde(rename = "_id")]
    id: i64,
    deleted_at: Option<DateTime>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "projects", soft_delete(cascade))]
struct Project {
    #[serde(rename = "_id")]
    id: i64,
    deleted_at: Option<DateTime>,
}

/// The reference restricts.
#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", soft_delete)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(exists)]
    project: Ref<Project>,
    deleted_at: Option<DateTime>,
}

/// The model has no soft delete.
#[derive(Serialize, Deserialize, Document)]
#[document(collection = "log_entries")]
struct LogEntry {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    project: Ref<Project>,
}

#[derive(Schema)]
#[schema(models(Project, Task, LogEntry))]
struct Office;

fn main() {}
