//! What is asked of documents: filters, sorts, values.

mod filter;
mod pattern;
mod render;
mod sort;
mod value;
mod variant;

pub use filter::{Filter, IntoFilter};
pub(crate) use filter::{Node, test};
pub use pattern::Pattern;
pub(crate) use render::{append, document, pull as pull_to_raw};
pub(crate) use sort::to_raw as sort_to_raw;
pub use sort::{IntoSort, Sort};
pub use value::{IntoKey, IntoValue};
pub(crate) use value::{encode, encode_document, encode_unchecked, same, values};
