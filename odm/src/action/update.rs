//! `update`, `update_first` and `update_many`: changes by MongoDB's update operators.

mod elements;
mod move_to;
mod operand_types;
mod operators;
mod patch;
mod perform;
mod push;
mod rename;
mod requirement;

use std::pin::Pin;

use bson::RawBson;

pub use operand_types::{
    Appendable, Arithmetic, ArrayValue, Increment, OptionalValue, OutOfRange, ResidentArray,
};
use operators::OperatorPlace;
pub(crate) use operators::UpdateOperators;
pub use patch::Patch;
#[doc(hidden)]
pub use patch::PatchChanges;
pub(super) use perform::{
    PreparedUpdate, UpdateForm, UpdateOutput, document_exists, find_unchanged,
};
pub use push::Push;

use super::{
    outcome::{Outcome, not_applied_error},
    returning::ReturningUpdate,
    target::{
        ById, CountingTarget, FirstMatching, IdTarget, SingleTarget, SortableTarget, TargetKind,
        WriteTarget, decode_id,
    },
    upsert::Upsert,
};
use crate::{
    Result,
    backend::BoxFuture,
    error,
    language::{
        field::{
            Assignable, Bits, Date, Elem, FromPath, IntoMapKey, Keyed, Ordered, Path, Place,
            SameScope, Settable, Writable, shape,
        },
        query::{
            Filter, FilterNode, IntoFilter, IntoSort, IntoValue, Key, encode_values, pull_to_raw,
            single_field_document,
        },
    },
    model::document::{Document, Insertable, Ref, Stored},
    session::access::Access,
    write::footprint::Operator,
};

/// Changes documents; made by [`Session::update`](crate::Session::update),
/// [`Session::update_first`](crate::Session::update_first) and [`Session::update_many`](crate::Session::update_many).
///
/// All changes of an update to a document happen in one atomic step. Other fields stay unchanged.
///
/// For a conditional update, [`Updated::is_applied`] returns whether a document met the condition. Conditions are
/// [`when`](Self::when), [`first_matching`](crate::field::ArrayPlace::first_matching), and a field inside an enum variant.
///
/// An array never grows beyond its `max`. Appending several values to a set needs room for all values, unless the set already
/// contains all values.
///
/// # Errors
///
/// The awaited update fails with
///
/// - [`NotFound`](crate::ErrorKind::NotFound) if an unconditional update by id finds no document,
/// - [`TooManyElements`](crate::ErrorKind::TooManyElements) if an array would exceed its `max`,
/// - [`Dangling`](crate::ErrorKind::Dangling) if a new reference with a delete rule, or a new source of a copy, does not exist,
/// - [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if a unique index has a new value already,
/// - [`Validation`](crate::ErrorKind::Validation) if a value breaks a rule of the model,
/// - [`Invalid`](crate::ErrorKind::Invalid) for an update without changes, or with a number outside the range of its type,
/// - errors of the backend.
///
/// # Examples
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post {
/// #     #[serde(rename = "_id")] id: i64,
/// #     votes: i64,
/// #     #[embed(max = 1_000)] voters: Vec<String>,
/// # }
/// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
/// # async fn example(db: odm::Database<Blog>) -> odm::Result<()> {
/// let voted = db
///     .update::<Post>(7)
///     .when(|p| p.voters().excludes("calvin"))
///     .push(|p| p.voters(), "calvin")
///     .inc(|p| p.votes(), 1)
///     .await?
///     .is_applied();
/// # let _ = voted;
/// # Ok(())
/// # }
/// ```
#[must_use = "an update runs when awaited"]
pub struct Update<T: Document, K = ById> {
    pub(super) access: Access,
    pub(super) target: WriteTarget<T, K>,
    changes: UpdateOperators,
}

/// The result of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Updated {
    /// The number of documents that met the condition.
    pub matched: u64,
    /// The number of documents that the update changed.
    pub modified: u64,
}

impl Updated {
    /// Returns whether a document met the condition.
    #[must_use]
    pub fn is_applied(self) -> bool {
        self.matched > 0
    }

    /// Returns an error if no document met the condition.
    ///
    /// # Errors
    ///
    /// [`NotApplied`](crate::ErrorKind::NotApplied) if no document met the condition.
    pub fn expect_applied(self) -> Result<Self> {
        if self.is_applied() {
            Ok(self)
        } else {
            Err(not_applied_error())
        }
    }
}

impl<T: Document> Update<T> {
    pub(crate) fn by_key(access: Access, key: Key<T>) -> Self {
        Self {
            access,
            target: WriteTarget::by_key(key),
            changes: UpdateOperators::default(),
        }
    }
}

