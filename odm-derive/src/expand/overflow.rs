//! Code generation for overflow arrays: data about chunk documents, and checks of types.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{PrivatePath, fields::layout_function, rollup::path_steps, wrap_nonempty};
use crate::{
    attr::{Layout, OrderAttr, OverflowAttr},
    ctxt::Ctxt,
    model::{Field, Model},
};

/// The maximum size in bytes of all resident elements of a document, and of the elements of a chunk document.
const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// The maximum size in bytes of all `inline` arrays of a document.
const MAX_INLINE_BYTES: usize = 4 * 1024 * 1024;

impl<'a> Model<'a> {
    /// Returns the overflow arrays with their settings.
    fn overflow_fields(&self) -> impl Iterator<Item = (&Field<'a>, &OverflowAttr)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.layout.overflow()?)))
    }

    /// Reports overflow arrays in places that do not support overflow arrays yet.
    pub(crate) fn ensure_no_overflows(&self, ctxt: &mut Ctxt, place: &str) {
        for (field, _) in self.overflow_fields() {
            ctxt.error_at(
                field.ident,
                format!("{place} cannot have overflow arrays yet: declare the array on a field of a document, or write `max` or \
                     `unbounded`"),
            );
        }
    }

    /// Checks the overflow arrays of a document.
    pub(crate) fn check_overflows(&self, ctxt: &mut Ctxt, collection: &str, is_sharded: bool) {
        let mut earlier: Vec<&OverflowAttr> = Vec::new();
        for (field, overflow) in self.overflow_fields() {
            if is_sharded {
                ctxt.error_at(
                    field.ident,
                    "a model with a shard key cannot have overflow arrays yet: write `max`, or remove `shard_key`",
                );
            }
            if !self.input.generics.params.is_empty() {
                ctxt.error_at(
                    field.ident,
                    "a model with type parameters cannot have overflow arrays yet: write a model for each type",
                );
            }
            if field.native {
                ctxt.error_at(
                    field.ty,
                    "an overflow array of dates or decimals of another crate is not supported yet: put them into an embedded \
                     struct",
                );
            }
            if field.skip_if.is_some() {
                ctxt.error_at(
                    field.ident,
                    "an overflow array is always stored, so that its length is known: remove `skip_serializing_if`",
                );
            }
            let chunk_collection = overflow.into.value();
            if chunk_collection == collection {
                ctxt.error_at(
                    &overflow.into,
                    "chunk documents need a collection of their own: choose another name",
                );
            }
            if earlier
                .iter()
                .any(|other| other.into.value() == chunk_collection)
            {
                ctxt.error_at(
                    &overflow.into,
                    "another array spills into this collection: choose another name",
                );
            }
            let flag = overflow.flag_field();
            let is_used = self.fields.iter().any(|other| other.stored == flag)
                || earlier.iter().any(|other| other.flag_field() == flag);
            if is_used {
                let message = format!(
                    "`{flag}` is another field already: choose another name for the flag, `flag = \"…\"`"
                );
                match overflow.flag_literal() {
                    Some(literal) => ctxt.error_at(literal, message),
                    None => ctxt.error_at(field.ident, message),
                }
            }
            earlier.push(overflow);
        }
    }

