//! Code generation from parsed models.
//!
//! Named types stand beside the user's type and use full paths. All `impl` blocks are in one unnamed constant, where
//! `odm::__private` has a short name. The generated code does not depend on the user's imports.

mod computed;
mod copy;
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
pub(crate) mod patch;
pub(crate) mod projection;
mod rollup;
mod rules;
pub(crate) mod schema;
pub(crate) mod scope;
mod sequence;
mod shard_key;
mod tree;

pub(crate) use fields::mentions_ident;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{GenericParam, Generics, Path, Type, parse_quote};

/// The path of `odm::__private` in generated code.
#[derive(Clone)]
pub(crate) struct PrivatePath {
    path: Path,
    name: TokenStream,
}

impl PrivatePath {
    pub(crate) fn of_crate(krate: &Path) -> Self {
        Self {
            path: parse_quote!(#krate::__private),
            name: quote!(_odm),
        }
    }

    /// Returns the full path, for code beside the user's types, where the short name is not imported.
    fn full_path(&self) -> Self {
        Self {
            path: self.path.clone(),
            name: self.path.to_token_stream(),
        }
    }
}

impl ToTokens for PrivatePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.name.to_tokens(tokens);
    }
}

/// The code that a derive generates.
#[derive(Default)]
pub(crate) struct GeneratedCode {
    /// The generated types with names.
    types: TokenStream,
    /// The `impl` blocks and checks.
    rest: TokenStream,
}

impl GeneratedCode {
    pub(crate) fn into_tokens(self, private: &PrivatePath) -> TokenStream {
        let (Self { types, rest }, path, lints) = (self, &private.path, allow_lints());
        quote! {
            #types

            #lints
            const _: () = {
                use #path as _odm;

                #rest
            };
        }
    }
}

impl From<TokenStream> for GeneratedCode {
    fn from(rest: TokenStream) -> Self {
        Self {
            rest,
            ..Self::default()
        }
    }
}

impl Extend<Self> for GeneratedCode {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, parts: I) {
        for Self { types, rest } in parts {
            self.types.extend(types);
            self.rest.extend(rest);
        }
    }
}

/// Returns a type as spelled, without blanks.
pub(crate) fn type_text(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "")
}

/// Returns an attribute that allows lints about hand-written code.
pub(crate) fn allow_lints() -> TokenStream {
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

/// Returns the generic parameters of a type with other parameters before them: `<M: 'static, T: Bound>` and `<M, T>`.
pub(crate) fn with_params(
    generics: &Generics,
    before: &TokenStream,
    before_names: &TokenStream,
) -> (TokenStream, TokenStream) {
    let declarations: Vec<_> = generics
        .params
        .iter()
        .cloned()
        .map(|mut param| {
            // Defaults are valid in a type declaration only, not in an `impl`.
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
    let bracketed =
        |all: TokenStream| wrap_nonempty(&all, |all| quote!(<#all>)).unwrap_or_default();
    (
        bracketed(quote!(#before #(#declarations),*)),
        bracketed(quote!(#before_names #(#names),*)),
    )
}

/// Joins conditions with `||`. Returns `None` without conditions.
pub(crate) fn any_of(terms: impl Iterator<Item = TokenStream>) -> Option<TokenStream> {
    let terms: Vec<_> = terms.collect();
    (!terms.is_empty()).then(|| quote!(#(#terms)||*))
}

/// Wraps tokens in an item. Returns `None` without tokens.
pub(crate) fn wrap_nonempty(
    tokens: &TokenStream,
    item: impl FnOnce(&TokenStream) -> TokenStream,
) -> Option<TokenStream> {
    (!tokens.is_empty()).then(|| item(tokens))
}

/// Returns the bounds of a `where` clause, each followed by a comma.
pub(crate) fn where_bounds(generics: &Generics) -> TokenStream {
    generics
        .where_clause
        .as_ref()
        .map_or_else(TokenStream::new, |clause| {
            let bounds = clause.predicates.iter();
            quote!(#(#bounds,)*)
        })
}
