//! `#[derive(Patch)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, DeriveInput, Field, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{GeneratedCode, PrivatePath, allow_lints};
use crate::{
    attr::{ContainerAttrs, attrs_named, parse_settings, skip_value},
    ctxt::Ctxt,
    model::named_fields,
};

const FIELD_USAGE: &str = "a field of a patch accepts `#[patch(nested)]`";

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = ContainerAttrs::parse(ctxt, input, "patch", &["of"]);
    let fields = named_fields(ctxt, input, "Patch")?;
    if !input.generics.params.is_empty() {
        ctxt.error_at(
            &input.generics,
            "a patch cannot have parameters: write a patch for each model",
        );
    }
    let parsed: Vec<_> = fields
        .iter()
        .filter_map(|field| PatchField::parse(ctxt, field))
        .collect();
    let Some(model) = &container.of else {
        if ctxt.is_clean() {
            ctxt.error_at(&input.ident, "missing model: write `#[patch(of = …)]`");
        }
        return None;
    };
    if !ctxt.is_clean() {
        return None;
    }
    let private = PrivatePath::of_crate(&container.krate);
    let name = &input.ident;
    let changes = parsed.iter().map(|field| field.change());
    let tree = quote_spanned!(model.span()=> <#model as #private::Projected>::Tree);
    let deserialize = deserialize_impl(input, &parsed, &private);
    let code = quote! {
        #[automatically_derived]
        impl #private::Patch for #name {
            type Of = #model;
            fn apply_to(self, fields: &#tree, changes: &mut #private::PatchChanges<'_>) {
                #(#changes)*
            }
        }
        #deserialize
    };
    Some(GeneratedCode::from(code).into_tokens(&private))
}

/// A field of a patch.
struct PatchField<'a> {
    ident: &'a Ident,
    field: &'a Field,
    is_nested: bool,
    /// serde reads the field by a function of the application, or not at all.
    has_own_form: bool,
}

impl<'a> PatchField<'a> {
    fn parse(ctxt: &mut Ctxt, field: &'a Field) -> Option<Self> {
        let mut parsed = Self {
            ident: field.ident.as_ref()?,
            field,
            is_nested: false,
            has_own_form: false,
        };
        if !is_option(&field.ty) {
            let ty = &field.ty;
            let message = format!(
                "a field of a patch is an `Option`, because a request may leave the value out: write `Option<{}>`",
                quote!(#ty)
            );
            ctxt.error_at(ty, message);
        }
        for attr in attrs_named(&field.attrs, "patch") {
            parse_settings(ctxt, attr, |meta| {
                if !meta.path.is_ident("nested") {
                    return Err(meta.error(FIELD_USAGE));
                }
                parsed.is_nested = true;
                Ok(())
            });
        }
        for attr in attrs_named(&field.attrs, "serde") {
            parse_settings(ctxt, attr, |meta| {
                let name = meta.path.to_token_stream().to_string();
                parsed.has_own_form |= matches!(
                    name.as_str(),
                    "with" | "deserialize_with" | "skip" | "skip_deserializing" | "flatten"
                );
                skip_value(meta)
            });
        }
        Some(parsed)
    }

    /// Returns the statement that adds the change of the field. Errors of types are reported at the field.
    fn change(&self) -> TokenStream {
        let ident = self.ident;
        let place = Ident::new("place", ident.span());
        let method = match self.is_nested {
            true => Ident::new("patch_some", ident.span()),
            false => Ident::new("set_some", ident.span()),
        };
        quote_spanned! {ident.span()=>
            let #place = &fields.#ident();
            changes.#method(#place, self.#ident);
        }
    }
}

fn is_option(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| last.ident == "Option")
        }
        _ => false,
    }
}

/// Returns the implementation of `Deserialize`: serde reads a helper struct with the attributes of the patch. A present value is
/// `Some`, also for null.
fn deserialize_impl(
    input: &DeriveInput,
    fields: &[PatchField<'_>],
    private: &PrivatePath,
) -> TokenStream {
    let name = &input.ident;
    let helper = format_ident!("{name}Values");
    let idents: Vec<_> = fields.iter().map(|field| field.ident).collect();
    let serde = quote!(#private::serde).to_string();
    let present = quote!(#private::present).to_string();
    let declared = fields.iter().map(|field| {
        let (ident, ty) = (field.ident, &field.field.ty);
        let attrs: Vec<&Attribute> = attrs_named(&field.field.attrs, "serde").collect();
        let form = match field.has_own_form {
            true => quote!(#[serde(default)]),
            false => quote!(#[serde(default, deserialize_with = #present)]),
        };
        quote!(#(#attrs)* #form #ident: #ty)
    });
    let attrs: Vec<&Attribute> = attrs_named(&input.attrs, "serde").collect();
    let lints = allow_lints();
    let expecting = format!("struct {}", name.unraw());
    quote! {
        #lints
        #[derive(#private::Deserialize)]
        #[serde(crate = #serde, expecting = #expecting)]
        #(#attrs)*
        struct #helper {
            #(#declared,)*
        }

        #[automatically_derived]
        impl<'de> #private::Deserialize<'de> for #name {
            fn deserialize<__D: #private::serde::Deserializer<'de>>(
                deserializer: __D,
            ) -> ::core::result::Result<Self, __D::Error> {
                let values = <#helper as #private::Deserialize<'de>>::deserialize(deserializer)?;
                #private::Ok(Self { #(#idents: values.#idents,)* })
            }
        }
    }
}
