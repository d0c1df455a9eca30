//! Settings of managed fields: `version`, `timestamps`, `soft_delete`, `scope`.

use proc_macro2::Span;
use syn::{
    Attribute, Ident, Token, ext::IdentExt, meta::ParseNestedMeta, parse::ParseStream,
    spanned::Spanned, token::Paren,
};

use super::{
    ROLLUP_ATTRIBUTES, SeenSettings, attrs_named, expect_end, in_parentheses, link::is_inverse,
    parse_value_with, unknown_setting,
};

/// A managed field: a field that the framework fills.
pub(crate) struct ManagedField {
    pub(crate) kind: ManagedKind,
    /// The field that the setting names, or the setting's default field.
    pub(crate) field: Ident,
}

/// The kind of value that the framework stores in a managed field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedKind {
    /// The number of writes of the document.
    Version,
    /// The time of the insert.
    Created,
    /// The time of the last write.
    Updated,
    /// The time of a soft delete.
    Deleted,
    /// The scope that the document belongs to.
    Scope,
    /// The `_id`, composed of other fields.
    Id,
    /// The `_id`, generated at the insert.
    AutoId,
    /// The number of the document among documents with equal preceding segments of the `_id`.
    Number,
    /// The number of the document in a sequence: `#[sequence]`.
    Sequence,
    /// The inverse of a reference.
    Inverse,
    /// A copy or snapshot of a field of another document.
    Copy,
    /// A rollup of child documents.
    Rollup,
    /// A value computed from other fields.
    Computed,
}

impl ManagedKind {
    /// Returns the managed kind that the attributes of a field declare, even if the attributes are invalid.
    pub(crate) fn from_attrs(attrs: &[Attribute]) -> Option<Self> {
        let has_attr = |name| attrs_named(attrs, name).next().is_some();
        if has_attr("computed") {
            Some(Self::Computed)
        } else if ROLLUP_ATTRIBUTES.into_iter().any(has_attr) {
            Some(Self::Rollup)
        } else if has_attr("denormalize")
            || has_attr("tree")
            || attrs_named(attrs, "snapshot").any(|attr| attr.meta.require_path_only().is_err())
        {
            Some(Self::Copy)
        } else if has_attr("sequence") {
            Some(Self::Sequence)
        } else {
            is_inverse(attrs).then_some(Self::Inverse)
        }
    }

    /// Returns how to declare such a field, for an error message.
    pub(crate) fn declaration_hint(self) -> &'static str {
        match self {
            Self::Version => {
                "`version` needs an `i64` field: add `version: i64`, or name a field, `version = revision`"
            }
            Self::Deleted => {
                "`soft_delete` needs a date field: add `deleted_at: Option<DateTime>`, or name a field, `soft_delete = \
                 removed_at`"
            }
            Self::Scope => {
                "`scope` needs a field with a single value or a `Ref` that is not the `_id`, such as `tenant: TenantId`"
            }
            Self::AutoId => "`id = auto` generates the `_id`",
            Self::Id | Self::Number => {
                "an `_id` is composed of fields by `id = \"users/{name}\"`; the framework numbers `{#number}`"
            }
            Self::Sequence => "a sequence number is assigned at the insert",
            Self::Computed => "a computed field depends on other fields only",
            Self::Copy => "a copy is filled from its source",
            Self::Rollup => "a rollup is computed from the documents that refer to this document",
            Self::Inverse => "an inverse is derived from the references to this document",
            Self::Created | Self::Updated => {
                "`timestamps` needs date fields: add `created_at: DateTime` and `updated_at: DateTime`, or name existing fields, \
                 `timestamps(created = made_at, updated = changed_at)`"
            }
        }
    }
}

/// Parses `version`, or `version = field`.
pub(crate) fn parse_version(meta: &ParseNestedMeta<'_>) -> syn::Result<ManagedField> {
    parse_field(meta, ManagedKind::Version, "version", VERSION_USAGE)
}

/// Parses `soft_delete`, `soft_delete = field`, or `soft_delete(cascade, field = field)` with one or both. Returns the field, and
/// whether the soft delete cascades.
pub(crate) fn parse_soft_delete(meta: &ParseNestedMeta<'_>) -> syn::Result<(ManagedField, bool)> {
    if !meta.input.peek(Paren) {
        let field = parse_field(meta, ManagedKind::Deleted, "deleted_at", SOFT_DELETE_USAGE);
        return Ok((field?, false));
    }
    let settings = in_parentheses(meta, SOFT_DELETE_USAGE, |content| {
        content.parse_terminated(soft_delete_setting, Token![,])
    })?;
    let (mut field, mut cascades) = (None, false);
    let mut seen = SeenSettings::default();
    for (name, value) in settings {
        seen.ensure_new(&name)?;
        match value {
            Some(value) => field = Some(value),
            None => cascades = true,
        }
    }
    let field = field.unwrap_or_else(|| Ident::new("deleted_at", meta.path.span()));
    let kind = ManagedKind::Deleted;
    Ok((ManagedField { kind, field }, cascades))
}

