//! Joined documents.

use std::{fmt, sync::Arc};

use crate::{
    document::{Document, Ref},
    projection::Projection,
};

/// One end of a reference: the document, or the id of one that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked<T, I> {
    /// The document.
    Loaded(T),
    /// A reference to a document that does not exist or, in a join with a condition, does not meet it.
    Missing(I),
}

/// What can be loaded for a reference: a document or a [`Projection`] of one, alone or with what it is joined with.
pub trait Item: Send + Sync + 'static {
    /// The model.
    type Of: Document;
}

impl<P: Projection<Of: Document>> Item for P {
    type Of = P::Of;
}

/// The document that a reference leads to, or its id if there is none.
///
/// Documents that are referred to more than once are shared.
pub struct Link<X: Item>(Linked<Arc<X>, Ref<X::Of>>);

impl<X: Item> Link<X> {
    pub(super) fn loaded_from(document: Arc<X>) -> Self {
        Self(Linked::Loaded(document))
    }

    pub(super) fn missing(reference: Ref<X::Of>) -> Self {
        Self(Linked::Missing(reference))
    }

    /// What the reference leads to.
    pub fn get(&self) -> Linked<&X, &Ref<X::Of>> {
        match &self.0 {
            Linked::Loaded(document) => Linked::Loaded(document),
            Linked::Missing(reference) => Linked::Missing(reference),
        }
    }

    /// The document, if it is there.
    pub fn loaded(&self) -> Option<&X> {
        match &self.0 {
            Linked::Loaded(document) => Some(document),
            Linked::Missing(_) => None,
        }
    }
}

impl<X: Item> Clone for Link<X> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<X: Item + fmt::Debug> fmt::Debug for Link<X>
where
    <X::Of as Document>::Id: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The documents that an array of references leads to, in the order and the number of the references, if the join does not
/// [say otherwise](super::JoinOf).
pub struct Links<X: Item>(Vec<Link<X>>);

impl<X: Item> Links<X> {
    /// What each reference leads to.
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.into_iter()
    }

    /// The documents that are there.
    pub fn loaded(&self) -> impl Iterator<Item = &X> {
        self.0.iter().filter_map(Link::loaded)
    }

    /// The references that lead nowhere.
    pub fn missing(&self) -> impl Iterator<Item = &Ref<X::Of>> {
        self.iter().filter_map(|link| match link {
            Linked::Loaded(_) => None,
            Linked::Missing(reference) => Some(reference),
        })
    }

    /// How many references there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the reference at a position leads to.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Linked<&X, &Ref<X::Of>>> {
        self.0.get(index).map(Link::get)
    }
}

impl<X: Item> FromIterator<Link<X>> for Links<X> {
    fn from_iter<I: IntoIterator<Item = Link<X>>>(links: I) -> Self {
        Self(links.into_iter().collect())
    }
}

impl<'a, X: Item> IntoIterator for &'a Links<X> {
    type Item = Linked<&'a X, &'a Ref<X::Of>>;
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, Link<X>>,
        fn(&'a Link<X>) -> Linked<&'a X, &'a Ref<X::Of>>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(Link::get)
    }
}

impl<X: Item> Clone for Links<X> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<X: Item + fmt::Debug> fmt::Debug for Links<X>
where
    <X::Of as Document>::Id: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
