//! What a document is inserted as: itself or, if the framework writes some of its fields, a struct without them.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Generics, Ident, ext::IdentExt, spanned::Spanned};

use super::{Code, Private, fields::of_stored, quiet, where_bounds, with_params};
use crate::{
    attr::{Layout, What},
    model::{Field, Model},
};

impl Model<'_> {
    /// How a document is inserted, with the companion that this may need.
    ///
    /// `says_filled` is whether the model says that there are fields which the framework fills, be they right or not.
    pub(crate) fn insertable(
        &self,
        is_drafted: bool,
        says_filled: bool,
        private: &Private,
    ) -> Code {
        if is_drafted || says_filled || self.is_filled() {
            return self.companion(is_drafted, private);
        }
        let name = &self.input.ident;
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let whole = quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Whole for #name #own #where_clause {}
        };
        whole.into()
    }

    fn companion(&self, is_drafted: bool, private: &Private) -> Code {
        let name = &self.input.ident;
        let companion = format_ident!("New{}", name.unraw());
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let known: Vec<_> = self
            .fields
            .iter()
            .filter(|field| field.filled.is_none())
            .collect();
        let types = known.iter().map(|field| match is_drafted {
            true => field.new_type(&private.outside()),
            false => field.ty.to_token_stream(),
        });
        let types: Vec<_> = types.collect();
        let idents: Vec<_> = known.iter().map(|field| field.ident).collect();
        let doc = format!(
            "What an application knows of a [`{}`] that it inserts; the framework fills the rest.",
            name.unraw()
        );
        let mut code = self.declared(&companion, &known, &types, &doc);
        let filled_by = |what| self.fields.iter().any(|field| field.filled == Some(what));
        // One with a number in it follows when the document is inserted.
        let id = (filled_by(What::Id) && !filled_by(What::Number)).then(
            || quote!(let mut document = document; #private::Document::fill_id(&mut document)?;),
        );
        let now = (filled_by(What::Created) || filled_by(What::Updated))
            .then(|| quote!(let now = #private::DateTime::now();));
        let scope = match filled_by(What::Scope) {
            true => quote!(scope),
            false => quote!(_),
        };
        let draft = match is_drafted {
            true => {
                let known = known.iter().map(|field| field.put(&quote!(draft), private));
                let filled = self.fields.iter().filter_map(|field| {
                    let value = filling(field, private)?;
                    Some(field.put_value(&quote!(draft), &value, private))
                });
                quote! {
                    let mut draft = #private::RawDraft::default();
                    #(#known)*
                    #(#filled)*
                    #private::Ok(draft.finish())
                }
            }
            false => {
                let filled = self.fields.iter().filter_map(|field| {
                    let (value, ident) = (filling(field, private)?, field.ident);
                    Some(quote!(#ident: #value))
                });
                let skipped = &self.skipped;
                quote! {
                    let document = #name {
                        #(#idents: self.#idents,)*
                        #(#filled,)*
                        #(#skipped: ::core::default::Default::default(),)*
                    };
                    #id
                    #private::Ok(#private::Draft::of(document))
                }
            }
        };
        code.rest.extend(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Insertable for #companion #own #where_clause {
                type Document = #name #own;
                fn into_draft(self, #scope: &#private::Scope) -> #private::Result<#private::Draft<#name #own>> {
                    #now
                    #draft
                }
            }
        });
        code
    }

    /// A companion: a struct with these of the fields.
    fn declared(
        &self,
        companion: &Ident,
        known: &[&Field<'_>],
        types: &[TokenStream],
        doc: &str,
    ) -> Code {
        let vis = &self.input.vis;
        let (decl, _) = with_params(&self.input.generics, &quote!(), &quote!());
        let (_, _, where_clause) = self.input.generics.split_for_impl();
        let fields = known.iter().zip(types).map(|(field, ty)| {
            let (ident, vis, docs) = (field.ident, field.vis, &field.docs);
            quote!(#(#docs)* #vis #ident: #ty)
        });
        let idents: Vec<_> = known.iter().map(|field| field.ident).collect();
        let quiet = quiet();
        let declared = quote! {
            #[doc = #doc]
            #quiet
            #vis struct #companion #decl #where_clause {
                #(#fields,)*
            }
        };
        Code {
            types: declared,
            rest: clone_and_debug(companion, &self.input.generics, &idents, types),
        }
    }

    /// The type of what is written for a new value of an embedded struct.
    pub(crate) fn new_type(&self, is_drafted: bool) -> TokenStream {
        if !is_drafted {
            return quote!(Self);
        }
        let companion = format_ident!("New{}", self.input.ident.unraw());
        let (_, own, _) = self.input.generics.split_for_impl();
        quote!(#companion #own)
    }

    /// The companion of an embedded struct: what an application knows of a new one.
    pub(crate) fn embedded_companion(&self, private: &Private) -> Code {
        let name = &self.input.ident;
        let companion = format_ident!("New{}", name.unraw());
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let fields = self.fields.iter().filter(|field| field.filled.is_none());
        let known: Vec<_> = fields.collect();
        let outside = &private.outside();
        let types: Vec<_> = known.iter().map(|field| field.new_type(outside)).collect();
        let doc = format!(
            "What an application knows of a new [`{}`]; the framework fills the rest.",
            name.unraw()
        );
        let mut code = self.declared(&companion, &known, &types, &doc);
        let put = known
            .iter()
            .map(|field| field.put(&quote!(fields), private));
        code.rest.extend(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Serialize for #companion #own #where_clause {
                fn serialize<__S: #private::Serializer>(
                    &self,
                    serializer: __S,
                ) -> ::core::result::Result<__S::Ok, __S::Error> {
                    let mut fields = #private::NewFields::new(serializer)?;
                    #(#put)*
                    fields.end()
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::IntoValue<#name #own> for #companion #own #where_clause {
                fn into_value(self) -> #private::Result<#private::RawBson> {
                    #private::encode_new(&self)
                }
            }
        });
        code
    }

    /// The generated body of `take_filled`.
    pub(crate) fn take_filled(&self) -> TokenStream {
        let filled = self.fields.iter().filter(|field| field.filled.is_some());
        let idents = filled.map(|field| field.ident);
        quote!(#(self.#idents = from.#idents;)*)
    }

    /// The stored name of the field in which the framework keeps this.
    pub(crate) fn stored_name_of(&self, what: What) -> Option<&str> {
        let mut fields = self.fields.iter();
        let field = fields.find(|field| field.filled == Some(what))?;
        Some(&field.stored)
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
    quote! {
        // A bound on all lifetimes is asked for only where the implementation is used.
        #[automatically_derived]
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

impl Field<'_> {
    /// The type in which a companion has it.
    fn new_type(&self, private: &Private) -> TokenStream {
        match self.layout {
            Layout::Embed | Layout::EmbedMany(_) | Layout::Overflow(_) => {
                of_stored(self.ty, private, &quote!(New))
            }
            _ => self.ty.to_token_stream(),
        }
    }

    /// Writes its value in a companion `self`, as serde would.
    fn put(&self, into: &TokenStream, private: &Private) -> TokenStream {
        let (ident, stored) = (self.ident, &self.stored);
        let refuse_partial = self
            .layout
            .overflow()
            .map(|_| quote!(self.#ident.refuse_partial(&#private::Path::ROOT.then(#stored))?;));
        let put = self.put_value(into, &quote!(self.#ident), private);
        let put = match self.omits_new() {
            Some(omits) => quote!(if !#omits(&self.#ident) { #put }),
            None => put,
        };
        quote!(#refuse_partial #put)
    }

    /// Writes a value of the field's type.
    fn put_value(&self, into: &TokenStream, value: &TokenStream, private: &Private) -> TokenStream {
        let stored = &self.stored;
        match self.native {
            true => quote!(#into.put(#stored, &#private::NativeValue(&#value))?;),
            false => quote!(#into.put(#stored, &#value)?;),
        }
    }
}

/// The first value of a field that the framework writes; none of one that it takes from another document, or computes.
fn filling(field: &Field<'_>, private: &Private) -> Option<TokenStream> {
    let (ty, what) = (field.ty, field.filled?);
    if !field.is_right {
        // What is wrong with it is all that is said of it.
        return Some(quote!((|| -> #ty { ::core::unreachable!() })()));
    }
    Some(match what {
        What::Version => quote_spanned!(ty.span()=> <#ty as #private::Version>::FIRST),
        What::Created | What::Updated => {
            quote_spanned!(ty.span()=> <#ty as #private::Timestamp>::at(now))
        }
        What::Deleted => quote_spanned!(ty.span()=> <#ty as #private::DeletedAt>::NEVER),
        What::Id => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
        What::Number => quote_spanned!(ty.span()=> <#ty as #private::Number>::NONE),
        What::Scope => quote_spanned!(ty.span()=> scope.value::<#ty>()?),
        What::Inverse => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
        What::Tally => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
        What::Copy | What::Computed => return None,
    })
}
