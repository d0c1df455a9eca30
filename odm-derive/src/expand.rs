//! From a model to code.
//!
//! Every path in the code is written out in full, from `odm::__private`; nothing depends on what the user imported.

mod computed;
mod derived;
pub(crate) mod document;
pub(crate) mod embedded;
pub(crate) mod enum_document;
mod enumeration;
mod fields;
mod hooks;
mod id;
mod insertable;
mod link;
mod overflow;
pub(crate) mod projection;
mod rules;
pub(crate) mod schema;
pub(crate) mod scope;
mod shard_key;
mod tally;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{GenericParam, Generics, Path, Type};

/// The module that generated code calls.
pub(crate) fn private(krate: &Path) -> TokenStream {
    quote!(#krate::__private)
}

/// A type as it is spelled.
pub(crate) fn text(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "")
}

/// Lints that speak about code a person wrote.
pub(crate) fn quiet() -> TokenStream {
    quote! {
        #[allow(
            dead_code,
            non_camel_case_types,
            non_snake_case,
            unreachable_pub,
            unused_qualifications,
            single_use_lifetimes,
            clippy::all,
            clippy::pedantic,
            clippy::nursery,
            clippy::restriction,
            reason = "derived code"
        )]
    }
}

/// The parameters of a type with others put before them: `<M: 'static, T: Bound>` and `<M, T>`.
pub(crate) fn with_params(
    generics: &Generics,
    before: &TokenStream,
    before_names: &TokenStream,
) -> (TokenStream, TokenStream) {
    let own: Vec<_> = generics
        .params
        .iter()
        .cloned()
        .map(|mut param| {
            // A default belongs to the type alone.
            match &mut param {
                GenericParam::Type(param) => {
                    param.default = None;
                }
                GenericParam::Const(param) => {
                    param.default = None;
                }
                GenericParam::Lifetime(_) => {}
            }
            param.into_token_stream()
        })
        .collect();
    let names: Vec<_> = generics
        .params
        .iter()
        .map(|param| match param {
            GenericParam::Type(param) => param.ident.to_token_stream(),
            GenericParam::Const(param) => param.ident.to_token_stream(),
            GenericParam::Lifetime(param) => param.lifetime.to_token_stream(),
        })
        .collect();
    (
        quote!(<#before #(#own),*>),
        quote!(<#before_names #(#names),*>),
    )
}

/// The bounds of a `where` clause, with a comma behind each.
pub(crate) fn where_bounds(generics: &Generics) -> TokenStream {
    generics
        .where_clause
        .as_ref()
        .map_or_else(TokenStream::new, |clause| {
            let bounds = clause.predicates.iter();
            quote!(#(#bounds,)*)
        })
}
