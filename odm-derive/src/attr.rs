//! Parsers of the derive attributes.

mod computed;
mod copy;
mod garde;
mod id;
mod index;
mod layout;
mod link;
mod managed;
mod omission;
mod overflow;
mod rollup;
mod sequence;
mod serde;
mod setting;
mod shard_key;
mod unknown;

pub(crate) use computed::{ArithmeticOp, ComputedAttr, Formula};
pub(crate) use copy::{CopyMode, CopySource, DerivedValue};
pub(crate) use garde::FieldRules;
pub(crate) use id::{IdField, IdSegment, IdSetting, IdTemplate, parse_id};
pub(crate) use index::{
    DeclaredIndexes, ID_HAS_AN_INDEX, IndexAttr, IndexKey, IndexOptions, KeyDirection,
    OPTIONS_AFTER_SEMICOLON, parse_field_index, parse_struct_index,
};
pub(crate) use layout::{Layout, is_overflow};
pub(crate) use link::{LinkAttr, OnDelete, no_links_message};
pub(crate) use managed::{ManagedField, ManagedKind};
pub(crate) use omission::OmissionAttr;
pub(crate) use overflow::{OrderAttr, OverflowAttr};
pub(crate) use rollup::{
    Comparison, Extreme, ONE_DERIVED_VALUE, ROLLUP_ATTRIBUTES, RollupAttr, RollupCondition,
    RollupKind,
};
pub(crate) use sequence::SequenceAttr;
pub(crate) use serde::{SerdeContainer, SerdeDefault, SerdeField, SerdeVariant};
use setting::{SeenSettings, expect_end, expect_flag, parse_value, parse_value_with};
pub(crate) use shard_key::{ShardField, parse_shard_key};
pub(crate) use unknown::is_misspelt;
use unknown::unknown_setting;

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

/// The settings of a type: `#[document(…)]`, `#[embedded(…)]`, `#[schema(…)]` or `#[projection(…)]`.
pub(crate) struct ContainerAttrs {
    /// The path of the crate `odm`.
    pub(crate) krate: Path,
    pub(crate) collection: Option<LitStr>,
    pub(crate) indexes: Vec<IndexAttr>,
    /// The managed fields: fields that the framework fills.
    pub(crate) managed_fields: Vec<ManagedField>,
    /// `soft_delete(cascade)`: a soft delete reaches the documents that refer to the document.
    pub(crate) soft_delete_cascades: bool,
    /// The template of an `_id` that is composed of fields.
    pub(crate) id: Option<IdTemplate>,
    /// `id = auto`: the framework generates the `_id`.
    pub(crate) auto_id: Option<Ident>,
    /// The fields of the shard key.
    pub(crate) shard_key: Vec<ShardField>,
    pub(crate) schema_version: Option<LitInt>,
    pub(crate) upgrade: Option<Path>,
    pub(crate) models: Vec<Type>,
    pub(crate) of: Option<Type>,
    /// The enum of a model that is one of its variants.
    pub(crate) variant_of: Option<Type>,
    /// The fields that all variants of an enum share.
    pub(crate) shared: Vec<(Ident, Type)>,
    /// `validate`: writes check the rules of the fields.
    pub(crate) validate: Option<Path>,
    /// `insert_struct`: an embedded struct has managed fields, so the type needs an insert struct.
    pub(crate) insert_struct: Option<Path>,
    /// The derives of the insert struct.
    pub(crate) insert_derive: Vec<Path>,
    /// `deny_unknown_fields`: serde refuses unknown fields of the insert struct.
    pub(crate) deny_unknown_fields: Option<Path>,
    /// `projection(…)`: projections that leave fields out.
    pub(crate) omissions: Vec<OmissionAttr>,
    /// `hooks`: the model implements `odm::Hooks`.
    pub(crate) hooks: Option<Path>,
    /// The settings that were parsed so far.
    seen: SeenSettings,
}

