//! `#[derive(Projection)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{Code, Private, where_bounds, with_params};
use crate::{
    attr::{Container, SerdeContainer, SerdeField, is_overflow},
    ctxt::Ctxt,
    model::{named_fields, stored_name},
};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = Container::parse(ctxt, input, "projection", &["of"]);
    let fields = fields(ctxt, input)?;
    let Some(of) = &container.of else {
        if ctxt.is_clean() {
            ctxt.error(&input.ident, "of which model? Say `#[projection(of = …)]`");
        }
        return None;
    };
    let private = Private::of(&container.krate);
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let reads = fields.iter().map(|field| {
        let (ty, stored) = (field.ty, &field.stored);
        quote_spanned!(ty.span()=> (#stored, <#ty as #private::Projection>::READS))
    });
    let tree = quote_spanned!(of.span()=> #private::tree_of::<#of>());
    let checks = fields.iter().map(|field| {
        let (ident, ty, stored) = (field.ident, field.ty, &field.stored);
        let rust = ident.unraw().to_string();
        let message = format!(
            "the field is stored under another name in the model than `{stored}`: give both the same `rename` and `rename_all`"
        );
        let accessor = quote_spanned!(ident.span()=> .#ident());
        let read = if field.native {
            quote!(natively)
        } else {
            quote!(plainly)
        };
        let fits = quote_spanned!(ty.span()=> .fits::<#ty>().#read());
        let same = quote_spanned! {ident.span()=>
            const _: () = ::core::assert!(
                #private::stores_as::<#of>(#rust, #stored),
                #message
            );
        };
        // An error is at the field, as the argument is a variable with its span.
        let place = Ident::new("place", ident.span());
        let value = match field.has_default {
            true => quote!(value_or_default_of),
            false => quote!(value_of),
        };
        let types = quote! {
            let #place = #tree #accessor;
            #private::#value(#place) #fits;
        };
        (types, same)
    });
    // By another name it would not be asked for what is outside. A constant knows no parameters.
    let is_generic = !input.generics.params.is_empty();
    let is_other = |field: &&Field<'_>| !is_generic && !field.native && !is_overflow(field.ty);
    let others = fields.iter().filter(is_other);
    let others = others.map(|field| {
        let ty = field.ty;
        quote_spanned! {ty.span()=>
            const _: () = ::core::assert!(
                !<#ty as #private::Projection>::OVERFLOWS,
                "an array that overflows is an `Overflow<…>`, by this name: what is outside of the document is looked for by it"
            );
        }
    });
    let others: Vec<_> = others.collect();
    let outside = fields.iter().filter(|field| is_overflow(field.ty));
    let outside: Vec<_> = outside
        .map(|field| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(#private::Projection::look_outside(&mut value.#ident, raw, model, #stored);)
        })
        .collect();
    let look_outside = (!outside.is_empty()).then(|| {
        quote! {
            fn from_document(raw: &#private::RawDocument, model: &#private::Model) -> #private::Result<Self> {
                let mut value: Self = #private::as_projection(raw, model)?;
                #(#outside)*
                #private::Ok(value)
            }
        }
    });
    let (types, names): (Vec<_>, Vec<_>) = checks.unzip();
    // What joins give is in reach where its model is.
    let (decl, _) = with_params(&input.generics, &quote!(__Scope,), &quote!());
    let bounds = where_bounds(&input.generics);
    let in_scope = quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #decl #private::InScope<__Scope> for #name #type_generics
        where #of: #private::InScope<__Scope>, #bounds {}
    };
    let code = quote! {
        #[automatically_derived]
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = #of;
            const READS: #private::Reads = #private::Reads::Fields(&[#(#reads),*]);
            #look_outside
        }
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::ProjectionOf<#of> for #name #type_generics #where_clause {}
        #in_scope

        const _: () = {
            fn types #impl_generics () #where_clause { #(#types)* }
        };
        #(#names)*
        #(#others)*
    };
    Some(Code::from(code).finish(&private))
}

/// A field that is read.
struct Field<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    stored: String,
    native: bool,
    /// serde's `default`.
    has_default: bool,
}

fn fields<'a>(ctxt: &mut Ctxt, input: &'a DeriveInput) -> Option<Vec<Field<'a>>> {
    let container = SerdeContainer::parse(ctxt, &input.attrs);
    let fields = named_fields(ctxt, input, "Projection")?.iter();
    let read = fields.filter_map(|field| {
        let ident = field.ident.as_ref()?;
        let serde = SerdeField::parse(ctxt, &field.attrs);
        (!serde.skip).then(|| Field {
            ident,
            ty: &field.ty,
            stored: stored_name(ident, &serde, &container),
            native: serde.native,
            has_default: serde.default.is_some(),
        })
    });
    Some(read.collect())
}
