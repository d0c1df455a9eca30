//! Patches, optional values of updates, and the traits of insert structs.

use std::sync::Arc;

use odm::{ErrorKind, backend::Recorder, prelude::*};
use serde_json::json;

use crate::Fixture;

/// A product with managed fields, an optional field, and embedded structs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document, schemars::JsonSchema)]
#[document(
    collection = "products",
    version,
    timestamps,
    insert_derive(PartialEq, schemars::JsonSchema)
)]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    /// The name in the shop.
    name: String,
    #[serde(rename = "sub")]
    subtitle: Option<String>,
    #[schemars(range(min = 1))]
    price: i64,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[embed]
    #[schemars(skip)]
    size: Size,
    #[schemars(with = "Option<String>")]
    #[serde(default, with = "odm::json")]
    released: Option<DateTime>,
    version: i64,
    #[schemars(skip)]
    created_at: DateTime,
    #[schemars(skip)]
    updated_at: DateTime,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Embedded)]
struct Size {
    width: i64,
    height: Option<i64>,
    #[embed]
    weight: Weight,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Embedded)]
struct Weight {
    net: i64,
    gross: i64,
}

#[derive(Debug, Default, Patch)]
#[patch(of = Product)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ProductPatch {
    #[serde(rename = "title")]
    name: Option<String>,
    subtitle: Option<Option<String>>,
    price: Option<i64>,
    tags: Option<Vec<String>>,
    #[patch(nested)]
    size: Option<SizePatch>,
    #[serde(with = "odm::json")]
    released: Option<DateTime>,
}

#[derive(Debug, Default, Patch)]
#[patch(of = Size)]
struct SizePatch {
    width: Option<i64>,
    height: Option<Option<i64>>,
    #[patch(nested)]
    weight: Option<WeightPatch>,
}

#[derive(Debug, Default, Patch)]
#[patch(of = Weight)]
struct WeightPatch {
    gross: Option<i64>,
}

#[derive(Schema)]
#[schema(models(Product))]
struct Shop;
type Db = odm::Database<Shop>;

fn patch(json: serde_json::Value) -> ProductPatch {
    serde_json::from_value(json).unwrap()
}

async fn insert_product(db: &Db) -> Product {
    let product = NewProduct {
        id: 1,
        name: "saw".into(),
        subtitle: Some("new".into()),
        price: 5,
        tags: vec!["wood".into()],
        size: Size {
            width: 1,
            height: Some(2),
            weight: Weight { net: 3, gross: 4 },
        },
        released: None,
    };
    db.insert(product).await.unwrap()
}

pub async fn a_patch_sets_the_present_values(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let before = insert_product(&db).await;
    recorder.clear();
    let values = json!({
        "title": "hand saw",
        "subtitle": null,
        "size": { "height": null, "weight": { "gross": 9 } },
        "released": "2024-05-17T10:20:30Z",
    });
    let update = db.update::<Product>(1).apply(patch(values));
    let after = update.returning_after().await.unwrap();
    let expected = Product {
        name: "hand saw".into(),
        subtitle: None,
        size: Size {
            width: 1,
            height: None,
            weight: Weight { net: 3, gross: 9 },
        },
        released: Some(DateTime::parse_rfc3339_str("2024-05-17T10:20:30Z").unwrap()),
        version: 2,
        updated_at: after.updated_at,
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(recorder.operations().len(), 1);

    // A patch is part of an update: with conditions, with other changes, and in a bulk.
    let cheap = db.update::<Product>(1).when(|p| p.price().lt(3));
    let cheap = cheap.apply(patch(json!({ "price": 1 }))).await.unwrap();
    assert!(!cheap.is_applied());
    let both = db
        .update::<Product>(1)
        .apply(patch(json!({ "tags": [] })))
        .inc(|p| p.price(), 1);
    let report = db.bulk().add(both).await.unwrap().into_result().unwrap();
    assert_eq!((report.matched, report.modified), (1, 1));
    let product = db.get::<Product>(1).await.unwrap();
    assert_eq!((product.price, product.tags.len()), (6, 0));

    // The rules of the update apply.
    let tags = patch(json!({ "tags": ["a", "b", "c", "d"] }));
    let error = db.update::<Product>(1).apply(tags).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyElements);
}

