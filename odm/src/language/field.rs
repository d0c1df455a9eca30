//! Field trees: typed places in a document, with the operators that each place supports.
//!
//! `Field<M, T, R, S>` is a place in the model `M` that holds a `T`. The role `R` names the writer of the place ([`role`]), and
//! the shape `S` is whether the path has one value or several ([`shape`]). Arrays, options and maps have operators of their own
//! and dereference to the fields inside; so do the trees that `Embedded` derives. For an enum, a closure applies conditions and
//! updates to one variant.

mod array;
mod checked;
mod map;
mod map_key;
mod operators;
mod optional;
mod overflow;
mod path;
mod reference;
mod scalar;
mod variant;

use std::marker::PhantomData;

use bson::RawBson;

pub use array::{ArrayPlace, Elem, Sequence};
pub use checked::CheckedPlace;
pub use map::{Keyed, MapPlace};
pub use map_key::{IntoMapKey, MapKey};
pub use optional::OptionalPlace;
pub use overflow::{FullyResident, OverflowPlace, ResidentKind};
pub use path::Path;
pub(crate) use path::{NullableKind, PathStep, ensure_map_key};
pub use reference::{Matches, OneTarget};
pub use scalar::{Bits, Date, ElementSortKey, Ordered, Text};
#[doc(hidden)]
pub(crate) use variant::FoundReference;
pub(crate) use variant::outside_closure_errors;
#[doc(hidden)]
pub use variant::{AllowedAt, closure_result};
pub use variant::{FieldsBesideTag, InVariant, OfVariant};
pub use variant::{OutsideClosure, Tag, VariantMap};

use crate::{
    backend::operation::Direction,
    language::query::{
        Brackets, Expr, Filter, FilterNode, IntoFilter, IntoValue, Operand, Pattern, Root, Sort,
        element_match as at_element, encode_values, field_test,
    },
    model::{caseless::without_case, document::Stored},
};

/// Roles: who writes a field, and when.
pub mod role {
    /// Written by the application.
    #[derive(Debug)]
    pub struct Own;
    /// Written by the application once: the `_id` never changes.
    #[derive(Debug)]
    pub struct Id;
    /// Written by the application once: a field of the shard key never changes.
    #[derive(Debug)]
    pub struct ShardKeyField;
    /// Written by the application once: a part of the `_id` never changes.
    #[derive(Debug)]
    pub struct IdPartField;
    /// Written by the application once: a field that selects the sequence of a number never changes.
    #[derive(Debug)]
    pub struct SequenceKey;
    /// Written by the framework once: the number of the document in a sequence.
    #[derive(Debug)]
    pub struct SequenceNumber;
    /// Written by the framework: a version, a timestamp, and other managed fields.
    #[derive(Debug)]
    pub struct Managed;
    /// Written by the framework: the inverse of a reference.
    #[derive(Debug)]
    pub struct Inverse;
    /// Written by the framework: a copy of a field of another document.
    #[derive(Debug)]
    pub struct Denormalized;
    /// Written by the framework: a rollup of child documents.
    #[derive(Debug)]
    pub struct RolledUp;
    /// Written by the framework: computed from other fields of the document.
    #[derive(Debug)]
    pub struct Computed;
    /// Written by updates of the whole array: the resident elements of an overflow array.
    #[derive(Debug)]
    pub struct Resident;
    /// Written once, at the insert, by the application or the framework: a snapshot.
    #[derive(Debug)]
    pub struct Snapshot;
}

/// Shapes: how many values a path has.
pub mod shape {
    /// The shape of a path with one value.
    #[derive(Debug)]
    pub struct One;
    /// The shape of a path with a value for each element of an array: any element can match.
    #[derive(Debug)]
    pub struct Many;
    /// The shape of all elements of an array, or of all elements that meet a condition, in an update: `$[]`.
    #[derive(Debug)]
    pub struct Every;
    /// The shape of the first element of an array that meets a condition, in an update: `$`.
    #[derive(Debug)]
    pub struct First;
    /// The shape `S` of a field with serde's `default`: a stored document may lack the field.
    #[derive(Debug)]
    pub struct Defaulted<S>(std::marker::PhantomData<S>);
    /// Represents the default in a bound. rustc prints the message of [`AlwaysStored`](super::AlwaysStored) only for a bound on a
    /// type other than the shape.
    #[derive(Debug)]
    pub struct SerdeDefault<S>(std::marker::PhantomData<S>);
}

