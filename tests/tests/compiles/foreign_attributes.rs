//! Attributes that the derives ignore.

use odm::prelude::*;

/// A person.
#[doc = concat!("With", " a text.")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Document)]
#[document(collection = "people")]
#[allow(clippy::module_name_repetitions)]
#[must_use]
#[non_exhaustive]
#[repr(C)]
pub struct Person {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    #[cfg(not(any()))]
    pub name: String,
    #[cfg(any())]
    pub nowhere: NoSuchType,
    #[cfg_attr(all(), serde(rename = "years"))]
    #[deprecated = "nobody tells"]
    pub age: Option<i32>,
    #[allow(dead_code)]
    stored: bool,
}

pub(crate) fn main() {
    #[allow(deprecated)]
    let age = Person::fields().age().gte(18);
    assert!(format!("{age:?}").contains("years"));
}