/// Parses `cascade`, or `field = removed_at`. Returns the name of the setting, and the field.
fn soft_delete_setting(input: ParseStream<'_>) -> syn::Result<(Ident, Option<Ident>)> {
    let name = input.call(Ident::parse_any)?;
    match name.to_string().as_str() {
        "cascade" => Ok((name, None)),
        "field" => {
            let field = parse_value_with(&name, input, SOFT_DELETE_USAGE, Ident::parse_any)?;
            Ok((name, Some(field)))
        }
        other => {
            let message = format!(
                "{}: `soft_delete(…)` accepts `cascade` and `field`",
                unknown_setting("setting", other, &["cascade", "field"])
            );
            Err(syn::Error::new_spanned(name, message))
        }
    }
}

/// Parses `scope = field`.
pub(crate) fn parse_scope(meta: &ParseNestedMeta<'_>) -> syn::Result<ManagedField> {
    let field = parse_value_with(&meta.path, meta.input, SCOPE_USAGE, Ident::parse_any)?;
    Ok(ManagedField {
        kind: ManagedKind::Scope,
        field,
    })
}

const VERSION_USAGE: &str =
    "`version` needs the name of a field: write `version = revision`, or `version` alone";
const SOFT_DELETE_USAGE: &str = "`soft_delete` stands alone, or with the name of a field, `soft_delete = removed_at`, or with settings, \
     `soft_delete(cascade, field = removed_at)`";
const SCOPE_USAGE: &str = "`scope` needs the name of a field: `scope = tenant`";
const TIMESTAMPS_USAGE: &str = "`timestamps` needs the names of fields: write `timestamps(created = made_at, updated = changed_at)`, \
     or `timestamps` alone";

fn parse_field(
    meta: &ParseNestedMeta<'_>,
    kind: ManagedKind,
    default_name: &str,
    usage: &str,
) -> syn::Result<ManagedField> {
    let (path, input) = (&meta.path, meta.input);
    let field = if input.peek(Token![=]) {
        parse_value_with(path, input, usage, Ident::parse_any)?
    } else {
        expect_end(input, usage)?;
        Ident::new(default_name, path.span())
    };
    Ok(ManagedField { kind, field })
}

/// Parses `timestamps`, or `timestamps(created = field, updated = field)` with one or both.
pub(crate) fn parse_timestamps(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<ManagedField>> {
    if !meta.input.peek(Paren) {
        expect_end(meta.input, TIMESTAMPS_USAGE)?;
        let field = |kind, name, span: Span| ManagedField {
            kind,
            field: Ident::new(name, span),
        };
        let span = meta.path.span();
        return Ok(vec![
            field(ManagedKind::Created, "created_at", span),
            field(ManagedKind::Updated, "updated_at", span),
        ]);
    }
    let settings = in_parentheses(meta, TIMESTAMPS_USAGE, |content| {
        content.parse_terminated(name_and_field, Token![,])
    })?;
    let (mut all, mut seen) = (Vec::new(), SeenSettings::default());
    for (name, field) in settings {
        seen.ensure_new(&name)?;
        let kind = match name.to_string().as_str() {
            "created" => ManagedKind::Created,
            "updated" => ManagedKind::Updated,
            other => {
                let message = format!(
                    "{}: `timestamps(…)` accepts `created` and `updated`",
                    unknown_setting("setting", other, &["created", "updated"])
                );
                return Err(syn::Error::new_spanned(name, message));
            }
        };
        all.push(ManagedField { kind, field });
    }
    if all.is_empty() {
        return Err(
            meta.error("`timestamps()` names no field: write `created = …`, `updated = …` or both")
        );
    }
    Ok(all)
}

/// Parses `name = field`.
fn name_and_field(input: ParseStream<'_>) -> syn::Result<(Ident, Ident)> {
    let name = input.call(Ident::parse_any)?;
    let field = parse_value_with(&name, input, TIMESTAMPS_USAGE, Ident::parse_any)?;
    Ok((name, field))
}
