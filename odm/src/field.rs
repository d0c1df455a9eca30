//! Places in a document, with what each may be used for.
//!
//! `Field<M, T, R, S>` is a place in the model `M` that holds a `T`. Its role `R` says who writes it ([`role`]), its
//! shape `S` whether the path leads to one value or to several ([`shape`]). Arrays, options and maps have operators of
//! their own and lead on to what is inside them; so do the trees that `Embedded` derives. Of an enum, a closure says what is
//! asked of one variant.

mod array;
mod checked;
mod map;
mod maybe;
mod operators;
mod overflow;
mod path;
mod scalar;
mod variant;

use std::marker::PhantomData;

pub use array::{Array, Elem};
pub use checked::Checked;
pub use map::{Keyed, Map};
pub use maybe::Maybe;
pub use overflow::{AllInside, Inside, Overflowing};
pub use path::Path;
pub(crate) use path::{Holder, Step, refuse_key};
pub use scalar::{Bits, Date, Numeric, Ordered, Sorts, Text};
#[doc(hidden)]
pub(crate) use variant::Referring;
pub(crate) use variant::said_outside;
pub use variant::{Beside, OfVariant, Within};
#[doc(hidden)]
pub use variant::{SaidAt, said};
pub use variant::{SaidOutside, Tag, Variants};

use crate::{
    backend::operation::Direction,
    document::Stored,
    query::{
        Brackets, Expr, Filter, IntoFilter, IntoValue, Node, Operand, Pattern, Root, Sort,
        element as at_element, test, values,
    },
};

/// Who writes a field.
pub mod role {
    /// The application.
    #[derive(Debug)]
    pub struct Own;
    /// The application, once: the `_id` never changes.
    #[derive(Debug)]
    pub struct Id;
    /// The application, once: a field of the shard key never changes.
    #[derive(Debug)]
    pub struct ShardKey;
    /// The application, once: the `_id` is made of it, and never changes.
    #[derive(Debug)]
    pub struct IdPart;
    /// The framework: a version, a timestamp.
    #[derive(Debug)]
    pub struct Filled;
    /// The framework: it lists the documents that refer to this one.
    #[derive(Debug)]
    pub struct Inverse;
    /// The framework: it follows a field of another document.
    #[derive(Debug)]
    pub struct Denormalized;
    /// The framework: it is made of the documents that refer to this one.
    #[derive(Debug)]
    pub struct Tallied;
    /// The framework: it is computed from other fields of the document.
    #[derive(Debug)]
    pub struct Computed;
    /// The application, by updates of the whole array: these are the elements of it that are in the document.
    #[derive(Debug)]
    pub struct Resident;
    /// The application or the framework, once: it stays as it was when the document was inserted.
    #[derive(Debug)]
    pub struct Snapshot;
}

/// How many values a path leads to.
pub mod shape {
    /// One value.
    #[derive(Debug)]
    pub struct One;
    /// One for each element of an array on the way: any of them can match.
    #[derive(Debug)]
    pub struct Many;
    /// All elements of an array, or those that meet a condition, for an update: `$[]`.
    #[derive(Debug)]
    pub struct Every;
    /// The first element of an array that meets a condition, for an update: `$`.
    #[derive(Debug)]
    pub struct First;
    /// The shape `S` of a field with serde's `default`: a stored document may lack the field.
    #[derive(Debug)]
    pub struct Defaulted<S>(std::marker::PhantomData<S>);
    /// Stands for the default in a bound. rustc prints the message of [`AlwaysStored`](super::AlwaysStored) only for a bound of another
    /// type than the shape.
    #[derive(Debug)]
    pub struct SerdeDefault<S>(std::marker::PhantomData<S>);
}

/// The shapes of places that a stored document has.
#[diagnostic::on_unimplemented(
    message = "a stored document may lack this field, as it has serde's `default`",
    label = "reads as its default, and is missing to the database",
    note = "no condition, order or operator sees the default, and no copy: store it once by \
            `db.update_many::<…>(|m| !m.field().exists()).set(|m| m.field(), …)` and leave `default` out; let a `schema_version` with an \
            `upgrade` do it; or make the field an `Option`",
    note = "a projection reads such a field if it has the same `#[serde(default)]`"
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

/// The shapes that a whole value can be set at.
#[diagnostic::on_unimplemented(
    message = "which elements of the array to update?",
    label = "leads into an array",
    note = "say it before the field: `.all()` for every element, `.matching(|element| …)` for those that meet a condition, `.first_matching(|element| …)` for the first of them, `.at(i)` for one by its index, as in `p.comments().all().votes()`"
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

