//! The shard key: `shard_key(customer, id)`, `shard_key(hashed(customer))`.

use syn::{Ident, Token, ext::IdentExt, meta::ParseNestedMeta, parse::ParseStream, token::Paren};

use super::in_parentheses;

/// One field of a shard key.
pub(crate) struct ShardField {
    pub(crate) name: Ident,
    pub(crate) is_hashed: bool,
}

const SAY: &str =
    "by which fields? Say `shard_key(customer, id)`, or `shard_key(hashed(customer))`";

/// `shard_key(…)` inside `#[document(…)]`.
pub(crate) fn parse_shard_key(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<ShardField>> {
    let fields = in_parentheses(meta, SAY, |content| {
        content.parse_terminated(field, Token![,])
    })?;
    if fields.is_empty() {
        return Err(meta.error(SAY));
    }
    Ok(fields.into_iter().collect())
}

fn field(input: ParseStream<'_>) -> syn::Result<ShardField> {
    if input.peek(Token![-]) {
        return Err(input.error(
            "a shard key has no direction: each of its fields is ascending, or `hashed(…)`",
        ));
    }
    let name = input.call(Ident::parse_any)?;
    let is_hashed = name == "hashed" && !input.is_empty() && !input.peek(Token![,]);
    let name = match is_hashed {
        false => name,
        true if input.peek(Paren) => {
            let content;
            syn::parenthesized!(content in input);
            let name = content.call(Ident::parse_any)?;
            refuse_inner(&content)?;
            name
        }
        true => {
            return Err(
                input.error("the field that is hashed stands in brackets: `hashed(customer)`")
            );
        }
    };
    refuse_inner(input)?;
    Ok(ShardField { name, is_hashed })
}

fn refuse_inner(input: ParseStream<'_>) -> syn::Result<()> {
    match input.peek(Token![.]) {
        false => Ok(()),
        true => Err(input.error(
            "a field inside of an embedded struct cannot be part of a shard key yet: give the document a field of its own for it",
        )),
    }
}
