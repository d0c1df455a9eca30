//! A model that says what is done before and after its writes.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Path, spanned::Spanned};

use super::Private;
use crate::model::Model;

/// The generated item `hooks` of a document; `said` is where they are asked for.
pub(super) fn run(said: &Path, private: &Private) -> TokenStream {
    let hooks = quote_spanned!(said.span()=> #private::hooks::<Self>());
    quote! {
        const HAS_HOOKS: bool = true;

        fn hooks() -> #private::Option<&'static dyn #private::RunHooks<Self>> {
            #private::Some(#hooks)
        }
    }
}

impl Model<'_> {
    /// The generated permission to have hooks.
    pub(crate) fn has_hooks(&self, said: &Path, private: &Private) -> TokenStream {
        let name = &self.input.ident;
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        let scope = match self.scope() {
            None => quote!(#private::Unscoped),
            Some(scope) => scope.ty.to_token_stream(),
        };
        quote_spanned! {said.span()=>
            #[automatically_derived]
            impl #impl_generics #private::HasHooks for #name #own #where_clause {
                type Scope = #scope;
            }
        }
    }
}
