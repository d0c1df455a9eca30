//! Code generation for trees: the description of the model, the index of the ancestors, and access to parent and ancestors.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{LitInt, spanned::Spanned};

use super::PrivatePath;
use crate::{
    attr::{
        CopySource, DerivedValue, IndexAttr, IndexKey, IndexOptions, Layout, LinkAttr, OnDelete,
    },
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    fn tree_fields(&self) -> impl Iterator<Item = (&Field<'a>, &CopySource, &LitInt)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| match field.derived.as_ref()? {
            DerivedValue::Ancestors { from, max } => Some((field, from, max)),
            _ => None,
        })
    }

    /// Returns the ancestors of the tree, and the reference to the parent.
    fn tree(&self) -> Option<(&Field<'a>, &Field<'a>, &LitInt)> {
        let (ancestors, from, max) = self.tree_fields().next()?;
        let parent = self.field_named(&from.reference)?;
        matches!(parent.layout, Layout::Reference).then_some((ancestors, parent, max))
    }

    /// Checks the tree of the model. `check_derived` checks that the parent is a reference. Returns the index of the ancestors.
    pub(crate) fn check_tree(&self, ctxt: &mut Ctxt) -> Option<IndexAttr> {
        for (second, from, _) in self.tree_fields().skip(1) {
            let message = format!(
                "a model has only one tree: remove `{}`, or store the second parent as a plain reference",
                second.ident
            );
            ctxt.error_at(&from.reference, message);
        }
        let errors = ctxt.error_count();
        let (ancestors, from, _) = self.tree_fields().next()?;
        if let Some(param) = self.input.generics.params.first() {
            ctxt.error_at(
                param,
                "a model with type parameters cannot have a tree yet: remove `#[tree(…)]`",
            );
        }
        if let Some(predicate) = &ancestors.skip_if {
            ctxt.error_at(
                predicate,
                "a root has an empty list of ancestors, which is stored: remove `skip_serializing_if`",
            );
        }
        let (_, parent, _) = self.tree()?;
        let rule = match &parent.link {
            Some(LinkAttr::Reference { on_delete, .. }) => Some(*on_delete),
            _ => None,
        };
        if matches!(rule, None | Some(OnDelete::Keep)) {
            ctxt.error_at(
                &from.reference,
                format!(
                    "the parents in a tree must exist: write `#[reference(on_delete = restrict)]` on `{}`, or `cascade`, or `nullify`, \
                     which makes roots",
                    parent.ident
                ),
            );
        }
        if parent.default.is_some() || parent.skip_if.is_some() {
            ctxt.error_at(
                &from.reference,
                format!("a root stores its missing parent as null: remove serde's `default` and `skip_serializing_if` from `{}`", parent.ident),
            );
        }
        let is_indexed = ancestors
            .indexes
            .iter()
            .any(|index| index.partial.is_none());
        let is_valid = ancestors.is_valid && ctxt.error_count() == errors && !is_indexed;
        is_valid.then(|| {
            let options = IndexOptions::default();
            IndexAttr {
                keys: vec![IndexKey::of_field(ancestors.ident, &options)],
                options,
            }
        })
    }

    /// Returns the member of the `Model` constant for the tree.
    pub(super) fn tree_member(&self, private: &PrivatePath) -> Option<TokenStream> {
        let (ancestors, parent, max) = self.tree()?;
        let (ancestors, parent) = (&ancestors.stored, &parent.stored);
        Some(quote! {
            tree: #private::Some(#private::TreeField { parent: #parent, ancestors: #ancestors, max: #max }),
        })
    }

    /// Returns the `TreeDocument` implementation, which also checks the types of parent and ancestors.
    pub(super) fn tree_impl(&self, private: &PrivatePath) -> Option<TokenStream> {
        let (ancestors, parent, _) = self.tree()?;
        let name = &self.input.ident;
        let (parent_type, ancestors_type) = (parent.ty, ancestors.ty);
        let (parent, ancestors) = (parent.ident, ancestors.ident);
        let parent = quote_spanned!(parent_type.span()=> <#parent_type as #private::TreeParent<#name>>::parent(&self.#parent));
        let ancestors = quote_spanned!(ancestors_type.span()=> <#ancestors_type as #private::TreeAncestors<#name>>::ancestors(&self.#ancestors));
        Some(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::TreeDocument for #name {
                fn parent(&self) -> #private::Option<&#private::Ref<Self>> { #parent }
                fn ancestors(&self) -> &[#private::Ref<Self>] { #ancestors }
            }
        })
    }
}
