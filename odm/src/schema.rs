//! Schemas: the models of a database as plain data, and the compile-time checks across models.

pub(crate) mod computed;
mod copy;
mod embedded_links;
mod link;
mod missing_indexes;
mod model;
mod overflow;
mod rollup;
mod sync;
mod tree;
pub(crate) mod upgrade;

pub(crate) use computed::ComputedInput;
pub use computed::{
    Computation, ComputationKind, ComputedField, ComputedFrom, ComputedValue, CountsIn,
    FieldsOfElement, HasLength, NumberValue, QuotientValue, SingleValue, SummableArray, Term,
    TextValue, element_fields_at, ensure_counts, ensure_divides, ensure_length,
    ensure_literal_counts, ensure_number, ensure_text,
};
pub(crate) use copy::ReferenceCopies;
pub use copy::{
    CopiedField, CopiedValue, CopyMode, CopyOf, CopyableRole, EmbeddedCopies, SingleReference,
    TypeCopies, copy_source, ensure_copy_chains_end, ensure_insert_struct, ensure_maintainable,
};
pub use embedded_links::{EmbeddedLinks, LinkCollector, all_links};
pub use link::{
    InverseFrom, InverseLink, LinkField, LinkStep, OnDelete, ReferenceLink, ReferenceTo, RefersTo,
    has_inverse_in, has_reference_in, links_match, soft_delete_reaches_documents,
};
pub(crate) use missing_indexes::MissingUniqueIndexes;
pub use model::{
    Model, ScopeField, SequenceField, TreeField, is_first_in_collection, leaves_name_to_tag,
    manages_same_fields, stored_or_rust_name, stores_field_alike,
};
pub(crate) use model::{SharedScope, str_eq};
pub use overflow::{
    ElementOrder, OverflowField, SpillableArray, chunk_collections_are_unique, element_fields,
    ensure_sorts_by, ensure_spills_references, spills_plain_elements, spills_references,
};
pub(crate) use rollup::ChildList;
pub use rollup::{
    AverageValue, Comparable, CountedBy, CounterValue, ExcerptArray, ExcerptOf, ExtremeOf, Rollup,
    RollupComparison, RollupCondition, RollupKind, SameType, SeesParent, StableRole, SummableValue,
    ensure_average, ensure_counted_by, ensure_counter, ensure_extreme, ensure_ranked,
    ensure_sees_parent, ensure_summable, excerpt_source, rollup_comparison, rollup_condition,
};
pub use sync::{FailedIndex, IndexReport, SyncIndexes};
pub use tree::{TreeAncestors, TreeParent};
pub use upgrade::{UpgradeAll, UpgradeFn, UpgradeReport};

use crate::{
    check::ModelCheck,
    model::{document::Document, projection::Projection},
    relation::{Link, LinkItem, Links},
    session::scope::{AllScopes, InScope, Unscoped},
};

/// The models of a database. Implement this trait with `#[derive(Schema)]`.
///
/// A database only accepts the models of its schema, so no write can miss the derived data of another model. The derive checks
/// the whole schema at compile time: no two models share a collection, and the target of every reference is a model of the
/// schema.
/// ```
/// use odm::prelude::*;
///
/// #[derive(Serialize, Deserialize, Document)]
/// #[document(collection = "parts")]
/// struct Part { #[serde(rename = "_id")] id: i64, name: String }
///
/// #[derive(Schema)]
/// #[schema(models(Part))]
/// struct Shop;
/// type Db = odm::Database<Shop>;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a schema",
    note = "derive it: `#[derive(Schema)] #[schema(models(…))] struct {Self};`"
)]
pub trait Schema: Sized + Send + Sync + 'static {
    /// The models of the schema.
    const MODELS: &'static [&'static Model];

    /// Returns the declared indexes of each model.
    fn indexes() -> Vec<(&'static Model, Vec<crate::backend::operation::Index>)>;

    /// Returns the integrity checks of each model.
    #[doc(hidden)]
    fn model_checks() -> Vec<ModelCheck>;
}

/// A schema that has the model `T`, for a session with the scope `C`.
#[diagnostic::on_unimplemented(
    message = "`{T}` is not a model of `{Self}`",
    label = "not in the schema",
    note = "add it: `#[schema(models(…, {T}))]`; for the model of one variant, its enum"
)]
pub trait Contains<T, C = Unscoped>: Schema {}
impl<S: Schema, T: Document<Listed: ListedIn<S>, Itself: InScope<C>>, C> Contains<T, C> for S {}

/// A model that the schema `S` lists. An enum also lists the models of its variants.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model of `{S}`",
    label = "not in the schema",
    note = "add it: `#[schema(models(…, {Self}))]`"
)]
pub trait ListedIn<S> {}

/// The result of a join: all its models are in the schema `S`.
#[diagnostic::on_unimplemented(
    message = "a joined model is not in the schema `{S}`",
    label = "loads `{Self}`",
    note = "add the model to the schema: `#[schema(models(…))]`"
)]
pub trait OfSchema<S> {}
#[diagnostic::do_not_recommend]
impl<S, P: Projection<Of: Document<Listed: ListedIn<S>>>> OfSchema<S> for P {}
#[diagnostic::do_not_recommend]
impl<S, X: LinkItem + OfSchema<S>> OfSchema<S> for Link<X> {}
#[diagnostic::do_not_recommend]
impl<S, X: LinkItem + OfSchema<S>> OfSchema<S> for Links<X> {}
#[diagnostic::do_not_recommend]
impl<S, X: LinkItem + OfSchema<S>> OfSchema<S> for Option<Link<X>> {}
#[diagnostic::do_not_recommend]
impl<S, X: OfSchema<S>> OfSchema<S> for Vec<X> {}

macro_rules! of_schema {
    ($($item:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<S, $($item: OfSchema<S>),*> OfSchema<S> for ($($item,)*) {}
    };
}
of_schema!(T A);
of_schema!(T A B);
of_schema!(T A B C);
of_schema!(T A B C D);
of_schema!(T A B C D E);
of_schema!(T A B C D E F);

/// A schema that has the model `T`, the target of a reference.
#[diagnostic::on_unimplemented(
    message = "`{T}` is not a model of `{Self}`, but another model refers to `{T}`",
    label = "refers to `{T}`, which is not in the schema",
    note = "add it: `#[schema(models(…, {T}))]`"
)]
pub trait ContainsTarget<T>: Schema {}
#[diagnostic::do_not_recommend]
impl<S: Contains<T, AllScopes>, T> ContainsTarget<T> for S {}

/// A model with references only to models in the schema `S`.
pub trait TargetsInSchema<S: Schema> {}
