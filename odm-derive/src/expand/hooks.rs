//! Code generation for models with hooks.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Path, spanned::Spanned};

use super::PrivatePath;
use crate::model::Model;

/// Returns the generated item `hooks` of a document. `setting` is the attribute setting, for error messages.
pub(super) fn hooks_item(setting: &Path, private: &PrivatePath) -> TokenStream {
    let hooks = quote_spanned!(setting.span()=> #private::hooks::<Self>());
    quote! {
        const HAS_HOOKS: bool = true;

        fn hooks() -> #private::Option<&'static dyn #private::RunHooks<Self>> {
            #private::Some(#hooks)
        }
    }
}

impl Model<'_> {
    /// Returns the `HasHooks` implementation, which allows the user's `Hooks` implementation.
    pub(crate) fn has_hooks_impl(&self, setting: &Path, private: &PrivatePath) -> TokenStream {
        let name = &self.input.ident;
        let (impl_generics, type_generics, where_clause) = self.input.generics.split_for_impl();
        let scope = match self.scope_field() {
            None => quote!(#private::Unscoped),
            Some(scope) => scope.ty.to_token_stream(),
        };
        quote_spanned! {setting.span()=>
            #[automatically_derived]
            impl #impl_generics #private::HasHooks for #name #type_generics #where_clause {
                type Scope = #scope;
            }
        }
    }
}
