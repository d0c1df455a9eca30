//! Collects the errors of one derive, so that all are reported at once, and the checks that are left to the compiler.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::{ExprPath, spanned::Spanned};

/// The errors and the open checks of a derive so far.
#[derive(Default)]
pub(crate) struct Ctxt {
    errors: Vec<syn::Error>,
    /// Modules that must be modules of `odm`.
    modules: Vec<ExprPath>,
}

impl Ctxt {
    /// Reports an error at these tokens.
    pub(crate) fn error_at(&mut self, at: impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(at, message));
    }

    /// Adds an error that another function has created.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Returns the value of a result, or collects its error.
    pub(crate) fn ok_or_report<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Leaves the check to the compiler that this is a module of `odm`, and not a module of the application with the same name.
    pub(crate) fn require_module_of_odm(&mut self, module: &ExprPath) {
        let text = module.to_token_stream().to_string();
        let mut modules = self.modules.iter();
        if modules.all(|known| known.to_token_stream().to_string() != text) {
            self.modules.push(module.clone());
        }
    }

    /// Returns the checks that are left to the compiler.
    pub(crate) fn compiler_checks(&self) -> TokenStream {
        let checks = self
            .modules
            .iter()
            .map(|module| quote_spanned!(module.span()=> const _: () = #module::IS_MODULE_OF_ODM;));
        checks.collect()
    }

    /// Returns whether the derive has found no error so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the number of errors so far.
    pub(crate) fn error_count(&self) -> usize {
        self.errors.len()
    }

    /// Returns the errors as `compile_error!` calls, or `None` without errors.
    pub(crate) fn into_errors(self) -> Option<TokenStream> {
        (!self.errors.is_empty()).then(|| {
            self.errors
                .iter()
                .map(syn::Error::to_compile_error)
                .collect()
        })
    }
}
