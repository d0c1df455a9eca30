//! Relations: what a query brings along, in the type of what it gives.
//!
//! A join is made by the application: the documents first, then for each relation one query for the documents that all
//! of them refer to. Nothing is loaded that the query does not name.

mod children;
mod edge;
mod join;
mod link;
mod load;

pub use children::Children;
pub use edge::{JoinOf, RefersToMany};
pub use join::{Append, IntoJoin, Join, Joins, Reference};
pub use link::{Item, Link, Linked, Links};
pub(crate) use load::{MAX_KEYS, by_ids, found_by_ids};
