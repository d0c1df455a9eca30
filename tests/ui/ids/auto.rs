//! Misuse of generated ids, and of the settings of insert structs.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", id = auto)]
struct Number {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", id = auto)]
struct Note {
    #[serde(rename = "_id")]
    id: ObjectId,
    text: String,
}

#[derive(Schema)]
#[schema(models(Note))]
struct Notes;

async fn with_an_id(db: odm::Database<Notes>) -> odm::Result<()> {
    db.insert(NewNote { id: ObjectId::new(), text: "buy nails".into() }).await?;
    Ok(())
}

fn main() {}
