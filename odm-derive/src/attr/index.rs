//! Indexes: `#[index(unique)]` on a field, `index(host, -time; unique)` on the struct.

use std::{collections::HashSet, fmt};

use proc_macro2::Span;
use quote::ToTokens;
use syn::{
    Attribute, ExprClosure, Ident, LitInt, LitStr, Meta, Token,
    ext::IdentExt,
    meta::ParseNestedMeta,
    parse::{Parse, ParseStream},
};

use crate::ctxt::Ctxt;

use super::{Once, ends, flag, in_parentheses, number, unknown, value};

/// A declared index.
pub(crate) struct IndexAttr {
    pub(crate) keys: Vec<Key>,
    pub(crate) options: Options,
}

/// One key of an index: the names of fields, from the document downwards.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) path: Vec<Ident>,
    pub(crate) direction: Direction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

/// What an index has beside its keys.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) unique: bool,
    pub(crate) sparse: bool,
    pub(crate) descending: Option<Ident>,
    pub(crate) partial: Option<ExprClosure>,
    pub(crate) expire_after_seconds: Option<LitInt>,
    pub(crate) name: Option<LitStr>,
}

/// The options without a value.
const FLAGS: [&str; 3] = ["unique", "sparse", "descending"];

pub(crate) const OPTIONS_BEHIND_A_SEMICOLON: &str =
    "options of an index stand behind a semicolon: `index(host, -time; unique)`";

pub(crate) const ID_HAS_AN_INDEX: &str = "the `_id` always has a unique index: leave this one out";

/// `#[index]` on a field, with its options.
pub(crate) fn parse_field(attr: &Attribute) -> syn::Result<Options> {
    match &attr.meta {
        Meta::Path(_) => Ok(Options::default()),
        Meta::List(_) => attr.parse_args(),
        Meta::NameValue(_) => Err(syn::Error::new_spanned(attr, KNOWN)),
    }
}

/// `index(host, -time; unique)` inside `#[document(…)]`.
pub(crate) fn parse_compound(meta: &ParseNestedMeta<'_>) -> syn::Result<IndexAttr> {
    in_parentheses(meta, FIELDS, compound)
}

fn compound(content: ParseStream<'_>) -> syn::Result<IndexAttr> {
    let mut keys = Vec::new();
    while !content.is_empty() && !content.peek(Token![;]) {
        keys.push(content.parse()?);
        if !content.peek(Token![;]) && !content.is_empty() {
            ends(content, FIELDS)?;
            content.parse::<Token![,]>()?;
        }
    }
    let options: Options = if content.is_empty() {
        Options::default()
    } else {
        content.parse::<Token![;]>()?;
        content.parse()?
    };
    if keys.is_empty() {
        return Err(content.error(FIELDS));
    }
    if let Some(descending) = &options.descending {
        return Err(syn::Error::new_spanned(
            descending,
            "in an index of the struct each field has its direction: `-time`",
        ));
    }
    if keys.len() > 1
        && let Some(seconds) = &options.expire_after_seconds
    {
        return Err(syn::Error::new_spanned(
            seconds,
            "an index that deletes expired documents has one field, the date",
        ));
    }
    Ok(IndexAttr { keys, options })
}

impl Parse for Key {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let direction = if input.parse::<Option<Token![-]>>()?.is_some() {
            Direction::Descending
        } else {
            Direction::Ascending
        };
        let mut path = vec![input.call(Ident::parse_any)?];
        while input.parse::<Option<Token![.]>>()?.is_some() {
            path.push(input.call(Ident::parse_any)?);
        }
        if input.peek(Token![=]) || input.peek(syn::token::Paren) {
            return Err(input.error(OPTIONS_BEHIND_A_SEMICOLON));
        }
        Ok(Self { path, direction })
    }
}

impl IndexAttr {
    /// An option that was taken for a field, unless there is a field of that name.
    pub(crate) fn misplaced_option(&self, is_field: impl Fn(&Ident) -> bool) -> Option<&Ident> {
        self.keys.iter().find_map(|key| match key.path.as_slice() {
            [name] if FLAGS.iter().any(|flag| name == flag) && !is_field(name) => Some(name),
            _ => None,
        })
    }
}

