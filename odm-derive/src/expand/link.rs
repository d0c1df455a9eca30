//! References with rules and two-way links: what the model says of them, and the proof that each side leads to the other.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{fields::layout_function, quiet};
use crate::{
    attr::{Link, OnDelete, no_links},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    fn links(&self) -> impl Iterator<Item = (&Field<'a>, &Link)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.link.as_ref()?)))
    }

    /// The declared indexes, with those by which is found what refers to a document, and what writes to links have begun.
    pub(crate) fn with_indexes_of_links(
        &self,
        declared: &TokenStream,
        private: &TokenStream,
    ) -> TokenStream {
        if self.links().next().is_none() {
            return declared.clone();
        }
        let references = self.links().filter_map(|(field, link)| match link {
            Link::Owner { inverse: None, .. } => Some(&field.stored),
            _ => None,
        });
        quote!(#private::with_references(&[#(#references),*], #declared))
    }

    pub(crate) fn has_links(&self) -> bool {
        self.links().next().is_some()
    }

    /// What is said of them in the model.
    pub(crate) fn links_of_model(&self, private: &TokenStream) -> TokenStream {
        let (mut links, mut inverses) = (Vec::new(), Vec::new());
        for (field, link) in self.links() {
            let (ty, stored) = (field.ty, &field.stored);
            let name = field.ident.unraw().to_string();
            let other = quote_spanned!(ty.span()=> <<#ty as #private::RefersTo>::Target as #private::Document>);
            let side = quote! {
                field: #name,
                stored: #stored,
                is_many: <#ty as #private::RefersTo>::IS_MANY,
                collection: #other::COLLECTION,
                model: || &#other::MODEL,
            };
            match link {
                Link::Owner {
                    inverse, on_delete, ..
                } => {
                    let inverse = match inverse {
                        Some(inverse) => {
                            let inverse = inverse.unraw().to_string();
                            quote!(#private::Some(#inverse))
                        }
                        None => quote!(#private::None),
                    };
                    let on_delete = on_delete.tokens(private);
                    links.push(quote!(#private::OwnLink {
                        side: #private::LinkSide { #side },
                        inverse: #inverse,
                        on_delete: #on_delete,
                    }));
                }
                Link::Inverse { of } => {
                    let of = of.unraw().to_string();
                    let max = match field.layout.max() {
                        Some(max) => quote!(#private::Some(#max)),
                        None => quote!(#private::None),
                    };
                    inverses.push(quote!(#private::InverseLink {
                        side: #private::LinkSide { #side },
                        of: #of,
                        max: #max,
                    }));
                }
            }
        }
        quote!(links: &[#(#links),*], inverses: &[#(#inverses),*],)
    }

    /// The generated checks that the fields on the other sides are there, and of the right types.
    pub(crate) fn link_checks(&self, private: &TokenStream) -> Option<TokenStream> {
        self.links().next()?;
        let name = &self.input.ident;
        let (_, own, _) = self.input.generics.split_for_impl();
        let checks = self.links().filter_map(|(field, link)| {
            let ty = field.ty;
            let (check, other): (_, &Ident) = match link {
                Link::Owner { inverse, .. } => (quote!(inverse_side), inverse.as_ref()?),
                Link::Inverse { of } => (quote!(owning_side), of),
            };
            Some(quote_spanned!(other.span()=> #private::#check::<#name #own, #ty, _>(|model| model.#other());))
        });
        let function = layout_function(&self.input.generics, checks);
        let quiet = quiet();
        Some(quote!(#quiet #function))
    }

    /// What becomes of a document when another one is deleted is done without its hooks.
    pub(crate) fn refuse_rules_around_hooks(&self, ctxt: &mut Ctxt) {
        for (_, link) in self.links() {
            if let Link::Owner {
                on_delete: OnDelete::Cascade | OnDelete::Nullify | OnDelete::Pull,
                said: Some(said),
                ..
            } = link
            {
                ctxt.error(
                    said,
                    "what follows from deleting another document would go around the hooks of this one: say `restrict` or `keep`, and \
                     delete or change these documents first",
                );
            }
        }
    }

    /// Links where nothing keeps them yet.
    pub(crate) fn refuse_links(&self, ctxt: &mut Ctxt, place: &str) {
        for (_, link) in self.links() {
            let (Link::Owner { at, .. } | Link::Inverse { of: at }) = link;
            ctxt.error(at, no_links(place));
        }
    }
}

impl OnDelete {
    fn tokens(self, private: &TokenStream) -> TokenStream {
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
