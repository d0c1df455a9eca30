//! What can be done with documents: each action is a value that runs when it is awaited.

mod delete;
mod find;
mod get;
mod insert;
mod target;
mod update;

pub use delete::{Delete, Deleted};
pub use find::{Find, Rows};
pub use get::GetMany;
pub(crate) use get::by_id;
pub use insert::{InsertMany, InsertOne};
pub use update::{Increment, List, Optional, Update, Updated};
