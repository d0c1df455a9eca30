//! `#[derive(Projection)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{DeriveInput, Ident, Path, Type, ext::IdentExt, spanned::Spanned};

use super::{GeneratedCode, PrivatePath, insertable::DeclaredWith, where_bounds, with_params};
use crate::{
    attr::{ContainerAttrs, OmissionAttr, SerdeContainer, SerdeField, is_overflow},
    ctxt::Ctxt,
    model::{Field, Model, named_fields, stored_name},
};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = ContainerAttrs::parse(ctxt, input, "projection", &["of"]);
    let fields = parse_fields(ctxt, input)?;
    let Some(model) = &container.of else {
        if ctxt.is_clean() {
            ctxt.error_at(&input.ident, "missing model: write `#[projection(of = …)]`");
        }
        return None;
    };
    let private = PrivatePath::of_crate(&container.krate);
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let reads = fields.iter().map(|field| {
        let (ty, stored) = (field.ty, &field.stored);
        quote_spanned!(ty.span()=> (#stored, <#ty as #private::Projection>::FIELDS))
    });
    let tree = quote_spanned!(model.span()=> #private::tree_of::<#model>());
    let checks = fields.iter().map(|field| {
        let (ident, ty, stored) = (field.ident, field.ty, &field.stored);
        let rust = ident.unraw().to_string();
        let message = format!(
            "the field has another stored name in the model than `{stored}`: write the same `rename` and `rename_all` in both"
        );
        let accessor = quote_spanned!(ident.span()=> .#ident());
        let read = if field.native {
            quote!(natively)
        } else {
            quote!(plainly)
        };
        let type_check = quote_spanned!(ty.span()=> .fits::<#ty>().#read());
        let same = quote_spanned! {ident.span()=>
            const _: () = ::core::assert!(
                #private::stores_as::<#model>(#rust, #stored),
                #message
            );
        };
        // The argument is a variable with the span of the field, so the compiler reports errors at the field.
        let place = Ident::new("place", ident.span());
        let value = match field.has_default {
            true => quote!(value_or_default_of),
            false => quote!(value_of),
        };
        let types = quote! {
            let #place = #tree #accessor;
            #private::#value(#place) #type_check;
        };
        (types, same)
    });
    // The generated code recognizes an overflow array by the type name only. This check rejects type aliases, except in generic
    // types, where a constant cannot use type parameters.
    let is_generic = !input.generics.params.is_empty();
    let is_other =
        |field: &&ProjectedField<'_>| !is_generic && !field.native && !is_overflow(field.ty);
    let plain_checks = fields.iter().filter(is_other);
    let plain_checks = plain_checks.map(|field| {
        let ty = field.ty;
        quote_spanned! {ty.span()=>
            const _: () = ::core::assert!(
                !<#ty as #private::Projection>::OVERFLOWS,
                "an overflow array must be spelled `Overflow<…>`: the derive recognizes spilled elements by this name"
            );
        }
    });
    let plain_checks: Vec<_> = plain_checks.collect();
    let spilled_count_calls = fields.iter().filter(|field| is_overflow(field.ty));
    let spilled_count_calls: Vec<_> = spilled_count_calls
        .map(|field| {
            let (ident, stored) = (field.ident, &field.stored);
            quote!(#private::Projection::set_spilled_count(&mut value.#ident, raw, model, #stored);)
        })
        .collect();
    let from_document = (!spilled_count_calls.is_empty()).then(|| {
        quote! {
            fn from_document(raw: &#private::RawDocument, model: &#private::Model) -> #private::Result<Self> {
                let mut value: Self = #private::decode_projection(raw, model)?;
                #(#spilled_count_calls)*
                #private::Ok(value)
            }
        }
    });
    let (types, names): (Vec<_>, Vec<_>) = checks.unzip();
    // A join result is in scope where its model is in scope.
    let (decl, _) = with_params(&input.generics, &quote!(__Scope,), &quote!());
    let bounds = where_bounds(&input.generics);
    let in_scope = quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #decl #private::InScope<__Scope> for #name #type_generics
        where #model: #private::InScope<__Scope>, #bounds {}
    };
    let code = quote! {
        #[automatically_derived]
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = #model;
            const FIELDS: #private::ProjectedFields = #private::ProjectedFields::Fields(&[#(#reads),*]);
            #from_document
        }
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::ProjectionOf<#model> for #name #type_generics #where_clause {}
        #in_scope

        const _: () = {
            fn types #impl_generics () #where_clause { #(#types)* }
        };
        #(#names)*
        #(#plain_checks)*
    };
    Some(GeneratedCode::from(code).into_tokens(&private))
}

impl Model<'_> {
    /// Returns the projections that leave fields out: the structs with their implementations.
    pub(crate) fn omission_structs(
        &self,
        ctxt: &mut Ctxt,
        omissions: &[OmissionAttr],
        krate: &Path,
    ) -> TokenStream {
        let structs = omissions.iter().filter_map(|omission| {
            self.ensure_omission(ctxt, omission)?;
            Some(self.omission_struct(ctxt, omission, krate))
        });
        structs.collect()
    }

    /// Reports names that are no fields. Returns `None` after an error.
    fn ensure_omission(&self, ctxt: &mut Ctxt, omission: &OmissionAttr) -> Option<()> {
        if !self.input.generics.params.is_empty() {
            ctxt.error_at(
                &omission.name,
                "a model with type parameters cannot have generated projections yet: derive `Projection` for a struct of its own",
            );
            return None;
        }
        let mut is_valid = true;
        for (at, name) in omission.omitted.iter().enumerate() {
            let message = match self.field_named(name) {
                None => {
                    "there is no field with this name: name the fields that the projection leaves out"
                }
                Some(_)
                    if omission
                        .omitted
                        .iter()
                        .take(at)
                        .any(|before| before == name) =>
                {
                    "the field is named twice: remove one of the names"
                }
                Some(_) => continue,
            };
            ctxt.error_at(name, message);
            is_valid = false;
        }
        if is_valid && omission.omitted.len() == self.fields.len() {
            ctxt.error_at(
                &omission.name,
                "the projection has no fields: leave at least one field of the model in it",
            );
            is_valid = false;
        }
        is_valid.then_some(())
    }

    fn omission_struct(
        &self,
        ctxt: &mut Ctxt,
        omission: &OmissionAttr,
        krate: &Path,
    ) -> TokenStream {
        let (model, private) = (&self.input.ident, PrivatePath::of_crate(krate));
        let is_read = |field: &&Field<'_>| !omission.omitted.contains(field.ident);
        let fields: Vec<_> = self.fields.iter().filter(is_read).collect();
        let types: Vec<_> = fields
            .iter()
            .map(|field| field.ty.to_token_stream())
            .collect();
        let names: Vec<_> = omission
            .omitted
            .iter()
            .map(|name| format!("`{}`", name.unraw()))
            .collect();
        let doc = format!(
            "A projection of [`{}`]: all fields except {}.",
            model.unraw(),
            names.join(", ")
        );
        let code = self.declare_struct(
            &omission.name,
            &fields,
            &types,
            DeclaredWith::derives(&omission.derives),
            &doc,
            &private,
        );
        let declared = &code.types;
        let declared = quote!(#[projection(of = #model, crate = #krate)] #declared);
        let implementation = syn::parse2(declared).map(|input| expand(ctxt, &input));
        let implementation = ctxt.ok_or_report(implementation).flatten();
        let code = code.into_tokens(&private);
        quote!(#code #implementation)
    }
}

/// A field of a projection.
struct ProjectedField<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    stored: String,
    native: bool,
    /// serde's `default`.
    has_default: bool,
}

fn parse_fields<'a>(ctxt: &mut Ctxt, input: &'a DeriveInput) -> Option<Vec<ProjectedField<'a>>> {
    let container = SerdeContainer::parse(ctxt, &input.attrs);
    let fields = named_fields(ctxt, input, "Projection")?.iter();
    let read = fields.filter_map(|field| {
        let ident = field.ident.as_ref()?;
        let serde = SerdeField::parse(ctxt, &field.attrs);
        (!serde.skip).then(|| ProjectedField {
            ident,
            ty: &field.ty,
            stored: stored_name(ident, &serde, &container),
            native: serde.native,
            has_default: serde.default.is_some(),
        })
    });
    Some(read.collect())
}
