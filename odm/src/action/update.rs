//! Changing documents where they are, by MongoDB's update operators.

mod changes;
mod elements;
mod perform;
mod place;
mod push;
mod rename;
mod requirement;

use std::pin::Pin;

use bson::RawBson;
pub(crate) use changes::Changes as Operators;
use changes::{Changes, Operand};
pub(super) use perform::{Done, How, Prepared, is_there};
pub use place::{Arithmetic, OutOfRange};
pub use place::{Increment, List, Optional, Sequence};
pub use push::Push;

use super::{
    outcome::{Outcome, not_applied},
    returning::ReturningUpdate,
    target::{ById, Counted, FirstMatching, InOrder, Target, ToOne, Which, WithId, id_of},
    upsert::Upsert,
};
use crate::{
    Result,
    access::Access,
    backend::BoxFuture,
    document::{Document, Insertable, Ref, Stored},
    error,
    field::{
        Bits, Date, Elem, FromPath, In, Keyed, Ordered, Path, Place, Settable, Writable, shape,
    },
    query::{Filter, IntoFilter, IntoSort, IntoValue, Key, Node, document, pull_to_raw, values},
};

/// Changes documents; made by [`Session::update`](crate::Session::update),
/// [`Session::update_first`](crate::Session::update_first) and [`Session::update_many`](crate::Session::update_many).
///
/// The changes of one update happen to a document together, atomically, and touch nothing else of it.
///
/// An update by id fails with [`NotFound`](crate::ErrorKind::NotFound) if there is no such document; one with a condition
/// ([`when`](Self::when), [`first_matching`](crate::field::Array::first_matching), a field inside of an enum's variant) tells by
/// [`Updated::applied`] whether it did anything. An array never grows beyond its `max`: the update fails with
/// [`TooManyElements`](crate::ErrorKind::TooManyElements) and changes nothing. To append several values to a
/// set, there must be room for all of them, unless the set has them all.
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
///     .applied();
/// # let _ = voted;
/// # Ok(())
/// # }
/// ```
#[must_use = "an update happens when it is awaited"]
pub struct Update<T: Document, K = ById> {
    pub(super) access: Access,
    pub(super) target: Target<T, K>,
    changes: Changes,
}

/// What an update did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Updated {
    /// How many documents met the condition.
    pub matched: u64,
    /// How many of them are different now.
    pub modified: u64,
}

impl Updated {
    /// Whether a document met the condition.
    #[must_use]
    pub fn applied(self) -> bool {
        self.matched > 0
    }

    /// An error unless a document met the condition.
    ///
    /// # Errors
    ///
    /// [`NotApplied`](crate::ErrorKind::NotApplied).
    pub fn expect_applied(self) -> Result<Self> {
        if self.applied() {
            Ok(self)
        } else {
            Err(not_applied())
        }
    }
}

impl<T: Document> Update<T> {
    pub(crate) fn by_key(access: Access, key: Key<T>) -> Self {
        Self {
            access,
            target: Target::by_key(key),
            changes: Changes::default(),
        }
    }
}

impl<T: Document, K: Which> Update<T, K> {
    /// For a kind without an id.
    pub(crate) fn by_condition(access: Access, condition: Filter<T>) -> Self {
        Self {
            access,
            target: Target::by_condition(condition),
            changes: Changes::default(),
        }
    }

    /// Only what meets the condition, looked at in the same atomic step.
    pub fn when<F: IntoFilter<T>>(
        self,
        condition: impl FnOnce(T::Fields) -> F,
    ) -> Update<T, K::When> {
        Update {
            access: self.access,
            target: self.target.when(condition),
            changes: self.changes,
        }
    }

    /// Which of the documents that meet the condition is the first; a further call orders what this one leaves equal.
    pub fn sort<O: IntoSort<T>>(mut self, order: impl FnOnce(T::Fields) -> O) -> Self
    where
        K: InOrder,
    {
        self.target.sort(order);
        self
    }

    /// Gives the document as it is after the update, read in the same atomic step.
    ///
    /// By an id alone that is the document, with a condition an [`Outcome`].
    pub fn returning_after(self) -> ReturningUpdate<T, K>
    where
        K: ToOne,
    {
        ReturningUpdate::new(self, true)
    }

    /// Gives the document as it was before the update, read in the same atomic step.
    ///
    /// By an id alone that is the document, with a condition an [`Outcome`].
    pub fn returning_before(self) -> ReturningUpdate<T, K>
    where
        K: ToOne,
    {
        ReturningUpdate::new(self, false)
    }