/// Shapes of places that every stored document has.
#[diagnostic::on_unimplemented(
    message = "a stored document may lack this field, because it has serde's `default`",
    label = "the database does not see the default",
    note = "conditions, sorts, operators and copies do not see the default: store it once by `db.update_many::<…>(|m| \
         !m.field().exists()).set(|m| m.field(), …)` and remove `default`; let a `schema_version` with an `upgrade` store it; or \
         make the field an `Option`",
    note = "a projection can read such a field if it has the same `#[serde(default)]`"
)]
pub trait AlwaysStored {}
#[diagnostic::do_not_recommend]
impl AlwaysStored for shape::One {}
#[diagnostic::do_not_recommend]
impl AlwaysStored for shape::Many {}
#[diagnostic::do_not_recommend]
impl AlwaysStored for shape::Every {}
#[diagnostic::do_not_recommend]
impl AlwaysStored for shape::First {}

/// Shapes at which a whole value can be set.
#[diagnostic::on_unimplemented(
    message = "the elements of the array to update are not selected",
    label = "inside an array",
    note = "select them before the field: `.all()` for every element, `.matching(|element| …)` for all that meet a condition, \
         `.first_matching(|element| …)` for the first of them, `.at(i)` for one by its index, as in `p.comments().all().votes()`"
)]
pub trait Assignable {}
#[diagnostic::do_not_recommend]
impl Assignable for shape::One {}
#[diagnostic::do_not_recommend]
impl Assignable for shape::Every {}
#[diagnostic::do_not_recommend]
impl Assignable for shape::First {}
#[diagnostic::do_not_recommend]
impl<S: Assignable> Assignable for shape::Defaulted<S> {}

/// Shapes with a filter for the existence of the field.
#[diagnostic::on_unimplemented(
    message = "`all()`, `matching(…)` and `first_matching(…)` select elements for an update, not for a condition",
    label = "cannot be used in a filter",
    note = "remove `all()` to match any element; `any(|element| …)` matches one element by several conditions"
)]
pub trait MayExist {}
#[diagnostic::do_not_recommend]
impl MayExist for shape::One {}
#[diagnostic::do_not_recommend]
impl MayExist for shape::Many {}
#[diagnostic::do_not_recommend]
impl<S: MayExist> MayExist for shape::Defaulted<S> {}

// Fields with serde's `default` report the error of `AlwaysStored`.
macro_rules! of_stored_fields {
    ($($shape:ident)*) => {$(
        impl<S> $shape for shape::Defaulted<S> where shape::SerdeDefault<S>: AlwaysStored {}
    )*};
}
of_stored_fields!(Queryable Sortable Writable Single);

/// Roles that an update may write.
#[diagnostic::on_unimplemented(
    message = "no update can change a field with the role `{Self}`",
    label = "cannot be changed by an update",
    note = "`Id`, `IdPartField`, `ShardKeyField`: the `_id`, its parts and the shard key never change; insert another document instead",
    note = "`SequenceNumber`, `SequenceKey`: the number that `#[sequence]` assigns, and the field of `per`, never change; insert another document instead",
    note = "`Managed`: a version, a timestamp, the date of a soft delete, the tag of an enum or the scope; `delete` or `restore` \
         the document, or replace the enum",
    note = "`Inverse`: the inverse of a reference; change the reference",
    note = "`Denormalized`: a copy; change the source field, or the reference to the source",
    note = "`Computed`: computed from other fields of the document; change those fields",
    note = "`RolledUp`: a rollup of child documents; insert, change or delete children",
    note = "`Snapshot`: set when the document was inserted; a snapshot never changes",
    note = "`Resident`: the resident elements of an overflow array; change the array as a whole, by `push`, `pull` and similar \
         operators"
)]
pub trait Settable {}
#[diagnostic::do_not_recommend]
impl Settable for role::Own {}

/// Shapes that a sort accepts.
#[diagnostic::on_unimplemented(
    message = "cannot sort by a field inside an array",
    label = "has one value for each element",
    note = "sort by one element, `.at(0)`, or by a field outside of the array"
)]
pub trait Sortable {}
#[diagnostic::do_not_recommend]
impl Sortable for shape::One {}

