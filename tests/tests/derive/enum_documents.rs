//! Tests that the model of a variant reads and writes the format of serde, for each naming rule.

use odm::{
    Database,
    backend::{operation, read_to_end},
    bson::{self, RawDocumentBuf, rawdoc},
    prelude::*,
};

/// Generates a test of an enum with a naming rule: the stored form of each variant's model equals the form of serde.
macro_rules! follows_serde {
    ($($test:ident: $tag:literal $($serde:meta)*;)*) => {$(
        #[tokio::test]
        async fn $test() {
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(collection = "kinds", shared(two_words: i64))]
            #[serde(tag = $tag)]
            $(#[serde($serde)])*
            #[expect(non_camel_case_types, reason = "a raw identifier")]
            enum Kind {
                HTTPServer(First),
                r#type(Second),
                #[serde(rename = "other.name-$")]
                Renamed(Third),
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(variant_of = Kind)]
            struct First { #[serde(rename = "_id")] id: i64, two_words: i64 }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(variant_of = Kind)]
            struct Second { two_words: i64, #[serde(rename = "_id")] id: i64 }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(variant_of = Kind)]
            struct Third {
                #[serde(default, skip_serializing_if = "Option::is_none")]
                perhaps: Option<bool>,
                #[serde(rename = "_id")]
                number: i64,
                two_words: i64,
            }

            #[derive(Schema)]
            #[schema(models(Kind))]
            struct Kinds;

            let db = Database::<Kinds>::open("memory:").await.unwrap();
            db.insert(First { id: 1, two_words: 10 }).await.unwrap();
            db.insert(Second { id: 2, two_words: 20 }).await.unwrap();
            db.insert(Third { number: 3, perhaps: None, two_words: 30 }).await.unwrap();
            let all = db.find::<Kind>().sort(|k| k.id().asc()).all().await.unwrap();
            assert!(matches!(&all[..], [Kind::HTTPServer(_), Kind::r#type(_), Kind::Renamed(_)]));
            let found = operation::FindOperation {
                collection: "kinds".into(),
                filter: rawdoc! {},
                projection: None,
                sort: Some(rawdoc! { "_id": 1 }),
                limit: None,
                options: Default::default(),
            };
            let stored = read_to_end(db.backend().find(found).await.unwrap()).await.unwrap();
            for (kind, stored) in all.iter().zip(&stored) {
                let serde = RawDocumentBuf::from_bytes(bson::serialize_to_vec(kind).unwrap()).unwrap();
                let mut id_first = RawDocumentBuf::new();
                let fields = serde.iter().map(Result::unwrap);
                let (id, rest): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| name.as_str() == "_id");
                for (name, value) in id.into_iter().chain(rest) {
                    id_first.append(name, value);
                }
                assert_eq!(*stored, id_first);
            }
            db.delete_many::<Kind>(|k| k.two_words().gte(10)).await.unwrap();
            for kind in all {
                db.insert(kind).await.unwrap();
            }
            assert_eq!(db.get::<First>(1).await.unwrap().two_words, 10);
            assert_eq!(db.get::<Second>(2).await.unwrap().two_words, 20);
            assert_eq!(db.get::<Third>(3).await.unwrap().number, 3);
            let k = Kind::fields();
            for (filter, id) in [
                (k.http_server(|f| f.two_words().eq(10)), 1),
                (k.r#type(|s| s.two_words().eq(20)), 2),
                (k.renamed(|t| !t.perhaps().exists()), 3),
                (k.is_renamed(), 3),
            ] {
                assert_eq!(*db.find::<Kind>().filter(|_| filter).one().await.unwrap().id(), id);
            }
            assert_eq!(db.find::<Third>().count().await.unwrap(), 1);
        }
    )*};
}

follows_serde! {
    as_it_is: "kind";
    a_tag_that_is_no_name_in_rust: "@kind";
    lower: "kind" rename_all = "lowercase";
    upper: "kind" rename_all = "UPPERCASE";
    pascal: "kind" rename_all = "PascalCase";
    camel: "kind" rename_all = "camelCase";
    snake: "kind" rename_all = "snake_case";
    screaming_snake: "kind" rename_all = "SCREAMING_SNAKE_CASE";
    kebab: "kind" rename_all = "kebab-case";
    screaming_kebab: "kind" rename_all = "SCREAMING-KEBAB-CASE";
}

mod mapper {
    pub(crate) use odm::*;
}

/// An enum with a renamed crate, a type parameter, and a keyword as the tag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boxes", crate = mapper, shared(label: String))]
#[serde(tag = "type", bound = "")]
pub(crate) enum Boxed<T: Embedded> {
    /// A box with content.
    Full(Full<T>),
}

/// A box with content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(variant_of = Boxed<T>, crate = mapper)]
#[serde(bound = "")]
pub(crate) struct Full<T: Embedded> {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) label: String,
    #[embed(max = 3)]
    pub(crate) inside: Vec<T>,
}

/// An element of a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(crate = mapper)]
pub(crate) struct Thing {
    pub(crate) size: i64,
}

/// A schema of boxes with things.
#[derive(Schema)]
#[schema(crate = mapper, models(Boxed<Thing>))]
pub(crate) struct Store;

#[tokio::test]
async fn a_generic_enum_with_a_renamed_crate() {
    let db = Database::<Store>::open("memory:").await.unwrap();
    let full = Full {
        id: 1,
        label: "a".into(),
        inside: vec![Thing { size: 7 }],
    };
    db.insert(full.clone()).await.unwrap();
    let found = db
        .find::<Boxed<Thing>>()
        .filter(|b| b.full(|f| f.inside().size().eq(7)) & b.label().eq("a"));
    assert_eq!(found.one().await.unwrap(), Boxed::Full(full.clone()));
    let of_type = db.find::<Boxed<Thing>>().filter(|b| b.r#type().eq("Full"));
    assert_eq!(of_type.count().await.unwrap(), 1);
    assert_eq!(db.get::<Full<Thing>>(1).await.unwrap(), full);
}
