//! Changing documents where they are, by MongoDB's update operators.

mod changes;
mod elements;
mod place;
mod push;
mod rename;

use std::pin::Pin;

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};
pub(crate) use changes::Changes as Operators;
use changes::{Bound, Changes, Finished};
pub use place::{Increment, List, Optional};
pub use push::Push;

use super::{
    outcome::{Outcome, not_applied},
    returning::ReturningUpdate,
    target::{self, ById, Counted, First, One, Target, Which, WithId, id_of, to_raw},
    upsert::Upsert,
};
use crate::{
    Result,
    access::Access,
    backend::operation,
    decode,
    document::{Document, Insertable, Ref, Stored},
    error,
    field::{Bits, Date, Elem, FromPath, Keyed, Ordered, Path, Place, Settable, Writable, shape},
    hook::{self, Committed, RunHooks, Written},
    maintain::Plan,
    query::{Filter, IntoFilter, IntoSort, IntoValue, Node, document, pull_to_raw, values},
    rule::{Behind, check_update},
    schema::upgrade,
    soft_delete::Sight,
    trace, unit,
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
    pub(crate) fn by_id(access: Access, id: T::Id) -> Self {
        Self {
            access,
            target: Target::by_id(id),
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
        K: target::Ordered,
    {
        self.target.sort(order);
        self
    }

    /// Gives the document as it is after the update, read in the same atomic step.
    ///
    /// By an id alone that is the document, with a condition an [`Outcome`].
    pub fn returning_after(self) -> ReturningUpdate<T, K>
    where
        K: One,
    {
        ReturningUpdate::new(self, true)
    }

    /// Gives the document as it was before the update, read in the same atomic step.
    ///
    /// By an id alone that is the document, with a condition an [`Outcome`].
    pub fn returning_before(self) -> ReturningUpdate<T, K>
    where
        K: One,
    {
        ReturningUpdate::new(self, false)
    }

    /// Inserts this document, as it is, if there is none with the id; it has that id. See [`Upsert`].
    pub fn or_insert<I: Insertable<Document = T>>(self, document: I) -> Upsert<T, K>
    where
        K: WithId,
    {
        let document = document.into_document(self.access.scope());
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
        P: Place<Scope = T, Role: Settable, Shape: Writable>,
        V: IntoValue<P::Value>,
    {
        self.changes
            .set(&field(T::fields()).path(), value.into_value());
        self
    }

    /// Removes the field, which then reads as `None`: `$unset`.
    pub fn unset<P>(mut self, field: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Optional>,
    {
        self.changes
            .add("$unset", &field(T::fields()).path(), Ok(true.into()));
        self
    }

    /// Removes a key of a map: `$unset`.
    pub fn remove_key<P>(mut self, map: impl FnOnce(T::Fields) -> P, key: &str) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Keyed>,
    {
        self.changes
            .add("$unset", &map(T::fields()).path().key(key), Ok(true.into()));
        self
    }

    /// Adds the amount to the number: `$inc`. A negative amount subtracts.
    pub fn inc<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, amount: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Increment<V>>,
    {
        self.changes
            .add("$inc", &field(T::fields()).path(), P::Value::amount(amount));
        self
    }

    /// Multiplies the number: `$mul`.
    pub fn mul<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, factor: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Increment<V>>,
    {
        self.changes
            .add("$mul", &field(T::fields()).path(), P::Value::amount(factor));
        self
    }

    /// Sets the field to the value if that is less: `$min`.
    pub fn min<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Ordered>,
        V: IntoValue<P::Value>,
    {
        self.changes
            .add("$min", &field(T::fields()).path(), value.into_value());
        self
    }

    /// Sets the field to the value if that is greater: `$max`.
    pub fn max<P, V>(mut self, field: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Ordered>,
        V: IntoValue<P::Value>,
    {
        self.changes
            .add("$max", &field(T::fields()).path(), value.into_value());
        self
    }

    /// Keeps the bits that the mask has: `$bit` with `and`.
    pub fn bit_and<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.bit("and", &field(T::fields()).path(), mask.into_value())
    }

    /// Sets the bits that the mask has: `$bit` with `or`.
    pub fn bit_or<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Bits>,
        V: IntoValue<P::Value>,
    {
        self.bit("or", &field(T::fields()).path(), mask.into_value())
    }

    /// Turns the bits that the mask has: `$bit` with `xor`.
    pub fn bit_xor<P, V>(self, field: impl FnOnce(T::Fields) -> P, mask: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Bits>,
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
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: Date>,
    {
        self.changes
            .add("$currentDate", &field(T::fields()).path(), Ok(true.into()));
        self
    }

    /// Appends a value to the array: `$push`.
    pub fn push<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
        V: IntoValue<<P::Value as List>::Item>,
    {
        self.push_each(array, [value])
    }

    /// Appends values to the array, in order: `$push` with `$each`.
    pub fn push_each<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, of: I) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        self.changes
            .add_each("$push", &array(T::fields()).path(), values(of));
        self
    }

    /// Appends a value to the array unless it is there: `$addToSet`.
    pub fn add_to_set<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
        V: IntoValue<<P::Value as List>::Item>,
    {
        self.add_each_to_set(array, [value])
    }

    /// Appends those of the values that the array does not have: `$addToSet` with `$each`.
    pub fn add_each_to_set<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, of: I) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        self.changes
            .add_each("$addToSet", &array(T::fields()).path(), values(of));
        self
    }

    /// Removes every element that equals the value: `$pullAll`.
    pub fn pull<P, V>(self, array: impl FnOnce(T::Fields) -> P, value: V) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
        V: IntoValue<<P::Value as List>::Item>,
    {
        self.pull_all(array, [value])
    }

    /// Removes every element that equals one of the values: `$pullAll`.
    pub fn pull_all<P, I>(mut self, array: impl FnOnce(T::Fields) -> P, of: I) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
        I: IntoIterator<Item: IntoValue<<P::Value as List>::Item>>,
    {
        self.changes
            .add_each("$pullAll", &array(T::fields()).path(), values(of));
        self
    }

    /// Removes every element that meets the condition: `$pull`.
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
        self.changes.add(
            "$pull",
            &array(T::fields()).path(),
            pull_to_raw(&condition.into_node()).map(Into::into),
        );
        self
    }

    /// Removes the first element: `$pop` with -1.
    pub fn pop_first<P>(self, array: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
    {
        self.pop(&array(T::fields()).path(), -1)
    }

    /// Removes the last element: `$pop` with 1.
    pub fn pop_last<P>(self, array: impl FnOnce(T::Fields) -> P) -> Self
    where
        P: Place<Scope = T, Role: Settable, Shape: Writable, Value: List>,
    {
        self.pop(&array(T::fields()).path(), 1)
    }

    fn pop(mut self, path: &Path, end: i32) -> Self {
        self.changes.add("$pop", path, Ok(end.into()));
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

    /// The room for what is pushed is part of the filter, so that two pushes at once cannot both take the last place.
    pub(super) fn prepare(self) -> Result<Prepared<T, K>> {
        let asked = self.target.node().map_err(error::of_model::<T>)?;
        let checked = self.changes.check(&asked);
        checked.map_err(error::of_model::<T>)?;
        let behind = check_update::<T>(self.changes.each())?;
        let Finished {
            update,
            array_filters,
            asked: places,
            rooms,
        } = self.changes.finish().map_err(error::of_model::<T>)?;
        Ok(Prepared {
            asked: asked.and(places.clone()),
            access: self.access,
            target: self.target,
            places,
            change: operation::Change::Operators {
                update,
                array_filters,
            },
            rooms,
            behind,
        })
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

/// How an update is carried out.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub enum How {
    /// Counting what it was about.
    Count,
    /// Giving the first document back.
    FindAndModify {
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    },
}

/// What an update gave.
#[derive(Debug)]
#[doc(hidden)]
pub enum Done {
    Counted(Updated),
    Found(Option<RawDocumentBuf>),
}

impl Done {
    pub(super) fn is_applied(&self) -> bool {
        match self {
            Self::Counted(done) => done.applied(),
            Self::Found(found) => found.is_some(),
        }
    }

    pub(super) fn counted(self) -> Updated {
        match self {
            Self::Counted(done) => done,
            Self::Found(_) => Updated::default(),
        }
    }

    pub(super) fn found(self) -> Option<RawDocumentBuf> {
        match self {
            Self::Counted(_) => None,
            Self::Found(found) => found,
        }
    }
}

impl<T: Document, K: Which> Update<T, K> {
    /// Carries it out, with the hooks of its model.
    pub(super) async fn perform(self, how: How) -> Result<Done> {
        let Some(hooks) = T::hooks() else {
            let update = self.prepare()?;
            return update.perform_or_refuse(&how).await;
        };
        let access = self.access.clone();
        let work = |access: Access| {
            let (update, how) = (self.clone(), how.clone());
            async move { update.perform_hooked(hooks, access, how).await }
        };
        access.together(unit::ATTEMPTS, work).await
    }

    async fn perform_hooked(
        mut self,
        hooks: &'static dyn RunHooks<T>,
        access: Access,
        how: How,
    ) -> Result<Done> {
        let is_many = matches!(how, How::Count) && self.target.id().is_none();
        let mut changes = hook::Changes {
            selection: self.target.selection(&access, is_many)?,
            operators: std::mem::take(&mut self.changes),
            is_save: false,
        };
        let before = hooks.before_update(&mut changes, &access).await;
        before.map_err(|error| access.fail(error))?;
        let update = Self {
            access: access.clone(),
            target: self.target.pin(changes.selection.pinned()?),
            changes: changes.operators.clone(),
        };
        let update = update.prepare().map_err(|error| access.fail(error))?;
        hook::written(access, hooks, move |access| async move {
            let done = update.perform_or_refuse(&how).await?;
            if !done.is_applied() {
                return Ok(Written::nothing(done));
            }
            if let Done::Found(Some(found)) = &done
                && changes.selection.ids.is_none()
                && let Ok(id) = id_of::<T>(found)
            {
                changes.selection.ids = Some(vec![id]);
            }
            Ok(Written {
                done,
                after: hooks.after_update(&changes, &access).await,
                events: vec![Committed::Updated(changes)],
            })
        })
        .await
    }
}

/// An update whose changes and conditions have been put together.
pub(super) struct Prepared<T: Document, K> {
    pub(super) access: Access,
    pub(super) target: Target<T, K>,
    pub(super) change: operation::Change,
    /// That the places are there which it changes: elements that meet a condition, fields of a variant.
    places: Node,
    /// What the caller asked for, and that the places are there.
    asked: Node,
    /// What the arrays need.
    rooms: Vec<(Node, Bound)>,
    /// What the rules of the model have to say of the outcome.
    behind: Option<Behind>,
}

impl<T: Document, K: Which> Prepared<T, K> {
    /// Whether an array that grows has a `max`.
    pub(super) fn has_bounds(&self) -> bool {
        !self.rooms.is_empty()
    }

    fn filter(&self, only: &Node) -> Result<RawDocumentBuf> {
        let asked = only.clone().and(self.asked.clone());
        let rooms = self.rooms.iter();
        to_raw::<T>(rooms.fold(asked, |all, (room, _)| all.and(room.clone())))
    }

    pub(super) fn operation(&self, multi: bool) -> Result<operation::Update> {
        self.operation_on(&Node::All, multi)
    }

    fn operation_on(&self, only: &Node, multi: bool) -> Result<operation::Update> {
        Ok(operation::Update {
            collection: T::COLLECTION.into(),
            filter: self.filter(only)?,
            change: self.change.clone(),
            multi,
            upsert: false,
        })
    }

    /// Whether the rules of the model have to say something of the outcome.
    pub(super) fn is_checked_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// An error if a document that was to be changed has no room for what was to be appended.
    pub(super) async fn refuse_full(&self) -> Result<()> {
        self.refuse_full_in(&self.access).await
    }

    async fn refuse_full_in(&self, access: &Access) -> Result<()> {
        refuse_full::<T>(access, &self.asked, &self.rooms).await
    }

    /// Carries it out; an error where nothing was there, if that is one.
    async fn perform_or_refuse(&self, how: &How) -> Result<Done> {
        let done = self.perform(how).await?;
        if !done.is_applied() {
            self.refuse_missing().await?;
        }
        Ok(done)
    }

    /// Carries it out.
    pub(super) async fn perform(&self, how: &How) -> Result<Done> {
        match how {
            How::Count => self
                .count(self.target.id().is_none())
                .await
                .map(Done::Counted),
            How::FindAndModify {
                projection,
                return_new,
            } => {
                let found = self.find_and_modify(projection.clone(), *return_new).await;
                found.map(Done::Found)
            }
        }
    }

    /// Where nothing was changed: an error if the id was all that was asked for, and there is no such document.
    pub(super) async fn refuse_missing(&self) -> Result<()> {
        let Some(id) = self.target.only_id() else {
            return Ok(());
        };
        let has_places = !matches!(self.places, Node::All);
        if has_places && self.is_there(self.target.by_id_alone()?).await? {
            return Ok(());
        }
        Err(error::not_found::<T>(id))
    }

    /// Whether there is a document that meets a condition.
    async fn is_there(&self, condition: Node) -> Result<bool> {
        is_there::<T>(&self.access, condition).await
    }

    /// Changes what was asked for, and tells how much that was; without a document, that may be because of its arrays.
    pub(super) async fn count(&self, multi: bool) -> Result<Updated> {
        let Some(behind) = &self.behind else {
            return self.count_in(&self.access, &Node::All, multi).await;
        };
        self.refuse_unchecked(behind)?;
        let work = |access: Access| async move {
            let only = self.concerned(&access, !multi).await?;
            let done = self.count_in(&access, &only.0, multi).await?;
            if done.applied() {
                self.look_behind(behind, &access, only).await?;
            }
            Ok(done)
        };
        self.access.together(unit::ATTEMPTS, work).await
    }

    async fn count_in(&self, access: &Access, only: &Node, multi: bool) -> Result<Updated> {
        // Of many documents none is changed if one is full already. One that fills up between the look and the write is
        // left out like one that does not meet the condition.
        if multi {
            self.refuse_full_in(access).await?;
        }
        let done = Plan::new(&T::MODEL, self.operation_on(only, multi)?)?
            .run(access.clone())
            .await?;
        if !multi && done.matched == 0 {
            self.refuse_full_in(access).await?;
        }
        if trace::looks_at_plans() {
            self.tell_lengths().await;
        }
        Ok(Updated {
            matched: done.matched,
            modified: done.modified,
        })
    }

    /// Tells which arrays of the document are near their bound now.
    async fn tell_lengths(&self) {
        let Ok(by_id @ Node::Test(..)) = self.target.by_id_alone() else {
            return;
        };
        for (_, Bound { path, max }) in &self.rooms {
            let near = trace::near(*max);
            let last = Path::ROOT.append(&format!("{path}.{}", near.saturating_sub(1)));
            let is_long = by_id.clone().and(Node::Test(last, "$exists", true.into()));
            if near <= *max && self.is_there(is_long).await.unwrap_or(false) {
                trace::length(path, near, *max);
            }
        }
    }

    /// Changes the first document that was asked for, and gives it back in the same step.
    pub(super) async fn find_and_modify(
        &self,
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(behind) = &self.behind else {
            let access = &self.access;
            return self
                .modify_in(access, &Node::All, projection, return_new)
                .await;
        };
        self.refuse_unchecked(behind)?;
        let projection = &projection;
        let work = |access: Access| async move {
            let only = self.concerned(&access, true).await?;
            let projection = projection.clone();
            let found = self
                .modify_in(&access, &only.0, projection, return_new)
                .await?;
            if found.is_some() {
                self.look_behind(behind, &access, only).await?;
            }
            Ok(found)
        };
        self.access.together(unit::ATTEMPTS, work).await
    }

    async fn modify_in(
        &self,
        access: &Access,
        only: &Node,
        projection: Option<RawDocumentBuf>,
        return_new: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        let write = operation::FindAndModify {
            collection: T::COLLECTION.into(),
            filter: self.filter(only)?,
            sort: self.target.raw_sort().map_err(error::of_model::<T>)?,
            projection,
            modification: operation::Modification::Update {
                change: self.change.clone(),
                upsert: false,
                return_new,
            },
        };
        let found = Plan::new(&T::MODEL, write)?.run(access.clone()).await?;
        if found.is_none() {
            self.refuse_full_in(access).await?;
        }
        Ok(found)
    }

    fn refuse_unchecked(&self, behind: &Behind) -> Result<()> {
        match self.access.has_transactions() {
            true => Ok(()),
            false => Err(behind.unsupported::<T>()),
        }
    }

    /// The documents that the update is about, in its transaction: as a condition, and how to find them behind it.
    async fn concerned(&self, access: &Access, first: bool) -> Result<(Node, Node)> {
        if self.target.id().is_some() {
            let by_id = self.target.by_id_alone().map_err(error::of_model::<T>)?;
            return Ok((Node::All, by_id));
        }
        let find = operation::Find {
            collection: T::COLLECTION.into(),
            filter: self.filter(&Node::All)?,
            projection: Some(document("_id", 1)?),
            sort: self.target.raw_sort().map_err(error::of_model::<T>)?,
            limit: first.then_some(1),
        };
        upgrade::before_write(access, &T::MODEL, &find.filter).await?;
        let mut ids = RawArrayBuf::new();
        for found in &access.find_all(&T::MODEL, find).await? {
            if let Some(id) = decode::id(found) {
                ids.push(RawBson::from(id));
            }
        }
        let these = Node::Test(Path::ROOT.then("_id"), "$in", ids.into());
        Ok((these.clone(), these))
    }

    /// Checks what has become of the documents. What breaks a rule is not committed.
    async fn look_behind(
        &self,
        behind: &Behind,
        access: &Access,
        (_, those): (Node, Node),
    ) -> Result<()> {
        let find = operation::Find {
            collection: T::COLLECTION.into(),
            filter: to_raw::<T>(those)?,
            projection: None,
            sort: None,
            limit: None,
        };
        // What was restored is out of sight for what has restored it.
        let access = access.clone().seeing(Sight::All);
        let found = access.find_all(&T::MODEL, find).await?;
        behind
            .check::<T>(&found)
            .map_err(|error| access.fail(error))
    }
}

/// Whether there is a document that meets a condition.
pub(super) async fn is_there<T: Document>(access: &Access, condition: Node) -> Result<bool> {
    let count = operation::Count {
        collection: T::COLLECTION.into(),
        filter: to_raw::<T>(condition)?,
        limit: Some(1),
    };
    Ok(access.count(&T::MODEL, count).await? > 0)
}

/// An error if a document that was to be changed has no room for what was to be appended.
async fn refuse_full<T: Document>(
    access: &Access,
    asked: &Node,
    rooms: &[(Node, Bound)],
) -> Result<()> {
    for (room, Bound { path, max }) in rooms {
        let full = asked.clone().and(Node::Not(Box::new(room.clone())));
        let find = operation::Find {
            collection: T::COLLECTION.into(),
            filter: to_raw::<T>(full)?,
            projection: Some(document("_id", 1)?),
            sort: None,
            limit: Some(1),
        };
        if let Some(full) = access.find_all(&T::MODEL, find).await?.first() {
            return Err(error::of_model::<T>(
                error::full(*max, full).with_path(path),
            ));
        }
    }
    Ok(())
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
        Box::pin(async move { Ok(self.perform(How::Count).await?.counted()) })
    }
}

/// An update of the first tells which document that was.
impl<T: Document> IntoFuture for Update<T, First> {
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
