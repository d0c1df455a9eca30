//! The derives work if an application renames the `odm` crate.

/// The crate as an application sees it with `mapper = { package = "odm" }`, or with a re-export.
mod house {
    pub(crate) mod mapper {
        pub(crate) use ::odm::*;
    }
}

use house::mapper::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(crate = house::mapper)]
struct Size {
    width: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(crate = house::mapper)]
struct Key(i64);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", crate = house::mapper, index(size.width))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    size: Size,
    key: Key,
    #[reference]
    like: Vec<Ref<Part>>,
}

#[derive(Deserialize, Projection)]
#[projection(of = Part, crate = house::mapper)]
struct PartKey {
    key: Key,
}

#[derive(Schema)]
#[schema(models(Part), crate = house::mapper)]
struct Shop;

/// Names that a glob import could shadow do not affect generated code.
mod shadowed {
    #![allow(dead_code, non_camel_case_types, reason = "they are only in the way")]
    struct Option;
    struct Vec;
    struct String;
    struct Result;
    enum Never {}
    trait Clone {}
    trait Document {}
    mod std {}
    mod core {}
    mod odm {}

    #[derive(serde::Serialize, serde::Deserialize, ::odm::Document)]
    #[document(collection = "parts")]
    struct Part {
        #[serde(rename = "_id")]
        id: i64,
        #[embed(max = 3)]
        #[index]
        sizes: ::std::vec::Vec<i64>,
    }

    #[derive(::odm::Schema)]
    #[schema(models(Part))]
    struct Shop;
}

#[tokio::test]
async fn models_of_a_renamed_crate_are_models() {
    let db = house::mapper::Database::<Shop>::open("memory:")
        .await
        .unwrap();
    db.sync_indexes().await.unwrap();
    let part = Part {
        id: 1,
        size: Size { width: 3 },
        key: Key(5),
        like: vec![Ref::new(1)],
    };
    db.insert(part).await.unwrap();
    let key = db
        .find::<Part>()
        .filter(|p| p.size().width().eq(3) & p.key().gt(Key(4)))
        .select::<PartKey>()
        .with(|p| p.like())
        .one()
        .await
        .unwrap();
    assert_eq!((key.0.key.0, key.1.loaded().count()), (5, 1));
}
