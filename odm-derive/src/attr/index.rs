//! Index attributes: `#[index(unique)]` on a field, `index(host, -time; unique)` on the struct.

use std::{collections::HashSet, fmt};

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{
    Attribute, ExprClosure, Ident, LitInt, LitStr, Meta, Token,
    ext::IdentExt,
    meta::ParseNestedMeta,
    parenthesized,
    parse::{Parse, ParseStream},
};

use crate::ctxt::Ctxt;

use super::{
    SeenSettings, expect_end, expect_flag, in_parentheses, parse_number, parse_value,
    unknown_setting,
};

/// A declared index.
pub(crate) struct IndexAttr {
    pub(crate) keys: Vec<IndexKey>,
    pub(crate) options: IndexOptions,
}

/// One key of an index: a path of field names that starts at the document.
#[derive(Clone)]
pub(crate) struct IndexKey {
    pub(crate) path: Vec<Ident>,
    pub(crate) direction: KeyDirection,
    /// Whether the index contains the caseless text: `ignore_case(path)`.
    pub(crate) ignore_case: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyDirection {
    Ascending,
    Descending,
}

/// The options of an index.
#[derive(Default)]
pub(crate) struct IndexOptions {
    pub(crate) unique: bool,
    pub(crate) sparse: bool,
    pub(crate) descending: Option<Ident>,
    pub(crate) ignore_case: Option<Ident>,
    pub(crate) partial: Option<ExprClosure>,
    pub(crate) expire_after_seconds: Option<LitInt>,
    /// Whether the scope of the model is not added to the index.
    pub(crate) all_scopes: Option<Ident>,
    pub(crate) name: Option<LitStr>,
}

/// The options without a value.
const FLAGS: [&str; 5] = [
    "unique",
    "sparse",
    "descending",
    "ignore_case",
    "all_scopes",
];

pub(crate) const OPTIONS_AFTER_SEMICOLON: &str =
    "the options of an index follow a semicolon: `index(host, -time; unique)`";

pub(crate) const ID_HAS_AN_INDEX: &str = "the `_id` always has a unique index: remove this one";

/// Parses `#[index]` on a field, with its options.
pub(crate) fn parse_field_index(attr: &Attribute) -> syn::Result<IndexOptions> {
    match &attr.meta {
        Meta::Path(_) => Ok(IndexOptions::default()),
        Meta::List(_) => attr.parse_args(),
        Meta::NameValue(_) => Err(syn::Error::new_spanned(attr, ACCEPTED_OPTIONS)),
    }
}

/// Parses `index(host, -time; unique)` inside `#[document(…)]`.
pub(crate) fn parse_struct_index(meta: &ParseNestedMeta<'_>) -> syn::Result<IndexAttr> {
    in_parentheses(meta, INDEX_FIELDS_USAGE, parse_index)
}

fn parse_index(content: ParseStream<'_>) -> syn::Result<IndexAttr> {
    let mut keys = Vec::new();
    while !content.is_empty() && !content.peek(Token![;]) {
        keys.push(content.parse()?);
        if !content.peek(Token![;]) && !content.is_empty() {
            expect_end(content, INDEX_FIELDS_USAGE)?;
            content.parse::<Token![,]>()?;
        }
    }
    let options: IndexOptions = if content.is_empty() {
        IndexOptions::default()
    } else {
        content.parse::<Token![;]>()?;
        content.parse()?
    };
    if keys.is_empty() {
        return Err(content.error(INDEX_FIELDS_USAGE));
    }
    if let Some(descending) = &options.descending {
        return Err(syn::Error::new_spanned(
            descending,
            "`descending` is for an index of one field: write `-time` in `index(…)`",
        ));
    }
    if let Some(ignore_case) = &options.ignore_case {
        return Err(syn::Error::new_spanned(ignore_case, IGNORE_CASE_USAGE));
    }
    if keys.len() > 1
        && let Some(seconds) = &options.expire_after_seconds
    {
        return Err(syn::Error::new_spanned(
            seconds,
            "an index with `expire_after_seconds` must have exactly one field, a date",
        ));
    }
    Ok(IndexAttr { keys, options })
}

impl Parse for IndexKey {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let direction = if input.parse::<Option<Token![-]>>()?.is_some() {
            KeyDirection::Descending
        } else {
            KeyDirection::Ascending
        };
        let ignore_case =
            input.fork().call(Ident::parse_any)? == "ignore_case" && input.peek2(syn::token::Paren);
        if ignore_case {
            input.call(Ident::parse_any)?;
            let content;
            parenthesized!(content in input);
            let name = content.call(Ident::parse_any)?;
            let rest: TokenStream = content.parse()?;
            if !rest.is_empty() {
                return Err(syn::Error::new_spanned(rest, IGNORE_CASE_FIELD));
            }
            return Ok(Self {
                path: vec![name],
                direction,
                ignore_case,
            });
        }
        let mut path = vec![input.call(Ident::parse_any)?];
        while input.parse::<Option<Token![.]>>()?.is_some() {
            path.push(input.call(Ident::parse_any)?);
        }
        if input.peek(Token![=]) || input.peek(syn::token::Paren) {
            return Err(input.error(OPTIONS_AFTER_SEMICOLON));
        }
        Ok(Self {
            path,
            direction,
            ignore_case,
        })
    }
}

