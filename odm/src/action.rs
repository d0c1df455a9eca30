//! What can be done with documents: each action is a value that runs when it is awaited.

mod delete;
mod find;
mod get;
mod insert;
mod modify;
mod save;
mod target;
mod update;

pub use delete::{Delete, Deleted};
pub use find::{Find, Rows};
pub use get::{FindById, Get, GetMany};
pub use insert::{InsertMany, InsertOne};
pub use modify::Modify;
pub use save::{Edit, Save};
pub use update::{Increment, List, Optional, Push, Update, Updated};
