//! What is asked of documents: filters, sorts, values.

mod bracket;
mod expression;
mod filter;
mod key;
mod pattern;
mod position;
mod render;
mod sort;
mod value;
mod variant;

pub use bracket::Brackets;
pub use expression::{Expr, IntoExpr, Minus, Operand, Plus, Root, Times};
pub use filter::{Filter, IntoFilter};
pub(crate) use filter::{Node, element, test};
#[doc(hidden)]
pub use key::{ByIdAlone, Sharded, ShardedInScope, Unsharded};
pub use key::{IdAlone, IdAndShardKey, IntoKey, IntoRouted, Key, Routes};
pub use pattern::Pattern;
pub(crate) use position::{behind, key_of, read_by};
pub(crate) use render::{
    append, array_filter, by_id, document, filter as to_raw, pull as pull_to_raw,
    records_a_position,
};
pub use sort::{IntoSort, Sort};
pub(crate) use sort::{push_sort, to_raw as sort_to_raw};
pub use value::IntoValue;
pub(crate) use value::{
    check_written, encode, encode_document, encode_new_document, encode_unchecked, same, values,
};
