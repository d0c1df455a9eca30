//! Rollups over children as plain data: counts, sums, averages, minimums, maximums and latest-N lists.

use std::cmp::Ordering;

use bson::{Bson, RawBson, doc};

use super::Model;
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Direction,
    error,
    language::{
        field::{
            AlwaysStored, ArrayPlace, ElementSortKey, Field, FullyResident, OptionalPlace, Ordered,
            Path, Place, Single, role, shape,
        },
        query::IntoValue,
    },
    metadata::rollup::{STATE_COUNT, STATE_SUM, rollup_state_path},
    model::{
        document::{Document, Ref},
        ids::OrderedId,
        projection::Projected,
        stored::value_at,
        value_order::{are_comparable, compare_values},
    },
    session::scope::{InScope, WrittenIn},
};

/// A rollup: a field of a parent that is derived from the parent's children.
#[derive(Debug, Clone, Copy)]
pub struct Rollup {
    /// The Rust name of the field.
    pub field: &'static str,
    /// The stored name of the field.
    pub stored: &'static str,
    /// The collection of the children.
    pub collection: &'static str,
    /// The model of the children.
    pub model: fn() -> &'static Model,
    /// Returns the path of the children's reference to the parent.
    pub reference: fn() -> Path,
    /// Returns the conditions on children. A child that meets all conditions counts.
    pub when: fn() -> Vec<RollupCondition>,
    /// The kind of the rollup.
    pub kind: RollupKind,
}

/// A condition on the children of a [`Rollup`].
#[derive(Debug, Clone)]
pub struct RollupCondition {
    /// The field of the child.
    pub path: Path,
    /// How the field compares to the value.
    pub comparison: RollupComparison,
    /// The stored form of the value, or the error of its conversion.
    pub value: Result<RawBson>,
}

/// A comparison of a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupComparison {
    /// The field has the value. A missing field has the value null.
    Eq,
    /// The field does not have the value.
    Ne,
    /// The field is less than the value.
    Lt,
    /// The field is less than or equal to the value.
    Lte,
    /// The field is greater than the value.
    Gt,
    /// The field is greater than or equal to the value.
    Gte,
}

impl RollupComparison {
    /// Returns the operator of a filter.
    pub(crate) fn operator(self) -> &'static str {
        match self {
            Self::Eq => "$eq",
            Self::Ne => "$ne",
            Self::Lt => "$lt",
            Self::Lte => "$lte",
            Self::Gt => "$gt",
            Self::Gte => "$gte",
        }
    }
}

impl RollupCondition {
    /// Returns the filter of the children that meet the condition.
    ///
    /// # Errors
    /// The value cannot be stored.
    pub(crate) fn to_filter(&self) -> Result<bson::Document> {
        let value = Bson::try_from(self.value.clone()?).map_err(error::from_bson)?;
        Ok(doc! { self.path.to_string(): { self.comparison.operator(): value } })
    }

    /// Returns whether a child meets the condition, as the filter decides.
    ///
    /// # Errors
    /// The value cannot be stored.
    pub(crate) fn matches(&self, child: &bson::Document) -> Result<bool> {
        let value = Bson::try_from(self.value.clone()?).map_err(error::from_bson)?;
        let actual = value_at(child, &self.path.to_string()).unwrap_or(&Bson::Null);
        let is_equal = || -> Result<bool> {
            // Integers of different widths are equal, and so are all NaN.
            let is_nan = |value: &Bson| value.as_f64().is_some_and(f64::is_nan);
            let is_same = OrderedId::from_bson(actual)? == OrderedId::from_bson(&value)?;
            Ok(is_same || is_nan(actual) && is_nan(&value))
        };
        let order = || are_comparable(actual, &value).then(|| compare_values(actual, &value));
        Ok(match self.comparison {
            RollupComparison::Eq => is_equal()?,
            RollupComparison::Ne => !is_equal()?,
            RollupComparison::Lt => order().is_some_and(Ordering::is_lt),
            RollupComparison::Lte => order().is_some_and(Ordering::is_le),
            RollupComparison::Gt => order().is_some_and(Ordering::is_gt),
            RollupComparison::Gte => order().is_some_and(Ordering::is_ge),
        })
    }
}

