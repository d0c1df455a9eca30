//! `#[derive(Schema)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{DeriveInput, Type, spanned::Spanned};

use super::{GeneratedCode, PrivatePath, fields::with_span, type_text};
use crate::{attr::ContainerAttrs, ctxt::Ctxt};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = ContainerAttrs::parse(ctxt, input, "schema", &["models"]);
    if !input.generics.params.is_empty() {
        ctxt.error_at(
            &input.generics,
            "a schema cannot have type parameters: remove the parameters",
        );
        return None;
    }
    let name = &input.ident;
    let models = distinct_models(ctxt, &container.models);
    if models.is_empty() && ctxt.is_clean() {
        ctxt.error_at(name, "missing models: write `#[schema(models(…))]`");
    }
    let private = PrivatePath::of_crate(&container.krate);

    // Each model is named once, by an alias, so that an invalid name is a single error.
    let aliases: Vec<_> = models
        .iter()
        .enumerate()
        .map(|(i, model)| format_ident!("Model{i}", span = model.span()))
        .collect();
    let parts = models.iter().zip(&aliases).enumerate().map(|(position, (model, alias))| {
        let message = format!(
            "two models share a collection: the collection of `{}` belongs to an earlier model of `{name}`; choose another collection",
            type_text(model),
        );
        let variant = format!(
            "`{0}` is one variant of an enum: list the enum instead of `{0}`, which includes the models of its variants",
            type_text(model),
        );
        let links = format!(
            "a reference and an inverse of `{}` do not name each other: write `#[reference(inverse = …)]` on the reference, \
             and `#[reference(inverse_of = …)]` on the inverse",
            type_text(model),
        );
        let copies = with_span(
            quote!(#private::ensure_copy_chains_end(<#name as #private::Schema>::MODELS, #position)),
            model.span(),
        );
        let misplaced_message = format!(
            "an embedded struct of `{}` has a delete rule that cannot be applied: it is in a map, in an array of arrays, pulls \
             outside of an array, or bypasses hooks",
            type_text(model),
        );
        let soft_delete = format!(
            "`soft_delete(cascade)` of `{}` reaches no document: no model with `soft_delete` refers to it by \
             `#[reference(exists, on_delete = cascade)]`; declare such a reference, or remove `cascade`",
            type_text(model),
        );
        let chunks = format!(
            "the collection of the spilled elements of an array of `{}` belongs to another model or array: choose another name",
            type_text(model),
        );
        quote_spanned! {model.span()=>
            type #alias = #model;

            // `do_not_recommend`: the compiler then reports the unmet bound of the model, for example its scope.
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::ListedIn<#name> for #alias {}

            const _: () = ::core::assert!(<#alias as #private::Document>::MODEL.tag.is_none(), #variant);

            const _: () = ::core::assert!(
                #private::is_first_in_collection(<#name as #private::Schema>::MODELS, #position),
                #message
            );
            const _: () = ::core::assert!(
                #private::links_match(<#name as #private::Schema>::MODELS, #position),
                #links
            );
            const _: () = ::core::assert!(
                #private::soft_delete_reaches_documents(<#name as #private::Schema>::MODELS, #position),
                #soft_delete
            );
            const _: () = #copies;
            const _: () = ::core::assert!(
                !<#alias as #private::Document>::MODEL.embedded_links.unreachable,
                #misplaced_message
            );
            const _: () = ::core::assert!(
                #private::chunk_collections_are_unique(<#name as #private::Schema>::MODELS, #position),
                #chunks
            );
            const _: fn() = #private::closed::<#name, #alias>;
        }
    });
    let code = quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::Schema for #name {
                const MODELS: &'static [&'static #private::Model] =
                    &[#(&<#aliases as #private::Document>::MODEL),*];
                fn indexes() -> #private::Vec<(&'static #private::Model, #private::Vec<#private::Index>)> {
                    ::std::vec![#((
                        &<#aliases as #private::Document>::MODEL,
                        <#aliases as #private::Document>::indexes(),
                    )),*]
                }
                fn model_checks() -> #private::Vec<#private::ModelCheck> {
                    ::std::vec![#(<#aliases as #private::Document>::model_check()),*]
                }
            }
            #(#parts)*
    };
    Some(GeneratedCode::from(code).into_tokens(&private))
}

/// Returns the models without duplicates, and reports the duplicates.
fn distinct_models<'a>(ctxt: &mut Ctxt, models: &'a [Type]) -> Vec<&'a Type> {
    let mut known: Vec<&Type> = Vec::new();
    for model in models {
        if known
            .iter()
            .any(|before| type_text(before) == type_text(model))
        {
            ctxt.error_at(model, "this model is in the schema already: remove it");
        } else {
            known.push(model);
        }
    }
    known
}
