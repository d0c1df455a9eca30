//! Fields that the framework writes: `version`, `timestamps`, `soft_delete`, `scope`.

use proc_macro2::Span;
use syn::{
    Attribute, Ident, Token, ext::IdentExt, meta::ParseNestedMeta, parse::ParseStream,
    spanned::Spanned, token::Paren,
};

use super::{Once, ends, in_parentheses, link::is_inverse, named, unknown, value_by};

/// A field that the framework writes.
pub(crate) struct Filled {
    pub(crate) what: What,
    /// The field: named by the setting, or the one that it means.
    pub(crate) field: Ident,
}

/// What the framework keeps in a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// How often the document has been written.
    Version,
    /// When it was inserted.
    Created,
    /// When it was written last.
    Updated,
    /// When it was deleted.
    Deleted,
    /// Whose it is.
    Scope,
    /// The `_id`, made of other fields.
    Id,
    /// The number of a document among those with the same before it in the `_id`.
    Number,
    /// What refers to it.
    Inverse,
    /// What it has of another document.
    Copy,
    /// What it is made of by those that refer to it.
    Tally,
    /// What is computed from other fields.
    Computed,
}

impl What {
    /// What a field's own attributes say that the framework keeps in it, be they right or not.
    pub(crate) fn said_by(attrs: &[Attribute]) -> Option<Self> {
        let is_said = |name| named(attrs, name).next().is_some();
        if is_said("computed") {
            Some(Self::Computed)
        } else if ["count", "sum", "latest"].into_iter().any(is_said) {
            Some(Self::Tally)
        } else if is_said("denormalize")
            || named(attrs, "snapshot").any(|attr| attr.meta.require_path_only().is_err())
        {
            Some(Self::Copy)
        } else {
            is_inverse(attrs).then_some(Self::Inverse)
        }
    }

    /// How to declare such a field, for a message.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Version => {
                "`version` keeps a count in a field: add `version: i64`, or name the field, `version = revision`"
            }
            Self::Deleted => {
                "`soft_delete` keeps a date in a field: add `deleted_at: Option<DateTime>`, or name the field, \
                 `soft_delete = removed_at`"
            }
            Self::Scope => {
                "`scope` names the field that says whose a document is: one value or a `Ref`, such as `tenant: TenantId`, and not \
                 the `_id`"
            }
            Self::Id | Self::Number => {
                "an `_id` is made of fields by `id = \"users/{name}\"`, where `{#number}` is one that the framework numbers"
            }
            Self::Computed => "what is computed follows from other fields, and from nothing else",
            Self::Copy => "what it has of another document is filled from there",
            Self::Tally => {
                "it is made of the documents that refer to this one, and of nothing else"
            }
            Self::Inverse => "an inverse is filled by the links to it, and by nothing else",
            Self::Created | Self::Updated => {
                "`timestamps` keeps dates in fields: add `created_at: DateTime` and `updated_at: DateTime`, or name those \
                 that there are, `timestamps(created = made_at, updated = changed_at)`"
            }
        }
    }
}

/// `version`, or `version = field`.
pub(crate) fn parse_version(meta: &ParseNestedMeta<'_>) -> syn::Result<Filled> {
    one(meta, What::Version, "version", VERSION)
}

/// `soft_delete`, or `soft_delete = field`.
pub(crate) fn parse_soft_delete(meta: &ParseNestedMeta<'_>) -> syn::Result<Filled> {
    one(meta, What::Deleted, "deleted_at", SOFT_DELETE)
}

/// `scope = field`.
pub(crate) fn parse_scope(meta: &ParseNestedMeta<'_>) -> syn::Result<Filled> {
    let field = value_by(&meta.path, meta.input, SCOPE, Ident::parse_any)?;
    Ok(Filled {
        what: What::Scope,
        field,
    })
}

const VERSION: &str =
    "in which field is the count? Name it, `version = revision`, or say `version` alone";
const SOFT_DELETE: &str =
    "in which field is the date? Name it, `soft_delete = removed_at`, or say `soft_delete` alone";
const SCOPE: &str = "whose are the documents? Name the field that says so: `scope = tenant`";
const TIMESTAMPS: &str = "in which fields are the dates? Name them, `timestamps(created = made_at, updated = changed_at)`, or say \
     `timestamps` alone";

fn one(meta: &ParseNestedMeta<'_>, what: What, otherwise: &str, say: &str) -> syn::Result<Filled> {
    let (path, input) = (&meta.path, meta.input);
    let field = if input.peek(Token![=]) {
        value_by(path, input, say, Ident::parse_any)?
    } else {
        ends(input, say)?;
        Ident::new(otherwise, path.span())
    };
    Ok(Filled { what, field })
}

/// `timestamps`, or `timestamps(created = field, updated = field)` with one or both.
pub(crate) fn parse_timestamps(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<Filled>> {
    if !meta.input.peek(Paren) {
        ends(meta.input, TIMESTAMPS)?;
        let field = |what, name, span: Span| Filled {
            what,
            field: Ident::new(name, span),
        };
        let span = meta.path.span();
        return Ok(vec![
            field(What::Created, "created_at", span),
            field(What::Updated, "updated_at", span),
        ]);
    }
    let said = in_parentheses(meta, TIMESTAMPS, |content| {
        content.parse_terminated(name_and_field, Token![,])
    })?;
    let (mut all, mut once) = (Vec::new(), Once::default());
    for (name, field) in said {
        once.check(&name)?;
        let what = match name.to_string().as_str() {
            "created" => What::Created,
            "updated" => What::Updated,
            other => {
                let message = format!(
                    "{}: `timestamps(…)` has `created` and `updated`",
                    unknown("setting", other, &["created", "updated"])
                );
                return Err(syn::Error::new_spanned(name, message));
            }
        };
        all.push(Filled { what, field });
    }
    if all.is_empty() {
        return Err(
            meta.error("`timestamps()` keeps nothing: say `created = …`, `updated = …` or both")
        );
    }
    Ok(all)
}

/// `name = field`.
fn name_and_field(input: ParseStream<'_>) -> syn::Result<(Ident, Ident)> {
    let name = input.call(Ident::parse_any)?;
    let field = value_by(&name, input, TIMESTAMPS, Ident::parse_any)?;
    Ok((name, field))
}