impl ContainerAttrs {
    /// Parses the attributes with this name. `accepted` lists the settings beside `crate`.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        input: &DeriveInput,
        attribute: &str,
        accepted: &[&str],
    ) -> Self {
        let mut container = Self {
            krate: syn::parse_quote!(::odm),
            collection: None,
            indexes: Vec::new(),
            managed_fields: Vec::new(),
            soft_delete_cascades: false,
            id: None,
            auto_id: None,
            shard_key: Vec::new(),
            schema_version: None,
            upgrade: None,
            models: Vec::new(),
            of: None,
            variant_of: None,
            shared: Vec::new(),
            validate: None,
            insert_struct: None,
            insert_derive: Vec::new(),
            deny_unknown_fields: None,
            omissions: Vec::new(),
            hooks: None,
            seen: SeenSettings::default(),
        };
        for attr in attrs_named(&input.attrs, attribute) {
            parse_settings(ctxt, attr, |meta| {
                container.parse_setting(meta, attribute, accepted)
            });
        }
        container
    }

    /// Returns whether the setting is present, even if its value was rejected.
    pub(crate) fn has_setting(&self, setting: &str) -> bool {
        self.seen.has_name(setting)
    }

    /// Returns whether the type names its collection, even if the value was rejected. Prevents a second error about a missing
    /// collection.
    pub(crate) fn has_collection_setting(&self, attrs: &[Attribute]) -> bool {
        self.has_setting("collection") || self.has_setting("variant_of") || is_misspelt(attrs)
    }

    fn parse_setting(
        &mut self,
        meta: &ParseNestedMeta<'_>,
        attribute: &str,
        accepted: &[&str],
    ) -> syn::Result<()> {
        let (path, input) = (&meta.path, meta.input);
        let name = path.to_token_stream().to_string();
        // These settings may be repeated.
        if !matches!(name.as_str(), "index" | "models" | "projection" | "shared") {
            self.seen.ensure_new(path)?;
        }
        if name == "crate" {
            self.krate = parse_value(path, input, CRATE_USAGE)?;
            return Ok(());
        }
        if matches!(name.as_str(), "hooks" | "validate") && accepted.contains(&"shared") {
            return Err(meta.error(format!(
                "a model that is an enum cannot have `{name}` yet, because writes through its variants would bypass it: remove \
                 `{name}`"
            )));
        }
        if name == "shard_key" && accepted.contains(&"shared") {
            return Err(meta
                .error("a model that is an enum cannot have a shard key yet: remove `shard_key`"));
        }
        if name == "id" && accepted.contains(&"shared") {
            return Err(meta.error(
                "the `_id` of a model that is an enum cannot be generated or composed of fields yet: remove `id = …`",
            ));
        }
        if !accepted.contains(&name.as_str()) {
            return Err(meta.error(format!(
                "{}: `#[{attribute}(…)]` has {}",
                unknown_setting("setting", &name, accepted),
                accepted
                    .iter()
                    .map(|name| format!("`{name}`, "))
                    .collect::<String>()
                    + "`crate`",
            )));
        }
        match name.as_str() {
            "collection" => {
                let collection: LitStr = parse_value(path, input, COLLECTION_USAGE)?;
                let error = collection_name_error(&collection.value())
                    .map(|reason| syn::Error::new_spanned(&collection, reason));
                self.collection = Some(collection);
                error.map_or(Ok(()), Err)?;
            }
            "index" => self.indexes.push(parse_struct_index(meta)?),
            "timestamps" => self.managed_fields.extend(managed::parse_timestamps(meta)?),
            "variant_of" => self.variant_of = Some(parse_value(path, input, VARIANT_OF_USAGE)?),
            "shared" => {
                let shared = in_parentheses(meta, SHARED_USAGE, |content| {
                    content.parse_terminated(name_and_type, Token![,])
                });
                self.shared.extend(shared?);
            }
            "insert_derive" => {
                let derives = in_parentheses(meta, INSERT_DERIVE_USAGE, |content| {
                    content.parse_terminated(Path::parse_mod_style, Token![,])
                });
                self.insert_derive.extend(derives?);
            }
            "projection" => self.omissions.push(omission::parse_omission(meta)?),
            "deny_unknown_fields" | "insert_struct" | "hooks" | "validate" => {
                expect_flag(path, input)?;
                let flag = match name.as_str() {
                    "deny_unknown_fields" => &mut self.deny_unknown_fields,
                    "insert_struct" => &mut self.insert_struct,
                    "hooks" => &mut self.hooks,
                    _ => &mut self.validate,
                };
                *flag = Some(path.clone());
            }
            "version" => self.managed_fields.push(managed::parse_version(meta)?),
            "id" => match parse_id(meta)? {
                IdSetting::Auto(auto) => self.auto_id = Some(auto),
                IdSetting::Template(template) => self.id = Some(template),
            },
            "shard_key" => self.shard_key = parse_shard_key(meta)?,
            "schema_version" => {
                let version: LitInt = parse_value(path, input, SCHEMA_VERSION_USAGE)?;
                parse_number::<u32>(&version, SCHEMA_VERSION_USAGE)?;
                self.schema_version = Some(version);
            }
            "upgrade" => self.upgrade = Some(parse_value(path, input, UPGRADE_USAGE)?),
            "soft_delete" => {
                let (field, cascades) = managed::parse_soft_delete(meta)?;
                self.managed_fields.push(field);
                self.soft_delete_cascades = cascades;
            }
            "scope" => self.managed_fields.push(managed::parse_scope(meta)?),
            "models" => {
                let models = in_parentheses(meta, MODELS_USAGE, |content| {
                    content.parse_terminated(Type::parse, Token![,])
                });
                self.models.extend(models?);
            }
            _ => self.of = Some(parse_value(path, input, OF_USAGE)?),
        }
        Ok(())
    }
}

