//! Replaces `Self` in field types: generated code stands in other types, where `Self` has a different meaning.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Data, DeriveInput, Ident};

/// Returns the input with `Self` replaced by the type in all field types.
pub(crate) fn expand_self(mut input: DeriveInput) -> DeriveInput {
    let (_, type_generics, _) = input.generics.split_for_impl();
    let type_generics = type_generics.to_token_stream();
    let fields: Vec<_> = match &mut input.data {
        Data::Struct(data) => data.fields.iter_mut().collect(),
        Data::Enum(data) => {
            let variants = data.variants.iter_mut();
            variants.flat_map(|variant| &mut variant.fields).collect()
        }
        Data::Union(_) => Vec::new(),
    };
    for field in fields {
        let replaced = replace_self(field.ty.to_token_stream(), &input.ident, &type_generics);
        // Replacing `Self` with a type always yields a type.
        if let Ok(ty) = syn::parse2(replaced) {
            field.ty = ty;
        }
    }
    input
}

fn replace_self(tokens: TokenStream, name: &Ident, type_generics: &TokenStream) -> TokenStream {
    let each = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(ident) if ident == "Self" => {
            let mut name = name.clone();
            name.set_span(ident.span());
            quote_spanned!(ident.span()=> #name #type_generics)
        }
        TokenTree::Group(group) => {
            let mut replaced = Group::new(
                group.delimiter(),
                replace_self(group.stream(), name, type_generics),
            );
            replaced.set_span(group.span());
            replaced.to_token_stream()
        }
        token => token.to_token_stream(),
    });
    each.collect()
}
