//! The target of a write: one document by id or by a unique index, or the documents that meet a condition.

use std::marker::PhantomData;

use bson::{Bson, RawBson, RawDocumentBuf};

use super::outcome::Outcome;
use crate::{
    Error, ErrorKind, Result, error,
    language::{
        field::Path,
        query::{
            self, Filter, FilterNode, IntoFilter, IntoSort, Key, Sort, encode_value, sort_to_raw,
        },
    },
    metadata::text_of_caseless,
    model::{document::Document, hook::Selection},
    relation::resolve_related,
    schema::Model,
    session::access::Access,
};

/// The kind of target of a write, as a type: [`ById`], [`ByIdWhen`], [`ByUniqueKey`], [`ByUniqueKeyWhen`], [`FirstMatching`] or
/// [`AllMatching`].
pub trait TargetKind: Send + Sync + 'static {
    /// The kind of target after a further condition.
    type When: TargetKind;
}

/// Targets the document with an id.
#[derive(Debug)]
pub struct ById;

/// Targets the document with an id, if the document meets a condition.
#[derive(Debug)]
pub struct ByIdWhen;

/// Targets the document with the values of a unique index.
#[derive(Debug)]
pub struct ByUniqueKey;

/// Targets the document with the values of a unique index, if the document meets a condition.
#[derive(Debug)]
pub struct ByUniqueKeyWhen;

/// Targets the first document that meets a condition.
#[derive(Debug)]
pub struct FirstMatching;

/// Targets all documents that meet a condition.
#[derive(Debug)]
pub struct AllMatching;

impl TargetKind for ById {
    type When = ByIdWhen;
}
impl TargetKind for ByIdWhen {
    type When = Self;
}
impl TargetKind for ByUniqueKey {
    type When = ByUniqueKeyWhen;
}
impl TargetKind for ByUniqueKeyWhen {
    type When = Self;
}
impl TargetKind for FirstMatching {
    type When = Self;
}
impl TargetKind for AllMatching {
    type When = Self;
}

/// Targets of at most one document.
pub trait AtMostOneTarget: TargetKind {
    /// The result: `D`, or an [`Outcome`] of `D` if the write has a condition.
    type Returned<D>;

    /// Converts the document that was found. For an unconditional write, a missing value means that the document lacks the place
    /// to change.
    #[doc(hidden)]
    fn from_found<D>(document: Option<D>) -> Result<Self::Returned<D>>;
}

macro_rules! at_most_one {
    (document: $($found:ty),*; outcome: $($conditional:ty),*) => {
        $(impl AtMostOneTarget for $found {
            type Returned<D> = D;
            fn from_found<D>(document: Option<D>) -> Result<D> {
                document.ok_or_else(missing_place_error)
            }
        })*
        $(impl AtMostOneTarget for $conditional {
            type Returned<D> = Outcome<D>;
            fn from_found<D>(document: Option<D>) -> Result<Outcome<D>> {
                Ok(document.into())
            }
        })*
    };
}
at_most_one!(document: ById, ByUniqueKey; outcome: ByIdWhen, ByUniqueKeyWhen, FirstMatching);

/// Targets of at most one document, which a write can return.
#[diagnostic::on_unimplemented(
    message = "a write to many documents cannot return a document",
    label = "returns only the number of documents",
    note = "write to a single document: `update`, `update_first`, `delete`, `delete_first`",
    note = "after `upsert_by`, call `returning_after` after `update(…)`, not in its closure"
)]
pub trait SingleTarget: AtMostOneTarget {}
impl SingleTarget for ById {}
impl SingleTarget for ByIdWhen {}
impl SingleTarget for FirstMatching {}

/// Targets by the values of a unique index.
#[diagnostic::on_unimplemented(
    message = "the closure of `update` must return the update that it receives",
    label = "expected the update of the upsert, with changes and conditions"
)]
pub trait UniqueKeyTarget: AtMostOneTarget {}
impl UniqueKeyTarget for ByUniqueKey {}
impl UniqueKeyTarget for ByUniqueKeyWhen {}

/// Targets with an id.
#[diagnostic::on_unimplemented(
    message = "only an update by id can insert a missing document",
    label = "the update has no `_id` for the new document",
    note = "use `db.update::<…>(id)`, and add a condition by `when`"
)]
pub trait IdTarget: SingleTarget {}
impl IdTarget for ById {}
impl IdTarget for ByIdWhen {}

