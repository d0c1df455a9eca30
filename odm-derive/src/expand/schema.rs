//! `#[derive(Schema)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{DeriveInput, Type, spanned::Spanned};

use super::{Code, Private, fields::at, text};
use crate::{attr::Container, ctxt::Ctxt};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = Container::parse(ctxt, input, "schema", &["models"]);
    if !input.generics.params.is_empty() {
        ctxt.error(&input.generics, "a schema has no parameters");
        return None;
    }
    let name = &input.ident;
    let models = once_each(ctxt, &container.models);
    if models.is_empty() && ctxt.is_clean() {
        ctxt.error(name, "which models? Say `#[schema(models(…))]`");
    }
    let private = Private::of(&container.krate);

    // Each model is named once, by an alias: what is wrong with the name is one error.
    let aliases: Vec<_> = models
        .iter()
        .enumerate()
        .map(|(i, model)| format_ident!("Model{i}", span = model.span()))
        .collect();
    let parts = models.iter().zip(&aliases).enumerate().map(|(position, (model, alias))| {
        let message = format!(
            "two models on one collection: that of `{}` belongs to a model before it in `{name}`; give one of them another collection",
            text(model),
        );
        let variant = format!(
            "`{0}` is one variant of an enum, which brings the models of its variants along: list the enum, and leave `{0}` out",
            text(model),
        );
        let links = format!(
            "the two sides of a link of `{}` do not name each other: one says `#[reference(inverse = …)]`, the other \
             `#[reference(inverse_of = …)]`",
            text(model),
        );
        let copies = at(
            quote!(#private::copies_end(<#name as #private::Schema>::MODELS, #position)),
            model.span(),
        );
        let misplaced = format!(
            "an embedded struct of `{}` has a reference with a rule that cannot be kept: it is in a map, in an array that is in an array, \
             says `pull` outside of an array, or goes around hooks",
            text(model),
        );
        let extras = format!(
            "the collection into which an array of `{}` overflows is that of another model, or of another array: give it one of its own",
            text(model),
        );
        quote_spanned! {model.span()=>
            type #alias = #model;

            // What is not met is said of the model: that it belongs to a scope.
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::ListedIn<#name> for #alias {}

            const _: () = ::core::assert!(<#alias as #private::Document>::MODEL.tag.is_none(), #variant);

            const _: () = ::core::assert!(
                #private::is_first_on_its_collection(<#name as #private::Schema>::MODELS, #position),
                #message
            );
            const _: () = ::core::assert!(
                #private::links_match(<#name as #private::Schema>::MODELS, #position),
                #links
            );
            const _: () = #copies;
            const _: () = ::core::assert!(
                !<#alias as #private::Document>::MODEL.links_inside.misplaced,
                #misplaced
            );
            const _: () = ::core::assert!(
                #private::extras_are_alone(<#name as #private::Schema>::MODELS, #position),
                #extras
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
                fn checks() -> #private::Vec<#private::ModelCheck> {
                    ::std::vec![#(<#aliases as #private::Document>::model_check()),*]
                }
            }
            #(#parts)*
    };
    Some(Code::from(code).finish(&private))
}

/// The models without those that are there twice, which is an error.
fn once_each<'a>(ctxt: &mut Ctxt, models: &'a [Type]) -> Vec<&'a Type> {
    let mut known: Vec<&Type> = Vec::new();
    for model in models {
        if known.iter().any(|before| text(before) == text(model)) {
            ctxt.error(model, "this model is in the schema already");
        } else {
            known.push(model);
        }
    }
    known
}
