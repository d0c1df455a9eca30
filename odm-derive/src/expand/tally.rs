//! What a model is made of by the documents that refer to it: as data, and the proof that it can be.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    Private, around,
    fields::{at, layout_function},
};
use crate::{
    attr::{Keeps, Tally},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    fn tallies(&self) -> impl Iterator<Item = (&Field<'a>, &Tally)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.tally.as_ref()?)))
    }

    /// What the schema must have so that they can be kept.
    pub(crate) fn counted(&self, private: &Private) -> Vec<Type> {
        let models = self.tallies().map(|(_, tally)| {
            let of = &tally.of;
            Type::Verbatim(quote_spanned!(of.span()=> #private::Ref<#of>))
        });
        models.collect()
    }

    /// Refuses them where nothing keeps them.
    pub(crate) fn refuse_tallies(&self, ctxt: &mut Ctxt, place: &str) {
        for (field, _) in self.tallies() {
            ctxt.error(
                field.ident,
                format!("{place} is not counted by others yet: leave the attribute out"),
            );
        }
    }

    /// What is said of them in the model.
    pub(crate) fn tallies_of_model(&self, private: &Private) -> Option<TokenStream> {
        let right = self.tallies().filter(|(field, _)| field.is_right);
        let all = right.map(|(field, tally)| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let of = &tally.of;
            let model = quote_spanned!(of.span()=> <#of as #private::Document>);
            let path = |path: &[Ident]| {
                let steps = steps(path);
                quote!(#private::path_of(#model::fields() #(#steps)*))
            };
            let reference = path(std::slice::from_ref(&tally.reference));
            let when = tally.when.iter().map(|(field, value)| {
                let steps = steps(field);
                quote_spanned!(value.span()=> #private::condition(#model::fields() #(#steps)*, #value))
            });
            let keeps = match &tally.keeps {
                Keeps::Count => quote!(Count),
                Keeps::Sum(value) => {
                    let value = path(value);
                    quote!(Sum(|| #value))
                }
                Keeps::Latest { max, by } => {
                    let (by, ty) = (path(by), field.ty);
                    let fields = quote_spanned!(ty.span()=> <#ty as #private::Excerpts<#of>>::FIELDS);
                    quote!(Latest { max: #max, by: || #by, fields: #fields })
                }
            };
            quote!(#private::Tally {
                field: #name,
                stored: #stored,
                collection: #model::COLLECTION,
                model: || &#model::MODEL,
                reference: || #reference,
                when: || ::std::vec![#(#when),*],
                keeps: #private::Keeps::#keeps,
            })
        });
        around(&quote!(#(#all),*), |all| quote!(tallies: &[#all],))
    }

    /// The generated checks that they can be made.
    pub(crate) fn tally_checks(&self, private: &Private) -> Option<TokenStream> {
        self.tallies().next()?;
        let name = &self.input.ident;
        let (_, own, _) = self.input.generics.split_for_impl();
        let checks = self.tallies().map(|(field, tally)| {
            let (ty, of, reference) = (field.ty, &tally.of, &tally.reference);
            let seen = quote_spanned!(of.span()=> #private::sees_parent::<#of, #name #own>(););
            let counted = quote_spanned!(reference.span()=> #private::counted::<#name #own, #of, _>(|model| model.#reference()););
            let held = match &tally.keeps {
                Keeps::Count => quote_spanned!(ty.span()=> #private::is_counter::<#ty>();),
                Keeps::Sum(value) => {
                    let (steps, last) = (steps(value), value.last().map_or_else(|| ty.span(), Ident::span));
                    let summed = quote_spanned!(last=> #private::summed::<#of, _>(|model| model #(#steps)*););
                    let counter = quote_spanned!(ty.span()=> #private::is_counter::<#ty>(););
                    quote!(#counter #summed)
                }
                Keeps::Latest { by, .. } => {
                    let (steps, last) = (steps(by), by.last().map_or_else(|| ty.span(), Ident::span));
                    let ordered = quote_spanned!(last=> #private::ordered::<#of, _>(|model| model #(#steps)*););
                    ordered
                }
            };
            let when = tally.when.iter().map(|(field, value)| {
                let steps = steps(field);
                quote_spanned!(value.span()=> let _ = #private::condition(<#of as #private::Document>::fields() #(#steps)*, #value);)
            });
            quote!(#seen #counted #held #(#when)*)
        });
        Some(layout_function(&self.input.generics, checks))
    }

    /// The generated claim that an embedded struct has fields of a model, as they are there.
    pub(crate) fn excerpt_of(&self, of: &Type, private: &Private) -> TokenStream {
        let name = &self.input.ident;
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let checks = self.fields.iter().map(|field| {
            let (ident, ty, stored) = (field.ident, field.ty, &field.stored);
            let rust = ident.unraw().to_string();
            let message = format!(
                "the field is stored under another name in the model than `{stored}`: give both the same `rename` and `rename_all`"
            );
            let place = quote!(#private::excerpted(#private::tree_of::<#of>().#ident()));
            let place = at(place, ident.span());
            let fits = quote_spanned!(ty.span()=> #place.fits::<#ty>(););
            let same = quote_spanned!(ident.span()=> const _: () = ::core::assert!(#private::stores_as::<#of>(#rust, #stored), #message););
            (fits, same)
        });
        let (fits, same): (Vec<_>, Vec<_>) = checks.unzip();
        let function = layout_function(&self.input.generics, fits.into_iter());
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::ExcerptOf<#of> for #name #own #where_clause {}
            #function
            #(#same)*
        }
    }
}

/// The accessors that a path is.
pub(super) fn steps(path: &[Ident]) -> Vec<TokenStream> {
    let steps = path.iter();
    steps
        .map(|step| quote_spanned!(step.span()=> .#step()))
        .collect()
}
