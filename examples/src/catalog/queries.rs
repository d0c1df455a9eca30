//! Queries of the catalog.

mod maintainer;
mod package;
mod required;
mod totals;
mod uploads;

pub use maintainer::{busiest, of_maintainer};
pub use package::package;
pub use required::{Requirements, most_missed, most_required};
pub use totals::{Totals, totals};
pub use uploads::latest_uploads;