/// What the indexes of a model have that were looked at, and none behind them may repeat.
#[derive(Default)]
pub(crate) struct Before {
    keys: HashSet<String>,
    names: HashSet<String>,
}

impl Before {
    /// Reports what an index repeats, of itself or of one before it; `at` is where it is declared.
    ///
    /// Two of the same keys are one index; only conditions can tell them apart.
    pub(crate) fn refuse_same(
        &mut self,
        ctxt: &mut Ctxt,
        keys: &[Key],
        options: &Options,
        at: &Ident,
    ) {
        for (number, key) in keys.iter().enumerate() {
            let last = key.path.last();
            if let Some(last) =
                last.filter(|_| keys[..number].iter().any(|other| other.path == key.path))
            {
                ctxt.error(
                    last,
                    format!("`{last}` is in this index already: leave it out"),
                );
            }
        }
        if let Some(name) = &options.name
            && !self.names.insert(name.value())
        {
            ctxt.error(
                name,
                "another index of the model has this name: give each one of its own",
            );
        }
        let text: Vec<_> = keys.iter().map(Key::to_string).collect();
        let text = text.join(", ");
        if options.partial.is_none() && !self.keys.insert(text.clone()) {
            ctxt.error(at, format!("`{text}` has an index already"));
        }
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut options, mut once) = (Self::default(), Once::default());
        while !input.is_empty() {
            options.parse_one(input, &mut once)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

const OPTIONS: &[&str] = &[
    "unique",
    "sparse",
    "descending",
    "partial",
    "expire_after_seconds",
    "name",
];

const KNOWN: &str = "an index has `unique`, `sparse`, `descending`, `partial = |m| …`, `expire_after_seconds = N` and `name = \"…\"`";
const FIELDS: &str = "an index has fields: `index(host, -time)`";
const PARTIAL: &str = "a partial index has a condition: `partial = |m| m.name().exists()`";
const SECONDS: &str =
    "how many seconds after the date? A number, at most 2147483647: `expire_after_seconds = 3600`";
const NAME: &str = "the name of an index is a text: `name = \"by_host\"`";

impl Options {
    fn parse_one(&mut self, input: ParseStream<'_>, once: &mut Once) -> syn::Result<()> {
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| syn::Error::new(error.span(), KNOWN))?;
        once.check(&name)?;
        match name.to_string().as_str() {
            "unique" | "sparse" | "descending" => {
                flag(&name, input)?;
                self.unique |= name == "unique";
                self.sparse |= name == "sparse";
                if name == "descending" {
                    self.descending = Some(name);
                }
            }
            "partial" => self.partial = Some(value(&name, input, PARTIAL)?),
            "expire_after_seconds" => {
                let seconds: LitInt = value(&name, input, SECONDS)?;
                // The server's limit.
                if number::<u64>(&seconds, SECONDS)? > i32::MAX as u64 {
                    return Err(syn::Error::new_spanned(seconds, SECONDS));
                }
                self.expire_after_seconds = Some(seconds);
            }
            "name" => self.name = Some(value(&name, input, NAME)?),
            other => {
                return Err(syn::Error::new_spanned(
                    &name,
                    format!("{}: {KNOWN}", unknown("option", other, OPTIONS)),
                ));
            }
        }
        if self.sparse
            && let Some(partial) = &self.partial
        {
            return Err(syn::Error::new_spanned(
                partial.to_token_stream(),
                "an index is sparse or partial: say in the partial condition that the field exists",
            ));
        }
        Ok(())
    }
}

impl Key {
    /// The key of `#[index]` on a field.
    pub(crate) fn of_field(name: &Ident, options: &Options) -> Self {
        Self {
            path: vec![name.clone()],
            direction: if options.descending.is_some() {
                Direction::Descending
            } else {
                Direction::Ascending
            },
        }
    }

    pub(crate) fn span(&self) -> Span {
        self.path.first().map_or_else(Span::call_site, Ident::span)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<_> = self.path.iter().map(Ident::to_string).collect();
        let sign = match self.direction {
            Direction::Ascending => "",
            Direction::Descending => "-",
        };
        write!(f, "{sign}{}", path.join("."))
    }
}
