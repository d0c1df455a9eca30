//! serde's attributes: stored names, and attributes that the framework cannot support.

use quote::ToTokens;
use syn::{Attribute, ExprPath, LitStr, Token, meta::ParseNestedMeta};

use super::{attrs_named, parse_settings, skip_value};
use crate::{ctxt::Ctxt, rename::RenameRule};

/// serde's attributes of a type.
#[derive(Default)]
pub(crate) struct SerdeContainer {
    pub(crate) rename_all: Option<RenameRule>,
    /// The rename rule for the fields of an enum's variants.
    pub(crate) rename_all_fields: Option<RenameRule>,
    /// The field that holds the variant of an enum.
    pub(crate) tag: Option<LitStr>,
    /// The field that holds the content of a variant.
    pub(crate) content: Option<LitStr>,
    pub(crate) untagged: bool,
    /// `transparent`, `from`, `try_from` or `into`: the type is stored as another type.
    pub(crate) other_form: bool,
}

/// serde's attributes of a variant.
#[derive(Default)]
pub(crate) struct SerdeVariant {
    pub(crate) rename: Option<LitStr>,
    /// The rename rule for the fields of the variant.
    pub(crate) rename_all: Option<RenameRule>,
    /// `other`: serde reads every unknown variant as this variant.
    pub(crate) other: bool,
    pub(crate) skip: bool,
}

/// serde's attributes of a field.
#[derive(Default)]
pub(crate) struct SerdeField {
    pub(crate) rename: Option<LitStr>,
    /// The default of a missing field.
    pub(crate) default: Option<SerdeDefault>,
    pub(crate) skip: bool,
    /// `skip_serializing_if`.
    pub(crate) skip_if: Option<LitStr>,
    /// `with = "odm::native"`.
    pub(crate) native: bool,
    /// The module of `with`: `odm::native` or `odm::json`.
    pub(crate) with: Option<ExprPath>,
}

/// serde's `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SerdeDefault {
    /// The type's `Default`.
    OfType,
    /// A function returns the default.
    Function,
}

impl SerdeContainer {
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut parsed = Self::default();
        for attr in attrs_named(attrs, "serde") {
            parse_settings(ctxt, attr, |meta| parsed.parse_setting(meta));
        }
        parsed
    }

    fn parse_setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        match meta.path.to_token_stream().to_string().as_str() {
            "rename_all" => self.rename_all = parse_rename_rule(meta)?,
            "rename_all_fields" => self.rename_all_fields = parse_rename_rule(meta)?,
            "tag" => self.tag = Some(meta.value()?.parse()?),
            "content" => self.content = Some(meta.value()?.parse()?),
            "untagged" => self.untagged = true,
            "default" => {
                return Err(meta.error(
                    "`default` on the whole type is not supported, because filters do not see the default of a missing field: \
                     write `#[serde(default)]` on each field that older documents may lack",
                ));
            }
            "transparent" | "from" | "try_from" | "into" | "variant_identifier"
            | "field_identifier" => {
                self.other_form = true;
                skip_value(meta)?;
            }
            "deny_unknown_fields" => {
                return Err(meta.error(
                    "`deny_unknown_fields` is not supported, because documents contain the framework's metadata under `_odm`: \
                     remove it; every update keeps unknown fields",
                ));
            }
            "remote" => {
                return Err(meta.error("`remote` is not supported: derive for a type of your own"));
            }
            // `rename` of the type, `bound`, `crate` and `expecting` change no stored name.
            _ => skip_value(meta)?,
        }
        Ok(())
    }
}

