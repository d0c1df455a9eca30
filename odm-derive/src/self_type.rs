//! `Self` in the type of a field: generated code stands in other places, where it would be something else.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Data, DeriveInput, Ident};

/// The input with `Self` written out in the types of its fields.
pub(crate) fn write_out(mut input: DeriveInput) -> DeriveInput {
    let (_, own, _) = input.generics.split_for_impl();
    let own = own.to_token_stream();
    let fields: Vec<_> = match &mut input.data {
        Data::Struct(data) => data.fields.iter_mut().collect(),
        Data::Enum(data) => {
            let variants = data.variants.iter_mut();
            variants.flat_map(|variant| &mut variant.fields).collect()
        }
        Data::Union(_) => Vec::new(),
    };
    for field in fields {
        let replaced = replace(field.ty.to_token_stream(), &input.ident, &own);
        // A type stays one when a type takes the place of `Self`.
        if let Ok(ty) = syn::parse2(replaced) {
            field.ty = ty;
        }
    }
    input
}

fn replace(tokens: TokenStream, name: &Ident, own: &TokenStream) -> TokenStream {
    let each = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(found) if found == "Self" => {
            let mut name = name.clone();
            name.set_span(found.span());
            quote_spanned!(found.span()=> #name #own)
        }
        TokenTree::Group(group) => {
            let mut replaced = Group::new(group.delimiter(), replace(group.stream(), name, own));
            replaced.set_span(group.span());
            replaced.to_token_stream()
        }
        token => token.to_token_stream(),
    });
    each.collect()
}
