//! The closed world: which models a database has, and the checks of their whole.

mod computed;
mod copy;
mod link;
mod model;
mod nested;
mod overflow;
mod sync;
mod tally;
pub(crate) mod upgrade;

pub(crate) use computed::Input;
pub use computed::{
    Computation, Computed, ComputedField, ComputedFrom, CountsIn, Elements, HasLength, InElement,
    Kind, OneValue, Term, counts, element, has_length, literal_counts,
};
pub use copy::{
    Copied, CopiedField, Copies, CopyOf, Follows, InEmbedded, LeadsToOne, copied, copies_end,
    has_companion, is_kept,
};
pub use link::{
    InverseFrom, InverseLink, LeadsTo, LinkSide, LinkStep, OnDelete, OwnLink, RefersTo,
    is_followed, is_of_link, links_match,
};
pub use model::{
    Model, ScopeField, is_filled_as, is_first_on_its_collection, leaves_to, stored_or_own,
    stores_alike,
};
pub(crate) use model::{SharedScope, same};
pub use nested::{LinksInside, LinksWalk, all_links};
pub use overflow::{
    ElementOrder, OverflowField, Overflown, element_fields, extras_are_alone,
    overflowing_references, overflows_plainly, overflows_references, sorts_by,
};
pub use sync::{IndexReport, SyncIndexes};
pub use tally::{
    CountedBy, Counter, ExcerptOf, Excerpts, Keeps, SameAs, SeesParent, Steady, Summed, Tally,
    condition, counted, excerpted, is_counter, ordered, sees_parent, summed,
};
pub use upgrade::{Upgrade, UpgradeAll, Upgraded};

use crate::{
    check::ModelCheck,
    document::Document,
    projection::Projection,
    relation::{Item, Link, Links},
    scope::{AllScopes, InScope, Unscoped},
};

/// The models of a database: derive it.
///
/// A model outside of it cannot be used through the database, so nothing that must be maintained can be forgotten. The
/// derive checks the whole at compile time: no two models on one collection, and every reference's target present.
///
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
    message = "`{Self}` is no schema",
    note = "derive it: `#[derive(Schema)] #[schema(models(…))] struct {Self};`"
)]
pub trait Schema: Sized + Send + Sync + 'static {
    /// The models.
    const MODELS: &'static [&'static Model];

    /// The declared indexes of each model.
    fn indexes() -> Vec<(&'static Model, Vec<crate::backend::operation::Index>)>;

    /// How the documents of each model are checked.
    #[doc(hidden)]
    fn checks() -> Vec<ModelCheck>;
}

/// The schema has the model `T`, and it may be used through a session of `C`.
#[diagnostic::on_unimplemented(
    message = "`{T}` is not a model of `{Self}`",
    label = "not in the schema",
    note = "add it: `#[schema(models(…, {T}))]`; for the model of one variant, its enum"
)]
pub trait Contains<T, C = Unscoped>: Schema {}
impl<S: Schema, T: Document<Listed: ListedIn<S>, Itself: InScope<C>>, C> Contains<T, C> for S {}

/// The schema `S` lists the model, and with an enum the models of its variants.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model of `{S}`",
    label = "not in the schema",
    note = "add it: `#[schema(models(…, {Self}))]`"
)]
pub trait ListedIn<S> {}

/// What a join gives is of models that the schema `S` has.
#[diagnostic::on_unimplemented(
    message = "a model that is joined here is not one of `{S}`",
    label = "gives `{Self}`",
    note = "add the model to the schema: `#[schema(models(…))]`"
)]
pub trait OfSchema<S> {}
#[diagnostic::do_not_recommend]
impl<S, P: Projection<Of: Document<Listed: ListedIn<S>>>> OfSchema<S> for P {}
#[diagnostic::do_not_recommend]
impl<S, X: Item + OfSchema<S>> OfSchema<S> for Link<X> {}
#[diagnostic::do_not_recommend]
impl<S, X: Item + OfSchema<S>> OfSchema<S> for Links<X> {}
#[diagnostic::do_not_recommend]
impl<S, X: Item + OfSchema<S>> OfSchema<S> for Option<Link<X>> {}
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

/// The schema has the model `T`, which another one refers to.
#[diagnostic::on_unimplemented(
    message = "`{T}` is not a model of `{Self}`, but a model of it refers to `{T}`",
    label = "refers to `{T}`, which is not in the schema",
    note = "add it: `#[schema(models(…, {T}))]`"
)]
pub trait ContainsTarget<T>: Schema {}
#[diagnostic::do_not_recommend]
impl<S: Contains<T, AllScopes>, T> ContainsTarget<T> for S {}

/// Every model that `Self` refers to is in the schema `S`.
pub trait Closed<S: Schema> {}