impl SerdeVariant {
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut parsed = Self::default();
        for attr in attrs_named(attrs, "serde") {
            parse_settings(ctxt, attr, |meta| parsed.parse_setting(meta));
        }
        parsed
    }

    fn parse_setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.to_token_stream().to_string();
        match name.as_str() {
            "rename" => self.rename = Some(parse_symmetric_name(meta)?),
            "rename_all" => self.rename_all = parse_rename_rule(meta)?,
            "alias" => return Err(meta.error(NO_ALIAS)),
            "other" => self.other = true,
            "skip" => self.skip = true,
            "untagged" => {
                return Err(meta.error(
                    "`untagged` is not supported on one variant, because filters cannot distinguish it: write \
                     `#[serde(untagged)]` on the whole enum, which is then compared and set as a whole",
                ));
            }
            "with" | "serialize_with" | "deserialize_with" => {
                return Err(meta.error(format!(
                    "`{name}` is not supported, because filters and updates would encode values differently than the document: \
                     move it to a newtype that derives `Embedded`"
                )));
            }
            "skip_serializing" | "skip_deserializing" => {
                return Err(meta.error(format!(
                    "`{name}` is not supported, because a field must be written and read alike: use `skip`"
                )));
            }
            "borrow" => {
                return Err(
                    meta.error("`borrow` is not supported: an embedded value must be owned")
                );
            }
            // `bound` changes no name.
            _ => skip_value(meta)?,
        }
        Ok(())
    }
}

impl SerdeField {
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut parsed = Self::default();
        for attr in attrs_named(attrs, "serde") {
            parse_settings(ctxt, attr, |meta| parsed.parse_setting(meta));
        }
        if let Some(module) = &parsed.with {
            ctxt.require_module_of_odm(module);
        }
        parsed
    }

    fn parse_setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.to_token_stream().to_string();
        match name.as_str() {
            "rename" => self.rename = Some(parse_symmetric_name(meta)?),
            "alias" => return Err(meta.error(NO_ALIAS)),
            "default" => {
                self.default = Some(match meta.input.peek(Token![=]) {
                    true => SerdeDefault::Function,
                    false => SerdeDefault::OfType,
                });
                skip_value(meta)?;
            }
            "skip" => self.skip = true,
            "flatten" => {
                return Err(meta.error(
                    "`flatten` is not supported, because the fields would have no path for filters and updates: embed the struct \
                     under a name",
                ));
            }
            "with" => {
                let module: ExprPath = meta.value()?.parse::<LitStr>()?.parse()?;
                let last = module.path.segments.last();
                match last.map(|last| last.ident.to_string()).as_deref() {
                    Some("native") => self.native = true,
                    // `odm::json` changes text formats only.
                    Some("json") => {}
                    _ => return Err(unsupported_error(meta, &name)),
                }
                self.with = Some(module);
            }
            "serialize_with" | "deserialize_with" => return Err(unsupported_error(meta, &name)),
            "skip_serializing" | "skip_deserializing" => {
                return Err(meta.error(format!(
                    "`{name}` is not supported, because a field must be written and read alike: use `skip`"
                )));
            }
            "borrow" => {
                return Err(meta.error("`borrow` is not supported: a document must own its values"));
            }
            "skip_serializing_if" => {
                self.skip_if = Some(meta.value()?.parse()?);
            }
            // `bound` changes no name.
            _ => skip_value(meta)?,
        }
        Ok(())
    }
}

const NO_ALIAS: &str = "`alias` is not supported, because filters do not find values that are stored under it: rename stored \
     fields by a `schema_version` with an `upgrade`";

/// Parses `rename_all = "…"`. serde reports unknown rules.
fn parse_rename_rule(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<RenameRule>> {
    Ok(RenameRule::parse(&parse_symmetric_name(meta)?.value()))
}

/// The error of an attribute that changes how a value is encoded.
fn unsupported_error(meta: &ParseNestedMeta<'_>, name: &str) -> syn::Error {
    meta.error(format!(
        "`{name}` is not supported, because filters and updates would encode values differently than the document: move it to a \
         newtype that derives `Embedded`. For dates and decimals of other crates, use `with = \"odm::native\"`; for ids and dates \
         as text in JSON, use `with = \"odm::json\"`"
    ))
}

/// Parses `rename = "…"`, and rejects different names for writing and reading.
fn parse_symmetric_name(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse();
    }
    let mut names = Vec::new();
    meta.parse_nested_meta(|side| {
        names.push(side.value()?.parse::<LitStr>()?);
        Ok(())
    })?;
    match names.as_slice() {
        [serialize, deserialize] if serialize.value() == deserialize.value() => {
            Ok(serialize.clone())
        }
        _ => Err(meta.error(
            "a field must have the same name for writing and reading: write `rename = \"…\"`",
        )),
    }
}
