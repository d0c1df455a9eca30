//! References with rules and two-way links: what the model says of them, and the proof that each side leads to the other.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{
    Private, around,
    fields::{layout_function, mentions, of_stored},
};
use crate::{
    attr::{Container, Layout, Link, OnDelete, no_links},
    ctxt::Ctxt,
    model::{Field, Model},
};

const NO_WAY: &str = "a reference with a rule is not found in a map, nor in an array that is in an array: make it an array of structs, or leave \
     `exists` and `on_delete` out of the struct";
const NO_DEPTH: &str = "a struct that holds itself has references at any depth, where none is found: leave `exists` and `on_delete` out of it, or give \
     its elements documents of their own";
const NO_ARRAY: &str = "`on_delete = pull` takes the struct with the reference out of its array, and it is in none here: make it an array of these \
     structs, or say `restrict`, `cascade` or, for an `Option`, `nullify`";
const AROUND_HOOKS: &str = "what follows from deleting another document would go around the hooks of this one: say `restrict` or `keep` inside of it, \
     and delete or change these documents first";

fn assert(at: &impl Spanned, condition: &TokenStream, message: &str) -> TokenStream {
    quote_spanned!(at.span()=> const _: () = ::core::assert!(#condition, #message);)
}

impl<'a> Model<'a> {
    fn links(&self) -> impl Iterator<Item = (&Field<'a>, &Link)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.link.as_ref()?)))
    }

    /// The fields in which may be embedded structs with references.
    fn embedding(&self) -> impl Iterator<Item = &Field<'a>> {
        let fields = self.fields.iter();
        fields.filter(|field| matches!(field.layout, Layout::Embed | Layout::EmbedMany(_)))
    }

    /// Whether there may be references with rules.
    pub(super) fn may_have_links(&self) -> bool {
        self.links().next().is_some() || self.embedding().next().is_some()
    }

    /// Those that do not hold the struct itself.
    pub(super) fn embedding_others(&self) -> impl Iterator<Item = &Field<'a>> {
        self.embedding()
            .filter(|field| !mentions(field.ty, &self.input.ident))
    }

    /// What an embedded struct has of references with rules.
    pub(crate) fn links_inside(&self, private: &Private) -> Option<TokenStream> {
        let own = self.links().filter_map(|(field, link)| match link {
            Link::Owner { on_delete, .. } => {
                let takes_element = *on_delete == OnDelete::Pull
                    && !matches!(field.layout, Layout::ReferenceMany(_));
                let on_delete = on_delete.tokens(private);
                Some(quote!(.with_rule(#on_delete, #takes_element)))
            }
            Link::Inverse { .. } => None,
        });
        let nested = self.embedding_others().map(|field| {
            let links = of_stored(field.ty, private, &quote!(LINKS));
            quote!(.with_field(#links))
        });
        let reported = self.reported();
        around(
            &quote!(#(#own)* #(#nested)*),
            |all| quote!(#private::LinksInside::NONE #all #reported),
        )
    }

    /// A type without parameters says by itself what is misplaced in it, and where.
    fn reported(&self) -> Option<TokenStream> {
        let is_plain = self.input.generics.params.is_empty();
        is_plain.then(|| quote!(.reported()))
    }

    /// The generated body of `links`.
    pub(crate) fn look_for_links(&self, is_document: bool, private: &Private) -> TokenStream {
        // Those of a document are in its model.
        let own = self.links().filter(|_| !is_document);
        let own = own.filter_map(|(field, link)| match link {
            Link::Owner { on_delete, .. } => {
                let (name, stored, ty) = (field.ident.unraw().to_string(), &field.stored, field.ty);
                let on_delete = on_delete.tokens(private);
                let omits_none = field.whether_none_is_omitted(private);
                Some(quote!(found.link::<#ty>(#name, #stored, #on_delete, #omits_none);))
            }
            Link::Inverse { .. } => None,
        });
        let nested = self
            .embedding()
            .filter(|field| is_document || !mentions(field.ty, &self.input.ident));
        let nested = nested.map(|field| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let links = of_stored(field.ty, private, &quote!(links));
            // What is wrong with the type is said at the type, once.
            quote!({
                let links: fn(&mut #private::LinksWalk) = #links;
                found.field(#name, #stored, links);
            })
        });
        quote!(#(#own)* #(#nested)*)
    }

    /// The generated checks of an embedded struct: that what is in its fields can be kept.
    pub(crate) fn inside_checks_of_embedded(&self, private: &Private) -> TokenStream {
        if !self.input.generics.params.is_empty() {
            return TokenStream::new();
        }
        let checks = self
            .embedding_others()
            .flat_map(|field| self.kept(field, private));
        let name = &self.input.ident;
        let own = self.embedding().filter(|field| mentions(field.ty, name));
        let own = own.map(|field| {
            let links = quote!(<#name as #private::Stored>::LINKS);
            assert(field.ty, &quote!(!#links.any), NO_DEPTH)
        });
        quote!(#(#checks)* #(#own)*)
    }

    /// The generated checks of a document: that what is in its fields can be kept.
    pub(crate) fn inside_checks(&self, container: &Container, private: &Private) -> TokenStream {
        if !self.input.generics.params.is_empty() {
            return TokenStream::new();
        }
        let checks = self.embedding().flat_map(|field| {
            let links = of_stored(field.ty, private, &quote!(LINKS));
            let mut checks = self.kept(field, private);
            checks.push(assert(field.ty, &quote!(!#links.needs_array), NO_ARRAY));
            if container.hooks.is_some() {
                checks.push(assert(field.ty, &quote!(!#links.acts), AROUND_HOOKS));
            }
            if container.variant_of.is_some() {
                let message = no_links("the model of a variant");
                checks.push(assert(field.ty, &quote!(!#links.any), &message));
            }
            checks
        });
        quote!(#(#checks)*)
    }

    fn kept(&self, field: &Field<'_>, private: &Private) -> Vec<TokenStream> {
        let links = of_stored(field.ty, private, &quote!(LINKS));
        vec![assert(field.ty, &quote!(!#links.misplaced), NO_WAY)]
    }

    /// What is said of them in the model.
    pub(crate) fn links_of_model(&self, has_hooks: bool, private: &Private) -> TokenStream {
        let (mut links, mut inverses) = (Vec::new(), Vec::new());
        for (field, link) in self.links() {
            let (ty, stored) = (field.ty, &field.stored);
            let name = field.ident.unraw().to_string();
            let other = quote_spanned!(ty.span()=> <<#ty as #private::RefersTo>::Target as #private::Document>);
            let is_checked = self.input.generics.params.is_empty();
            let side = quote! {
                is_checked: #is_checked,
                field: #name,
                stored: #stored,
                is_many: <#ty as #private::RefersTo>::IS_MANY,
                way: &[#private::LinkStep { stored: #stored, is_array: <#ty as #private::RefersTo>::IS_MANY }],
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
                    let omits_none = field.omits_none(private);
                    links.push(quote!(#private::OwnLink {
                        side: #private::LinkSide { #side },
                        inverse: #inverse,
                        on_delete: #on_delete,
                        #omits_none
                    }));
                }
                Link::Inverse { of } => {
                    let of = of.unraw().to_string();
                    let omits_none = field.omits_none(private);
                    let max = match field.layout.max() {
                        Some(max) => quote!(#private::Some(#max)),
                        None => quote!(#private::None),
                    };
                    inverses.push(quote!(#private::InverseLink {
                        side: #private::LinkSide { #side },
                        of: #of,
                        max: #max,
                        #omits_none
                    }));
                }
            }
        }
        let nested = self.embedding().map(|field| {
            let links = of_stored(field.ty, private, &quote!(LINKS));
            quote!(.with_field(#links))
        });
        let reported = self.reported();
        let links = around(&quote!(#(#links),*), |links| quote!(links: &[#links],));
        let inverses = around(
            &quote!(#(#inverses),*),
            |inverses| quote!(inverses: &[#inverses],),
        );
        let inside = around(&quote!(#(#nested)*), |nested| {
            quote! {
                links_inside: #private::LinksInside::NONE #nested .in_document(#has_hooks) #reported,
                all_links: #private::all_links::<Self>,
            }
        });
        quote!(#links #inverses #inside)
    }

    /// The generated checks that the fields on the other sides are there, of the right types, and name these.
    pub(crate) fn link_checks(&self, private: &Private) -> Option<TokenStream> {
        self.links().next()?;
        let name = &self.input.ident;
        let (_, own, _) = self.input.generics.split_for_impl();
        let checks = self.links().filter_map(|(field, link)| {
            let (ty, rust) = (field.ty, field.ident.unraw().to_string());
            let (side, says, setting, other): (_, _, _, &Ident) = match link {
                Link::Owner { inverse, .. } => {
                    (quote!(inverse_side), quote!(is_followed), "inverse_of", inverse.as_ref()?)
                }
                Link::Inverse { of } => (quote!(owning_side), quote!(is_of_link), "inverse", of),
            };
            let side = quote_spanned!(other.span()=> #private::#side::<#name #own, #ty, _>(|model| model.#other()));
            if !self.input.generics.params.is_empty() {
                return Some(quote!(#side;));
            }
            let message = format!("`{other}` there does not say `{setting} = {rust}`: each side of a link names the other");
            let target = quote!(<<#ty as #private::RefersTo>::Target as #private::Document>);
            let says = quote!(#private::#says(&<#name as #private::Document>::MODEL, #rust, &#target::MODEL));
            // Where the types do not fit, nothing more is said.
            Some(quote_spanned! {other.span()=>
                const _: () = {
                    let _ = || #side;
                    ::core::assert!(#says, #message);
                };
            })
        });
        Some(match self.input.generics.params.is_empty() {
            true => quote!(#(#checks)*),
            false => layout_function(&self.input.generics, checks),
        })
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
    fn tokens(self, private: &Private) -> TokenStream {
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