pub async fn a_patch_reads_json(_: Fixture) {
    let empty = patch(json!({}));
    assert!(empty.name.is_none() && empty.subtitle.is_none() && empty.size.is_none());
    assert_eq!(patch(json!({ "subtitle": null })).subtitle, Some(None));
    assert_eq!(
        patch(json!({ "subtitle": "x" })).subtitle,
        Some(Some("x".into()))
    );
    // Null is no value of a required field, and `deny_unknown_fields` applies.
    for wrong in [
        json!({ "title": null }),
        json!({ "name": "x" }),
        json!({ "price": "x" }),
    ] {
        assert!(serde_json::from_value::<ProductPatch>(wrong).is_err());
    }
}

pub async fn an_update_without_values_reads(fixture: Fixture) {
    let recorder = Arc::new(Recorder::new(fixture.backend()));
    let db = Db::with_backend(recorder.clone());
    let before = insert_product(&db).await;
    let empty = ProductPatch::default;
    recorder.clear();
    let counts = db.update::<Product>(1).apply(empty()).await.unwrap();
    assert_eq!((counts.matched, counts.modified), (1, 0));
    assert!(
        recorder
            .operations()
            .iter()
            .all(|operation| !operation.is_write())
    );
    // The version and the time of the last write stay.
    let unchanged = db
        .update::<Product>(1)
        .apply(empty())
        .returning_after()
        .await
        .unwrap();
    assert_eq!(unchanged, before);
    let unchanged = db
        .update::<Product>(1)
        .set_some(|p| p.name(), None::<String>)
        .set_some(|p| p.price(), None::<i64>)
        .await
        .unwrap();
    assert_eq!((unchanged.matched, unchanged.modified), (1, 0));

    // As in other updates, a missing document is an error, and a condition decides.
    let missing = db.update::<Product>(9).apply(empty()).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    let missing = db
        .update::<Product>(9)
        .apply(empty())
        .returning_after()
        .await;
    assert!(missing.unwrap_err().is_not_found());
    let condition = || {
        db.update::<Product>(1)
            .when(|p| p.price().lt(3))
            .apply(empty())
    };
    assert!(!condition().await.unwrap().is_applied());
    assert_eq!(condition().returning_after().await.unwrap(), NotApplied);
    let many = db
        .update_many::<Product>(|p| p.price().gt(3))
        .apply(empty())
        .await
        .unwrap();
    assert_eq!((many.matched, many.modified), (1, 0));
    let first = db
        .update_first::<Product>(|p| p.price().gt(3))
        .apply(empty())
        .await
        .unwrap();
    assert_eq!(first, Applied(Ref::new(1_i64)));
    let report = db
        .bulk()
        .add(db.update::<Product>(1).apply(empty()))
        .await
        .unwrap();
    let report = report.into_result().unwrap();
    assert_eq!((report.matched, report.modified), (1, 0));
    let product = NewProduct {
        id: 2,
        ..Default::default()
    };
    let upsert = db.update::<Product>(2).apply(empty()).or_insert(product);
    assert!(upsert.await.unwrap().is_inserted());

    // Without a patch, an empty update is still a mistake.
    let mistake = db.update::<Product>(1).await.unwrap_err();
    assert_eq!(mistake.kind(), ErrorKind::Invalid);
}

pub async fn optional_values_are_set(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    insert_product(&db).await;
    let update = db
        .update::<Product>(1)
        .set_some(|p| p.name(), Some("hammer"))
        .set_some(|p| p.subtitle(), Some(None::<String>))
        .set_some(|p| p.price(), None::<i64>);
    let product = update.returning_after().await.unwrap();
    assert_eq!((product.name.as_str(), product.price), ("hammer", 5));
    assert_eq!(product.subtitle, None);
}

pub async fn insert_structs_have_defaults_and_derives(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let product = db.insert(NewProduct::default()).await.unwrap();
    assert_eq!(
        (product.id, product.name.as_str(), product.version),
        (0, "", 1)
    );
    assert_eq!(NewProduct::default(), NewProduct::default());

    // The schema of the insert struct has the stored names and the attributes of the fields, and no managed fields.
    let schema = serde_json::to_value(schemars::schema_for!(NewProduct)).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    assert!(properties.contains_key("_id") && properties.contains_key("sub"));
    assert!(!properties.contains_key("version") && !properties.contains_key("created_at"));
    assert_eq!(properties["price"]["minimum"], 1);
    assert_eq!(properties["name"]["description"], "The name in the shop.");
}
