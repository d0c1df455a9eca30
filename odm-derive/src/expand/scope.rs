//! What a model says of who reaches its documents: its scope, its soft delete.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::DeriveInput;

use super::{Private, with_params};
use crate::{
    attr::What,
    model::{Field, Model},
};

impl Model<'_> {
    /// The generated traits of a model that has a scope, or none, and of one that has a soft delete.
    pub(crate) fn reach(&self, private: &Private) -> TokenStream {
        let in_scope = match self.scope() {
            None => in_any_scope(self.input, private),
            Some(scope) => {
                let all = quote!(#private::AllScopes);
                let sessions = [scope.ty.to_token_stream(), all];
                let each =
                    sessions.map(|session| self.implement(&quote!(#private::InScope<#session>)));
                let written = written_in(self.input, scope.ty, private);
                quote!(#(#each)* #written)
            }
        };
        let deleted = self
            .fields
            .iter()
            .any(|field| field.filled == Some(What::Deleted));
        let soft_delete = deleted.then(|| self.implement(&quote!(#private::SoftDelete)));
        quote!(#in_scope #soft_delete)
    }

    /// The field that says whose a document is.
    pub(super) fn scope(&self) -> Option<&Field<'_>> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.filled == Some(What::Scope))
    }

    fn implement(&self, what: &TokenStream) -> TokenStream {
        let name = &self.input.ident;
        let (impl_generics, own, where_clause) = self.input.generics.split_for_impl();
        quote! {
            #[automatically_derived]
            impl #impl_generics #what for #name #own #where_clause {}
        }
    }
}

/// The generated proof that a model without a scope may be used through any session.
pub(crate) fn in_any_scope(input: &DeriveInput, private: &Private) -> TokenStream {
    let name = &input.ident;
    let (decl, _) = with_params(&input.generics, &quote!(__Scope,), &quote!());
    let (_, own, _) = input.generics.split_for_impl();
    let (_, _, where_clause) = input.generics.split_for_impl();
    let written = written_in(input, quote!(#private::Unscoped), private);
    quote! {
        #[automatically_derived]
        impl #decl #private::InScope<__Scope> for #name #own #where_clause {}
        #written
    }
}

/// The generated claim that the documents of a model are inserted through sessions of this type.
fn written_in(input: &DeriveInput, session: impl ToTokens, private: &Private) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, own, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #private::WrittenIn for #name #own #where_clause {
            type Session = #session;
        }
    }
}
