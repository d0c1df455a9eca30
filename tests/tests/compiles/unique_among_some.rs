//! Unique among the documents that have a value: none of a text or a number is not indexed, and one that is not stored neither.

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "members")]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique, partial = |m| m.nick().gt(""))]
    nick: Option<String>,
    #[index(unique, partial = |m| m.number().gte(i64::MIN))]
    number: Option<i64>,
    #[index(unique, sparse)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[reference]
    partner: Option<Ref<Member>>,
}

#[derive(Schema)]
#[schema(models(Member))]
struct Club;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Club>::open("memory:").await?;
    db.sync_indexes().await?;
    let none = |id| Member {
        id,
        nick: None,
        number: None,
        partner: None,
    };
    db.insert_many([none(1), none(2)]).await?;
    let some = |id| Member {
        nick: Some("ann".into()),
        ..none(id)
    };
    db.insert(some(3)).await?;
    let twice = db.insert(some(4)).await;
    assert!(twice.is_err_and(|error| error.is_duplicate_key()));
    Ok(())
}
