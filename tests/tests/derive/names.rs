//! Tests that the derives know the names that serde stores.

use odm::{field::Place as _, prelude::*};

/// Generates a test of a model with a naming rule: the field trees must name the fields like serde.
macro_rules! follows_serde {
    ($($test:ident: $rule:literal)*) => {$(
        #[test]
        fn $test() {
            #[derive(Default, Serialize, Deserialize, Embedded)]
            #[serde(rename_all = $rule)]
            struct Inner {
                one: i64,
                two_words: i64,
                #[serde(rename = "other-name")]
                third: i64,
            }

            #[derive(Default, Serialize, Deserialize, Document)]
            #[document(collection = "models")]
            #[serde(rename_all = $rule)]
            struct Model {
                #[serde(rename = "_id")]
                id: i64,
                one: i64,
                two_words: i64,
                three_words_2: i64,
                _hidden: i64,
                trailing_: i64,
                r#type: i64,
                r#two_raw: i64,
                #[serde(rename = "given")]
                renamed: i64,
                #[serde(skip)]
                #[expect(dead_code, reason = "it is not stored")]
                skipped: i64,
                #[serde(default, skip_serializing_if = "never")]
                usual: i64,
                #[embed]
                inner_struct: Inner,
            }
            fn never(_: &i64) -> bool {
                false
            }

            let m = Model::fields();
            let paths = [
                m.id().path(),
                m.one().path(),
                m.two_words().path(),
                m.three_words_2().path(),
                m._hidden().path(),
                m.trailing_().path(),
                m.r#type().path(),
                m.two_raw().path(),
                m.renamed().path(),
                m.usual().path(),
                m.inner_struct().path(),
            ];
            let inner = [
                m.inner_struct().one().path(),
                m.inner_struct().two_words().path(),
                m.inner_struct().third().path(),
            ];
            let written = odm::bson::serialize_to_document(&Model::default()).unwrap();
            assert_eq!(
                paths.iter().map(|path| path.dotted().unwrap()).collect::<Vec<_>>(),
                written.keys().collect::<Vec<_>>(),
            );
            let below = m.inner_struct().path();
            let below = below.dotted().unwrap();
            assert_eq!(
                inner.iter().map(|path| path.dotted().unwrap().to_owned()).collect::<Vec<_>>(),
                written
                    .get_document(below)
                    .unwrap()
                    .keys()
                    .map(|key| format!("{below}.{key}"))
                    .collect::<Vec<_>>(),
            );
            let mut stored: Vec<_> = Model::MODEL.fields.iter().map(|(_, stored)| *stored).collect();
            stored.sort_unstable();
            let mut keys: Vec<_> = written.keys().map(String::as_str).collect();
            keys.sort_unstable();
            assert_eq!(stored, keys);
        }
    )*};
}

follows_serde! {
    lowercase: "lowercase"
    uppercase: "UPPERCASE"
    pascal_case: "PascalCase"
    camel_case: "camelCase"
    snake_case: "snake_case"
    screaming_snake_case: "SCREAMING_SNAKE_CASE"
    kebab_case: "kebab-case"
    screaming_kebab_case: "SCREAMING-KEBAB-CASE"
}

#[test]
fn serde_settings_that_change_no_name_are_ignored() {
    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "models")]
    #[serde(
        rename(serialize = "M", deserialize = "M"),
        rename_all(serialize = "camelCase", deserialize = "camelCase")
    )]
    #[serde(expecting = "a model")]
    struct Model {
        #[serde(rename(serialize = "_id", deserialize = "_id"))]
        id: i64,
        #[serde(default = "Default::default")]
        two_words: String,
    }

    assert_eq!(
        Model::fields().two_words().path().dotted().unwrap(),
        "twoWords"
    );
    assert_eq!(Model::fields().id().path().dotted().unwrap(), "_id");
    const { assert!(Model::MODEL.has_serde_defaults) }
}
