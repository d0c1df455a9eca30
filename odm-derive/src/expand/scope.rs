//! Code generation for scopes and soft deletes.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::DeriveInput;

use super::{PrivatePath, with_params};
use crate::{
    attr::ManagedKind,
    model::{Field, Model},
};

impl Model<'_> {
    /// Returns the implementations for a model with or without a scope, and with or without a soft delete.
    pub(crate) fn scope_impls(&self, private: &PrivatePath) -> TokenStream {
        let in_scope = match self.scope_field() {
            None => in_any_scope(self.input, private),
            Some(scope) => {
                let all = quote!(#private::AllScopes);
                let sessions = [scope.ty.to_token_stream(), all];
                let each =
                    sessions.map(|session| self.empty_impl(&quote!(#private::InScope<#session>)));
                let written = written_in_impl(self.input, scope.ty, private);
                quote!(#(#each)* #written)
            }
        };
        let deleted = self
            .fields
            .iter()
            .any(|field| field.managed == Some(ManagedKind::Deleted));
        let soft_delete = deleted.then(|| self.empty_impl(&quote!(#private::SoftDelete)));
        quote!(#in_scope #soft_delete)
    }

    /// Returns the field with the scope of a document.
    pub(super) fn scope_field(&self) -> Option<&Field<'_>> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.managed == Some(ManagedKind::Scope))
    }

    fn empty_impl(&self, trait_path: &TokenStream) -> TokenStream {
        let name = &self.input.ident;
        let (impl_generics, type_generics, where_clause) = self.input.generics.split_for_impl();
        quote! {
            #[automatically_derived]
            impl #impl_generics #trait_path for #name #type_generics #where_clause {}
        }
    }
}

/// Returns the proof that every session may use a model without a scope.
pub(crate) fn in_any_scope(input: &DeriveInput, private: &PrivatePath) -> TokenStream {
    let name = &input.ident;
    let (decl, _) = with_params(&input.generics, &quote!(__Scope,), &quote!());
    let (_, type_generics, _) = input.generics.split_for_impl();
    let (_, _, where_clause) = input.generics.split_for_impl();
    let written = written_in_impl(input, quote!(#private::Unscoped), private);
    quote! {
        #[automatically_derived]
        impl #decl #private::InScope<__Scope> for #name #type_generics #where_clause {}
        #written
    }
}

/// Returns the `WrittenIn` implementation: the session type that may insert documents of the model.
fn written_in_impl(
    input: &DeriveInput,
    session: impl ToTokens,
    private: &PrivatePath,
) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #private::WrittenIn for #name #type_generics #where_clause {
            type Session = #session;
        }
    }
}