    /// Returns the members of the `Model` constant for the overflow arrays.
    pub(crate) fn overflow_members(&self, private: &PrivatePath) -> Option<TokenStream> {
        let name = &self.input.ident;
        let mut fields = self.fields.iter();
        // An intent record may repeat references in the document, so references get half of the room.
        let has_references =
            fields.any(|field| matches!(field.layout, Layout::ReferenceOverflow(_)));
        let array_count = self.overflow_fields().count().max(1);
        let max_chunk_bytes = MAX_CHUNK_BYTES / array_count / if has_references { 2 } else { 1 };
        let arrays = self.overflow_fields().map(|(field, overflow)| {
            let (rust_name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let chunk_model_name = format!("{}.{rust_name}", name.unraw());
            let (max_resident, collection) = (overflow.resident_count(), &overflow.into);
            let max_resident_bytes = if overflow.is_inline() {
                MAX_INLINE_BYTES / array_count
            } else {
                max_chunk_bytes
            };
            let [owner, seq, elements, flag] = [
                overflow.owner_field(),
                overflow.seq_field(),
                overflow.elements_field(stored),
                overflow.flag_field(),
            ];
            let order = overflow.order.as_ref().map(|order| {
                let (by, is_descending) =
                    (order_path(name, field, order, private), order.is_descending);
                quote!(order: ::core::option::Option::Some(#private::ElementOrder {
                    by: || #private::path_of(#by),
                    is_descending: #is_descending,
                }),)
            });
            let order = order.unwrap_or_else(|| quote!(order: ::core::option::Option::None,));
            quote!(#private::OverflowField {
                field: #rust_name,
                stored: #stored,
                max_resident: #max_resident,
                max_resident_bytes: #max_resident_bytes,
                max_chunk_bytes: #max_chunk_bytes,
                flag: #flag,
                chunks: &#private::Model {
                    name: #chunk_model_name,
                    collection: #collection,
                    ..#private::Model::UNKNOWN
                },
                owner: #owner,
                seq: #seq,
                elements: #elements,
                manifest: #private::manifest_path!(#stored),
                pending_change: #private::work_path!(#stored),
                #order
            })
        });
        wrap_nonempty(
            &quote!(#(#arrays),*),
            |arrays| quote!(overflows: &[#arrays],),
        )
    }

    /// Returns code that sets the number of spilled elements of each overflow array in the document `value` from the stored bytes
    /// `raw`.
    pub(crate) fn spilled_count_calls(
        &self,
        value: &TokenStream,
        raw: &TokenStream,
    ) -> TokenStream {
        let calls = self.overflow_fields().map(|(field, _)| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(#value.#ident.set_spilled_count(#raw, &Self::MODEL, #stored);)
        });
        quote!(#(#calls)*)
    }

    /// Returns code that rejects a document `self` with partially read arrays: an insert would lose the spilled elements.
    pub(crate) fn completeness_checks(&self, private: &PrivatePath) -> Option<TokenStream> {
        self.overflow_fields().next()?;
        let checks = self.overflow_fields().map(|(field, _)| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(self.#ident.ensure_complete(&#private::Path::ROOT.subfield(#stored))?;)
        });
        Some(quote!(#(#checks)*))
    }

    /// Returns code that removes all but the resident elements from a document `self` that is inserted.
    pub(crate) fn resident_truncation(&self) -> Option<TokenStream> {
        self.overflow_fields().next()?;
        let calls = self.overflow_fields().map(|(field, _)| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(self.#ident.keep_resident(&Self::MODEL, #stored, raw);)
        });
        Some(quote!(#(#calls)*))
    }

    /// Returns the checks of the element types.
    pub(crate) fn overflow_checks(&self, private: &PrivatePath) -> Option<TokenStream> {
        self.overflow_fields().next()?;
        let element_checks = self.overflow_fields().map(|(field, _)| {
            let ty = field.ty;
            if matches!(field.layout, Layout::ReferenceOverflow(_)) {
                return quote_spanned!(ty.span()=> const _: () = #private::ensure_spills_references::<#ty>(););
            }
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    !#private::spills_references::<#ty>(),
                    "an overflow array of references needs `#[reference(overflow(…))]`"
                );
                const _: () = ::core::assert!(
                    #private::spills_plain_elements::<#ty>(),
                    "the elements of an overflow array cannot have copies or delete rules yet: use a `snapshot`, or remove them \
                     from the embedded struct"
                );
            }
        });
        let name = &self.input.ident;
        let mut order_checks = self.overflow_fields().filter_map(|(field, overflow)| {
            let (ty, by) = (field.ty, &overflow.order.as_ref()?.by);
            let last = by.last().map_or_else(|| ty.span(), Ident::span);
            let steps = path_steps(by);
            Some(
                quote_spanned!(last=> #private::ensure_sorts_by::<#ty, #name, _>(|element| element #(#steps)*);),
            )
        });
        let order_checks = order_checks.next().map(|first| {
            let checks = std::iter::once(first).chain(order_checks);
            layout_function(&self.input.generics, checks)
        });
        Some(quote!(#(#element_checks)* #order_checks))
    }
}

/// Returns the path of the element field that orders an array.
fn order_path(
    name: &Ident,
    field: &Field<'_>,
    order: &OrderAttr,
    private: &PrivatePath,
) -> TokenStream {
    let (ty, steps) = (field.ty, path_steps(&order.by));
    let fields = quote_spanned!(ty.span()=> #private::element_fields::<#ty, #name>());
    quote!(#fields #(#steps)*)
}