/// The kind of a [`Rollup`].
#[derive(Debug, Clone, Copy)]
pub enum RollupKind {
    /// The number of children.
    Count,
    /// The sum of a field over the children.
    Sum(fn() -> Path),
    /// The average of a field over the children with a value.
    Average(fn() -> Path),
    /// The smallest value of a field over the children.
    Min(fn() -> Path),
    /// The greatest value of a field over the children.
    Max(fn() -> Path),
    /// Excerpts of the children with the greatest values of a field, the greatest first.
    Latest {
        /// The maximum number of excerpts.
        max: usize,
        /// Returns the path of the field by which children are ordered.
        by: fn() -> Path,
        /// The fields of an excerpt, as pairs of Rust name and stored name.
        fields: &'static [(&'static str, &'static str)],
    },
}

/// The children that a parent lists, in the order of a field: the entries of a latest-N list, or the child with the smallest or
/// the greatest value.
#[derive(Debug)]
pub(crate) struct ChildList {
    /// The maximum number of entries.
    pub(crate) max: usize,
    /// The stored path of the field by which the children are ordered. Children with equal values are ordered by `_id`.
    pub(crate) by: String,
    /// The order of both fields.
    pub(crate) direction: Direction,
    /// The fields of an entry, as pairs of Rust name and stored name.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    /// Whether the list leaves out children without a value: null, a missing value, and NaN.
    pub(crate) needs_value: bool,
}

impl Rollup {
    /// Returns the path of the stored state, which writes of children change: the field itself or, for a field that is computed
    /// from the state, a path in the metadata.
    pub(crate) fn state_path(&self) -> String {
        match self.kind {
            RollupKind::Count | RollupKind::Sum(_) | RollupKind::Latest { .. } => {
                self.stored.to_owned()
            }
            RollupKind::Average(_) | RollupKind::Min(_) | RollupKind::Max(_) => {
                rollup_state_path(self.stored)
            }
        }
    }

    /// Returns the state of a parent without children.
    pub(crate) fn empty_state(&self) -> Bson {
        match self.kind {
            RollupKind::Count | RollupKind::Sum(_) => Bson::Int64(0),
            RollupKind::Average(_) => doc! { STATE_COUNT: 0_i64, STATE_SUM: 0_i64 }.into(),
            RollupKind::Min(_) | RollupKind::Max(_) | RollupKind::Latest { .. } => {
                Bson::Array(Vec::new())
            }
        }
    }

    /// Returns the value of the field in a parent without children.
    pub(crate) fn empty_value(&self) -> Bson {
        match self.kind {
            RollupKind::Count | RollupKind::Sum(_) | RollupKind::Latest { .. } => {
                self.empty_state()
            }
            RollupKind::Average(_) | RollupKind::Min(_) | RollupKind::Max(_) => Bson::Null,
        }
    }

    /// Returns the stored paths of the children's fields that determine a contribution, except the reference.
    pub(crate) fn input_paths(&self) -> Vec<String> {
        let when = (self.when)().into_iter();
        let mut paths: Vec<_> = when.map(|condition| condition.path.to_string()).collect();
        match self.kind {
            RollupKind::Count => {}
            RollupKind::Sum(value)
            | RollupKind::Average(value)
            | RollupKind::Min(value)
            | RollupKind::Max(value) => paths.push(value().to_string()),
            RollupKind::Latest { by, fields, .. } => {
                paths.push(by().to_string());
                paths.extend(fields.iter().map(|(_, stored)| (*stored).to_owned()));
            }
        }
        paths
    }

    /// Returns the list of children in the state. `None` if the state is a count or a sum.
    pub(crate) fn child_list(&self) -> Option<ChildList> {
        let extreme = |by: fn() -> Path, direction| ChildList {
            max: 1,
            by: by().to_string(),
            direction,
            fields: &[],
            needs_value: true,
        };
        match self.kind {
            RollupKind::Count | RollupKind::Sum(_) | RollupKind::Average(_) => None,
            RollupKind::Min(by) => Some(extreme(by, Direction::Ascending)),
            RollupKind::Max(by) => Some(extreme(by, Direction::Descending)),
            RollupKind::Latest { max, by, fields } => Some(ChildList {
                max,
                by: by().to_string(),
                direction: Direction::Descending,
                fields,
                needs_value: false,
            }),
        }
    }
}

/// Returns the condition that a child has a value, or does not have the value. Derived code calls this function.
#[doc(hidden)]
pub fn rollup_condition<P, V>(place: P, comparison: RollupComparison, value: V) -> RollupCondition
where
    P: Place<Shape: Single, Role: StableRole, Value: FullyResident>,
    V: IntoValue<P::Value>,
{
    RollupCondition {
        path: place.path(),
        comparison,
        value: value.into_value(),
    }
}

