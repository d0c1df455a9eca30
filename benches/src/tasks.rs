//! Persons with tasks: a two-way link.

use odm::prelude::*;

/// The number of persons, with a single task each.
pub const PERSON_COUNT: i64 = 20;

/// A person with tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
pub struct Person {
    /// The number of the person.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The tasks of the person.
    #[reference(inverse_of = owner, max = 100)]
    pub tasks: Vec<Ref<Task>>,
}

/// A task in the inverse of the owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
pub struct Task {
    /// The number of the task.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The person who has the task.
    #[reference(inverse = tasks)]
    #[index]
    pub owner: Ref<Person>,
}
