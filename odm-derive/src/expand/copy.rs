//! Code generation for copies and snapshots: data about sources, and checks of types.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Path, ext::IdentExt, spanned::Spanned};

use super::{
    PrivatePath,
    fields::{layout_function, stored_item, with_span},
    wrap_nonempty,
};
use crate::{
    attr::{CopyMode, CopySource, DerivedValue, Layout, LinkAttr, ManagedKind, OnDelete},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    /// Returns the fields with a source in another document.
    fn sourced_fields(&self) -> impl Iterator<Item = (&Field<'a>, &DerivedValue, &CopySource)> {
        self.fields.iter().filter_map(|field| {
            let derived = field.derived.as_ref()?;
            Some((field, derived, derived.source()?))
        })
    }

    /// Returns whether the model is inserted as a draft, which the framework completes with copies and computed fields.
    pub(crate) fn needs_draft(&self, insert_struct: Option<&Path>) -> bool {
        let is_drafted = |field: &Field<'_>| {
            matches!(
                field.managed,
                Some(ManagedKind::Copy | ManagedKind::Computed)
            )
        };
        insert_struct.is_some() || self.fields.iter().any(is_drafted)
    }

    /// Checks the references of copies and snapshots.
    pub(crate) fn check_derived(&self, ctxt: &mut Ctxt) {
        for (field, derived, CopySource { reference, .. }) in self.sourced_fields() {
            let source_field = self.field_named(reference);
            let mistake = match source_field.map(|other| &other.layout) {
                None if matches!(derived, DerivedValue::Ancestors { .. }) => Some(format!(
                    "there is no field `{reference}`: name the reference to the parent, `#[reference(on_delete = restrict)] \
                     {reference}: Option<Ref<…>>`"
                )),
                None => Some(format!(
                    "there is no field `{reference}` in this struct: a copy needs a reference in the same struct"
                )),
                Some(Layout::ReferenceMany(_) | Layout::ReferenceOverflow(_)) => Some(format!(
                    "`{reference}` refers to several documents: embed a struct with one reference and its copies, `#[embed(max = \
                     N)] {reference}: Vec<…>`"
                )),
                Some(Layout::Reference | Layout::Invalid) => None,
                Some(_) => Some(format!(
                    "`{reference}` is not a reference: declare `#[reference] {reference}: Ref<…>`"
                )),
            };
            if let Some(message) = mistake {
                ctxt.error_at(reference, message);
            }
            if let DerivedValue::Denormalized {
                clears: Some(at), ..
            } = derived
            {
                let message = match source_field.and_then(|other| other.link.as_ref()) {
                    Some(LinkAttr::Reference {
                        on_delete: OnDelete::Keep,
                        ..
                    }) => None,
                    Some(LinkAttr::Reference { .. }) => Some(format!(
                        "the copy follows the delete rule of `{reference}`: remove `on_delete` here, or write \
                         `#[reference(on_delete = keep)]` there"
                    )),
                    _ => Some(format!(
                        "a copy can be cleared only if `{reference}` stays: write `#[reference(on_delete = keep)]` there"
                    )),
                };
                if let Some(message) = message {
                    ctxt.error_at(at, message);
                }
            }
            if field.link.is_some() {
                ctxt.error_at(
                    reference,
                    "a copied reference cannot have a delete rule: move the rule to the reference in the source document",
                );
            }
            if field.stored == "_id" {
                ctxt.error_at(
                    reference,
                    "the `_id` of a document cannot be a copy: remove the attribute",
                );
            }
            if field.layout.overflow().is_some() {
                ctxt.error_at(
                    field.ty,
                    "an overflow array cannot be copied, because the copy would lack the spilled elements: remove the attribute, \
                     and read the elements of the source",
                );
            }
        }
    }

    /// Reports copies and snapshots in places that do not support them yet.
    pub(crate) fn ensure_no_derived(&self, ctxt: &mut Ctxt, place: &str) {
        for field in &self.fields {
            let derived = match field.derived {
                None => continue,
                Some(DerivedValue::Ancestors { .. }) => "a tree",
                Some(_) => "copies or snapshots",
            };
            let message = format!("{place} cannot have {derived} yet: remove the attribute");
            ctxt.error_at(field.ident, message);
        }
    }

    /// Returns the fields that may contain embedded structs with copies or snapshots.
    fn fields_with_copies(&self) -> impl Iterator<Item = &Field<'a>> {
        let fields = self.fields.iter();
        let overflowing = fields.filter(|field| matches!(field.layout, Layout::Overflow(_)));
        self.non_recursive_embedding().chain(overflowing)
    }

    /// Returns an expression with the copies and snapshots of the type.
    pub(crate) fn copies_expression(&self, private: &PrivatePath) -> Option<TokenStream> {
        let fields = self.sourced_fields().filter_map(|(field, derived, source)| {
            let name = field.ident.unraw().to_string();
            let stored = &field.stored;
            let reference = self.source_reference(source)?;
            let (ty, stored_reference) = (reference.ty, &reference.stored);
            let target = match derived {
                // `TreeParent` checks the type of the reference.
                DerivedValue::Ancestors { .. } => quote!(Self),
                _ => quote_spanned!(ty.span()=> <#ty as #private::RefersTo>::Target),
            };
            let first = source.path.first()?.unraw().to_string();
            let steps = source_steps(source);
            let copy_mode = match derived {
                DerivedValue::Denormalized { mode: CopyMode::Bounded, .. } => quote!(Bounded),
                DerivedValue::Denormalized { mode: CopyMode::Sync, .. } => quote!(Sync),
                DerivedValue::Denormalized { mode: CopyMode::Background, .. } => quote!(Background),
                DerivedValue::Ancestors { .. } => quote!(Bounded),
                DerivedValue::Snapshot { .. } | DerivedValue::Frozen => quote!(Snapshot),
            };
            let value = match derived {
                DerivedValue::Ancestors { .. } => quote!(Ancestors),
                _ => quote!(Field),
            };
            let clears = derived.clears_on_delete();
            let omits_none = field.omits_none_member(private);
            let has_origin = matches!(derived, DerivedValue::Snapshot { origin: true, .. });
            Some(quote! {
                #private::CopiedField {
                    field: #name,
                    stored: #stored,
                    reference: #stored_reference,
                    is_optional: <#ty as #private::Stored>::MAY_BE_NONE,
                    collection: <#target as #private::Document>::COLLECTION,
                    model: || &<#target as #private::Document>::MODEL,
                    source_path: || #private::path_of(<#target as #private::Document>::fields() #(#steps)*),
                    source_field: #first,
                    value: #private::CopiedValue::#value,
                    mode: #private::CopyMode::#copy_mode,
                    clears_on_delete: #clears,
                    has_origin: #has_origin,
                    #omits_none
                }
            })
        });
        let frozen = self
            .fields
            .iter()
            .filter(|field| matches!(field.derived, Some(DerivedValue::Frozen)));
        let frozen = frozen.map(|field| &field.stored);
        let embedded = self.fields_with_copies().map(|field| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let copies = stored_item(field.ty, private, &quote!(COPIES));
            let is_array = stored_item(field.ty, private, &quote!(IS_ARRAY));
            quote!(#private::EmbeddedCopies { field: #name, stored: #stored, is_array: #is_array, copies: #copies })
        });
        let fields = wrap_nonempty(&quote!(#(#fields),*), |fields| quote!(fields: &[#fields],));
        let frozen = wrap_nonempty(
            &quote!(#(#frozen),*),
            |frozen| quote!(set_once: &[#frozen],),
        );
        let embedded = wrap_nonempty(
            &quote!(#(#embedded),*),
            |embedded| quote!(embedded: &[#embedded],),
        );
        wrap_nonempty(
            &quote!(#fields #frozen #embedded),
            |all| quote!(&#private::TypeCopies { #all ..#private::TypeCopies::NONE }),
        )
    }

    /// Returns checks that each copy has the type of its source field, and that an embedded struct with managed fields is
    /// inserted as its insert struct.
    pub(crate) fn copy_checks(
        &self,
        is_drafted: bool,
        attribute: &str,
        private: &PrivatePath,
    ) -> TokenStream {
        let checks = self
            .sourced_fields()
            .filter(|(_, derived, _)| !matches!(derived, DerivedValue::Ancestors { .. }))
            .filter_map(|(field, derived, source)| {
                let reference = self.source_reference(source)?;
                let (ty, reference_type) = (field.ty, reference.ty);
                let steps = source_steps(source);
                let last = source.path.last()?.span();
                let source =
                    quote_spanned!(last=> #private::copy_source::<#reference_type, _>(|source| source #(#steps)*));
                let method = match derived.clears_on_delete() {
                    true => quote_spanned!(ty.span()=> ensure_fits_cleared),
                    false => quote_spanned!(ty.span()=> ensure_fits),
                };
                Some(quote_spanned!(ty.span()=> #source.#method::<#ty>();))
            });
        let checks: Vec<_> = checks.collect();
        let function =
            (!checks.is_empty()).then(|| layout_function(&self.input.generics, checks.into_iter()));
        let is_generic = !self.input.generics.params.is_empty();
        let name = self.input.ident.unraw();
        let embedded = self.fields_with_copies().filter(|_| !is_generic).map(|field| {
            let copies = stored_item(field.ty, private, &quote!(COPIES));
            let message = format!(
                "the embedded type has managed fields, so this struct needs an insert struct: write `#[{attribute}(…, insert_struct)]`, and insert a `New{name}`"
            );
            let map_message = "the values of a map cannot have copies or snapshots yet: use an array of structs";
            let span = field.ty.span();
            // An element type that cannot overflow gets an error of its own; do not report the missing insert struct as well.
            let has_insert_struct = match field.layout {
                Layout::Overflow(_) if !is_drafted => {
                    let ty = field.ty;
                    quote!(!#private::spills_plain_elements::<#ty>())
                }
                _ => quote!(#is_drafted),
            };
            let is_insertable = with_span(quote!(#private::ensure_insert_struct(#has_insert_struct, #copies, #message)), span);
            let is_kept = with_span(quote!(#private::ensure_maintainable(#copies, #map_message)), span);
            quote! {
                const _: () = #is_insertable;
                const _: () = #is_kept;
            }
        });
        quote!(#function #(#embedded)*)
    }

    fn source_reference(&self, source: &CopySource) -> Option<&Field<'a>> {
        let mut fields = self.fields.iter();
        // `check_derived` has reported sources without a reference.
        fields.find(|field| {
            *field.ident == source.reference && matches!(field.layout, Layout::Reference)
        })
    }
}

impl Field<'_> {
    /// Returns whether the field is a copy.
    pub(crate) fn is_copy(&self) -> bool {
        matches!(
            self.derived,
            Some(DerivedValue::Denormalized { .. } | DerivedValue::Ancestors { .. })
        )
    }

    /// Returns the role of a copy or a snapshot.
    pub(crate) fn derived_role(&self, private: &PrivatePath) -> Option<TokenStream> {
        Some(match self.derived.as_ref()? {
            DerivedValue::Denormalized { .. } | DerivedValue::Ancestors { .. } => {
                quote!(#private::role::Denormalized)
            }
            DerivedValue::Snapshot { .. } | DerivedValue::Frozen => {
                quote!(#private::role::Snapshot)
            }
        })
    }
}

fn source_steps(source: &CopySource) -> impl Iterator<Item = TokenStream> {
    source
        .path
        .iter()
        .map(|step| quote_spanned!(step.span()=> .#step()))
}
