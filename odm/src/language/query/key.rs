//! Keys: an id and, on a sharded cluster, the shard key of one document.

use std::fmt;

use bson::{RawDocument, RawDocumentBuf, Uuid, oid::ObjectId};

use super::{Filter, FilterNode, encode_value, field_test, id_filter};
use crate::{
    Result, error,
    language::field::Path,
    model::{
        document::{Document, Ref, Stored},
        legacy_uuid::{CSharpUuid, JavaUuid, PythonUuid},
    },
};

/// A value that identifies one document of the model `T`: an id, a [`Ref`], or the document. For a model with a `shard_key` also
/// the derived key struct, such as `OrderKey` of an `Order`.
///
/// `I` is the type of the id.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a document of the model `{T}`: the type of the `_id` is `{I}`",
    label = "neither a `{I}`, nor a `Ref<{T}>`, nor the document"
)]
pub trait IntoKey<T: Document, I = <T as Document>::Id> {
    /// Whether the value contains the shard key: [`IdAlone`] or [`IdAndShardKey`].
    type Knows;
    /// Returns the id, and the known fields of the shard key.
    fn into_key(self) -> Key<T>;
}

/// An id without the rest of the shard key.
#[derive(Debug, Clone, Copy)]
pub struct IdAlone;

/// An id together with the shard key, if the model has a shard key.
#[derive(Debug, Clone, Copy)]
pub struct IdAndShardKey;

/// A value that identifies one document of the model `T` for a write in a session of the scope `C`: any [`IntoKey`] or, for a
/// model with a `shard_key`, a value that [identifies the shard](Routes).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a document of the model `{T}`",
    label = "neither its id, nor a `Ref<{T}>`, nor the document"
)]
pub trait IntoRouted<T: Document, C>: IntoKey<T> {}
impl<T: Document, C, K: IntoKey<T, Knows: Routes<T, C>>> IntoRouted<T, C> for K {}

/// The shard of a document of `T` is known in a session of the scope `C`, as every write of one document requires. The id is
/// enough for models without a `shard_key`, and for models with a key of `_id` and scope only.
#[diagnostic::on_unimplemented(
    message = "`{T}` has a shard key, and an `_id` alone does not identify the shard of its document",
    label = "identifies the document, but not its shard",
    note = "pass the document that was read, or its id with the rest of the shard key: `{T}Key {{ … }}`"
)]
pub trait Routes<T, C> {}
#[diagnostic::do_not_recommend]
impl<T: Document, C> Routes<T, C> for IdAndShardKey {}
#[diagnostic::do_not_recommend]
impl<T: Document<Sharding: ByIdAlone<C>>, C> Routes<T, C> for IdAlone {}

/// Models for which an id identifies the shard in a session of the scope `C`: see [`Routes`].
pub trait ByIdAlone<C> {}

/// No shard key, or the `_id` alone.
#[derive(Debug)]
pub struct Unsharded;
impl<C> ByIdAlone<C> for Unsharded {}

/// A shard key with fields other than the `_id` and the scope.
#[derive(Debug)]
pub struct Sharded;

/// A shard key of the scope, a `C`, and optionally the `_id`.
#[derive(Debug)]
pub struct ShardedInScope<C>(std::marker::PhantomData<fn() -> C>);
impl<C> ByIdAlone<C> for ShardedInScope<C> {}

/// The key of one document: the id and, for a model with a shard key, the known fields of the shard key.
pub struct Key<T: Document> {
    id: T::Id,
    /// The condition that the remaining fields of the shard key have their values.
    shard: FilterNode,
}

impl<T: Document> Key<T> {
    /// Returns the key of the document with this id.
    pub fn of_id(id: T::Id) -> Self {
        Self {
            id,
            shard: FilterNode::All,
        }
    }

    /// Adds a field of the shard key. Called by derived code.
    #[doc(hidden)]
    #[must_use]
    pub fn with_field<V: Stored>(self, field: &'static str, value: &V) -> Self {
        let condition = field_test::<T>(&Path::ROOT.subfield(field), "$eq", encode_value(value));
        Self {
            id: self.id,
            shard: self.shard.and(condition.into_node()),
        }
    }

    /// Returns the key of a stored document.
    pub(crate) fn of_stored(id: T::Id, raw: &RawDocument) -> Self {
        let shard = T::MODEL.shard_key_in(raw).map(|(field, value)| {
            let path = Path::ROOT.subfield(field);
            FilterNode::Test(path, "$eq", value.into())
        });
        Self {
            id,
            shard: shard.fold(FilterNode::All, FilterNode::and),
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &T::Id {
        &self.id
    }

    pub(crate) fn into_id(self) -> T::Id {
        self.id
    }

    /// Returns the condition that a document has the id.
    pub(crate) fn id_condition(&self) -> Result<FilterNode> {
        Ok(FilterNode::Test(
            Path::ROOT.subfield("_id"),
            "$eq",
            encode_value(&self.id)?,
        ))
    }

    /// Returns the condition that a document has the known fields of the shard key.
    pub(crate) fn shard_condition(&self) -> FilterNode {
        self.shard.clone()
    }

    /// Returns the condition that a document has the id and the known fields of the shard key.
    pub(crate) fn condition(&self) -> Result<FilterNode> {
        Ok(self.id_condition()?.and(self.shard_condition()))
    }

    /// Returns the condition as a filter document.
    pub(crate) fn to_raw(&self) -> Result<RawDocumentBuf> {
        let filter = match &self.shard {
            FilterNode::All => Ok(id_filter(&encode_value(&self.id)?)),
            _ => Filter::<T>::from_node(self.condition()?).to_raw(),
        };
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
        f.debug_tuple("Key").field(&self.condition()).finish()
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
    ($($source:ty => $id:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Document<Id = $id>> IntoKey<T> for $source {
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
#[cfg(feature = "uuid")]
keys!(uuid::Uuid => uuid::Uuid, &uuid::Uuid => uuid::Uuid);
