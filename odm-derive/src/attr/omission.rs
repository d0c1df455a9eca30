//! Projections that leave fields out: `projection(PostCard, without(body))`.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{
    Path, Token,
    ext::IdentExt,
    meta::ParseNestedMeta,
    parse::{Parse, ParseStream},
};

use super::in_parentheses;

/// A projection with all fields of a model except some.
pub(crate) struct OmissionAttr {
    /// The name of the generated struct.
    pub(crate) name: Ident,
    /// The fields that the struct leaves out.
    pub(crate) omitted: Vec<Ident>,
    /// Further derives of the struct.
    pub(crate) derives: Vec<Path>,
}

const USAGE: &str = "`projection` needs the name of a new struct, and the fields that it leaves out: `projection(PostCard, \
     without(body, comments))`; with further derives, `projection(PostCard, without(body), derive(serde::Serialize))`";

/// Parses the setting.
pub(super) fn parse_omission(meta: &ParseNestedMeta<'_>) -> syn::Result<OmissionAttr> {
    in_parentheses(meta, USAGE, |content| {
        let invalid = |input: ParseStream<'_>| input.error(USAGE);
        let name: Ident = content
            .call(Ident::parse_any)
            .map_err(|_| invalid(content))?;
        let mut attr = OmissionAttr {
            name,
            omitted: Vec::new(),
            derives: Vec::new(),
        };
        while content.peek(Token![,]) {
            content.parse::<Token![,]>()?;
            if content.is_empty() {
                break;
            }
            let part: Ident = content
                .call(Ident::parse_any)
                .map_err(|_| invalid(content))?;
            if part == "without" {
                attr.omitted.extend(list(content, Ident::parse_any)?);
            } else if part == "derive" {
                attr.derives.extend(list(content, Path::parse)?);
            } else {
                return Err(syn::Error::new_spanned(part, USAGE));
            }
        }
        match attr.omitted.is_empty() || !content.is_empty() {
            true => Err(syn::Error::new_spanned(&attr.name, USAGE)),
            false => Ok(attr),
        }
    })
}

/// Parses a list in parentheses.
fn list<T: ToTokens>(
    input: ParseStream<'_>,
    item: fn(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<impl Iterator<Item = T>> {
    let content;
    syn::parenthesized!(content in input);
    let items = content.parse_terminated(item, Token![,]);
    if items.is_err() {
        // The rest of the content would be reported as a second error.
        content.parse::<TokenStream>()?;
    }
    Ok(items?.into_iter())
}