/// Targets that pick the first of several documents.
#[diagnostic::on_unimplemented(
    message = "only `update_first` and `delete_first` can sort",
    label = "the write changes a single document or all documents, so the order has no effect"
)]
pub trait SortableTarget: SingleTarget {}
impl SortableTarget for FirstMatching {}

/// Targets of writes that return the number of documents.
pub trait CountingTarget: TargetKind {}
impl CountingTarget for ById {}
impl CountingTarget for ByIdWhen {}
impl CountingTarget for AllMatching {}

/// The target of a write without the type of the model. Code that uses this type is compiled once instead of once per model.
#[derive(Debug, Clone)]
pub(super) struct ErasedTarget {
    pub(super) model: &'static Model,
    /// The condition on the key and the known shard key; `None` for a target without a key.
    pub(super) key_condition: Option<FilterNode>,
    /// The id, if the target has no further condition.
    pub(super) only_id: Option<Bson>,
    /// The order that decides which document is the first.
    pub(super) sort: Option<RawDocumentBuf>,
}

/// The values of a unique index, with the known shard key.
#[derive(Debug, Clone)]
pub(super) struct UniqueKeyValues {
    pub(super) values: FilterNode,
    pub(super) shard_key: FilterNode,
    pub(super) fields: Vec<Path>,
    /// Whether a hidden document with the values makes every insert a duplicate.
    pub(super) covers_hidden_documents: bool,
    /// Whether documents of different scopes can have the values.
    pub(super) is_within_scope: bool,
}

impl UniqueKeyValues {
    fn has_field(&self, name: &str) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|field| field.dotted().is_ok_and(|field| field == name))
    }
}

/// The target of a write: one document by key, or the documents that meet the condition.
pub(super) struct WriteTarget<T: Document, K> {
    key: Option<Key<T>>,
    unique_key: Option<UniqueKeyValues>,
    condition: FilterNode,
    /// The condition that a hook added: the ids that the hook has read.
    hook_condition: FilterNode,
    sort: Vec<Sort<T>>,
    marker: PhantomData<fn() -> K>,
}

impl<T: Document> WriteTarget<T, ById> {
    pub(super) fn by_key(key: Key<T>) -> Self {
        Self {
            key: Some(key),
            unique_key: None,
            condition: FilterNode::All,
            hook_condition: FilterNode::All,
            sort: Vec::new(),
            marker: PhantomData,
        }
    }
}

