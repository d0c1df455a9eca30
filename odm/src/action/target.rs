//! Which documents a write is about.

use std::marker::PhantomData;

use bson::{Bson, RawBson, RawDocumentBuf};

use super::outcome::Outcome;
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    document::Document,
    error,
    hook::Selection,
    query::{self, Filter, IntoFilter, IntoSort, Key, Node, Sort, encode, sort_to_raw},
    schema::Model,
};

/// Which documents a write is about, in its type: [`ById`], [`ByIdWhen`], [`FirstMatching`] or [`AllMatching`].
pub trait Which: Send + Sync + 'static {
    /// The same on a further condition.
    type When: Which;
}

/// The document with an id.
#[derive(Debug)]
pub struct ById;

/// The document with an id, if it meets a condition.
#[derive(Debug)]
pub struct ByIdWhen;

/// The first document that meets a condition.
#[derive(Debug)]
pub struct FirstMatching;

/// All documents that meet a condition.
#[derive(Debug)]
pub struct AllMatching;

impl Which for ById {
    type When = ByIdWhen;
}
impl Which for ByIdWhen {
    type When = Self;
}
impl Which for FirstMatching {
    type When = Self;
}
impl Which for AllMatching {
    type When = Self;
}

/// Writes to one document at most, which can give it back.
#[diagnostic::on_unimplemented(
    message = "a write to many documents gives none of them back",
    label = "tells only how many",
    note = "write to one: `update`, `update_first`, `delete`, `delete_first`"
)]
pub trait ToOne: Which {
    /// What there is of the document: the document itself or, where a condition decides, perhaps none.
    type Returned<D>;

    /// What there is of a document. Where no condition was asked for, one that is not there had to have a place which
    /// it does not have.
    #[doc(hidden)]
    fn returned<D>(found: Option<D>) -> Result<Self::Returned<D>>;
}

impl ToOne for ById {
    type Returned<D> = D;
    fn returned<D>(found: Option<D>) -> Result<D> {
        found.ok_or_else(no_place)
    }
}
impl ToOne for ByIdWhen {
    type Returned<D> = Outcome<D>;
    fn returned<D>(found: Option<D>) -> Result<Outcome<D>> {
        Ok(found.into())
    }
}
impl ToOne for FirstMatching {
    type Returned<D> = Outcome<D>;
    fn returned<D>(found: Option<D>) -> Result<Outcome<D>> {
        Ok(found.into())
    }
}

/// Writes that are about an id.
#[diagnostic::on_unimplemented(
    message = "only an update by id can insert a document where there is none",
    label = "no `_id` says which document that would be",
    note = "say `db.update::<…>(id)`; a condition goes into `when`"
)]
pub trait WithId: ToOne {}
impl WithId for ById {}
impl WithId for ByIdWhen {}

/// Writes to the first document of several.
#[diagnostic::on_unimplemented(
    message = "only `update_first` and `delete_first` take an order",
    label = "writes to the one document, or to all: an order makes no difference"
)]
pub trait InOrder: ToOne {}
impl InOrder for FirstMatching {}

/// Writes that tell how many documents they were about.
pub trait Counted: Which {}
impl Counted for ById {}
impl Counted for ByIdWhen {}
impl Counted for AllMatching {}

/// Which documents a write is about, as data: what is done with it is compiled once, and not for each model.
#[derive(Debug, Clone)]
pub(super) struct Aim {
    pub(super) model: &'static Model,
    /// What names the one document, if it was asked for by its id.
    pub(super) named: Option<Node>,
    /// The id, where it is the whole of what was asked for.
    pub(super) only_id: Option<Bson>,
    /// Which of them is the first.
    pub(super) sort: Option<RawDocumentBuf>,
}

/// One document by its id, or those that meet the condition.
pub(super) struct Target<T: Document, K> {
    key: Option<Key<T>>,
    condition: Node,
    /// What a hook has narrowed it to.
    pinned: Node,
    sort: Vec<Sort<T>>,
    of: PhantomData<fn() -> K>,
}

impl<T: Document> Target<T, ById> {
    pub(super) fn by_key(key: Key<T>) -> Self {
        Self {
            key: Some(key),
            condition: Node::All,
            pinned: Node::All,
            sort: Vec::new(),
            of: PhantomData,
        }
    }
}

