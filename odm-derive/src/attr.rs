//! Attributes, parsed into what they say.

mod computed;
mod derived;
mod filled;
mod id;
mod index;
mod layout;
mod link;
mod overflow;
mod rule;
mod serde;
mod setting;
mod shard_key;
mod tally;
mod unknown;

pub(crate) use computed::{Computed, Formula, Operator};
pub(crate) use derived::{Derived, Pace, Source};
pub(crate) use filled::{Filled, What};
pub(crate) use id::{IdTemplate, Part, Segment, parse_id};
pub(crate) use index::{
    Before, Direction, ID_HAS_AN_INDEX, IndexAttr, Key, OPTIONS_BEHIND_A_SEMICOLON, Options,
    parse_compound, parse_field,
};
pub(crate) use layout::{Layout, is_overflow};
pub(crate) use link::{Link, OnDelete, no_links};
pub(crate) use overflow::{Order, Overflow};
pub(crate) use rule::Rule;
pub(crate) use serde::{SerdeContainer, SerdeDefault, SerdeField, SerdeVariant};
use setting::{Once, ends, flag, value, value_by};
pub(crate) use shard_key::{ShardField, parse_shard_key};
pub(crate) use tally::{Keeps, Tally};
pub(crate) use unknown::is_misspelt;
use unknown::unknown;

use std::{fmt, str::FromStr};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, DeriveInput, Ident, LitInt, LitStr, Path, Token, Type,
    ext::IdentExt,
    meta::ParseNestedMeta,
    parse::{Parse, ParseStream},
    token::Paren,
};

use crate::ctxt::Ctxt;

/// What stands on the type: `#[document(…)]`, `#[embedded(…)]`, `#[schema(…)]` or `#[projection(…)]`.
pub(crate) struct Container {
    /// The path of the crate `odm`.
    pub(crate) krate: Path,
    pub(crate) collection: Option<LitStr>,
    pub(crate) indexes: Vec<IndexAttr>,
    /// The fields that the framework writes.
    pub(crate) filled: Vec<Filled>,
    /// Of what the `_id` is made.
    pub(crate) id: Option<IdTemplate>,
    /// The fields of the shard key.
    pub(crate) shard_key: Vec<ShardField>,
    pub(crate) schema_version: Option<LitInt>,
    pub(crate) upgrade: Option<Path>,
    pub(crate) models: Vec<Type>,
    pub(crate) of: Option<Type>,
    /// The enum of whose variants the document is one.
    pub(crate) variant_of: Option<Type>,
    /// The fields that all variants of an enum share.
    pub(crate) shared: Vec<(Ident, Type)>,
    /// The word `validate`: writes keep to the rules of the fields.
    pub(crate) validate: Option<Path>,
    /// The word `companion`: what is embedded has fields that the framework fills.
    pub(crate) companion: Option<Path>,
    /// The word `hooks`: the model says what is done before and after its writes.
    pub(crate) hooks: Option<Path>,
    /// What was said so far.
    once: Once,
}

impl Container {
    /// Parses the attributes with this name; `known` are the settings that it has, beside `crate`.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        input: &DeriveInput,
        attribute: &str,
        known: &[&str],
    ) -> Self {
        let mut container = Self {
            krate: syn::parse_quote!(::odm),
            collection: None,
            indexes: Vec::new(),
            filled: Vec::new(),
            id: None,
            shard_key: Vec::new(),
            schema_version: None,
            upgrade: None,
            models: Vec::new(),
            of: None,
            variant_of: None,
            shared: Vec::new(),
            validate: None,
            companion: None,
            hooks: None,
            once: Once::default(),
        };
        for attr in named(&input.attrs, attribute) {
            settings(ctxt, attr, |meta| container.setting(meta, attribute, known));
        }
        container
    }

    /// Whether there is such a setting, though it may be wrong, which was reported then.
    pub(crate) fn says(&self, setting: &str) -> bool {
        self.once.has(setting)
    }

    /// Whether it says where the documents are, though that may be wrong, which is reported.
    pub(crate) fn says_where(&self, attrs: &[Attribute]) -> bool {
        self.says("collection") || self.says("variant_of") || is_misspelt(attrs)
    }

    fn setting(
        &mut self,
        meta: &ParseNestedMeta<'_>,
        attribute: &str,
        known: &[&str],
    ) -> syn::Result<()> {
        let (path, input) = (&meta.path, meta.input);
        let name = path.to_token_stream().to_string();
        // Of these there can be several, or they go on.
        if !matches!(name.as_str(), "index" | "models" | "shared") {
            self.once.check(path)?;
        }
        if name == "crate" {
            self.krate = value(path, input, CRATE)?;
            return Ok(());
        }
        if matches!(name.as_str(), "hooks" | "validate") && known.contains(&"shared") {
            return Err(meta.error(format!(
                "an enum of documents has no `{name}` yet: what is written through its variants would go around it"
            )));
        }
        if name == "shard_key" && known.contains(&"shared") {
            return Err(meta.error("an enum of documents has no shard key yet"));
        }
        if name == "id" && known.contains(&"shared") {
            return Err(meta.error(
                "the `_id` of an enum of documents cannot be made of fields yet: leave `id = …` out",
            ));
        }
        if !known.contains(&name.as_str()) {
            return Err(meta.error(format!(
                "{}: `#[{attribute}(…)]` has {}",
                unknown("setting", &name, known),
                known
                    .iter()
                    .map(|name| format!("`{name}`, "))
                    .collect::<String>()
                    + "`crate`",
            )));
        }
        match name.as_str() {
            "collection" => {
                let collection: LitStr = value(path, input, COLLECTION)?;
                let refused = refuse_collection(&collection.value())
                    .map(|reason| syn::Error::new_spanned(&collection, reason));
                self.collection = Some(collection);
                refused.map_or(Ok(()), Err)?;
            }
            "index" => self.indexes.push(parse_compound(meta)?),
            "timestamps" => self.filled.extend(filled::parse_timestamps(meta)?),
            "variant_of" => self.variant_of = Some(value(path, input, VARIANT_OF)?),
            "shared" => {
                let shared = in_parentheses(meta, SHARED, |content| {
                    content.parse_terminated(name_and_type, Token![,])
                });
                self.shared.extend(shared?);
            }
            "companion" | "hooks" | "validate" => {
                flag(path, input)?;
                let said = match name.as_str() {
                    "companion" => &mut self.companion,
                    "hooks" => &mut self.hooks,
                    _ => &mut self.validate,
                };
                *said = Some(path.clone());
            }
            "version" => self.filled.push(filled::parse_version(meta)?),
            "id" => self.id = Some(parse_id(meta)?),
            "shard_key" => self.shard_key = parse_shard_key(meta)?,
            "schema_version" => {
                let version: LitInt = value(path, input, SCHEMA_VERSION)?;
                number::<u32>(&version, SCHEMA_VERSION)?;
                self.schema_version = Some(version);
            }
            "upgrade" => self.upgrade = Some(value(path, input, UPGRADE)?),
            "soft_delete" => self.filled.push(filled::parse_soft_delete(meta)?),
            "scope" => self.filled.push(filled::parse_scope(meta)?),
            "models" => {
                let models = in_parentheses(meta, MODELS, |content| {
                    content.parse_terminated(Type::parse, Token![,])
                });
                self.models.extend(models?);
            }
            _ => self.of = Some(value(path, input, OF)?),
        }
        Ok(())
    }
}

