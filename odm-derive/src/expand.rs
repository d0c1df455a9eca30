//! From a model to code.
//!
//! Types with names stand beside the user's, with every path written out in full; what is said of them is in one block, where
//! `odm::__private` has a short name. Nothing depends on what the user imported.

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

pub(crate) use fields::mentions;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{GenericParam, Generics, Path, Type, parse_quote};

/// The module that generated code calls, as this names it.
#[derive(Clone)]
pub(crate) struct Private {
    path: Path,
    name: TokenStream,
}

impl Private {
    pub(crate) fn of(krate: &Path) -> Self {
        Self {
            path: parse_quote!(#krate::__private),
            name: quote!(_odm),
        }
    }

    /// The same beside the user's types, where nothing is imported.
    fn outside(&self) -> Self {
        Self {
            path: self.path.clone(),
            name: self.path.to_token_stream(),
        }
    }
}

impl ToTokens for Private {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.name.to_tokens(tokens);
    }
}

/// What a derive makes.
#[derive(Default)]
pub(crate) struct Code {
    /// The types that have names of their own.
    types: TokenStream,
    /// What is said of these and of the user's: it has no names.
    rest: TokenStream,
}

impl Code {
    pub(crate) fn finish(self, private: &Private) -> TokenStream {
        let (Self { types, rest }, path, quiet) = (self, &private.path, quiet());
        quote! {
            #types

            #quiet
            const _: () = {
                use #path as _odm;

                #rest
            };
        }
    }
}

impl From<TokenStream> for Code {
    fn from(rest: TokenStream) -> Self {
        Self {
            rest,
            ..Self::default()
        }
    }
}

impl Extend<Self> for Code {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, others: I) {
        for Self { types, rest } in others {
            self.types.extend(types);
            self.rest.extend(rest);
        }
    }
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
    let listed = |all: TokenStream| around(&all, |all| quote!(<#all>)).unwrap_or_default();
    (
        listed(quote!(#before #(#own),*)),
        listed(quote!(#before_names #(#names),*)),
    )
}

/// Whether one of these is so.
pub(crate) fn any(terms: impl Iterator<Item = TokenStream>) -> Option<TokenStream> {
    let terms: Vec<_> = terms.collect();
    (!terms.is_empty()).then(|| quote!(#(#terms)||*))
}

/// An item with these tokens in it; nothing without any.
pub(crate) fn around(
    inside: &TokenStream,
    item: impl FnOnce(&TokenStream) -> TokenStream,
) -> Option<TokenStream> {
    (!inside.is_empty()).then(|| item(inside))
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