impl<T: Document, K: Which> Target<T, K> {
    /// For a kind without an id.
    pub(super) fn by_condition(condition: Filter<T>) -> Self {
        Self {
            key: None,
            condition: condition.into_node(),
            pinned: Node::All,
            sort: Vec::new(),
            of: PhantomData,
        }
    }

    /// Only those that meet this condition too.
    pub(super) fn when<F: IntoFilter<T>>(
        self,
        condition: impl FnOnce(T::Fields) -> F,
    ) -> Target<T, K::When> {
        let condition = condition(T::fields())
            .into_filter()
            .map_or(Node::All, Filter::into_node);
        Target {
            key: self.key,
            condition: self.condition.and(condition),
            pinned: self.pinned,
            sort: self.sort,
            of: PhantomData,
        }
    }

    /// For hooks: which documents these are.
    pub(super) fn selection(&self, access: &Access, is_many: bool) -> Result<Selection<T>> {
        Ok(Selection {
            condition: self.node().map_err(error::of_model::<T>)?,
            sight: access.sight(),
            id: self.id().cloned(),
            is_many,
            sort: self.sort.clone(),
            ids: None,
            is_pinned: false,
        })
    }

    /// Only those of the documents that a hook has asked for; what the caller asked for stays what it was.
    pub(super) fn pin(mut self, pinned: Option<Node>) -> Self {
        self.pinned = pinned.unwrap_or(Node::All);
        self
    }

    pub(super) fn sort<O: IntoSort<T>>(&mut self, order: impl FnOnce(T::Fields) -> O) {
        self.sort.extend(order(T::fields()).into_sorts());
    }

    pub(super) fn id(&self) -> Option<&T::Id> {
        self.key.as_ref().map(Key::id)
    }

    /// The id, where it is the whole of what was asked for.
    pub(super) fn only_id(&self) -> Option<&T::Id> {
        self.id().filter(|_| matches!(self.condition, Node::All))
    }

    /// The condition beside the id.
    pub(super) fn condition(&self) -> &Node {
        &self.condition
    }

    /// What names the one document: its id, and what is known of its shard key.
    pub(super) fn named(&self) -> Result<Node> {
        self.key.as_ref().map_or(Ok(Node::All), Key::node)
    }

    /// The id and, apart, what is known of the shard key.
    pub(super) fn named_by(&self) -> Result<(Node, Node)> {
        match &self.key {
            None => Ok((Node::All, Node::All)),
            Some(key) => Ok((key.by_id()?, key.by_shard())),
        }
    }

    pub(super) fn node(&self) -> Result<Node> {
        let asked = self.named()?.and(self.condition.clone());
        Ok(asked.and(self.pinned.clone()))
    }

    /// The same as data.
    pub(super) fn aim(&self) -> Result<Aim> {
        let only_id = self.only_id().map(encode).transpose()?;
        Ok(Aim {
            model: &T::MODEL,
            named: self.key.as_ref().map(Key::node).transpose()?,
            only_id: only_id.and_then(|id| Bson::try_from(id).ok()),
            sort: sort_to_raw(&self.sort)?,
        })
    }
}

/// The document is there, and lacks what was to be changed in it.
fn no_place() -> Error {
    let message = "the document has no such element, or is of another variant, so nothing was written: say by `when` that \
                   this may be";
    Error::new(ErrorKind::NotApplied, message)
}

impl<T: Document, K> Clone for Target<T, K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            condition: self.condition.clone(),
            pinned: self.pinned.clone(),
            sort: self.sort.clone(),
            of: PhantomData,
        }
    }
}

/// The filter document of a condition.
pub(super) fn to_raw(model: &Model, node: &Node) -> Result<RawDocumentBuf> {
    query::to_raw(node).map_err(error::of(model))
}

/// The `_id` of a document of which nothing else was read.
pub(crate) fn id_of<T: Document>(raw: &bson::RawDocument) -> Result<T::Id> {
    let id = crate::decode::id(raw).map(RawBson::from);
    let id = id.ok_or_else(|| Error::new(ErrorKind::Decode, "a stored document has no `_id`"));
    id.and_then(|id| crate::decode::value(&id))
        .map_err(|error| error::of_model::<T>(error).with_path("_id"))
}
