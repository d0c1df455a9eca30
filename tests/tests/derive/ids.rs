//! Composed ids of models with different shapes.

use odm::{Database, prelude::*};

/// A model with field names that could collide with arguments and locals of generated code. The `_id` field is named `key`, and a
/// part of the `_id` is named `id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(
    collection = "odd",
    id = "{id}/a.b-c/{reader}/{parts:02}/{self_}",
    shard_key(key),
    timestamps
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Odd {
    #[serde(rename = "_id")]
    key: String,
    id: String,
    #[reference]
    reader: Ref<Plain>,
    parts: u32,
    #[serde(rename = "value")]
    r#self_: i32,
    created_at: DateTime,
    updated_at: DateTime,
}

/// A model that is less visible than the model that refers to `Plain`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "plain")]
struct Plain {
    #[serde(rename = "_id")]
    id: u32,
}

/// A model with an `_id` that is only a number. `Middle` has the number in the middle of the `_id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "numbered", id = "{#no}")]
struct Numbered {
    #[serde(rename = "_id")]
    id: String,
    no: u64,
    #[serde(skip)]
    seen: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "middle", id = "m/{#no:02}/{kind}", shard_key(kind, id))]
struct Middle {
    #[serde(rename = "_id")]
    id: String,
    no: i32,
    kind: String,
}

#[derive(Schema)]
#[schema(models(Odd, Plain, Numbered, Middle))]
struct All;

#[tokio::test]
async fn composed_ids_are_built_and_parsed() {
    let db = Database::<All>::open("memory:").await.unwrap();
    let new = NewOdd {
        id: "x/y".into(),
        reader: Ref::new(7_u32),
        parts: 4,
        r#self_: -1,
    };
    let odd = db.insert(new).await.unwrap();
    assert_eq!(odd.key, "x%2Fy/a.b-c/7/04/-1");
    let id = Odd::id_for("x/y", 7_u32, 4_u32, -1).unwrap();
    let parts = Odd::parts_of(&id).unwrap();
    assert_eq!(
        (parts.id, parts.reader, parts.parts, parts.r#self_),
        (odd.id.clone(), odd.reader, 4, -1)
    );
    assert_eq!(db.find::<Odd>().under("x/y").one().await.unwrap(), odd);
}

#[tokio::test]
async fn numbers_can_be_anywhere_in_an_id() {
    let db = Database::<All>::open("memory:").await.unwrap();
    for no in 1..=12 {
        let numbered = db.insert(NewNumbered {}).await.unwrap();
        assert_eq!((numbered.no, numbered.id), (no, no.to_string()));
    }
    let kinds = ["a", "b", "a"].map(|kind| NewMiddle { kind: kind.into() });
    let ids = db
        .insert_many(kinds)
        .await
        .unwrap()
        .into_iter()
        .map(|middle| middle.id);
    assert_eq!(ids.collect::<Vec<_>>(), ["m/01/a", "m/02/b", "m/03/a"]);
    let parts = Middle::parts_of("m/02/b").unwrap();
    assert_eq!((parts.no, parts.kind.as_str()), (2, "b"));
}