/// Returns the condition that a child has a value on one side of another value. Derived code calls this function.
#[doc(hidden)]
pub fn rollup_comparison<P, V>(place: P, comparison: RollupComparison, value: V) -> RollupCondition
where
    P: Place<Shape: Single, Role: StableRole, Value: FullyResident + Comparable>,
    V: IntoValue<P::Value>,
{
    let mut condition = rollup_condition(place, comparison, value);
    let has_order = match &condition.value {
        Ok(RawBson::Null) => false,
        Ok(RawBson::Double(number)) => !number.is_nan(),
        _ => true,
    };
    if !has_order {
        let message = "`when` compares a field with `None` or NaN, which has no order: compare with a value, or write `=`";
        let error = Error::new(ErrorKind::Invalid, message);
        condition.value = Err(error.with_path(condition.path.to_string()));
    }
    condition
}

/// Types with an order in the conditions of rollups.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`when` cannot compare a `{Self}` by order",
    label = "`<`, `<=`, `>` and `>=` compare numbers, `String`, dates, `ObjectId` and `Uuid`",
    note = "`=` and `!=` compare every type; a decimal number can be stored as an integer of its smallest unit"
)]
pub trait Comparable {}
#[diagnostic::do_not_recommend]
impl<T: ElementSortKey> Comparable for T {}

/// Checks that every session that writes a `C` also sees its parent. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_sees_parent<C: SeesParent<M>, M>() {}

/// A child with writers that see the parent `M`, so that no rollup crosses a scope boundary.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not have the scope of its parent `{M}`",
    label = "is written by sessions that do not see a `{M}`",
    note = "a rollup changes the parent with each child: give `{Self}` a `scope = …` of the same type, or leave the scope out of `{M}`"
)]
pub trait SeesParent<M> {}
#[diagnostic::do_not_recommend]
impl<C: WrittenIn, M: InScope<C::Session>> SeesParent<M> for C {}

/// Checks that a `C` refers to an `M` by this field. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_counted_by<M, C: Document, P: CountedBy<M>>(_: impl FnOnce(C::Fields) -> P) {}

/// Checks that a field of type `T` can hold a count or a sum. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_counter<T: CounterValue>() {}

/// Checks that a field of type `T` can hold an average. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_average<T: AverageValue>() {}

/// Checks that a field of type `T` can hold the smallest or greatest value of a field of a `C`. Derived code calls this function
/// at compile time.
#[doc(hidden)]
pub fn ensure_extreme<T, C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: StableRole, Value: RankedValue>,
    T: ExtremeOf<P::Value>,
{
}

/// Checks that a field of a `C` can be summed. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_summable<C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: StableRole, Value: SummableValue>,
{
}

/// Checks that a field of a `C` has an order. Derived code calls this function at compile time.
#[doc(hidden)]
pub fn ensure_ranked<C, P>(_: impl FnOnce(C::Fields) -> P)
where
    C: Document,
    P: Place<Shape: Single, Role: StableRole, Value: RankedValue>,
{
}

/// A type of value by which a latest-N list can be ordered.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "documents cannot be ordered by a `{Self}`",
    label = "has no order",
    note = "order documents by a number, a text, a date, an `ObjectId`, a `Uuid`, or an `Option` of these"
)]
pub trait RankedValue {}
#[diagnostic::do_not_recommend]
impl<T: Ordered> RankedValue for T {}

/// Returns the source of a field in an excerpt. Derived code calls this function.
#[doc(hidden)]
pub fn excerpt_source<P: Place<Role: StableRole, Shape: AlwaysStored>>(
    _: P,
) -> ExcerptSource<P::Value> {
    ExcerptSource(std::marker::PhantomData)
}

/// The source of a field in an excerpt, with the type `V`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ExcerptSource<V>(std::marker::PhantomData<fn() -> V>);

impl<V> ExcerptSource<V> {
    /// Checks that a field of type `T` can hold the value.
    pub fn ensure_fits<T: SameType<V>>(&self) {}
}

/// The type of a field in an excerpt.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the field is a `{V}` in the model, and a `{Self}` here",
    label = "wrong type",
    note = "a field of an excerpt has the type of the model's field"
)]
pub trait SameType<V> {}
#[diagnostic::do_not_recommend]
impl<V> SameType<V> for V {}

