//! The hooks of a model with a scope get a session for that scope.

use odm::{Hooks, Session, prelude::*};

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "notes", scope = tenant, hooks)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    tenant: String,
}

impl Hooks for Note {
    type Schema = Desk;

    async fn before_insert(&mut self, _: &Session<Desk>) -> odm::Result<()> {
        Ok(())
    }
}

#[derive(Schema)]
#[schema(models(Note))]
struct Desk;

fn main() {}
