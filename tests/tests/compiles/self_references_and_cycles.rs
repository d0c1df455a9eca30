//! Models with references to the same model and in a cycle, and recursive structs.

use odm::prelude::*;

#[derive(Clone, Serialize, Deserialize, Embedded)]
struct Comment {
    text: String,
    #[reference]
    by: Ref<Person>,
    #[embed(max = 10)]
    replies: Vec<Self>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    team: Option<Ref<Team>>,
    #[reference(inverse_of = parents, overflow(after = 5, into = "more_children"))]
    children: Overflow<Ref<Self>>,
    #[reference(inverse = children, max = 2)]
    parents: Vec<Ref<Self>>,
    #[embed(max = 10)]
    comments: Vec<Comment>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "teams")]
struct Team {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    lead: Ref<Person>,
    #[reference(on_delete = cascade)]
    parent: Option<Ref<Team>>,
}

#[derive(Schema)]
#[schema(models(Person, Team))]
struct World;

async fn ask(db: odm::Database<World>) -> odm::Result<usize> {
    let found = db.find::<Person>().with(|p| p.team().with(|t| t.lead().with(|l| l.team()))).all().await?;
    Ok(found.len())
}

pub(crate) fn main() {
    let _ = ask;
}
