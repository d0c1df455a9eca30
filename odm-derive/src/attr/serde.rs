//! serde's attributes: what they say of stored names, and which of them cannot be honoured.

use quote::ToTokens;
use syn::{Attribute, ExprPath, LitStr, Token, meta::ParseNestedMeta};

use super::{named, settings, skip_value};
use crate::{ctxt::Ctxt, rename::Rule};

/// What serde's attributes say of a type.
#[derive(Default)]
pub(crate) struct SerdeContainer {
    pub(crate) rename_all: Option<Rule>,
    /// The rule for the fields of an enum's variants.
    pub(crate) rename_all_fields: Option<Rule>,
    /// The field that says of which variant an enum is.
    pub(crate) tag: Option<LitStr>,
    /// The field that holds what is in the variant.
    pub(crate) content: Option<LitStr>,
    pub(crate) untagged: bool,
    /// The type is stored as something else: `transparent`, `from`, `try_from`, `into`.
    pub(crate) other_form: bool,
}

/// What serde's attributes say of a variant.
#[derive(Default)]
pub(crate) struct SerdeVariant {
    pub(crate) rename: Option<LitStr>,
    /// The rule for its fields.
    pub(crate) rename_all: Option<Rule>,
    /// It is what any unknown variant is read as.
    pub(crate) other: bool,
    pub(crate) skip: bool,
}

/// What serde's attributes say of a field.
#[derive(Default)]
pub(crate) struct SerdeField {
    pub(crate) rename: Option<LitStr>,
    /// What a missing value is read as.
    pub(crate) default: Option<SerdeDefault>,
    pub(crate) skip: bool,
    /// `skip_serializing_if`.
    pub(crate) skip_if: Option<LitStr>,
    /// `with = "odm::native"`.
    pub(crate) native: bool,
}

/// serde's `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SerdeDefault {
    /// That of the type.
    OfType,
    /// What a function gives.
    Function,
}

impl SerdeContainer {
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut found = Self::default();
        for attr in named(attrs, "serde") {
            settings(ctxt, attr, |meta| found.setting(meta));
        }
        found
    }

    fn setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        match meta.path.to_token_stream().to_string().as_str() {
            "rename_all" => self.rename_all = rule(meta)?,
            "rename_all_fields" => self.rename_all_fields = rule(meta)?,
            "tag" => self.tag = Some(meta.value()?.parse()?),
            "content" => self.content = Some(meta.value()?.parse()?),
            "untagged" => self.untagged = true,
            "default" => {
                return Err(meta.error(
                    "`default` of the whole type is not supported: what a missing field reads as would be seen by no filter; say \
                     `#[serde(default)]` at each field that older documents may lack",
                ));
            }
            "transparent" | "from" | "try_from" | "into" | "variant_identifier"
            | "field_identifier" => {
                self.other_form = true;
                skip_value(meta)?;
            }
            "deny_unknown_fields" => {
                return Err(meta.error(
                    "`deny_unknown_fields` refuses the bookkeeping that the framework keeps under `_odm`: leave it out; \
                     unknown fields are kept by every update",
                ));
            }
            "remote" => {
                return Err(meta.error("`remote` is not supported: derive for a type of your own"));
            }
            // They change no stored name: `rename` of the type, `bound`, `crate`, `expecting`.
            _ => skip_value(meta)?,
        }
        Ok(())
    }
}

impl SerdeVariant {
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut found = Self::default();
        for attr in named(attrs, "serde") {
            settings(ctxt, attr, |meta| found.setting(meta));
        }
        found
    }

    fn setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.to_token_stream().to_string();
        match name.as_str() {
            "rename" => self.rename = Some(symmetric(meta)?),
            "rename_all" => self.rename_all = rule(meta)?,
            "alias" => return Err(meta.error(NO_ALIAS)),
            "other" => self.other = true,
            "skip" => self.skip = true,
            "untagged" => {
                return Err(meta.error(
                    "`untagged` is not supported on one variant: a filter could not tell it from the others; give the whole \
                     enum `#[serde(untagged)]`, and it is asked for and set as a whole",
                ));
            }
            "with" | "serialize_with" | "deserialize_with" => {
                return Err(meta.error(format!(
                    "`{name}` is not supported: values in filters and updates would be encoded otherwise than in the \
                     document; put it on a newtype that derives `Embedded`"
                )));
            }
            "skip_serializing" | "skip_deserializing" => {
                return Err(meta.error(format!(
                    "`{name}` is not supported: what is written must be what is read; use `skip`"
                )));
            }
            "borrow" => {
                return Err(meta.error("`borrow` is not supported: an embedded value is owned"));
            }
            // `bound` changes no name.
            _ => skip_value(meta)?,
        }
        Ok(())
    }
}

impl SerdeField {
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Self {
        let mut found = Self::default();
        for attr in named(attrs, "serde") {
            settings(ctxt, attr, |meta| found.setting(meta));
        }
        found
    }

    fn setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.to_token_stream().to_string();
        match name.as_str() {
            "rename" => self.rename = Some(symmetric(meta)?),
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
                    "`flatten` is not supported: the fields would have no place of their own to filter by or to update; \
                     embed the struct under a name",
                ));
            }
            "with" => {
                let module: ExprPath = meta.value()?.parse::<LitStr>()?.parse()?;
                let last = module.path.segments.last();
                self.native = last.is_some_and(|last| last.ident == "native");
                if !self.native {
                    return Err(not_supported(meta, &name));
                }
            }
            "serialize_with" | "deserialize_with" => return Err(not_supported(meta, &name)),
            "skip_serializing" | "skip_deserializing" => {
                return Err(meta.error(format!(
                    "`{name}` is not supported: what is written must be what is read; use `skip`"
                )));
            }
            "borrow" => {
                return Err(meta.error("`borrow` is not supported: a document owns its values"));
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

const NO_ALIAS: &str = "`alias` is not supported: a filter would not find what is stored under it; rename what is stored by a `schema_version` with \
     an `upgrade`";

/// `rename_all = "…"`; that there is no such rule serde says itself.
fn rule(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<Rule>> {
    Ok(Rule::parse(&symmetric(meta)?.value()))
}

fn not_supported(meta: &ParseNestedMeta<'_>, name: &str) -> syn::Error {
    meta.error(format!(
        "`{name}` is not supported: values in filters and updates would be encoded otherwise than in the document; put it on a \
         newtype that derives `Embedded`. For dates and decimals of other crates there is `with = \"odm::native\"`"
    ))
}

/// `rename = "…"`, and not one name for writing and another for reading.
fn symmetric(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse();
    }
    let mut names = Vec::new();
    meta.parse_nested_meta(|side| {
        names.push(side.value()?.parse::<LitStr>()?);
        Ok(())
    })?;
    match names.as_slice() {
        [a, b] if a.value() == b.value() => Ok(a.clone()),
        _ => Err(meta.error(
            "a field has one name, for writing and for reading: what is written must be what is read",
        )),
    }
}
