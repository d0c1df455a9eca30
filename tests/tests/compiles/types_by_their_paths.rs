//! Types written with full paths.

#![allow(unused_qualifications)]

#[derive(serde::Serialize, serde::Deserialize, odm::Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: ::odm::prelude::Uuid,
    name: ::std::option::Option<std::string::String>,
    #[embed(max = 5)]
    names: ::std::vec::Vec<::std::string::String>,
    #[embed]
    by_year: std::collections::BTreeMap<String, i64>,
    #[reference]
    boss: ::core::option::Option<odm::Ref<self::Person>>,
    #[embed(overflow(after = 5, into = "more_notes"))]
    notes: odm::Overflow<String>,
}

#[derive(odm::Schema)]
#[schema(models(self::Person))]
struct World;

pub(crate) fn main() {
    use odm::Document as _;
    let p = Person::fields();
    let _ = p.name().exists() & p.names().contains("Ann") & p.boss().is_none();
}
