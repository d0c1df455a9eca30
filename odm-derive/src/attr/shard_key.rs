//! The shard key: `shard_key(customer, id)`, `shard_key(hashed(customer))`.

use syn::{Ident, Token, ext::IdentExt, meta::ParseNestedMeta, parse::ParseStream, token::Paren};

use super::in_parentheses;

/// One field of a shard key.
pub(crate) struct ShardField {
    pub(crate) name: Ident,
    pub(crate) is_hashed: bool,
}

const SHARD_KEY_USAGE: &str =
    "a shard key needs fields: `shard_key(customer, id)`, or `shard_key(hashed(customer))`";

/// Parses `shard_key(…)` inside `#[document(…)]`.
pub(crate) fn parse_shard_key(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<ShardField>> {
    let fields = in_parentheses(meta, SHARD_KEY_USAGE, |content| {
        content.parse_terminated(parse_shard_field, Token![,])
    })?;
    if fields.is_empty() {
        return Err(meta.error(SHARD_KEY_USAGE));
    }
    Ok(fields.into_iter().collect())
}

fn parse_shard_field(input: ParseStream<'_>) -> syn::Result<ShardField> {
    if input.peek(Token![-]) {
        return Err(
            input.error("a shard key has no direction: its fields are ascending or `hashed(…)`")
        );
    }
    let name = input.call(Ident::parse_any)?;
    let is_hashed = name == "hashed" && !input.is_empty() && !input.peek(Token![,]);
    let name = match is_hashed {
        false => name,
        true if input.peek(Paren) => {
            let content;
            syn::parenthesized!(content in input);
            let name = content.call(Ident::parse_any)?;
            ensure_top_level(&content)?;
            name
        }
        true => {
            return Err(input.error("the hashed field must be in parentheses: `hashed(customer)`"));
        }
    };
    ensure_top_level(input)?;
    Ok(ShardField { name, is_hashed })
}

fn ensure_top_level(input: ParseStream<'_>) -> syn::Result<()> {
    match input.peek(Token![.]) {
        false => Ok(()),
        true => Err(input.error(
            "a field of an embedded struct cannot be part of a shard key yet: add a field to the document",
        )),
    }
}