/// The shapes of which a filter can ask whether the field is there.
#[diagnostic::on_unimplemented(
    message = "`all()`, `matching(…)` and `first_matching(…)` name the elements to update, not a condition",
    label = "cannot be filtered by",
    note = "leave `all()` out to ask for any element; `any(|element| …)` asks for one that meets a condition"
)]
pub trait MayExist {}
#[diagnostic::do_not_recommend]
impl MayExist for shape::One {}
#[diagnostic::do_not_recommend]
impl MayExist for shape::Many {}
#[diagnostic::do_not_recommend]
impl<S: MayExist> MayExist for shape::Defaulted<S> {}

// The error of a field with serde's `default` is that of `AlwaysStored`.
macro_rules! of_stored_fields {
    ($($shape:ident)*) => {$(
        impl<S> $shape for shape::Defaulted<S> where shape::SerdeDefault<S>: AlwaysStored {}
    )*};
}
of_stored_fields!(Queryable Sortable Writable Single);

/// The roles that an update may write.
#[diagnostic::on_unimplemented(
    message = "no update can change a field with the role `{Self}`",
    label = "cannot be changed by an update",
    note = "`Id`, `IdPart`, `ShardKey`: the `_id`, what it is made of and the shard key never change; insert another document instead",
    note = "`Filled`: a version, a timestamp, the mark of a deletion, the tag of an enum or the scope; it is written with what it tells of: \
            replace the enum, `delete` or `restore` the document",
    note = "`Inverse`: the other side of a link; change the reference that it follows",
    note = "`Denormalized`: a copy; change the field that it is taken from, or the reference that leads there",
    note = "`Computed`: computed from other fields of the document; change those",
    note = "`Tallied`: a count, a sum or the latest of the documents that refer to this one; insert, change or delete those",
    note = "`Snapshot`: taken when the document was inserted, and never again",
    note = "`Resident`: the beginning of an array that overflows; change the array as a whole, by `push`, `pull` and their like"
)]
pub trait Settable {}
#[diagnostic::do_not_recommend]
impl Settable for role::Own {}

/// The shapes that a sort can use.
#[diagnostic::on_unimplemented(
    message = "no order by a field inside an array",
    label = "there is one value for each element",
    note = "sort by one element, `.at(0)`, or by a field outside of the array"
)]
pub trait Sortable {}
#[diagnostic::do_not_recommend]
impl Sortable for shape::One {}

/// The shapes that a filter can use.
#[diagnostic::on_unimplemented(
    message = "`all()`, `matching(…)` and `first_matching(…)` name the elements to update, not a condition",
    label = "cannot be filtered by",
    note = "leave `all()` out to ask for any element; `any(|element| …)` asks for one that meets a condition"
)]
pub trait Queryable {}
#[diagnostic::do_not_recommend]
impl Queryable for shape::One {}
#[diagnostic::do_not_recommend]
impl Queryable for shape::Many {}

/// The shapes that an update can write.
#[diagnostic::on_unimplemented(
    message = "which elements of the array to update?",
    label = "leads into an array",
    note = "say it before the field: `.all()` for every element, `.matching(|element| …)` for those that meet a condition, `.first_matching(|element| …)` for the first of them, `.at(i)` for one by its index, as in `p.comments().all().votes()`"
)]
pub trait Writable {}
#[diagnostic::do_not_recommend]
impl Writable for shape::One {}
#[diagnostic::do_not_recommend]
impl Writable for shape::Every {}
#[diagnostic::do_not_recommend]
impl Writable for shape::First {}

/// The shapes that an expression, `first_matching` and `rename` can use.
#[diagnostic::on_unimplemented(
    message = "one place is needed here, not one for each element of an array",
    label = "inside an array",
    note = "say `.at(i)` for one element before the field; what is inside of elements is updated by `.all()` and `.matching(|element| …)`"
)]
pub trait Single {}
#[diagnostic::do_not_recommend]
impl Single for shape::One {}

/// What is made of a path alone: every field tree.
pub trait FromPath {
    /// The tree at `path`.
    fn from_path(path: Path) -> Self;
}

/// A place in `Scope`: a field, or the tree of an embedded struct, an array, an option, a map.
#[diagnostic::on_unimplemented(
    message = "expected a field, got `{Self}`",
    note = "return the field itself: `|p| p.title()`"
)]
pub trait Place {
    /// The model, or the inside of an array element ([`Elem`]).
    type Scope;
    /// What the place holds.
    type Value: Stored;
    /// Who writes it: one of [`role`].
    type Role;
    /// How many values it has: one of [`shape`].
    type Shape;
    /// The way to it.
    fn path(&self) -> Path;
}

