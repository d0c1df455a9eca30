//! What stands in for a type that no derive can understand: enough that its uses give no errors of their own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Type};

use crate::{
    attr::Container,
    ctxt::Ctxt,
    expand::{self, Code, Private, scope::in_any_scope, text},
};

/// All settings that there are.
const KNOWN: &[&str] = &[
    "collection",
    "hooks",
    "id",
    "index",
    "models",
    "of",
    "schema_version",
    "scope",
    "shard_key",
    "shared",
    "soft_delete",
    "timestamps",
    "upgrade",
    "validate",
    "variant_of",
    "version",
];

/// A document without fields.
pub(crate) fn document(input: &DeriveInput) -> TokenStream {
    if fits_nothing(input) {
        return TokenStream::new();
    }
    let private = krate(input, "document");
    let container = Container::parse(&mut Ctxt::default(), input, "document", KNOWN);
    let variant = container
        .variant_of
        .as_ref()
        .map(|of| expand::document::variant_of(input, of, &private));
    let listed = match &container.variant_of {
        Some(of) => quote!(#of),
        None => quote!(Self),
    };
    let variants = has_variants(input, &private);
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let in_scope = in_any_scope(input, &private);
    let code = quote! {
        #in_scope
        impl #impl_generics #private::Document for #name #type_generics #where_clause {
            type Id = ::std::primitive::i64;
            type Fields = #private::Path;
            type Listed = #listed;
            type Itself = Self;
            type Sharding = #private::Unsharded;
            const COLLECTION: &'static str = "";
            const MODEL: #private::Model = #private::Model::UNKNOWN;
            fn id(&self) -> &::std::primitive::i64 { &0 }
        }
        impl #impl_generics #private::Whole for #name #type_generics #where_clause {}
        #variant
        #variants
    };
    Code::from(code).finish(&private)
}

/// What the models of an enum's variants rely on.
fn has_variants(input: &DeriveInput, private: &Private) -> TokenStream {
    let Data::Enum(data) = &input.data else {
        return TokenStream::new();
    };
    let newtype = |variant: &syn::Variant| match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            fields.unnamed.first().map(|field| field.ty.clone())
        }
        _ => None,
    };
    let mut types: Vec<Type> = Vec::new();
    for ty in data.variants.iter().filter_map(newtype) {
        if types.iter().all(|other| text(other) != text(&ty)) {
            types.push(ty);
        }
    }
    let none = String::new();
    let pairs = types.iter().map(|ty| (&none, ty));
    expand::enum_document::has_variants(input, "", "", pairs, private)
}

/// An embedded struct without fields.
pub(crate) fn embedded(input: &DeriveInput) -> TokenStream {
    if fits_nothing(input) {
        return TokenStream::new();
    }
    let private = krate(input, "embedded");
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let code = quote! {
        impl #impl_generics #private::Stored for #name #type_generics #where_clause {
            type Kind = #private::kind::Struct;
            type Fields<__M: 'static, __R: 'static, __S: 'static> = #private::Field<__M, Self, __R, __S>;
            type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
            type New = Self;
        }
        impl #impl_generics #private::Embedded for #name #type_generics #where_clause {}
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = Self;
            const READS: #private::Reads = #private::Reads::Whole;
        }
    };
    Code::from(code).finish(&private)
}

/// A schema of nothing.
pub(crate) fn schema(input: &DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() {
        return TokenStream::new();
    }
    let private = krate(input, "schema");
    let name = &input.ident;
    let code = quote! {
        impl #private::Schema for #name {
            const MODELS: &'static [&'static #private::Model] = &[];
            fn indexes() -> #private::Vec<(&'static #private::Model, #private::Vec<#private::Index>)> {
                #private::Vec::new()
            }
        }
    };
    Code::from(code).finish(&private)
}

/// A projection of everything.
pub(crate) fn projection(input: &DeriveInput) -> TokenStream {
    if fits_nothing(input) {
        return TokenStream::new();
    }
    let private = krate(input, "projection");
    let of = Container::parse(&mut Ctxt::default(), input, "projection", KNOWN).of;
    let of = of.map_or_else(|| quote!(Self), |of| quote!(#of));
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let (decl, _) = expand::with_params(&input.generics, &quote!(__Of,), &quote!());
    let code = quote! {
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = #of;
            const READS: #private::Reads = #private::Reads::Whole;
        }
        impl #decl #private::ProjectionOf<__Of> for #name #type_generics #where_clause {}
        impl #decl #private::InScope<__Of> for #name #type_generics #where_clause {}
    };
    Code::from(code).finish(&private)
}

/// No implementation fits a type with lifetimes, or a union.
fn fits_nothing(input: &DeriveInput) -> bool {
    input.generics.lifetimes().next().is_some() || matches!(input.data, Data::Union(_))
}

/// The path of the crate, as far as the attribute can be read; its errors are reported elsewhere.
fn krate(input: &DeriveInput, attribute: &str) -> Private {
    Private::of(&Container::parse(&mut Ctxt::default(), input, attribute, KNOWN).krate)
}