/// Shapes that a filter accepts.
#[diagnostic::on_unimplemented(
    message = "`all()`, `matching(…)` and `first_matching(…)` select elements for an update, not for a condition",
    label = "cannot be used in a filter",
    note = "remove `all()` to match any element; `any(|element| …)` matches one element by several conditions"
)]
pub trait Queryable {}
#[diagnostic::do_not_recommend]
impl Queryable for shape::One {}
#[diagnostic::do_not_recommend]
impl Queryable for shape::Many {}

/// Shapes that an update can write.
#[diagnostic::on_unimplemented(
    message = "the elements of the array to update are not selected",
    label = "inside an array",
    note = "select them before the field: `.all()` for every element, `.matching(|element| …)` for all that meet a condition, \
         `.first_matching(|element| …)` for the first of them, `.at(i)` for one by its index, as in `p.comments().all().votes()`"
)]
pub trait Writable {}
#[diagnostic::do_not_recommend]
impl Writable for shape::One {}
#[diagnostic::do_not_recommend]
impl Writable for shape::Every {}
#[diagnostic::do_not_recommend]
impl Writable for shape::First {}

/// Shapes that an expression, `first_matching` and `rename` accept.
#[diagnostic::on_unimplemented(
    message = "expected a single place, not one for each element of an array",
    label = "inside an array",
    note = "write `.at(i)` before the field to select one element; update several elements by `.all()` and `.matching(|element| \
         …)`"
)]
pub trait Single {}
#[diagnostic::do_not_recommend]
impl Single for shape::One {}

/// A field tree, which is created from a path alone.
pub trait FromPath {
    /// Returns the tree at `path`.
    fn from_path(path: Path) -> Self;
}

/// A place in `Scope`: a field, or the tree of an embedded struct, an array, an option, a map.
#[diagnostic::on_unimplemented(
    message = "expected a field, got `{Self}`",
    note = "return the field itself: `|p| p.title()`"
)]
pub trait Place {
    /// The model, or an array element ([`Elem`]).
    type Scope;
    /// The type of the value.
    type Value: Stored;
    /// The role: a type of [`role`].
    type Role;
    /// The shape: a type of [`shape`].
    type Shape;
    /// Returns the path of the place.
    fn path(&self) -> Path;
}

/// The scope `M` itself. This bound gives a better message than `Place<Scope = M>`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this is a field of `{Self}`, but a field of `{M}` is expected",
    label = "a field of another model, or of another level",
    note = "use the parameter of this very closure: `|p| p.title()`",
    note = "for a field of the target of a reference, declare a copy, and name the copy"
)]
pub trait SameScope<M> {}
#[diagnostic::do_not_recommend]
impl<M> SameScope<M> for M {}

/// Marks types that a value mentions without holding them.
type Marker<T> = PhantomData<fn() -> T>;

/// A place in `M` that holds a `T`.
pub struct Field<M, T, R = role::Own, S = shape::One> {
    path: Path,
    of: Marker<(M, T, R, S)>,
}