    /// Inserts this document, as it is, if there is none with the id; it has that id. See [`Upsert`].
    ///
    /// One that cannot be inserted is an error though there may be another: as one that was read with an array that has more elsewhere.
    pub fn or_insert<I: Insertable<Document = T>>(self, document: I) -> Upsert<T, K>
    where
        K: WithId,
    {
        let document = document.into_draft(self.access.scope());
        Upsert::new(self, document)
    }

    /// Takes the mark of what was deleted away.
    pub(crate) fn restoring(mut self) -> Self {
        if let Some(field) = T::MODEL.soft_delete {
            let path = Path::ROOT.then(field);
            self.changes.add("$unset", &path, Ok(true.into()));
        }
        self
    }

    /// Sets the field to the value: `$set`.
    pub fn set<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable>,
        V: IntoValue<P::Value>,
    {
        self.changes
            .set(&field(T::fields()).path(), value.into_value());
        self
    }

    /// Removes the field, which then reads as `None`: `$unset`.
    pub fn unset<P>(mut self, field: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Optional>,
    {
        self.changes
            .add("$unset", &field(T::fields()).path(), Ok(true.into()));
        self
    }

    /// Removes a key of a map: `$unset`.
    pub fn remove_key<P>(mut self, map: impl FnOnce(T::Fields) -> P, key: &str) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Keyed>,
    {
        self.changes
            .add("$unset", &map(T::fields()).path().key(key), Ok(true.into()));
        self
    }

    /// Adds the amount to the number: `$inc`. A negative amount subtracts.
    pub fn inc<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, amount: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Increment<V>>,
    {
        let path = field(T::fields()).path();
        let number = Operand::of::<P::Value>(&path);
        let out = P::Value::out_of_range(Arithmetic::Add, &amount);
        let amount = P::Value::amount(amount);
        self.changes.add_to_number("$inc", number, amount, out);
        self
    }

    /// Multiplies the number: `$mul`.
    pub fn mul<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, factor: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Increment<V>>,
    {
        let path = field(T::fields()).path();
        let number = Operand::of::<P::Value>(&path);
        let out = P::Value::out_of_range(Arithmetic::Multiply, &factor);
        let factor = P::Value::amount(factor);
        self.changes.add_to_number("$mul", number, factor, out);
        self
    }

    /// Sets the field to the value if that is less: `$min`.
    pub fn min<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Ordered>,
        V: IntoValue<P::Value>,
    {
        let path = field(T::fields()).path();
        let operand = Operand::of::<P::Value>(&path);
        self.changes.add_to("$min", operand, value.into_value());
        self
    }

    /// Sets the field to the value if that is greater: `$max`.
    pub fn max<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Ordered>,
        V: IntoValue<P::Value>,
    {
        self.changes
            .add("$max", &field(T::fields()).path(), value.into_value());
        self
    }

    /// Keeps the bits that the mask has: `$bit` with `and`.
    pub fn bit_and<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.bit("and", &field(T::fields()).path(), mask.into_value())
    }