impl<T: Document, K: TargetKind> WriteTarget<T, K> {
    /// Makes a target of a kind without an id.
    pub(super) fn by_condition(condition: Filter<T>) -> Self {
        Self {
            key: None,
            unique_key: None,
            condition: condition.into_node(),
            hook_condition: FilterNode::All,
            sort: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Adds a condition.
    pub(super) fn with_condition<F: IntoFilter<T>>(
        self,
        condition: impl FnOnce(T::Fields) -> F,
    ) -> WriteTarget<T, K::When> {
        let condition = condition(T::fields())
            .into_filter()
            .map_or(FilterNode::All, Filter::into_node);
        WriteTarget {
            key: self.key,
            unique_key: self.unique_key,
            condition: self.condition.and(condition),
            hook_condition: self.hook_condition,
            sort: self.sort,
            marker: PhantomData,
        }
    }

    /// Resolves the conditions on related documents.
    pub(super) async fn resolve_related(&mut self, access: &Access) -> Result<()> {
        let condition = std::mem::replace(&mut self.condition, FilterNode::All);
        self.condition = resolve_related(access, &T::MODEL, condition).await?;
        Ok(())
    }

    /// Returns the target for hooks.
    pub(super) fn to_selection(&self, access: &Access, is_many: bool) -> Result<Selection<T>> {
        Ok(Selection {
            condition: self.full_condition().map_err(error::of_model::<T>)?,
            visibility: access.visibility(),
            id: self.id().cloned(),
            is_many,
            sort: self.sort.clone(),
            ids: None,
            is_restricted: false,
        })
    }

    /// Restricts the write to the documents that a hook has read. The condition of the caller still applies.
    pub(super) fn restrict_to(mut self, pinned: Option<FilterNode>) -> Self {
        self.hook_condition = pinned.unwrap_or(FilterNode::All);
        self
    }

    pub(super) fn sort<O: IntoSort<T>>(&mut self, order: impl FnOnce(T::Fields) -> O) {
        self.sort.extend(order(T::fields()).into_sorts());
    }

    pub(super) fn id(&self) -> Option<&T::Id> {
        self.key.as_ref().map(Key::id)
    }

    /// Returns the id, if the target has no further condition.
    pub(super) fn only_id(&self) -> Option<&T::Id> {
        self.id()
            .filter(|_| matches!(self.condition, FilterNode::All))
    }

    /// Returns the condition without the id.
    pub(super) fn extra_condition(&self) -> &FilterNode {
        &self.condition
    }

    /// Returns whether the target is a single document with a known key.
    pub(super) fn has_key(&self) -> bool {
        self.key.is_some() || self.unique_key.is_some()
    }

    /// Sets the values of a unique index, and the known shard key.
    pub(super) fn set_unique_key(&mut self, unique_key: UniqueKeyValues) {
        self.unique_key = Some(unique_key);
    }

    /// Returns whether a hidden document with the key makes every insert a duplicate.
    pub(super) fn covers_hidden_documents(&self) -> bool {
        let unique_key = self.unique_key.as_ref();
        unique_key.is_none_or(|unique_key| unique_key.covers_hidden_documents)
    }

    /// Returns whether documents of different scopes can have the key.
    pub(super) fn is_within_scope(&self) -> bool {
        let unique_key = self.unique_key.as_ref();
        unique_key.is_some_and(|unique_key| unique_key.is_within_scope)
    }

    /// Returns whether a duplicate can belong to another document than the document with the key of the target.
    pub(super) fn may_be_duplicate_of_other(&self, duplicate: &Error) -> bool {
        match &self.unique_key {
            None => duplicate.index() != Some("_id_"),
            Some(unique_key) => match duplicate.value() {
                // The index has the fields of the key, and possibly the scope.
                Some(Bson::Document(value)) => {
                    let scope = T::MODEL.scope.map(|scope| scope.stored);
                    let mut names = value.keys().map(String::as_str);
                    !names.all(|name| {
                        unique_key.has_field(text_of_caseless(name)) || Some(name) == scope
                    })
                }
                _ => true,
            },
        }
    }

    /// Returns the condition on the key and the known shard key.
    pub(super) fn key_condition(&self) -> Result<FilterNode> {
        let (key, shard) = self.key_and_shard_conditions()?;
        Ok(key.and(shard))
    }

    /// Returns the conditions on the key and on the known shard key as a pair. The key is the id, or the values of a unique index.
    pub(super) fn key_and_shard_conditions(&self) -> Result<(FilterNode, FilterNode)> {
        match (&self.key, &self.unique_key) {
            (Some(key), _) => Ok((key.id_condition()?, key.shard_condition())),
            (None, Some(unique_key)) => {
                Ok((unique_key.values.clone(), unique_key.shard_key.clone()))
            }
            (None, None) => Ok((FilterNode::All, FilterNode::All)),
        }
    }

    pub(super) fn full_condition(&self) -> Result<FilterNode> {
        let condition = self.key_condition()?.and(self.condition.clone());
        Ok(condition.and(self.hook_condition.clone()))
    }

    /// Returns the target without the type of the model.
    pub(super) fn to_erased(&self) -> Result<ErasedTarget> {
        let only_id = self.only_id().map(encode_value).transpose()?;
        Ok(ErasedTarget {
            model: &T::MODEL,
            key_condition: match self.has_key() {
                true => Some(self.key_condition()?),
                false => None,
            },
            only_id: only_id.and_then(|id| Bson::try_from(id).ok()),
            sort: sort_to_raw(&self.sort)?,
        })
    }
}

/// Returns the error for a document that exists but lacks the place to change.
fn missing_place_error() -> Error {
    let message = "the document has no element that matches, or has another variant; nothing was written: add `when` \
                   to make the update conditional";
    Error::new(ErrorKind::NotApplied, message)
}

impl<T: Document, K> Clone for WriteTarget<T, K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            unique_key: self.unique_key.clone(),
            condition: self.condition.clone(),
            hook_condition: self.hook_condition.clone(),
            sort: self.sort.clone(),
            marker: PhantomData,
        }
    }
}

/// Renders a condition as a filter document.
pub(super) fn to_raw(model: &Model, node: &FilterNode) -> Result<RawDocumentBuf> {
    query::to_raw(node).map_err(error::naming_model(model))
}

/// Decodes the `_id` of a stored document.
pub(crate) fn decode_id<T: Document>(raw: &bson::RawDocument) -> Result<T::Id> {
    let id = crate::model::decode::stored_id(raw).map(RawBson::from);
    let id = id.ok_or_else(|| Error::new(ErrorKind::Decode, "a stored document has no `_id`"));
    id.and_then(|id| crate::model::decode::decode_value(&id))
        .map_err(|error| error::of_model::<T>(error).with_path("_id"))
}
