//! The results of joins.

use std::{fmt, sync::Arc};

use bson::RawBson;
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    language::query::encode_value,
    model::{
        document::{Document, Ref},
        json::TextForm,
        projection::Projection,
    },
};

/// The result of a joined reference: the target document, or the id of a missing target.
///
/// A loaded target serializes as the document, and a missing target as `{"missing": id}`.
///
/// ```
/// use odm::relation::Linked;
///
/// let links: [Linked<&str, i64>; 2] = [Linked::Loaded("ann"), Linked::Missing(7)];
/// assert_eq!(serde_json::to_string(&links)?, r#"["ann",{"missing":7}]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked<T, I> {
    /// The target document.
    Loaded(T),
    /// The reference, because its target does not exist or does not match the condition of the join.
    Missing(I),
}

impl<T: Serialize, I: Serialize> Serialize for Linked<T, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Loaded(document) => document.serialize(serializer),
            Self::Missing(id) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("missing", id)?;
                map.end()
            }
        }
    }
}

/// A type that a join can load: a document or a [`Projection`] of a document, alone or with further joins.
pub trait LinkItem: Send + Sync + 'static {
    /// The model of the document.
    type Of: Document;
}

impl<P: Projection<Of: Document>> LinkItem for P {
    type Of = P::Of;
}

/// A joined reference: the target document, or the id of a missing target.
///
/// References to the same document share one value.
pub struct Link<X: LinkItem>(Linked<Arc<X>, Ref<X::Of>>);

impl<X: LinkItem> Link<X> {
    pub(super) fn from_loaded(document: Arc<X>) -> Self {
        Self(Linked::Loaded(document))
    }

    pub(super) fn from_missing(reference: Ref<X::Of>) -> Self {
        Self(Linked::Missing(reference))
    }

    /// Returns the target document or the missing reference.
    pub fn get(&self) -> Linked<&X, &Ref<X::Of>> {
        match &self.0 {
            Linked::Loaded(document) => Linked::Loaded(document),
            Linked::Missing(reference) => Linked::Missing(reference),
        }
    }

    /// Returns the target document, unless the target is missing.
    pub fn loaded(&self) -> Option<&X> {
        match &self.0 {
            Linked::Loaded(document) => Some(document),
            Linked::Missing(_) => None,
        }
    }
}

impl<X: LinkItem> Clone for Link<X> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Serializes as [`Linked`], with an `ObjectId` or a UUID of a missing target as text in JSON.
impl<X: LinkItem + Serialize> Serialize for Link<X> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let linked = match self.get() {
            Linked::Loaded(document) => Linked::Loaded(document),
            Linked::Missing(reference) => Linked::Missing(MissingId(reference)),
        };
        linked.serialize(serializer)
    }
}

/// The id of a missing target, as text in JSON.
struct MissingId<'a, T: Document>(&'a Ref<T>);

impl<T: Document> Serialize for MissingId<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match encode_value(self.0.id()) {
            Ok(RawBson::ObjectId(id)) => id.serialize_text(serializer),
            Ok(RawBson::Binary(binary)) => match binary.to_uuid() {
                Ok(id) => id.serialize_text(serializer),
                Err(_) => self.0.serialize(serializer),
            },
            _ => self.0.serialize(serializer),
        }
    }
}

impl<X: LinkItem + fmt::Debug> fmt::Debug for Link<X>
where
    <X::Of as Document>::Id: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A joined array of references, in the order and number of the references. A [`JoinOf`](super::JoinOf) can change the order and
/// number.
pub struct Links<X: LinkItem>(Vec<Link<X>>);

impl<X: LinkItem> Links<X> {
    /// Returns an iterator over the result of each reference.
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.into_iter()
    }

    /// Returns an iterator over the target documents, without missing targets.
    pub fn loaded(&self) -> impl Iterator<Item = &X> {
        self.0.iter().filter_map(Link::loaded)
    }

    /// Returns an iterator over the references with a missing target.
    pub fn missing(&self) -> impl Iterator<Item = &Ref<X::Of>> {
        self.iter().filter_map(|link| match link {
            Linked::Loaded(_) => None,
            Linked::Missing(reference) => Some(reference),
        })
    }

    /// Returns the number of references.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the array has no references.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the result of the reference at a position.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Linked<&X, &Ref<X::Of>>> {
        self.0.get(index).map(Link::get)
    }
}

impl<X: LinkItem> FromIterator<Link<X>> for Links<X> {
    fn from_iter<I: IntoIterator<Item = Link<X>>>(links: I) -> Self {
        Self(links.into_iter().collect())
    }
}

impl<'a, X: LinkItem> IntoIterator for &'a Links<X> {
    type Item = Linked<&'a X, &'a Ref<X::Of>>;
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, Link<X>>,
        fn(&'a Link<X>) -> Linked<&'a X, &'a Ref<X::Of>>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(Link::get)
    }
}

impl<X: LinkItem> Clone for Links<X> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Serializes as an array of [`Linked`].
impl<X: LinkItem + Serialize> Serialize for Links<X> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<X: LinkItem + fmt::Debug> fmt::Debug for Links<X>
where
    <X::Of as Document>::Id: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
