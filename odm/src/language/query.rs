//! Filters, sorts and values: the conditions and orders of typed queries.

mod expression;
mod filter;
mod key;
mod pattern;
mod position;
mod related;
mod render;
mod sort;
mod type_bracket;
mod unique_key;
mod value;
mod variant;

pub use expression::{Expr, IntoExpr, Minus, Operand, Plus, Root, Times};
pub use filter::{Filter, IntoFilter};
pub(crate) use filter::{FilterNode, element_match, field_test};
#[doc(hidden)]
pub use key::{ByIdAlone, Sharded, ShardedInScope, Unsharded};
pub use key::{IdAlone, IdAndShardKey, IntoKey, IntoRouted, Key, Routes};
pub use pattern::Pattern;
pub(crate) use position::{after_position, sort_fields, sort_key};
pub(crate) use related::{RelatedCondition, Relation, description};
pub(crate) use render::{
    append_field, equal_to, field_missing, field_present, id_filter, limit_stage, may_set_position,
    projection_of, render_array_filter, render_filter as to_raw, render_pull as pull_to_raw,
    single_field_document,
};
pub use sort::{IntoSort, Sort};
pub(crate) use sort::{push_sort, to_raw as sort_to_raw};
pub use type_bracket::Brackets;
pub use unique_key::UniqueKey;
pub(crate) use unique_key::unique_key_condition;
pub use value::IntoValue;
pub(crate) use value::{
    check_changed_paths, encode_document, encode_new_document, encode_unchecked, encode_value,
    encode_values, same_bytes,
};
