//! What stands in for a type that no derive can understand: enough that its uses give no errors of their own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

use crate::{
    attr::Container,
    ctxt::Ctxt,
    expand::{private, quiet},
};

/// A document without fields.
pub(crate) fn document(input: &DeriveInput) -> TokenStream {
    if fits_nothing(input) {
        return TokenStream::new();
    }
    let (private, quiet) = (krate(input, "document"), quiet());
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #quiet
        impl #impl_generics #private::Document for #name #type_generics #where_clause {
            type Id = ::std::primitive::i64;
            type Fields = #private::Path;
            const COLLECTION: &'static str = "";
            const MODEL: #private::Model = #private::Model::UNKNOWN;
            fn id(&self) -> &::std::primitive::i64 { &0 }
            fn check_bounds(&self) -> #private::Result<()> { #private::Ok(()) }
            fn indexes() -> #private::Vec<#private::Index> { #private::Vec::new() }
        }
        #quiet
        impl #impl_generics #private::Whole for #name #type_generics #where_clause {}
    }
}

/// An embedded struct without fields.
pub(crate) fn embedded(input: &DeriveInput) -> TokenStream {
    if fits_nothing(input) {
        return TokenStream::new();
    }
    let private = krate(input, "embedded");
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        impl #impl_generics #private::Stored for #name #type_generics #where_clause {
            type Kind = #private::kind::Struct;
            type Fields<__M: 'static, __R: 'static, __S: 'static> = #private::Field<__M, Self, __R, __S>;
        }
        impl #impl_generics #private::Embedded for #name #type_generics #where_clause {}
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = Self;
            const READS: #private::Reads = #private::Reads::Whole;
        }
    }
}

/// A schema of nothing.
pub(crate) fn schema(input: &DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() {
        return TokenStream::new();
    }
    let private = krate(input, "schema");
    let name = &input.ident;
    quote! {
        impl #private::Schema for #name {
            const MODELS: &'static [&'static #private::Model] = &[];
            fn indexes() -> #private::Vec<(&'static #private::Model, #private::Vec<#private::Index>)> {
                #private::Vec::new()
            }
        }
    }
}

/// Nothing: without a model there is nothing to stand in for.
pub(crate) fn projection(_: &DeriveInput) -> TokenStream {
    TokenStream::new()
}

/// No implementation fits a type with lifetimes, or a union.
fn fits_nothing(input: &DeriveInput) -> bool {
    input.generics.lifetimes().next().is_some() || matches!(input.data, Data::Union(_))
}

/// The path of the crate, as far as the attribute can be read; its errors are reported elsewhere.
fn krate(input: &DeriveInput, attribute: &str) -> TokenStream {
    let known = ["collection", "hooks", "index", "models", "of", "validate"];
    private(&Container::parse(&mut Ctxt::default(), input, attribute, &known).krate)
}