impl IndexAttr {
    /// Returns an option that stands among the keys, unless the model has a field of that name.
    pub(crate) fn misplaced_option(&self, is_field: impl Fn(&Ident) -> bool) -> Option<&Ident> {
        self.keys.iter().find_map(|key| match key.path.as_slice() {
            [name] if FLAGS.iter().any(|flag| name == flag) && !is_field(name) => Some(name),
            _ => None,
        })
    }
}

/// The keys and names of the indexes that were already checked.
#[derive(Default)]
pub(crate) struct DeclaredIndexes {
    keys: HashSet<String>,
    names: HashSet<String>,
}

impl DeclaredIndexes {
    /// Reports repeated fields within an index, repeated index names, and repeated indexes. `at` is the token of the declaration.
    ///
    /// Two indexes with equal keys are the same index, unless the conditions differ.
    pub(crate) fn ensure_distinct(
        &mut self,
        ctxt: &mut Ctxt,
        keys: &[IndexKey],
        options: &IndexOptions,
        at: &Ident,
    ) {
        for (number, key) in keys.iter().enumerate() {
            let last = key.path.last();
            if let Some(last) =
                last.filter(|_| keys[..number].iter().any(|other| other.path == key.path))
            {
                ctxt.error_at(
                    last,
                    format!("`{last}` is in this index already: remove it"),
                );
            }
        }
        if let Some(name) = &options.name
            && !self.names.insert(name.value())
        {
            ctxt.error_at(
                name,
                "another index of the model has this name: choose another name",
            );
        }
        let text: Vec<_> = keys.iter().map(IndexKey::to_string).collect();
        let text = text.join(", ");
        if options.partial.is_none() && !self.keys.insert(text.clone()) {
            ctxt.error_at(
                at,
                format!("`{text}` already has an index: remove this one"),
            );
        }
    }
}