impl<M, T, R, S> FromPath for Field<M, T, R, S> {
    fn from_path(path: Path) -> Self {
        Self {
            path,
            of: PhantomData,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M, T: Stored, R, S> Place for Field<M, T, R, S> {
    type Scope = M;
    type Value = T;
    type Role = R;
    type Shape = S;
    fn path(&self) -> Path {
        self.path.clone()
    }
}

impl<M, T: Stored, R, S> Field<M, T, R, S> {
    /// Matches if the field equals the value: `$eq`.
    pub fn eq(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$eq", value.into_value())
    }

    /// Matches if the field differs from the value, or is missing: `$ne`.
    pub fn ne(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        field_test(&self.path, "$ne", value.into_value())
    }

    /// Matches if the field equals any of the values: `$in`.
    pub fn is_in<I>(&self, items: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        field_test(&self.path, "$in", encode_values(items))
    }

    /// Matches if the field equals no value of the list, or is missing: `$nin`.
    pub fn not_in<I>(&self, items: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        field_test(&self.path, "$nin", encode_values(items))
    }

    /// Matches if the document has the field, even with null: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: MayExist,
    {
        field_test(&self.path, "$exists", Ok(true.into()))
    }

    /// Matches if the field is greater than the value: `$gt`.
    pub fn gt(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        field_test(&self.path, "$gt", value.into_value())
    }

    /// Matches if the field is greater than or equal to the value: `$gte`.
    pub fn gte(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        field_test(&self.path, "$gte", value.into_value())
    }

    /// Matches if the field is less than the value: `$lt`.
    pub fn lt(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        field_test(&self.path, "$lt", value.into_value())
    }

    /// Matches if the field is less than or equal to the value: `$lte`.
    pub fn lte(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        field_test(&self.path, "$lte", value.into_value())
    }

    /// Matches if the field is from `low` to `high`, inclusive: `$gte` and `$lte`.
    ///
    /// In an array, different elements may meet the two bounds; `any(|element| element.between(…))` requires one element for
    /// both.
    pub fn between(&self, low: impl IntoValue<T>, high: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        field_test(&self.path, "$gte", low.into_value())
            & field_test(&self.path, "$lte", high.into_value())
    }

    /// Matches if the text begins with `prefix`, case-sensitive: an anchored `$regex`, which can use an index.
    pub fn starts_with(&self, prefix: impl AsRef<str>) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        pattern_filter(&self.path, Pattern::prefix(prefix.as_ref()))
    }

    /// Matches if the text begins with `prefix`, in upper or lower case. An index with `ignore_case`, `#[index(ignore_case)]`,
    /// limits the search. Without such an index, the database compares every text, or every key of an index over the field.
    pub fn starts_with_ignore_case(&self, prefix: impl AsRef<str>) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        let prefix = prefix.as_ref();
        let caseless = Pattern::prefix(&without_case(prefix)).into_raw();
        self.matches_caseless("$regex", caseless, Pattern::prefix(prefix))
    }

    /// Matches if the text equals the given text, in upper or lower case. An index with `ignore_case` limits the search, and can
    /// be unique:
    ///
    /// ```
    /// # use odm::prelude::*;
    /// #[derive(Debug, Serialize, Deserialize, Document)]
    /// #[document(collection = "users")]
    /// struct User {
    ///     #[serde(rename = "_id")]
    ///     id: i64,
    ///     #[index(unique, ignore_case)]
    ///     mail: String,
    /// }
    /// # #[derive(Schema)] #[schema(models(User))] struct Site;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Site>::open("memory:").await?;
    /// db.sync_indexes().await?;
    /// db.insert(User { id: 1, mail: "Jane@Example.org".into() }).await?;
    /// let input = String::from("jane@example.org");
    /// assert!(db.find::<User>().filter(|u| u.mail().eq_ignore_case(&input)).exists().await?);
    /// assert!(db.find::<User>().filter(|u| u.mail().contains_text("@Example.")).exists().await?);
    /// let twice = db.insert(User { id: 2, mail: input }).await;
    /// assert!(twice.unwrap_err().is_duplicate_key());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn eq_ignore_case(&self, text: impl AsRef<str>) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        let text = text.as_ref();
        self.matches_caseless("$eq", without_case(text).into(), Pattern::exact(text))
    }

