//! Actions on documents: get, find, insert, update, upsert, delete, save, bulk. Each action is a value that runs when the caller
//! awaits the value.

mod arrays;
mod bulk;
mod delete;
mod elements;
mod explain;
mod find;
mod get;
mod insert;
mod load;
mod modify;
mod outcome;
mod returning;
mod save;
mod subtree;
mod target;
mod update;
mod upsert;

pub(crate) use arrays::measure_lengths;
pub use arrays::{Arrays, Lengths};
pub use bulk::{AllOrNothing, Bulk, BulkEntry, BulkReport, BulkResult, IntoBulk};
pub use delete::{Delete, DeletePreview, DeleteResult};
pub use elements::{Elements, Matching};
pub use explain::{ExplainWrite, WritePlan, WriteStrategy};
pub use find::{
    Calculation, Drift, Find, FindDrift, FindPage, GroupBy, Grouped, IntoPageToken, Page,
    PageToken, Pipeline, Rows,
};
pub use get::{Exists, FindById, Get, GetMany};
pub use insert::{InsertMany, InsertNew, InsertOne, InsertedNew};
pub use load::{Load, LoadTarget, LoadTuple};
pub use modify::Modify;
pub use outcome::Outcome;
pub use returning::{ReturningDelete, ReturningUpdate};
pub use save::{Edit, Save};
pub use subtree::{Subtree, TreeNode};
pub(crate) use target::decode_id;
pub use target::{
    AllMatching, AtMostOneTarget, ById, ByIdWhen, ByUniqueKey, ByUniqueKeyWhen, CountingTarget,
    FirstMatching, IdTarget, SingleTarget, SortableTarget, TargetKind, UniqueKeyTarget,
};
pub(crate) use update::UpdateOperators;
pub use update::{
    Appendable, ArrayValue, Increment, OptionalValue, Patch, Push, ResidentArray, Update, Updated,
};
#[doc(hidden)]
pub use update::{Arithmetic, OutOfRange, PatchChanges};
pub use upsert::{Upsert, UpsertCounts, UpsertDocument, UpsertOutput, Upserted};
