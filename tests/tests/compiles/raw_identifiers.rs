//! Models and fields with keywords as names.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[allow(non_camel_case_types)]
struct r#loop {
    r#in: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "types", index(r#type), index(r#fn.r#in))]
#[allow(non_camel_case_types)]
struct r#impl {
    #[serde(rename = "_id")]
    id: i64,
    r#type: String,
    #[embed]
    r#fn: r#loop,
    #[reference]
    r#ref: Option<Ref<r#impl>>,
    #[computed(r#fn.r#in * 2)]
    r#match: i64,
}

#[derive(Patch)]
#[patch(of = r#impl)]
#[allow(non_camel_case_types)]
struct r#move {
    r#type: Option<String>,
}

#[derive(Schema)]
#[schema(models(r#impl))]
#[allow(non_camel_case_types)]
struct r#mod;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<r#mod>::open("memory:").await?;
    db.insert(Newimpl { id: 1, r#type: "a".into(), r#fn: r#loop { r#in: 3 }, r#ref: None }).await?;
    let found = db.find::<r#impl>().filter(|t| t.r#match().eq(6)).with(|t| t.r#ref()).one().await?;
    assert!(found.1.is_none());
    let changed = db.update::<r#impl>(1).apply(r#move { r#type: Some("b".into()) }).await?;
    assert_eq!(changed.modified, 1);
    Ok(())
}