const CRATE: &str = "where is the crate `odm`? Say its path: `crate = mapper`";
const COLLECTION: &str = "in which collection? Its name is a text: `collection = \"parts\"`";
const VARIANT_OF: &str = "of which enum? Say its name: `variant_of = Shape`";
const SHARED: &str = "which fields, and of which types? Say `shared(area: f64, name: String)`";
const SCHEMA_VERSION: &str = "a version is a number, from 2 to 4294967295: `schema_version = 2`";
const UPGRADE: &str = "which function? Say its path: `upgrade = function`";
const MODELS: &str = "which models? Say `models(Product, Part)`";
const OF: &str = "of which model? Say its name: `of = Product`";

/// What stands in parentheses behind a setting's name; `say` is how it is written.
fn in_parentheses<T>(
    meta: &ParseNestedMeta<'_>,
    say: &str,
    parse: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<T> {
    if !meta.input.peek(Paren) {
        return Err(meta.error(say));
    }
    let content;
    syn::parenthesized!(content in meta.input);
    let inside = parse(&content);
    if inside.is_err() {
        // What is left would be an error of its own.
        content.parse::<TokenStream>()?;
    }
    ends(meta.input, say)?;
    inside
}

/// A number that fits; `say` is which ones do.
fn number<N: FromStr<Err: fmt::Display>>(literal: &LitInt, say: &str) -> syn::Result<N> {
    literal
        .base10_parse()
        .map_err(|_| syn::Error::new_spanned(literal, say))
}

/// `area: f64`.
fn name_and_type(input: ParseStream<'_>) -> syn::Result<(Ident, Type)> {
    let name = input.call(Ident::parse_any)?;
    if !input.peek(Token![:]) {
        return Err(syn::Error::new_spanned(
            &name,
            format!("of which type? Say `{name}: …`, as in the struct of each variant"),
        ));
    }
    input.parse::<Token![:]>()?;
    Ok((name, input.parse()?))
}

/// MongoDB's rules for collections, and ours for the prefix of bookkeeping.
fn refuse_collection(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a collection has a name")
    } else if name.contains(['$', '\0']) {
        Some("the name of a collection has no `$` and no null byte")
    } else if name.starts_with("system.") {
        Some("collections named `system.…` belong to MongoDB")
    } else if name.starts_with("_odm.") {
        Some("collections named `_odm.…` hold the framework's own documents")
    } else {
        None
    }
}

/// Reads each setting of an attribute; an error in one does not hide those behind it. Tells whether there was none.
pub(crate) fn settings(
    ctxt: &mut Ctxt,
    attr: &Attribute,
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) -> bool {
    if attr.meta.require_list().is_err() {
        let name = attr.path().to_token_stream().to_string();
        // serde says so itself.
        if name != "serde" {
            ctxt.error(
                attr,
                format!("the settings of an attribute stand in parentheses: `#[{name}(…)]`"),
            );
        }
        return false;
    }
    let mut are_understood = true;
    let parsed = attr.parse_nested_meta(|meta| {
        if let Err(error) = read(&meta) {
            ctxt.push(error);
            are_understood = false;
            skip_value(&meta)?;
        }
        Ok(())
    });
    ctxt.ok(parsed).is_some() && are_understood
}

/// Goes on to the next setting.
pub(crate) fn skip_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    while !meta.input.is_empty() && !meta.input.peek(Token![,]) {
        meta.input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// The attributes with this name.
pub(crate) fn named<'a>(attrs: &'a [Attribute], name: &str) -> impl Iterator<Item = &'a Attribute> {
    attrs.iter().filter(move |attr| attr.path().is_ident(name))
}
