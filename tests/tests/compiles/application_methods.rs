//! Methods and traits of the application, with the names of fields and of derived items.

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "people")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

impl Person {
    fn id(&self) -> i64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn new(id: i64) -> Self {
        Self { id, name: String::new() }
    }
}

trait Named {
    fn fields_of() -> usize;
}

impl<T: Document> Named for T {
    fn fields_of() -> usize {
        T::MODEL.fields.len()
    }
}

impl From<i64> for Person {
    fn from(id: i64) -> Self {
        Self::new(id)
    }
}

pub(crate) fn main() {
    let person = Person::from(3);
    assert_eq!((person.id(), person.name(), Person::fields_of()), (3, "", 2));
}
