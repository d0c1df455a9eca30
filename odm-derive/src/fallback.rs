//! Stubs for types that a derive cannot expand, so that uses of the type do not cause more errors.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Type};

use crate::{
    attr::ContainerAttrs,
    ctxt::Ctxt,
    expand::{self, GeneratedCode, PrivatePath, scope::in_any_scope, type_text},
};

/// All settings of all derives.
const ALL_SETTINGS: &[&str] = &[
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

/// Returns a document without fields.
pub(crate) fn document_stub(input: &DeriveInput) -> TokenStream {
    if cannot_implement(input) {
        return TokenStream::new();
    }
    let private = private_path(input, "document");
    let container = ContainerAttrs::parse(&mut Ctxt::default(), input, "document", ALL_SETTINGS);
    let variant = container
        .variant_of
        .as_ref()
        .map(|enum_type| expand::document::variant_of_impl(input, enum_type, &private));
    let model = match &container.variant_of {
        Some(enum_type) => quote!(#enum_type),
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
            type Listed = #model;
            type Itself = Self;
            type Sharding = #private::Unsharded;
            const COLLECTION: &'static str = "";
            const MODEL: #private::Model = #private::Model::UNKNOWN;
            fn id(&self) -> &::std::primitive::i64 { &0 }
        }
        impl #impl_generics #private::InsertedAsIs for #name #type_generics #where_clause {}
        #variant
        #variants
    };
    GeneratedCode::from(code).into_tokens(&private)
}

/// Returns the `HasVariant` implementations that the models of an enum's variants need.
fn has_variants(input: &DeriveInput, private: &PrivatePath) -> TokenStream {
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
        if types.iter().all(|other| type_text(other) != type_text(&ty)) {
            types.push(ty);
        }
    }
    let none = String::new();
    let pairs = types.iter().map(|ty| (&none, ty));
    expand::enum_document::has_variant_impls(input, "", "", pairs, private)
}

/// Returns an embedded struct without fields.
pub(crate) fn embedded_stub(input: &DeriveInput) -> TokenStream {
    if cannot_implement(input) {
        return TokenStream::new();
    }
    let private = private_path(input, "embedded");
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
            const FIELDS: #private::ProjectedFields = #private::ProjectedFields::Whole;
        }
    };
    GeneratedCode::from(code).into_tokens(&private)
}

/// Returns a schema without models.
pub(crate) fn schema_stub(input: &DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() {
        return TokenStream::new();
    }
    let private = private_path(input, "schema");
    let name = &input.ident;
    let code = quote! {
        impl #private::Schema for #name {
            const MODELS: &'static [&'static #private::Model] = &[];
            fn indexes() -> #private::Vec<(&'static #private::Model, #private::Vec<#private::Index>)> {
                #private::Vec::new()
            }
        }
    };
    GeneratedCode::from(code).into_tokens(&private)
}

/// Returns a patch without changes, which reads nothing.
pub(crate) fn patch_stub(input: &DeriveInput) -> TokenStream {
    if cannot_implement(input) || !input.generics.params.is_empty() {
        return TokenStream::new();
    }
    let private = private_path(input, "patch");
    let model = ContainerAttrs::parse(&mut Ctxt::default(), input, "patch", ALL_SETTINGS).of;
    let Some(model) = model else {
        return TokenStream::new();
    };
    let name = &input.ident;
    let code = quote! {
        impl #private::Patch for #name {
            type Of = #model;
            fn apply_to(self, _: &<#model as #private::Projected>::Tree, _: &mut #private::PatchChanges<'_>) {}
        }
        impl<'de> #private::Deserialize<'de> for #name {
            fn deserialize<__D: #private::serde::Deserializer<'de>>(_: __D) -> ::core::result::Result<Self, __D::Error> {
                ::core::unreachable!()
            }
        }
    };
    GeneratedCode::from(code).into_tokens(&private)
}

/// Returns a projection of everything.
pub(crate) fn projection_stub(input: &DeriveInput) -> TokenStream {
    if cannot_implement(input) {
        return TokenStream::new();
    }
    let private = private_path(input, "projection");
    let model = ContainerAttrs::parse(&mut Ctxt::default(), input, "projection", ALL_SETTINGS).of;
    let model = model.map_or_else(|| quote!(Self), |model| quote!(#model));
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let (decl, _) = expand::with_params(&input.generics, &quote!(__Of,), &quote!());
    let code = quote! {
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = #model;
            const FIELDS: #private::ProjectedFields = #private::ProjectedFields::Whole;
        }
        impl #decl #private::ProjectionOf<__Of> for #name #type_generics #where_clause {}
        impl #decl #private::InScope<__Of> for #name #type_generics #where_clause {}
    };
    GeneratedCode::from(code).into_tokens(&private)
}

/// Returns whether no implementation is possible: for a type with lifetimes, or a union.
fn cannot_implement(input: &DeriveInput) -> bool {
    input.generics.lifetimes().next().is_some() || matches!(input.data, Data::Union(_))
}

/// Returns the path of the crate, if the attribute can be parsed. The derive reports errors in the attribute.
fn private_path(input: &DeriveInput, attribute: &str) -> PrivatePath {
    PrivatePath::of_crate(
        &ContainerAttrs::parse(&mut Ctxt::default(), input, attribute, ALL_SETTINGS).krate,
    )
}
