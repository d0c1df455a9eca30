//! Items that derived code uses. Not part of the API.

pub use std::{
    borrow::Cow,
    ops::Deref,
    option::Option::{self, None, Some},
    result::Result::Ok,
    time::Duration,
    vec::Vec,
};

pub use crate::{
    __odm_manifest_path as manifest_path, __odm_validated as validated,
    __odm_work_path as work_path, Result,
    action::{Patch, PatchChanges},
    backend::operation::{Direction, Index},
    check::ModelCheck,
    language::{
        field::{
            AllowedAt, CheckedPlace, Field, FieldsBesideTag, FromPath, MapKey, OfVariant, Ordered,
            Path, Place, Queryable, Tag, VariantMap, closure_result, role, shape,
        },
        query::{
            Filter, IdAlone, IdAndShardKey, IntoKey, IntoValue, Key, Sharded, ShardedInScope,
            Unsharded,
        },
    },
    model::{
        decode::{decode_model, decode_projection, unknown_variant},
        derive_support::*,
        document::{
            AssignedNumber, AutoId, Document, Draft, Embedded, FieldReader, HasVariant, IdPart,
            IdPrefix, IdReader, IdText, Insertable, InsertedAsIs, IntoIdPart, NativeValue,
            NewFields, OfDocumentVariant, Overflow, RawDraft, ReadFields, Ref, SequenceInteger,
            Stored, TreeDocument, VariantOf, assigned_number, encode_new, kind, read_struct,
            stored_tag, variant_indexes,
        },
        hook::{ErasedHooks, HasHooks, Hooks, RunHooks, RunsHooksOf},
        projection::{Projected, ProjectedFields, Projection, ProjectionOf},
        validation::{DocumentRules as WholeRules, FieldRule, Parts, Proposed, Rules, Verdict},
    },
    schema::{
        Computation, ComputedField, Contains, CopiedField, CopiedValue, CopyMode, ElementOrder,
        EmbeddedCopies, EmbeddedLinks, ExcerptArray, ExcerptOf, InverseLink, LinkCollector,
        LinkField, LinkStep, ListedIn, Model, OnDelete, OverflowField, ReferenceLink, RefersTo,
        Rollup, RollupComparison, RollupKind, Schema, ScopeField, SequenceField, TargetsInSchema,
        Term, TreeAncestors, TreeField, TreeParent, TypeCopies, all_links,
        chunk_collections_are_unique, copy_source, element_fields, element_fields_at,
        ensure_average, ensure_copy_chains_end, ensure_counted_by, ensure_counter, ensure_counts,
        ensure_divides, ensure_extreme, ensure_insert_struct, ensure_length, ensure_literal_counts,
        ensure_maintainable, ensure_number, ensure_ranked, ensure_sees_parent, ensure_sorts_by,
        ensure_spills_references, ensure_summable, ensure_text, excerpt_source, has_inverse_in,
        has_reference_in, is_first_in_collection, leaves_name_to_tag, links_match,
        manages_same_fields, rollup_comparison, rollup_condition, soft_delete_reaches_documents,
        spills_plain_elements, spills_references, stored_or_rust_name, stores_field_alike,
    },
    session::{
        scope::{AllScopes, InScope, Scope, Unscoped, WrittenIn},
        soft_delete::SoftDelete,
    },
};
pub use bson::{DateTime, RawBson, RawDocument};
#[cfg(feature = "garde")]
pub use garde;
pub use serde::{self, Deserialize, Serialize, Serializer};

/// Emits code that needs the crate `garde`. Without the feature, emits a compile error that names the feature.
#[cfg(feature = "garde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __odm_validated {
    ($($code:tt)*) => { $($code)* };
}

/// Emits code that needs the crate `garde`. Without the feature, emits a compile error that names the feature.
#[cfg(not(feature = "garde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __odm_validated {
    ($($code:tt)*) => {
        ::core::compile_error!(
            "`validate` needs the feature `garde` of the crate `odm`: write `odm = { version = \"…\", features = [\"garde\"] }` \
             in `Cargo.toml`"
        );
    };
}
