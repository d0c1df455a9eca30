//! What derived code calls. Not part of the API.

pub use std::{
    ops::Deref,
    option::Option::{self, None, Some},
    result::Result::Ok,
    time::Duration,
    vec::Vec,
};

pub use bson::{DateTime, RawBson, RawDocument};
pub use serde::{Serialize, Serializer};

pub use crate::__odm_validated as validated;
pub use crate::derived::*;
pub use crate::{
    Result,
    backend::operation::{Direction, Index},
    check::ModelCheck,
    decode::{as_one, as_projection, of_no_variant},
    document::{
        Document, Draft, Embedded, HasVariant, IdPart, IdPrefix, IdReader, IdText, Insertable,
        IntoIdPart, NativeValue, NewFields, Number, OfKind, Overflow, RawDraft, Ref, Stored,
        VariantOf, Whole, encode_new, kind, numbered, stored_tag, variant_indexes,
    },
    field::{
        Beside, Checked, Field, FromPath, OfVariant, Ordered, Path, Place, Queryable, SaidAt, Tag,
        Variants, role, said, shape,
    },
    hook::{Erased, HasHooks, Hooks, RunHooks, RunsHooksOf},
    projection::{Projected, Projection, ProjectionOf, Reads},
    query::Filter,
    query::{IdAlone, IdAndShardKey, IntoKey, IntoValue, Key, Sharded, ShardedInScope, Unsharded},
    rule::{FieldRule, Parts, Proposed, Rules, Verdict, Whole as WholeRules},
    schema::{
        Closed, Computation, ComputedField, Contains, CopiedField, Copies, ElementOrder, ExcerptOf,
        Excerpts, Follows, InEmbedded, InverseLink, Keeps, LinkSide, LinkStep, LinksInside,
        LinksWalk, ListedIn, Model, OnDelete, OverflowField, OwnLink, RefersTo, Schema, ScopeField,
        Tally, Term, all_links, condition, copied, copies_end, counted, counts, element,
        element_fields, excerpted, extras_are_alone, has_companion, has_length, is_counter,
        is_filled_as, is_first_on_its_collection, is_followed, is_kept, is_of_link, leaves_to,
        links_match, literal_counts, ordered, overflowing_references, overflows_plainly,
        overflows_references, sees_parent, sorts_by, stored_or_own, stores_alike, summed,
    },
    scope::{AllScopes, InScope, Scope, Unscoped, WrittenIn},
    soft_delete::SoftDelete,
};
#[cfg(feature = "garde")]
pub use garde;

/// Code that needs the crate `garde`: none without it, and a message that says so.
#[cfg(feature = "garde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __odm_validated {
    ($($code:tt)*) => { $($code)* };
}

/// Code that needs the crate `garde`: none without it, and a message that says so.
#[cfg(not(feature = "garde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __odm_validated {
    ($($code:tt)*) => {
        ::core::compile_error!(
            "`validate` needs the feature `garde` of the crate `odm`: say `odm = { version = \"…\", features = [\"garde\"] }` in `Cargo.toml`"
        );
    };
}
