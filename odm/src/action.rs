//! What can be done with documents: each action is a value that runs when it is awaited.

mod arrays;
mod bulk;
mod delete;
mod elements;
mod find;
mod get;
mod insert;
mod load;
mod modify;
mod outcome;
mod returning;
mod save;
mod target;
mod update;
mod upsert;

pub use arrays::{Arrays, Lengths};
pub use bulk::{Bulk, BulkEntry, BulkReport, BulkResult, IntoBulk};
pub use delete::{Consequences, Delete, Deleted};
pub use elements::{Elements, Matching};
pub use find::{
    Calculation, Drift, Find, FindDrift, FindPage, GroupBy, Grouped, IntoPageToken, Page,
    PageToken, Pipeline, Rows,
};
pub use get::{FindById, Get, GetMany};
pub use insert::{InsertMany, InsertOne};
pub use load::{Load, Loads, Wanted};
pub use modify::Modify;
pub use outcome::Outcome;
pub use returning::{ReturningDelete, ReturningUpdate};
pub use save::{Edit, Save};
pub(crate) use target::id_of;
pub use target::{
    AllMatching, ById, ByIdWhen, Counted, FirstMatching, InOrder, ToOne, Which, WithId,
};
pub(crate) use update::Operators;
#[doc(hidden)]
pub use update::{Arithmetic, OutOfRange};
pub use update::{Increment, List, Optional, Push, Sequence, Update, Updated};
pub use upsert::{Answer, Counts, Documents, Upsert, Upserted};
