//! The errors of one derive, all reported at once.

use proc_macro2::TokenStream;
use quote::ToTokens;

/// Collects errors.
#[derive(Default)]
pub(crate) struct Ctxt {
    errors: Vec<syn::Error>,
}

impl Ctxt {
    /// An error at these tokens.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(at, message));
    }

    /// An error that was made elsewhere.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// The value of a result, or its error kept.
    pub(crate) fn ok<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Whether there was no error so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// How many there were so far.
    pub(crate) fn len(&self) -> usize {
        self.errors.len()
    }

    /// The errors as code, if there are any.
    pub(crate) fn into_errors(self) -> Option<TokenStream> {
        (!self.errors.is_empty()).then(|| {
            self.errors
                .iter()
                .map(syn::Error::to_compile_error)
                .collect()
        })
    }
}