/// A scope in which places are looked for: the one itself, where `Place<Scope = M>` would not say what to do.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this is a field of `{Self}`, where one of `{M}` is meant",
    label = "a field of another model, or of another level",
    note = "take it from the parameter of this very closure: `|p| p.title()`"
)]
pub trait In<M> {}
#[diagnostic::do_not_recommend]
impl<M> In<M> for M {}

/// Types that a value speaks about without holding them.
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
    /// Equal to the value: `$eq`.
    pub fn eq(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$eq", value.into_value())
    }

    /// Not equal to the value, or missing: `$ne`.
    pub fn ne(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        S: Queryable,
    {
        test(&self.path, "$ne", value.into_value())
    }

    /// Equal to one of the values: `$in`.
    pub fn is_in<I>(&self, of: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        test(&self.path, "$in", values(of))
    }

    /// Equal to none of the values, or missing: `$nin`.
    pub fn not_in<I>(&self, of: I) -> Filter<M>
    where
        I: IntoIterator<Item: IntoValue<T>>,
        S: Queryable,
    {
        test(&self.path, "$nin", values(of))
    }

    /// The document has the field, if only as null: `$exists`.
    pub fn exists(&self) -> Filter<M>
    where
        S: MayExist,
    {
        test(&self.path, "$exists", Ok(true.into()))
    }

    /// Greater than the value: `$gt`.
    pub fn gt(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        test(&self.path, "$gt", value.into_value())
    }

    /// Greater than or equal to the value: `$gte`.
    pub fn gte(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        test(&self.path, "$gte", value.into_value())
    }

    /// Less than the value: `$lt`.
    pub fn lt(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        test(&self.path, "$lt", value.into_value())
    }

    /// Less than or equal to the value: `$lte`.
    pub fn lte(&self, value: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        test(&self.path, "$lte", value.into_value())
    }

    /// From `low` to `high`, both included: `$gte` and `$lte`.
    ///
    /// In an array the two bounds may be met by different elements; `any(|element| element.between(…))` asks one
    /// element to meet both.
    pub fn between(&self, low: impl IntoValue<T>, high: impl IntoValue<T>) -> Filter<M>
    where
        T: Ordered,
        S: Queryable,
    {
        test(&self.path, "$gte", low.into_value()) & test(&self.path, "$lte", high.into_value())
    }

    /// The text begins with this, case and all: an anchored `$regex`, which an index serves.
    pub fn starts_with(&self, prefix: &str) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        test(&self.path, "$regex", Ok(Pattern::prefix(prefix).into_raw()))
    }

    /// The text matches a regular expression: `$regex`.
    ///
    /// Give the [`Pattern`] options or take it from a user by [`Pattern::literal`]; a `&str` is a pattern without
    /// options.
    pub fn matches(&self, pattern: impl Into<Pattern>) -> Filter<M>
    where
        T: Text,
        S: Queryable,
    {
        test(&self.path, "$regex", Ok(pattern.into().into_raw()))
    }

    /// The value of the field, to compare it with another field or to compute with it: `$expr`.
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
    /// See [`Expr`] for how missing fields compare.
    pub fn value(&self) -> Expr<M, T::As>
    where
        M: Root,
        T: Operand,
        S: Single,
    {
        Expr::field(&self.path)
    }

    /// Smallest first.
    pub fn asc(&self) -> Sort<M>
    where
        S: Sortable,
    {
        Sort::new(self.path.clone(), Direction::Ascending, sorted_among::<T>())
    }

    /// Largest first.
    pub fn desc(&self) -> Sort<M>
    where
        S: Sortable,
    {
        Sort::new(
            self.path.clone(),
            Direction::Descending,
            sorted_among::<T>(),
        )
    }
}

/// A place may be missing even where its type is no option: below an optional struct, or with serde's `default`.
const fn sorted_among<T: Stored>() -> Brackets {
    T::BRACKETS.or(Brackets::NULL)
}

/// Conditions on one and the same element: `$elemMatch`.
fn element<M, F: IntoFilter<Elem<M>>>(path: &Path, condition: F) -> Filter<M> {
    Filter::from_node(match condition.into_filter() {
        Some(filter) => at_element(path, filter.into_node()),
        None => Node::All,
    })
}
