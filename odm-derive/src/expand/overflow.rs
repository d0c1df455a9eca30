//! Arrays whose elements overflow into another collection: as data, and the checks of what they can be.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{Private, around, fields::layout_function, tally::steps};
use crate::{
    attr::{Layout, Order, Overflow},
    ctxt::Ctxt,
    model::{Field, Model},
};

/// How many bytes of arrays that overflow stay in a document, and of their elements in another.
const PART: usize = 256 * 1024;

/// How many of those stay that are on their way back.
const GATHERED: usize = 4 * 1024 * 1024;

impl<'a> Model<'a> {
    fn overflows(&self) -> impl Iterator<Item = (&Field<'a>, &Overflow)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.layout.overflow()?)))
    }

    /// Refuses them where nothing keeps them.
    pub(crate) fn refuse_overflows(&self, ctxt: &mut Ctxt, place: &str) {
        for (field, _) in self.overflows() {
            ctxt.error(
                field.ident,
                format!("no array overflows in {place} yet: declare it on a field of a document, or say `max` or `unbounded`"),
            );
        }
    }

    /// Refuses what cannot be of those of a document.
    pub(crate) fn check_overflows(&self, ctxt: &mut Ctxt, collection: &str, is_sharded: bool) {
        let mut before: Vec<&Overflow> = Vec::new();
        for (field, overflow) in self.overflows() {
            if is_sharded {
                ctxt.error(
                    field.ident,
                    "no array overflows in a model with a shard key yet: say `max`, or leave `shard_key` out",
                );
            }
            if !self.input.generics.params.is_empty() {
                ctxt.error(
                    field.ident,
                    "no array overflows in a model with parameters yet: write the model out for each type",
                );
            }
            if field.native {
                ctxt.error(
                    field.ty,
                    "no array of dates or decimals of another crate overflows yet: put them into an embedded struct",
                );
            }
            if field.skip_if.is_some() {
                ctxt.error(
                    field.ident,
                    "an array that overflows is always stored, so that its length is known: leave `skip_serializing_if` out",
                );
            }
            let into = overflow.into.value();
            if into == collection {
                ctxt.error(
                    &overflow.into,
                    "the extras have a collection of their own: give them another name",
                );
            }
            if before.iter().any(|other| other.into.value() == into) {
                ctxt.error(
                    &overflow.into,
                    "another array overflows into this collection: give each one of its own",
                );
            }
            let flag = overflow.flag();
            let is_taken = self.fields.iter().any(|other| other.stored == flag)
                || before.iter().any(|other| other.flag() == flag);
            if is_taken {
                let message = format!(
                    "`{flag}` is another field already: say `flag = \"…\"`, the name of the one that says that there are more"
                );
                match overflow.said_flag() {
                    Some(said) => ctxt.error(said, message),
                    None => ctxt.error(field.ident, message),
                }
            }
            before.push(overflow);
        }
    }