impl<T: Document, K: TargetKind> Update<T, K> {
    /// Makes an update of a kind without an id.
    pub(crate) fn by_condition(access: Access, condition: Filter<T>) -> Self {
        Self {
            access,
            target: WriteTarget::by_condition(condition),
            changes: UpdateOperators::default(),
        }
    }

    /// Returns whether no change was added. The update of a request without any field is empty, and an error when it runs.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, name: String, price: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// struct PartPatch { name: Option<String>, price: Option<i64> }
    ///
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// # db.insert(Part { id: 7, name: "wheel".into(), price: 5 }).await?;
    /// let patch = PartPatch { name: None, price: None };
    /// let mut update = db.update::<Part>(7);
    /// if let Some(name) = patch.name {
    ///     update = update.set(|p| p.name(), name);
    /// }
    /// if let Some(price) = patch.price {
    ///     update = update.set(|p| p.price(), price);
    /// }
    /// let part = match update.is_empty() {
    ///     true => db.get::<Part>(7).await?,
    ///     false => update.returning_after().await?,
    /// };
    /// assert_eq!(part.name, "wheel");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Updates only documents that meet the condition. The check is part of the same atomic step.
    pub fn when<F: IntoFilter<T>>(
        self,
        condition: impl FnOnce(T::Fields) -> F,
    ) -> Update<T, K::When> {
        Update {
            access: self.access,
            target: self.target.with_condition(condition),
            changes: self.changes,
        }
    }

    /// Adds sort keys that decide which matching document is the first. The keys of a later call order documents that the earlier
    /// keys leave equal.
    pub fn sort<O: IntoSort<T>>(mut self, order: impl FnOnce(T::Fields) -> O) -> Self
    where
        K: SortableTarget,
    {
        self.target.sort(order);
        self
    }

    /// Returns the document after the update, read in the same atomic step.
    ///
    /// An update by id alone returns the document, a conditional update an [`Outcome`].
    pub fn returning_after(self) -> ReturningUpdate<T, K>
    where
        K: SingleTarget,
    {
        ReturningUpdate::new(self, true)
    }

    /// Returns the document before the update, read in the same atomic step.
    ///
    /// An update by id alone returns the document, a conditional update an [`Outcome`].
    pub fn returning_before(self) -> ReturningUpdate<T, K>
    where
        K: SingleTarget,
    {
        ReturningUpdate::new(self, false)
    }

    /// Inserts the given document, unchanged, if no document with the id exists. The id must be the id of the update. See
    /// [`Upsert`].
    ///
    /// A document that cannot be inserted is an error even if the update would apply: for example a document with an overflow
    /// array that was not read completely.
    pub fn or_insert<I: Insertable<Document = T>>(self, document: I) -> Upsert<T, K>
    where
        K: IdTarget,
    {
        let document = document.into_draft(self.access.scope());
        Upsert::new(self, document)
    }

    /// Removes the deletion date of soft-deleted documents.
    pub(crate) fn clear_deletion_date(mut self) -> Self {
        if let Some(field) = T::MODEL.soft_delete {
            let path = Path::ROOT.subfield(field);
            self.changes
                .add_operator(Operator::Unset, &path, Ok(true.into()));
        }
        self
    }

    /// Sets the field to the value: `$set`. A value that serde's `skip_serializing_if` leaves out becomes `$unset`.
    pub fn set<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Assignable>,
        V: IntoValue<P::Value>,
    {
        self.changes
            .add_set(&field(T::fields()).path(), value.into_value());
        self
    }

    /// Sets the field if there is a value, and otherwise keeps the stored value.
    ///
    /// For an optional field, `Some(None)` clears the field: `set_some(|p| p.subtitle(), Some(None::<String>))`. An update without
    /// any value changes nothing: see [`apply`](Self::apply).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, name: String, price: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # async fn example(db: odm::Database<Shop>, name: Option<String>, price: Option<i64>) -> odm::Result<()> {
    /// db.update::<Part>(7).set_some(|p| p.name(), name).set_some(|p| p.price(), price).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_some<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: Option<V>) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Assignable>,
        V: IntoValue<P::Value>,
    {
        self.changes.allow_no_changes();
        match value {
            Some(value) => self.set(field, value),
            None => self,
        }
    }

    /// Sets the fields of a [`Patch`] that have a value.
    ///
    /// An update whose patches and options have no value reads instead of writing. `matched` counts the documents, `modified` is 0,
    /// and hooks, versions and modification times stay. A missing document is an error as in any update by id, and
    /// [`returning_after`](Self::returning_after) returns the unchanged document.
    pub fn apply<P: Patch<Of = T>>(mut self, patch: P) -> Self {
        patch.apply_to(&T::fields(), &mut PatchChanges(&mut self.changes));
        self.changes.allow_no_changes();
        self
    }

