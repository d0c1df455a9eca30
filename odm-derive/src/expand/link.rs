//! Code generation for references with delete rules and two-way links: data for the model, and checks that both sides match.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{
    PrivatePath,
    fields::{layout_function, mentions_ident, stored_item},
    wrap_nonempty,
};
use crate::{
    attr::{ContainerAttrs, Layout, LinkAttr, OnDelete, no_links_message},
    ctxt::Ctxt,
    model::{Field, Model},
};

const UNREACHABLE_RULE: &str = "delete rules are not supported in maps and in arrays of arrays: use an array of structs, or remove `exists` and `on_delete` from the struct";
const RECURSIVE_RULE: &str = "delete rules are not supported in a struct that contains itself: remove `exists` and `on_delete`, or \
     make its elements documents";
const PULL_OUTSIDE_ARRAY: &str = "`on_delete = pull` removes the struct with the reference from an array, and there is no array here: use \
     an array of these structs, or write `restrict`, `cascade` or, for an `Option`, `nullify`";
const BYPASSED_HOOKS: &str = "the delete of a target would change this document without its hooks: write `restrict` or `keep` in the embedded struct, and delete or change the referrers first";

fn assertion(at: &impl Spanned, condition: &TokenStream, message: &str) -> TokenStream {
    quote_spanned!(at.span()=> const _: () = ::core::assert!(#condition, #message);)
}

impl<'a> Model<'a> {
    fn link_fields(&self) -> impl Iterator<Item = (&Field<'a>, &LinkAttr)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.link.as_ref()?)))
    }

    /// Returns the fields that may contain embedded structs with references.
    fn embedding_fields(&self) -> impl Iterator<Item = &Field<'a>> {
        let fields = self.fields.iter();
        fields.filter(|field| matches!(field.layout, Layout::Embed | Layout::EmbedMany(_)))
    }

    /// Returns whether the type may contain references with delete rules.
    pub(super) fn may_have_links(&self) -> bool {
        self.link_fields().next().is_some() || self.embedding_fields().next().is_some()
    }

    /// Returns the embedding fields that do not contain the struct itself.
    pub(super) fn non_recursive_embedding(&self) -> impl Iterator<Item = &Field<'a>> {
        self.embedding_fields()
            .filter(|field| !mentions_ident(field.ty, &self.input.ident))
    }

    /// Returns an expression with the delete rules inside an embedded struct.
    pub(crate) fn embedded_links(&self, private: &PrivatePath) -> Option<TokenStream> {
        let rules = self.link_fields().filter_map(|(field, link)| match link {
            LinkAttr::Reference { on_delete, .. } => {
                let takes_element = *on_delete == OnDelete::Pull
                    && !matches!(field.layout, Layout::ReferenceMany(_));
                let on_delete = on_delete.rule_tokens(private);
                Some(quote!(.with_rule(#on_delete, #takes_element)))
            }
            LinkAttr::Inverse { .. } => None,
        });
        let nested = self.non_recursive_embedding().map(|field| {
            let links = stored_item(field.ty, private, &quote!(LINKS));
            quote!(.with_field(#links))
        });
        let reported = self.reported_call();
        wrap_nonempty(
            &quote!(#(#rules)* #(#nested)*),
            |all| quote!(#private::EmbeddedLinks::NONE #all #reported),
        )
    }

    /// Returns the call that marks misplaced rules as reported. Only a type without parameters can report them itself.
    fn reported_call(&self) -> Option<TokenStream> {
        let is_plain = self.input.generics.params.is_empty();
        is_plain.then(|| quote!(.without_unreachable()))
    }

    /// Returns the generated body of `links`.
    pub(crate) fn look_for_links(&self, is_document: bool, private: &PrivatePath) -> TokenStream {
        // The links of a document are in its model.
        let rules = self.link_fields().filter(|_| !is_document);
        let rules = rules.filter_map(|(field, link)| match link {
            LinkAttr::Reference { on_delete, .. } => {
                let (name, stored, ty) = (field.ident.unraw().to_string(), &field.stored, field.ty);
                let on_delete = on_delete.rule_tokens(private);
                let omits_none = field.omits_none_closure(private);
                Some(quote!(found.add_link::<#ty>(#name, #stored, #on_delete, #omits_none);))
            }
            LinkAttr::Inverse { .. } => None,
        });
        let nested = self
            .embedding_fields()
            .filter(|field| is_document || !mentions_ident(field.ty, &self.input.ident));
        let nested = nested.map(|field| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let links = stored_item(field.ty, private, &quote!(links));
            // A function pointer moves errors about the type to the type, where the compiler reports the same error only once.
            quote!({
                let links: fn(&mut #private::LinkCollector) = #links;
                found.visit_field(#name, #stored, links);
            })
        });
        quote!(#(#rules)* #(#nested)*)
    }

    /// Returns checks of an embedded struct: the delete rules in its fields can be applied.
    pub(crate) fn embedded_delete_rule_checks(&self, private: &PrivatePath) -> TokenStream {
        if !self.input.generics.params.is_empty() {
            return TokenStream::new();
        }
        let checks = self
            .non_recursive_embedding()
            .flat_map(|field| self.misplaced_checks(field, private));
        let name = &self.input.ident;
        let recursive = self
            .embedding_fields()
            .filter(|field| mentions_ident(field.ty, name));
        let recursive = recursive.map(|field| {
            let links = quote!(<#name as #private::Stored>::LINKS);
            assertion(field.ty, &quote!(!#links.any), RECURSIVE_RULE)
        });
        quote!(#(#checks)* #(#recursive)*)
    }

    /// Returns checks of a document: the delete rules in its fields can be applied.
    pub(crate) fn delete_rule_checks(
        &self,
        container: &ContainerAttrs,
        private: &PrivatePath,
    ) -> TokenStream {
        if !self.input.generics.params.is_empty() {
            return TokenStream::new();
        }
        let checks = self.embedding_fields().flat_map(|field| {
            let links = stored_item(field.ty, private, &quote!(LINKS));
            let mut checks = self.misplaced_checks(field, private);
            checks.push(assertion(
                field.ty,
                &quote!(!#links.needs_array),
                PULL_OUTSIDE_ARRAY,
            ));
            if container.hooks.is_some() {
                checks.push(assertion(
                    field.ty,
                    &quote!(!#links.writes_on_delete),
                    BYPASSED_HOOKS,
                ));
            }
            if container.variant_of.is_some() {
                let message = no_links_message("the model of a variant");
                checks.push(assertion(field.ty, &quote!(!#links.any), &message));
            }
            checks
        });
        quote!(#(#checks)*)
    }

    fn misplaced_checks(&self, field: &Field<'_>, private: &PrivatePath) -> Vec<TokenStream> {
        let links = stored_item(field.ty, private, &quote!(LINKS));
        vec![assertion(
            field.ty,
            &quote!(!#links.unreachable),
            UNREACHABLE_RULE,
        )]
    }

    /// Returns the members of the `Model` constant for the links.
    pub(crate) fn link_members(&self, has_hooks: bool, private: &PrivatePath) -> TokenStream {
        let (mut links, mut inverses) = (Vec::new(), Vec::new());
        for (field, link) in self.link_fields() {
            let (ty, stored) = (field.ty, &field.stored);
            let name = field.ident.unraw().to_string();
            let other = quote_spanned!(ty.span()=> <<#ty as #private::RefersTo>::Target as #private::Document>);
            let is_checked = self.input.generics.params.is_empty();
            let side = quote! {
                is_checked: #is_checked,
                field: #name,
                stored: #stored,
                is_many: <#ty as #private::RefersTo>::IS_MANY,
                steps: &[#private::LinkStep { stored: #stored, is_array: <#ty as #private::RefersTo>::IS_MANY }],
                collection: #other::COLLECTION,
                model: || &#other::MODEL,
            };
            match link {
                LinkAttr::Reference {
                    inverse, on_delete, ..
                } => {
                    let inverse = match inverse {
                        Some(inverse) => {
                            let inverse = inverse.unraw().to_string();
                            quote!(#private::Some(#inverse))
                        }
                        None => quote!(#private::None),
                    };
                    let on_delete = on_delete.rule_tokens(private);
                    let omits_none = field.omits_none_member(private);
                    links.push(quote!(#private::ReferenceLink {
                        link_field: #private::LinkField { #side },
                        inverse: #inverse,
                        on_delete: #on_delete,
                        #omits_none
                    }));
                }
                LinkAttr::Inverse { of: inverse_of } => {
                    let inverse_of = inverse_of.unraw().to_string();
                    let omits_none = field.omits_none_member(private);
                    let max = match field.layout.max() {
                        Some(max) => quote!(#private::Some(#max)),
                        None => quote!(#private::None),
                    };
                    inverses.push(quote!(#private::InverseLink {
                        link_field: #private::LinkField { #side },
                        reference: #inverse_of,
                        max: #max,
                        #omits_none
                    }));
                }
            }
        }
        let nested = self.embedding_fields().map(|field| {
            let links = stored_item(field.ty, private, &quote!(LINKS));
            quote!(.with_field(#links))
        });
        let reported = self.reported_call();
        let links = wrap_nonempty(&quote!(#(#links),*), |links| quote!(links: &[#links],));
        let inverses = wrap_nonempty(
            &quote!(#(#inverses),*),
            |inverses| quote!(inverses: &[#inverses],),
        );
        let embedded = wrap_nonempty(&quote!(#(#nested)*), |nested| {
            quote! {
                embedded_links: #private::EmbeddedLinks::NONE #nested .in_document(#has_hooks) #reported,
                all_links: #private::all_links::<Self>,
            }
        });
        quote!(#links #inverses #embedded)
    }

    /// Returns checks that the fields on the other sides exist, have matching types, and name these fields.
    pub(crate) fn link_checks(&self, private: &PrivatePath) -> Option<TokenStream> {
        self.link_fields().next()?;
        let name = &self.input.ident;
        let (_, type_generics, _) = self.input.generics.split_for_impl();
        let checks = self.link_fields().filter_map(|(field, link)| {
            let (ty, rust) = (field.ty, field.ident.unraw().to_string());
            let (side, declares, setting, other): (_, _, _, &Ident) = match link {
                LinkAttr::Reference { inverse, .. } => {
                    (quote!(check_inverse), quote!(has_inverse_in), "inverse_of", inverse.as_ref()?)
                }
                LinkAttr::Inverse { of } => (quote!(check_reference), quote!(has_reference_in), "inverse", of),
            };
            let side = quote_spanned!(other.span()=> #private::#side::<#name #type_generics, #ty, _>(|model| model.#other()));
            if !self.input.generics.params.is_empty() {
                return Some(quote!(#side;));
            }
            let message = format!("`{other}` there does not declare `{setting} = {rust}`: a reference and its inverse must \
                 name each other");
            let target = quote!(<<#ty as #private::RefersTo>::Target as #private::Document>);
            let declares = quote!(#private::#declares(&<#name as #private::Document>::MODEL, #rust, &#target::MODEL));
            // With mismatched types the compiler reports only the types.
            Some(quote_spanned! {other.span()=>
                const _: () = {
                    let _ = || #side;
                    ::core::assert!(#declares, #message);
                };
            })
        });
        Some(match self.input.generics.params.is_empty() {
            true => quote!(#(#checks)*),
            false => layout_function(&self.input.generics, checks),
        })
    }

    /// Reports delete rules that would change a document without its hooks.
    pub(crate) fn ensure_hooks_run(&self, ctxt: &mut Ctxt) {
        for (_, link) in self.link_fields() {
            if let LinkAttr::Reference {
                on_delete: OnDelete::Cascade | OnDelete::Nullify | OnDelete::Pull,
                rule_word: Some(word),
                ..
            } = link
            {
                ctxt.error_at(
                    word,
                    "the delete of a target would change this document without its hooks: write `restrict` or `keep`, and delete or change the referrers first",
                );
            }
        }
    }

    /// Reports links in places that do not support links yet.
    pub(crate) fn ensure_no_links(&self, ctxt: &mut Ctxt, place: &str) {
        for (_, link) in self.link_fields() {
            let (LinkAttr::Reference { at, .. } | LinkAttr::Inverse { of: at }) = link;
            ctxt.error_at(at, no_links_message(place));
        }
    }
}

impl OnDelete {
    fn rule_tokens(self, private: &PrivatePath) -> TokenStream {
        let rule = match self {
            Self::Restrict => quote!(Restrict),
            Self::Cascade => quote!(Cascade),
            Self::Nullify => quote!(Nullify),
            Self::Pull => quote!(Pull),
            Self::Keep => quote!(Keep),
        };
        quote!(#private::OnDelete::#rule)
    }
}
