//! The derives of the crate `odm`, which re-exports them: use them from there.
//!
//! Each is three steps: parse the input into a model, check it, expand it. All errors of an input are reported at once,
//! each at the token that it is about.

mod attr;
mod ctxt;
mod expand;
mod fallback;
mod model;
mod rename;
mod self_type;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct the model of a collection's documents.
///
/// On the struct: `#[document(collection = "…")]`, and `index(field, -other.below; unique, …)` for each compound index.
///
/// On its fields: `#[embed]` for an embedded struct or a map, `#[embed(max = N)]` or `#[embed(unbounded)]` for an array,
/// `#[reference]` for a `Ref` or an array of them, `#[index]` with `unique`, `sparse`, `descending`,
/// `expire_after_seconds = N`, `partial = |m| …` and `name = "…"`. The `_id` is the field that serde calls so.
#[proc_macro_derive(Document, attributes(document, embed, reference, index))]
pub fn document(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::document::expand,
        fallback::document,
    )
}

/// Makes a struct one that can be embedded in documents; an enum or a newtype becomes a single value.
///
/// On its fields: `#[embed]` and `#[reference]`, as for `Document`.
#[proc_macro_derive(Embedded, attributes(embedded, embed, reference, index))]
pub fn embedded(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::embedded::expand,
        fallback::embedded,
    )
}

/// Makes a unit struct the schema of a database: `#[schema(models(Product, Part))]`.
#[proc_macro_derive(Schema, attributes(schema))]
pub fn schema(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::schema::expand,
        fallback::schema,
    )
}

/// Makes a struct hold some fields of a model's documents: `#[projection(of = Product)]`.
#[proc_macro_derive(Projection, attributes(projection))]
pub fn projection(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::projection::expand,
        fallback::projection,
    )
}

/// What an expansion gives: code, or that there were errors.
type Expand = fn(&mut ctxt::Ctxt, &DeriveInput) -> Option<proc_macro2::TokenStream>;
type Fallback = fn(&DeriveInput) -> proc_macro2::TokenStream;

/// On an error the code is what could be made of the rest, or the fallback, so that uses of the type give no errors of
/// their own.
fn run(input: DeriveInput, expand: Expand, fallback: Fallback) -> TokenStream {
    let input = &self_type::write_out(input);
    let mut ctxt = ctxt::Ctxt::default();
    let expanded = expand(&mut ctxt, input);
    let code = expanded.unwrap_or_else(|| fallback(input));
    let errors = ctxt.into_errors();
    quote::quote!(#errors #code).into()
}