const CRATE_USAGE: &str = "missing path of the crate `odm`: write `crate = mapper`";
const COLLECTION_USAGE: &str = "the collection name must be a string: `collection = \"parts\"`";
const VARIANT_OF_USAGE: &str = "`variant_of` needs the name of an enum: `variant_of = Shape`";
const SHARED_USAGE: &str = "`shared` needs fields with types: `shared(area: f64, name: String)`";
const SCHEMA_VERSION_USAGE: &str =
    "`schema_version` must be an integer from 2 to 4294967295: `schema_version = 2`";
const UPGRADE_USAGE: &str = "`upgrade` needs the path of a function: `upgrade = function`";
const MODELS_USAGE: &str = "`models` needs a list of models: `models(Product, Part)`";
const INSERT_DERIVE_USAGE: &str =
    "`insert_derive` needs derives: `insert_derive(schemars::JsonSchema, utoipa::ToSchema)`";
const OF_USAGE: &str = "`of` needs the name of a model: `of = Product`";

/// Parses the parentheses after the name of a setting. `usage` is the error message: how to write the setting.
fn in_parentheses<T>(
    meta: &ParseNestedMeta<'_>,
    usage: &str,
    parse: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<T> {
    if !meta.input.peek(Paren) {
        return Err(meta.error(usage));
    }
    let content;
    syn::parenthesized!(content in meta.input);
    let parsed = parse(&content);
    if parsed.is_err() {
        // The rest of the content would be reported as a second error.
        content.parse::<TokenStream>()?;
    }
    expect_end(meta.input, usage)?;
    parsed
}

/// Parses a number. `usage` is the error message for a number out of range.
fn parse_number<N: FromStr<Err: fmt::Display>>(literal: &LitInt, usage: &str) -> syn::Result<N> {
    literal
        .base10_parse()
        .map_err(|_| syn::Error::new_spanned(literal, usage))
}

/// Parses `area: f64`.
fn name_and_type(input: ParseStream<'_>) -> syn::Result<(Ident, Type)> {
    let name = input.call(Ident::parse_any)?;
    if !input.peek(Token![:]) {
        return Err(syn::Error::new_spanned(
            &name,
            format!(
                "missing type: write `{name}: …`, with the same type as in the struct of each variant"
            ),
        ));
    }
    input.parse::<Token![:]>()?;
    Ok((name, input.parse()?))
}

/// Returns why a collection name is invalid, by the rules of MongoDB and the reserved prefix `_odm.`.
fn collection_name_error(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a collection name cannot be empty: `collection = \"parts\"`")
    } else if name.contains(['$', '\0']) {
        Some("a collection name cannot contain `$` or a null byte: choose another name")
    } else if name.starts_with("system.") {
        Some(
            "collection names that begin with `system.` are reserved for MongoDB: choose another name",
        )
    } else if name.starts_with("_odm.") {
        Some(
            "collection names that begin with `_odm.` are reserved for the framework: choose another name",
        )
    } else {
        None
    }
}

/// Calls `parse_setting` for each setting of an attribute. Returns whether all settings are valid.
///
/// An error in one setting does not hide errors in later settings.
pub(crate) fn parse_settings(
    ctxt: &mut Ctxt,
    attr: &Attribute,
    mut parse_setting: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) -> bool {
    if attr.meta.require_list().is_err() {
        let name = attr.path().to_token_stream().to_string();
        // serde reports its own attributes.
        if name != "serde" {
            ctxt.error_at(
                attr,
                format!("the settings of an attribute must be in parentheses: `#[{name}(…)]`"),
            );
        }
        return false;
    }
    let mut are_valid = true;
    let parsed = attr.parse_nested_meta(|meta| {
        if let Err(error) = parse_setting(&meta) {
            ctxt.push(error);
            are_valid = false;
            skip_value(&meta)?;
        }
        Ok(())
    });
    ctxt.ok_or_report(parsed).is_some() && are_valid
}

/// Skips the value of a setting.
pub(crate) fn skip_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    while !meta.input.is_empty() && !meta.input.peek(Token![,]) {
        meta.input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// Returns the attributes with this name.
pub(crate) fn attrs_named<'a>(
    attrs: &'a [Attribute],
    name: &str,
) -> impl Iterator<Item = &'a Attribute> {
    attrs.iter().filter(move |attr| attr.path().is_ident(name))
}