/// The roles of fields that a rollup can use: only a typed write to the document changes these fields.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a rollup cannot use a field with the role `{Self}`",
    label = "changes without a typed write to the field",
    note = "copies, rollups, versions, timestamps and inverses change without a typed write to the field: use the field from which \
            they are derived"
)]
pub trait StableRole {}
#[diagnostic::do_not_recommend]
impl StableRole for role::Own {}
#[diagnostic::do_not_recommend]
impl StableRole for role::Id {}
#[diagnostic::do_not_recommend]
impl StableRole for role::IdPartField {}
#[diagnostic::do_not_recommend]
impl StableRole for role::ShardKeyField {}
#[diagnostic::do_not_recommend]
impl StableRole for role::SequenceKey {}
#[diagnostic::do_not_recommend]
impl StableRole for role::SequenceNumber {}
#[diagnostic::do_not_recommend]
impl StableRole for role::Snapshot {}

/// A field by which children refer to their parent `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this field is not a reference to `{M}`",
    label = "does not refer to a `{M}`",
    note = "a rollup needs a reference to the parent that the application writes: a `Ref<{M}>`, an `Option<Ref<{M}>>` or a `Vec<Ref<{M}>>`"
)]
pub trait CountedBy<M> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: StableRole> CountedBy<M> for Field<T, Ref<M>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: StableRole> CountedBy<M> for ArrayPlace<T, Ref<M>, R, shape::One> {}
#[diagnostic::do_not_recommend]
impl<T, M: Document, R: StableRole> CountedBy<M> for OptionalPlace<T, Ref<M>, R, shape::One> {}

/// The type of a count or a sum.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a count or a sum is an `i64`, not a `{Self}`",
    label = "not an `i64`"
)]
pub trait CounterValue {}
#[diagnostic::do_not_recommend]
impl CounterValue for i64 {}

/// The type of an average.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an average is an `Option<f64>`, not a `{Self}`",
    label = "not an `Option<f64>`",
    note = "the average of no children is `None`"
)]
pub trait AverageValue {}
#[diagnostic::do_not_recommend]
impl AverageValue for Option<f64> {}

/// The type of a minimum or maximum of values of type `V`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a minimum or maximum of `{V}` cannot be a `{Self}`",
    label = "not an `Option` of the type of the children's field",
    note = "write `Option<T>` for a field of type `T` or `Option<T>`; the value is `None` without children"
)]
pub trait ExtremeOf<V> {}
#[diagnostic::do_not_recommend]
impl<V> ExtremeOf<V> for Option<V> {}
#[diagnostic::do_not_recommend]
impl<V> ExtremeOf<Option<V>> for Option<V> {}

/// A type of value that can be summed.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be summed",
    label = "not an integer",
    note = "a sum must be exact for every order of the writes: store integers, such as cents"
)]
pub trait SummableValue {}
#[diagnostic::do_not_recommend]
impl SummableValue for i32 {}
#[diagnostic::do_not_recommend]
impl SummableValue for i64 {}
#[diagnostic::do_not_recommend]
impl SummableValue for u32 {}
#[diagnostic::do_not_recommend]
impl<T: SummableValue> SummableValue for Option<T> {}

/// An embedded struct with fields of the model `C`: `#[embedded(of = …)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an excerpt of `{C}`",
    label = "not derived with `#[embedded(of = {C})]`",
    note = "an excerpt is a struct with some of the fields: `#[derive(Serialize, Deserialize, Embedded)]` with `#[embedded(of = {C})]`"
)]
pub trait ExcerptOf<C>: Projected {}

/// An array of excerpts of the model `C`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot hold a latest-N list of `{C}`",
    label = "not a `Vec` of excerpts of `{C}`",
    note = "a latest-N list is a `Vec` of a struct with some of the fields: `#[derive(Serialize, Deserialize, Embedded)]` with `#[embedded(of = {C})]`"
)]
pub trait ExcerptArray<C> {
    /// The fields of an excerpt, as pairs of Rust name and stored name.
    const FIELDS: &'static [(&'static str, &'static str)];
}
#[diagnostic::do_not_recommend]
impl<T: ExcerptOf<C>, C> ExcerptArray<C> for Vec<T> {
    const FIELDS: &'static [(&'static str, &'static str)] = T::NAMES;
}