    /// Sets the bits that the mask has: `$bit` with `or`.
    pub fn bit_or<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.bit("or", &field(T::fields()).path(), mask.into_value())
    }

    /// Turns the bits that the mask has: `$bit` with `xor`.
    pub fn bit_xor<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.bit("xor", &field(T::fields()).path(), mask.into_value())
    }

    fn bit(mut self, operation: &str, path: &Path, mask: Result<RawBson>) -> Self {
        let mask = mask.and_then(|mask| document(operation, mask));
        self.changes.add("$bit", path, mask.map(Into::into));
        self
    }

    /// Sets the field to the backend's time: `$currentDate`.
    pub fn current_date<P>(mut self, field: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Date>,
    {
        self.changes
            .add("$currentDate", &field(T::fields()).path(), Ok(true.into()));
        self
    }

    /// Appends a value to the array: `$push`.
    pub fn push<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: List>,
        V: IntoValue<<P::Value as List>::Item>,
    {
        self.push_each(array, [value])
    }

    /// Appends values to the array, in order: `$push` with `$each`.
    pub fn push_each<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, of: I) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: List>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        let path = array(T::fields()).path();
        self.changes
            .add_each("$push", Operand::of::<P::Value>(&path), values(of));
        self
    }

    /// Appends a value to the array unless it is there: `$addToSet`.
    pub fn add_to_set<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: List>,
        V: IntoValue<<P::Value as List>::Item>,
    {
        self.add_each_to_set(array, [value])
    }

    /// Appends those of the values that the array does not have: `$addToSet` with `$each`.
    pub fn add_each_to_set<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, of: I) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: List>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        let path = array(T::fields()).path();
        self.changes
            .add_each("$addToSet", Operand::of::<P::Value>(&path), values(of));
        self
    }

    /// Removes every element that equals the value: `$pullAll`.
    pub fn pull<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: List>,
        V: IntoValue<<P::Value as List>::Item>,
    {
        self.pull_all(array, [value])
    }

    /// Removes every element that equals one of the values: `$pullAll`.
    pub fn pull_all<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, of: I) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: List>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        let path = array(T::fields()).path();
        self.changes
            .add_each("$pullAll", Operand::of::<P::Value>(&path), values(of));
        self
    }

    /// Removes every element that meets the condition: `$pull`.
    ///
    /// # Errors
    ///
    /// When it is awaited, [`Invalid`](crate::ErrorKind::Invalid) for a condition on plain values that `$pull` does not take: several of them
    /// that are not all to be met.
    pub fn pull_where<P, F>(
        mut self,
        array: impl FnOnce(T::Fields) -> P,
        condition: impl FnOnce(Inside<P>) -> F,
    ) -> Self
    where
        P: Place<Scope = T, Role: Settable + 'static, Shape: Writable, Value: List>,
        F: IntoFilter<Elem<T>>,
    {
        let condition = condition(FromPath::from_path(Path::ROOT))
            .into_filter()
            .unwrap_or_else(Filter::all);
        let path = array(T::fields()).path();
        let condition = pull_to_raw(&condition.into_node()).map(Into::into);
        self.changes
            .add_to("$pull", Operand::of::<P::Value>(&path), condition);
        self
    }

    /// Removes the first element: `$pop` with -1.
    pub fn pop_first<P>(self, array: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Sequence>,
    {
        let path = array(T::fields()).path();
        self.pop(Operand::of::<P::Value>(&path), -1)
    }

    /// Removes the last element: `$pop` with 1.
    pub fn pop_last<P>(self, array: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope: In<T>, Role: Settable, Shape: Writable, Value: Sequence>,
    {
        let path = array(T::fields()).path();
        self.pop(Operand::of::<P::Value>(&path), 1)
    }

    fn pop(mut self, array: Operand<'_>, end: i32) -> Self {
        self.changes.add_to("$pop", array, Ok(end.into()));
        self
    }

    /// Whether it changes something inside of an enum's variant.
    pub(super) fn is_of_a_variant(&self) -> bool {
        self.changes.is_of_a_variant()
    }

    /// The conditions that a document with the id has to meet to be changed.
    pub(super) fn condition(&self) -> Result<Node> {
        let places = self.changes.clone().finish();
        let places = places.map_err(error::of_model::<T>)?.asked;
        Ok(self.target.condition().clone().and(places))
    }
}

impl<T: Document, K: Which> Clone for Update<T, K> {
    fn clone(&self) -> Self {
        Self {
            access: self.access.clone(),
            target: self.target.clone(),
            changes: self.changes.clone(),
        }
    }
}

/// The fields of an element of the array at a place.
type Inside<P> = <<<P as Place>::Value as List>::Item as Stored>::Fields<
    Elem<<P as Place>::Scope>,
    <P as Place>::Role,
    shape::One,
>;

impl<T: Document, K: Counted> IntoFuture for Update<T, K> {
    type Output = Result<Updated>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        counted(self.perform(How::Count))
    }
}

fn counted(update: BoxFuture<'static, Result<Done>>) -> BoxFuture<'static, Result<Updated>> {
    Box::pin(async move { Ok(update.await?.counted()) })
}

/// An update of the first tells which document that was.
impl<T: Document> IntoFuture for Update<T, FirstMatching> {
    type Output = Result<Outcome<Ref<T>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let how = How::FindAndModify {
                projection: Some(document("_id", 1)?),
                return_new: true,
            };
            let found = self.perform(how).await?.found();
            let id = found.as_deref().map(id_of::<T>).transpose();
            let id = id.map_err(crate::Error::behind_a_write)?;
            Ok(id.map(Ref::of_id).into())
        })
    }
}
