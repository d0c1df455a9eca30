//! The types of the fields of a tree.

use crate::model::document::{Document, Ref};

/// The type of the reference to the parent in a tree of `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the parent in a tree of `{M}` cannot be a `{Self}`",
    label = "not an `Option<Ref<{M}>>`",
    note = "a root has no parent: declare `#[reference(on_delete = restrict)] parent: Option<Ref<{M}>>`"
)]
pub trait TreeParent<M: Document> {
    fn parent(&self) -> Option<&Ref<M>>;
}

#[diagnostic::do_not_recommend]
impl<M: Document> TreeParent<M> for Option<Ref<M>> {
    fn parent(&self) -> Option<&Ref<M>> {
        self.as_ref()
    }
}

/// The type of the ancestors in a tree of `M`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the ancestors in a tree of `{M}` cannot be a `{Self}`",
    label = "not a `Vec<Ref<{M}>>`",
    note = "declare `#[tree(parent = parent)] ancestors: Vec<Ref<{M}>>`"
)]
pub trait TreeAncestors<M: Document> {
    fn ancestors(&self) -> &[Ref<M>];
}

#[diagnostic::do_not_recommend]
impl<M: Document> TreeAncestors<M> for Vec<Ref<M>> {
    fn ancestors(&self) -> &[Ref<M>] {
        self
    }
}
