//! Enums in the representations of serde: internally tagged, adjacently tagged, and externally tagged.

use odm::prelude::*;

#[derive(Debug, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    TwoSides { width: f64, height: f64 },
    Nothing,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(tag = "kind", content = "of")]
enum Owner {
    Person(#[reference] Ref<Drawing>),
    Nobody,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Embedded)]
enum State {
    Draft,
    Done,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "drawings")]
struct Drawing {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 5)]
    shapes: Vec<Shape>,
    #[embed]
    owner: Owner,
    state: State,
}

#[derive(Schema)]
#[schema(models(Drawing))]
struct World;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<World>::open("memory:").await?;
    let shapes = vec![Shape::Circle { radius: 2.0 }, Shape::Nothing];
    let drawing = Drawing { id: 1, shapes, owner: Owner::Nobody, state: State::Draft };
    db.insert(drawing).await?;
    let done = db.find::<Drawing>().filter(|d| d.state().eq(State::Done));
    assert!(!done.exists().await?);
    Ok(())
}