    /// What is said of them in the model.
    pub(crate) fn overflows_of_model(&self, private: &Private) -> Option<TokenStream> {
        let name = &self.input.ident;
        let mut fields = self.fields.iter();
        // Beside references there may be what a write says of them first.
        let refers = fields.any(|field| matches!(field.layout, Layout::ReferenceOverflow(_)));
        let shares = self.overflows().count().max(1) * if refers { 2 } else { 1 };
        let part = PART / shares;
        let gathered = GATHERED / self.overflows().count().max(1);
        let all = self.overflows().map(|(field, overflow)| {
            let (rust, stored) = (field.ident.unraw().to_string(), &field.stored);
            let text = format!("{}.{rust}", name.unraw());
            let (after, into) = (overflow.after(), &overflow.into);
            let room = if overflow.gathers() { gathered } else { part };
            let [owner, seq, elements, flag] = [
                overflow.owner(),
                overflow.seq(),
                overflow.elements(stored),
                overflow.flag(),
            ];
            let header = format!("_odm.overflow.{stored}");
            let work = format!("{header}.work");
            let order = overflow.order.as_ref().map(|order| {
                let (by, is_descending) =
                    (order_by(name, field, order, private), order.is_descending);
                quote!(order: ::core::option::Option::Some(#private::ElementOrder {
                    by: || #private::path_of(#by),
                    is_descending: #is_descending,
                }),)
            });
            let order = order.unwrap_or_else(|| quote!(order: ::core::option::Option::None,));
            quote!(#private::OverflowField {
                field: #rust,
                stored: #stored,
                after: #after,
                room: #room,
                part: #part,
                flag: #flag,
                extras: &#private::Model {
                    name: #text,
                    collection: #into,
                    ..#private::Model::UNKNOWN
                },
                owner: #owner,
                seq: #seq,
                elements: #elements,
                header: #header,
                work: #work,
                #order
            })
        });
        around(&quote!(#(#all),*), |all| quote!(overflows: &[#all],))
    }

    /// The code that tells each of them of a document `value` what it has outside of it, as `raw` says.
    pub(crate) fn look_outside(&self, value: &TokenStream, raw: &TokenStream) -> TokenStream {
        let all = self.overflows().map(|(field, _)| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(#value.#ident.look_outside(#raw, &Self::MODEL, #stored);)
        });
        quote!(#(#all)*)
    }

    /// The code that refuses a document `self` with arrays that were read in part.
    pub(crate) fn refuse_partial(&self, private: &Private) -> Option<TokenStream> {
        self.overflows().next()?;
        let all = self.overflows().map(|(field, _)| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(self.#ident.refuse_partial(&#private::Path::ROOT.then(#stored))?;)
        });
        Some(quote!(#(#all)*))
    }

    /// The code that leaves in a document `self` what stays in it when it is inserted.
    pub(crate) fn keep_inside(&self) -> Option<TokenStream> {
        self.overflows().next()?;
        let all = self.overflows().map(|(field, _)| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(self.#ident.keep_inside(&Self::MODEL, #stored, raw);)
        });
        Some(quote!(#(#all)*))
    }

    /// The generated checks of the types of their elements.
    pub(crate) fn overflow_checks(&self, private: &Private) -> Option<TokenStream> {
        self.overflows().next()?;
        let plain = self.overflows().map(|(field, _)| {
            let ty = field.ty;
            if matches!(field.layout, Layout::ReferenceOverflow(_)) {
                return quote_spanned!(ty.span()=> const _: () = #private::overflowing_references::<#ty>(););
            }
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    !#private::overflows_references::<#ty>(),
                    "references are not embedded: say `#[reference(overflow(…))]`"
                );
                const _: () = ::core::assert!(
                    #private::overflows_plainly::<#ty>(),
                    "the elements of an array that overflows have no copies that follow and no references with rules yet: take a `snapshot`, or leave them out of the embedded struct"
                );
            }
        });
        let name = &self.input.ident;
        let mut ordered = self.overflows().filter_map(|(field, overflow)| {
            let (ty, by) = (field.ty, &overflow.order.as_ref()?.by);
            let last = by.last().map_or_else(|| ty.span(), Ident::span);
            let steps = steps(by);
            Some(
                quote_spanned!(last=> #private::sorts_by::<#ty, #name, _>(|element| element #(#steps)*);),
            )
        });
        let ordered = ordered.next().map(|first| {
            let checks = std::iter::once(first).chain(ordered);
            layout_function(&self.input.generics, checks)
        });
        Some(quote!(#(#plain)* #ordered))
    }
}

/// The place of an element by which an array is ordered.
fn order_by(name: &Ident, field: &Field<'_>, order: &Order, private: &Private) -> TokenStream {
    let (ty, steps) = (field.ty, steps(&order.by));
    let fields = quote_spanned!(ty.span()=> #private::element_fields::<#ty, #name>());
    quote!(#fields #(#steps)*)
}
