//! Models that a macro makes, with names and types that it was given.

use odm::prelude::*;

macro_rules! model {
    ($(#[$meta:meta])* $vis:vis $name:ident in $collection:literal { $($field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
        #[document(collection = $collection)]
        $vis struct $name {
            #[serde(rename = "_id")]
            id: i64,
            $($field: $ty,)*
        }
    };
}

model! {
    /// Somebody.
    pub Person in "people" { name: String, age: Option<i32>, }
}
model!(Thing in "things" { weight: f64, });

macro_rules! schema {
    ($name:ident: $($model:ty),*) => {
        #[derive(Schema)]
        #[schema(models($($model),*))]
        struct $name;
    };
}
schema!(World: Person, Thing);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<World>::open("memory:").await?;
    db.insert(Person { id: 1, name: "Ann".into(), age: None }).await?;
    assert!(db.find::<Person>().filter(|p| p.name().eq("Ann")).exists().await?);
    assert!(!db.find::<Thing>().filter(|t| t.weight().gt(1.5)).exists().await?);
    Ok(())
}
