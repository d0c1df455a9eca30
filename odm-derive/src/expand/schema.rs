//! `#[derive(Schema)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{DeriveInput, spanned::Spanned};

use super::{private, quiet};
use crate::{attr::Container, ctxt::Ctxt};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = Container::parse(ctxt, input, "schema", &["models"]);
    if !input.generics.params.is_empty() {
        ctxt.error(&input.generics, "a schema has no parameters");
    }
    let name = &input.ident;
    let private = private(&container.krate);
    let quiet = quiet();
    for (i, model) in container.models.iter().enumerate() {
        let text = model.to_token_stream().to_string();
        let before = container.models.iter().take(i);
        if before
            .into_iter()
            .any(|other| other.to_token_stream().to_string() == text)
        {
            ctxt.error(model, "this model is in the schema already");
        }
    }

    let models = &container.models;
    let contains = models.iter().map(|model| {
        quote_spanned! {model.span()=>
            #[automatically_derived]
            impl #private::Contains<#model> for #name {}
        }
    });
    let checks = models.iter().enumerate().map(|(position, model)| {
        let text = model.to_token_stream().to_string().replace(' ', "");
        let message = format!(
            "two models on one collection: that of `{text}` belongs to a model before it in `{name}`; give one of them another collection"
        );
        quote_spanned! {model.span()=>
            const _: () = ::core::assert!(
                #private::is_first_on_its_collection(<#name as #private::Schema>::MODELS, #position),
                #message
            );
            const _: fn() = #private::closed::<#name, #model>;
        }
    });
    Some(quote! {
        #[automatically_derived]
        #quiet
        impl #private::Schema for #name {
            const MODELS: &'static [&'static #private::Model] =
                &[#(&<#models as #private::Document>::MODEL),*];
            fn indexes() -> #private::Vec<(&'static #private::Model, #private::Vec<#private::Index>)> {
                ::std::vec![#((
                    &<#models as #private::Document>::MODEL,
                    <#models as #private::Document>::indexes(),
                )),*]
            }
        }
        #(#contains)*
        #(#checks)*
    })
}
