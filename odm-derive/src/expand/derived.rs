//! What a type has of other documents: where each value comes from, and the proof that it fits.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Path, ext::IdentExt, spanned::Spanned};

use super::{
    Private, around,
    fields::{at, layout_function, of_stored},
};
use crate::{
    attr::{Derived, Layout, Link, OnDelete, Pace, Source, What},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    /// The fields that are taken from other documents.
    fn taken(&self) -> impl Iterator<Item = (&Field<'a>, &Derived, &Source)> {
        self.fields.iter().filter_map(|field| {
            let derived = field.derived.as_ref()?;
            Some((field, derived, derived.source()?))
        })
    }

    /// Whether it is inserted as a draft, into which the framework puts what other documents have.
    pub(crate) fn is_drafted(&self, companion: Option<&Path>) -> bool {
        let is_drafted =
            |field: &Field<'_>| matches!(field.filled, Some(What::Copy | What::Computed));
        companion.is_some() || self.fields.iter().any(is_drafted)
    }

    /// Finds the references through which values are taken.
    pub(crate) fn check_derived(&self, ctxt: &mut Ctxt) {
        for (field, derived, Source { reference, .. }) in self.taken() {
            let found = self.field_named(reference);
            let wrong = match found.map(|other| &other.layout) {
                None => Some(format!(
                    "there is no field `{reference}` beside this one: a copy is taken through a reference in the same struct"
                )),
                Some(Layout::ReferenceMany(_) | Layout::ReferenceOverflow(_)) => Some(format!(
                    "`{reference}` leads to several documents: embed a struct with one reference and its copies, \
                     `#[embed(max = N)] {reference}: Vec<…>`"
                )),
                Some(Layout::Reference | Layout::Wrong) => None,
                Some(_) => Some(format!(
                    "`{reference}` is no reference: declare it so, `#[reference] {reference}: Ref<…>`"
                )),
            };
            if let Some(message) = wrong {
                ctxt.error(reference, message);
            }
            if let Derived::Denormalized {
                clears: Some(at), ..
            } = derived
            {
                let message = match found.and_then(|other| other.link.as_ref()) {
                    Some(Link::Owner {
                        on_delete: OnDelete::Keep,
                        ..
                    }) => None,
                    Some(Link::Owner { .. }) => Some(format!(
                        "what becomes of `{reference}` when its document is deleted is said there, and the copy follows that: leave `on_delete` \
                         out here, or say `#[reference(on_delete = keep)]` there"
                    )),
                    _ => Some(format!(
                        "`{reference}` stays then, and leads nowhere: say so there, `#[reference(on_delete = keep)]`"
                    )),
                };
                if let Some(message) = message {
                    ctxt.error(at, message);
                }
            }
            if field.link.is_some() {
                ctxt.error(
                    reference,
                    "a copy of a reference has no rule of its own: leave it to the reference that is copied",
                );
            }
            if field.stored == "_id" {
                ctxt.error(reference, "the `_id` of a document is no copy");
            }
            if field.layout.overflow().is_some() {
                ctxt.error(
                    field.ty,
                    "a copy of an array that overflows would have the elements in its document alone: leave it out, and read them there",
                );
            }
        }
    }

    /// Refuses copies and snapshots where nothing keeps them yet.
    pub(crate) fn refuse_derived(&self, ctxt: &mut Ctxt, place: &str) {
        for field in self.fields.iter().filter(|field| field.derived.is_some()) {
            ctxt.error(
                field.ident,
                format!("{place} has no copies and no snapshots yet: leave the attribute out"),
            );
        }
    }

    /// The fields in which may be embedded structs that have something of other documents.
    fn copying(&self) -> impl Iterator<Item = &Field<'a>> {
        let fields = self.fields.iter();
        let overflowing = fields.filter(|field| matches!(field.layout, Layout::Overflow(_)));
        self.embedding_others().chain(overflowing)
    }

    /// What the type has of other documents, as data.
    pub(crate) fn copies(&self, private: &Private) -> Option<TokenStream> {
        let own = self.taken().filter_map(|(field, derived, source)| {
            let name = field.ident.unraw().to_string();
            let stored = &field.stored;
            let through = self.reference(source)?;
            let (ty, stored_reference) = (through.ty, &through.stored);
            let target = quote_spanned!(ty.span()=> <#ty as #private::RefersTo>::Target);
            let first = source.path.first()?.unraw().to_string();
            let steps = steps(source);
            let follows = match derived {
                Derived::Denormalized { pace: Pace::Bounded, .. } => quote!(Bounded),
                Derived::Denormalized { pace: Pace::Sync, .. } => quote!(Sync),
                Derived::Denormalized { pace: Pace::Background, .. } => quote!(Background),
                Derived::Taken { .. } | Derived::Frozen => quote!(Never),
            };
            let clears = derived.is_clearing();
            let omits_none = field.omits_none(private);
            let has_origin = matches!(derived, Derived::Taken { origin: true, .. });
            Some(quote! {
                #private::CopiedField {
                    field: #name,
                    stored: #stored,
                    reference: #stored_reference,
                    is_optional: <#ty as #private::Stored>::MAY_BE_NONE,
                    collection: <#target as #private::Document>::COLLECTION,
                    model: || &<#target as #private::Document>::MODEL,
                    from: || #private::path_of(<#target as #private::Document>::fields() #(#steps)*),
                    first: #first,
                    follows: #private::Follows::#follows,
                    clears: #clears,
                    has_origin: #has_origin,
                    #omits_none
                }
            })
        });
        let frozen = self
            .fields
            .iter()
            .filter(|field| matches!(field.derived, Some(Derived::Frozen)));
        let frozen = frozen.map(|field| &field.stored);
        let inside = self.copying().map(|field| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let copies = of_stored(field.ty, private, &quote!(COPIES));
            let is_array = of_stored(field.ty, private, &quote!(IS_ARRAY));
            quote!(#private::InEmbedded { field: #name, stored: #stored, is_array: #is_array, copies: #copies })
        });
        let own = around(&quote!(#(#own),*), |own| quote!(own: &[#own],));
        let frozen = around(&quote!(#(#frozen),*), |frozen| quote!(frozen: &[#frozen],));
        let inside = around(&quote!(#(#inside),*), |inside| quote!(inside: &[#inside],));
        around(
            &quote!(#own #frozen #inside),
            |all| quote!(&#private::Copies { #all ..#private::Copies::NONE }),
        )
    }

    /// The generated checks that each copy has the type of what it is taken from, and that nothing embedded is inserted with values
    /// that the framework fills.
    pub(crate) fn copy_checks(
        &self,
        is_drafted: bool,
        attribute: &str,
        private: &Private,
    ) -> TokenStream {
        let fits = self.taken().filter_map(|(field, derived, source)| {
            let through = self.reference(source)?;
            let (ty, of) = (field.ty, through.ty);
            let steps = steps(source);
            let last = source.path.last()?.span();
            let source =
                quote_spanned!(last=> #private::copied::<#of, _>(|source| source #(#steps)*));
            let fits = match derived.is_clearing() {
                true => quote_spanned!(ty.span()=> fits_cleared),
                false => quote_spanned!(ty.span()=> fits),
            };
            Some(quote_spanned!(ty.span()=> #source.#fits::<#ty>();))
        });
        let fits: Vec<_> = fits.collect();
        let function =
            (!fits.is_empty()).then(|| layout_function(&self.input.generics, fits.into_iter()));
        let is_generic = !self.input.generics.params.is_empty();
        let name = self.input.ident.unraw();
        let inside = self.copying().filter(|_| !is_generic).map(|field| {
            let copies = of_stored(field.ty, private, &quote!(COPIES));
            let message = format!(
                "what is embedded here has fields that the framework fills: say `#[{attribute}(…, companion)]`, \
                 and insert a `New{name}`, which is without them"
            );
            let lost = "the values of a map have no copies and no snapshots yet: use an array of structs";
            let span = field.ty.span();
            // Of what cannot overflow that is said alone.
            let is_fine = match field.layout {
                Layout::Overflow(_) if !is_drafted => {
                    let ty = field.ty;
                    quote!(!#private::overflows_plainly::<#ty>())
                }
                _ => quote!(#is_drafted),
            };
            let has_companion = at(quote!(#private::has_companion(#is_fine, #copies, #message)), span);
            let is_kept = at(quote!(#private::is_kept(#copies, #lost)), span);
            quote! {
                const _: () = #has_companion;
                const _: () = #is_kept;
            }
        });
        quote!(#function #(#inside)*)
    }

    fn reference(&self, source: &Source) -> Option<&Field<'a>> {
        let mut fields = self.fields.iter();
        // That it is no reference was reported.
        fields.find(|field| {
            *field.ident == source.reference && matches!(field.layout, Layout::Reference)
        })
    }
}

impl Field<'_> {
    /// Whether it is a copy that follows its source.
    pub(crate) fn follows(&self) -> bool {
        matches!(self.derived, Some(Derived::Denormalized { .. }))
    }

    /// The role of a place that the framework keeps, or that never changes.
    pub(crate) fn derived_role(&self, private: &Private) -> Option<TokenStream> {
        Some(match self.derived.as_ref()? {
            Derived::Denormalized { .. } => quote!(#private::role::Denormalized),
            Derived::Taken { .. } | Derived::Frozen => quote!(#private::role::Snapshot),
        })
    }
}

fn steps(source: &Source) -> impl Iterator<Item = TokenStream> {
    source
        .path
        .iter()
        .map(|step| quote_spanned!(step.span()=> .#step()))
}