    /// Matches if the text matches the pattern without case. If the document stores the caseless text, an index of the caseless text
    /// limits the search. The caseless text alone would also match `ss` for `ß`.
    fn matches_caseless(
        &self,
        operator: &'static str,
        caseless: RawBson,
        pattern: Pattern,
    ) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        let filter = pattern_filter(&self.path, pattern.ignore_case());
        match self.path.caseless_place() {
            None => filter,
            Some(place) => field_test(&place, operator, Ok(caseless)) & filter,
        }
    }

    /// Matches if the text contains the given text, case-sensitive. No index limits the search: the database compares every text,
    /// or every key of an index over the field.
    pub fn contains_text(&self, text: impl AsRef<str>) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        pattern_filter(&self.path, Pattern::literal(text.as_ref()))
    }

    /// Matches if the text matches a regular expression, `$regex`, or if the target of the reference meets a condition.
    ///
    /// For a text, use [`Pattern`] for options, and [`Pattern::literal`] for user input. A `&str` is a pattern without options.
    ///
    /// For a reference, the closure receives the fields of the target, as in [`Find::filter`](crate::action::Find::filter). The
    /// target must exist, and be visible to the query: not soft-deleted, and in the scope of the session. For a list of
    /// references, use [`targets`](Self::targets); for the documents that refer to a document,
    /// [`Document::by`](crate::Document::by).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "categories")]
    /// # struct Category {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     #[index] slug: String,
    /// #     #[index] #[reference] parent: Option<Ref<Category>>,
    /// # }
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "products")]
    /// # struct Product { #[serde(rename = "_id")] id: i64, #[index] #[reference] category: Ref<Category> }
    /// # #[derive(Schema)] #[schema(models(Category, Product))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// # let tools = db.insert(Category { id: 1, slug: "tools".into(), parent: None }).await?;
    /// # let saws = db.insert(Category { id: 2, slug: "saws".into(), parent: Some(tools.to_ref()) }).await?;
    /// # db.insert(Product { id: 7, category: saws.to_ref() }).await?;
    /// let saws = db.find::<Product>().filter(|p| p.category().matches(|c| c.slug().eq("saws"))).all().await?;
    /// let tools = db.find::<Product>().filter(|p| p.category().matches(|c| c.parent().matches(|t| t.slug().eq("tools"))));
    /// # assert_eq!(saws.len(), 1);
    /// # assert_eq!(tools.count().await?, 1);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// One of two strategies answers the condition. [`Find::explain`](crate::action::Find::explain) returns the strategy.
    ///
    /// | strategy | condition | cost |
    /// |---|---|---|
    /// | copy | a `#[denormalize]` copy beside the reference for every field of the condition | none |
    /// | ids | otherwise | a query for the ids of the targets, at most 10,000 |
    ///
    /// A copy answers only if the reference has a delete rule that keeps the target alive, or if the copy has `on_delete = clear`
    /// and the condition does not match null. A target with a soft delete is always read. A copy can be older than its source
    /// while a fan-out is pending: [`Find::current`](crate::action::Find::current) reads the targets.
    ///
    /// The ids are read before the query or the write, outside of its atomic step: a write does not notice a concurrent change of
    /// a target. In a transaction, both see the same state.
    ///
    /// # Errors
    ///
    /// The query or the write fails with [`Unsupported`](crate::ErrorKind::Unsupported) if more than 10,000 targets meet the
    /// condition. Bulk writes, upserts, `pipeline`, `watch`, and conditions on elements of an overflow array do not accept a
    /// condition on a target: also an error of this kind.
    pub fn matches<C>(&self, condition: C) -> Filter<M>
    where
        T: Matches<C, S>,
        S: Queryable,
    {
        T::condition_at(&self.path, condition)
    }

    /// Returns the value of the field, for comparisons with other fields and for arithmetic: `$expr`.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "accounts")]
    /// # struct Account { #[serde(rename = "_id")] id: i64, branch: String, credits: i64, debits: i64 }
    /// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
    /// # async fn example(db: odm::Database<Bank>) -> odm::Result<()> {
    /// let rich = db
    ///     .find::<Account>()
    ///     .filter(|a| a.branch().eq("north") & (a.credits().value() - a.debits()).gte(5))
    ///     .all()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`Expr`] for comparisons with missing fields.
    pub fn value(&self) -> Expr<M, T::As>
    where
        M: Root,
        T: Operand,
        S: Single,
    {
        Expr::from_path(&self.path)
    }

    /// Sorts the smallest values first.
    pub fn asc(&self) -> Sort<M>
    where
        S: Sortable,
    {
        Sort::new(
            self.path.clone(),
            Direction::Ascending,
            sort_brackets::<T>(),
        )
    }

    /// Sorts the largest values first.
    pub fn desc(&self) -> Sort<M>
    where
        S: Sortable,
    {
        Sort::new(
            self.path.clone(),
            Direction::Descending,
            sort_brackets::<T>(),
        )
    }
}

/// Returns the brackets of a sorted field. Null is always included: a field may be missing below an optional struct, or with
/// serde's `default`.
const fn sort_brackets<T: Stored>() -> Brackets {
    T::BRACKETS.or(Brackets::NULL)
}

/// Returns the condition that a text matches a pattern: `$regex`.
fn pattern_filter<M>(path: &Path, pattern: Pattern) -> Filter<M> {
    field_test(path, "$regex", Ok(pattern.into_raw()))
}

/// Returns the condition that one element meets all conditions: `$elemMatch`.
fn element_filter<M, F: IntoFilter<Elem<M>>>(path: &Path, condition: F) -> Filter<M> {
    Filter::from_node(match condition.into_filter() {
        Some(filter) => at_element(path, filter.into_node()),
        None => FilterNode::All,
    })
}
