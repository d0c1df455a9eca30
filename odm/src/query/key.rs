//! What names one document, and whether that says on which shard it is.

use std::fmt;

use bson::{RawDocument, RawDocumentBuf, Uuid, oid::ObjectId};

use super::{Filter, Node, encode, test};
use crate::{
    Result,
    document::{Document, Ref, Stored},
    error,
    field::Path,
    legacy_uuid::{CSharpUuid, JavaUuid, PythonUuid},
};

/// What names one document of the model `T`: its id, a [`Ref`] to it, the document itself. Of a model with a `shard_key`
/// also the struct that is derived with it, such as `OrderKey` of an `Order`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a document of the model `{T}`",
    label = "neither its id, nor a `Ref<{T}>`, nor the document"
)]
pub trait IntoKey<T: Document> {
    /// How much of the document it knows: [`IdAlone`] or [`IdAndShardKey`].
    type Knows;
    /// The id, and what is known of the shard key.
    fn into_key(self) -> Key<T>;
}

/// An id, and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct IdAlone;

/// An id, and the shard key if the model has one.
#[derive(Debug, Clone, Copy)]
pub struct IdAndShardKey;

/// What names one document of the model `T` so that a session of `C` can write to it: any [`IntoKey`] or, of a model with a
/// `shard_key`, one that [says where it is](Routes).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a document of the model `{T}`",
    label = "neither its id, nor a `Ref<{T}>`, nor the document"
)]
pub trait IntoRouted<T: Document, C>: IntoKey<T> {}
impl<T: Document, C, K: IntoKey<T, Knows: Routes<T, C>>> IntoRouted<T, C> for K {}

/// What says on which shard of a cluster a document of `T` is, in a session of `C`: for a write, that must be known. For a model
/// without a `shard_key`, and for one whose key is its `_id` and its scope, the id is enough.
#[diagnostic::on_unimplemented(
    message = "`{T}` has a shard key: an `_id` alone does not say on which shard its document is",
    label = "names the document, but not its shard",
    note = "give the document that was read, or its id with the rest of the shard key: `{T}Key {{ … }}`"
)]
pub trait Routes<T, C> {}
#[diagnostic::do_not_recommend]
impl<T: Document, C> Routes<T, C> for IdAndShardKey {}
#[diagnostic::do_not_recommend]
impl<T: Document<Sharding: ByIdAlone<C>>, C> Routes<T, C> for IdAlone {}

/// The models of which an id is enough in a session of `C`: see [`Routes`].
pub trait ByIdAlone<C> {}

/// Without a shard key, or by the `_id` alone.
#[derive(Debug)]
pub struct Unsharded;
impl<C> ByIdAlone<C> for Unsharded {}

/// By a field that only the document knows.
#[derive(Debug)]
pub struct Sharded;

/// By its scope, a `C`, and perhaps its `_id`.
#[derive(Debug)]
pub struct ShardedInScope<C>(std::marker::PhantomData<fn() -> C>);
impl<C> ByIdAlone<C> for ShardedInScope<C> {}

/// One document: its id and, of a model with a shard key, what is known of that.
pub struct Key<T: Document> {
    id: T::Id,
    /// The condition that the other fields of the shard key have their values.
    shard: Node,
}

impl<T: Document> Key<T> {
    /// The document with this id.
    pub fn of_id(id: T::Id) -> Self {
        Self {
            id,
            shard: Node::All,
        }
    }

    /// With a further field of the shard key; called by derived code.
    #[doc(hidden)]
    #[must_use]
    pub fn with<V: Stored>(self, field: &'static str, value: &V) -> Self {
        let is_it = test::<T>(&Path::ROOT.then(field), "$eq", encode(value));
        Self {
            id: self.id,
            shard: self.shard.and(is_it.into_node()),
        }
    }

    /// The document as it is stored.
    pub(crate) fn of_stored(id: T::Id, raw: &RawDocument) -> Self {
        let shard = T::MODEL.shard_key_in(raw).map(|(field, value)| {
            let path = Path::ROOT.then(field);
            Node::Test(path, "$eq", value.into())
        });
        Self {
            id,
            shard: shard.fold(Node::All, Node::and),
        }
    }

    /// The id.
    pub fn id(&self) -> &T::Id {
        &self.id
    }

    pub(crate) fn into_id(self) -> T::Id {
        self.id
    }

    /// That a document has the id.
    pub(crate) fn by_id(&self) -> Result<Node> {
        Ok(Node::Test(Path::ROOT.then("_id"), "$eq", encode(&self.id)?))
    }

    /// That a document has what is known of the shard key beside the id.
    pub(crate) fn by_shard(&self) -> Node {
        self.shard.clone()
    }

    /// That a document is this one.
    pub(crate) fn node(&self) -> Result<Node> {
        Ok(self.by_id()?.and(self.by_shard()))
    }

    /// The same as a filter.
    pub(crate) fn to_raw(&self) -> Result<RawDocumentBuf> {
        let filter = Filter::<T>::from_node(self.node()?).to_raw();
        filter.map_err(error::of_model::<T>)
    }
}

impl<T: Document> Clone for Key<T> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            shard: self.shard.clone(),
        }
    }
}

impl<T: Document> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.node()).finish()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> IntoKey<T> for Ref<T> {
    type Knows = IdAlone;
    fn into_key(self) -> Key<T> {
        Key::of_id(self.into_id())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> IntoKey<T> for &Ref<T> {
    type Knows = IdAlone;
    fn into_key(self) -> Key<T> {
        Key::of_id(self.id().clone())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> IntoKey<T> for &T {
    type Knows = IdAndShardKey;
    fn into_key(self) -> Key<T> {
        self.routed_key()
    }
}

macro_rules! keys {
    ($($given:ty => $id:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Document<Id = $id>> IntoKey<T> for $given {
            type Knows = IdAlone;
            fn into_key(self) -> Key<T> {
                Key::of_id(self.to_owned().into())
            }
        }
    )*};
}
keys! {
    ObjectId => ObjectId, &ObjectId => ObjectId,
    Uuid => Uuid, &Uuid => Uuid,
    CSharpUuid => CSharpUuid, &CSharpUuid => CSharpUuid,
    JavaUuid => JavaUuid, &JavaUuid => JavaUuid,
    PythonUuid => PythonUuid, &PythonUuid => PythonUuid,
    i32 => i32, &i32 => i32,
    i64 => i64, &i64 => i64,
    u32 => u32, &u32 => u32,
    u64 => u64, &u64 => u64,
    String => String, &String => String, &str => String,
}
