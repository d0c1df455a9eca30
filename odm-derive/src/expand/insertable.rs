//! What a document is inserted as: itself or, if the framework writes some of its fields, a struct without them.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Generics, Ident, ext::IdentExt, spanned::Spanned};

use super::{quiet, where_bounds, with_params};
use crate::{
    attr::What,
    model::{Field, Model},
};

impl Model<'_> {
    /// How a document is inserted, with the companion that this may need.
    pub(crate) fn insertable(&self, private: &TokenStream) -> TokenStream {
        if self.is_filled() {
            return self.companion(private);
        }
        let name = &self.input.ident;
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let quiet = quiet();
        quote! {
            #[automatically_derived]
            #quiet
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Whole for #name #own #where_clause {}
        }
    }

    fn companion(&self, private: &TokenStream) -> TokenStream {
        let (name, vis) = (&self.input.ident, &self.input.vis);
        let companion = format_ident!("New{}", name.unraw());
        let (decl, _) = with_params(&self.input.generics, &quote!(), &quote!());
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let known: Vec<_> = self
            .fields
            .iter()
            .filter(|field| field.filled.is_none())
            .collect();
        let declared = known.iter().map(|field| {
            let (ident, vis, ty, docs) = (field.ident, field.vis, field.ty, &field.docs);
            quote!(#(#docs)* #vis #ident: #ty)
        });
        let idents: Vec<_> = known.iter().map(|field| field.ident).collect();
        let types = known.iter().map(|field| field.ty.to_token_stream());
        let types: Vec<_> = types.collect();
        let clone_and_debug = clone_and_debug(&companion, &self.input.generics, &idents, &types);
        let filled = self
            .fields
            .iter()
            .filter_map(|field| filling(field, private));
        let filled_by = |what| self.fields.iter().any(|field| field.filled == Some(what));
        // One with a number in it follows when the document is inserted.
        let id = (filled_by(What::Id) && !filled_by(What::Number)).then(
            || quote!(let mut document = document; #private::Document::fill_id(&mut document)?;),
        );
        let skipped = &self.skipped;
        let doc = format!(
            "What an application knows of a [`{}`] that it inserts; the framework fills the rest.",
            name.unraw()
        );
        let quiet = quiet();
        quote! {
            #[doc = #doc]
            #quiet
            #vis struct #companion #decl #where_clause {
                #(#declared,)*
            }

            #[automatically_derived]
            #quiet
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Insertable for #companion #own #where_clause {
                type Document = #name #own;
                fn into_document(self, scope: &#private::Scope) -> #private::Result<#name #own> {
                    let now = #private::DateTime::now();
                    let _ = (now, scope);
                    let document = #name {
                        #(#idents: self.#idents,)*
                        #(#filled,)*
                        #(#skipped: ::core::default::Default::default(),)*
                    };
                    #id
                    #private::Ok(document)
                }
            }

            #clone_and_debug
        }
    }

    /// The generated body of `take_filled`.
    pub(crate) fn take_filled(&self) -> TokenStream {
        let filled = self.fields.iter().filter(|field| field.filled.is_some());
        let idents = filled.map(|field| field.ident);
        quote!(#(self.#idents = from.#idents;)*)
    }

    /// The stored name of the field in which the framework keeps this.
    pub(crate) fn stored_name_of(&self, what: What, private: &TokenStream) -> TokenStream {
        match self.fields.iter().find(|field| field.filled == Some(what)) {
            Some(Field { stored, .. }) => quote!(#private::Some(#stored)),
            None => quote!(#private::None),
        }
    }
}

/// `Clone` and `Debug` of a struct that stands beside a model, where its fields have them.
pub(super) fn clone_and_debug(
    name: &Ident,
    generics: &Generics,
    idents: &[&Ident],
    types: &[TokenStream],
) -> TokenStream {
    let (impl_generics, own, _) = generics.split_for_impl();
    let bounds = where_bounds(generics);
    let text = name.to_string();
    let names = idents.iter().map(|ident| ident.unraw().to_string());
    let quiet = quiet();
    quote! {
        // A bound on all lifetimes is asked for only where the implementation is used.
        #[automatically_derived]
        #quiet
        impl #impl_generics ::core::clone::Clone for #name #own
        where
            #bounds
            #(for<'__a> #types: ::core::clone::Clone,)*
        {
            fn clone(&self) -> Self {
                Self { #(#idents: ::core::clone::Clone::clone(&self.#idents),)* }
            }
        }

        #[automatically_derived]
        #quiet
        impl #impl_generics ::core::fmt::Debug for #name #own
        where
            #bounds
            #(for<'__a> #types: ::core::fmt::Debug,)*
        {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(#text)#(.field(#names, &self.#idents))*.finish()
            }
        }
    }
}

/// The first value of a field that the framework writes.
fn filling(field: &Field<'_>, private: &TokenStream) -> Option<TokenStream> {
    let (ident, ty) = (field.ident, field.ty);
    Some(match field.filled? {
        What::Version => quote_spanned!(ty.span()=> #ident: <#ty as #private::Version>::FIRST),
        What::Created | What::Updated => {
            quote_spanned!(ty.span()=> #ident: <#ty as #private::Timestamp>::at(now))
        }
        What::Deleted => {
            quote_spanned!(ty.span()=> #ident: <#ty as #private::DeletedAt>::NEVER)
        }
        What::Id => quote_spanned!(ty.span()=> #ident: ::core::default::Default::default()),
        What::Number => {
            quote_spanned!(ty.span()=> #ident: <#ty as #private::Number>::NONE)
        }
        What::Scope => quote_spanned!(ty.span()=> #ident: scope.value::<#ty>()?),
        What::Inverse => {
            quote_spanned!(ty.span()=> #ident: <#ty as ::core::default::Default>::default())
        }
    })
}