impl Parse for IndexOptions {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut options, mut seen) = (Self::default(), SeenSettings::default());
        while !input.is_empty() {
            options.parse_option(input, &mut seen)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

const INDEX_OPTIONS: &[&str] = &[
    "unique",
    "sparse",
    "descending",
    "ignore_case",
    "partial",
    "expire_after_seconds",
    "all_scopes",
    "name",
];

const ACCEPTED_OPTIONS: &str = "an index accepts `unique`, `sparse`, `descending`, `ignore_case`, `partial = |m| …`, `expire_after_seconds = N`, \
     `all_scopes` and `name = \"…\"`";
const INDEX_FIELDS_USAGE: &str = "an index needs fields: `index(host, -time)`";
const IGNORE_CASE_USAGE: &str = "an index of several fields ignores the case of one text: write `index(tenant, ignore_case(mail); unique)`";
const IGNORE_CASE_FIELD: &str =
    "`ignore_case(…)` takes one field of the document: write `ignore_case(mail)`";
const INDEX_PARTIAL_USAGE: &str = "`partial` needs a condition: `partial = |m| m.name().exists()`";
const INDEX_EXPIRY_USAGE: &str = "`expire_after_seconds` must be an integer of at most 2147483647: `expire_after_seconds = 3600`";
const INDEX_NAME_USAGE: &str = "the name of an index must be a string: `name = \"by_host\"`";

impl IndexOptions {
    fn parse_option(&mut self, input: ParseStream<'_>, seen: &mut SeenSettings) -> syn::Result<()> {
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| syn::Error::new(error.span(), ACCEPTED_OPTIONS))?;
        seen.ensure_new(&name)?;
        match name.to_string().as_str() {
            "unique" | "sparse" | "descending" | "ignore_case" | "all_scopes" => {
                expect_flag(&name, input)?;
                self.unique |= name == "unique";
                self.sparse |= name == "sparse";
                if name == "descending" {
                    self.descending = Some(name);
                } else if name == "ignore_case" {
                    self.ignore_case = Some(name);
                } else if name == "all_scopes" {
                    self.all_scopes = Some(name);
                }
            }
            "partial" => self.partial = Some(parse_value(&name, input, INDEX_PARTIAL_USAGE)?),
            "expire_after_seconds" => {
                let seconds: LitInt = parse_value(&name, input, INDEX_EXPIRY_USAGE)?;
                // MongoDB's limit.
                if parse_number::<u64>(&seconds, INDEX_EXPIRY_USAGE)? > i32::MAX as u64 {
                    return Err(syn::Error::new_spanned(seconds, INDEX_EXPIRY_USAGE));
                }
                self.expire_after_seconds = Some(seconds);
            }
            "name" => self.name = Some(parse_value(&name, input, INDEX_NAME_USAGE)?),
            other => {
                return Err(syn::Error::new_spanned(
                    &name,
                    format!(
                        "{}: {ACCEPTED_OPTIONS}",
                        unknown_setting("option", other, INDEX_OPTIONS)
                    ),
                ));
            }
        }
        if let (Some(seconds), Some(_)) = (&self.expire_after_seconds, &self.ignore_case) {
            return Err(syn::Error::new_spanned(
                seconds,
                "an index with `expire_after_seconds` has a date, which has no case: remove `ignore_case`",
            ));
        }
        if self.sparse
            && let Some(partial) = &self.partial
        {
            return Err(syn::Error::new_spanned(
                partial.to_token_stream(),
                "`sparse` and `partial` exclude each other: add `exists()` to the partial condition, and remove `sparse`",
            ));
        }
        Ok(())
    }
}

impl IndexKey {
    /// Returns the key of `#[index]` on a field.
    pub(crate) fn of_field(name: &Ident, options: &IndexOptions) -> Self {
        Self {
            path: vec![name.clone()],
            direction: if options.descending.is_some() {
                KeyDirection::Descending
            } else {
                KeyDirection::Ascending
            },
            ignore_case: options.ignore_case.is_some(),
        }
    }

    pub(crate) fn span(&self) -> Span {
        self.path.first().map_or_else(Span::call_site, Ident::span)
    }
}

impl fmt::Display for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<_> = self.path.iter().map(Ident::to_string).collect();
        let sign = match self.direction {
            KeyDirection::Ascending => "",
            KeyDirection::Descending => "-",
        };
        let path = path.join(".");
        match self.ignore_case {
            true => write!(f, "{sign}ignore_case({path})"),
            false => write!(f, "{sign}{path}"),
        }
    }
}