    /// Returns whether the update changes nothing, and may change nothing.
    pub(super) fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && self.changes.allows_no_changes()
    }

    /// Removes the field, which then reads as `None`: `$unset`.
    pub fn unset<P>(mut self, field: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: OptionalValue>,
    {
        self.changes
            .add_operator(Operator::Unset, &field(T::fields()).path(), Ok(true.into()));
        self
    }

    /// Removes a key of a map: `$unset`.
    pub fn remove_key<P, N>(mut self, map: impl FnOnce(T::Fields) -> P, key: N) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Keyed>,
        N: IntoMapKey<<P::Value as Keyed>::Key>,
    {
        self.changes.add_operator(
            Operator::Unset,
            &map(T::fields()).path().at_map_key(key),
            Ok(true.into()),
        );
        self
    }

    /// Adds the amount to the number: `$inc`. A negative amount subtracts.
    pub fn inc<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, amount: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Increment<V>>,
    {
        let path = field(T::fields()).path();
        let number = OperatorPlace::for_value_type::<P::Value>(&path);
        let out_of_range = P::Value::out_of_range(Arithmetic::Add, &amount);
        let amount = P::Value::encode_amount(amount);
        self.changes
            .add_to_number(Operator::Inc, number, amount, out_of_range);
        self
    }

    /// Multiplies the number: `$mul`.
    pub fn mul<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, factor: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Increment<V>>,
    {
        let path = field(T::fields()).path();
        let number = OperatorPlace::for_value_type::<P::Value>(&path);
        let out_of_range = P::Value::out_of_range(Arithmetic::Multiply, &factor);
        let factor = P::Value::encode_amount(factor);
        self.changes
            .add_to_number(Operator::Mul, number, factor, out_of_range);
        self
    }

    /// Sets the field to the value if the value is less: `$min`.
    pub fn min<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Ordered>,
        V: IntoValue<P::Value>,
    {
        let path = field(T::fields()).path();
        let operand = OperatorPlace::for_value_type::<P::Value>(&path);
        self.changes
            .add_null_safe(Operator::Min, operand, value.into_value());
        self
    }

    /// Sets the field to the value if the value is greater: `$max`.
    pub fn max<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Ordered>,
        V: IntoValue<P::Value>,
    {
        self.changes.add_operator(
            Operator::Max,
            &field(T::fields()).path(),
            value.into_value(),
        );
        self
    }

    /// Clears the bits that the mask does not have: `$bit` with `and`.
    pub fn bit_and<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.add_bit_operator("and", &field(T::fields()).path(), mask.into_value())
    }

    /// Sets the bits of the mask: `$bit` with `or`.
    pub fn bit_or<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.add_bit_operator("or", &field(T::fields()).path(), mask.into_value())
    }

    /// Flips the bits of the mask: `$bit` with `xor`.
    pub fn bit_xor<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.add_bit_operator("xor", &field(T::fields()).path(), mask.into_value())
    }

    fn add_bit_operator(mut self, operation: &str, path: &Path, mask: Result<RawBson>) -> Self {
        let mask = mask.and_then(|mask| single_field_document(operation, mask));
        self.changes
            .add_operator(Operator::Bit, path, mask.map(Into::into));
        self
    }

    /// Sets the field to the time of the backend: `$currentDate`.
    pub fn current_date<P>(mut self, field: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Date>,
    {
        self.changes.add_operator(
            Operator::CurrentDate,
            &field(T::fields()).path(),
            Ok(true.into()),
        );
        self
    }

    /// Appends a value to the array: `$push`.
    pub fn push<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Appendable>,
        V: IntoValue<<P::Value as ArrayValue>::Item>,
    {
        self.push_each(array, [value])
    }

    /// Appends values to the array, in order: `$push` with `$each`.
    pub fn push_each<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, items: I) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: Appendable>,
        I: IntoIterator<Item: IntoValue<<P::Value as ArrayValue>::Item>>,
    {
        let path = array(T::fields()).path();
        self.changes.add_each(
            Operator::Push,
            OperatorPlace::for_value_type::<P::Value>(&path),
            encode_values(items),
        );
        self
    }

    /// Appends a value to the array unless the array contains the value: `$addToSet`.
    pub fn add_to_set<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: ArrayValue>,
        V: IntoValue<<P::Value as ArrayValue>::Item>,
    {
        self.add_each_to_set(array, [value])
    }

    /// Appends the values that the array does not contain: `$addToSet` with `$each`.
    pub fn add_each_to_set<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, items: I) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: ArrayValue>,
        I: IntoIterator<Item: IntoValue<<P::Value as ArrayValue>::Item>>,
    {
        let path = array(T::fields()).path();
        self.changes.add_each(
            Operator::AddToSet,
            OperatorPlace::for_value_type::<P::Value>(&path),
            encode_values(items),
        );
        self
    }

    /// Removes every element equal to the value: `$pullAll`.
    pub fn pull<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: ArrayValue>,
        V: IntoValue<<P::Value as ArrayValue>::Item>,
    {
        self.pull_all(array, [value])
    }

    /// Removes every element equal to a value of the list: `$pullAll`.
    pub fn pull_all<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, items: I) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: ArrayValue>,
        I: IntoIterator<Item: IntoValue<<P::Value as ArrayValue>::Item>>,
    {
        let path = array(T::fields()).path();
        self.changes.add_each(
            Operator::PullAll,
            OperatorPlace::for_value_type::<P::Value>(&path),
            encode_values(items),
        );
        self
    }

    /// Removes every element that meets the condition: `$pull`.
    ///
    /// # Errors
    ///
    /// The awaited update fails with [`Invalid`](crate::ErrorKind::Invalid) for a condition on plain values that `$pull` cannot
    /// express: several alternative conditions.
    pub fn pull_where<P, F>(
        mut self,
        array: impl FnOnce(T::Fields) -> P,
        condition: impl FnOnce(ArrayElementFields<P>) -> F,
    ) -> Self
    where
        P: Place<Scope = T, Role: Settable + 'static, Shape: Writable, Value: ArrayValue>,
        F: IntoFilter<Elem<T>>,
    {
        let condition = condition(FromPath::from_path(Path::ROOT))
            .into_filter()
            .unwrap_or_else(Filter::all);
        let path = array(T::fields()).path();
        let condition = pull_to_raw(&condition.into_node()).map(Into::into);
        self.changes.add_null_safe(
            Operator::Pull,
            OperatorPlace::for_value_type::<P::Value>(&path),
            condition,
        );
        self
    }

    /// Removes the first element: `$pop` with -1.
    pub fn pop_first<P>(self, array: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: ResidentArray>,
    {
        let path = array(T::fields()).path();
        self.pop_end(OperatorPlace::for_value_type::<P::Value>(&path), -1)
    }

    /// Removes the last element: `$pop` with 1.
    pub fn pop_last<P>(self, array: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: SameScope<T>, Role: Settable, Shape: Writable, Value: ResidentArray>,
    {
        let path = array(T::fields()).path();
        self.pop_end(OperatorPlace::for_value_type::<P::Value>(&path), 1)
    }

    fn pop_end(mut self, array: OperatorPlace<'_>, end: i32) -> Self {
        self.changes
            .add_null_safe(Operator::Pop, array, Ok(end.into()));
        self
    }

    /// Whether a changed place is inside an enum variant.
    pub(super) fn changes_inside_variant(&self) -> bool {
        self.changes.changes_inside_variant()
    }

    /// Returns the condition that the document with the id must meet for the update to apply.
    pub(super) fn required_condition(&self) -> Result<FilterNode> {
        let places = self.changes.clone().into_finished();
        let places = places.map_err(error::of_model::<T>)?.place_condition;
        Ok(self.target.extra_condition().clone().and(places))
    }
}

impl<T: Document, K: TargetKind> Clone for Update<T, K> {
    fn clone(&self) -> Self {
        Self {
            access: self.access.clone(),
            target: self.target.clone(),
            changes: self.changes.clone(),
        }
    }
}

/// The fields of an element of the array at a place.
type ArrayElementFields<P> = <<<P as Place>::Value as ArrayValue>::Item as Stored>::Fields<
    Elem<<P as Place>::Scope>,
    <P as Place>::Role,
    shape::One,
>;

impl<T: Document, K: CountingTarget> IntoFuture for Update<T, K> {
    type Output = Result<Updated>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        await_count(self.run_update(UpdateForm::Count))
    }
}

fn await_count(
    update: BoxFuture<'static, Result<UpdateOutput>>,
) -> BoxFuture<'static, Result<Updated>> {
    Box::pin(async move { Ok(update.await?.into_counts()) })
}

/// `update_first` returns a reference to the updated document.
impl<T: Document> IntoFuture for Update<T, FirstMatching> {
    type Output = Result<Outcome<Ref<T>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let form = UpdateForm::FindAndModify {
                projection: Some(single_field_document("_id", 1)?),
                return_new: true,
            };
            let document = self.run_update(form).await?.into_document();
            let id = document.as_deref().map(decode_id::<T>).transpose();
            let id = id.map_err(crate::Error::after_committed_write)?;
            Ok(id.map(Ref::of_id).into())
        })
    }
}
